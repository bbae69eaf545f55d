#!/bin/sh
# jeprofctl and the library: a program that was started with nothing but the library is profiled from outside.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/jeprofctl/aid"

[ -e "$LIB" ] || skip_all "no library"
cat >work.c <<'C'
/*
 * work MODE: allocates all the time (busy), also from many places at first (sites), or once and then sleeps (quiet), until
 * a byte comes; ends with its standard input
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
/* clone, clone3 and prctl fail from here on, or end the process */
static void
forbid_threads(unsigned verdict) {
	struct sock_filter f[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 2, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, verdict), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {6, f};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
static void *kept[4096];
__attribute__((noinline)) void *
the_place(size_t size) {
	void *volatile p = malloc(size);
	return p;
}
__attribute__((noinline)) static int
deep(int n) {
	void *volatile p = malloc(5000);
	return n > 0 && p != NULL ? deep(n - 1) + 1 : 0;
}
int
main(int argc, char **argv) {
	struct pollfd in = {.fd = 0, .events = POLLIN};
	int is_busy = argc > 1 && strcmp(argv[1], "busy") == 0, timeout = is_busy ? 1 : 1000;
	char byte;
	alarm(900);
	free(the_place(100));
	if (argc > 1 && strcmp(argv[1], "fork") == 0 && fork() != 0) {
		while (read(0, &byte, 1) > 0) {
		}
		return 0;
	}
	is_busy = is_busy || strcmp(argv[1], "fork") == 0 || (strcmp(argv[1], "sites") == 0 && deep(120) > 0);
	if (argc > 2) {
		strcmp(argv[2], "undumpable") == 0 ? (void)prctl(PR_SET_DUMPABLE, 0)
		    : argc > 3 ? (void)(chroot(argv[3]) == 0 && chdir("/") == 0) : forbid_threads(strcmp(argv[2], "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM);
	}
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (unsigned i = 0; poll(&in, 1, is_busy ? 1 : timeout) == 0 || (read(0, &byte, 1) > 0 && (is_busy = 1)); i++) {
		for (int k = 0; is_busy && k < 50; k++) {
			unsigned at = (i * 50 + k) % 4096;
			free(kept[at]);
			kept[at] = the_place(3000);
		}
	}
	return 0;
}
C
$CC -std=gnu11 -O1 -g -w -fno-builtin -o "$NAME" work.c || exit 1
LAUNCH="env LD_PRELOAD=$LIB"
fake busy
ctl status "$pid"
case $err in *"does not run the library"* | *"without the profiler"*) end; skip_all "the library has no mailbox" ;; esac
gives 0 "status of a program that was started with no option"
has "$out" "idle" "it is idle"
has "$out" "thread                      no" "and has no thread"
ctl list
has "$out" "$pid  $NAME" "list shows it"
ctl stop "$pid"
gives 4 "stop: not profiling"
for what in dump "dump -o x.heap" mark; do
	# shellcheck disable=SC2086
	ctl $what "$pid"
	is "$code $err" "1 jeprofctl: $pid $NAME: nothing has started the profiler yet
next: jeprofctl start $pid" "$what: not started, and what to type next"
done
ctl start "$pid" --rate 4K --prefix "$W/run"
gives 0 "start"
is "$out" "session 1" "the first session"
ctl start "$pid"
gives 4 "start again"
has "$err" "session 1; nothing changed" "and who was first"
ctl status "$pid" --json
has "$out" '"state":"active"' "status: active"
has "$out" '"sample_interval":4096' "status: the rate"
ctl dump "$pid"
gives 0 "dump"
has "$(head -n 1 "$out")" "heap_v2/" "a profile"
while read -r words; do
	read -r want
	# shellcheck disable=SC2086
	ctl set "$pid" $words
	is "$code $err" "2 jeprofctl: $pid $NAME: $want" "set $words: what the process refuses is told with the value"
done <<'END'
--budget 1x
budget: wants percent of processor time from 0 to 100, such as 0.5, not "1x" of --budget
--metric all
highwater_metric: wants allocated, active, resident, rss or cgroup, not "all" of --metric
budget:-1
budget: wants percent of processor time from 0 to 100, such as 0.5, not "-1"
alloc:1M rate:5
rate:5: unknown option; there are prefix, sample_interval, budget, reset, accum, max_seconds, final, blackbox, blackbox_size, alloc, large, highwater, highwater_step, highwater_metric, time_ms
END
ctl dump "$pid" here.heap
gives 0 "dump to a path"
[ -s here.heap ]
ok $? "which is there"
ctl dump "$pid" --since-mark unmarked.heap
gives 1 "a delta without a mark"
has "$err" "no mark is set; nothing is written; jeprofctl mark $pid sets one" "why"
[ ! -e unmarked.heap ]
ok $? "and nothing is written"
ctl dump "$pid" --since-mark -o -
gives 1 "nor through the mailbox"
ctl mark "$pid"
gives 0 "mark"
has "$err" "jeprofctl dump $pid --since-mark" "what to type next"
ctl dump "$pid" --since-mark
gives 0 "a delta"
case $out in *.d0.heap) ok 0 "its letter" ;; *) ok 1 "its letter" "$out" ;; esac
grep -q '^heap_v2/1$' "$out" && grep -q '^# jemalloc.kind=delta$' "$out" && tail -n 1 "$out" | grep -q '^# end '
ok $? "a whole profile" "$out"
rm -f "$out"
ctl dump "$pid" --since-mark -o delta.heap
gives 0 "a delta through the mailbox"
grep -q '^# jemalloc.mark_time=2' delta.heap
ok $? "with the time of the mark"
ctl dump "$pid" --since-mark --outside
gives 2 "not from outside"
ctl dump "$pid" -o streamed.heap
gives 0 "dump through the mailbox"
has "$(tail -n 1 streamed.heap 2>&1)" "# end " "it is whole"
ctl set "$pid" --rate 64K
gives 0 "set"
ctl set "$pid" --rate 64K --json
is "$out" "{\"pid\":$pid,\"done\":\"set sample_interval:65536\"}" "set --json says what was done"
ctl status "$pid" --json
has "$out" '"sample_interval":65536' "set: the rate"
ctl stop "$pid" --session 7
gives 6 "stop of another session"
ctl start "$pid" --metric moon
gives 4 "active: bad options are not even looked at"
ctl stop "$pid" --session 1
gives 0 "stop"
[ -s "$out" ]
ok $? "its profile" "$out"
printf '%s' "$out" | grep -q '\.s0\.heap$'
ok $? "bears the kind of a session" "$out"
"$BUILD/bin/jeprof" --text "$W/$NAME" "$out" >text 2>&1
has "$(cat text)" "the_place" "and names the function that allocates"
ctl set "$pid" --large 1G
has "$err" "is not profiling: no threshold writes a profile before a session runs" "set without a session: what it does not do"
has "$err" "next: jeprofctl start $pid" "and what does"
ctl set "$pid" large:0
ctl start "$pid" --metric moon
gives 2 "bad options"
many=
for i in 1 2 3 4 5 6 7 8; do
	"$CTL" start "$pid" -q --wait 60s --prefix "$W/many" >"many.$i" 2>&1 9>&- &
	many="$many $!"
done
codes=
for m in $many; do
	wait "$m"
	codes="$codes$?
"
done
is "$(printf %s "$codes" | sort | tr -d "\n")" 04444444 "eight starters at once: one wins, seven are told"
ctl stop "$pid" -q
ctl start "$pid" -d 200ms --prefix "$W/short"
gives 0 "start -d"
[ -s "$out" ]
ok $? "its profile" "$out"
is_idle() { "$CTL" status "$pid" --json | grep -q '"state":"idle"'; }
"$CTL" start "$pid" -d 5s --max 6s --wait 60s --prefix "$W/orphan" >orphan.out 2>&1 9>&- &
orphan=$!
until_true grep -q runs orphan.out
kill -9 $orphan
until_true is_idle
ok $? "a session whose jeprofctl was killed ends after --max"
[ "$(find . -name 'orphan*.s?.heap' | wc -l)" -eq 1 ]
ok $? "with its profile" "$(ls)"
runs "fuzzer" $CC -std=gnu11 -O1 -w -I"$SRC/src" -I"$SRC/bin" -I"$SRC/bin/ctl" -o fuzz "$SRC/test/jeprofctl/fuzz.c" $rooms
# dumps counts the profiles that are asked for through the mailbox too
lasting() { printf '%s' "$out" | grep -oE '"(state|session|sample_interval|threshold[^,]*)":[^,]*'; find . -name '*.heap' | wc -l; }
ctl status "$pid" --json
before=$(lasting)
runs "rubbish in the mailbox" ./fuzz "$pid" "${FUZZ_SECONDS:-3}"
ctl status "$pid" --json
gives 0 "and it still answers"
is "$(lasting)" "$before" "nothing was started, changed or written by it"
# why a profile could not be written: the errno once, and bytes that are said to be bytes
for name in ENOENT ENOTDIR; do
	mkdir gone
	ctl start "$pid" -q --prefix "$W/gone/app"
	rmdir gone
	[ $name = ENOENT ] || : >gone
	ctl stop "$pid" -q
	is "$code $(printf %s "$err" | sed "s|$W/gone/app.[^ ]*.heap|PATH|")" "1 jeprofctl: $pid $NAME: the profile could not be written: $name PATH, after 0 bytes" "$name: told once"
	ctl status "$pid" -q
	has "$out" "last_error                  $name $W/gone/app" "$name: in the status"
	has "$out" ".heap, after 0 bytes" "$name: also with bytes that are bytes"
	ctl status "$pid" --json
	has "$out" '.heap 0"' "$name: for scripts as prof.last_error has it"
	rm -f gone
done
end

# session NAME [ARGUMENT...]: a whole session of the process started last
session() {
	what=$1
	shift
	ctl start "$pid" -q "$@"
	gives 0 "$what: start"
	ctl stop "$pid" -q
	gives 0 "$what: stop"
	[ -s "$out" ]
	ok $? "$what: the profile opens here" "$out"
}

LAUNCH="env LD_PRELOAD=$LIB MALLOC_CONF=prof_thread:false"
fake quiet
ctl start "$pid" --wait 300ms
gives 7 "an idle program"
has "$err" "is idle" "and why"
end
LAUNCH="env LD_PRELOAD=$LIB"
fake quiet
ctl start "$pid" --wait 300ms
gives 7 "an idle program, no option set"
has "$err" "it allocated too little in 0.3 s to look at its mailbox, and runs no profiler thread" "and why"
has "$err" "taken back. Try a longer --wait, or start it with MALLOC_CONF=prof_thread:true" "and what to do"
end
LAUNCH="env LD_PRELOAD=$LIB MALLOC_CONF=prof_thread:true"
fake quiet
ctl start "$pid" -q --prefix "$W/quiet"
gives 0 "an idle program with prof_thread:true answers"
ctl stop "$pid" -q
gives 0 "and stops"
end
cp "$LIB" stripped.so
if strip -s stripped.so 2>/dev/null; then
	LAUNCH="env LD_PRELOAD=$W/stripped.so"
	fake busy
	session "a stripped library" --prefix "$W/stripped"
	end
fi
cp "$LIB" removed.so
LAUNCH="env LD_PRELOAD=$W/removed.so"
fake busy
rm -f removed.so
ctl start "$pid" --prefix "$W/removed" -q
gives 0 "library file deleted: start"
ctl stop "$pid" -q
gives 0 "library file deleted: stop"
end
LAUNCH="env LD_PRELOAD=$LIB"
fake fork
child=$(sed 's/ready //' ready)
ctl start "$child" --prefix "$W/child" -q
gives 0 "a forked child: start"
ctl stop "$child" -q
has "$out" "child.$child." "its profile bears its own pid"
end

fake quiet
WAIT=
ctl start "$pid" -q --prefix "$W/later"
gives 0 "an idle program, no --wait"
is "$out" "pending: begins at its next allocation" "the request waits"
unset WAIT
echo >&9
has_session() { "$CTL" list | grep "^ *$pid " | grep -q 'session 1 since'; }
until_true has_session
ok $? "it begins when the program allocates"
ctl stop "$pid" -q
has "$out" "$W/later.$pid." "and is an ordinary session"
end
LAUNCH="env LD_PRELOAD=$LIB MALLOC_CONF=prof:true"
fake quiet
ctl list
has "$(printf '%s\n' "$out" | grep "^ *$pid ")" "sampling (MALLOC_CONF)" "prof:true: list says that it samples"
WAIT=
ctl start "$pid" -q --prefix "$W/both"
is "$code $out" "0 pending: begins at its next allocation" "prof:true: an idle one is started on"
ctl list
has "$(printf '%s\n' "$out" | grep "^ *$pid ")" "sampling (MALLOC_CONF), start pending" "list says both"
ctl stop "$pid"
has "$out" "withdrawn" "stop takes it back"
unset WAIT
echo >&9
asks_to_stop() { ctl stop "$pid"; [ "$code" -eq 4 ]; }
until_true asks_to_stop
has "$err" "has no session: it samples by MALLOC_CONF" "stop without a session says why"
session "prof:true" --prefix "$W/more"
ctl status "$pid"
has "$out" "session                     1 (the last one)" "prof:true: that it has ended is said"
end

# A profile that is taken by nobody holds nothing up: status, an own dump, a signal with a final profile.
LAUNCH="env LD_PRELOAD=$LIB MALLOC_CONF=prof:true,lg_prof_sample:0,prof_final_signals:true,prof_prefix:$W/final"
fake sites
mkfifo slow
sleep 900 <slow &
sleeper=$!
children="$children $sleeper"
"$CTL" dump "$pid" -o slow --wait 60s >slow.out 2>&1 9>&- &
dumper=$!
children="$children $dumper"
sleep 1
has_written() { "$CTL" status "$pid" -q | grep -q '^thread  *yes'; }
until_true has_written
ctl status "$pid"
gives 0 "status while nobody takes a profile"
has "$out" "thread                      yes" "the profiler's thread has written it"
ctl dump "$pid" taken.heap
gives 0 "and an own dump"
[ "$(wc -c <taken.heap)" -gt 90000 ]
ok $? "of more than a pipe takes" "$(wc -c <taken.heap)"
kill -TERM "$pid"
is_gone() { ! kill -0 "$launched" 2>/dev/null || grep -q '^State:[[:space:]]*Z' "/proc/$launched/status"; }
until_true is_gone
is "$(ls "$W" | grep -c '^final\..*\.f\.heap$')" 1 "and the final profile of a signal"
kill -0 $dumper
ok $? "all that before the reader has taken the first byte"
kill $dumper $sleeper
end

LAUNCH="env LD_PRELOAD=$LIB"
fake busy kill
session "clone ends the process" --prefix "$W/killed"
ctl start "$pid" -q --prefix "$W/killed"
has "$err" "system calls are filtered (seccomp), so the profiler has no thread" "and what follows is said"
ctl status "$pid" --json
has "$out" '"thread":"no: a seccomp filter is in force"' "also in the status"
ctl dump "$pid" -o held.heap
gives 0 "and its own threads write the profile"
end
# shellcheck disable=SC2016
printf '%s\n' 'mkdir gone && cd gone && rmdir ../gone && exec env LD_PRELOAD="$@"' >gone.sh
LAUNCH="sh gone.sh $LIB"
fake busy
ctl start "$pid"
gives 0 "its working directory is gone, which is no reason"
has "$err" "no profile can be written in ./ (ENOENT): stop would fail" "but said"
end
LAUNCH="env LD_PRELOAD=$LIB"
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$W" "$NAME"
	cp "$LIB" seen.so
	chmod 755 seen.so
	mkdir -m 700 sealed
	LAUNCH="setpriv --reuid=65534 --regid=65534 --clear-groups env LD_PRELOAD=$W/seen.so"
	fake busy
	ctl start "$pid" -q --prefix "$W/sealed/p"
	gives 2 "a prefix in a directory that the process may not write"
	has "$err" "no file can be written in $W/sealed/ (EACCES)" "is found at start"
	ctl start "$pid" -q --prefix /proc/p
	gives 2 "a prefix in a file system that takes no new files"
	has "$err" "no file can be written in /proc/ (" "is found too"
	ctl start "$pid"
	gives 0 "so is the configured one, which is no reason"
	has "$err" "no profile can be written in $W/ (EACCES): stop would fail; give --prefix, or fetch it with jeprofctl dump $pid -o FILE" "but said"
	ctl dump "$pid"
	gives 1 "dump fails"
	has "$err" "jeprofctl dump $pid -o FILE" "and names -o"
	end
	LAUNCH="env LD_PRELOAD=$LIB"
fi

# whose malloc it is
cat >own.c <<'C'
#include <stddef.h>
#include <string.h>
static char room[1 << 20] __attribute__((aligned(16)));
static size_t used;
const char *say = MARK;
void *malloc(size_t n) { void *p = room + used; used += (n + 31) & ~15ul; return used <= sizeof(room) ? p : NULL; }
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n) { void *q = malloc(n); return p != NULL && q != NULL ? memcpy(q, p, n) : q; }
#ifdef PROGRAM
#include <stdio.h>
#include <unistd.h>
int
main(void) {
	char byte;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	return read(0, &byte, 1) > 0 && say != NULL;
}
#endif
C
$CC -O1 -w -fno-builtin -DPROGRAM -DMARK='"<jemalloc>: "' -rdynamic -o rustlike own.c
PROGRAM=$W/rustlike
fake
ctl start "$pid" --wait 300ms
gives 5 "a program with a jemalloc of its own"
has "$err" "has the library loaded, but does not use it: its malloc is that of a jemalloc that is linked into $W/rustlike" "is told as such"
end
unset PROGRAM
$CC -O1 -w -fno-builtin -fPIC -shared -DMARK='""' -o libtcmalloc.so.4 own.c
LAUNCH="env LD_PRELOAD=$W/libtcmalloc.so.4"
fake quiet
ctl start "$pid" --wait 300ms
gives 5 "a program on another allocator"
has "$err" "another allocator (tcmalloc, $W/libtcmalloc.so.4); this would start it on ours: LD_PRELOAD=/" "is named as such"
has "$err" "libjemalloc.so.2 $W/$NAME quiet" "with the line that restarts it"
end
for order in "$W/libtcmalloc.so.4:$LIB" "$W/none.so:$W/libtcmalloc.so.4:$LIB"; do
	LAUNCH="env LD_PRELOAD=$order"
	fake quiet
	ctl start "$pid" --wait 300ms
	gives 5 "another allocator is preloaded in front of the library"
	has "$err" "has the library loaded, but does not use it: its malloc is that of tcmalloc ($W/libtcmalloc.so.4), which is preloaded in front of it" "is named"
	ctl status "$pid" --wait 300ms
	has "$err" "its malloc is that of tcmalloc" "the status says so too"
	end
done
LAUNCH="env LD_PRELOAD=$LIB:$W/libtcmalloc.so.4"
fake busy
ctl start "$pid"
gives 0 "behind it: the library is used"
end
LAUNCH="env LD_PRELOAD=$LIB"

fake busy no-clone
session "clone is forbidden" --prefix "$W/seccomp" --every 1h
end
LAUNCH="env LD_PRELOAD=$LIB MALLOC_CONF=prof_thread:false"
fake busy
session "without the profiler's thread" --prefix "$W/threadless"
end
mkdir -m 755 ctl
LAUNCH="env LD_PRELOAD=$LIB MALLOC_CONF=prof_ctl_dir:$W/ctl,prof_prefix:$W/ctl/p"
fake busy
ctl start "$pid" -q --ctl-dir "$W/ctl"
gives 0 "control directory: start"
ctl start "$pid" -q --ctl-dir "$W/ctl"
gives 4 "control directory: start again"
ctl dump "$pid" -q --ctl-dir "$W/ctl" /tmp/elsewhere.heap
gives 6 "control directory: a dump elsewhere"
has "$err" "only $W/ctl/, the directory of the configured prefix, is allowed here; nothing changed" "and where it may lie"
ctl stop "$pid" -q --ctl-dir "$W/ctl"
gives 0 "control directory: stop"
[ -s "$out" ]
ok $? "control directory: the profile" "$out"
end
LAUNCH=
ARCHIVE=$BUILD/lib/libjemalloc.a
if [ -e "$ARCHIVE" ]; then
	for flags in "" "-static" "-static -s" "-no-pie -Wl,--gc-sections"; do
		# shellcheck disable=SC2086
		$CC -std=gnu11 -O1 -w -fno-builtin $flags -o linked work.c "$ARCHIVE" -pthread -ldl >cc.out 2>&1 || {
			skip "cannot link $flags"
			continue
		}
		PROGRAM=$W/linked
		fake busy
		session "the archive, flags '$flags'" --prefix "$W/linked"
		end
	done
	unset PROGRAM
else
	skip "no static library"
fi
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	chmod 755 "$W" "$NAME"
	nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
	cp "$LIB" lib.so
	chmod 755 lib.so
	cat >jail <<'S'
#!/bin/sh
[ -n "$2" ] && { mount -t tmpfs none "$2" || exit 1; }
LD_PRELOAD=$1 exec "$3" busy
S
	chmod 755 jail
	mkdir private
	if can_unshare; then
		PROGRAM=
		LAUNCH="unshare -m $W/jail $LIB $W/private"
		PROGRAM=$W/$NAME
		fake
		ctl start "$pid" -q --prefix "$W/private/p"
		gives 0 "mount namespace: start"
		ctl stop "$pid" -q
		gives 0 "mount namespace: stop"
		has "$out" "/proc/$pid/root$W/private/p" "mount namespace: path"
		[ -s "$out" ]
		ok $? "mount namespace: which opens" "$out"
		end
	fi
	if [ -e "$ARCHIVE" ] && $CC -std=gnu11 -O1 -w -fno-builtin -static -o static work.c "$ARCHIVE" -pthread; then
		mkdir -p prison/out
		LAUNCH=
		PROGRAM=$W/static
		fake busy chroot "$W/prison"
		ctl start "$pid" -q --prefix /out/p
		gives 0 "chroot: start"
		ctl stop "$pid" -q
		gives 0 "chroot: stop"
		has "$out" "$W/prison/out/p.$pid." "chroot: the path as seen from here"
		[ -s "$out" ]
		ok $? "chroot: which opens" "$out"
		ctl dump "$pid" -o - -q
		has "$(tail -n 1 ctl.out)" "# end " "chroot: streamed"
		end
	fi
	if unshare -p -f true 2>/dev/null; then
		LAUNCH="unshare -p -f env LD_PRELOAD=$LIB"
		PROGRAM=$W/$NAME
		fake busy
		inner=$(sed 's/ready //' ready)
		pid=$(cat "/proc/$launched/task/$launched/children")
		pid=${pid%% *}
		ctl start "$pid" -q --prefix "$W/inner"
		gives 0 "pid namespace: start"
		ctl status "$pid" --json
		has "$out" "\"own_pid\":$inner," "pid namespace: its own pid is known"
		ctl stop "$pid" -q
		gives 0 "pid namespace: stop"
		has "$out" ".$inner." "pid namespace: the profile bears its own pid"
		[ -s "$out" ]
		ok $? "pid namespace: which opens" "$out"
		end
	fi
	LAUNCH="env LD_PRELOAD=$W/lib.so"
	PROGRAM=$W/$NAME
	fake busy
	AS=$nobody
	ctl start "$pid"
	gives 5 "a process of another user"
	belongs="it belongs to uid 0, we are uid 65534: use sudo, or start it with MALLOC_CONF=prof_ctl_dir:DIR"
	shows_others "$pid" || belongs="/proc hides it from us (hidepid): use sudo"
	has "$err" "$belongs" "and the remedy"
	AS=
	end
	LAUNCH="$nobody env LD_PRELOAD=$W/lib.so MALLOC_CONF=prof_ctl_fd:true"
	PROGRAM=$W/$NAME
	fake busy
	: >closed
	chmod 000 closed
	printf '#!/bin/sh\nmount --bind %s/closed /proc/%s/mem || exit 99\nexec %s ./unattached "$@"\n' "$W" "$pid" "$nobody" >outside
	chmod 755 outside
	$CC -o unattached "$SRC/test/jeprofctl/unattached.c"
	mkdir -m 777 open
	AS="unshare -m $W/outside"
	can_unshare && ctl status "$pid" --json || code=99
	if [ "$code" -ne 99 ]; then
		gives 0 "no right to attach, prof_ctl_fd"
		has "$out" "mailbox (memfd)" "and said"
		session "no right to attach, prof_ctl_fd" --prefix "$W/open/p"
		ctl dump "$pid" -o - -q
		has "$(tail -n 1 ctl.out)" "# end " "no right to attach: a profile is fetched"
		ls -l "/proc/$pid/fd" | grep -q jemalloc-profile
		is $? 1 "and its memory file goes"
		find "/proc/$pid/fd" -lname '*jemalloc-mailbox*' -exec truncate -s 0 {} \; 2>/dev/null
		ctl status "$pid"
		gives 0 "the memory file cannot be made shorter from outside"
	else
		skip "cannot mount over /proc/PID/mem"
	fi
	AS=
	end
	LAUNCH="$nobody env LD_PRELOAD=$W/lib.so"
	fake busy undumpable
	AS=$nobody
	ctl start "$pid"
	gives 5 "a program that is not dumpable"
	if shows_others "$pid"; then
		has "$err" "not dumpable" "and why"
		has "$err" "use sudo, or start it with MALLOC_CONF=prof_ctl_dir:DIR" "and the remedy"
	else
		has "$err" "/proc hides it from us (hidepid): use sudo" "and why"
	fi
	AS=
	session "as root" --prefix "$W/open/undumpable"
	end
	cp lib.so "$(basename "$LIB")"
	$CC -std=gnu11 -O1 -w -fno-builtin -o suid work.c -Wl,--no-as-needed "$LIB" -Wl,-rpath,"$W"
	chmod 4755 suid
	LAUNCH=$nobody
	PROGRAM=$W/suid
	fake busy
	if [ "$(awk '/^Uid:/ { print $3 }' "/proc/$pid/status")" = 0 ]; then
		ctl start "$pid" --wait 500ms
		gives 5 "a set-user-id program keeps its mailbox closed"
		has "$err" "closed: the program was started with more rights" "and it is said"
		AS=$nobody
		ctl start "$pid"
		gives 5 "also to its user"
		has "$err" "it is a set-user-id or set-group-id program" "who is told why"
		AS=
	else
		skip "set-user-id has no effect here"
	fi
	end
fi
done_testing
