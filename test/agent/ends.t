#!/bin/sh
# How a process ended, as jeprofd tells it (ends.c).
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
$CC -std=gnu11 -D_GNU_SOURCE -g -O1 -I"$SRC/src" -I"$SRC/bin" -I"$SRC/bin/agent" -o ends "$SRC/test/agent/ends.c" || echo "Bail out! test/agent/ends.c"
runs "kills that a cgroup or the machine counts, and a status that is hidden" ./ends
done_testing
