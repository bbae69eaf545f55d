#!/bin/sh
# jeprofd leaves a start to a process that is idle; if nobody scrapes it any more, the start does not begin later. Many that are idle
# are found soon.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"

cat >quiet.c <<'C'
/* quiet: allocates a little, then, for each byte on its standard input, enough for many heartbeats */
#include <stdlib.h>
#include <unistd.h>
void *volatile last;
int
main(void) {
	char byte;
	for (int n = 10; n == 10 || read(0, &byte, 1) > 0; n = 20000) {
		for (int i = 0; i < n; i++) {
			last = malloc(5000);
			free(last);
		}
	}
	return 0;
}
C
$CC -g -O1 -fno-builtin -o quiet quiet.c || exit 1
mkfifo go
LD_PRELOAD=$LIB ./quiet <go &
pid=$!
children="$children $pid"
exec 9>go
is_left() { get "/p/$pid/debug/pprof/heap" && [ "$code" = 503 ] && "$BUILD/bin/jeprofctl" status "$pid" -q | grep -q pending; }
head_state() { "$BUILD/bin/jeprofctl" status "$pid" --json -q | sed -n 's/.*"state":"\([a-z_]*\)".*/\1/p'; }

agent --interval 2s
until_true is_target "$pid"
until_true is_left
ok $? "a scrape of an idle process leaves a start" "$code" "$out"
kill -9 "$agent_pid"
wait "$agent_pid" 2>/dev/null
sleep 7
is "$(head_state)" idle "after three intervals no more"
echo >&9
until_true is_state "$pid" idle
echo >&9
sleep 0.5
is "$(state "$pid")" idle "and it does not begin at the next allocation"

own() { curl -s --max-time 60 "$URL/metrics" | sed -n "s/^jeprofd_$1_total //p"; }
agent --interval 2s
until_true is_target "$pid"
until_true is_left
sleep 7
until_true is_left
ok $? "a scrape after three intervals leaves another one" "$code" "$out"
is "$(own sessions_started)" 0 "a start that is left is no session yet"
is_begun() { echo >&9 && is_state "$pid" active; }
until_true is_begun
ok $? "which begins"
is_noticed() { echo >&9 && get "/p/$pid/debug/pprof/heap" && [ "$(own sessions_started)" -ge 1 ]; }
until_true is_noticed
ok $? "and counts when a scrape sees it" "$(own sessions_started)"
end_agent

# What jeprofd counts of its own work: each scrape of a session of its own moves the end of that. The interval is long, because on a
# slow machine a session could end between two scrapes.
agent --interval 600s
until_true is_target "$pid"
counted() { for name in scrapes scrapes_failed scrapes_refused sessions_started leases_renewed; do own $name; done | tr '\n' ' '; }
is_own() {
	echo >&9
	get "/p/$pid/debug/pprof/heap" && [ "$(own leases_renewed)" -ge 1 ]
}
until_true is_own
counted >before
for _ in 1 2 3; do
	get "/p/$pid/debug/pprof/heap"
	gives 200 "" "a scrape"
done
is "$(echo "$(cat before) $(counted)" | awk '{ for (i = 1; i <= 5; i++) print $(i + 5) - $i }' | tr '\n' ' ')" "3 0 0 0 3 " "three scrapes: each moves the end" "$(cat before)"
get "/p/1/debug/pprof/heap"
is "$(echo "$(cat before) $(counted)" | awk '{ for (i = 1; i <= 5; i++) print $(i + 5) - $i }' | tr '\n' ' ')" "4 1 0 0 3 " "and one that fails" "$code"
end_agent
exec 9>&-

# ---- many processes that are idle: each look waits a fifth of a second for an answer, but not one after the other
idle=
for _ in $(seq 60); do
	LD_PRELOAD=$LIB sleep 1000 &
	idle="$idle $!"
done
children="$children $idle"
are_targets() {
	agent_is_there
	curl -s --max-time 10 "$URL/targets" >targets
	for one in $idle; do grep -q "\"pid\":\"$one\"" targets || return 1; done
}
best=99
for _ in 1 2 3; do # again, if a machine that is busy otherwise may have been the reason
	began=$(date +%s)
	agent
	until_true are_targets
	took=$(($(date +%s) - began))
	end_agent
	best=$((took < best ? took : best))
	[ "$best" -le 5 ] && break
done
ok $((best > 5)) "60 idle processes are found in 5 seconds" "in $best"
done_testing
