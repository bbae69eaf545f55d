#!/bin/sh
# Ten thousand threads alive, of which each made a few small allocations, cost hardly more memory than on
# an allocator that has none of its own; as many that came and went leave nothing; profiles meanwhile.
. "$JEMALLOC_SRC/test/include/tap.sh"

THREADS=10000
ROUNDS=10
# KB of metadata that may come on top while the second ten thousand come and go: 64 bytes for each. What is kept for a thread is
# several hundred bytes. The first ones are not counted: tables of the profiler and stocks of the bins find their size with them.
LEFT=640

compile many "$SRC/test/integration/aid/many.c"
compile stub.so "$SRC/test/integration/aid/stub.c" -shared -fPIC -fno-builtin

# live NAME COMMAND...: runs it; its output in NAME. Skips the rest if there may not be so many threads.
live() {
	name=$1
	shift
	"$@" >"$name" 2>&1
	rc=$?
	if [ $rc -eq 3 ]; then
		skip "this machine does not allow $THREADS threads: $(grep '^thread' "$name")"
		done_testing
	fi
	ok $rc "$name: $THREADS threads, and $ROUNDS thousand more come and go" "exit status $rc" "$(cat "$name")"
	diag "$name: $(tr '\n' ',' <"$name")"
}

# of NAME STAGE FIELD: KB
of() {
	awk -v stage="$2" -v field="$3" '$1 == stage { for (i = 2; i < NF; i += 2) if ($i == field) print $(i + 1) }' "$1"
}

# most LESS MORE KB NAME
most() {
	[ "$(($2 - $1))" -le "$3" ]
	ok $? "$4 ($1 -> $2 KB)" "more than $3 KB more"
}

live stub env LD_PRELOAD="$W/stub.so" ./many $THREADS $ROUNDS
live ours env LD_PRELOAD="$LIB" ./many $THREADS $ROUNDS
most "$(of stub alive rss)" "$(of ours alive rss)" 25600 "alive: memory next to that of a stub"
most "$(of ours later metadata)" "$(of ours end metadata)" $LEFT "come and gone: metadata does not grow"
most "$(of ours later rss)" "$(of ours end rss)" 8192 "come and gone: memory does not grow"

if [ "$(asks config.prof)" = true ]; then
	MALLOC_CONF=prof:true,lg_prof_sample:0
	export MALLOC_CONF
	live profiled env LD_PRELOAD="$LIB" ./many $THREADS $ROUNDS "$W/many.heap"
	unset MALLOC_CONF
	most "$(of profiled later metadata)" "$(of profiled end metadata)" $LEFT "come and gone, each a sample: metadata does not grow"
	most "$(of profiled later rss)" "$(of profiled end rss)" 8192 "come and gone, each a sample: memory does not grow"
	grep -q '^MAPPED_LIBRARIES:' many.heap
	ok $? "a profile that was written meanwhile is whole"
else
	skip "no profiler in this build"
fi
done_testing
