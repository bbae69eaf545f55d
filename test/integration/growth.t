#!/bin/sh
# What an operation costs when there is more of something: blocks, threads, arenas, bytes in a block.
# Instructions under callgrind, and metadata for each live byte; the figures of all sizes: make bench-growth.
. "$JEMALLOC_SRC/test/include/tap.sh"
[ "$(asks config.debug)" = false ] || skip_all "a debug build is not measured"
command -v valgrind >/dev/null || skip_all "no valgrind"

compile grow "$SRC/test/stress/bench_growth.c" -O2

# cost NARENAS WHAT N OPS: instructions for each operation
cost() {
	MALLOC_CONF=narenas:$1 LD_PRELOAD="$LIB" valgrind --tool=callgrind --toggle-collect='operate_*' \
		--callgrind-out-file=/dev/null ./grow "$2" "$3" "$4" 2>&1 |
		awk -v ops="$4" '/Collected/ { printf "%.0f", $NF / ops }'
}

# flat FEW MANY PERCENT NAME
flat() {
	[ -n "$1" ] && [ -n "$2" ] && [ "$1" -gt 0 ] && [ "$(($2 * 100))" -le "$(($1 * $3))" ]
	ok $? "$4: $1 and $2 instructions" "more than $3 %"
}

flat "$(cost 4 blocks 10000 50000)" "$(cost 4 blocks 300000 50000)" 130 "10 000 and 300 000 live blocks"
flat "$(cost 4 threads 1 100000)" "$(cost 4 threads 50 100000)" 160 "1 and 50 threads"
flat "$(cost 1 threads 20 100000)" "$(cost 256 threads 20 100000)" 150 "1 and 256 arenas"
# without decay, which looks at all arenas as time goes by: the more often, the slower the machine is
kept=64,dirty_decay_ms:-1,muzzy_decay_ms:-1
flat "$(cost $kept mixed 1 40000)" "$(cost $kept mixed 64 40000)" 400 "blocks of 1 and of 64 arenas, freed by one thread"
flat "$(cost 4 size 262144 20000)" "$(cost 4 size 4194304 20000)" 150 "blocks of 256 KiB and 4 MiB"
# Above 4 MiB a block passes no thread cache: the slow path, without a call of the system.
large=$(cost 4 size 16777216 5000)
flat "$(cost 4 size 5242880 5000)" "$large" 150 "blocks of 5 MiB and 16 MiB"
flat "$large" "$(cost 4 size 1073741824 5000)" 150 "blocks of 16 MiB and 1 GiB"
[ "${large:-10000}" -le 2000 ]
ok $? "blocks of 16 MiB: $large instructions, at most 2000"

LD_PRELOAD="$LIB" ./grow blocks 300000 1 >out
permille=$(awk '$1 == "live" { live = $2 } $1 == "metadata" { printf "%.0f", $2 * 1000 / live }' out)
[ "${permille:-1000}" -le 50 ]
ok $? "300 000 live blocks: metadata is $permille thousandths of them, at most 50" "$(cat out)"
done_testing
