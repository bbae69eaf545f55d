#!/bin/sh
# jeprofctl and the library: a program that was started with nothing but the library is profiled from outside.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/jeprofctl/aid"

[ -e "$LIB" ] || skip_all "no library"
cat >work.c <<'C'
/* work MODE: allocates all the time (busy), or once and then sleeps (quiet); ends with its standard input */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *kept[4096];
__attribute__((noinline)) void *
the_place(size_t size) {
	void *volatile p = malloc(size);
	return p;
}
int
main(int argc, char **argv) {
	struct pollfd in = {.fd = 0, .events = POLLIN};
	int is_busy = argc > 1 && strcmp(argv[1], "busy") == 0, timeout = is_busy ? 1 : 1000;
	char byte;
	alarm(300);
	free(the_place(100));
	if (argc > 1 && strcmp(argv[1], "fork") == 0 && fork() != 0) {
		while (read(0, &byte, 1) > 0) {
		}
		return 0;
	}
	is_busy = is_busy || strcmp(argv[1], "fork") == 0;
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (unsigned i = 0; poll(&in, 1, is_busy ? 1 : timeout) == 0 || read(0, &byte, 1) > 0; i++) {
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
case $err in *"does not run the library"*) end; skip_all "the library has no mailbox" ;; esac
gives 0 "status of a program that was started with no option"
has "$out" "idle" "it is idle"
ctl list
has "$out" "$pid  $NAME" "list shows it"
ctl stop "$pid"
gives 4 "stop: not profiling"
ctl start "$pid" --rate 4K --prefix "$W/run"
gives 0 "start"
is "$out" "session 1" "the first session"
ctl start "$pid"
gives 4 "start again"
has "$err" "session 1; nothing changed" "and who was first"
sleep 0.5
ctl status "$pid" --json
has "$out" '"state":"active"' "status: active"
has "$out" '"sample_interval":4096' "status: the rate"
ctl dump "$pid"
gives 0 "dump"
has "$(head -n 1 "$out")" "heap_v2/" "a profile"
ctl dump "$pid" here.heap
gives 0 "dump to a path"
[ -s here.heap ]
ok $? "which is there"
ctl dump "$pid" -o streamed.heap
gives 0 "dump through the mailbox"
has "$(tail -n 1 streamed.heap 2>&1)" "# end " "it is whole"
ctl set "$pid" --rate 64K
gives 0 "set"
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
"$SRC/bin/jeprof" --text "$W/$NAME" "$out" >text 2>&1
has "$(cat text)" "the_place" "and names the function that allocates"
ctl start "$pid" --metric moon
gives 2 "bad options"
ctl start "$pid" -d 200ms --prefix "$W/short"
gives 0 "start -d"
[ -s "$out" ]
ok $? "its profile" "$out"
runs "fuzzer" $CC -std=gnu11 -O1 -w -I"$SRC/src" -o fuzz "$SRC/test/jeprofctl/fuzz.c"
runs "rubbish in the mailbox" ./fuzz "$pid" "${FUZZ_SECONDS:-3}"
sleep 0.2
ctl status "$pid" --wait 30s
gives 0 "and it still answers"
has "$out" "idle" "nothing was started by it"
end

LAUNCH="env LD_PRELOAD=$LIB MALLOC_CONF=prof_thread:false"
fake quiet
ctl start "$pid" --wait 300ms
gives 7 "an idle program"
has "$err" "is idle" "and why"
end
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
done_testing
