#!/bin/sh
# jeprofctl start --blackbox of a process whose memory cgroup is nearly full: refused, as the box would be its end.
. "$JEMALLOC_SRC/test/include/tap.sh"
children=
. "$SRC/test/jeprofctl/narrow"
CTL=$BUILD/bin/jeprofctl
start() {
	"$CTL" start "$pid" -q --wait 60s --prefix "$W/p" "$@" >out 2>&1
	code=$?
}
state() { "$CTL" status "$pid" --json -q | sed -n 's/.*"state":"\([a-z_]*\)".*/\1/p'; }

narrow $((3 << 20))
for words in --blackbox "--blackbox --blackbox-size 1M" "blackbox:fd blackbox_size:1048576"; do
	# shellcheck disable=SC2086
	start $words
	is "$code" 6 "full: start $words" "$(cat out)"
	has "$(cat out)" "has room for " "full: why"
	has "$(cat out)" "of 64.0M are used)" "full: with the figures"
	has "$(cat out)" "${group##*/} " "full: of the group above its own"
	has "$(cat out)" "start without --blackbox" "full: and what to do"
done
start --blackbox blackbox_size:junk
is "$code" 2 "full: a size that is none" "$(cat out)"
has "$(cat out)" "blackbox_size: wants a number of bytes" "full: the process says so"
is_alive
ok $? "full: it lives"
is "$(state)" idle "full: nothing has changed"
start
is "$code" 0 "full: a session without" "$(cat out)"
is_alive
ok $? "full: it lives"
ends
narrow $((24 << 20))
start --blackbox
is "$code" 6 "room for one: start --blackbox" "$(cat out)"
has "$(cat out)" "a box of 16.0M " "room for one: by default it has 16M"
start --blackbox --blackbox-size 4M
is "$code" 0 "room for six smaller ones: start" "$(cat out)"
has_box
ok $? "room for six smaller ones: it has one" "$("$CTL" status "$pid" -q)"
ends
done_testing
