#!/bin/sh
# Profiles of a process that has no /proc, in a mount namespace or a chroot: they name the program, and have all build ids.
. "$JEMALLOC_SRC/test/include/tap.sh"

[ "$(asks config.prof)" = true ] || skip_all "built without the profiler"
can_unshare || skip_all "no mount namespace can be had"
cat >held.c <<'C'
/* held [chdir DIR | chroot DIR | fork | late]: holds memory, then does this; the profile comes at the exit */
#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) void *
hold_it(void) {
	void *volatile p = malloc(5000);
	return p;
}
int
main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "chroot") == 0 && (chroot(argv[2]) != 0 || chdir("/") != 0))
		return 1;
	if (strcmp(what, "chdir") == 0 && chdir(argv[2]) != 0)
		return 1;
	if (strcmp(what, "late") == 0 && mallctl("prof.session.start", NULL, NULL, NULL, 0) != 0)
		return 1;
	for (int i = 0; i < 1000; i++)
		hold_it();
	return strcmp(what, "late") == 0 ? mallctl("prof.session.stop", NULL, NULL, NULL, 0) : 0;
}
C
compile_linked held held.c -Wl,--build-id || exit 1
ln -s "$W/held" link
printf '#!%s/held late\n' "$W" >script
chmod +x script
id=$(readelf -n held | sed -n 's/.*Build ID: //p')
mkdir -p root/out sub out

# no_proc COMMAND...: without /proc, in this directory; profiles go to out/
no_proc() {
	rm -rf "$W"/out/* "$W"/root/out/*
	env MALLOC_CONF="$CONF" unshare -m sh -c 'umount -l /proc && exec "$@"' sh "$@"
}

# named WANT NAME: the profile names the program: its header, its map, its list of objects with bias and build id
named() {
	dump=$(ls "$W"/out/*.heap "$W"/root/out/*.heap 2>/dev/null | head -n 1)
	is "$(sed -n 's/^# jemalloc.exe=//p' "$dump")" "$1" "$2: the header"
	ok "$(sed '1,/^MAPPED_LIBRARIES/d' "$dump" | grep -q " r-xp .* $1\$"; echo $?)" "$2: the map" "$(sed '1,/^MAPPED_LIBRARIES/d' "$dump")"
	line=$(grep "^# module .* $1\$" "$dump")
	is "$(printf '%s\n' "$line" | cut -d ' ' -f 5)" "$id" "$2: its build id"
	is "$(grep -c '^# module [0-9a-f]*-[0-9a-f]* [0-9a-f]* [0-9a-f]\{16,\} /' "$dump")" "$(grep -c '^# module .* /' "$dump")" "$2: all objects have one"
	start=$(printf '%s\n' "$line" | cut -d ' ' -f 4)
	is "$(printf '%s\n' "$line" | cut -d ' ' -f 3 | cut -d - -f 1)" "$start" "$2: its bias is its start, as it is no fixed address"
}

CONF=prof:true,lg_prof_sample:0,prof_final:true,prof_prefix:$W/out/x
no_proc "$W/held"
named "$W/held" "by its path"
no_proc ./held
named "$W/held" "by a relative path"
(cd sub && no_proc ../held)
named "$W/sub/../held" "by a path upwards"
no_proc ./held chdir /
named "$W/held" "in another directory"
PATH=$W:$PATH no_proc held
named "$W/held" "found in PATH"
no_proc "$W/link"
named "$W/link" "by a link"
CONF=prof_prefix:$W/out/x
no_proc ./held late
named "$W/held" "with a session"
no_proc "$W/script"
named "$W/held" "as the interpreter of a script"
# The chroot has no /proc; what it said before is remembered.
CONF=prof:true,lg_prof_sample:0,prof_final:true,prof_prefix:/out/x
rm -rf out/* root/out/*
MALLOC_CONF=$CONF ./held chroot "$W/root"
named "$W/held" "in a chroot"
no_proc ./held chroot "$W/root"
named "$W/held" "in a chroot, /proc was never there"

# A reader finds the names by this.
if [ -x "$BUILD/bin/jeprof" ]; then
	CONF=prof:true,lg_prof_sample:0,prof_final:true,prof_prefix:$W/out/x
	no_proc ./held
	has "$(perl "$BUILD/bin/jeprof" top "$W"/out/*.heap 2>&1)" hold_it "jeprof names the functions"
fi
done_testing
