#!/bin/sh
# jeprofd and processes whose system calls are filtered (seccomp): a scrape does not end one, and one in a container has a box.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
. "$SRC/test/jeprofctl/confined"
metric() { curl -s "$URL/metrics" | sed -n "s/^$1 //p"; }
lacking() { metric 'jeprofd_sessions_without_box_total{why="filter"}'; }
# Another jeprofd of this machine may have begun a session before: then it is ended, and the next scrape begins one.
is_begun() {
	get "/p/$pid/debug/pprof/heap"
	[ "$code" = 200 ] && { [ "$(metric jeprofd_sessions_started_total)" -gt "$sessions" ] || { "$BUILD/bin/jeprofctl" stop "$pid" -q; false; }; }
}
is_over() { is_begun || ! is_alive; }
scrape() {
	sessions=$(metric jeprofd_sessions_started_total)
	lacks=$(lacking)
	until_true is_target "$pid"
	until_true is_over
}

agent --interval 60s --rate 16K

# without NAME WORD...: a scrape of that process
without() {
	name=$1
	shift
	filtered "$@"
	scrape
	is "$code" 200 "$name: a scrape" "$out"
	is_alive
	ok $? "$name: it lives"
	has_box
	is $? 1 "$name: it has no box"
	is "$(lacking)" "$((lacks + 1))" "$name: which is counted"
	is_told() { get "/p/$pid/" && [ "$code" = 200 ] && case $out in *"none: its system calls are filtered (seccomp)"*) true ;; *) false ;; esac }
	until_true is_told
	ok $? "$name: its page says why" "$(grep '>box<' answer)"
	ends
}
# with NAME WORD...: two sessions of that process, with a box each
with() {
	name=$1
	shift
	filtered "$@"
	for session in first second; do
		scrape
		is "$code" 200 "$name: a scrape for the $session session" "$out"
		has_box
		ok $? "$name: it has a box" "$("$BUILD/bin/jeprofctl" status "$pid" -q)"
		is "$(lacking)" "$lacks" "$name: none is lacking"
		"$BUILD/bin/jeprofctl" stop "$pid" -q >/dev/null
	done
	ends
}

SPACE=
without "kills at memfd_create" alone kill memfd_create
export MALLOC_CONF=prof_blackbox:fd
without "kills at flock, with prof_blackbox" alone kill flock
unset MALLOC_CONF
without "kills at flock" alone kill flock
without "kills at fallocate" alone kill fallocate
without "of one thread" thread kill memfd_create
without "from its parent, in no container" child errno none
in_spaces with without flock
kill -0 "$agent_pid"
ok $? "jeprofd lives"
done_testing
