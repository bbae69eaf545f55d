#!/bin/sh
# Functions inside of jeprofd, without a process (inside_*.c).
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
# try NAME WHAT: builds and runs a program that has one file of jeprofd in it, and of the others only what it stands in for.
try() {
	$CC -std=gnu11 -D_GNU_SOURCE -DJEPROFD_VERSION='"1"' -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -g -O2 -fno-pie -no-pie -Wl,--unresolved-symbols=ignore-all -I"$SRC/src" -I"$SRC/bin" -I"$SRC/bin/agent" \
		-o "$1" "$SRC/test/agent/inside_$1.c" -lpthread || echo "Bail out! test/agent/inside_$1.c"
	runs "$2" "./$1"
}
try watch "blocked watchers, and a pid that another process has now"
try kills "each out-of-memory kill explains one end"
try copy "a box that grows while it is copied, and a disk that tells no blocks or is full"
try open "a box that cannot be opened now is tried again at a later look"
try pages "a page with a part for which there was no memory, each fact of a process, and what a picture says of the last hour"
try names "a wall clock that was set back does not keep names away"
try jobs "a job that was answered in its place, a mark without a profile, a stop of an idle process, a start that was left for one"
try server "connections: which one goes for a new one, and which took too long"
try store "which of the dead go: too old, too many, too large, too many alike"
try elsewhere "when the memory of a process is that of another allocator"
try profile "the profile of a dead process, where each step fails alone"
done_testing
