#!/bin/sh
# A scrape of a process whose memory cgroup is nearly full: it is profiled without a box, which would be its end.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
. "$SRC/test/jeprofctl/narrow"
lacking() { curl -s "$URL/metrics" | sed -n 's/^jeprofd_sessions_without_box_total{why="room"} //p'; }
# Another jeprofd of this machine may have begun a session before: then it is ended, and the next scrape begins one.
sessions() { curl -s "$URL/metrics" | sed -n 's/^jeprofd_sessions_started_total //p'; }
is_over() {
	get "/p/$pid/debug/pprof/heap"
	[ "$code" = 200 ] && [ "$(sessions)" -gt "$begun" ] && return 0
	! is_alive || { "$BUILD/bin/jeprofctl" stop "$pid" -q; false; }
}
scrape() {
	begun=$(sessions)
	until_true is_target "$pid"
	until_true is_over
	is "$code" 200 "$1: a scrape" "$out"
	is_alive
	ok $? "$1: it lives"
}

agent --interval 60s
narrow $((3 << 20))
scrape "full"
has_box
is $? 1 "full: it has no box"
is "$(lacking)" 1 "full: which is counted"
is_told() { get "/p/$pid/" && case $out in *"none: its memory cgroup, or one above, has too little room"*) true ;; *) false ;; esac }
until_true is_told
ok $? "full: and its page says why" "$(grep '>box<' answer)"
ends
narrow $((12 << 20))
scrape "room for three boxes"
has_box
is $? 1 "room for three boxes: it has none"
ends
narrow $((24 << 20))
scrape "room for six boxes"
has_box
ok $? "room for six boxes: it has one" "$("$BUILD/bin/jeprofctl" status "$pid" -q)"
ends
if fill_cache; then
	narrow $((40 << 20))
	scrape "full of the cache of a file"
	has_box
	ok $? "full of the cache of a file: it has a box" "$(cat "$group/memory.stat")"
	ends
else
	skip "the cache of a file is not the group's"
fi
is "$(lacking)" 2 "no other is without"
done_testing
