/*
 * Forks from signal handlers beside ordinary forks: two threads fork in a loop, four allocate, and
 * a handler forks in two of these again and again, wherever it finds them. All of it comes to its
 * end, the children too: those of ordinary forks can do everything, those of handlers allocate,
 * exec another program, or go on with the call that the handler interrupted. FORK_RUNS: how many
 * times (scripts/check-long: 1000).
 */
#include "ctl.h"
#include <pthread.h>

#ifdef __GLIBC__

#define NFORKERS 2
#define NALLOCATORS 4
#define NHANDLED 2 /* of these */
#define NFORKS 20
#define NLIVE 64
/* Far beyond what they take: only a child that hangs is ended by it. */
#define CHILD_SECONDS 200

static pthread_barrier_t begun, over;
static unsigned ndone, nhandled, nbad;
static volatile bool is_child; /* goes on with the call that a handler interrupted */

/* Allocates past the caches too, so that it comes to the gate; adds up what is wrong. */
static unsigned
allocate(char **live, uint64_t *seed) {
	size_t at = (size_t)(test_random(seed) % NLIVE);
	size_t size = at % 8 == 0 ? 40000 + at * 4096 : (size_t)16 << at % 11;
	unsigned bad = wrong_if(live[at] != NULL && live[at][0] != 'y');

	if (live[at] != NULL)
		live[at][0] = 'x';
	free(live[at]);
	live[at] = keep(malloc(size));
	if (live[at] == NULL)
		return bad + 1;
	bad += wrong_if(live[at][0] == 'y' && live[at][size - 1] == 'z');
	live[at][0] = 'y';
	live[at][size - 1] = 'z';
	return bad;
}

static unsigned
allocate_many(unsigned n) {
	char *live[NLIVE] = {NULL};
	uint64_t seed = n;
	unsigned bad = 0;

	for (unsigned i = 0; i < n; i++)
		bad += allocate(live, &seed);
	for (unsigned i = 0; i < NLIVE; i++) {
		if (live[i] != NULL)
			live[i][0] = 'x';
		free(live[i]);
	}
	return bad;
}

static void *
thread_of_child(void *arg) {
	*(unsigned *)arg = allocate_many(200);
	return arg;
}

/* The child of an ordinary fork: nothing is amiss in it. */
static void
ordinary_child(void) {
	pthread_t t;
	unsigned bad = allocate_many(300), of_thread = 1;

	ctl_epoch();
	bad += wrong_if(ctl_void("thread.tcache.flush") != 0)
	    || wrong_if(ctl_size("stats.active") + 1 == 0);
	if (pthread_create(&t, NULL, thread_of_child, &of_thread) == 0)
		pthread_join(t, NULL);
	_exit(bad + of_thread == 0 ? 7 : 1);
}

static void
count_text(void *count, const char *text) {
	++*(unsigned *)count;
	(void)text;
}

/* Ends, but for each fourth child, which goes back into the interrupted call. */
static void
handler_child(unsigned n) {
	size_t len = 0;
	unsigned ntexts = 0;
	bool is_lost;

	switch (n % 4) {
	case 0:
		_exit(7);
	case 1:
		_exit(allocate_many(200) == 0 ? 7 : 1);
	case 2:
		/* EAGAIN in a lost child; it does not wait. */
		is_lost = mallctl("stats.allocated", NULL, &len, NULL, 0) == EAGAIN;
		malloc_stats_print(count_text, &ntexts, "bl");
		if (wrong_if(is_lost ? ntexts != 0 : ntexts == 0))
			_exit(1);
		free(keep(malloc(100)));
		execl("/bin/sh", "sh", "-c", "exit 7", NULL);
		_exit(1);
	default:
		is_child = true;
	}
}

static void
wait_for(pid_t pid) {
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 7) {
		test_say("child: status %#x\n", (unsigned)status);
		__atomic_fetch_add(&nbad, 1, __ATOMIC_RELAXED);
	}
}

static void
on_signal(int sig) {
	int saved = errno;
	unsigned n = __atomic_fetch_add(&nhandled, 1, __ATOMIC_RELAXED);
	pid_t pid;

	(void)sig;
	if (is_child || __atomic_load_n(&ndone, __ATOMIC_SEQ_CST) == NFORKERS)
		return;
	pid = fork();
	if (pid == 0) {
		alarm(CHILD_SECONDS);
		handler_child(n);
	} else {
		wait_for(pid);
	}
	errno = saved;
}

static void *
forker(void *arg) {
	pthread_barrier_wait(&begun);
	for (int i = 0; i < NFORKS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(CHILD_SECONDS);
			ordinary_child();
		}
		wait_for(pid);
	}
	__atomic_fetch_add(&ndone, 1, __ATOMIC_SEQ_CST);
	pthread_barrier_wait(&over);
	return arg;
}

static void *
allocator(void *arg) {
	uint64_t seed = (uintptr_t)arg;
	char *live[NLIVE] = {NULL};
	unsigned bad = 0;

	pthread_barrier_wait(&begun);
	while (!is_child && __atomic_load_n(&ndone, __ATOMIC_SEQ_CST) < NFORKERS)
		bad += allocate(live, &seed);
	if (is_child)
		_exit(bad + allocate_many(200) == 0 ? 7 : 1);
	__atomic_fetch_add(&nbad, bad, __ATOMIC_RELAXED);
	pthread_barrier_wait(&over);
	for (int i = 0; i < NLIVE; i++)
		free(live[i]);
	return NULL;
}

static int
child_storm(void) {
	pthread_t f[NFORKERS], a[NALLOCATORS];
	struct sigaction sa;

	alarm(CHILD_SECONDS + 100);
	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = on_signal;
	sa.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &sa, NULL);
	pthread_barrier_init(&begun, NULL, NFORKERS + NALLOCATORS + 1);
	pthread_barrier_init(&over, NULL, NFORKERS + NALLOCATORS + 1);
	for (uintptr_t i = 0; i < NALLOCATORS; i++)
		pthread_create(&a[i], NULL, allocator, (void *)(i + 1));
	for (int i = 0; i < NFORKERS; i++)
		pthread_create(&f[i], NULL, forker, NULL);
	pthread_barrier_wait(&begun);
	while (__atomic_load_n(&ndone, __ATOMIC_SEQ_CST) < NFORKERS) {
		for (int i = 0; i < NHANDLED; i++)
			pthread_kill(a[i], SIGUSR1);
		usleep(5000);
	}
	pthread_barrier_wait(&over);
	for (int i = 0; i < NALLOCATORS; i++)
		pthread_join(a[i], NULL);
	for (int i = 0; i < NFORKERS; i++)
		pthread_join(f[i], NULL);
	test_say("%u handlers, %u bad\n", nhandled, nbad);
	return nbad != 0 ? 2 : nhandled == 0 ? 3 : 0;
}

static const struct test_child children[] = {
	{"storm", child_storm},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static struct test_result r;
	const char *runs = getenv("FORK_RUNS");
	int n = runs != NULL ? atoi(runs) : 3;

	test_children(argc, argv, children);
	for (int round = 0; round < n; round++) {
		run_child_conf(&r, "storm", round % 4 == 3 ? "prof:true,lg_prof_sample:14" : "");
		child_exits(&r, 0, "forks from handlers beside other forks: all end, and their children");
		diag("%s", r.out);
	}
	return done_testing();
}

#else

int
main(void) {
	plan_skip_all("this C library holds a lock of its own while the handlers of a fork run");
	return 0;
}

#endif
