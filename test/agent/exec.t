#!/bin/sh
# A process that becomes another program by exec: its page has the figures of the program that it is, and none of the former one
# as long as the new one has not answered.
. "$JEMALLOC_SRC/test/include/tap.sh"
. "$SRC/test/agent/aid"
agent

# Waits for SIGUSR1, then becomes the program of its argument, which begins by stopping itself.
cat >first.c <<'C'
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
static volatile sig_atomic_t is_due;
static void set(int n) { is_due = n; }
int main(int argc, char **argv) {
	signal(SIGUSR1, set);
	free(malloc(1));
	if (argc == 1) {
		raise(SIGSTOP);
	}
	for (char *p; !is_due; free(p)) {
		p = malloc(3000);
		usleep(1000);
	}
	execl(argv[1], argv[1], (char *)0);
	return 1;
}
C
$CC -O1 -o first first.c && cp first second || { echo "Bail out! the program does not compile"; exit 1; }

# The names of the figures on the page of the process
figures() {
	curl -s --max-time 60 "$URL/p/$pid/" >page
	for name in allocated active metadata resident mapped retained sample_interval dumps suppressed dump_errors rejected; do
		grep -o "<td class=\"t\">$name</td>" page | sed 's/<[^>]*>//g'
	done | tr '\n' ' '
}
has_figures() { [ -n "$(figures)" ]; }
is_program() { figures >figures.out; grep -q "/$1<" page; }

LD_PRELOAD=$LIB ./first ./second >/dev/null 2>&1 &
pid=$!
children="$children $pid"
until_true is_target "$pid"
until_true has_figures
ok $? "the first program answers"
all=$(figures)
is "$(echo "$all" | wc -w)" 11 "with all figures of an answer" "$all"
kill -USR1 "$pid"
until_true is_program second
ok $? "it becomes another one, which is stopped"
is "$(figures)" '' "no figure of the former program is shown for it"
kill -CONT "$pid"
until_true has_figures
is "$(figures)" "$all" "it goes on, and has its own"
done_testing
