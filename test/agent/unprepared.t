#!/bin/sh
# Processes that nobody has prepared: a server of Debian, a C++ program, python. They are found, labelled, scraped; profiling ends
# with its lease when jeprofd is killed, and leaves no file.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
cat >grow.cc <<'CC'
#include <string>
#include <thread>
#include <vector>
#include <chrono>
#include <pthread.h>
static std::vector<std::string *> orders;
__attribute__((noinline)) void take_order(int i) { orders.push_back(new std::string(2000 + i % 100, 'x')); }
static void serve() {
	for (int i = 0;; i++) {
		take_order(i);
		if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
		if (i % 50000 == 0) { for (auto o : orders) delete o; orders.clear(); }
	}
}
int main(int argc, char **argv) {
	if (argc == 1) serve();
	std::thread(serve).detach(); // "second": the first thread ends
	pthread_exit(nullptr);
}
CC
$CXX -g -O1 -o grow grow.cc -pthread || { echo "Bail out! no C++"; exit 1; }
cat >serve.py <<'PY'
import time
kept = []
while True:
    kept.append(bytearray(3000))
    if len(kept) > 20000:
        kept = []
    time.sleep(0.001)
PY
agent --rate 16K --interval 2s --cache "$W/cache"
work ./grow
grow=$pid
LD_PRELOAD=$LIB /usr/bin/python3 serve.py &
python=$!
children="$children $python"
until_true is_target "$python"
ok $? "a C++ program and python are targets" "$(cat targets)"
LD_PRELOAD=$LIB ./grow second &
second=$!
children="$children $second"
until_true is_target "$second"
ok $? "so is one whose first thread has ended" "$(grep '^State' "/proc/$second/status")"
redis=
if command -v redis-server >/dev/null && command -v redis-benchmark >/dev/null; then
	LD_PRELOAD=$LIB redis-server --port 0 --unixsocket "$W/redis" --save '' >/dev/null 2>&1 &
	redis=$!
	children="$children $redis"
	until_true is_target "$redis"
	ok $? "so is redis"
else
	skip "no redis"
fi

# /targets
cat >look.py <<'PY'
import json, sys
targets, pid, host = json.load(open("targets")), sys.argv[1], sys.argv[2]
assert all(set(t) == {"targets", "labels"} for t in targets)
mine = [t for t in targets if t["labels"]["pid"] == pid]
assert len(mine) == 1, mine
labels = mine[0]["labels"]
assert mine[0]["targets"] == [host], mine
assert labels["comm"] == "grow" and labels["service_name"], labels
assert labels["exe"].endswith("/grow") and labels["user"] and labels["cgroup"] and labels["start_time"].endswith("Z"), labels
assert len(labels["build_id"]) >= 16 and set(labels["build_id"]) <= set("0123456789abcdef"), labels
assert labels["__metrics_path__"] == "/p/%s/metrics" % pid and labels["__profile_path_prefix__"] == "/p/" + pid, labels
assert all(isinstance(v, str) for t in targets for v in t["labels"].values())
PY
is_target "$grow"
runs "labels of /targets" python3 look.py "$grow" "${URL#http://}"

# /metrics
get /metrics
has "$out" "jeprof_rss_bytes{pid=\"$grow\",comm=\"grow\"" "/metrics has it"
cp answer metrics
cat >info.py <<'PY'
import json, re, sys
labels = [t for t in json.load(open("targets")) if t["labels"]["pid"] == sys.argv[1]][0]["labels"]
want = {k: v for k, v in labels.items() if not k.startswith("__") and k != "start_time"}
mine = [line for line in open("metrics") if line.startswith("jeprof_process_info{") and 'pid="%s"' % sys.argv[1] in line]
assert len(mine) == 1 and mine[0].endswith("} 1\n"), mine
assert dict(re.findall(r'(\w+)="([^"]*)"', mine[0])) == want, (mine, want)
PY
runs "jeprof_process_info has the labels of /targets" python3 info.py "$grow"
# Another test may have a process killed meanwhile.
are_kills() { get /metrics && [ "$(sed -n 's/^jeprofd_oom_kills_total //p' answer)" = "$(sed -n 's/^oom_kill //p' /proc/vmstat)" ]; }
until_true are_kills
ok $? "kills for want of memory: those of the kernel" "$(grep '^jeprofd_oom' answer)"
# Its figures are asked for when it has been seen to run.
told() {
	get "/p/$grow/metrics"
	printf '%s' "$out" | grep -q '^jeprof_allocated_bytes [1-9]'
}
until_true told
ok $? "/p/PID/metrics has what it holds" "$out"
printf '%s\n' "$out" | grep -q 'pid="'
ok $((!$?)) "without labels of the target"
get /metrics -H 'Accept: application/openmetrics-text; version=1.0.0'
is "$(tail -1 answer)" "# EOF" "OpenMetrics ends"
if command -v promtool >/dev/null; then
	get /metrics
	runs "promtool check metrics" promtool check metrics <answer
else
	skip "no promtool"
fi

# profiles
get "/p/$grow/debug/pprof/heap?raw=1"
gives 200 heap_v2/16384 "the first scrape starts a session at the rate of jeprofd"
is "$(state "$grow")" active "which goes on"
"$BUILD/bin/jeprofctl" dump "$grow" "$W/none/x.heap" >/dev/null 2>&1
failed() { get "/p/$grow/metrics" && printf '%s' "$out" | grep -q '^jeprof_dump_errors_total [1-9]'; }
until_true failed
ok $? "a dump that fails is counted" "$out"
# A session that has just begun has no samples yet.
names_holder() { get "/p/$grow/debug/pprof/heap?raw=1" && cp answer grow.heap && "$BUILD/bin/jeprof" top -n 1 grow.heap | grep -q take_order; }
until_true names_holder
ok $? "it names who holds the memory" "$("$BUILD/bin/jeprof" top -n 1 grow.heap 2>&1)"
get "/p/$grow/debug/pprof/heap"
is "$code $(head -c 2 answer | od -An -tx1 | tr -d ' \n')" "200 1f8b" "pprof, gzipped"
for name in inuse_space alloc_space take_order; do
	gzip -dc answer | grep -q "$name"
	ok $? "with $name"
done
get "/p/$grow/debug/pprof/allocs?seconds=1"
gzip -dc answer 2>/dev/null | grep -q take_order
ok $? "a second of it: $code"
get "/p/$python/debug/pprof/heap?raw=1"
gives 200 heap_v2/16384 "python"
get "/p/$python/debug/pprof/allocs?seconds=1"
gzip -dc answer | grep -qi 'bytearray\|PyObject\|PyByteArray'
ok $? "python: a second of it: $code"
has_order() { get "/p/$second/debug/pprof/heap" && gzip -dc answer | grep -q take_order; }
until_true has_order
ok $? "one whose first thread has ended: $code"
get /metrics
has "$out" "jeprof_rss_bytes{pid=\"$second\",comm=\"grow\"" "/metrics has it too"
is "$(printf '%s\n' "$out" | grep -c "^jeprof_rss_bytes{pid=\"$second\".* 0\$")" 0 "with resident memory"
if [ -n "$redis" ]; then
	get "/p/$redis/debug/pprof/heap?raw=1"
	case $code in 200) ok 0 "redis" ;; *) gives 503 'begins at its next allocation' "redis, which does nothing yet" ;; esac
	# A session may have ended while it was busy: then another one waits for the next allocation.
	has_names() {
		redis-benchmark -s "$W/redis" -n 10000 -r 30000 -t set -d 200 -q
		get "/p/$redis/debug/pprof/heap"
		gzip -dc answer | grep -q 'sds\|zmalloc\|dictAdd\|createObject\|readQuery\|redis'
	}
	until_true has_names
	ok $? "redis: names" "$code"
fi

# the lease
get "/p/$grow/debug/pprof/heap?raw=1"
first=$("$BUILD/bin/jeprofctl" status "$grow" --json -q | sed -n 's/.*"session":\([0-9]*\).*/\1/p')
for i in 1 2 3 4 5 6; do
	sleep 1.2
	get "/p/$grow/debug/pprof/heap?raw=1"
done
is "$("$BUILD/bin/jeprofctl" status "$grow" --json -q | sed -n 's/.*"session":\([0-9]*\).*/\1/p')" "$first" "scrapes renew the lease"
get "/p/$python/debug/pprof/heap?raw=1"
kill -9 "$agent_pid"
for process in $grow $python; do
	is_state "$process" active
	ok $? "jeprofd is killed, and profiling goes on"
done
for process in $grow $python; do
	until_true is_state "$process" idle
	ok $? "until its lease ends"
done
is "$(ls | grep -c '\.s[0-9]*\.heap')" 0 "it leaves no profile behind"
kill -0 "$grow" && kill -0 "$python"
ok $? "the processes go on"

# an idle process: the start waits in it, and scrapes renew the time limit of the session that comes of it
cat >idle.c <<'C'
#include <stdlib.h>
#include <unistd.h>
void *volatile last;
int main(void) {
	char go;
	last = malloc(1);
	if (read(0, &go, 1) != 1) return 1;
	for (;;) { last = malloc(50000); usleep(2000); }
}
C
$CC -o idle idle.c
mkfifo held
exec 5<>held
agent --interval 2s --rate 32K
LD_PRELOAD=$LIB ./idle <held >/dev/null 2>&1 &
idle=$!
children="$children $idle"
until_true is_target "$idle"
get "/p/$idle/debug/pprof/heap?raw=1"
gives 503 'begins at its next allocation' "an idle process: profiling waits"
echo go >&5
until_true is_state "$idle" active
sessions=
for _ in 1 2 3 4 5 6 7 8; do
	get "/p/$idle/debug/pprof/heap?raw=1"
	sessions="$sessions $(sed -n 's/^# jemalloc.session=//p' answer)"
	sleep 1.7
done
is "$sessions" " 1 1 1 1 1 1 1 1" "twice its time limit later the session that waited still runs"
until_true is_state "$idle" idle
ok $? "and ends when the scrapes end"
end_agent

# a session of somebody else
"$BUILD/bin/jeprofctl" start "$grow" -q --rate 128K >/dev/null
agent --interval 300ms
until_true is_target "$grow"
get "/p/$grow/debug/pprof/heap?raw=1"
gives 200 heap_v2/131072 "a session of somebody else is read as it is"
sleep 1.3
is "$(state "$grow")" active "and has no lease"
# pages
get /
gives 200 "<a href=\"/p/$grow/\">$grow</a>" "the page of all processes"
case $out in *http://* | *https://* | *'src='*) ok 1 "it needs nothing from elsewhere" ;; *) ok 0 "it needs nothing from elsewhere" ;; esac
get "/p/$grow/"
gives 200 "<title>$grow grow</title>" "the page of a process"
end_agent

# names with what would mean something in HTML, JSON and metrics
cp work 'w"<b>\' 2>/dev/null || { work; kill "$pid"; cp work 'w"<b>\'; }
agent
work './w"<b>\'
get /
has "$out" 'w&quot;&lt;b&gt;\' "HTML"
is_target "$pid"
has "$(cat targets)" '"comm":"w\"\u003cb>\\"' "JSON"
get /metrics
has "$out" 'comm="w\"<b>\\"' "metrics"
end_agent
done_testing
