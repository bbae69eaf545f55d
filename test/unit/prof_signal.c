/*
 * Whose the actions of the deadly signals are: ours where the default stood, and only there; SIGINT
 * not in the first moments; what is set back to the default is taken again; a child starts clean;
 * a signal that is passed on while another thread takes its action again is acted on once; one that
 * meets the end of exit's profile is not lost.
 */
#include "test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

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

/*
 * One thread passes SIGTERM on. When it has set the default action, another one sees that and
 * installs ours again, and is stopped amid that until the first one has gone on.
 */
static struct {
	int n_acted; /* how often the signal was acted on */
	bool is_on, has_installed, goes_on;
} *crossing;

static bool
count_acted(void) {
	__atomic_fetch_add(&crossing->n_acted, 1, __ATOMIC_SEQ_CST);
	return false;
}

static void
until(bool *is_so) {
	while (!__atomic_load_n(is_so, __ATOMIC_SEQ_CST))
		usleep(100);
}

static void *
take_again(void *arg) {
	prof_signal_tick();
	return arg;
}

/* Stands before the C library's: called by the library too. */
int
sigaction(int number, const struct sigaction *act, struct sigaction *old) {
	int (*real)(int, const struct sigaction *, struct sigaction *) = NULL;
	pthread_t t;

	*(void **)&real = dlsym(RTLD_NEXT, "sigaction");
	int err = real(number, act, old);
	if (crossing == NULL || number != SIGTERM || act == NULL)
		return err;
	if (act->sa_handler == SIG_DFL && crossing->is_on) {
		crossing->is_on = false;
		pthread_create(&t, NULL, take_again, NULL);
		until(&crossing->has_installed);
	} else if ((act->sa_flags & SA_SIGINFO) != 0 && !crossing->has_installed
	    && !crossing->is_on) {
		__atomic_store_n(&crossing->has_installed, true, __ATOMIC_SEQ_CST);
		until(&crossing->goes_on);
	}
	return err;
}

static void
cross(void *arg) {
	prof_signal_postfork_child();
	prof_signal_tick();
	prof_signal_wake_hook = count_acted;
	crossing = arg;
	crossing->is_on = true;
	raise(SIGTERM);
	__atomic_store_n(&crossing->goes_on, true, __ATOMIC_SEQ_CST);
	sleep(300); /* the other thread ends the process */
	_exit(1);
}

static void
test_crossing(void) {
	static struct test_result r;
	void *shared = mmap(NULL, sizeof(*crossing), PROT_READ | PROT_WRITE,
	    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	run_forked(&r, cross, shared);
	ok(died_of(&r, SIGTERM), "passed on while its action is taken again: the process dies of it");
	crossing = shared;
	ok(crossing->has_installed, "the two threads met");
	is_int(crossing->n_acted, 1, "the signal was acted on once");
}

/* Exit ends between the handler's look at it and the handler's note of the signal. */
static uint64_t
end_exit_meanwhile(void) {
	nstime_now_hook = NULL;
	prof_signal_exit_end();
	return NSTIME_PER_SEC;
}

static void
meet_exit(void *arg) {
	(void)arg;
	prof_signal_postfork_child();
	prof_signal_exit_begin();
	nstime_now_hook = end_exit_meanwhile;
	raise(SIGTERM);
	_exit(nstime_now_hook == NULL ? 1 : 2);
}

static void
test_exit_meanwhile(void) {
	static struct test_result r;

	run_forked(&r, meet_exit, NULL);
	ok(died_of(&r, SIGTERM), "a signal while the profile of exit ends: the process dies of it");
}

int
main(void) {
	if (!config_prof) {
		plan_skip_all("built without the profiler");
	}
	default_signals();
	free(keep(malloc(1)));
	test_actions();
	test_later();
	test_death();
	test_crossing();
	test_exit_meanwhile();
	return done_testing();
}
