#!/bin/sh
# jeprofd --push: what a receiver gets, and that a slow, dead or refusing one loses nothing that could be kept and holds up no scrape.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
command -v python3 >/dev/null || skip_all "no python3"
"$AGENT" --push http://127.0.0.1:1 --listen 127.0.0.1:99999 2>&1 | grep -q libcurl && skip_all "jeprofd was built without libcurl"

# receiver NAME ANSWER...: sets receiver_url
receiver() {
	name=$1
	shift
	mkdir -p "$name"
	python3 "$SRC/test/agent/receiver.py" "$name" "$@" 2>"$name/err" &
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
for bad in "--push ftp://x" "--push http://" "--push http://a:b" "--push http://a:65536" "--push http://:80" "--push http://[::1/x" "--push http://[]/" "--push http://[::1]x:80" "--push http://a:80:80" "--push-header x" "--push-select pid=1" "--push-interval 10ms" "--label x" "--label =x" "--push-ca none.pem"; do
	# shellcheck disable=SC2086
	"$AGENT" $bad 2>bad.err
	is $? 2 "$bad is refused"
done
for file in / /dev/null /proc/self/environ; do
	"$AGENT" --push http://a --push-ca $file >out 2>&1
	is "$? $(cat out)" "2 jeprofd: --push-ca: \"$file\" is no file that can be used here" "authorities in $file"
done
"$AGENT" --push-interval 10ms >out 2>&1
is "$(cat out)" 'jeprofd: --push-interval: "10ms" is no time (30s), which may be from 1s to 24h' "a time out of the limits, which are told with their units"
"$AGENT" --push-interval "$(printf '%05000d' 0)" >out 2>&1
has "$(cat out)" '..." is no time (30s), which may be from 1s to 24h' "a long value does not hide them"

# ---- what it sends
receiver good 200
agent --push "$receiver_url/" --push-interval 1s --push-select "exe=$W/work" --push-header "X-Tenant: shop" --label team=blue
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
receiver busy 503 429:1 500 partial 413 400 200
agent --push "$receiver_url" --push-interval 1s --push-select "exe=$W/work"
until_true at_least sent 2
ok $? "it goes on after 503, 429, 500, a partial success, 413 and 400" "$(cat agent.err busy/log 2>&1)"
is "$(figure retried)" 2 "503 and 429 are tried again"
is "$(figure refused)" 3 "500, 413 and 400 are not"
is "$(figure rejected)" 1 "the rejected profile of a partial success is counted"
cmp -s busy/1.gz busy/2.gz && cmp -s busy/2.gz busy/3.gz
ok $? "the same profile each time"
end_agent

# A profile is begun each second, so four in the queue are later than a second attempt would be.
receiver later 429:3600
agent --push "$receiver_url" --push-interval 1s --push-select "exe=$W/work"
until_true got later 1
until_true at_least queued_bytes $((4 * $(wc -c <later/1.gz)))
is "$(wc -l <later/log) $(figure retried)" "1 1" "a receiver that asks for an hour is left alone" "$(cat later/log)"
end_agent

receiver slow slow
agent --push "$receiver_url" --push-interval 1s --push-select "exe=$W/work"
until_true got slow 1
get "/p/$pid/debug/pprof/heap"
is "$code $(figure sent) $(figure retried)" "200 0 0" "a scrape does not wait for a slow receiver"
end_agent

agent --push http://127.0.0.1:1 --push-interval 1s --push-select "exe=$W/work"
until_true at_least retried 2
ok $? "a dead receiver is tried again" "$(cat agent.err)"
is "$(grep -c 'profiles wait' agent.err)" 1 "said once"
at_least queued_bytes 100
ok $? "profiles wait"
end_agent
is "$ended" 0 "and jeprofd ends at once"

# ---- TLS: two authorities, of which each has given the receiver a certificate of its name
authority() {
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$1" -keyout "$1.key" -out "$1.pem" 2>openssl.err &&
		openssl req -newkey rsa:2048 -nodes -subj "/CN=receiver" -keyout server.key -out server.csr 2>openssl.err &&
		printf 'subjectAltName=IP:127.0.0.1\n' >names &&
		openssl x509 -req -in server.csr -days 2 -CA "$1.pem" -CAkey "$1.key" -CAcreateserial -extfile names -out server.crt 2>openssl.err &&
		mkdir -p "tls_$1" && cat server.crt server.key >"tls_$1/server.pem"
}
if command -v openssl >/dev/null && authority ours && authority other; then
	for who in ours other; do
		receiver tls_$who 200
		agent --push "https${receiver_url#http}" --push-interval 1s --push-select "exe=$W/work" --push-ca ours.pem
		case $who in ours) counted=sent ;; *) counted=retried ;; esac
		until_true at_least $counted 1
		ok $? "TLS: a receiver that $who has certified" "$(cat agent.err)"
		[ $who = ours ] || is "$(figure sent) $(cat tls_other/log 2>/dev/null)" "0 " "TLS: gets nothing if that is another authority"
		end_agent
	done
	agent --push "https${receiver_url#http}" --push-interval 1s --push-select "exe=$W/work"
	until_true at_least retried 1
	is "$? $(figure sent) $(cat tls_other/log 2>/dev/null)" "0 0 " "TLS: nor by the authorities of the system"
	end_agent
else
	skip "no openssl: $(cat openssl.err 2>/dev/null)"
fi

# ---- the queue, alone
$CC -std=gnu11 -D_GNU_SOURCE -DHAVE_CURL=1 -DJEPROFD_VERSION='"1"' -g -O1 -I"$SRC/src" -I"$SRC/bin" -I"$SRC/bin/agent" -o queue "$SRC/test/agent/queue.c" -lcurl -lpthread || echo "Bail out! test/agent/queue.c"
./queue >queue.out 2>&1
ok $? "the queue keeps the newest 8 MB, and counts the rest" "$(cat queue.out)"

# ---- many pushes of many processes: nothing is left of them, and each process has its turn (four a second are begun)
receiver many 200
agent --push "$receiver_url" --push-interval 1s --push-select "exe=$W/work"
pids=$pid
for turn in 2 3 4 5 6; do
	work
	pids="$pids $pid"
done
size() { echo "$(awk '/^VmRSS/ { print $2 }' "/proc/$agent_pid/status") $(find "/proc/$agent_pid/fd" -type l -exec readlink {} + | grep -vc '/mem$\|memfd:\|pidfd\|^/$') $(find "/proc/$agent_pid/task" -mindepth 1 -maxdepth 1 | wc -l)"; }
pushes=${PUSHES:-50}
until_true got many 20
# Pushes that are under way have threads; in between there are none.
is_as_before() {
	after=$(size)
	# shellcheck disable=SC2086
	set -- $before $after
	[ $(($4 - $1)) -le 512 ] && [ "$5" -le "$2" ] && [ "$6" -le "$3" ]
}
# Again, if more of them were under way at once than ever before: what is lost with each push is lost each time.
lost=1
for _ in 1 2 3 4 5; do
	before=$(size)
	most=$(($(wc -l <many/log) + pushes))
	while ! got many $most && kill -0 "$agent_pid"; do sleep 1; done
	for _ in $(seq 100); do
		is_as_before && lost=0 && break 2
		sleep 0.1
	done
done
ok $lost "$pushes pushes leave memory, descriptors and threads as they were" "KB, descriptors, threads: $before, then $after"
# pids_in DIR: the processes whose profiles a receiver got
pids_in() {
	for body in "$1"/*.gz; do
		# shellcheck disable=SC2016
		gzip -dc "$body" | perl -e 'require "$ENV{JEMALLOC_SRC}/test/agent/decode.pl"; local $/; print otlp_decode(<STDIN>)->{resource}{"process.pid"}, "\n"'
	done | sort -nu | tr '\n' ' '
}
# shellcheck disable=SC2086
is "$(pids_in many)" "$(printf '%s\n' $pids | sort -n | tr '\n' ' ')" "each process is pushed"
end_agent

# ---- one place for jobs, four processes that are due at once: who finds no place comes first the next time
# shellcheck disable=SC2086
set -- $pids
kill "$5" "$6"
wait "$5" "$6" 2>/dev/null
receiver few 200
agent --push "$receiver_url" --push-interval 1s --push-select "exe=$W/work" --max-scrapes 1
until_true got few 8
is "$(pids_in few)" "$(printf '%s\n' "$1" "$2" "$3" "$4" | sort -n | tr '\n' ' ')" "each process has its turn"
is "$(curl -s "$URL/metrics" | sed -n 's/^jeprofd_scrapes_refused_total //p')" 0 "no place for a push is no refused scrape"
end_agent

# ---- pushes further apart than three scrapes would be: the session lasts from one to the next
kill "$1" "$2" "$3" "$4"
wait "$1" "$2" "$3" "$4" 2>/dev/null
LD_PRELOAD=$LIB ./work &
children="$children $!"
receiver apart 200
agent --push "$receiver_url" --interval 1s --push-interval 4s --push-select "exe=$W/work"
until_true got apart 3
is "$(curl -s "$URL/metrics" | sed -n 's/^jeprofd_sessions_started_total //p')" 1 "one session for three pushes"
end_agent

# ---- more processes than have their turn in three push intervals: their sessions last from one turn to the next
for turn in $(seq 19); do
	LD_PRELOAD=$LIB ./work &
	children="$children $!"
done
receiver turns 200
agent --push "$receiver_url" --interval 1s --push-interval 1s --push-select "exe=$W/work"
until_true got turns 50
sessions=$(curl -s "$URL/metrics" | sed -n 's/^jeprofd_sessions_started_total //p')
ok $((sessions > 20)) "one session for each of 20 processes" "$sessions"
end_agent
done_testing
