#!/bin/sh
# jeprofctl start --blackbox of processes whose system calls are filtered (seccomp): it ends none, and one in a container has a box.
. "$JEMALLOC_SRC/test/include/tap.sh"
children=
trap 'for c in $children; do kill -9 "$c" 2>/dev/null; done; cd /; rm -rf "$W"' EXIT
. "$SRC/test/jeprofctl/confined"
CTL=$BUILD/bin/jeprofctl
start() {
	"$CTL" start "$pid" -q --wait 60s --prefix "$W/p" "$@" >out 2>&1
	code=$?
}

# refused NAME WORD...: of that process
refused() {
	name=$1
	shift
	filtered "$@"
	for asked in --blackbox blackbox:true blackbox:fd; do
		start "$asked"
		is "$code" 6 "$name: start $asked" "$(cat out)"
		has "$(cat out)" "system calls are filtered (seccomp), by a filter of its own" "$name: why"
		has "$(cat out)" "start without --blackbox" "$name: and what to do"
	done
	if [ "$1" != strict ]; then # nor one that its options ask for
		start
		is "$code" 0 "$name: a plain start" "$(cat out)"
		has_box
		is $? 1 "$name: has no box"
		"$CTL" stop "$pid" -q >/dev/null 2>&1
		rm -f p.*
	fi
	is_alive
	ok $? "$name: it lives"
	is "$(ls p.* 2>/dev/null)" "" "$name: no file"
	[ "$1" = strict ] || is "$("$CTL" status "$pid" --json -q | sed -n 's/.*"state":"\([a-z_]*\)".*/\1/p')" idle "$name: nothing has changed"
	[ "$1" = strict ] || unboxed "$name"
	ends
}
# unboxed NAME: a session without a box
unboxed() {
	start --blackbox blackbox:false
	is "$code" 0 "$1: a session without" "$(cat out)"
	start --blackbox --idempotent
	is "$code" 6 "$1: while it runs"
	"$CTL" stop "$pid" -q >out 2>&1
	ok $? "$1: which is stopped" "$(cat out)"
	is_alive
	ok $? "$1: and lives"
	rm -f p.*
}
# boxed NAME WORD...: two sessions
boxed() {
	name=$1
	shift
	filtered "$@"
	for asked in --blackbox blackbox:fd; do
		start "$asked"
		is "$code" 0 "$name: start $asked" "$(cat out)"
		has_box
		ok $? "$name: it has a box" "$("$CTL" status "$pid" -q)"
		"$CTL" stop "$pid" -q >out 2>&1
		ok $? "$name: stop" "$(cat out)"
	done
	rm -f p.*
	ends
}

SPACE=
refused "kills at memfd_create" alone kill memfd_create
export MALLOC_CONF=prof_blackbox:fd
refused "kills at flock, with prof_blackbox" alone kill flock
unset MALLOC_CONF
refused "kills at flock" alone kill flock
refused "kills at fallocate" alone kill fallocate
refused "of one thread" thread kill memfd_create
refused "strict" strict
# One that has a box already keeps it.
MALLOC_CONF=prof_blackbox:true,prof:true,prof_prefix:$W/p filtered alone kill flock
start --blackbox
is "$code" 0 "has a box from its start: start --blackbox" "$(cat out)"
is_alive
ok $? "and lives"
ends
rm -f p.*
in_spaces boxed refused memfd_create
done_testing
