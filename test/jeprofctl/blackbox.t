#!/bin/sh
# The black box: what a process that was killed leaves; that it is whole at whatever instant; its begin, its end, fork, a full disk,
# a full box.
. "$JEMALLOC_SRC/test/include/tap.sh"

CTL=$BUILD/bin/jeprofctl
$CC -std=gnu11 -O1 -w -I"$BUILD/include" -o tables "$SRC/test/jeprofctl/tables.c" -L"$LIBDIR" -ljemalloc -Wl,-rpath,"$LIBDIR" -lpthread || exit 1
EXACT=prof:true,lg_prof_sample:0,prof_prefix:$W/p
children=
trap 'for c in $children; do kill -9 "$c" 2>/dev/null; done; cd /; umount "$W/small" 2>/dev/null; rm -rf "$W"' EXIT

# begin MODE [NUMBER]: starts the process, and sets pid when it is ready. CONF: its options.
begin() {
	rm -f said own.heap
	mkfifo said
	MALLOC_CONF=$CONF ./tables "$@" </dev/zero >said 2>err &
	pid=$!
	children="$children $pid"
	read -r _ <said
}

end() {
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
}

body() {
	sed '/^# /d; /^MAPPED_LIBRARIES:/,$d' "$1"
}

# of_box NAME: its profile, got.heap
of_box() {
	runs "$1: the box is read" "$CTL" dump --core "$(echo "$W"/p.*.b.box)" -o got.heap
	grep -qx '# jemalloc.torn=0' got.heap
	ok $? "$1: nothing is torn" "$(grep torn got.heap)"
}

# holds NAME: what main() and its thread hold is there
holds() {
	grep -q '^  t[0-9]*: 1000: 112000 \[0: 0\] holder$' got.heap
	ok $? "$1: what its thread holds" "$(grep '^  t' got.heap | head)"
	[ "$(grep -c '^  t\*: 10: 81920 ' got.heap)" -ge 1 ]
	ok $? "$1: what main holds" "$(grep '^  t' got.heap | head)"
}

# ---- killed ----

CONF=$EXACT,prof_blackbox:true begin sleep
box=$(cd "$W" && echo p.*.b.box)
echo "$box" | grep -q "^p\.$pid\.[0-9]*T[0-9.]*Z\.[0-9]*\.b\.box$"
ok $? "the name is like that of a profile" "$box"
is "$(stat -c '%a %s' "$box")" "600 16777216" "for the user alone, and as large as the option says"
[ "$(($(stat -c %b "$box") * 512))" -ge 16777216 ]
ok $? "all of it is reserved" "$(stat -c '%b blocks' "$box")"
of_box "alive"
body own.heap >own.body
body got.heap >got.body
cmp -s own.body got.body
ok $? "alive: the same threads, stacks and counts as in the process's own dump" "$(diff own.body got.body)"
"$CTL" status "$pid" >out 2>&1
grep -qx "blackbox  *$W/$box" out
ok $? "status names it" "$(cat out)"
is "$(grep -cE '^blackbox_(size|used) .* \([0-9.]+[KM]\)$' out)" 2 "and says its size and what is used, with units" "$(cat out)"
runs "alive, from outside" "$CTL" dump "$pid" --outside -o outside.heap
body outside.heap >outside.body
cmp -s own.body outside.body
ok $? "alive, from outside: the same" "$(diff own.body outside.body)"
# older FILE: for each site, what is held, and what of it at least so long, by the bounds of ages
older() {
	sed -n 's/^# age \([0-9]\)/\1/p' "$1" | awk '{
		split("", c)
		for (i = 2; i <= NF; i++) { split($i, pair, ":"); c[pair[1]] = pair[2] }
		line = ""
		for (i = 9; i >= 0; i--) { sum[NR] += c[i]; line = " " sum[NR] line }
		print $1 line
	}'
}
old_bytes() { older "$1" | awk '{ sum += $3 } END { print sum + 0 }'; }
# Of a process that runs, ages are those of now; of one that was killed, those of its last second, so some must have passed.
is_old() { "$CTL" dump --core "$box" -o look.heap && [ "$(old_bytes look.heap)" -ge 112000 ] && [ "$(grep -c '^# second ' look.heap)" -ge 4 ]; }
sleep 1.3
until_true is_old
end
of_box "killed"
body got.heap >got.body
cmp -s own.body got.body
ok $? "killed: the same threads, stacks and counts as in its own dump" "$(diff own.body got.body)"
is "$(grep '\.exe=' got.heap)" "$(grep '\.exe=' own.heap)" "killed: the program"
# The box was told its last second after its own dump: nothing of it is younger.
older own.heap >own.ages
older got.heap >got.ages
grep -q '^1 ' got.ages
ok $? "killed: it has ages" "$(grep '^# age' got.heap)"
is "$(cut -d' ' -f1,2 got.ages)" "$(cut -d' ' -f1,2 own.ages)" "killed: ages of the same sites, with the same sums"
is "$(paste -d' ' own.ages got.ages | awk '{ n = NF / 2; for (i = 3; i <= n; i++) if ($i > $(i + n)) print }')" "" "killed: nothing is younger than in its own dump"
[ "$(old_bytes got.heap)" -ge 112000 ]
ok $? "killed: what was held for more than a second is older than one" "$(cat got.ages)"
[ "$(sed -n 's/^# jemalloc.rss=//p' got.heap)" -gt 1000000 ]
ok $? "killed: its memory in the last second" "$(grep rss got.heap)"
cat "$box" | "$CTL" dump --core - -o x.heap >out 2>&1
is "$? $(cat out)" "1 jeprofctl: -: a black box cannot be read from a pipe; give its file" "killed: from a pipe"
"$BUILD/bin/jeprof" top got.heap >top.out 2>&1
grep -q '  hold_orders ' top.out
ok $? "killed: jeprof names what held the memory" "$(cat top.out)"
rm -f p.*

CONF=$EXACT,prof_blackbox:fd begin sleep
fd=
for f in "/proc/$pid"/fd/*; do
	case $(readlink "$f") in */memfd:jemalloc-blackbox*) fd=$f ;; esac
done
[ -n "$fd" ]
ok $? "fd: a memory file" "$(ls -l "/proc/$pid/fd")"
exec 8<"$fd"
end
runs "fd: who has it open reads it when the process is dead" "$CTL" dump --core /dev/fd/8 -o got.heap
exec 8<&-
holds fd
is "$(ls p.* 2>/dev/null)" "" "fd: no file"

# At whatever instant: four threads at thousands of stacks, the tables in growth at first.
rounds=${BLACKBOX_ROUNDS:-20}
bad=
i=0
while [ "$i" -lt "$rounds" ]; do
	i=$((i + 1))
	CONF=$EXACT,prof_blackbox:true,prof_blackbox_size:4M,prof_thread:$([ $((i % 2)) -eq 0 ] && echo true || echo false) begin run
	sleep "0.$(printf %03d $((i * 7919 % 300)))"
	end
	"$CTL" dump --core "$(echo "$W"/p.*.b.box)" -o got.heap >/dev/null 2>err || bad="$bad $i:$(cat err)"
	grep -q '^  t[0-9]*: 1000: 112000 \[0: 0\] holder$' got.heap || bad="$bad $i:holder"
	grep -q '^# jemalloc.torn=0$' got.heap || bad="$bad $i:$(grep torn got.heap)"
	samples=$(sed -n 's/^# jemalloc.samples=//p' got.heap)
	# Each of four threads holds at most 64 others; one that runs on while the tables are copied may be counted at two sites.
	[ "$samples" -ge 1010 ] && [ "$samples" -le $((1010 + 2 * 4 * 64 + 16)) ] || bad="$bad $i:samples=$samples"
	rm -f p.* got.heap
done
is "$bad" "" "killed at $rounds instants: each box is whole, and exact but for one sample in each thread"

# ---- its end ----

CONF=$EXACT,prof_blackbox:true begin end
wait "$pid"
is "$(ls p.* 2>/dev/null)" "" "a clean end removes it"
CONF=$EXACT,prof_blackbox:true,prof_blackbox_keep:true begin end
wait "$pid"
of_box "kept after a clean end"
rm -f p.*

# What may no longer remove it says so, once: after setuid or chroot. What somebody else has removed is no message.
cat >drop.c <<'C'
#define _GNU_SOURCE
#include <grp.h>
#include <stdlib.h>
#include <unistd.h>
int main(int c, char **v) {
	void *volatile p = malloc(1000);
	free(p);
	switch (v[1][0]) {
	case 's': return setgroups(0, 0) || setgid(65534) || setuid(65534);
	case 'r': return chroot(v[2]) || chdir("/");
	case 'm': return system("rm p.*.b.box");
	}
	return 0;
}
C
$CC -w -o drop drop.c
mkdir jail
if [ "$(id -u)" -eq 0 ]; then
	for how in "setuid EACCES" "root ENOENT"; do
		set -- $how
		LD_PRELOAD=$LIB MALLOC_CONF=$EXACT,prof_blackbox:true,prof_blackbox_size:1M ./drop "$1" jail 2>err
		is "$? $(grep -c "cannot be removed ($2): $(echo "$W"/p.*.b.box)\$" err) $(wc -l <err)" "0 1 1" "after $1: a message that the file stays" "$(cat err)"
		is "$("$CTL" dump --core "$(echo p.*)" -o - 2>/dev/null | sed -n 's/^# jemalloc.end=//p')" ended "after $1: and it says how it ended"
		LD_PRELOAD=$LIB MALLOC_CONF=$EXACT,prof_blackbox:true,prof_blackbox_keep:true ./drop "$1" jail 2>err
		is "$(cat err)" "" "after $1: no message if it is to be kept"
		rm -f p.*
	done
else
	skip "not root"
fi
LD_PRELOAD=$LIB MALLOC_CONF=$EXACT,prof_blackbox:true,prof_blackbox_size:1M ./drop more 2>err
is "$(cat err) $(ls p.* 2>/dev/null)" " " "removed by somebody else: no message"

# ---- a session ----

CONF=prof_prefix:$W/p begin allocate
runs "start --blackbox" "$CTL" start "$pid" --blackbox --blackbox-size 2M --rate 1 -q
is "$(stat -c '%a %s' p.*.b.box)" "600 2097152" "its box"
sleep 0.3
of_box "of a session"
grep -q '^# jemalloc.session=1$' got.heap
ok $? "which it names" "$(head -12 got.heap)"
runs "stop" "$CTL" stop "$pid" -q
is "$(ls p.*.b.box 2>/dev/null)" "" "the end of the session removes it"
[ "$(grep -c 'b\.box' "/proc/$pid/maps")" -eq 0 ]
ok $? "and the tables are in memory again" "$(grep box "/proc/$pid/maps")"
runs "which are whole" "$CTL" dump "$pid" --outside -o got.heap
grep -qx '# jemalloc.torn=0' got.heap
ok $? "nothing is torn"
# again, with tables that are in use
runs "start without" "$CTL" start "$pid" --rate 1 -q
sleep 0.2
runs "stop" "$CTL" stop "$pid" -q
runs "start --blackbox again" "$CTL" start "$pid" --blackbox --rate 1 -q
sleep 0.2
runs "dump" "$CTL" dump "$pid" -o now.heap -q
end
of_box "moved"
rm -f p.*
CONF=$EXACT begin run
bad=
for i in 1 2 3 4 5 6 7 8; do
	"$CTL" start "$pid" --blackbox --blackbox-size 64M --reset false -q >/dev/null 2>err || bad="$bad $i:$(cat err)"
	"$CTL" dump --core "$(echo "$W"/p.*.b.box)" -o got.heap >/dev/null 2>err || bad="$bad $i:$(cat err)"
	grep -q '^  t[0-9]*: 1000: 112000 \[0: 0\] holder$' got.heap || bad="$bad $i:holder"
	"$CTL" stop "$pid" -q >/dev/null 2>err || bad="$bad $i:$(cat err)"
	"$CTL" dump "$pid" -o got.heap -q >/dev/null 2>err || bad="$bad $i:$(cat err)"
	grep -q '^  t[0-9]*: 1000: 112000 \[0: 0\] holder$' got.heap || bad="$bad $i:holder after"
	samples=$(sed -n 's/^# jemalloc.samples=//p' got.heap)
	# Each of four threads holds at most 64 others; one that runs on while the tables are copied may be counted at two sites.
	[ "$samples" -ge 1010 ] && [ "$samples" -le $((1010 + 2 * 4 * 64 + 16)) ] || bad="$bad $i:samples=$samples"
done
is "$bad" "" "into a box and back eight times, at full speed: nothing is lost"
kill -0 "$pid"
ok $? "it lives on"
end
rm -f p.*

# ---- fork ----

CONF=$EXACT,prof_blackbox:true begin fork
[ "$(echo p.*.b.box | wc -w)" -ge 1 ]
ok $? "fork" "$(ls p.*)"
box=$(echo p."$pid".*.b.box)
end
runs "fork: the box of the parent" "$CTL" dump --core "$box" -o got.heap
holds "fork"
grep -qx '# jemalloc.torn=0' got.heap
ok $? "fork: nothing is torn"
grep -q '^  t[0-9]*: 20[0-9][0-9]: ' got.heap
[ $? -ne 0 ]
ok $? "fork: nothing of the child is in it" "$(grep '^  t' got.heap | head)"
rm -f p.*

# ---- exec ----

# end_of FILE: how its process ended
end_of() {
	"$CTL" dump --core "$1" -o - 2>err | sed -n 's/^# jemalloc.end=//p'
}
# becomes COMMAND [wait]: a shell with a box that execs sleep; sets pid when it has done so, with wait when that has a box
becomes() {
	LD_PRELOAD=$LIB MALLOC_CONF=$CONF sh -c "$1" &
	pid=$!
	children="$children $pid"
	until_true is_sleep
	[ -z "${2:-}" ] || until_true is_boxed
}
is_sleep() {
	case $(readlink "/proc/$pid/exe") in */sleep) ;; *) return 1 ;; esac
}
is_boxed() {
	of_sleep=$(sed -n '/b\.box$/{s,^[^/]*,,p;q;}' "/proc/$pid/maps")
	[ -n "$of_sleep" ] && [ "$(end_of "$of_sleep")" = running ]
}
BOXED=$EXACT,prof_blackbox:true,prof_blackbox_size:1M
CONF=$BOXED becomes 'exec sleep 1000' wait
set -- p."$pid".*.b.box
is "$#" 1 "exec to a program with a box: the earlier one is removed" "$(ls p.*)"
is "$(end_of "$1")" running "exec: the box of the new program"
cp "$1" copy
is "$(end_of copy)" "copied before its end" "a copy, which nobody changes"
end
is "$(end_of copy)" killed "the copy, when its process is killed"
rm copy
is "$(end_of "$1")" killed "exec: which is killed"
rm -f p.*
CONF=$BOXED,prof_blackbox_keep:true becomes 'exec env sleep 1000' wait
set -- p."$pid".*.b.box
is "$#" 3 "exec twice, and boxes are kept" "$(ls p.*)"
end
is "$(for f in "$@"; do end_of "$f"; done | tr '\n' ' ')" "replaced by exec replaced by exec killed " "exec twice: what they say"
"$CTL" dump --core "$1" -o - 2>/dev/null | grep -q '^# jemalloc.ended_time=20'
ok $? "exec: when"
has "$("$BUILD/bin/jeprof" ls "$1" 2>/dev/null)" ": replaced by exec" "exec: jeprof ls says it"
rm -f p.*
# What exec has replaced and is kept counts as a file of an earlier process, which is never removed; what is not kept is gone before.
CONF=$BOXED,prof_dump_max_files:1 becomes 'exec env sh -c "exec sleep 1000"' wait
is "$(ls p.* | wc -l) $(end_of p.*)" "1 running" "exec three times, one file allowed: each program has a box"
end
rm -f p.*
CONF=$BOXED,prof_blackbox_keep:true,prof_dump_max_files:2 becomes 'exec env sh -c "exec sleep 1000" 2>exec.err'
is "$(for f in p.*; do end_of "$f"; done | sort -u)" "replaced by exec" "exec three times, two files kept: the last program has no box"
is "$(ls p.* | wc -l)" 2 "and there are two" "$(ls p.*)"
until_true grep -q prof_dump_max_files exec.err # the last program may only just have begun
has "$(cat exec.err)" "are as many as prof_dump_max_files" "which is said"
is "$(grep -c 'no box could be opened' exec.err)" 0 "in one line each" "$(cat exec.err)"
end
rm -f p.*
# Files that only look like one that this process has left: of another start, in use, a link, a pipe.
CONF=$BOXED becomes "box=\$(echo p.\$\$.*.b.box) n=20200101T000000.000Z
	cp \$box p.\$\$.\$n.1.b.box; dd if=/dev/zero of=p.\$\$.\$n.1.b.box bs=8 seek=8 count=1 conv=notrunc 2>/dev/null
	cp \$box p.\$\$.\$n.2.b.box; exec 7<p.\$\$.\$n.2.b.box; flock -x 7
	cp \$box other; ln -s other p.\$\$.\$n.3.b.box
	mkfifo p.\$\$.\$n.4.b.box; : >p.\$\$.\$n.5.b.box; cp \$box p.\$\$.\$n.6.b.box; exec sleep 1000" wait
is "$(ls p."$pid".* | grep -o '[0-9]*\.b\.box' | sort | tr '\n' ' ')" "0.b.box 1.b.box 2.b.box 3.b.box 4.b.box 5.b.box " "exec: of files with its name only those that are its own and not in use go"
is "$(od -An -tu4 -j52 -N4 other | tr -d ' ')" 0 "exec: no link is followed"
end
rm -f p.* other
CONF=$BOXED becomes 'unset LD_PRELOAD; exec sleep 1000'
set -- p."$pid".*.b.box
is "$# $(end_of "$1")" "1 replaced by exec" "exec to a program without the library"
end
rm -f p.*
# Of a process that cannot be seen from where the box is read.
CONF=$BOXED begin sleep
if unshare -pf --mount-proc true 2>/dev/null; then
	is "$(unshare -pf --mount-proc "$CTL" dump --core "$(echo p.*.b.box)" -o - 2>err | sed -n 's/^# jemalloc.end=//p')" running "in another pid namespace: the lock tells that it runs"
else
	skip "no pid namespace"
fi
end
rm -f p.*

# ---- no room ----

CONF=$EXACT,prof_blackbox:true,prof_blackbox_size:1M begin stacks 20000
"$CTL" dump "$pid" -o own.heap -q >/dev/null 2>err
end
of_box "full"
grep -q ' - \[no room\]$' got.heap
ok $? "full: the rest is at one site" "$(tail -5 got.heap)"
[ "$(sed -n 's/^# jemalloc.no_room=//p' got.heap)" -gt 1000 ]
ok $? "full: which is counted" "$(grep no_room got.heap)"
samples=$(sed -n 's/^# jemalloc.samples=//p' got.heap)
[ "$samples" -ge 21010 ] && [ "$samples" -le 21030 ]
ok $? "full: no sample is lost" "$samples"
# A box has room for some records; with fewer than 95 % of them there are no ages.
is "$(grep -c '^# age none: the image has the ages of [0-9]* % of the live samples$' got.heap)" 1 "full: why there are no ages" "$(grep '^# age' got.heap | head -3)"
"$BUILD/bin/jeprof" top got.heap >top.out 2>&1
grep -q '\[no room\]' top.out
ok $? "full: jeprof names it" "$(cat top.out)"
rm -f p.*
CONF=prof_prefix:$W/p,prof_dump_max_files:1 begin allocate
echo heap_v2/1 >p.1.0.a0.heap # of another process
"$CTL" start "$pid" --blackbox -q 2>err
grep -q 'blackbox: the files at the prefix are as many as prof_dump_max_files' err
ok $? "start --blackbox with no room among the files: why" "$(cat err)"
rm -f p.*
end
CONF=prof_prefix:$W/none/p begin allocate
"$CTL" start "$pid" --blackbox -q 2>err
grep -q 'blackbox: the directory of the prefix is not there' err
ok $? "and with no directory" "$(cat err)"
end

if [ "$(id -u)" -eq 0 ] && mkdir small && mount -t tmpfs -o size=1m tmpfs small 2>/dev/null; then
	CONF=prof_prefix:$W/small/p begin allocate
	"$CTL" start "$pid" --blackbox -q 2>err
	[ $? -ne 0 ]
	ok $? "a disk that is too small: no session"
	has "$(cat err)" "blackbox: there is no room for it" "and said"
	is "$(ls -A small)" "" "no file stays"
	runs "it can start without" "$CTL" start "$pid" -q
	end
	CONF=prof:true,prof_prefix:$W/small/p,prof_blackbox:true begin sleep
	has "$(cat err)" "prof_blackbox: no box could be opened: ENOSPC" "from the start: one line"
	kill -0 "$pid"
	ok $? "and the program runs"
	end
	umount small
else
	skip "no small file system"
fi
done_testing
