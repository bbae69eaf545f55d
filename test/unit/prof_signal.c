/*
 * Whose the actions of the deadly signals are: ours where the default stood, and only there; SIGINT
 * not in the first moments; what is set back to the default is taken again; a child starts clean;
 * a signal that is passed on while another thread takes its action again is acted on once; one that
 * meets the end of exit's profile is not lost. What another thread was doing with a signal when the
 * process forked is nothing to the child.
 */
#include "test.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "os/gate.h"
#include "os/nstime.h"
#include "os/thread.h"
#include "prof/control/prof_control.h"
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

/* Where a second thread stops for ever: in a call of sigaction() with such an action. */
enum place { NOWHERE, LOOKS, INSTALLS };
static __thread volatile enum place stops_at;
static bool is_stopped;

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

static void
stop_here(void) {
	__atomic_store_n(&is_stopped, true, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
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
	if (stops_at == (act == NULL ? LOOKS : INSTALLS)) {
		if (act != NULL)
			raise(number); /* not known to be ours yet */
		stop_here();
	}
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

/* ------------------------------------------------------------------ a fork amid all that */

/* The process forks while its second thread has stopped; what the child does, and dies of. */
struct amid {
	void (*second)(void);
	void (*child)(void);
	int signal;
	const char *what;
};

static struct {
	int n_acted; /* how often the handler of the child acted on a signal */
	bool has_come_far;
} *told;
static bool is_in_child;

static bool
no_thread(void) {
	told->n_acted += is_in_child;
	return false;
}

static bool
a_thread(void) {
	told->n_acted += is_in_child;
	return true;
}

static void
look(void) {
	signal(SIGTERM, SIG_DFL);
	stops_at = LOOKS;
	prof_signal_tick();
}

static void
look_in_child(void) {
	prof_signal_tick();
	told->has_come_far = whose(SIGTERM) == 'l';
	raise(SIGTERM);
}

static void
install(void) {
	signal(SIGTERM, SIG_DFL);
	stops_at = INSTALLS;
	prof_signal_tick();
}

static void
install_in_child(void) {
	signal(SIGTERM, SIG_DFL);
	prof_signal_tick();
	told->has_come_far = told->n_acted == 0;
	raise(SIGTERM);
}

static void
pass_on(void) {
	prof_signal_tick();
	stops_at = LOOKS;
	raise(SIGTERM);
}

/* Amid the allocator, where a signal is noted and its echo is not. */
static void
note_in_child(void) {
	prof_signal_wake_hook = a_thread;
	tls_get()->inside++;
	raise(SIGHUP);
	raise(SIGHUP);
	tls_get()->inside--;
	told->has_come_far = prof_signal_is_due();
	prof_signal_tick();
}

static void
write_at_exit(void) {
	prof_signal_exit_begin();
	stop_here();
}

static void
raise_in_child(void) {
	told->has_come_far = true;
	raise(SIGTERM);
}

/* A timer repeats the signal until the thread has left the allocator, in the parent. */
static void
have_timer(void) {
	tls_get()->inside++;
	raise(SIGTERM);
	stop_here();
}

static void
time_in_child(void) {
	tls_get()->inside++;
	raise(SIGTERM);
	while (__atomic_load_n(&told->n_acted, __ATOMIC_SEQ_CST) < 3)
		usleep(100);
	told->n_acted = 0;
	told->has_come_far = true;
	tls_get()->inside--;
	for (;;)
		pause();
}

static void
block(int how) {
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	pthread_sigmask(how, &term, NULL);
}

static void *
second(void *arg) {
	block(SIG_UNBLOCK);
	((const struct amid *)arg)->second();
	return NULL;
}

/* The exit status says whether the child died of the signal. */
static void
fork_amid(void *arg) {
	const struct amid *a = arg;
	pthread_t t;
	int status = -1;

	prof_signal_tick();
	prof_signal_wake_hook = no_thread;
	block(SIG_BLOCK); /* a timer rings in the second thread */
	pthread_create(&t, NULL, second, arg);
	until(&is_stopped);
	pid_t pid = fork();
	is_in_child = pid == 0;
	if (pid == 0) {
		block(SIG_UNBLOCK);
		alarm(60);
		a->child();
		_exit(1);
	}
	waitpid(pid, &status, 0);
	_exit(WIFSIGNALED(status) && WTERMSIG(status) == a->signal ? 0 : 1);
}

static void
test_forks(void) {
	static struct test_result r;
	static struct amid each[] = {
		{look, look_in_child, SIGTERM, "an action is looked at"},
		{install, install_in_child, SIGTERM, "an action is installed"},
		{install, raise_in_child, SIGTERM, "an action is installed, which then stands"},
		{pass_on, note_in_child, SIGHUP, "a signal is passed on"},
		{write_at_exit, raise_in_child, SIGTERM, "exit writes its profile"},
		{have_timer, time_in_child, SIGTERM, "a timer repeats a signal"},
	};

	opt_prof_thread = prof_thread_false;
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		memset(told, 0, sizeof(*told));
		run_forked(&r, fork_amid, &each[i]);
		child_exits(&r, 0, "a fork while %s: the child dies of its own signal", each[i].what);
		ok(told->has_come_far, "not before");
		ok(told->n_acted > 0, "and its handler acted on it");
	}
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
	crossing = NULL;
	test_forks();
	return done_testing();
}
