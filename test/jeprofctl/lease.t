#!/bin/sh
# A request ends with the jeprofctl that waits for its answer: killed, it leaves nothing that the process carries out later.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/jeprofctl/aid"

[ -e "$LIB" ] || skip_all "no library"
cat >quiet.c <<'C'
/* quiet: allocates a little, then, for each byte on its standard input, enough for many heartbeats */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
void *volatile last;
static void
allocate(int n) {
	for (int i = 0; i < n; i++) {
		last = malloc(5000);
		free(last);
	}
}
int
main(void) {
	char byte;
	alarm(900);
	allocate(10);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		allocate(20000);
	return 0;
}
C
cat >slots.c <<'C'
/* slots PID: how many requests wait in its mailbox */
#include "client/target.h"
#include <stdio.h>
#include <stdlib.h>
int
main(int argc, char **argv) {
	static jeprof_target_t t;
	prof_mailbox_t m;
	int n = 0;
	if (argc < 2 || jeprof_find(&t, atoi(argv[1])) != 0 || jeprof_open(&t, NULL) != 0
	    || !client_read_memory(&t, t.block, &m, sizeof(m)))
		return 1;
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++)
		n += m.slots[i].sequence != 0 && m.slots[i].answered != m.slots[i].sequence;
	printf("%d\n", n);
	return 0;
}
C
$CC -std=gnu11 -O1 -g -w -fno-builtin -o quiet quiet.c && $CC -std=gnu11 -I"$SRC/src" -I"$SRC/bin" -o slots slots.c "$SRC"/bin/client/*.c || exit 1
cat >clock.c <<'C'
/* The monotonic clock of the process is AHEAD seconds ahead. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int
clock_gettime(clockid_t id, struct timespec *ts) {
	int result = syscall(SYS_clock_gettime, id, ts);
	if (id != CLOCK_REALTIME && getenv("AHEAD"))
		ts->tv_sec += atoi(getenv("AHEAD"));
	return result;
}
C
$CC -shared -fPIC -w -o clock.so clock.c || exit 1
PROGRAM=$W/quiet
LAUNCH="env LD_PRELOAD=$LIB MALLOC_CONF=prof_prefix:$W/p/x,prof_thread:false"
mkdir p

waits() { [ "$(./slots "$pid")" = "${1:-1}" ]; }
state() { "$CTL" status "$pid" --json -q | sed -n 's/.*"state":"\([a-z_]*\)".*/\1/p'; }
# Makes the process allocate until it has looked at its mailbox.
is_empty() { echo >&9 && sleep 0.1 && waits 0; }

# Makes the process allocate until jeprofctl has its answer.
nudge() {
	while kill -0 $asker 2>/dev/null; do
		echo >&9
		sleep 0.1
	done
}

# killed ARGUMENT...: starts a jeprofctl, kills it when its request waits, then lets the process allocate after the lease is over
killed() {
	for _ in 1 2 3 4 5; do
		"$CTL" "$@" >killed.out 2>&1 9>&- &
		asker=$!
		children="$children $asker"
		until_true waits
		is_waiting=$?
		kill -9 $asker
		wait $asker 2>/dev/null
		[ $? -ne 137 ] || break
		"$CTL" stop "$pid" -q >stop.out 2>&1 # too late: after a second it left the request there for good
	done
	ok $is_waiting "$*: its request waits"
	sleep 1
	until_true is_empty
	ok $? "$*: the process has looked at it"
}

fake
ctl status "$pid" --wait 1ms
case $err in *"does not run the library"* | *"without the profiler"*) end; skip_all "the library has no mailbox" ;; esac
killed start "$pid" --wait 100s
killed start "$pid"
killed start "$pid" -d 100s
killed start "$pid" --max 100s --wait 100s
"$CTL" status "$pid" -q >status 2>&1
has "$(cat status)" "idle" "no session began"
is "$(ls p)" "" "and left nothing"
killed set "$pid" --large 5M
killed status "$pid" --wait 100s

# What waits is not in the way of others, nor shown.
"$CTL" start "$pid" --wait 100s >killed.out 2>&1 9>&- &
asker=$!
until_true waits
is_pending() { [ "$(state)" = pending ]; } # but for moments in which it was late to renew its lease
until_true is_pending
ok $? "a start that waits is pending"
kill -9 $asker
wait $asker 2>/dev/null
sleep 1
out=$("$CTL" status "$pid" --json -q)
has "$out" '"state":"idle"' "one whose jeprofctl was killed is not"
ctl stop "$pid" --wait 1ms -q
ok "$([ "$code" -ne 0 ]; echo $?)" "there is nothing to take back" "$out"
WAIT=
ctl start "$pid" -q
is "$code $out" "0 pending: begins at its next allocation" "another start stays"
is "$(./slots "$pid")" 2 "beside it"
sleep 1
until_true is_empty
is "$(state)" active "and begins, long after its jeprofctl has ended"
unset WAIT

# With a session: dumps and the stop.
killed dump "$pid" --wait 100s
killed dump "$pid" -o "$W/streamed" --wait 100s
is "$(ls p)" "" "no profile was written"
killed stop "$pid" --wait 100s
is "$(state)" active "the session goes on"
"$CTL" stop "$pid" --wait 100s -q >go.out 2>&1 9>&- &
asker=$!
nudge
wait $asker
is "$?" 0 "a stop that waits is carried out"
rm -f p/*

# A jeprofctl that was stopped for longer than the lease asks again.
"$CTL" start "$pid" --wait 100s -q >go.out 2>&1 9>&- &
asker=$!
until_true waits
kill -STOP $asker
sleep 1
until_true is_empty
is "$(state)" idle "its jeprofctl is stopped: not carried out"
kill -CONT $asker
nudge
wait $asker
is "$? $(cat go.out)" "0 session 2" "it goes on: asked again"
end

# The clock of the process is another one.
for ahead in 86400 -300; do
	LAUNCH="env LD_PRELOAD=$W/clock.so:$LIB AHEAD=$ahead MALLOC_CONF=prof_prefix:$W/p/x"
	fake
	"$CTL" start "$pid" --wait 100s -q >go.out 2>&1 9>&- &
	asker=$!
	until_true waits
	nudge
	wait $asker
	is "$? $(cat go.out)" "0 session 1" "its clock is $ahead s ahead: a start"
	end
done

# The control directory.
mkdir -m 755 c
LAUNCH="env LD_PRELOAD=$LIB MALLOC_CONF=prof_prefix:$W/p/x,prof_thread:false,prof_ctl_dir:$W/c"
fake
has_command() { [ -e "c/$pid.cmd" ]; }
is_taken() { echo >&9 && sleep 0.6 && ! has_command; }
for what in "start $pid" "dump $pid"; do
	# shellcheck disable=SC2086
	"$CTL" $what --ctl-dir "$W/c" --wait 100s >killed.out 2>&1 9>&- &
	asker=$!
	children="$children $asker"
	until_true has_command
	ok $? "control directory: $what: the command is there"
	kill -9 $asker
	wait $asker 2>/dev/null
	sleep 1
	until_true is_taken
	ok $? "the process has looked at it"
	has "$(cat "c/$pid.status")" " error=116" "and has not carried it out"
done
is "$(state)" idle "no session began"
echo start >c/new && chmod 644 c/new && mv c/new "c/$pid.cmd" && sleep 1
until_true is_taken
is "$(state)" active "a command of a script holds for ever"
# A directory is no command, and keeps no later one away.
is_refused() { echo >&9 && sleep 0.6 && grep -q ' error=13$' "c/$pid.status"; }
mkdir "c/$pid.cmd"
until_true is_refused
ok $? "a directory in place of a command is refused"
until_true rmdir "c/$pid.cmd" 2>/dev/null
ok $? "and is still there"
"$CTL" stop "$pid" --ctl-dir "$W/c" --wait 100s >stop.out 2>&1 9>&- &
asker=$!
children="$children $asker"
until_true has_command
until_true is_taken
wait $asker
is "$? $(state)" "0 idle" "the next command is carried out" "$(cat stop.out)"
end
done_testing
