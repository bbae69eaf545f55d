#!/bin/sh
# Labels in profiles that no thread of the process makes: from outside, of a box, of a killed process, of a core; what a box has no room
# for; boxes of libraries that told no labels.
. "$JEMALLOC_SRC/test/include/tap.sh"
[ "$(asks config.prof)" = true ] || skip_all "no profiler"
CTL=$BUILD/bin/jeprofctl
children=
trap 'for c in $children; do kill -9 "$c" 2>/dev/null; done; cd /; rm -rf "$W"' EXIT

# labels COUNT BYTES [fork]: objects of 3000 sizes for so many labels, whose texts have so many bytes; the seventh has none. A forked
# child has one label more.
cat >labels.c <<'END'
#include <jemalloc/jemalloc_prof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *kept[70000];

int
main(int argc, char **argv) {
	unsigned count = (unsigned)atoi(argv[1]), bytes = (unsigned)atoi(argv[2]), n = count < 3000 ? 3000 : count;
	const char *own = "own.heap";
	char text[256];
	for (unsigned i = 0; i < n; i++) {
		int used = snprintf(text, sizeof(text), "tenant\\ %u\t", i % count);
		memset(text + used, 'x', sizeof(text) - (size_t)used);
		text[(unsigned)used < bytes ? bytes : (unsigned)used] = '\0';
		if (i % 7 == 6 || jemalloc_prof_label_set(text) != 0) {
			jemalloc_prof_label_clear();
		}
		kept[i] = malloc(100 + i % 3000);
	}
	*jemalloc_prof_label_word() = 65535; /* a number that no text has */
	kept[n] = malloc(20);
	jemalloc_prof_label_clear();
	if (argc > 3 && fork() == 0) {
		jemalloc_prof_label_set("child");
		kept[n + 1] = malloc(5000);
		jemalloc_prof_label_clear();
		kept[n + 2] = malloc(300000); /* a heartbeat, at which its box is opened */
		own = "child.heap";
	}
	jemalloc_prof_ctl_("prof.dump", NULL, 0, &own, sizeof(own));
	write(1, text, (size_t)sprintf(text, "%d\n", (int)getpid()));
	pause();
	return 0;
}
END
# shellcheck disable=SC2086
$CC -std=gnu11 -O1 -w -I"$SRC/include" -o labels labels.c || exit 1

# begin ARGUMENT...: starts the process; pid is its number, or its child's
begin() {
	rm -f said p.*
	mkfifo said
	MALLOC_CONF=prof:true,prof_prefix:$W/p,$conf LD_PRELOAD=$LIB ./labels "$@" >said 2>err &
	children="$children $!"
	exec 3<said
	read -r pid <&3
	if [ "${3:-}" = fork ]; then
		first=$pid
		read -r pid <&3
		[ "$pid" = "$!" ] && pid=$first
		children="$children $pid"
	fi
	exec 3<&-
}

told() {
	grep -E '^# label(ed)? ' "$1"
}

# same FILE NAME: the labels are those of its own dump
same() {
	told "$1" >got
	cmp -s own got
	ok $? "$2: the same labels at the same stacks as in its own dump" "$(diff own got | head -20 | cut -c-100)"
}

for conf in lg_prof_sample:0 lg_prof_sample:10 lg_prof_sample:10,prof_unbias:false lg_prof_sample:0,prof_accum:true; do
	conf=$conf,prof_blackbox:true begin 5 0
	told own.heap >own
	is "$(grep -c '^# label .*tenant\\x5c [0-4]\\x09$' own)" 5 "$conf: has five labels" "$(cat own)"
	grep -q '^# labeled [0-9]* 1:[0-9]*:[0-9]* 2:.* 5:' own
	ok $? "$conf: at one stack" "$(cat own)"
	runs "$conf: from outside" "$CTL" dump "$pid" --outside -o got.heap
	same got.heap "$conf: from outside"
	kill -9 "$pid"
	wait 2>/dev/null
	runs "$conf: killed" "$BUILD/bin/jeprof" salvage p.*.b.box
	same out "$conf: killed"
	runs "$conf: jeprof reads the box" "$BUILD/bin/jeprof" top --by label p.*.b.box
	has "$(cat out)" 'tenant\ 3' "$conf: by label"
done

# An older library wrote 43 fields and 6 structs, and no lists of labels.
box=$(ls p.*.b.box)
perl -e 'open my $f, "+<", $ARGV[0] or die; seek $f, 288, 0; read $f, my $n, 8; my ($fields, $structs) = unpack "L2", $n; print "$fields $structs\n";
	seek $f, 288, 0; print $f pack "L2", 43, 6' "$box" >fields
[ "$(cut -d' ' -f1 fields)" -ge 47 ]
ok $? "the root has the fields of labels" "$(cat fields)"
body() {
	sed '/^# /d; /^MAPPED_LIBRARIES:/,$d' "$1"
}
runs "a box without labels" "$BUILD/bin/jeprof" salvage "$box"
is "$(told out)" "" "has none"
is "$(body out)" "$(body own.heap)" "and the same counts"
is "$(grep -c '^# age [0-9]' out)" "$(grep -c '^# age [0-9]' own.heap)" "and the ages"

# The smallest box has an eighth for labels: 128 KiB. 3000 texts of 200 bytes need five times that.
conf=lg_prof_sample:0,prof_blackbox:true,prof_blackbox_size:2M begin 3000 200
told own.heap >own
runs "many labels, from outside" "$CTL" dump "$pid" --outside -o got.heap
same got.heap "many labels, from outside"
kill -9 "$pid"
wait 2>/dev/null
runs "many labels, killed" "$BUILD/bin/jeprof" salvage p.*.b.box
grep '^# labeled ' out >got
grep '^# labeled ' own | cmp -s - got
ok $? "many labels, killed: the sums are there" "$(cut -c-100 got)"
is "$(grep -c '^# label ' out)" "$(grep -c '^# label ' own)" "many labels, killed: each is named"
known=$(grep -c '^# label [0-9]* tenant' out)
[ "$known" -ge 500 ] && [ "$known" -le 1500 ]
ok $? "many labels, killed: an eighth of the box has texts ($known)"
is "$(grep -c '^# label \([0-9]*\) \[label \1: its text is not in the image\]$' out)" "$(($(grep -c '^# label ' own) - known))" "many labels, killed: the others are numbers"
is "$(sed -n 's/^# jemalloc.no_room=//p' out)" 0 "many labels: there is room for the stacks"
grep '^# label [0-9]* tenant' out >some
is "$(grep -cxFf some own)" "$known" "many labels, killed: the texts are right"

if command -v gcore >/dev/null; then
	conf=lg_prof_sample:0 begin 3000 200
	told own.heap >own
	gcore -o gc "$pid" >gcore.out 2>&1
	runs "gcore" "$CTL" dump --core "gc.$pid" -o got.heap
	same got.heap "gcore"
	kill -9 "$pid"
	rm -f "gc.$pid"
else
	skip "no gcore"
fi

# A forked child has the labels in its own box, and its own.
conf=lg_prof_sample:0,prof_blackbox:true begin 5 0 fork
told child.heap >own
has "$(cat own)" "child" "forked: its own label"
salvaged() {
	"$BUILD/bin/jeprof" salvage p."$pid".*.b.box >out 2>err
}
# The profiler's thread, which the heartbeat starts, may be the one that opens it, and then the process has gone on.
until_true salvaged
ok $? "forked: its box" "$(cat err; ls p.*)"
same out "forked"
kill -9 $children 2>/dev/null
wait 2>/dev/null
done_testing
