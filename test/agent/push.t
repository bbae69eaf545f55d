#!/bin/sh
# jeprofd --push: what a receiver gets, and that a slow, dead or refusing one loses nothing that could be kept and holds up no scrape.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
command -v python3 >/dev/null || skip_all "no python3"
"$AGENT" --push http://127.0.0.1:1 --passive --listen 127.0.0.1:99999 2>&1 | grep -q libcurl && skip_all "jeprofd was built without libcurl"

# receiver NAME ANSWER...: sets receiver_url
receiver() {
	name=$1
	shift
	mkdir -p "$name"
	python3 "$SRC/test/agent/receiver.py" "$name" "$@" &
	receiver_pid=$!
	children="$children $receiver_pid"
	until_true test -e "$name/port" || { echo "Bail out! the receiver does not start"; exit 1; }
	receiver_url=http://127.0.0.1:$(cat "$name/port")
}
got() { [ -e "$1/log" ] && [ "$(wc -l <"$1/log")" -ge "$2" ]; }
figure() { curl -s --max-time 10 "$URL/metrics" | sed -n "s/^jeprofd_push_$1\(_total\)\{0,1\} //p"; }
is_figure() { [ "$(figure "$1")" = "$2" ]; }
at_least() { [ "$(figure "$1")" -ge "$2" ] 2>/dev/null; }

# ---- the command line
for bad in "--push ftp://x" "--push http://" "--push-header x" "--push-select pid=1" "--push-interval 10ms" "--label x" "--label =x"; do
	# shellcheck disable=SC2086
	"$AGENT" $bad 2>bad.err
	is $? 2 "$bad is refused"
done

# ---- what it sends
receiver good 200
agent --push "$receiver_url/" --push-interval 1s --push-select comm=work --push-header "X-Tenant: shop" --label team=blue
work
until_true got good 3
ok $? "profiles come, again and again" "$(cat agent.err good/log 2>&1)"
is "$(head -n 1 good/log | cut -d' ' -f2-5)" "/v1development/profiles application/x-protobuf gzip shop" "path, type, encoding and header"
gzip -dc good/3.gz >body
has "$(tr -d '\000' <body | strings)" "team" "the label is in it"
has "$(strings body)" "hold_words" "the names are in it"
get "/p/$pid/otlp"
is "$code" 200 "the same by GET"
has "$(strings answer)" "hold_words" "with names"
until_true at_least sent 3
ok $? "counted as sent"
is "$(figure dropped) $(figure refused) $(figure rejected)" "0 0 0" "nothing else"
end_agent

# ---- a receiver in trouble
receiver busy 503 429:1 500 partial 413 200
agent --push "$receiver_url" --push-interval 1s --push-select comm=work
until_true at_least sent 2
ok $? "it goes on after 503, 429, 500, a partial success and 413" "$(cat agent.err busy/log 2>&1)"
is "$(figure retried)" 2 "503 and 429 are tried again"
is "$(figure refused)" 2 "500 and 413 are not"
is "$(figure rejected)" 1 "the rejected profile of a partial success is counted"
cmp -s busy/1.gz busy/2.gz && cmp -s busy/2.gz busy/3.gz
ok $? "the same profile each time"
end_agent

receiver slow slow
agent --push "$receiver_url" --push-interval 1s --push-select comm=work
until_true got slow 1
get "/p/$pid/debug/pprof/heap"
is "$code $(grep -c . slow/log)" "200 1" "a scrape does not wait for a slow receiver"
end_agent

agent --push http://127.0.0.1:1 --push-interval 1s --push-select comm=work
until_true at_least retried 2
ok $? "a dead receiver is tried again" "$(cat agent.err)"
is "$(grep -c 'profiles wait' agent.err)" 1 "said once"
at_least queued_bytes 100
ok $? "profiles wait"
end_agent
is "$ended" 0 "and jeprofd ends at once"
done_testing
