#!/bin/sh
# Profiles of processes that do not answer jeprofd: stopped, without a thread for the profiler, hung inside malloc. They are read from
# outside, as jeprofctl does, and say so; what asks the process for more than one profile fails as before.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
trap 'for c in $children; do kill -CONT "$c" 2>/dev/null; kill -9 "$c" 2>/dev/null; done; cd /; rm -rf "$W"' EXIT
$CC -std=gnu11 -O1 -w -I"$BUILD/include" -o tables "$SRC/test/jeprofctl/tables.c" -L"$LIBDIR" -ljemalloc -Wl,-rpath,"$LIBDIR" -lpthread || exit 1
EXACT=prof:true,lg_prof_sample:0,prof_thread:false

# begin NAME CONF MODE: starts tables in a directory of that name; sets pid when it is ready
begin() {
	mkdir "$1"
	mkfifo "$1/said"
	(cd "$1" && exec env MALLOC_CONF="$2" ../tables "$3" </dev/zero >said 2>err) &
	pid=$!
	children="$children $pid"
	read -r _ <"$1/said"
	until_true is_target "$pid"
}

# ask NAME PATH: begins a request; its answer goes to NAME, its status to NAME.code
ask() {
	curl -s -o "$1" -w '%{http_code}' --max-time 60 "$URL$2" >"$1.code" &
	asked="$asked $!"
}

answers() {
	# shellcheck disable=SC2086
	wait $asked
	asked=
}

# told NAME CODE PART WHAT: as gives, of an answer of ask
told() {
	code=$(cat "$1.code")
	out=$(tr -d '\000' <"$1")
	gives "$2" "$3" "$4"
}

# body FILE: what a profile says of the heap: without the lines of when and how, and without what was mapped
body() {
	sed '/^# /d; /^MAPPED_LIBRARIES:/,$d' "$1"
}

agent --interval 60s --rate 16K
begin still "$EXACT" allocate
still=$pid
begin silent "$EXACT" sleep
silent=$pid
begin inside "$EXACT" inside
inside=$pid
begin idle prof:false sleep
idle=$pid
work
leased=$pid
until_true is_state "$leased" idle
holds() { get "/p/$leased/debug/pprof/heap?raw=1" && grep -q '^# jemalloc.samples=[1-9]' answer; }
until_true holds
gives 200 heap_v2 "a scrape begins a session"
is "$(grep -c '^# jemalloc.kind=outside' answer)" 0 "and its profile is the process's own"
kill -STOP "$still" "$idle" "$leased"

# As many at a time as a process may have.
ask still.raw "/p/$still/debug/pprof/heap?raw=1"
ask still.pprof "/p/$still/debug/pprof/heap?ages=1"
ask silent.raw "/p/$silent/debug/pprof/allocs?raw=1"
ask leased.raw "/p/$leased/debug/pprof/heap?debug=1"
ask inside.raw "/p/$inside/debug/pprof/heap?raw=1"
ask idle.raw "/p/$idle/debug/pprof/heap?raw=1"
answers
for name in still silent leased inside; do
	told "$name.raw" 200 '# jemalloc.kind=outside' "$name: read from outside, which it says"
	is "$(grep -c '^# end ' "$name.raw")" 1 "$name: the profile is whole"
done
is "$(body silent.raw)" "$(body silent/own.heap)" "silent: it says what the process said itself"
for name in still inside; do
	grep -q '^  t[0-9]*: 1000: 112000 \[0: 0\] holder$' "$name.raw"
	ok $? "$name: what its thread holds" "$(grep '^  t' "$name.raw" | head)"
done
told idle.raw 503 'profiling begins at its next allocation' "a stopped process that is not profiling is told as before"
gzip -dc <still.pprof >still.pb
has "$(cat still.pprof.code) $(tr -d '\000' <still.pb)" kind=outside "profile.proto says it in a comment"
has "$(tr -d '\000' <still.pb)" hold_orders "and has names"

ask still.otlp "/p/$still/otlp"
ask still.delta "/p/$still/debug/pprof/heap?seconds=1"
ask leased.otlp "/p/$leased/otlp"
answers
for name in still leased; do
	told "$name.otlp" 200 "$([ $name = still ] && echo hold_orders || echo hold_words)" "$name: OTLP"
done
told still.delta 503 'is stopped (by a signal or a debugger)' "a difference needs the process"
get "/p/$still/debug/pprof/heap?since=mark"
gives 404 'has no mark' "so does the mark"
kill -CONT "$still"
is_own() { get "/p/$still/debug/pprof/heap?raw=1" && [ "$code" = 200 ] && ! grep -q '^# jemalloc.kind=outside' answer; }
until_true is_own
ok $? "it goes on, and answers again" "code $code" "$(grep kind answer)"
end_agent

# The limit is that of any profile.
kill -STOP "$still"
agent --max-profile 4K
until_true is_target "$still"
get "/p/$still/debug/pprof/heap?raw=1"
gives 503 'is stopped (by a signal or a debugger)' "a larger profile than --max-profile is not made"
end_agent
done_testing
