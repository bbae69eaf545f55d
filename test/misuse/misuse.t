#!/bin/sh
# Each crime of this directory is run: those that every build must notice end by abort with
# one fixed sentence; of the others it is only counted how many are noticed.
. "$JEMALLOC_SRC/test/include/tap.sh"

noticed_always="double_free_aligned double_free_threads realloc_static double_free_large double_free_large_later double_free_later double_free_medium
double_free_much_later double_free_small free_aligned_inside free_code free_inside_large
free_inside_medium free_inside_small free_nowhere free_odd free_stack free_static realloc_freed
realloc_inside"
n=0
all=0
others=""
for source in "$SRC"/test/misuse/*.c; do
	crime=$(basename "$source" .c)
	program=$BUILD/test/misuse/$crime
	[ -x "$program" ] || program=./$crime
	[ -x "$program" ] || compile_linked "$program" "$source" || continue
	sh -c 'ulimit -c 0; timeout 200 "$1"; exit $?' sh "$program" >out 2>&1
	rc=$?
	all=$((all + 1))
	noticed=1
	if [ $rc -eq 134 ] && grep -q '^<jemalloc>: [a-z]' out; then
		noticed=0
		n=$((n + 1))
	fi
	case " $(echo $noticed_always) " in
	*" $crime "*) ok $noticed "$crime: $(head -n 1 out)" "exit status $rc" ;;
	*) others="$others $crime($rc)" ;;
	esac
	is "$(grep -c '^<jemalloc>' out)" "$((1 - noticed))" "$crime: no more than one sentence"
done
wanted=20
! grep -q '^#define CONFIG_OPT_SAFETY_CHECKS 1' "$BUILD/src/config.h" || wanted=24
ok "$([ $n -ge $wanted ]; echo $?)" "$n of $all are noticed, $wanted are to be; not asked for:$others"
done_testing
