#!/bin/sh
# Each system call of the allocator fails at its k-th time, once or for ever: the program
# sees NULL and ENOMEM or nothing at all, but does not crash, hang or lose contents.
. "$JEMALLOC_SRC/test/include/tap.sh"
[ "$(uname -m)" = x86_64 ] || skip_all "the failing library is for x86-64"
A=$SRC/test/integration/aid
$CC -shared -fPIC -O1 -w -o failing.so "$A/failing.c" -ldl || exit 1
compile bear "$A/bear.c" || exit 1
runs "without failures" env LD_PRELOAD="$W/failing.so:$LIB" ./bear
conf_abort=abort:false,abort_conf:false

# try CALL FIRST_CALLS CONF PROGRAM...: every k of the list, once, three times and for ever
try() {
	call=$1
	ks=$2
	conf=$3
	shift 3
	n=0
	crashed=0
	for k in $ks; do
		for how in 1 3 0; do
			n=$((n + 1))
			env FAIL_CALL=$call FAIL_AT=$k FAIL_FOR=$how MALLOC_CONF="$conf_abort$conf" \
			    LD_PRELOAD="$W/failing.so:$LIB" timeout 400 "$@" >out 2>&1
			rc=$?
			# 127 and 1: the dynamic loader or the C library gave up before main
			if [ $rc -ne 0 ] && { [ $rc -ne 127 ] && [ $rc -ne 1 ] || [ "$call" != mmap ]; }; then
				crashed=$((crashed + 1))
				diag "$call fails at $k, $how times: exit status $rc"
				diag "$(head -c 500 out)"
			fi
		done
	done
	ok "$([ $crashed -eq 0 ]; echo $?)" "$call: $n runs ($conf)"
}

short="1 2 5"
long="1 2 3 5 9 15 50"
if [ -n "$TEST_FULL" ]; then
	short="1 2 3 5 9"
	long="1 2 3 4 5 6 7 8 9 10 12 15 20 30 50 100"
fi
try mmap "$long" "" ./bear
try mmap "$short" ",retain:false,dirty_decay_ms:0" ./bear
try mmap "$short" ",tcache:false,narenas:1" ./bear
try munmap "$short" ",retain:false,dirty_decay_ms:0" ./bear
try madvise "$short" ",dirty_decay_ms:0,muzzy_decay_ms:0" ./bear
try madvise "$short" ",dirty_decay_ms:0,muzzy_decay_ms:1000" ./bear
try mprotect "$short" "" ./bear
try prctl "$short" "" ./bear
if [ "$(asks config.prof)" = true ]; then
	try mmap "$long" ",prof:true,lg_prof_sample:10" ./bear dump
fi
done_testing
