#!/bin/sh
# Thresholds set from outside: jeprofctl set and start on a running program that allocates a known course each
# time it is told to; what it refuses changes nothing.
. "$JEMALLOC_SRC/test/include/tap.sh"

CTL=$BUILD/bin/jeprofctl
[ -x "$CTL" ] || skip_all "built without the profiler"

cat >course.c <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *kept[400];

int
main(void)
{
	char line[64];

	/* A word on each line of the input is a course; each is answered when it is done. */
	setvbuf(stdin, NULL, _IONBF, 0);
	for (;;) {
		size_t n = 0;

		while (n + 1 < sizeof(line) && read(0, line + n, 1) == 1 && line[n] != '\n')
			n++;
		if (n == 0)
			return 0;
		line[n] = '\0';
		if (strcmp(line, "churn") == 0) { /* 40 MB */
			for (int i = 0; i < 1000; i++)
				free(memset(malloc(40000), 1, 1));
		} else if (strcmp(line, "grow") == 0) { /* to 34 MiB */
			for (int i = 0; i < 350; i++)
				kept[i] = memset(malloc(100000), 1, 1);
		} else if (strcmp(line, "shrink") == 0) {
			for (int i = 0; i < 350; i++) {
				free(kept[i]);
				kept[i] = NULL;
			}
		} else if (strcmp(line, "large") == 0) {
			free(memset(malloc((3 << 20) - 1), 1, 1));
			free(memset(malloc(3 << 20), 1, 1));
		} else if (strcmp(line, "beat") == 0) {
			for (int i = 0; i < 10; i++)
				free(memset(malloc(100000), 1, 1));
		}
		if (write(1, "done\n", 5) != 5)
			return 1;
	}
}
END
$CC -w -g -O1 -fno-builtin-malloc -fno-builtin-free -o course course.c || exit 1

mkfifo in out
MALLOC_CONF=prof_dump_min_gap_ms:0 LD_PRELOAD=$LIB ./course <in >out 2>said &
pid=$!
exec 3>in 4<out

course() {
	echo "$1" >&3
	read -r answer <&4
}

# ctl ARGS
ctl() {
	out=$("$CTL" "$@" --wait 60s 2>err)
	rc=$?
}

# how_many KIND
how_many() {
	n=0
	for f in jeprof.*."$1"[0-9]*.heap; do
		[ -f "$f" ] && n=$((n + 1))
	done
	echo $n
}

# value KIND KSEQ KEY
value() {
	sed -n "s/^# jemalloc.$3=//p" jeprof.*."$1$2".heap
}

# within NUMBER LOW HIGH NAME
within() {
	[ "$1" -ge "$2" ] && [ "$1" -le "$3" ]
	ok $? "$4" "got $1, want $2 to $3"
}

# The first request is answered at a heartbeat; then the session's thread runs and answers.
course beat
"$CTL" start $pid -q --wait 60s >got 2>err &
asker=$!
while kill -0 $asker 2>/dev/null; do
	course beat
done
wait $asker
is "$? $(cat got)" "0 session 1" "start" "$(cat err)"

ctl set $pid --alloc 8M
is "$rc" 0 "set --alloc 8M" "$(cat err)"
course churn
is "$(how_many a)" 4 "40 MB: four profiles"
is "$(value a 0 metric) $(value a 0 kind)" "alloc alloc" "the metric is in the file"
within "$(value a 0 metric_value)" 8388608 8500000 "and the value"
ctl status $pid
has "$out" "8388608" "status shows it" "$(cat err)"
ctl set $pid --alloc 0
course churn
is "$(how_many a)" 4 "--alloc 0: off"

ctl set $pid --large 3M
is "$rc" 0 "set --large 3M" "$(cat err)"
course large
is "$(how_many l)" 1 "one of two requests"
is "$(value l 0 metric) $(value l 0 metric_value)" "large 3145728" "metric and value"
ctl set $pid large:0

ctl set $pid --highwater 16M --step 8M --metric allocated
is "$rc" 0 "set --highwater 16M --step 8M --metric allocated" "$(cat err)"
course grow
is "$(how_many h)" 3 "16, 24, 32 MiB"
is "$(value h 0 metric)" "allocated" "metric"
within "$(value h 0 metric_value)" 16777216 17000000 "value of the first"
within "$(value h 1 metric_value)" 25165824 25600000 "value of the second"
course shrink
course grow
is "$(how_many h)" 3 "the mark stands"
ctl rearm $pid
is "$rc" 0 "rearm" "$(cat err)"
course shrink
course grow
n=$(how_many h)
within "$n" 4 6 "it counts again"
course shrink
ctl set $pid --highwater 0

ctl set $pid --every 50ms
is "$rc" 0 "set --every 50ms" "$(cat err)"
i=0
while [ "$(how_many t)" -lt 2 ] && [ $i -lt 2000 ]; do
	sleep 0.1
	i=$((i + 1))
done
ctl set $pid --every 0
within "$(how_many t)" 2 1000 "timer dumps of a program that waits"
is "$(value t 0 metric)" "time_ms" "metric"
within "$(value t 0 metric_value)" 50 60000 "value"

# ---- what is refused changes nothing
ctl set $pid --alloc 5M
for bad in alloc:x highwater_metric:moon alloc: highwater:1T nothing:1 time_ms:1K large:-1 "alloc:7M,large:x"; do
	ctl set $pid "$bad"
	[ "$rc" -ne 0 ] && [ -s err ]
	ok $? "set $bad is refused with a reason" "$rc" "$(cat err)"
done
ctl status $pid
has "$out" 5242880 "the old value stays"

ctl stop $pid -q
is "$rc" 0 "stop" "$(cat err)"
is "$(sed -n 's/^# jemalloc.suppressed=//p' jeprof.*.s0.heap)" 0 "nothing was left out"
exec 3>&-
wait $pid
is $? 0 "the program ended well" "$(cat said)"
done_testing
