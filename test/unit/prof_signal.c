/*
 * Whose the actions of the deadly signals are: ours where the default stood, and only there; SIGINT
 * not in the first moments; what is set back to the default is taken again; a child starts clean.
 */
#include "test.h"

#include <signal.h>

#include "os/nstime.h"
#include "os/thread.h"
#include "prof/trigger/prof_signal.h"

static uint64_t fake_ns = 100 * NSTIME_PER_SEC;

static uint64_t
fake_now(void) {
	return fake_ns;
}

static void
own_action(int number) {
	(void)number;
}

/* 'd'efault, 'i'gnored, the test's 'o'wn, 'l'ibrary's. */
static char
whose(int number) {
	struct sigaction a;

	sigaction(number, NULL, &a);
	if (a.sa_flags & SA_SIGINFO)
		return 'l';
	return a.sa_handler == SIG_DFL ? 'd' : a.sa_handler == SIG_IGN ? 'i' : 'o';
}

static const char *
all(void) {
	static char text[4];

	text[0] = whose(SIGTERM);
	text[1] = whose(SIGHUP);
	text[2] = whose(SIGINT);
	return text;
}

static void
test_actions(void) {
	nstime_now_hook = fake_now;
	prof_signal_boot();
	is_str(all(), "ddd", "without the option nothing is touched");
	prof_signal_tick();
	is_str(all(), "ddd", "nor later");
	opt_prof_final_signals = true;
	signal(SIGHUP, SIG_IGN);
	prof_signal_boot();
	is_str(all(), "lid", "SIGTERM at boot, not what is ignored, and SIGINT not yet");
	ok(prof_signal_is_due(), "there is something to do");
	fake_ns += NSTIME_PER_SEC / 4 - 1;
	prof_signal_tick();
	is_str(all(), "lid", "a quarter of a second");
	fake_ns++;
	prof_signal_tick();
	is_str(all(), "lil", "is over");
	ok(!prof_signal_is_due(), "nothing to do any more");
	signal(SIGTERM, own_action);
	signal(SIGINT, SIG_IGN);
	prof_signal_tick();
	is_str(all(), "oii", "what the program sets stands");
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	signal(SIGINT, own_action);
	prof_signal_tick();
	is_str(all(), "llo", "where the default stands again, it is taken again");
	signal(SIGINT, SIG_DFL);
	prof_signal_tick();
	is_str(all(), "lll", "all three");
	nstime_now_hook = NULL;
}

static volatile int rings;

static void
ring(int number) {
	rings += number == SIGUSR1;
}

/* The timer that calls a handler again. */
static void
test_later(void) {
	int timer = 0;

	signal(SIGUSR1, ring);
	is_int(os_signal_later(&timer, SIGUSR1, 1000), 0, "a signal a microsecond later");
	while (rings == 0)
		usleep(100);
	int first = timer;
	is_int(os_signal_later(&timer, SIGUSR1, 1000), 0, "again");
	while (rings == 1)
		usleep(100);
	is_int(timer, first, "by the same timer");
	is_int(rings, 2, "each comes once");
}

/* A default action in a child: it dies, and of this signal. */
static void
die(void *arg) {
	prof_signal_postfork_child();
	raise(*(int *)arg);
	_exit(1);
}

static void
test_death(void) {
	static struct test_result r;
	static int each[] = {SIGTERM, SIGHUP, SIGINT};

	for (unsigned i = 0; i < 3; i++) {
		run_forked(&r, die, &each[i]);
		ok(died_of(&r, each[i]), "the process still dies of signal %d", each[i]);
	}
}

int
main(void) {
	default_signals();
	free(keep(malloc(1)));
	test_actions();
	test_later();
	test_death();
	return done_testing();
}
