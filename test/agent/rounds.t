#!/bin/sh
# What requests leave behind in jeprofd: after some rounds of all kinds of them no site of it holds more memory, and it has
# no more descriptors. It runs on the library, which counts each object.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
CTL=$BUILD/bin/jeprofctl

export MALLOC_CONF=prof:true,lg_prof_sample:0,prof_prefix:
LD_PRELOAD=$LIB agent --allow-control
unset MALLOC_CONF
if ! ls "/proc/$agent_pid/fd" >/dev/null 2>&1; then
	end_agent
	skip_all "an agent that is not root hides its descriptors and its memory"
fi
work
heap=/p/$pid/debug/pprof/heap

# grown FILE...: of profiles one after the other the sites whose live objects are more by at least 3 in each one. Records of processes that
# begin and end on this machine meanwhile are more and less.
grown() {
	perl -e 'my (%n, $site);
		for my $i (0 .. $#ARGV) {
			open my $in, "<", $ARGV[$i] or die;
			while (<$in>) {
				$site = $1 if /^\@ (.*)/;
				$n{$site}[$i] = $1 if /^\s+t\*: (\d+):/ && defined $site;
			}
			undef $site;
		}
		for my $s (keys %n) {
			my @n = map { $n{$s}[$_] // 0 } 0 .. $#ARGV;
			print "@n: $s\n" unless grep { $n[$_] < $n[$_ - 1] + 3 } 1 .. $#n;
		}' "$@"
}

# Files and sockets, without what is held of the processes that are looked at
descriptors() { find "/proc/$agent_pid/fd" -type l -exec readlink {} + 2>/dev/null | grep -vc '/mem$\|memfd:\|pidfd\|socket:'; }

# Files that are open more than three times, which a sum that changes for other reasons may hide
often() { find "/proc/$agent_pid/fd" -type l -exec readlink {} + 2>/dev/null | grep '^/' | grep -v '/mem$\|memfd:' | sort | uniq -c | awk '$1 > 3'; }

round() {
	# processes that end, without the library and with it; one that is killed
	sleep 0.3 &
	LD_PRELOAD=$LIB sleep 0.3 &
	for path in / /targets /metrics "/p/$pid/" "/p/$pid/metrics" "$heap" "$heap?raw=1" "$heap?debug=1" "/p/$pid/debug/pprof/allocs" \
		"$heap?since=mark" "$heap?since=mark&raw=1" /p/1/ /dead/ /nowhere "$heap?x=1"; do
		printf 'url = "%s%s"\noutput = /dev/null\n' "$URL" "$path"
	done | curl -s -K - --max-time 60
	curl -s -o /dev/null -X POST "$URL/p/$pid/mark"
	wait "$!"
}

curl -s -o /dev/null -X POST "$URL/p/$pid/start?rate=64K"
# Blocks of three rounds, with a profile and the number of descriptors after each; again, if a machine that is busy otherwise may have
# been the reason.
for _ in 1 2 3; do
	has_fewest=false
	were=0
	figures=
	for block in 1 2 3 4 5; do
		for _ in 1 2 3; do round; done
		"$CTL" dump "$agent_pid" -o "block$block.heap" -q >out 2>err || cat out err
		now=$(descriptors)
		[ "$now" -le "$were" ] && has_fewest=true
		figures="$figures $now"
		were=$now
	done
	grown block*.heap >grown.out
	[ -s grown.out ] || ! $has_fewest || break
done
[ "$(grep -c '^@' block5.heap)" -gt 20 ]
ok $? "it counts each object" "$(head -n 40 block5.heap)"
is "$(cat grown.out)" '' "no site has more of them after each three rounds"
$has_fewest
ok $? "nor are there more descriptors" "$figures" "$(ls -l "/proc/$agent_pid/fd")"
is "$(often)" '' "no file is open again and again"
get "$heap?raw=1"
gives 200 heap_v2 "and it serves on"
end_agent
is "$ended" 0 "SIGTERM ends it"
done_testing
