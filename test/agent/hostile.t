#!/bin/sh
# Hostile clients (hostile.py), and processes that lie or hold their readers up: others are served.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
command -v python3 >/dev/null || { echo "1..0 # SKIP no python3"; exit 0; }
agent --allow-control
work
good=$pid
# Descriptors but those that it keeps of processes and of tables of names.
count_fds() {
	# 0 where only root sees them: jeprofd gives up its rights, and so hides them from its own user.
	find "/proc/$agent_pid/fd" -type l -exec readlink {} + 2>/dev/null | grep -vc '/mem$\|memfd:'
}
before=$(count_fds)
address=${URL#http://}
runs "hostile clients" python3 "$SRC/test/agent/hostile.py" "${address%:*}" "${address##*:}" "$good" "$agent_pid"
grep '^not ok\|^# ' out
sleep 0.5
is_few() {
	[ "$(count_fds)" -le $((before + 1)) ]
}
until_true is_few
ok $? "no descriptor is lost" "$before before" "$(ls -l "/proc/$agent_pid/fd")"

# Processes whose mailbox is theirs alone: fake answers as the library does, or not at all, or wrongly.
$CC -std=gnu11 -O1 -w -I"$SRC/src" -o fake "$SRC/test/jeprofctl/fake.c" || exit 1
mkfifo go
exec 8<>go
for mode in normal slow torn stolen stream-fails stream-dies stream-late stream-lies stream-wraps idle deaf full abandoned closed sampling barred; do
	./fake "$mode" <go >/dev/null 2>&1 &
	children="$children $!"
	fakes="$fakes $!"
done
for process in $fakes; do
	curl -s -o /dev/null --max-time 40 "$URL/p/$process/debug/pprof/heap" &
	waiting="$waiting $!"
done
# Those of one user may use half of --max-scrapes; whoever comes then is told to try again.
is_served() {
	get "/p/$good/debug/pprof/heap?raw=1"
	[ "$code" != 503 ]
}
until_true is_served
gives 200 heap_v2 "a process beside those that lie"
get /metrics
gives 200 jeprof_allocated_bytes "figures"

# A process that handles its own page faults and does not: whoever reads there waits.
cat >hold.c <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = {.api = UFFD_API};
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0) {
		return 77;
	}
	/* Memory that looks like the first page of an object: read-only, without a file. */
	char *page = mmap(NULL, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register r = {.range = {(uintptr_t)page, 65536}, .mode = UFFDIO_REGISTER_MODE_MISSING};
	if (ioctl(fd, UFFDIO_REGISTER, &r) != 0) {
		return 77;
	}
	puts("ready");
	fflush(stdout);
	while (argc == 1) pause();
	return 0;
}
C
if $CC -o hold hold.c 2>/dev/null && ./hold once >/dev/null; then
	holders=
	for i in 1 2 3 4 5 6; do
		./hold >"hold.$i" &
		children="$children $!"
		holders="$holders $!"
	done
	are_ready() { [ "$(cat hold.[1-6] | grep -c ready)" -eq 6 ]; }
	until_true are_ready
	for process in $holders; do
		curl -s -o /dev/null --max-time 2 "$URL/p/$process/debug/pprof/heap" &
		waiting="$waiting $!"
	done
	sleep 2
	until_true is_served
	gives 200 heap_v2 "a process beside six that hold their readers up"
	work ./work
	ok $? "a new process is found meanwhile"
	kill -9 $holders
else
	skip "no userfaultfd"
	skip "no userfaultfd"
fi
# shellcheck disable=SC2086
kill $waiting 2>/dev/null
end_agent

# Differences of processes that do not answer: none of them sleeps yet, and there are 32 at most.
agent --max-scrapes 100
deaf=
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do
	./fake deaf <go >/dev/null 2>&1 &
	children="$children $!"
	deaf="$deaf $!"
	printf 'url = "%s/p/%s/debug/pprof/heap?seconds=600"\noutput = "delta%s"\n' "$URL" "$!" "$i.1"
	printf 'url = "%s/p/%s/debug/pprof/heap?seconds=600"\noutput = "delta%s"\n' "$URL" "$!" "$i.2"
done >deltas
for p in $deaf; do until_true is_target "$p"; done
curl -s -Z --parallel-immediate --parallel-max 40 --max-time 60 -K deltas
is "$(cat delta*.* | grep -c '^no room for one more request of this kind now: try again')" 2 "of 34 differences at once two are refused" "$(cat delta*.*)"
is "$ended" 0 "it ends well"
grep -v 'listens on' agent.err
done_testing
