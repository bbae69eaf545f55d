/*
 * os/gate.h: nobody is inside when the gate has closed; forks of many-threaded programs, from
 * threads, from signal handlers, from fork handlers.
 */
#include "core.h"
#include "ctl.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/time.h>
#include <ucontext.h>

#include "jemalloc_fork.h"
#include "os/gate.h"
#include "thread/shelter.h"
#include "thread/tsd.h"

/* ------------------------------------------------------------------ closing */

static volatile int stop;
static atomic_u32_t n_inside;
static atomic_u32_t bad_inside;
static volatile int is_closed;
static atomic_u32_t n_refused;

/* Goes in and out; must never be in while the gate is closed. */
static void *
thread_in_out(void *arg) {
	/* gcc 12 tests the flags of an addition that the linker relaxes */
	struct tls_s *t = keep(tls_get());
	if (arg != NULL) {
		free(keep(malloc(1))); /* registered */
	}
	while (!stop) {
		if (!gate_try_enter(t)) {
			atomic_fetch_add_u32(&n_refused, 1, MO_RELAXED);
			sched_yield();
			continue;
		}
		atomic_fetch_add_u32(&n_inside, 1, MO_SEQ_CST);
		if (is_closed) {
			atomic_fetch_add_u32(&bad_inside, 1, MO_SEQ_CST);
		}
		gate_try_enter(t); /* nests */
		gate_exit(t);
		atomic_fetch_sub_u32(&n_inside, 1, MO_SEQ_CST);
		gate_exit(t);
	}
	return NULL;
}

static void
test_closing(void) {
	pthread_t t[6];
	unsigned bad = 0;
	for (uintptr_t i = 0; i < 6; i++) {
		pthread_create(&t[i], NULL, thread_in_out, (void *)(i % 3));
	}
	for (unsigned i = 0; i < 300; i++) {
		gate_prefork();
		is_closed = 1;
		bad += atomic_load_u32(&n_inside, MO_SEQ_CST) != 0;
		bad += !gate_try_enter(tls_get()); /* the forking thread itself may */
		gate_exit(tls_get());
		for (unsigned j = 0; j < 20; j++) {
			sched_yield();
		}
		/*
		 * Where others have the processors, that may let none of the threads come; once one must.
		 */
		for (unsigned ms = 0; i == 0 && ms < 120000 && atomic_load_u32(&n_refused, MO_RELAXED) == 0;
		    ms++) {
			usleep(1000);
		}
		is_closed = 0;
		gate_postfork_parent();
	}
	stop = 1;
	for (unsigned i = 0; i < 6; i++) {
		pthread_join(t[i], NULL);
	}
	is_uint(bad, 0, "closed 300 times: nobody but the closing thread is inside");
	is_uint(atomic_load_u32(&bad_inside, MO_SEQ_CST), 0, "nor comes in");
	uint32_t refused = atomic_load_u32(&n_refused, MO_RELAXED);
	ok(refused > 0, "others were refused (%u times)", refused);
	gate_prefork();
	gate_prefork();
	gate_postfork_parent();
	ok(gate_is_closed(), "a fork within a fork's handlers: still closed");
	gate_postfork_parent();
	ok(!gate_is_closed(), "then open");
}

static void *
thread_leave_all(void *arg) {
	struct tls_s *t = tls_get();
	free(keep(malloc(1)));
	gate_enter(t);
	gate_enter(t);
	uint32_t depth = gate_leave_all(t);
	*(volatile int *)arg = 1;
	while (*(volatile int *)arg != 2) {
		usleep(1000);
	}
	gate_reenter(t, depth);
	bool good = depth == 2 && t->gate_depth == 2;
	gate_exit(t);
	gate_exit(t);
	return (void *)(uintptr_t)good;
}

static void
test_leave_all(void) {
	pthread_t t;
	volatile int phase = 0;
	void *ret;
	pthread_create(&t, NULL, thread_leave_all, (void *)(uintptr_t)&phase);
	while (phase != 1) {
		usleep(1000);
	}
	gate_prefork();
	gate_postfork_parent();
	phase = 2;
	pthread_join(t, &ret);
	ok(ret != NULL, "who has left does not hold up a fork, and comes back as deep as before");
}

/* ------------------------------------------------------------------ forks */

static void *
thread_allocate(void *arg) {
	uint64_t seed = (uintptr_t)arg;
	char *p[64] = {NULL};
	uintptr_t bad = 0;
	while (!stop) {
		unsigned k = (unsigned)draw_below(&seed, 64);
		size_t size = 8 + draw_below(&seed, draw_below(&seed, 50) == 0 ? 200000 : 1000);
		bad += p[k] != NULL && p[k][7] != (char)k;
		free(p[k]);
		p[k] = keep(malloc(size));
		p[k][7] = (char)k;
	}
	for (unsigned k = 0; k < 64; k++) {
		free(p[k]);
	}
	return (void *)bad;
}

/* 0 if the child can allocate of every kind, start a thread, and fork in turn. */
static int
child_works(void) {
	pthread_t t;
	for (size_t size = 1; size < 300000; size += size / 2 + 1) {
		char *p = keep(malloc(size));
		if (p == NULL)
			return 2;
		memset(p, 1, size);
		free(p);
	}
	stop = 1;
	if (pthread_create(&t, NULL, thread_allocate, (void *)1) != 0)
		return 3;
	pthread_join(t, NULL);
	return tsd_count() == 1 ? 0 : 4;
}

static bool
has_forked_well(void) {
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		alarm(400);
		_exit(child_works());
	}
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		diag("child: status %#x", (unsigned)status);
		return false;
	}
	return true;
}

static void
test_forks(void) {
	pthread_t t[8];
	unsigned good = 0;
	uintptr_t bad = 0;
	unsigned n_wanted = test_rounds(60, 200);
	stop = 0;
	for (uintptr_t i = 0; i < 8; i++) {
		pthread_create(&t[i], NULL, thread_allocate, (void *)(i + 1));
	}
	while (good < n_wanted && has_forked_well()) {
		good++;
	}
	stop = 1;
	for (unsigned i = 0; i < 8; i++) {
		void *ret;
		pthread_join(t[i], &ret);
		bad += (uintptr_t)ret;
	}
	is_uint(good, n_wanted, "forks under eight threads that allocate; each child works");
	is_uint(bad, 0, "the threads' blocks keep their contents");
}

/*
 * No thread begins or ends while another forks: qemu-user has a lock of its own then, which the
 * child would have for ever (clone_lock, seen in its version 7.2).
 */
static pthread_barrier_t all_three;

static void *
thread_fork(void *arg) {
	uintptr_t good = 0;
	(void)arg;
	pthread_barrier_wait(&all_three);
	while (good < 20 && has_forked_well()) {
		good++;
	}
	pthread_barrier_wait(&all_three);
	return (void *)good;
}

static void
test_forks_at_once(void) {
	pthread_t t[3], busy;
	uintptr_t good = 0;
	stop = 0;
	pthread_barrier_init(&all_three, NULL, 3);
	pthread_create(&busy, NULL, thread_allocate, (void *)5);
	for (unsigned i = 0; i < 3; i++) {
		pthread_create(&t[i], NULL, thread_fork, NULL);
	}
	for (unsigned i = 0; i < 3; i++) {
		void *ret;
		pthread_join(t[i], &ret);
		good += (uintptr_t)ret;
	}
	stop = 1;
	pthread_join(busy, NULL);
	pthread_barrier_destroy(&all_three);
	is_uint(good, 60, "three threads fork at once, twenty times each");
}

/* ------------------------------------------------------------------ in a signal handler */

static volatile unsigned n_forks, n_in_gate, bad_forks;

static void
on_alarm(int sig) {
	int saved = errno, status = -1;
	(void)sig;
	n_in_gate += tls_get()->gate_depth != 0;
	pid_t pid = fork();
	if (pid == 0) {
		_exit(7);
	}
	waitpid(pid, &status, 0);
	bad_forks += wrong_if(!WIFEXITED(status)) || wrong_if(WEXITSTATUS(status) != 7);
	n_forks++;
	errno = saved;
}

/* A single thread allocates past its cache; a timer interrupts it anywhere and forks. */
static void
signal_now(void *arg) {
	struct sigaction sa;
	(void)arg;
	free(keep(malloc(1)));
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = on_alarm;
	sigaction(SIGALRM, &sa, NULL);
	/* On a slow machine fewer; if it never comes to that, the time limit of the child ends it. */
	int64_t end = test_now_ms() + 20000;
	unsigned n_armed = 0;
	for (uint64_t i = 0; n_forks < 300 && (test_now_ms() < end || n_forks < 20 || n_in_gate == 0);
	    i++) {
		if (n_armed == n_forks) {
			/* One shot, so that the loop goes on however long a fork takes. */
			struct itimerval once = {{0, 0}, {0, 100 + n_armed * 7 % 400}};
			n_armed++;
			setitimer(ITIMER_REAL, &once, NULL);
		}
		free(keep(malloc(40000 + (i % 64) * 4096)));
	}
	_exit(bad_forks != 0 ? 2 : n_in_gate == 0 ? 4 : 0);
}

/* ------------------------------------------------------------------ with stdio's locks */

static volatile unsigned n_flushes;

/* A stream's writer allocates, while fflush(NULL) holds the list of all streams. */
static ssize_t
cookie_write(void *cookie, const char *buf, size_t size) {
	(void)cookie;
	(void)buf;
	for (unsigned i = 0; i < 50; i++) {
		free(keep(malloc(20000 + i * 1000)));
	}
	free(keep(malloc(100)));
	free(keep(malloc((size_t)5 << 20)));
	return (ssize_t)size;
}

static void *
thread_flush(void *arg) {
	FILE *f = arg;
	while (!stop) {
		fputs("some text", f);
		fflush(NULL);
		n_flushes++;
		/* The C library's lock is not fair: without a pause the forker would hardly ever get it. */
		usleep(100);
	}
	return NULL;
}

static void
stdio_now(void *arg) {
	cookie_io_functions_t io = {NULL, cookie_write, NULL, NULL};
	FILE *f = fopencookie(NULL, "w", io);
	pthread_t t;
	int status;
	(void)arg;
	stop = 0;
	pthread_create(&t, NULL, thread_flush, f);
	while (n_flushes == 0) {
		usleep(100);
	}
	for (unsigned i = 0; i < test_rounds(60, 200); i++) {
		pid_t pid = fork();
		if (pid == 0) {
			free(keep(malloc(100000)));
			_exit(7);
		}
		waitpid(pid, &status, 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 7)
			_exit(2);
	}
	stop = 1;
	pthread_join(t, NULL);
	_exit(0);
}

/* ------------------------------------------------------------------ in a handler, among threads */

static mutex_t held = MUTEX_INITIALIZER("held", WITNESS_RANK_OMIT);
static atomic_u32_t came;

static void
on_user(int sig) {
	(void)sig;
	on_alarm(0);
}

static void *
thread_wants_lock(void *arg) {
	struct tls_s *t = tls_get();
	gate_enter(t);
	atomic_store_u32(&came, 1, MO_SEQ_CST);
	mutex_lock(&held);
	mutex_unlock(&held);
	gate_exit(t);
	return arg;
}

static void *
thread_forks_now(void *arg) {
	return has_forked_well() ? arg : NULL;
}

/* What the other does makes it wait for this thread, which forks in a handler where it stands. */
static bool
has_forked_inside(void *(*other)(void *), bool (*is_waiting)(void)) {
	struct tls_s *t = tls_get();
	pthread_t thread;
	void *ret = NULL;
	n_forks = bad_forks = 0;
	signal(SIGUSR1, on_user);
	gate_enter(t);
	mutex_lock(&held);
	/*
	 * Inside this thread may not call the C library's malloc; the thread's stack is made by mmap.
	 */
	t->inside++;
	bool is_made = os_hooks_real.pthread_create(&thread, NULL, other, &thread) == 0;
	t->inside--;
	while (is_made && !is_waiting()) {
		usleep(1000);
	}
	raise(SIGUSR1);
	mutex_unlock(&held);
	gate_exit(t);
	pthread_join(thread, &ret);
	return ret != NULL && n_forks == 1 && bad_forks == 0;
}

static bool
is_lock_wanted(void) {
	return (atomic_load_u32(&held.word, MO_SEQ_CST) & MUTEX_WAITERS) != 0;
}

/*
 * musl holds a lock of its own while it runs the handlers of a fork. So a fork that waits for a
 * thread inside, and a fork in a signal handler of that thread, wait for each other there.
 */
#ifdef __GLIBC__
#define FORKS_EXCLUDE false
#else
#define FORKS_EXCLUDE true
#endif

static void
inside_now(void *arg) {
	(void)arg;
	if (!has_forked_inside(thread_wants_lock, is_lock_wanted) || atomic_load_u32(&came,
	    MO_SEQ_CST) != 1) {
		_exit(3);
	}
	_exit(FORKS_EXCLUDE || has_forked_inside(thread_forks_now, gate_is_closed) ? 0 : 4);
}

/* ------------------------------------------------------------------ an ordinary fork waits */

#define HANDLER_FORKS 40

/*
 * Stays inside with a lock until handlers that interrupted it there have forked many times, while
 * another thread inside waits for the lock and one outside wants to fork.
 */
static void *
thread_forks_inside(void *arg) {
	struct tls_s *t = tls_get();
	gate_enter(t);
	mutex_lock(&held);
	atomic_store_u32(&came, 1, MO_SEQ_CST);
	t->inside++;
	while (!is_lock_wanted() || !gate_is_closed()) {
		usleep(1000);
	}
	for (unsigned i = 0; i < HANDLER_FORKS; i++) {
		raise(SIGUSR1);
	}
	t->inside--;
	mutex_unlock(&held);
	gate_exit(t);
	return arg;
}

/* The child of an ordinary fork never finds the lock taken, however others fork meanwhile. */
static void
ordinary_now(void *arg UNUSED) {
	pthread_t forks, wants;
	int status = -1;
	atomic_store_u32(&came, 0, MO_SEQ_CST);
	signal(SIGUSR1, on_user);
	pthread_create(&forks, NULL, thread_forks_inside, NULL);
	while (atomic_load_u32(&came, MO_SEQ_CST) == 0) {
		usleep(1000);
	}
	pthread_create(&wants, NULL, thread_wants_lock, NULL);
	while (!is_lock_wanted()) {
		usleep(1000);
	}
	pid_t pid = fork();
	if (pid == 0) {
		_exit(gate_is_lost() ? 2 : atomic_load_u32(&held.word, MO_SEQ_CST) != 0 ? 3 : 7);
	}
	waitpid(pid, &status, 0);
	pthread_join(forks, NULL);
	pthread_join(wants, NULL);
	diag("%u forks in a handler, %u bad, child: %#x", n_forks, bad_forks, (unsigned)status);
	_exit(n_forks == HANDLER_FORKS && bad_forks == 0 && WIFEXITED(status)
	    && WEXITSTATUS(status) == 7 ? 0 : 1);
}

/* ------------------------------------------------------------------ a fork waits for a thread */

static volatile bool may_leave;

/* Holds stdio's list of streams, leaves the gate and enters it again when fork has closed it. */
static ssize_t
cookie_reenters(void *cookie UNUSED, const char *buf UNUSED, size_t size) {
	struct tls_s *t = tls_get();
	gate_enter(t);
	uint32_t depth = gate_leave_all(t);
	atomic_store_u32(&came, 1, MO_SEQ_CST);
	while (!gate_is_closed()) {
		usleep(1000);
	}
	gate_reenter(t, depth);
	mutex_lock(&held);
	mutex_unlock(&held);
	gate_exit(t);
	/* Who has passed a fork does not wait for it again. */
	for (unsigned i = 0; i < 1000; i++) {
		gate_enter(t);
		gate_exit(t);
	}
	free(keep(malloc(20000)));
	return (ssize_t)size;
}

static void *
thread_flushes_once(void *arg) {
	fputs("some text", arg);
	fflush(NULL);
	return arg;
}

/* fork has closed the gate and waits for the list of streams; its owner comes back to the gate. */
static void
list_now(void *arg UNUSED) {
	cookie_io_functions_t io = {NULL, cookie_reenters, NULL, NULL};
	pthread_t t;
	pthread_create(&t, NULL, thread_flushes_once, fopencookie(NULL, "w", io));
	while (atomic_load_u32(&came, MO_SEQ_CST) == 0) {
		usleep(1000);
	}
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		_exit(gate_is_lost() && keep(malloc(100)) != NULL ? 7 : 1);
	}
	waitpid(pid, &status, 0);
	pthread_join(t, NULL);
	_exit(WIFEXITED(status) && WEXITSTATUS(status) == 7 && !gate_is_closed() && has_forked_well()
	    ? 0 : 1);
}

static void *
thread_passes(void *arg) {
	struct tls_s *t = tls_get();
	gate_enter(t);
	mutex_lock(&held);
	atomic_store_u32(&came, 1, MO_SEQ_CST);
	t->inside++;
	while (!may_leave) {
		usleep(1000);
	}
	t->inside--;
	mutex_unlock(&held);
	gate_exit(t);
	return arg;
}

/* A thread has entered the closed gate, and is inside with a lock when the process is copied. */
static void
passed_now(void *arg UNUSED) {
	pthread_t t;
	int status = -1;
	void *ret = NULL;
	free(keep(malloc(1)));
	gate_prefork();
	/* The thread's stack is made by mmap; see has_forked_inside(). */
	bool is_made = os_hooks_real.pthread_create(&t, NULL, thread_passes, &t) == 0;
	while (is_made && atomic_load_u32(&came, MO_SEQ_CST) == 0) {
		usleep(1000);
	}
	/* The child has the other's lock: before our handler runs there, nobody must want it. */
	is_made = is_made && !gate_try_enter(tls_get());
	pid_t pid = fork();
	if (pid == 0) {
		bool is_lost = gate_is_lost();
		char *p = keep(malloc(100));
		_exit(is_lost && shelter_owns(emap_elem_any(p)) ? 7 : 1);
	}
	waitpid(pid, &status, 0);
	may_leave = true;
	pthread_join(t, &ret);
	gate_postfork_parent();
	diag("child: %#x", (unsigned)status);
	_exit(is_made && WIFEXITED(status) && WEXITSTATUS(status) == 7 && has_forked_well() ? 0 : 1);
}

/* ------------------------------------------------------------------ a lost child */

static char *made_before, message[] = "it can";
static volatile unsigned lost_step;
static int lost_status = -1;

static bool
is_from_shelter(void *p) {
	return p != NULL && shelter_owns(emap_elem_any(p));
}

/* Allocates, resizes and frees, also a block of the parent; 0 if each is from the shelter. */
static int
lost_allocates(void) {
	char *p = keep(malloc(100)), *q = keep(calloc(1, 300000)), *r = keep(aligned_alloc(4096, 64));
	if (!is_from_shelter(p) || !is_from_shelter(q) || !is_from_shelter(r)) {
		return 10;
	}
	p = keep(realloc(p, 5000));
	made_before = keep(realloc(made_before, 5000));
	if (!is_from_shelter(p) || !is_from_shelter(made_before) || made_before[99] != 'm') {
		return 11;
	}
	free(p);
	free(q);
	free(r);
	free(made_before);
	return 0;
}

static void *
thread_lost(void *arg) {
	char *p = keep(malloc(200));
	bool is_ok = is_from_shelter(p);
	free(p);
	return is_ok ? arg : NULL;
}

static int
lost_child(void) {
	pthread_t t;
	void *ret = NULL;
	int status = -1, err = gate_is_lost() ? lost_allocates() : 9;
	if (err != 0) {
		return err;
	}
	if (ctl_void("thread.tcache.flush") != EAGAIN) {
		return 12;
	}
	if (pthread_create(&t, NULL, thread_lost, message) != 0 || pthread_join(t, &ret) != 0
	    || ret == NULL) {
		return 13;
	}
	pid_t pid = fork();
	if (pid == 0) {
		_exit(gate_is_lost() && is_from_shelter(keep(malloc(10))) ? 7 : 1);
	}
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
		return 14;
	}
	/* The call that the handler interrupted goes on, and takes a lock that nobody will release. */
	mutex_lock(&held);
	mutex_unlock(&held);
	gate_exit(tls_get());
	gate_enter(tls_get());
	gate_exit(tls_get());
	execl("/bin/true", "true", NULL);
	return 15;
}

static void
on_lose(int sig) {
	(void)sig;
	pid_t pid = fork();
	if (pid == 0) {
		alarm(400);
		_exit(lost_child());
	}
	waitpid(pid, &lost_status, 0);
}

static void *
thread_holds_lock(void *arg) {
	gate_enter(tls_get());
	mutex_lock(&held);
	lost_step = 1;
	while (lost_step != 2) {
		usleep(1000);
	}
	mutex_unlock(&held);
	gate_exit(tls_get());
	return arg;
}

/* A handler's fork inside the gate, with another thread inside that holds a lock and stays. */
static void
lost_now(void *arg UNUSED) {
	pthread_t t;
	made_before = keep(malloc(100));
	memset(made_before, 'm', 100);
	signal(SIGUSR1, on_lose);
	pthread_create(&t, NULL, thread_holds_lock, NULL);
	while (lost_step != 1) {
		usleep(1000);
	}
	gate_enter(tls_get());
	raise(SIGUSR1);
	gate_exit(tls_get());
	lost_step = 2;
	pthread_join(t, NULL);
	diag("child: %#x", (unsigned)lost_status);
	_exit(lost_status == 0 && !gate_is_closed() && has_forked_well() ? 0 : 1);
}

#if defined(__x86_64__) && !COMPILER_TSAN

#define N_STEPS 100
#define STEPS(bits) \
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\t" bits ", (%%rsp)\n\tpopfq\n\t" \
	    "lea 128(%%rsp), %%rsp" ::: "memory", "cc")

static unsigned steps_left;

static void
on_step(int sig UNUSED, siginfo_t *info UNUSED, void *context) {
	if (--steps_left == 0) {
		tsd_enter();
		tsd_leave();
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)0x100;
	}
}

/* Its first call of the library is interrupted by a handler that wants the thread's data. */
static void *
thread_steps(void *arg) {
	struct tls_s *t = tls_get();
	steps_left = (unsigned)(uintptr_t)arg;
	STEPS("orq $0x100");
	gate_enter(t);
	gate_exit(t);
	STEPS("andq $~0x100");
	bool is_out = t->gate_depth == 0 && (t->gate & GATE_INSIDE) == 0;
	return (void *)(uintptr_t)is_out;
}

static void
steps_now(void *arg UNUSED) {
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	unsigned bad = 0;
	alarm(60);
	sigaction(SIGTRAP, &action, NULL);
	for (uintptr_t i = 1; i <= N_STEPS; i++) {
		pthread_t t;
		void *is_out;
		pthread_create(&t, NULL, thread_steps, (void *)i);
		pthread_join(t, &is_out);
		bad += is_out == NULL;
		gate_prefork();
		gate_postfork_parent();
	}
	_exit(bad != 0);
}

#endif

int
main(void) {
	static struct test_result r;
	free(keep(malloc(1)));
	test_closing();
	test_leave_all();
	test_forks();
	test_forks_at_once();
	ok(!gate_is_closed(), "the gate is open");
	stop = 0;
	run_forked(&r, signal_now, NULL);
	child_exits(&r, 0, "forks from a signal handler that interrupts malloc");
	run_forked(&r, inside_now, NULL);
	child_exits(&r, 0, "a handler's fork where others wait for the interrupted thread comes to an "
	    "end");
	if (FORKS_EXCLUDE) {
		skip(1, "a fork in a handler waits for the C library's lock of another fork");
	} else {
		run_forked(&r, ordinary_now, NULL);
		child_exits(&r, 0, "an ordinary fork waits until nobody is inside, though handlers fork "
		    "there");
	}
	run_forked(&r, list_now, NULL);
	child_exits(&r, 0, "fork waits for a lock of a thread that enters the gate again");
	run_forked(&r, passed_now, NULL);
	child_exits(&r, 0, "a thread that has entered the closed gate is inside at the fork");
	run_forked(&r, lost_now, NULL);
	child_exits(&r, 0, "a handler's fork inside goes ahead; its child allocates, forks and execs");
	run_forked(&r, stdio_now, NULL);
	child_exits(&r, 0, "forks while another thread holds stdio's locks and allocates");
#if defined(__x86_64__) && !COMPILER_TSAN
	run_forked(&r, steps_now, NULL);
	child_exits(&r, 0, "a handler makes the data of a thread about to leave: no mark stays");
#else
	skip(1, "no test of single steps in this build");
#endif
	return done_testing();
}
