#!/bin/sh
# A process whose first thread has ended (pthread_exit() in main) goes on with the others. /proc/PID shows neither memory nor files of it
# then, and calls it a zombie; jeprofctl, jeprof doctor and jeprofd treat it as any other, and its profiles have all of their lines.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/jeprofctl/aid"

[ -e "$LIB" ] || skip_all "no library"
cat >first.c <<'C'
/* first: a second thread allocates and fills 1 MB for each byte on its standard input; the first thread ends */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_t first;
void *volatile last;
__attribute__((noinline)) static void
held_by_second(void) {
	for (int i = 0; i < 64; i++)
		last = memset(malloc(16384), 1, 16384);
}
static void *
second(void *arg) {
	char byte;
	pthread_join(first, NULL);
	held_by_second();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		for (int i = 0; i < 8; i++)
			held_by_second();
	exit(3);
}
int
main(void) {
	pthread_t thread;
	alarm(900);
	first = pthread_self();
	pthread_create(&thread, NULL, second, NULL);
	pthread_exit(NULL);
}
C
$CC -std=gnu11 -O1 -g -w -fno-builtin -o first first.c -pthread || exit 1
PROGRAM=$W/first
LAUNCH="env LD_PRELOAD=$LIB MALLOC_CONF=prof_prefix:$W/p/x,lg_prof_sample:12"
mkdir p

# answered ARGUMENT...: a request during which the process allocates
answered() {
	"$CTL" --wait 60s "$@" >ctl.out 2>ctl.err 9>&- &
	asker=$!
	while kill -0 $asker 2>/dev/null; do
		echo >&9
		sleep 0.1
	done
	wait $asker
	code=$?
	out=$(cat ctl.out)
	err=$(cat ctl.err)
}

fake
until_true is_in_state "$pid" Z
ctl status "$pid" --wait 1ms
case $err in *"does not run the library"* | *"without the profiler"*) end; skip_all "the library has no mailbox" ;; esac
"$CTL" list >list 2>&1
has "$(cat list)" "$pid" "list has it"
answered start "$pid" --highwater 1M --metric rss -q
gives 0 "start"
answered status "$pid" --json -q
gives 0 "status"
ok "$([ "$(sed -n 's/.*"rss":"\{0,1\}\([0-9]*\).*/\1/p' ctl.out)" -gt 1048576 ]; echo $?)" "with its resident memory" "$out"
answered dump "$pid" -q
gives 0 "dump"
has "$(sed -n '/^MAPPED_LIBRARIES/,$p' "$out")" "$W/first" "the profile has the memory map"
"$CTL" dump "$pid" --outside -o outside.heap -q >/dev/null 2>ctl.err
is "$? $(cat ctl.err)" "0 " "dump --outside"
has "$(cat outside.heap)" "$W/first" "has the map too"
answered dump "$pid" -o here.heap -q
gives 0 "dump written by jeprofctl"
has "$(ls p)" .h0. "a threshold of resident memory is seen" "$(ls p)"
ctl stop "$pid" -q --wait 1ms
if [ -x "$BUILD/bin/jeprof" ]; then
	has "$("$BUILD/bin/jeprof" top outside.heap 2>&1)" held_by_second "jeprof names the function"
	cp "$BUILD/bin/jeprof" jeprof
	has "$(./jeprof doctor "$pid" 2>&1)" "$W/first" "doctor names the program"
fi
end
exited=$?
is "$exited" 3 "it ended by itself"
done_testing
