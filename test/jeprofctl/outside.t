#!/bin/sh
# Profiles that no thread of the process makes: read from its memory while it sleeps, is stopped, hangs inside malloc, is confined,
# runs at full speed; and from core files of all kinds. They say the same as the process's own dump.
. "$JEMALLOC_SRC/test/include/tap.sh"

CTL=$BUILD/bin/jeprofctl
$CC -std=gnu11 -O1 -w -I"$BUILD/include" -o tables "$SRC/test/jeprofctl/tables.c" -L"$LIBDIR" -ljemalloc -Wl,-rpath,"$LIBDIR" -lpthread || exit 1
EXACT=prof:true,lg_prof_sample:0,prof_thread:false
children=
trap 'for c in $children; do kill -CONT "$c" 2>/dev/null; kill -9 "$c" 2>/dev/null; done; cd /; rm -rf "$W"' EXIT

# begin MODE [BYTES]: starts the process, and sets pid when it is ready. CONF: its options.
begin() {
	rm -f said own.heap
	mkfifo said
	# shellcheck disable=SC2086
	MALLOC_CONF=${CONF:-$EXACT} ${LAUNCH:-} ./tables "$@" </dev/zero >said 2>tables.err &
	pid=$!
	children="$children $pid"
	read -r _ <said
}

# begin_few FILTER: the same with this coredump_filter
begin_few() {
	echo "echo $1 >/proc/self/coredump_filter && exec \"\$@\"" >"few$1"
	begin sleep
}

end() {
	kill -9 "$pid" 2>/dev/null
	wait "$pid" 2>/dev/null
}

# body FILE: what a profile says of the heap: without the lines of when and how, and without what was mapped
body() {
	sed '/^# /d; /^MAPPED_LIBRARIES:/,$d' "$1"
}

# same FILE NAME: it says what the process said itself
same() {
	body own.heap >own.body
	body "$1" >got.body
	cmp -s own.body got.body
	ok $? "$2: the same threads, stacks and counts as in the process's own dump" "$(diff own.body got.body)"
	grep -q '^  t[0-9]*: 1000: 112000 \[0: 0\] holder$' "$1"
	ok $? "$2: what its thread holds" "$(grep '^  t' "$1" | head)"
	grep -qx '# jemalloc.torn=0' "$1"
	ok $? "$2: nothing is torn" "$(grep torn "$1")"
	is "$(sed -n 's/^# end //p' "$1")" "$(($(wc -c <"$1") - $(tail -n 1 "$1" | wc -c)))" "$2: it is whole"
}

# modules FILE: the loaded objects that it names, without addresses and directories, which may be links
modules() {
	sed -n 's/^# module [^ ]* [^ ]* //p' "$1" | sed 's,/.*/,,' | sort
}

# ages FILE: a line for each site with ages and more than 50000 bytes: those that are at least so old, for each bound. The others may be what
# the process just allocates, and the sites have other numbers then.
ages() {
	sed -n 's/^# age \([0-9]\)/\1/p' "$1" | awk '{
		split("", c)
		for (i = 2; i <= NF; i++) { split($i, pair, ":"); c[pair[1]] = pair[2] }
		sum = 0
		line = ""
		for (i = 9; i >= 0; i--) { sum += c[i]; line = " " sum line }
		if (sum > 50000) print substr(line, 2)
	}'
}

# between FILE EARLIER LATER NAME: nothing is younger than in the earlier profile, or older than in the later one; the sums are the same
between() {
	is "$(grep '^# age_bounds' "$1")" "# age_bounds_s 1 4 16 60 240 960 3600 14400 57600" "$4: it has ages"
	ages "$1" >ages.mid
	ages "$2" >ages.low
	ages "$3" >ages.high
	[ -s ages.mid ] && is "$(cut -d' ' -f1 ages.mid)" "$(cut -d' ' -f1 ages.low)" "$4: ages of the same sites, with the same sums"
	is "$(paste -d' ' ages.low ages.mid ages.high | awk '{ n = NF / 3; for (i = 1; i <= n; i++) if ($i > $(i + n) || $(i + n) > $(i + 2 * n)) print }')" "" \
	    "$4: not younger than before, nor older than after"
}

# ---- living processes ----

begin sleep
runs "idle" "$CTL" dump "$pid" --outside -o got.heap
same got.heap idle
is "$(modules got.heap)" "$(modules own.heap)" "the same loaded objects, with their build ids"
# meta FILE: the metadata, but for what changes from one profile to the next
meta() {
	grep -v '^# jemalloc\.\(dump_time\|monotonic_ms\|kind\|torn\|rss\|rss_shared\|allocated\|active\|resident\|retained\)=' "$1" | grep '^# jemalloc'
}
meta got.heap >got.meta
meta own.heap >own.meta
is "$(cut -d= -f1 got.meta)" "$(cut -d= -f1 own.meta)" "the same metadata"
for key in version prof_ext_version pid instance exe session sample_interval mixed_rates samples sites unwinder unwinder_tables; do
	is "$(grep "\.$key=" got.meta)" "$(grep "\.$key=" own.meta)" "the same $key"
done
# begun FILE: when its process began to count, in ms of the monotonic clock; each of the two figures is rounded down
begun() {
	awk -F= '/\.monotonic_ms=/ { now = $2 } /\.profiled_ms=/ { span = $2 } END { print now - span }' "$1"
}
off=$(($(begun got.heap) - $(begun own.heap)))
[ $off -ge -1 ] && [ $off -le 1 ]
ok $? "the same begin of the counts" "$off ms"
grep -qx '# jemalloc.kind=outside' got.heap
ok $? "kind=outside"
"$CTL" dump "$pid" --outside -o - >piped.heap 2>/dev/null
is "$(body piped.heap)" "$(body got.heap)" "to standard output"
mkdir here
name=$(cd here && "$CTL" dump "$pid" --outside -q)
echo "$name" | grep -q "^jeprof\.$pid\.[0-9]*T[0-9.]*Z\.0\.o0\.heap$"
ok $? "without -o: a name like those of the library" "$name"
is "$(body "here/$name")" "$(body got.heap)" "with the same profile"
runs "status" "$CTL" status "$pid" --outside
grep -q '^samples  *1010$\|^samples  *101[0-9]$' out
ok $? "how many samples live" "$(cat out)"
grep -q '^figures of  *[0-9]' out
ok $? "and of when the figures are" "$(cat out)"
runs "status, JSON" "$CTL" status "$pid" --outside --json
"$BUILD/bin/jeprof" top got.heap >top.out 2>&1
grep -q '  hold_orders ' top.out
ok $? "jeprof reads it, with names" "$(cat top.out)"
"$CTL" dump "$pid" --wait 300ms -o fell.heap 2>err
ok $? "without an answer in time it is read from outside" "$(cat err)"
same fell.heap "no answer"
is "$(grep -c 'the profile was read from outside instead$' err)" 1 "which is said in one line"
"$CTL" dump "$pid" "$W/fell2.heap" --wait 300ms 2>err
ok $? "also if the process was to write it" "$(cat err)"
same fell2.heap "no answer, a file of its own"
"$CTL" dump "$pid" --outside -o nowhere/x.heap 2>err
is $? 1 "no such directory: exit 1"
if [ -c /dev/full ]; then
	"$CTL" dump "$pid" --outside -o /dev/full 2>err
	is "$? $(cat err)" "1 jeprofctl: cannot write the profile: No space left on device" "a full device"
fi
kill -STOP "$pid"
runs "stopped" "$CTL" dump "$pid" --outside -o got.heap
same got.heap stopped
"$CTL" dump "$pid" --wait 300ms -o fell.heap 2>err
ok $? "stopped, without --outside" "$(cat err)"
has "$(cat err)" "is stopped (by a signal or a debugger)" "why is said"
same fell.heap "stopped, without --outside"
"$CTL" status "$pid" >out 2>err
has "$(cat err)" "next: jeprofctl status $pid --outside" "stopped: status says where the last figures are"
runs "and they are there" "$CTL" status "$pid" --outside
end

begin inside
runs "inside malloc, and another thread waits in fork" timeout 60 "$CTL" dump "$pid" --outside -o got.heap
grep -q '^  t[0-9]*: 1000: 112000 \[0: 0\] holder$' got.heap
ok $? "inside malloc: what its thread holds" "$(grep '^  t' got.heap | head)"
grep -qx '# jemalloc.torn=0' got.heap
ok $? "inside malloc: nothing is torn" "$(grep torn got.heap)"
end

begin strict
runs "strict seccomp" "$CTL" dump "$pid" --outside -o got.heap
same got.heap strict
kill -0 "$pid"
ok $? "it lives on"
end

CONF=prof:true,lg_prof_sample:0,prof_accum:true begin allocate
runs "sums of all that was allocated" "$CTL" dump "$pid" --outside -o got.heap
grep -q '^  t[0-9]*: 1000: 112000 \[1000: 112000\] holder$' got.heap
ok $? "are there" "$(grep '^  t' got.heap | head)"
end

CONF=prof:true,lg_prof_sample:12 begin sleep
runs "a rate of 4 KiB" "$CTL" dump "$pid" --outside -o got.heap
body own.heap >own.body
body got.heap >got.body
cmp -s own.body got.body
ok $? "the same estimates" "$(diff own.body got.body)"
end

CONF=prof:true,lg_prof_sample:12,prof_unbias:false begin sleep
runs "without estimates" "$CTL" dump "$pid" --outside -o got.heap
body own.heap >own.body
body got.heap >got.body
cmp -s own.body got.body
ok $? "the same counts" "$(diff own.body got.body)"
end

CONF=prof:false begin sleep
"$CTL" dump "$pid" --outside -o none.heap 2>err
is $? 1 "nothing was started: exit 1"
has "$(cat err)" "nothing has started the profiler" "and said"
[ ! -e none.heap ]
ok $? "no file is made"
end

# The same process says it before and after that, so each age lies between two others.
for conf in lg_prof_sample:0 lg_prof_sample:0,prof_time_resolution:high lg_prof_sample:12 lg_prof_sample:0,prof_accum:true lg_prof_sample:0,prof_blackbox:fd; do
	CONF=prof:true,$conf begin aged
	kill -STOP "$pid"
	runs "ages, $conf" "$CTL" dump "$pid" --outside -o got.heap
	kill -CONT "$pid"
	runs "and its own dump later" "$CTL" dump "$pid" -o later.heap -q
	between got.heap own.heap later.heap "$conf"
	is "$(grep '^# life ' got.heap)" "$(grep '^# life ' own.heap)" "$conf: the ages of what was freed"
	case $conf in *accum*)
		grep -q '^# life .* 0:' got.heap
		ok $? "$conf: which is there" "$(grep '^# life' got.heap)"
		;;
	esac
	"$BUILD/bin/jeprof" top --younger 0s got.heap >top.out 2>&1
	ok $? "$conf: jeprof knows them" "$(cat top.out)"
	end
done

# At full speed: what main holds is there in each. A thread's 64 objects are counted once or, where they moved on to a site that is read
# later, again: how often depends on how long the reader was kept from the processor, so the least of ten is judged.
begin run
bad=
least=999999
for i in 1 2 3 4 5 6 7 8 9 10; do
	"$CTL" dump "$pid" --outside -o "run$i.heap" >/dev/null 2>err || bad="$bad $i:$(cat err)"
	grep -q '^  t[0-9]*: 1000: 112000 \[0: 0\] holder$' "run$i.heap" || bad="$bad $i:holder"
	grep -q '^# jemalloc.torn=0$' "run$i.heap" || bad="$bad $i:$(grep torn "run$i.heap")"
	"$BUILD/bin/jeprof" top "run$i.heap" >/dev/null 2>err || bad="$bad $i:$(cat err)"
	samples=$(sed -n 's/^# jemalloc.samples=//p' "run$i.heap")
	[ "$samples" -ge 1010 ] || bad="$bad $i:samples=$samples"
	[ "$samples" -ge "$least" ] || least=$samples
done
is "$bad" "" "ten times at full speed"
[ "$least" -le $((1010 + 4 * 128 + 16)) ]
ok $? "and no thread's objects more than twice" "$least"
kill -STOP "$pid"
is_stopped() { [ "$(cat /proc/"$pid"/task/*/stat | sed 's/.*) //' | cut -c1 | sort -u)" = T ]; }
until_true is_stopped
"$CTL" dump "$pid" --outside -o s1.heap -q >/dev/null && "$CTL" dump "$pid" --outside -o s2.heap -q >/dev/null
is "$(body s1.heap)" "$(body s2.heap)" "stopped in the midst of it: twice the same"
samples=$(sed -n 's/^# jemalloc.samples=//p' s1.heap)
[ "$samples" -le $((1010 + 4 * 64 + 16)) ]
ok $? "and exact, but for one sample in each thread" "$samples"
end

# ---- cores ----

# from FILE NAME: a profile of the core
from() {
	runs "$2" "$CTL" dump --core "$1" -o got.heap
	same got.heap "$2"
}

if [ "$(cat /proc/sys/kernel/core_pattern)" = core ] && (ulimit -c unlimited) 2>/dev/null; then
	kernel_cores() {
		rm -f core core.*
		(ulimit -c unlimited && LAUNCH="$1" && begin abort $2; wait "$pid") 2>/dev/null
		mv core.* core 2>/dev/null
		[ -s core ]
	}
	if kernel_cores "" ""; then
		from core "SIGABRT"
		is "$(modules got.heap | grep -v vdso)" "$(modules own.heap | grep -v vdso)" "SIGABRT: the same loaded objects, with their build ids"
		between got.heap own.heap got.heap "SIGABRT"
		grep -qx '# jemalloc.kind=core' got.heap
		ok $? "kind=core"
		is "$(grep '\.exe=' got.heap)" "$(grep '\.exe=' own.heap)" "the program"
		cp got.heap file.heap
		cat core | "$CTL" dump --core - -o got.heap >/dev/null 2>err
		ok $? "from a pipe" "$(cat err)"
		same got.heap "from a pipe"
		between got.heap own.heap file.heap "from a pipe"
		is "$(modules got.heap)" "$(modules file.heap)" "from a pipe: the same loaded objects"
		head -c 100000 core >short
		"$CTL" dump --core short -o none.heap 2>err
		is $? 1 "a core that is cut off: exit 1"
		is "$(grep -c . err)" 1 "and one sentence" "$(cat err)"
		head -c 100000 core | "$CTL" dump --core - -o none.heap 2>err
		is $? 1 "cut off in a pipe: exit 1"
		is "$(grep -c . err)" 1 "and one sentence"
	else
		skip "the kernel writes no core here"
	fi
	# without the first pages of files (bit 4) the library's note is not there
	echo 'echo 0x03 >/proc/self/coredump_filter && exec "$@"' >few
	if kernel_cores "sh few" ""; then
		from core "without pages of files"
		"$CTL" dump --core core -o got.heap 2>err
		has "$(cat err)" "the core lacks the headers of" "what it lacks is said"
	else
		skip "the kernel writes no core here"
	fi
	if kernel_cores "" 2147483648; then
		from core "a process of 2 GiB"
	else
		skip "the kernel writes no core here"
	fi
	rm -f core
else
	skip "cores do not go to a file named core"
fi
if command -v gcore >/dev/null; then
	begin sleep
	gcore -o gc "$pid" >gcore.out 2>&1
	from "gc.$pid" "gcore"
	between got.heap own.heap got.heap "gcore"
	cat "gc.$pid" | "$CTL" dump --core - -o piped.heap >/dev/null 2>err
	ok $? "gcore, from a pipe" "$(cat err)"
	cmp -s got.heap piped.heap
	ok $? "gcore, from a pipe: the same profile" "$(diff got.heap piped.heap)"
	is "$(cat err | grep -v '^next:')" "" "gcore, from a pipe: nothing lacks"
	# in such a core the notes are behind the memory: it ends in the first of them
	notes=$(readelf -lW "gc.$pid" | awk '$1 == "NOTE" { print $2 }')
	head -c $((notes + 100)) "gc.$pid" | "$CTL" dump --core - -o piped.heap >/dev/null 2>err
	has "$(cat err)" "cut" "gcore, cut off in a pipe: which is said"
	end
	# what coredump_filter leaves out: pages of files; shared memory, in which a memory file is
	for filter in 0x23 0x01; do
		for box in false fd; do
			CONF=$EXACT,prof_blackbox:$box LAUNCH="sh few$filter" begin_few "$filter"
			gcore -o few "$pid" >gcore.out 2>&1
			if [ "$filter $box" = "0x01 fd" ]; then
				"$CTL" dump --core "few.$pid" -o none.heap 2>err
				is "$? $(grep -c . err)" "1 1" "gcore, filter $filter, blackbox:$box: no tables, one sentence" "$(cat err)"
			else
				from "few.$pid" "gcore, filter $filter, blackbox:$box"
				cat "few.$pid" | "$CTL" dump --core - -o piped.heap >/dev/null 2>err
				is "$(body piped.heap)" "$(body got.heap)" "gcore, filter $filter, blackbox:$box: from a pipe"
			fi
			rm -f "few.$pid" piped.heap
			end
		done
	done
else
	skip "no gcore"
fi
"$CTL" dump --core . -o none.heap 2>err
is "$? $(cat err)" "1 jeprofctl: .: Is a directory" "a directory in place of a core"
"$CTL" dump --core - -o none.heap 2>err <&-
is "$? $(cat err)" "1 jeprofctl: -: Bad file descriptor" "a core from a closed stdin"
for file in "$LIB" ./tables "$0" /dev/null; do
	"$CTL" dump --core "$file" -o none.heap 2>err
	is $? 1 "$(basename "$file") is no core: exit 1"
	is "$(grep -c . err)" 1 "and one sentence"
done
for tool in gzip xz zstd lz4 bzip2; do
	if command -v $tool >/dev/null; then
		$tool -c <./tables >packed
		"$CTL" dump --core packed -o none.heap 2>err
		is "$? $(cat err)" "1 jeprofctl: packed: it is compressed; unpack it into a pipe: $tool -dc FILE | jeprofctl dump --core -" "a core compressed by $tool"
	else
		skip "no $tool"
	fi
done
"$CTL" dump --core nowhere 2>err
is $? 1 "no such file: exit 1"
"$CTL" dump --core x 1 2>err
is $? 2 "a core and a process: exit 2"
"$CTL" start 1 --outside 2>err
is $? 2 "start --outside: exit 2"
[ ! -e none.heap ]
ok $? "no file is made"
done_testing
