#!/bin/sh
# A process with a black box that the kernel kills for want of memory: its box names who held the memory, in a file system in memory and
# on disk.
. "$JEMALLOC_SRC/test/include/tap.sh"
[ "$(asks config.prof)" = true ] || skip_all "built without the profiler"
LIMIT=$((200 << 20))
group=$("$SRC/scripts/memory-group" $LIMIT "jeprofctl-oom.$$" 2>reason) || skip_all "$(cat reason)"
trap 'cd /; umount "$W/memory" 2>/dev/null; rmdir "$group" 2>/dev/null; rm -rf "$W"' EXIT

cat >leak.c <<'C'
/* leak: one function holds what it allocates, another one gives it back, a third one holds a little */
#include <stdlib.h>
#include <string.h>
void *volatile held;
__attribute__((noinline)) void *planted(size_t n) { void *p = memset(malloc(n), 1, n); held = p; return p; }
__attribute__((noinline)) void *passing(size_t n) { void *p = memset(malloc(n), 1, n); held = p; return p; }
__attribute__((noinline)) void *little(size_t n) { void *p = memset(malloc(n), 1, n); held = p; return p; }
int
main(void) {
	for (unsigned i = 0;; i++) {
		planted(5000 + i % 1000);
		free(passing(60000));
		if (i % 100 == 0)
			little(1000);
	}
}
C
$CC -g -O1 -fno-builtin -o leak leak.c || exit 1

# killed NAME DIRECTORY
killed() {
	sh -c 'echo $$ >"$1/cgroup.procs"; exec env MALLOC_CONF="$2" LD_PRELOAD="$3" ./leak' leak "$group" \
		"prof:true,lg_prof_sample:16,prof_blackbox:true,prof_prefix:$2/leak" "$LIB" 2>err
	is $? 137 "$1: the kernel has killed it"
	box=$(echo "$2"/leak.*.b.box)
	runs "$1: its box is read" "$BUILD/bin/jeprofctl" dump --core "$box" -o got.heap
	grep -qx '# jemalloc.torn=0' got.heap
	ok $? "$1: nothing is torn" "$(grep torn got.heap)"
	perl "$BUILD/bin/jeprof" top got.heap >table 2>err
	has "$(sed -n '/^ *self /{n;p;}' table)" "  planted " "$1: it names who held the memory"
	share=$(sed -n 's/^ *[0-9.]*M *\(±[^ ]* *\)\{0,1\}\([0-9]*\)[0-9.]*% .* planted .*/\2/p' table)
	[ "${share:-0}" -ge 95 ]
	ok $? "$1: nearly all of it" "$(cat table)"
	live=$(sed -n 's/.* live \([0-9]*\)[0-9.]*M .*in .*/\1/p' table)
	# What was sampled is an estimate: 200 MiB less the box, the library and the program's own pages, within a fifth.
	[ "${live:-0}" -ge 130 ] && [ "$live" -le 230 ]
	ok $? "$1: as much as the group had" "$live M"
	rm -f "$2"/leak.*
}

mkdir disk memory
killed "on disk" "$W/disk"
if mount -t tmpfs -o size=64m tmpfs memory 2>/dev/null; then
	killed "in memory" "$W/memory"
else
	skip "no tmpfs"
fi
done_testing
