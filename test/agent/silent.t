#!/bin/sh
# A child of which the library is not told (a clone() of its own) and that waits: it has its parent's memory, tables and memory file, but
# the box is its parent's. jeprofd holds it for the parent alone, and does not tell the child's end as that of a profiled process.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"

cat >zygote.c <<'C'
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
char *volatile kept[100];
int main(void) {
	for (int i = 0; i < 100; i++) kept[i] = malloc(10000);
	long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) for (;;) pause();
	printf("%ld\n", child);
	fflush(stdout);
	for (unsigned i = 0;; i++) { free(kept[i % 100]); kept[i % 100] = malloc(10000); usleep(1000); }
}
C
$CC -O1 -w -o zygote zygote.c || exit 1
agent
MALLOC_CONF=prof:true,prof_blackbox:fd,lg_prof_sample:12 LD_PRELOAD=$LIB ./zygote >child 2>/dev/null &
pid=$!
children="$children $pid"
until_true [ -s child ]
child=$(cat child)
children="$children $child"
held() { curl -s "$URL/metrics" | sed -n "s/^jeprof_box_held{.*pid=\"$1\".* //p"; }
is_held() { [ "$(held "$pid")" = 1 ]; }
until_true is_held
is "$(held "$pid")" 1 "the box of the parent is held"
until_true is_target "$child"
sleep 1 # five looks
is "$(held "$child")" 0 "that of the child is not"
kill -9 "$child"
is_gone() { ! is_target "$child"; }
until_true is_gone
is "$(curl -s "$URL/dead/" | grep -c zygote)" 0 "its end is not that of a process with tables"
kill -9 "$pid"
is_told() { [ "$(curl -s "$URL/dead/" | grep -c zygote)" = 1 ]; }
until_true is_told
ok $? "that of the parent is" "$(curl -s "$URL/dead/")"
end_agent
done_testing
