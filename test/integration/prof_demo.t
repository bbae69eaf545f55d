#!/bin/sh
# The worked examples of heap profiling, as a user would type them: a leak found at exit,
# dumps by interval and at new maxima, two dumps by the program and their difference,
# profiling switched on later. Both readers, this project's and Debian's, say the same.
. "$JEMALLOC_SRC/test/include/tap.sh"
[ "$(asks config.prof)" = true ] || skip_all "no profiler in this build"
A=$SRC/test/integration/aid
compile leak "$A/leak.c" -rdynamic || exit 1
mkdir empty
readers=$BUILD/bin/jeprof
if command -v jeprof >/dev/null && command -v addr2line >/dev/null; then
	readers="$readers $(command -v jeprof)"
fi

# bytes FILE: live bytes of the head line
bytes() {
	awk '$1 == "t*:" { print $3; exit }' "$1"
}

# newest KIND: the newest dump of a kind
newest() {
	for f in *."$1"*.heap; do
		[ -f "$f" ] && echo "$f"
	done | tail -n 1
}

# how_many KIND
how_many() {
	n=0
	for f in *."$1"*.heap; do
		[ -f "$f" ] && n=$((n + 1))
	done
	echo $n
}

# function_bytes READER ARGUMENTS...: "bytes function" per line, by the reader's flat text
function_bytes() {
	reader=$1
	shift
	timeout 400 "$reader" --text --show_bytes "$@" 2>err | awk '$2 ~ /%$/ { print $1, $6 }'
}

in_dir() {
	mkdir -p "$1" && cd "$1" || exit 1
}

# --- a leak, found at exit
in_dir "$W/leak.d"
MALLOC_CONF=prof_leak:true,lg_prof_sample:0,prof_final:true preloaded ../leak >out 2>&1
ok $? "prof_leak:true,lg_prof_sample:0,prof_final:true" "$(cat out)"
has "$(cat out)" "<jemalloc>: Leak approximation summary: ~" "the summary is printed"
has "$(cat out)" "<jemalloc>: Run jeprof on dump output for leak detail" "and what to do next"
is "$(how_many f)" 1 "one final dump"
f=$(newest f)
has "$(head -n 1 "$f")" "heap_v2/1" "its first line"
# 150 blocks of 10240 and 500 of 112, and perhaps some blocks of the C library
b=$(bytes "$f")
ok "$([ "$b" -ge 1592000 ] && [ "$b" -lt 1700000 ]; echo $?)" "live bytes $b are what leaked"
ok "$(grep -q '^MAPPED_LIBRARIES:$' "$f"; echo $?)" "the map of the process is in it"
for reader in $readers; do
	function_bytes "$reader" ../leak "$f" >top
	lot=$(awk '$2 == "leak_a_lot" { print $1 }' top)
	little=$(awk '$2 == "leak_a_little" { print $1 }' top)
	is "${lot:-none} ${little:-none}" "1536000 56000" "$reader: bytes by function" \
	    "$(cat top err)"
	ok "$(grep -q leak_nothing top; [ $? -ne 0 ]; echo $?)" "$reader: what was freed is not shown"
done
MALLOC_CONF=prof_leak_error:true,lg_prof_sample:0,prof_final:true,prof_prefix:err \
    LD_PRELOAD="$LIB" ../leak >out 2>&1
is $? 1 "prof_leak_error:true: exit status 1"
has "$(cat out)" "Exiting with error code because memory leaks were detected" "and it says why"
f=$(ls err.*.f.heap)
is "$(bytes "$f")" "$b" "and the file is whole"
printf '%s\n' '#include <stdio.h>' '#include <stdlib.h>' 'void *volatile p;' \
    'static void last(void) { puts("last words"); }' \
    'int main(void) { atexit(last); p = malloc(5000); p = NULL; puts("result"); return 0; }' >says.c
ok "$($CC -o says says.c 2>&1; echo $?)" "a program that prints to a pipe"
MALLOC_CONF=prof_leak_error:true,lg_prof_sample:0,prof_final:true,prof_prefix:says \
    LD_PRELOAD="$LIB" ./says >out 2>err
is "$? $(tr '\n' ' ' <out)" "1 result last words " "what it has printed is not lost, nor its handlers"
loader=$(readelf -lW says | sed -n 's/.*interpreter: \(.*\)\]/\1/p')
MALLOC_CONF=prof:true,lg_prof_sample:0,prof_final:true,prof_prefix:loaded \
    LD_PRELOAD="$LIB" "$loader" ./says >out 2>err
is "$(sed -n 's/^# jemalloc.exe=//p' loaded.*.f.heap)" "$(pwd -P)/says" \
    "started by a named loader: the program is told, not the loader"
printf '%s\n' '#include <jemalloc/jemalloc.h>' '#include <stdlib.h>' 'int main(void) {' \
    'int err = mallctl("prof.session.start", NULL, NULL, NULL, 0); free(malloc(5000));' \
    'return err != 0 ? err : mallctl("prof.session.stop", NULL, NULL, NULL, 0); }' >late.c
compile_linked late late.c
MALLOC_CONF=prof_prefix:late "$loader" ./late 2>err
ok $? "with a session only"
is "$(sed -n 's/^# jemalloc.exe=//p' late.*.s0.heap)" "$(pwd -P)/late" "it is told too"

# --- dumps by interval
in_dir "$W/interval.d"
MALLOC_CONF=prof:true,lg_prof_interval:20,lg_prof_sample:10 preloaded ../leak >out 2>&1
ok $? "lg_prof_interval:20" "$(cat out)"
n=$(how_many i)
ok "$([ "$n" -ge 1 ] && [ "$n" -le 3 ]; echo $?)" "2 MB were allocated: $n dumps"
is "$(ls | grep -c '\.i0\.heap$')" 1 "they are numbered from 0"

# --- dumps at new maxima
in_dir "$W/gdump.d"
MALLOC_CONF=prof:true,prof_gdump:true,lg_prof_sample:10 preloaded ../leak >out 2>&1
ok $? "prof_gdump:true" "$(cat out)"
ok "$([ "$(how_many u)" -ge 1 ]; echo $?)" "$(how_many u) dumps at new maxima"

# --- two dumps by the program, and their difference
in_dir "$W/twice.d"
mkdir sub
MALLOC_CONF=prof:true,lg_prof_sample:0,prof_prefix:sub/two preloaded ../leak dump >out 2>&1
ok $? "two calls of prof.dump with prof_prefix" "$(cat out)"
is "$(cat out)" "" "both worked"
one=$(ls sub/two.*.m0.heap)
two=$(ls sub/two.*.m1.heap)
ok "$([ -s "$one" ] && [ -s "$two" ]; echo $?)" "$one and $two"
case $one in
sub/two.*.[0-9]*T[0-9]*Z.0.m0.heap) ok 0 "the name has a time stamp" ;;
*) ok 1 "the name has a time stamp" "$one" ;;
esac
for reader in $readers; do
	function_bytes "$reader" --base="$one" ../leak "$two" >top
	lot=$(awk '$2 == "leak_a_lot" { print $1 }' top)
	little=$(awk '$2 == "leak_a_little" { print $1 }' top)
	is "${lot:-none} ${little:-none}" "512000 56000" "$reader --base: what came between" \
	    "$(cat top err)"
done
MALLOC_CONF=prof:true,lg_prof_sample:0,prof_dump_timestamp:false,prof_prefix:plain \
    LD_PRELOAD="$LIB" ../leak dump >out 2>&1
is "$(ls | grep -c '^plain\.[0-9]*\.[01]\.m[01]\.heap$')" 2 "prof_dump_timestamp:false: upstream's names"

# --- off at start, on by mallctl
in_dir "$W/later.d"
MALLOC_CONF=prof:true,prof_active:false,lg_prof_sample:0 preloaded ../leak later >out 2>&1
ok $? "prof_active:false, then on" "$(cat out)"
is "$(cat out)" "" "the switch and the dump worked"
for reader in $readers; do
	function_bytes "$reader" ../leak "$(newest m)" >top
	lot=$(awk '$2 == "leak_a_lot" { print $1 }' top)
	is "${lot:-none}" 1536000 "$reader: only what came after the switch" "$(cat top err)"
done

# --- no profiling, no files
in_dir "$W/none.d"
preloaded ../leak >out 2>&1
MALLOC_CONF=prof:true preloaded ../leak >out 2>&1
MALLOC_CONF=prof:true,prof_final:true,prof_prefix: preloaded ../leak >out 2>&1
rm -f out
is "$(ls)" "" "no dump without a reason"
cd "$W" || exit 1
done_testing
