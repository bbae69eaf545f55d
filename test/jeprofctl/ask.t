#!/bin/sh
# Requests and answers: every verb, every exit code, disturbed messages, processes that do not answer, streams.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/jeprofctl/aid"

fake normal
ctl list
gives 0 "list"
has "$out" "$pid  $NAME" "pid and name"
has "$out" "idle" "state"
ctl list --json
has "$out" "{\"pid\":$pid,\"name\":\"$NAME\",\"state\":\"idle\",\"session\":0,\"start_pending\":false}" "list --json"
ctl stop "$pid"
gives 4 "stop, idle"
is "$err" "jeprofctl: $pid $NAME is not profiling; nothing changed" "and said"
ctl stop "$pid" --idempotent
gives 0 "stop, idle, --idempotent"
is "$out" "" "which prints nothing"
ctl stop "$pid" --idempotent --json
is "$out" "{\"pid\":$pid,\"changed\":false}" "but with --json an object"
ctl start "$pid" --metric moon
gives 2 "start with a bad option"
has "$err" 'no such metric "moon"' "the library's sentence"
ctl start "$pid" --prefix "$W/p"
gives 0 "start"
is "$out" "session 1" "the session's number"
has "$err" "jeprofctl stop $pid --session 1" "what to type next"
ctl list
has "$out" "session 1 since " "list: the session"
ctl start "$pid"
gives 4 "second start"
printf '%s' "$err" | grep -qE "^jeprofctl: $pid $NAME is already profiling since [0-9:]{8}Z, session 1; nothing changed\$"
ok $? "the whole sentence" "$err"
ctl start "$pid" --idempotent
gives 0 "second start, --idempotent"
ctl start "$pid" --idempotent --json
is "$out" "{\"pid\":$pid,\"changed\":false,\"session\":1}" "--json: the session that runs"
ctl start "$pid" --json
is "$code $out" "4 " "without --idempotent it is an error, and no object"
ctl stop "$pid" --session 2
gives 6 "stop of another session"
has "$err" "another session runs since" "and said"
ctl dump "$pid"
gives 0 "dump"
is "$out" "$W/p.$pid.0.m0.heap" "its path"
[ -s "$out" ]
ok $? "which is there"
ctl dump "$pid" named.heap --json
is "$out" "{\"pid\":$pid,\"path\":\"$W/named.heap\"}" "dump to a relative name is of this directory; --json"
ctl dump "$pid" /no/such/dir/x
gives 1 "dump fails"
has "$err" "cannot write /no/such/dir/x" "and which"
ctl status "$NAME"
gives 0 "status by name"
has "$out" "sample_interval             524288 (512K)" "a size"
has "$out" 'a "quoted" ?[31mtext' "control characters do not reach the terminal"
ctl status "$pid" --json
has "$out" "\"last_dump\":\"$W/named.heap\",\"last_error\":\"a \\\"quoted\\\" \\u001b[31mtext\"" "--json quotes"
has "$out" '"rejected":8' "the library counted what it refused"
if command -v perl >/dev/null && perl -MJSON::PP -e1 2>/dev/null; then
	perl -MJSON::PP -e 'local $/; decode_json(<STDIN>)' <ctl.out
	ok $? "a JSON parser reads it"
else
	skip "no JSON::PP"
fi
has "$out" '"session":1' "--json: the session's number, as it is"
ctl stop "$pid" --session 1
gives 0 "stop with its number"
is "$out" "$W/p.$pid.2.s0.heap" "the session's profile"
ctl status "$pid"
has "$out" "session                     1 (the last one)" "idle: whose number it is"
ctl start "$pid" -d 300ms
gives 0 "start -d"
is "$out" "$W/p.$pid.3.s1.heap" "start -d prints the profile's path"
ctl status "$pid" --json
has "$out" "max_seconds:60" "should jeprofctl die, the session ends"
"$CTL" start "$pid" -d 60s --wait 60s >ctl.out 2>ctl.err 9>&- &
waiting=$!
until_true grep -q runs ctl.err
kill -TERM $waiting
wait $waiting
is "$? $(cat ctl.out)" "0 $W/p.$pid.4.s2.heap" "a signal ends start -d early, with its profile"
ctl watch "$pid" -n 50ms -c 3
gives 0 "watch"
is "$(printf '%s\n' "$out" | grep -cE '^[0-9:]{8}Z  live .*M  growth \+ .* dumps 5$')" 3 "a line each tick"

# -o
ctl dump "$pid" /dev/null
gives 0 "dump to a device"
is "$out $err" "/dev/null " "of which nothing can be read"
ctl dump "$pid" -o here.heap
gives 0 "dump -o FILE"
is "$out" "here.heap" "its name"
is "$(wc -c <here.heap)" 100000 "all of it"
awk 'BEGIN { for (i = 0; i < 10000; i++) { c = sprintf("%c", 97 + i % 26); print c c c c c c c c c } }' >want
cmp want here.heap
ok $? "byte for byte"
is "$(stat -c %a here.heap)" 600 "nobody else reads it"
long=$(printf '%0255d' 0)
ctl dump "$pid" -o "$long"
gives 0 "dump -o with the longest name"
is "$out $(wc -c <"$long")" "$long 100000" "which is written too"
ctl dump "$pid" -o "$W/$long"
gives 0 "with its directory"
rm -f "$long"
ctl dump "$pid" -o -
gives 0 "dump -o -"
cmp want ctl.out
ok $? "the same on stdout"
echo stale >here.heap.part
ctl dump "$pid" -o here.heap
gives 0 "a .part that was left blocks nothing"
cmp want here.heap && [ "$(cat here.heap.part)" = stale ]
ok $? "and is left alone"
"$CTL" dump "$pid" -o - 2>pipe.err 9>&- | head -c 10 >/dev/null
ctl dump "$pid" -o here.heap --json
is "$out" "{\"pid\":$pid,\"path\":\"$W/here.heap\"}" "dump -o --json: the absolute path"
ctl dump "$pid" -o - --json
cmp want ctl.out
ok $? "-o - --json: the profile alone"
mkdir lost
(cd lost && rmdir ../lost && "$CTL" dump "$pid" x 2>../lost.err 9>&-)
is "$? $(cat lost.err)" "2 jeprofctl: x: this directory has no path any more (No such file or directory): give an absolute path" \
	"a relative name in a directory that is gone"
mkdir lost
(cd lost && rmdir ../lost && "$CTL" start "$pid" --prefix x 2>../lost.err 9>&-)
is "$?" 2 "a relative prefix there: no session whose files are elsewhere" "$(cat lost.err)"
ctl dump "$pid" -o /dev/null
gives 0 "dump -o to a device"
is "$err" "" "no hint to read it"
"$CTL" status "$pid" -q 2>closed.err 9>&- >&-
is "$? $(cat closed.err)" "1 jeprofctl: cannot write: Bad file descriptor" "stdout is closed: the answer is not written into the process"
echo old >appended
ctl dump "$pid" -o /dev/fd/3 3>>appended
gives 0 "-o /dev/fd/3, which the shell appends to"
(echo old; cat want) | cmp - appended
ok $? "it goes behind what was there"
is "$(echo "$err" | grep -c next)" 0 "and nothing to type"
echo old >appended
(echo before; "$CTL" dump "$pid" -o /dev/stdout -q 9>&-; echo behind) >>appended
(echo old; echo before; cat want; echo behind) | cmp - appended
ok $? "-o /dev/stdout is stdout"
ctl dump "$pid" -o /dev/fd/7
gives 1 "-o of a closed descriptor"
has "$err" "/dev/fd/7: Bad file descriptor" "and said"
ctl dump "$pid" -o no/dir/x
gives 1 "dump -o into no directory"
is "$err" "jeprofctl: no/dir/x: No such file or directory" "and names the target"
mkdir links
ln -s links/target link
for round in made replaced; do
	ctl dump "$pid" -o link
	gives 0 "dump -o LINK"
	[ -L link ] && cmp want links/target
	ok $? "the link stays, its target is $round"
	echo old >links/target
done
ln -s round round
ctl dump "$pid" -o round
gives 1 "dump -o to a link to itself"
mkfifo fifo
cat fifo >fifo.got &
ctl dump "$pid" -o fifo
gives 0 "dump -o FIFO"
wait $!
[ -p fifo ] && cmp want fifo.got
ok $? "the fifo stays, its reader has all"
WAIT="--wait 1s" ctl dump "$pid" -o fifo
gives 1 "dump -o FIFO that nobody reads"
is "$err" "jeprofctl: fifo: nobody reads this pipe" "and says so"
ctl dump --core fifo --wait 100ms
gives 1 "dump --core FIFO that nobody writes"
is "$err" "jeprofctl: fifo: nothing came out of it, so nobody may be writing it" "and says so"
mkdir shut
touch mounted.heap shut/mounted.heap
cat >mounts <<'EOF'
mount --bind real.heap mounted.heap && mount --bind shut shut &&
    mount --bind real.heap shut/mounted.heap && mount -o remount,ro,bind shut || exit 99
exec "$@"
EOF
for name in mounted.heap shut/mounted.heap; do
	echo old >real.heap
	AS="unshare -m sh mounts"
	ctl dump "$pid" -o $name
	AS=
	if [ "$code" -eq 99 ] || ! unshare -m true 2>/dev/null; then
		skip "cannot mount"
		continue
	fi
	gives 0 "dump -o $name, on which another file is mounted"
	cmp want real.heap
	ok $? "$name: that one is written in place"
	is "$(ls jeprofctl.*.part 2>/dev/null)" "" "$name: and nothing is left"
done
ctl dump "$pid" -o "a b';touch OWNED;'\$(touch OWNED)"
gives 0 "dump -o to a hostile name"
(jeprof() { shift; cat "$1"; }; eval "${err#next: }") >evaluated
cmp want evaluated && [ ! -e OWNED ]
ok $? "the next command is quoted" "$err"
# Packages of systems whose jemalloc has a jeprof give ours another name.
mkdir renamed && cp "$CTL" renamed/ && touch renamed/jeprof-prof && chmod +x renamed/jeprof-prof
has "$(renamed/jeprofctl dump "$pid" -o renamed.heap 2>&1)" "next: jeprof-prof top renamed.heap" "it has the name that jeprof has beside it"
ctl dump "$pid" -o renamed.heap
has "$err" "next: jeprof top renamed.heap" "which is jeprof elsewhere"
ctl status "$pid"
gives 0 "and it still answers"

$CC -std=gnu11 -O1 -w -I"$SRC/src" -I"$SRC/bin" -I"$SRC/bin/ctl" -o fuzz "$SRC/test/jeprofctl/fuzz.c" $rooms
runs "rubbish in the mailbox" ./fuzz "$pid" 1
ctl status "$pid"
gives 0 "and it still answers"
has "$out" "session                     3" "nothing was started by it"

# many at once
many=
for i in 1 2 3 4 5 6 7 8 9 10; do
	"$CTL" start "$pid" -q --wait 60s >many.$i 2>&1 9>&- &
	many="$many $!"
done
codes=
for m in $many; do
	wait "$m"
	codes="$codes$?"
done
is "$(printf %s "$codes" | tr -d '\n' | sed 's/./&\n/g' | sort | tr -d '\n')" 0444444444 "ten starters at once: one wins, nine are told"
is "$(cat many.* | grep -c 'session 4')" 10 "who won"
end
ctl status "$pid"
gives 5 "ended"

for mode in torn stolen abandoned slow; do
	fake $mode
	if [ $mode = slow ]; then ctl start "$pid" --wait 5s; else ctl start "$pid"; fi # slow takes longer than it waits
	gives 0 "$mode: start"
	is "$out" "session 1" "$mode: was carried out once"
	end
done
fake torn always
ctl stop "$pid"
gives 1 "a stop that is never read whole"
is "$(printf '%s' "$err" | grep -c 'session is over')" 0 "nothing is said of a session"
end
fake lapsed
ctl status "$pid" --wait 5s
gives 7 "a lease that was lost until there is no more time"
has "$err" "the lease of our request ended" "which is said, and not of other clients"
end
fake stopping
ctl start "$pid"
ctl stop "$pid"
gives 7 "busy"
has "$err" "a profile is being written" "and with what"
end
fake wordy
ctl start "$pid"
ctl stop "$pid"
gives 7 "busy, in the longest sentence that there is"
has "$err" "$(printf '%1023s' '' | tr ' ' Z)" "all of which is told"
end
fake idle
ctl start "$pid" --wait 300ms
gives 7 "idle"
has "$err" "is idle: it allocated too little in 0.3 s" "and why"
has "$err" "taken back" "nothing is left behind"
"$CTL" start "$pid" --wait 60s >ctl.out 2>ctl.err 9>&- &
waiting=$!
until_true catches $waiting
kill -INT $waiting 2>/dev/null
kill -TERM $waiting
wait $waiting
is "$? $(cat ctl.err)" "1 jeprofctl: interrupted; the request was taken back" "interrupted"
for i in 1 2 3 4 5; do
	ctl status "$pid" --wait 50ms
done
has "$err" "is idle" "the slots are free again"
kill -STOP "$pid"
until_true is_in_state "$pid" T
ctl start "$pid" --wait 300ms
gives 7 "stopped by a signal"
has "$err" "is stopped" "and said"
WAIT= # as a person types it
ctl status "$pid"
has "$out" "halted                      stopped (by a signal or a debugger)" "status says it"
has "$err" "cannot run" "and no other reason"
unset WAIT
kill -CONT "$pid"
end
fake waiting
until_true is_in_state "$pid" D
ctl start "$pid" --wait 300ms
gives 7 "hanging in the kernel"
has "$err" "is waiting in the kernel" "and said"
is "$(echo "$err" | grep -c prof_thread)" 0 "a thread of the profiler would not help"
end

# what a process calls itself does not reach the terminal as it is
PROGRAM=$W/$(printf 'a\033[31m\nRED')
cp "$W/$NAME" "$PROGRAM"
fake idle
WAIT= # as a person types it
ctl status "$pid"
unset WAIT
has "$err" "a?[31m?RED allocates nothing just now" "a name with an escape sequence and a line end"
end
unset PROGRAM

# pending: a start waits for the next allocation of an idle process
fake idle
WAIT= # as a person types it
ctl start "$pid" --rate 64K
gives 0 "start on an idle process"
is "$out" "pending: begins at its next allocation" "pending"
ctl list
has "$out" "$pid  $NAME" "list shows it"
has "$(printf '%s\n' "$out" | grep "^ *$pid ")" "pending" "as pending"
ctl list --json
has "$out" "{\"pid\":$pid,\"name\":\"$NAME\",\"state\":\"pending\",\"session\":0,\"start_pending\":true}" "list --json: pending"
ctl status "$pid"
gives 0 "status"
has "$out" "state                       pending" "says it"
has "$out" "start sample_interval:65536" "and what is pending"
ctl start "$pid"
gives 4 "another start"
has "$err" "a start is pending already; nothing changed" "and said"
ctl start "$pid" --idempotent
gives 0 "another start, --idempotent"
ctl start "$pid" --idempotent --json
is "$code $out" "0 {\"pid\":$pid,\"changed\":false}" "and with --json"
ctl set "$pid" --alloc 1G --json
is "$out" "{\"pid\":$pid,\"pending\":true}" "set is left pending too"
ctl stop "$pid" --session 1
gives 4 "stop of a session, though none runs"
WAIT= ctl set "$pid" --rate 1M
has "$out" "pending: is set" "another set"
WAIT= ctl stop "$pid" --session 1
gives 4 "stop of a session that does not run"
ctl stop "$pid"
gives 0 "stop"
is "$out" "withdrawn: pending requests were taken back (start: 1, set: 2)" "takes all back, also what the stops of a session left"
ctl stop "$pid"
gives 4 "and again: nothing runs, nothing is pending"
ctl status "$pid" --json
has "$out" '"state":"idle","session":0' "idle again"
cat >pair.c <<'C'
/* pair PID: two clients leave a start at the same moment, 20 times; how often not one of them remains */
#include "client/jeprof_client.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static jeprof_target_t clients[2];
static pthread_barrier_t both;
static int left;
static void *
decide(void *arg) {
	pthread_barrier_wait(&both);
	if (jeprof_comes_second(arg, "start")) {
		usleep(20000); /* so that the other one has decided too */
		jeprof_take_back(arg);
	} else
		__atomic_add_fetch(&left, 1, __ATOMIC_RELAXED);
	return NULL;
}
int
main(int argc, char **argv) {
	static jeprof_reply_t reply;
	pthread_t t[2];
	int bad = 0;
	pthread_barrier_init(&both, NULL, 2);
	for (int i = 0; i < 2; i++)
		if (argc < 2 || jeprof_find(&clients[i], atoi(argv[1])) != 0 || jeprof_open(&clients[i], NULL) != 0)
			return 1;
	for (int round = 0; round < 20; round++) {
		jeprof_request_t r = {.text = "start", .wait_ms = 60000, .idle_ms = 1, .manner = jeprof_manner_stay};
		left = 0;
		for (int i = 0; i < 2; i++)
			if (jeprof_ask(&clients[i], &r, &reply) != EAGAIN)
				return 1;
		for (int i = 0; i < 2; i++)
			pthread_create(&t[i], NULL, decide, &clients[i]);
		for (int i = 0; i < 2; i++) {
			pthread_join(t[i], NULL);
			jeprof_take_back(&clients[i]);
		}
		bad += left != 1;
	}
	printf("%d\n", bad);
	return 0;
}
C
$CC -std=gnu11 -I"$SRC/src" -I"$SRC/bin" -o pair pair.c "$SRC"/bin/client/*.c -lpthread
is "$(./pair "$pid" 9>&-)" 0 "of two starts at the same moment one is left pending"
ctl start "$pid" --prefix "$W/p"
gives 0 "start"
kill -USR1 "$pid"
until_true "$CTL" dump "$pid" -q >/dev/null
unset WAIT
ctl list
has "$out" "session 1 since " "the next allocation: the session runs"
ctl stop "$pid"
gives 0 "and is stopped"
end
fake idle
"$CTL" start "$pid" -d 200ms --wait 60s --prefix "$W/p" >ctl.out 2>ctl.err 9>&- &
waiting=$!
until_true catches $waiting
kill -USR1 "$pid"
wait $waiting
is "$? $(cat ctl.out)" "0 $W/p.$pid.0.s0.heap" "start -d waits for an idle process"
end
fake normal
ctl start "$pid" -d 300ms max_seconds:9 --prefix "$W/p"
gives 0 "start -d with max_seconds"
ctl status "$pid" --json
has "$out" '"settings":"prefix:'"$W/p,max_seconds:9\"" "what was given is not replaced"
"$CTL" start "$pid" -d 60s --wait 60s >ctl.out 2>start.err 9>&- &
waiting=$!
until_true grep -q runs start.err
ctl stop "$pid" -q
kill -TERM $waiting
wait $waiting
is "$? $(tail -n 1 start.err)" "4 jeprofctl: $pid $NAME: the last profile that it wrote: $out" "start -d whose session somebody else has stopped tells the profile"
end
mkfifo silent
exec 8<>silent
"$CTL" dump --core - -o none.heap <silent >ctl.out 2>ctl.err 8>&- 9>&- &
waiting=$!
until_true catches $waiting
kill $waiting
wait $waiting
is $? 143 "dump --core -: a signal ends the wait for a silent pipe"
exec 8>&-
fake sampling
ctl list
has "$out" "sampling (MALLOC_CONF)" "a process that samples without a session"
WAIT=
ctl status "$pid"
unset WAIT
has "$out" "state                       sampling (MALLOC_CONF)" "status says it too"
has "$out" "session                     3 (the last one)" "and that no session runs"
end
fake barred
ctl start "$pid"
has "$err" "system calls are filtered (seccomp), so the profiler has no thread" "no thread: said"
end
fake deaf
ctl start "$pid" --wait 5s # in which it runs at least once
gives 7 "deaf"
has "$err" "did not answer in 5 s" "and said"
end
fake hanging took
"$CTL" start "$pid" --wait 1h >ctl.out 2>ctl.err 9>&- &
waiting=$!
until_true [ -e took ]
kill "$waiting"
wait $waiting
is "$? $(cat ctl.err)" "1 jeprofctl: interrupted; $pid $NAME has taken the request, and may still carry it out" "interrupted after it was taken"
end
fake full
ctl start "$pid" --wait 3s
gives 7 "no free slot: starts and sets are left to stay"
has "$err" "is busy" "and said"
end
fake orphans
WAIT=
ctl start "$pid"
unset WAIT
gives 0 "idle, and four clients were killed: their requests make room"
has "$out" "pending: begins at its next allocation" "for one that stays"
ctl stop "$pid" --wait 3s
gives 0 "a stop finds room, too"
has "$out" "withdrawn: the pending start was taken back" "and takes it back"
end
for mode in stream-fails stream-dies stream-late stream-lies stream-wraps; do
	fake $mode
	ctl dump "$pid" -o part.heap
	if [ $mode = stream-dies ]; then gives 5 $mode; else gives 1 $mode; fi
	if [ $mode = stream-late ]; then has "$err" "was not fetched in time" "$mode: and said"; fi
	if [ $mode = stream-fails ]; then has "$err" "read from its memory instead: jeprofctl dump $pid --outside -o FILE" "$mode: and what works"; fi
	is "$(ls part.heap jeprofctl.*.part 2>/dev/null)" "" "$mode: no file is left"
	end
done
# a name that only the path of the program tells, with the kernel's word for a removed file inside and behind it
mkdir "was (deleted) once"
cp "$W/$NAME" "was (deleted) once/$NAME-with-a-longer-name"
printf 'exec { $ARGV[0] } "something-else", @ARGV[1 .. $#ARGV];\n' >launch
LAUNCH="perl launch" PROGRAM="$W/was (deleted) once/$NAME-with-a-longer-name" fake normal
ctl status "$NAME-with-a-longer-name" --json
has "$out" "\"pid\":$pid," "found by the name of its program"
rm "was (deleted) once/$NAME-with-a-longer-name"
ctl status "$NAME-with-a-longer-name" --json
has "$out" "\"pid\":$pid," "which is removed now"
end
mkfifo never
exec 8<>never
"$W/$NAME" normal <&8 >one &
one=$!
"$W/$NAME" normal <&8 >two &
children="$children $one $!"
until_true grep -q ready one
until_true grep -q ready two
ctl status "$NAME"
gives 2 "a name of several"
has "$err" "processes are called $NAME" "and which"
# names that are no UTF-8, or that a terminal would obey
hostile=$(printf 'n\377\233"\302\233')
cp "$W/$NAME" "herd$hostile"
PROGRAM=$W/herd$hostile fake normal
ctl status "$pid" --json
has "$out" '"name":"herdn\u00ff\u009b\"\u00c2\u009b"' "JSON is UTF-8"
ctl status "$pid"
has "$out" " $pid herdn$(printf '\377')?\"??" "and text has nothing that a terminal obeys"
end
herd=$(printf 'h\303\251')
cp "$W/$NAME" "$herd"
PROGRAM=$W/$herd fake normal
ctl status "$pid" --json
has "$out" "\"name\":\"$herd\"" "a name in UTF-8 stays"
end
# the one that runs the library comes behind more of them than a list of any length would have
mkdir herd
cp "$(command -v sleep)" "herd/h$NAME"
for i in $(seq 70); do
	"herd/h$NAME" 600 8>&- &
	children="$children $!"
done
all_run() { [ "$(cat /proc/[0-9]*/comm 2>/dev/null | grep -cx "h$NAME")" -eq 70 ]; }
until_true all_run
ctl status "h$NAME"
gives 2 "a name of many, none with the library"
has "$err" "70 processes are called h$NAME: " "and how many"
is "$(echo "$err" | grep -o ' [0-9][0-9]*' | wc -l) ${err##*[0-9]}" "17  ...; give a pid" "and the first of them"
rm "herd/h$NAME"
cp "$W/$NAME" "herd/h$NAME"
PROGRAM=$W/herd/h$NAME fake normal
ctl status "h$NAME" --json
gives 0 "the one of many that runs the library"
has "$out" "\"pid\":$pid," "and it is that one"
# The whole list of none, one and two processes, and who is called what: among those of a pid namespace there are no others.
cat >among <<'C'
mkfifo hold$1
exec 8<>hold$1
for i in $(seq "$1"); do "$2" normal <hold$1 >ready$i 2>&1 8>&- & done
for i in $(seq "$1"); do until grep -q ready ready$i; do sleep 0.01; done; done
shift 2
"$@" >ctl.out 2>ctl.err 8>&-
echo $? >ctl.code
C
# among N WORD...: jeprofctl among N processes; each pid in what it says becomes N
among() {
	unshare -pf --mount-proc sh among "$1" "$W/$NAME" ${AS:-} "$CTL" $2
	out=$(sed 's/^ *[0-9]\{1,\}  /N  /; s/"pid":[0-9]*/"pid":N/' ctl.out)
	err=$(sed 's/ [0-9]\{1,\} / N /' ctl.err)
	code=$(cat ctl.code)
	rm -f hold* ready[0-9]*
}
if unshare -pf --mount-proc true 2>/dev/null; then
	line="N  $NAME$(printf '%*s' $((15 - ${#NAME})) '')  idle"
	object="{\"pid\":N,\"name\":\"$NAME\",\"state\":\"idle\",\"session\":0,\"start_pending\":false}"
	next='next: jeprofctl status PID, jeprofctl start PID'
	among 0 list
	is "$code $out|$err" "0 |jeprofctl: no process that we may read runs the library" "list of none"
	among 0 "list --json"
	is "$code $out|$err" "0 []|jeprofctl: no process that we may read runs the library" "--json"
	among 1 list
	is "$code $out|$err" "0 $line|$next" "list of one"
	among 1 "list --json"
	is "$code $out|$err" "0 [$object]|" "--json"
	among 2 list
	is "$code $out|$err" "0 $line
$line|$next" "list of two"
	among 2 "list --json"
	is "$code $out|$err" "0 [$object,
 $object]|" "--json"
	# Numbers at the bounds of a pid; one that is larger is none, and not cut to another process's.
	for number in 0 1 2147483647 2147483648 4294967296 4294967297 18446744073709551615; do
		for words in "status $number" "status --pid $number"; do
			among 0 "$words"
			case $number in
			1) want="1 sh does not run the library" ;;
			*) want="no process $number" ;;
			esac
			is "$code $(sed 's/^jeprofctl: //; s/;.*//' ctl.err)" "5 $want" "$words"
		done
	done
	for count in 2 16 17; do
		among "$count" "status $NAME"
		pids=$(sed 's/.*: *\([0-9 ]*[0-9]\).*/\1/' ctl.err)
		is "$code $(echo "$pids" | wc -w) $(sed 's/\(called [^:]*:\)[0-9 ]*[0-9]/\1/' ctl.err)" "2 $((count < 17 ? count : 16)) jeprofctl: $count processes are called $NAME:$([ "$count" -lt 17 ] || echo ' ...'); give a pid" "$count of one name"
	done
	among 1 "status $(printf '%081d' 0 | tr 0 x)"
	is "$code $err" "5 jeprofctl: no process is called \"$(printf '%080d' 0 | tr 0 x)...\"" "a name of 81 bytes"
	among 1 "status $(printf '%080d' 0 | tr 0 x)"
	is "$code $err" "5 jeprofctl: no process is called \"$(printf '%080d' 0 | tr 0 x)\"" "of 80 bytes"
	if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
		AS="setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all"
		for count in 0 1; do
			among "$count" list
			is "$code $out|$(tail -n 1 ctl.err)" "0 |jeprofctl: $((count + 1)) process$([ "$count" = 0 ] || echo es) may not be read; sudo shows more" "list of another user: $((count + 1)) may not be read"
		done
		AS=
	else
		skip "not root, or no setpriv"
	fi
else
	skip "no pid namespaces"
fi

# No call of the client keeps a descriptor, whatever the process is like and however the call ends: also for want of memory, at each place
# where it asks for some, and on a kernel without openat2().
cat >keeps.c <<'C'
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "client/target.h"
static jeprof_target_t t;
static jeprof_reply_t reply;
static const char *dir;
static int n_asked, n_fails;
static bool is_old;
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
static bool fails(void) { errno = ENOMEM; return ++n_asked == n_fails; }
void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t m) { return fails() ? NULL : __real_calloc(n, m); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
	errno = ENOSYS;
	return is_old && number == SYS_openat2 ? -1 : __real_syscall(number, a, b, c, d, e, f);
}
static int descriptors(void) {
	DIR *d = opendir("/proc/self/fd");
	int n = 0;
	while (readdir(d) != NULL) n++;
	closedir(d);
	return n;
}
static void probe_it(jeprof_target_t *p, void *arg) { (void)arg; jeprof_probe(p); jeprof_close(p); }
static void do_each(int pid) { (void)pid; jeprof_each(probe_it, NULL); }
static void do_find(int pid) { jeprof_find(&t, pid); jeprof_is_named(&t, "x"); jeprof_task(pid); jeprof_check_same(&t); jeprof_halted(&t); }
static void do_probe(int pid) { jeprof_find(&t, pid); jeprof_probe(&t); jeprof_look(&t); jeprof_close(&t); }
static void do_below(int pid) {
	char buf[2 * PATH_MAX + 64];
	struct stat st;
	jeprof_find(&t, pid);
	jeprof_find_below(&t, "/proc/self/../../etc/./passwd", buf, sizeof(buf), &st);
	jeprof_find_below(&t, "/no/such", buf, sizeof(buf), &st);
}
static void ask(const char *text, jeprof_manner_t manner) {
	jeprof_request_t r = {.text = text, .manner = manner, .wait_ms = 10, .idle_ms = 5};
	jeprof_image_t *image;
	int error = jeprof_ask(&t, &r, &reply);
	free(error == 0 ? reply.profile : NULL);
	if (error != 0 && jeprof_image_unanswered(&image, &t, error, 0) == 0) jeprof_image_close(image);
}
static void do_open(int pid) {
	char text[JEPROF_TEXT];
	jeprof_find(&t, pid);
	if (jeprof_open(&t, NULL) == 0) {
		ask("status", jeprof_manner_return);
		ask("dump-stream", jeprof_manner_wait);
		jeprof_find_pending(&t, "start", text);
		jeprof_check_allocator(&t);
		jeprof_check_box(&t, 1 << 20);
	}
	jeprof_close(&t);
}
static void do_dir(int pid) { jeprof_find(&t, pid); jeprof_open_dir(&t, dir); ask("status", jeprof_manner_return); jeprof_close(&t); }
static void do_image(int pid) {
	jeprof_image_t *image;
	jeprof_find(&t, pid);
	if (jeprof_probe(&t) == 0 && jeprof_image_of_process(&image, &t) == 0) jeprof_image_close(image);
	jeprof_box_opened(&t);
	jeprof_close(&t);
}
static void do_box(int pid) { jeprof_find(&t, pid); int fd = jeprof_box_open(&t); if (fd >= 0) close(fd); }
int main(int argc, char **argv) {
	static const struct { const char *name; void (*call)(int pid); } calls[] = {{"each", do_each}, {"find", do_find}, {"probe", do_probe},
	    {"below", do_below}, {"open", do_open}, {"dir", do_dir}, {"image", do_image}, {"box", do_box}};
	dir = argv[1];
	for (int i = 2; i < argc; i++) {
		for (size_t k = i == 2 ? 0 : 1; k < sizeof(calls) / sizeof(calls[0]); k++) { /* "each" once */
			for (n_fails = -1, n_asked = 1; n_fails <= n_asked; n_fails++) {
				int before = descriptors(), after;
				is_old = n_fails < 0;
				n_asked = 0;
				calls[k].call(atoi(argv[i]));
				after = descriptors();
				if (after != before) printf("%s of process %d keeps %d, without memory at %d\n", calls[k].name, i - 1, after - before, n_fails);
				if (n_fails == 8) n_fails = 1 << 30; /* enough of the tables of an image */
			}
		}
	}
	return 0;
}
C
$CC -std=gnu11 -O1 -w -I"$SRC/src" -I"$SRC/bin" -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=syscall -o keeps keeps.c "$SRC"/bin/client/*.c || exit 1
mkfifo kept
exec 8<>kept
mkdir kept.ctl
for mode in normal memfd junk idle deaf closed full sampling; do
	"$W/$NAME" "$mode" <kept >"is_$mode" 2>&1 8>&- &
	children="$children $!"
	many="$many $!"
done
"$W/$NAME" directory "$W/kept.ctl" <kept >is_directory 2>&1 8>&- &
children="$children $!"
are_ready() { [ "$(cat is_* | grep -c ready)" -eq 9 ]; }
until_true are_ready
# shellcheck disable=SC2086
./keeps "$W/kept.ctl" $many $! $$ 4194305 >keeps.out 2>&1
is "$? $(cat keeps.out)" "0 " "no call of the client keeps a descriptor"
exec 8>&-
# What a person is told of each figure: a unit from 1024 on, words for 0.
figures="sample_interval sample_interval_set threshold_alloc threshold_large threshold_highwater threshold_highwater_step allocated active resident retained mapped metadata rss blackbox_size blackbox_used dumps"
# words_of KEY NUMBER
words_of() {
	case $1-$2 in
	threshold_highwater_step-0) echo '0 (an eighth of threshold_highwater)' ;;
	threshold*-0) echo '0 (off)' ;;
	dumps-* | *-0 | *-1023) echo "$2" ;;
	*-1024) echo '1024 (1K)' ;;
	*-1610612736) echo '1610612736 (1.5G)' ;;
	esac
}
for number in 0 1023 1024 1610612736; do
	fake told "$(for key in $figures; do echo "$key=$number"; done)"
	ctl status "$pid"
	is "$(printf '%s\n' "$out" | sed -n '3,$p')" "$(for key in $figures; do printf '%-27s %s\n' "$key" "$(words_of "$key" "$number")"; done)" "figures of $number"
	end
done
# state, session, start and what the last three lines tell of them
while IFS='|' read -r state session start want; do
	fake told "state=$state
session=$session
start_time_ns=$start
told_time_ns=$start
empty=
rss=1"
	ctl status "$pid"
	is "$(printf '%s\n' "$out" | sed -n '3,$p' | tr -s ' ' | tr '\n' '|')" "$want" "state $state, session $session, start $start"
	end
done <<'ROWS'
idle|0|0|state idle|session 0|since -|figures of -|empty -|rss 1|
idle|3|0|state idle|session 3 (the last one)|since -|figures of -|empty -|rss 1|
active|3|1700000000123456789|state session 3|session 3|since 2023-11-14 22:13:20Z|figures of 2023-11-14 22:13:20Z|empty -|rss 1|
ROWS
# watch: what is live, and how much more or less than in the line before
fake told 'allocated=1048576
dumps=5|allocated=3145728
dumps=6|allocated=3145728|allocated=2097151
dumps=18446744073709551615|state=idle|allocated=18446744073709551615'
ctl watch "$pid" -n 10ms -c 6
is "$(printf '%s\n' "$out" | sed 's/^[0-9:]*Z//')" '  live        1M  growth +        0  dumps 5
  live        3M  growth +       2M  dumps 6
  live        3M  growth +        0  dumps 0
  live        2M  growth -       1M  dumps 18446744073709551615
  live         0  growth -       2M  dumps 0
  live       16E  growth +      16E  dumps 0' "lines of watch"
end
fake told 'allocated=1048576
dumps=5|allocated=3145728
dumps=6|allocated=2097151
dumps=18446744073709551615|state=idle'
ctl watch "$pid" -n 10ms -c 4 --json
is "$(printf '%s\n' "$out" | sed 's/^{"time":"[0-9:]*Z",/{/')" '{"live":1048576,"growth":0,"dumps":5}
{"live":3145728,"growth":2097152,"dumps":6}
{"live":2097151,"growth":-1048577,"dumps":18446744073709551615}
{"live":0,"growth":-2097151,"dumps":0}' "the same for programs"
end
done_testing
