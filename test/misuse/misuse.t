#!/bin/sh
# Each crime of this directory is run, and must end as its line of table.txt says.  What is told is told in one sentence.
# Then all are run while another thread forks: their blocks are the shelter's, or their releases wait (see crime.h).
. "$JEMALLOC_SRC/test/include/tap.sh"

table=$SRC/test/misuse/table.txt
column=2
! grep -q '^#define CONFIG_OPT_SAFETY_CHECKS 1' "$BUILD/src/config.h" || column=3
# A debug build fills blocks with junk, so nothing is read as zero there; what the default build tells, it tells too.
is_debug=0
! grep -q '^#define CONFIG_DEBUG 1' "$BUILD/src/config.h" || { is_debug=1; column=2; }

# How the crime $1 has ended: told, stop, zero or -; late: not at all; open: there was no window.  And what it said.
look_at() {
	read -r status <"RC.$1"
	said=
	read -r said <"OUT.$1"
	case $status:$said in
	134:"<jemalloc>: "[a-z]*) ending=told ;;
	132:* | 134:* | 139:*) ending=stop ;; # 132: a trap of -fsanitize=undefined
	42:*) ending=zero ;;
	99:*) ending=open ;;
	124:*) ending=late ;;
	*) ending=- ;;
	esac
}

# Whether that is what the table wants; "stop" is content with a sentence too.
is_as_wanted() {
	case "$1:$2" in
	*:open | *:late) return 1 ;;
	stop:told | -:*) return 0 ;;
	zero:*) [ "$2" = zero ] || [ $is_debug = 1 ] ;;
	*) [ "$1" = "$2" ] ;;
	esac
}

# Runs the crimes of standard input, four at a time; of each OUT.NAME and its exit status in RC.NAME are left. $1: the window.
run_crimes() {
	xargs -P 4 -I "{}" sh -c 'ulimit -c 0; test -z "$1" || export CRIME_WINDOW="$1"; program=$2/test/misuse/$3
		test -x "$program" || program=./$3
		timeout 200 "$program" >"OUT.$3" 2>&1; echo $? >"RC.$3"' sh "$1" "$BUILD" "{}"
}

# The ending of a crime that was run is that of its line, and told in one sentence.  $2: what is said of it.
judge() {
	look_at "$1"
	ok "$(is_as_wanted "$want" "$ending"; echo $?)" "$1$2: $ending $said" "wanted: $want"
	[ "$ending" != told ] || is "$(grep -c '^<jemalloc>' "OUT.$1")" 1 "$1$2: one sentence"
}

crimes=
for source in "$SRC"/test/misuse/*.c; do
	crime=${source##*/}
	crime=${crime%.c}
	[ -x "$BUILD/test/misuse/$crime" ] || compile_linked "./$crime" "$source" || continue
	crimes="$crimes $crime"
done
is "$(printf '%s\n' $crimes | sort)" "$(awk '!/^#/ { print $1 }' "$table" | sort)" "each crime has its line in the table"

# $1: the column; $2: the window; $3: what is said of it.  A/B: what holds for this build.
run_column() {
	awk -v k="$1" -v c=$column '!/^#/ { n = split($k, w, "/"); print $1, n == 1 ? $k : w[c - 1] }' "$table" | grep -v ' none$' >asked
	cut -d ' ' -f 1 asked | run_crimes "$2"
	while read -r crime want; do
		judge "$crime" "$3"
		all=$((all + 1))
		[ "$ending" = - ] || n=$((n + 1))
		[ "$want" = - ] || wanted=$((wanted + 1))
	done <asked
	diag "$n of $all are noticed, $wanted are to be$3"
	n=0
	all=0
	wanted=0
}

n=0
all=0
wanted=0
run_column $column "" ""
run_column 4 shelter " (shelter)"
run_column 5 deferred " (deferred)"
is "$(awk '!/^#/ && NF < 6 && ($4 ~ /^(-|none)/ || $5 ~ /^(-|none)/)' "$table")" "" "what a window does not end has its reason in the table"
# The 30 kinds that public suites have, each as one program.
kinds="double_free_small double_free_large double_free_later double_free_large_later delete_type_size_mismatch
overflow_small_1 overflow_small_8 overflow_large_1 overflow_large_8 string_overflow invalid_free_protected invalid_free_unprotected
invalid_free_small_region invalid_free_small_region_far unaligned_free_small unaligned_free_large uninitialized_free
read_after_free_small read_after_free_large write_after_free_small write_after_free_large write_after_free_small_reuse
write_after_free_large_reuse uninitialized_read_small uninitialized_read_large uninitialized_realloc read_zero_size
write_zero_size usable_freed_small usable_uninitialized"
stopped=$(for k in $kinds; do awk -v name="$k" -v c=$column '$1 == name && $c != "-"' "$table"; done | wc -l)
least=16
[ $column = 2 ] || least=28
ok "$([ "$stopped" -ge $least ]; echo $?)" "$stopped of the 30 public kinds are in the table, at least $least"
# Thirty single faults, those of real reports and of other suites.
kinds="double_free_small double_free_medium double_free_large double_free_cached_large double_free_later double_free_threads
free_after_realloc realloc_freed realloc_freed_large usable_freed_small usable_freed_large free_static free_stack free_inside_small
free_inside_large free_aligned_inside unaligned_free_small free_sized_mismatch delete_type_size_mismatch overflow_small_1 overflow_small_8
overflow_small_16 overflow_calloc string_overflow overflow_large_1 overflow_large_16 underflow_small_1 underflow_large_1
write_after_free_small write_after_free_large"
is "$(printf '%s\n' $kinds | sort -u | wc -l)" 30 "thirty faults"
stopped=$(for k in $kinds; do awk -v name="$k" -v c=$column '$1 == name && $c != "-"' "$table"; done | wc -l)
least=21
[ $column = 2 ] || least=30
ok "$([ "$stopped" -ge $least ]; echo $?)" "$stopped of thirty faults are in the table, at least $least"
done_testing
