#!/bin/sh
# Parts of jeprofd without a process (parts.c), and its tables of names (tables.c).
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
$CC -std=gnu11 -D_GNU_SOURCE -DJEPROFD_VERSION='"1"' -g -O1 -I"$SRC/src" -I"$SRC/bin" -I"$SRC/bin/agent" -o parts "$SRC/test/agent/parts.c" "$SRC/bin/agent/text.c" "$SRC/bin/client/elf.c" "$SRC/bin/client/cgroup.c" "$SRC/bin/client/clock.c" "$SRC/bin/client/process.c" || echo "Bail out! test/agent/parts.c"
runs "cgroups, users, and what there is no memory for" ./parts
$CC -std=gnu11 -D_GNU_SOURCE -g -O1 -I"$SRC/src" -I"$SRC/bin" -o tables "$SRC/test/agent/tables.c" "$SRC/bin/agent/names/table.c" || echo "Bail out! test/agent/tables.c"
runs "tables of names: each row, frame and string; heads and files that are refused" ./tables
done_testing
