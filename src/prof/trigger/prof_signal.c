/*
 * Writes the final profile when a signal is about to end the process (prof_signal.h).
 *
 * Invariant: the signal that came is one word, and only the thread whose number is in `taker`
 * writes a profile for it. Locks: none of its own. The handler writes a profile only if the
 * interrupted thread was outside the allocator, so that thread holds none of the library's locks;
 * what it holds of the program's, a dump hook may wait for (prof_dump.c bounds the wait). Called by
 * prof.c at exit, by prof_control.c at boot, after fork, and in rounds of the profiler's thread or
 * at heartbeats without that thread; on_signal() by the kernel.
 */
#include "prof/trigger/prof_signal.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/gate.h"
#include "os/nstime.h"
#include "os/sys.h"
#include "os/sys_call.h"
#include "os/thread.h"
#include "prof/trigger/prof_auto.h"

/* Time in ns that a program has for setting its own action before our handler of SIGINT is set. */
#define SETTLE_NS (NSTIME_PER_SEC / 4)
/*
 * Longest time in ns that an interrupted thread waits in the handler. It is bounded because the
 * thread may hold what the writer waits for.
 */
#define PARK_NS (2 * NSTIME_PER_SEC)
/*
 * A second signal within this time (ns) of the first is taken for its echo and ignored: timeout(1)
 * signals its child and then the group that contains the child, service managers send SIGHUP after
 * SIGTERM, and shells pass on what their terminal sends to all.
 */
#define ECHO_NS NSTIME_PER_SEC
/*
 * Time in ns after which a timer repeats the signal, if the handler interrupted the allocator. Exit
 * looks every ten such times whether a signal's profile is written.
 */
#define RETRY_NS NSTIME_PER_MSEC

bool opt_prof_final_signals;
EARLY_DATA bool (*prof_signal_wake_hook)(void);

/* The signals that we handle. */
static const int deadly[] = {SIGTERM, SIGHUP, SIGINT};

static struct {
	atomic_u32_t due;        /* the signal that came; 0: none */
	atomic_u64_t due_ns;     /* monotonic time of its arrival; set before `due` */
	atomic_u32_t taker;      /* mutex_self() of the thread that acts on it; 0: none */
	atomic_u32_t exit;       /* one of the EXIT_ words below */
	atomic_b_t is_looking;   /* held by the one thread that examines the actions */
	atomic_b_t wants_int;    /* the action of SIGINT has not been examined yet (SETTLE_NS) */
	/* number of signals that did not end the process; a futex, on which threads wait for a rise */
	atomic_u32_t survived;
	atomic_b_t is_passed;    /* a signal is being passed on, so another one is no echo of it */
	atomic_u32_t setting;    /* the signal whose action is being changed; 0: none */
	atomic_u32_t came;       /* whether that signal arrived during the change: a CAME_ word */
	/* pid of this process; a child of vfork runs in our memory with another one */
	atomic_u32_t pid;
	uint64_t boot_ns;        /* monotonic time of boot, of the parent in a forked child */
	int timer; /* the timer of os_signal_later(), which sends the signal again; 0: not made */
} sig;

/* sig.exit: exit has not begun; is writing its final profile; has written that profile. */
enum { EXIT_FAR, EXIT_WRITES, EXIT_HAS_WRITTEN };
/* sig.came: no signal came; one came; one came that was being passed on, so it gets no profile. */
enum { CAME_NOT, CAME_NEW, CAME_PASSED };

static void on_signal(int number, siginfo_t *info, void *context);
static void actions_look(void);

/* ---------------------------------------------------------------- actions */

static bool
action_is_default(const struct sigaction *a) {
	return (a->sa_flags & SA_SIGINFO) == 0 && a->sa_handler == SIG_DFL;
}

static bool
action_is_ours(const struct sigaction *a) {
	return (a->sa_flags & SA_SIGINFO) != 0 && a->sa_sigaction == on_signal;
}

/*
 * Installs our handler. If the program sets its own action at the same moment, restores the
 * program's action: repeats until the action that was replaced is ours or the default.
 */
static void
action_exchange(int number) {
	assert(atomic_load_u32(&sig.setting, MO_RELAXED) == (uint32_t)number);
	struct sigaction old;
	struct sigaction want = {.sa_sigaction = on_signal};
	/*
	 * Uses the user's signal stack, if there is one. SA_NODEFER lets a second signal come through.
	 */
	want.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART | SA_NODEFER;
	sigemptyset(&want.sa_mask);
	while (sigaction(number, &want, &old) == 0 && !action_is_default(&old)
	    && !action_is_ours(&old)) {
		want = old;
	}
}

/*
 * Sends the signal to this process; to nobody if a filter of system calls hides its number, since
 * -1 would be all processes.
 */
static void
signal_send(int number) {
	int pid = sys_pid();
	if (pid > 0) {
		kill(pid, number);
	}
}

/*
 * Lets the signal do what it would have done without us: by the default action in this thread, or
 * by the action that the program has set meanwhile, in a thread of the program. Where a filter of
 * system calls refuses what that takes, our handler would stay and get the signal again and again,
 * or nobody would: then the process ends with the status that a shell gives for the signal.
 */
static void
signal_pass_on(int number) {
	assert(number > 0 && number < NSIG);
	struct sigaction a;
	sigset_t one;
	sigset_t old;
	/*
	 * Another thread may be reinstalling our handler: then our own signal arrives here again, and
	 * must not be taken for an echo.
	 */
	atomic_store_b(&sig.is_passed, true, MO_SEQ_CST);
	bool is_known = sigaction(number, NULL, &a) == 0;
	if (is_known && !action_is_ours(&a) && !action_is_default(&a)) {
		signal_send(number);
		atomic_store_b(&sig.is_passed, false, MO_SEQ_CST);
		return;
	}
	a = (struct sigaction){.sa_handler = SIG_DFL};
	sigemptyset(&one);
	sigaddset(&one, number);
	if (!is_known || sigaction(number, &a, NULL) != 0
	    || pthread_sigmask(SIG_UNBLOCK, &one, &old) != 0
	    || sys_call(SYS_tgkill, sys_pid(), os_tid(), number) != 0) {
		_exit(128 + number);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	atomic_store_b(&sig.is_passed, false, MO_SEQ_CST);
}

/*
 * Installs our handler if the action is the default one; needs is_looking. A signal that came
 * meanwhile is then sent again, or passed on.
 */
static void
action_take(int number) {
	struct sigaction a;
	assert(number == SIGTERM || number == SIGHUP || number == SIGINT);
	if (sigaction(number, NULL, &a) != 0 || !action_is_default(&a)) {
		return;
	}
	atomic_store_u32(&sig.setting, (uint32_t)number, MO_SEQ_CST);
	action_exchange(number);
	atomic_store_u32(&sig.setting, 0, MO_SEQ_CST);
	uint32_t came = atomic_exchange_u32(&sig.came, CAME_NOT, MO_SEQ_CST);
	if (came == CAME_PASSED) {
		/* The thread that passed it on believes that the process survived it: no second profile. */
		signal_pass_on(number);
	} else if (came == CAME_NEW) {
		signal_send(number);
	}
}

/* ---------------------------------------------------------------- acting on a signal */

/*
 * Writes the profile and passes the signal on; the caller is the taker. If the process lives
 * on, wakes who waits, installs our handler again, and returns.
 */
static void
signal_act(bool in_handler) {
	int number = (int)atomic_load_u32(&sig.due, MO_ACQUIRE);
	assert(number > 0 && number <= SIGTERM);
	assert(atomic_load_u32(&sig.taker, MO_RELAXED) == mutex_self());
	prof_final_dump(number, in_handler, NULL);
	signal_pass_on(number);
	atomic_store_u32(&sig.due, 0, MO_RELEASE);
	atomic_store_u32(&sig.taker, 0, MO_RELEASE);
	atomic_fetch_add_u32(&sig.survived, 1, MO_RELEASE);
	os_word_wake(&sig.survived, INT_MAX);
	actions_look();
}

/*
 * Makes this thread the taker and returns true if a signal is due, no thread acts on it, and exit
 * has not begun. Either we see that exit has begun, or exit sees the taker and waits.
 */
static bool
signal_try_take(void) {
	uint32_t none = 0;
	if (atomic_load_u32(&sig.due, MO_ACQUIRE) == 0
	    || !atomic_cas_strong_u32(&sig.taker, &none, mutex_self(), MO_SEQ_CST, MO_RELAXED)) {
		return false;
	}
	if (atomic_load_u32(&sig.exit, MO_SEQ_CST) == EXIT_FAR) {
		return true;
	}
	atomic_store_u32(&sig.taker, 0, MO_SEQ_CST);
	return false;
}

/* Whether the thread came directly from the user's code and no fork is under way. */
static bool
handler_is_safe(const struct tls_s *t) {
	return t->inside == 0 && t->gate_depth == 0 && !gate_is_closed();
}

/* Waits until the signal has been acted on, at most PARK_NS. */
static void
handler_park(uint32_t survived) {
	uint64_t end = nstime_monotonic_ns() + PARK_NS;
	uint64_t now;
	while (atomic_load_u32(&sig.survived, MO_ACQUIRE) == survived
	    && (now = nstime_monotonic_ns()) < end) {
		os_word_wait(&sig.survived, survived, end - now);
	}
}

/* Passes the signal that is due on, if there is one; after the profile of exit, by one thread. */
static void
exit_pass_on(void) {
	int number = (int)atomic_exchange_u32(&sig.due, 0, MO_SEQ_CST);
	if (number != 0) {
		signal_pass_on(number);
	}
}

/*
 * Acts on the noted signal in the handler. The profiler's thread is woken and this thread waits for
 * it; without that thread, or if it has not begun in time, the handler writes the profile itself.
 * If it interrupted the allocator or a fork it does not wait: without the profiler's thread a timer
 * repeats the signal. While exit writes its profile nothing is done, as exit passes the signal on.
 * `due` was stored before `exit` is loaded here, and exit stores its word before it looks for a
 * signal, so one of the two sees the other's word.
 */
static void
handler_act(void) {
	uint32_t survived = atomic_load_u32(&sig.survived, MO_ACQUIRE);
	uint32_t state = atomic_load_u32(&sig.exit, MO_SEQ_CST);
	if (state == EXIT_HAS_WRITTEN) {
		exit_pass_on();
	}
	if (state != EXIT_FAR) {
		return;
	}
	bool has_thread = prof_signal_wake_hook();
	if (!handler_is_safe(tls_get())) {
		int number = (int)atomic_load_u32(&sig.due, MO_RELAXED);
		if (!has_thread && os_signal_later(&sig.timer, number, RETRY_NS) != 0) {
			signal_pass_on(number); /* ending without a profile is better than not ending */
		}
		return;
	}
	if (has_thread || atomic_load_u32(&sig.taker, MO_RELAXED) != 0) {
		handler_park(survived);
	}
	if (atomic_load_u32(&sig.survived, MO_ACQUIRE) == survived && signal_try_take()) {
		signal_act(true);
	}
}

/* Stores the signal as the one that is due, and its time; false if there is one already. */
static bool
signal_try_note(int number) {
	assert(number > 0);
	uint32_t none = 0;
	if (atomic_load_u32(&sig.due, MO_ACQUIRE) != 0) {
		return false;
	}
	atomic_store_u64(&sig.due_ns, nstime_monotonic_ns(), MO_RELAXED);
	return atomic_cas_strong_u32(&sig.due, &none, (uint32_t)number, MO_SEQ_CST, MO_ACQUIRE);
}

/* Whether the signal comes from our timer, that is, repeats the first one. */
static bool
signal_is_again(int number, const siginfo_t *info) {
	return info->si_code == SI_TIMER && atomic_load_u32(&sig.due, MO_ACQUIRE) == (uint32_t)number;
}

/* Whether this is taken for an echo of the signal that is due (ECHO_NS). */
static bool
signal_is_echo(void) {
	uint64_t first = atomic_load_u64(&sig.due_ns, MO_RELAXED);
	return !atomic_load_b(&sig.is_passed, MO_SEQ_CST)
	    && nstime_ns_between(first, nstime_monotonic_ns()) < ECHO_NS;
}

/* The signal has come while its action is changed: action_take() acts on it after the change. */
static void
note_meanwhile(void) {
	uint32_t none = CAME_NOT;
	if (atomic_load_b(&sig.is_passed, MO_SEQ_CST)) {
		atomic_store_u32(&sig.came, CAME_PASSED, MO_SEQ_CST);
	} else {
		atomic_cas_strong_u32(&sig.came, &none, CAME_NEW, MO_SEQ_CST, MO_SEQ_CST);
	}
}

/* Our handler. In a child of vfork, and after the profile of exit, it only passes the signal on. */
static void
on_signal(int number, siginfo_t *info, void *context) {
	(void)context;
	int saved = errno;
	assert(number == SIGTERM || number == SIGHUP || number == SIGINT);
	if (atomic_load_u32(&sig.setting, MO_SEQ_CST) == (uint32_t)number) {
		note_meanwhile();
	} else if (atomic_load_u32(&sig.pid, MO_RELAXED) != (uint32_t)sys_pid()
	    || atomic_load_u32(&sig.exit, MO_RELAXED) == EXIT_HAS_WRITTEN) {
		signal_pass_on(number);
	} else if (signal_try_note(number) || signal_is_again(number, info)) {
		handler_act();
	} else if (!signal_is_echo()) {
		signal_pass_on(number); /* the second one */
	}
	errno = saved;
}

/* ---------------------------------------------------------------- life */

bool
prof_signal_is_due(void) {
	return atomic_load_u32(&sig.due, MO_RELAXED) != 0 || atomic_load_b(&sig.wants_int, MO_RELAXED);
}

/*
 * Installs our handler for each of the signals whose action is the default, SIGINT after SETTLE_NS
 * only; one thread at a time, others return at once.
 */
static void
actions_look(void) {
	if (atomic_exchange_b(&sig.is_looking, true, MO_ACQUIRE)) {
		return;
	}
	bool is_settled = nstime_ns_between(sig.boot_ns, nstime_monotonic_ns()) >= SETTLE_NS;
	for (unsigned i = 0; i < ARRAY_LEN(deadly); i++) {
		if (deadly[i] != SIGINT || is_settled) {
			action_take(deadly[i]);
		}
	}
	atomic_store_b(&sig.wants_int, !is_settled, MO_RELAXED);
	atomic_store_b(&sig.is_looking, false, MO_RELEASE);
}

void
prof_signal_tick(void) {
	if (!opt_prof_final_signals) {
		return;
	}
	assert(tls_get()->gate_depth == 0);
	if (signal_try_take()) {
		signal_act(false);
	}
	actions_look();
}

void
prof_signal_boot(void) {
	if (!opt_prof_final_signals) {
		return;
	}
	atomic_store_u32(&sig.pid, (uint32_t)sys_pid(), MO_RELAXED);
	sig.boot_ns = nstime_monotonic_ns();
	atomic_store_b(&sig.wants_int, true, MO_RELAXED);
	actions_look();
}

/*
 * If this thread is the taker, the program's dump hook or message function calls exit() while the
 * signal's profile is written. Then exit goes on instead of the signal, with the program's status.
 */
void
prof_signal_exit_begin(void) {
	uint32_t taker;
	atomic_store_u32(&sig.exit, EXIT_WRITES, MO_SEQ_CST);
	while ((taker = atomic_load_u32(&sig.taker, MO_SEQ_CST)) != 0) {
		if (taker == mutex_self()) {
			atomic_store_u32(&sig.due, 0, MO_RELAXED);
			break;
		}
		os_word_wait(&sig.survived, atomic_load_u32(&sig.survived, MO_ACQUIRE), 10 * RETRY_NS);
	}
}

void
prof_signal_exit_end(void) {
	assert(atomic_load_u32(&sig.exit, MO_RELAXED) != EXIT_FAR);
	atomic_store_u32(&sig.exit, EXIT_HAS_WRITTEN, MO_SEQ_CST);
	exit_pass_on();
}

/* A signal that arrived at the parent is left to the parent. */
void
prof_signal_postfork_child(void) {
	if (!opt_prof_final_signals) {
		return;
	}
	atomic_store_u32(&sig.pid, (uint32_t)sys_pid(), MO_RELAXED);
	atomic_store_u32(&sig.due, 0, MO_RELAXED);
	if (atomic_load_u32(&sig.taker, MO_RELAXED) != mutex_self()) {
		atomic_store_u32(&sig.taker, 0, MO_RELAXED);
	}
	atomic_store_u32(&sig.exit, EXIT_FAR, MO_RELAXED);
	atomic_store_b(&sig.is_looking, false, MO_RELAXED);
	atomic_store_b(&sig.is_passed, false, MO_RELAXED);
	atomic_store_u32(&sig.setting, 0, MO_RELAXED);
	atomic_store_u32(&sig.came, CAME_NOT, MO_RELAXED);
	sig.timer = 0; /* not inherited */
}
