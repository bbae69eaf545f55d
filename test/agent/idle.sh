#!/usr/bin/env bash
# CPU of jeprofd beside 100 processes that do nothing, and nothing else: to be run as the first process of a namespace of processes with a
# /proc of its own. usage: unshare --pid --fork --mount-proc test/agent/idle.sh BUILD DIRECTORY SECONDS
# Prints how many processes it found, the microseconds of CPU and those of the time.
set -euo pipefail
build=$1 seconds=$3
cd "$2"
printf '#include <stdlib.h>\n#include <unistd.h>\nint main(void) { char *volatile p = malloc(1000); free(p); for (;;) pause(); }\n' >idle.c
[ -x idle ] || gcc -o idle idle.c
for _ in $(seq 100); do LD_PRELOAD=$build/lib/libjemalloc.so.2 ./idle & done
"$build/bin/jeprofd" --listen 127.0.0.1:0 2>idle.log &
agent=$!
for _ in $(seq 100); do
	! grep -q 'listens on' idle.log || break
	sleep 0.1
done
url=$(sed -n 's/.*listens on //p' idle.log)
sleep 35 # two looks: all are known then
found=$(curl -s "$url/targets" | grep -c '"comm":"idle"')
python3 -c 'import sys, time
clock = (~int(sys.argv[1]) << 3) | 2
cpu, at = time.clock_gettime_ns(clock), time.monotonic_ns()
time.sleep(int(sys.argv[2]))
print(sys.argv[3], (time.clock_gettime_ns(clock) - cpu) // 1000, (time.monotonic_ns() - at) // 1000)' $agent "$seconds" "$found"
