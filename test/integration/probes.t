#!/bin/sh
# The probes otel_memory:alloc and :free: their notes, and with the kernel's own uprobes that a process which nobody has
# prepared takes samples while a tracer is attached. No time is measured; a program that is traced waits for a word to go on.
. "$JEMALLOC_SRC/test/include/tap.sh"
grep -q '^#define CONFIG_PROF_PROBES 1' "$BUILD/src/config.h" || skip_all "no probes in this build"

# ---- notes ----
notes=$(readelf -n "$LIB" | sed -n 's/^ *//; /^Provider/,/^Arguments/p')
is "$(printf '%s\n' "$notes" | grep -c '^Provider: otel_memory$')" 2 "the library has two notes of the provider"
is "$(printf '%s\n' "$notes" | sed -n 's/^Name: //p' | tr '\n' ' ')" "alloc free " "alloc and free"
case $(uname -m) in
x86_64) want='8@%rdi 8@%rsi 8@%rdx|8@%rdi|' ;;
*) want='8@x0 8@x1 8@x2|8@x0|' ;;
esac
is "$(printf '%s\n' "$notes" | sed -n 's/^Arguments: //p' | tr '\n' '|')" "$want" "with three arguments and one"
base=$(readelf -S -W "$LIB" | sed -n 's/.* \.stapsdt\.base *PROGBITS *\([0-9a-f]*\) .*/\1/p')
is "$(printf '%s\n' "$notes" | sed -n 's/.*Base: 0x\([0-9a-f]*\),.*/\1/p' | sort -u)" "$base" "their base is the section .stapsdt.base"

cat >traced.c <<'END'
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* allocates bytes in blocks of several sizes; a tenth stays alive */
__attribute__((noinline)) static void fill(size_t bytes, void **keep)
{
	unsigned i = 0;
	for (size_t done = 0; done < bytes; i++) {
		size_t n = 16 + (i * 7919u) % 8000;
		void *p = malloc(n);
		memset(p, 1, n);
		done += malloc_usable_size(p);
		if (i % 10 == 0) {
			free(keep[i / 10 % 1000]);
			keep[i / 10 % 1000] = p;
		} else {
			free(p);
		}
	}
	printf("%u\n", i);
}

int main(void)
{
	static void *keep[1000];
	char line[64];
	setvbuf(stdout, NULL, _IONBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin) != NULL) {
		int forks = line[0] == 'f';
		pid_t child = forks ? fork() : -1;
		if (child > 0) {
			waitpid(child, NULL, 0);
			printf("%d\n", (int)child);
			continue;
		}
		if (child == 0)
			freopen("/dev/null", "w", stdout);
		fill(strtoul(line + forks, NULL, 10), keep);
		if (child == 0)
			_exit(0);
	}
	return 0;
}
END
$CC -O1 -g -o traced traced.c
if $CC -O1 -static -o traced_static traced.c "$LIBDIR/libjemalloc.a" -lpthread -lm 2>static.err; then
	is "$(readelf -n traced_static | grep -c 'Provider: otel_memory')" 2 "a static program has the notes"
	is "$(readelf -n traced_static | sed -n 's/.*Base: 0x0*\([0-9a-f]*\),.*/\1/p' | sort -u)" \
		"$(readelf -S -W traced_static | sed -n 's/.* \.stapsdt\.base *PROGBITS *0*\([0-9a-f]*\) .*/\1/p')" "with the right base"
else
	skip 2 "no static program can be linked here: $(head -n 1 static.err)"
fi
# ---- the kernel's uprobes, in a mount namespace of our own ----
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
	skip 1 "uprobes need root"
	done_testing
fi
# A file of its own: a probe is set in all processes that use the file, and other tests run meanwhile.
cp "$LIB" "$W/probed.so"
LIB=$W/probed.so
mkdir tracing
if ! unshare -m sh -c "mount -t tracefs none '$W/tracing' && test -w '$W/tracing/uprobe_events'" 2>/dev/null; then
	skip 1 "the kernel has no uprobes here"
	done_testing
fi

# field FILE NAME: file offsets of the nop and of the semaphore of a probe, for uprobe_events
offsets() {
	readelf -n "$1" | sed -n "/Name: $2\$/{n;s/.*Location: \(0x[0-9a-f]*\),.*Semaphore: \(0x[0-9a-f]*\).*/\1 \2/p}" |
		while read -r pc sem; do
			readelf -l -W "$1" | awk -v pc="$pc" -v sem="$sem" '
				function n(s, i, v) { v = 0; s = tolower(substr(s, 3)); for (i = 1; i <= length(s); i++)
					v = v * 16 + index("0123456789abcdef", substr(s, i, 1)) - 1; return v }
				$1 == "LOAD" { for (k = 1; k <= 2; k++) { a = n(k == 1 ? pc : sem)
					if (a >= n($3) && a < n($3) + n($6)) out[k] = a - n($3) + n($2) } }
				END { printf "0x%x 0x%x\n", out[1], out[2] }'
		done
}

# The whole of it is one script, because tracefs is mounted for it alone.
cat >trace.sh <<'END'
set -u
mount -t tracefs none "$W/tracing"
cd "$W/tracing/instances" && mkdir "jetest$$" && cd "jetest$$" || exit 1
events=$W/tracing/uprobe_events
group=jetest$$
arg() { case $(uname -m) in x86_64) echo "%$1" ;; *) echo "%$2" ;; esac }
set -- $(cat "$W/alloc.at") $(cat "$W/free.at")
echo "p:$group/alloc $LIB:$1($2) ptr=$(arg di x0):u64 size=$(arg si x1):u64 bytes=$(arg dx x2):u64" >>"$events" || exit 2
echo "p:$group/free $LIB:$3($4) ptr=$(arg di x0):u64" >>"$events" || exit 2
echo 20000 >buffer_size_kb
mkfifo "$W/in" "$W/out"
LD_PRELOAD=$LIB "$W/traced" <"$W/in" >"$W/out" &
pid=$!
exec 3>"$W/in" 4<"$W/out"
read -r word <&4
round() { echo "$1" >&3; read -r count <&4; }
# An idle process does not answer, so it works until jeprofctl has its answer.
status() {
	"$JEMALLOC_BUILD/bin/jeprofctl" status $pid >"$1" &
	while kill -0 $! 2>/dev/null; do round 200000; done
}
echo "$pid" >set_event_pid
echo 1 >tracing_on
round 20000000
echo 1 >"events/$group/alloc/enable"
echo 1 >"events/$group/free/enable"
round 1000000
echo >trace
round 400000000
cp trace "$W/trace"
status "$W/status.on"
echo >trace
"$JEMALLOC_BUILD/bin/jeprofctl" start $pid --rate 64K --prefix "$W/s" >/dev/null &
while kill -0 $! 2>/dev/null; do round 200000; done
round 1000000
echo >trace
round 200000000
cp trace "$W/trace.session"
status "$W/status.session"
"$JEMALLOC_BUILD/bin/jeprofctl" stop $pid -q >/dev/null &
while kill -0 $! 2>/dev/null; do round 200000; done
echo 0 >"events/$group/alloc/enable"
echo 0 >"events/$group/free/enable"
round 1000000
echo >trace
round 20000000
status "$W/status.off"
echo 1 >"events/$group/free/enable"
round 20000000
cp trace "$W/trace.free"
echo 0 >"events/$group/free/enable"
n=0
while [ $n -lt 100 ]; do
	echo 1 >"events/$group/alloc/enable"
	round 200000
	echo 0 >"events/$group/alloc/enable"
	round 200000
	n=$((n + 1))
done
status "$W/status.end"
exec 3>&-
wait $pid
echo $? >"$W/exit"
# A program that samples all by an option of its own, traced from its start: both see the same. It forks.
echo >set_event_pid
echo >trace
echo 1 >"events/$group/alloc/enable"
echo 1 >"events/$group/free/enable"
MALLOC_CONF=prof:true,lg_prof_sample:0 LD_PRELOAD=$LIB "$W/traced" <"$W/in" >"$W/out" &
echo $! >"$W/both.pid"
exec 3>"$W/in" 4<"$W/out"
read -r word <&4
round 5000000
round f5000000
echo "$count" >"$W/both.child"
"$JEMALLOC_BUILD/bin/jeprofctl" dump "$(cat "$W/both.pid")" --outside -o "$W/both.heap" >"$W/both.out" 2>&1
cp trace "$W/trace.both"
exec 3>&-
wait "$(cat "$W/both.pid")"
# A static program has probes of its own.
if [ -s "$W/static.at" ]; then
	set -- $(cat "$W/static.at")
	echo "p:$group/static $W/traced_static:$1($2) bytes=$(arg dx x2):u64" >>"$events"
	echo >trace
	echo 1 >"events/$group/static/enable"
	echo 200000000 | "$W/traced_static" >/dev/null
	cp trace "$W/trace.static"
	echo 0 >"events/$group/static/enable"
fi
cd .. && rmdir "jetest$$"
echo "-:$group/alloc" >>"$events"
echo "-:$group/free" >>"$events"
[ ! -s "$W/static.at" ] || echo "-:$group/static" >>"$events"
END
[ ! -x traced_static ] || offsets "$W/traced_static" alloc >static.at
offsets "$LIB" alloc >alloc.at
offsets "$LIB" free >free.at
export W LIB
unshare -m sh trace.sh >trace.out 2>&1
code=$?
if [ $code = 2 ]; then
	skip 1 "the kernel takes no reference counter with a uprobe"
	done_testing
fi
is "$code" 0 "the program is traced"
[ "$failures" = 0 ] || diag "$(cat trace.out)"
has "$(cat status.on)" "tracer                      yes" "its status tells of the tracer"
has "$(cat status.on)" "state                       idle" "no session has begun"
# 400 MB at a mean of 512 KiB are about 780 samples: the sum of their weights is right within 20 % in all but one of 10^7 runs.
# sums_up FILE EVENT MB NAME: the weighted bytes of an event are that much, within 20 %
sums_up() {
	sum=$(sed -n "s/.* $2: .*bytes=\\([0-9]*\\).*/\\1/p" "$1" | awk '{ s += $1 } END { printf "%d\n", s / 1000000 }')
	[ "${sum:-0}" -ge $(($3 * 8 / 10)) ] && [ "${sum:-0}" -le $(($3 * 12 / 10)) ]
	ok $? "$4: the weighted bytes of $3 MB sum up to $sum MB"
}
sums_up trace alloc 400 "a process that nobody has prepared"
has "$(cat status.session)" "tracer                      yes" "beside a session"
has "$(cat status.session)" "sample_interval             65536" "whose rate holds"
n=$(grep -c ' alloc: ' trace.session)
[ "$n" -gt 1500 ]
ok $? "so there are many samples: $n"
sums_up trace.session alloc 200 "beside a session"
# of FILE PID: the events of one process
of() { grep -- "-$2 " "$1"; }
of trace.both "$(cat both.pid)" >trace.parent
of trace.both "$(cat both.child)" >trace.child
live=$(awk '/ alloc: / { match($0, /ptr=[0-9]+/); p = substr($0, RSTART, RLENGTH); match($0, /bytes=[0-9]+/); live[p] = substr($0, RSTART + 6, RLENGTH - 6) }
	/ free: / { match($0, /ptr=[0-9]+/); p = substr($0, RSTART, RLENGTH); delete live[p] }
	END { for (p in live) { n++; sum += live[p] } print n ": " sum }' trace.parent)
dumped=$(sed -n 's/^ *t\*: *\([0-9]*: [0-9]*\) .*/\1/p' both.heap | head -n 1)
[ "${live%%:*}" -gt 50 ]
ok $? "some objects are live: $live bytes"
is "$live" "$dumped" "as many as the dump of the same moment has"
sums_up trace.child alloc 5 "a forked child"
if [ -s static.at ]; then
	sums_up trace.static static 200 "a static program"
else
	skip "no static program"
fi
awk '/ alloc: / { n++; match($0, /ptr=[0-9]+/); p = substr($0, RSTART, RLENGTH); live[p]++; if (live[p] > 1) twice++ }
	/ free: / { match($0, /ptr=[0-9]+/); p = substr($0, RSTART, RLENGTH); if (live[p] > 0) { live[p]--; f++ } }
	END { exit !(n > 100 && f > 50 && f <= n && twice == 0) }' trace
ok $? "each sample is freed at most once, and none allocated twice" "$(tail -n 5 trace)"
has "$(cat status.off)" "tracer                      no" "without a tracer the status says so"
is "$(grep -c ' alloc: ' trace.free)" 0 "and no sample is taken"
has "$(cat status.end)" "tracer                      no" "100 tracers have come and gone"
is "$(cat exit)" 0 "the program ends well"

# ---- bpftrace, as a person calls it ----
if command -v bpftrace >/dev/null; then
	is "$(bpftrace -l "usdt:$LIB:otel_memory:*" 2>bpf.err | sed 's/.*otel_memory://' | tr '\n' ' ')" "alloc free " "bpftrace lists the probes"
	LD_PRELOAD=$LIB ./traced <in >out &
	pid=$!
	exec 3>in 4<out
	read -r word <&4
	bpftrace -p $pid -e "usdt:$LIB:otel_memory:alloc { @bytes = sum(arg2); }" >bpf.out 2>bpf.err &
	tracer=$!
	turns=0
	while kill -0 $tracer 2>/dev/null && [ $turns -lt 1200 ]; do
		# An idle process does not answer.
		"$BUILD/bin/jeprofctl" status $pid >status.bpf 2>&1 &
		while kill -0 $! 2>/dev/null; do echo 200000 >&3 && read -r count <&4; done
		grep -q 'tracer *yes' status.bpf && break
		sleep 0.1
		turns=$((turns + 1))
	done
	if grep -q 'tracer *yes' status.bpf; then
		echo 400000000 >&3 && read -r count <&4
		kill -INT $tracer
		wait $tracer
		sed -n 's/^@bytes: \([0-9]*\)/ bpf: bytes=\1/p' bpf.out >trace.bpf
		sums_up trace.bpf bpf 400 "bpftrace"
	else
		skip "bpftrace cannot attach here: $(head -n 1 bpf.err)"
	fi
	exec 3>&-
	wait $pid
else
	skip "no bpftrace"
fi
done_testing
