#!/bin/sh
# The memory of the process's control group as a metric: thresholds in percent of the limit, in a real group of version 1; what is no percent.
. "$JEMALLOC_SRC/test/include/tap.sh"

[ -e "$LIB" ] || skip_all "no library"
grep -q '^#define CONFIG_PROF 1' "$BUILD/src/config.h" || skip_all "no profiler"
cat >fill.c <<'C'
/* fill MIB: takes so many MiB, one in 5 ms, and keeps them */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void *volatile kept;
int
main(int argc, char **argv) {
	for (int i = 0; argc > 1 && i < atoi(argv[1]); i++) {
		kept = malloc(1 << 20);
		memset(kept, 1, 1 << 20);
		usleep(5000);
	}
	return 0;
}
C
$CC -O1 -o fill fill.c || {
	echo "Bail out! fill does not compile"
	exit 1
}

# run OPTIONS MIB: in the group, if there is one
run() {
	rm -f ./p.*
	(
		[ -z "$group" ] || sh -c "echo \$PPID >'$group/cgroup.procs'"
		MALLOC_CONF="prof:true,prof_dump_min_gap_ms:0,prof_prefix:$PWD/p,$1" LD_PRELOAD=$LIB ./fill "$2" 2>err
	)
}
value() { sed -n "s/^# jemalloc.$1=//p" "$2"; }
first() { ls ./p.*.h0.heap 2>/dev/null; }

group=
run prof_final:true 1
[ -z "$(value cgroup "$(ls ./p.*.f.heap)")" ]
ok $? "without the metric the group's files are not read"
run prof_threshold_highwater:50% 1
grep -q 'Invalid conf value: prof_threshold_highwater:50%: percent are of the limit of highwater_metric:cgroup or, with rss, of the machine' err
ok $? "percent of the allocated bytes are none" "$(cat err)"
run prof_highwater_metric:rss,prof_threshold_highwater:100% 1
[ ! -s err ] && [ -z "$(first)" ]
ok $? "percent of the machine" "$(cat err)"

own=$(sed -n 's/.*:memory:\(.*\)/\1/p' /proc/self/cgroup)
top=/sys/fs/cgroup/memory
[ -n "$own" ] && [ -d "$top$own" ] || own=
group=$top$own/jemalloc.test.$$
if ! mkdir "$group" 2>/dev/null || ! echo 67108864 2>/dev/null >"$group/memory.limit_in_bytes"; then
	rmdir "$group" 2>/dev/null
	skip "no control group of version 1 can be made here: $top"
	done_testing
	exit
fi
trap 'cd /; rmdir "$group" 2>/dev/null; rm -rf "$W"' EXIT
run prof_highwater_metric:cgroup,prof_threshold_highwater:50% 50
at=$(first)
[ -n "$at" ]
ok $? "half of the limit of the group: a profile" "$(cat err)"
is "$(value metric "$at")" cgroup "its metric"
is "$(value cgroup_limit "$at")" 67108864 "it tells the limit"
[ "$(value metric_value "$at")" -ge 33554432 ] && [ "$(value metric_value "$at")" -lt 67108864 ]
ok $? "at its half" "$(value metric_value "$at")"
[ "$(value cgroup "$at")" -gt 16777216 ]
ok $? "and the memory of the group" "$(value cgroup "$at")"
run prof_highwater_metric:cgroup,prof_threshold_highwater:90% 20
[ -z "$(first)" ] && [ ! -s err ]
ok $? "nine tenths are not reached: none" "$(cat err)"
run prof_highwater_metric:cgroup,prof_threshold_highwater:20M 50
[ "$(value metric_value "$(first)")" -ge 20971520 ]
ok $? "a threshold in bytes"
echo -1 >"$group/memory.limit_in_bytes"
group_of_limits=$(cat "$top$own/memory.limit_in_bytes")
if [ "$group_of_limits" -gt 4611686018427387904 ]; then
	run prof_highwater_metric:cgroup,prof_threshold_highwater:50% 1
	grep -q 'prof_threshold_highwater:50%: the control group of this process has no limit of memory that it can read' err
	ok $? "no limit, no percent of it" "$(cat err)"
else
	skip "the groups above have a limit"
fi
done_testing
