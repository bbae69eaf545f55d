/*
 * Forks from signal handlers beside forks of other threads: two threads fork in a loop, four
 * allocate, and a handler forks in two of these each 5 ms, wherever it finds them. All of it comes
 * to its end, and no fork waits until its patience is over, which is counted in the pauses that the
 * allocator makes.
 */
#include "test.h"
#include <pthread.h>
#include <sys/syscall.h>

#ifdef __GLIBC__

#define NFORKERS 2
#define NALLOCATORS 4
#define NHANDLED 2 /* of these */
#define NFORKS 20
/* A fork whose patience has ended made this many pauses at least. */
#define PAUSES_OF_IMPATIENCE 9900

static pthread_barrier_t begun, over;
static unsigned ndone, nhandled, nbad, nstalled;
static __thread unsigned pauses;

/* The allocator's pauses come here, as the program's definition goes before the C library's. */
int
nanosleep(const struct timespec *ts, struct timespec *rest) {
	pauses++;
	return (int)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, ts, rest);
}

static void
fork_once(void) {
	unsigned before = pauses;
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(7);
	if (pauses - before > PAUSES_OF_IMPATIENCE)
		__atomic_fetch_add(&nstalled, 1, __ATOMIC_RELAXED);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
		__atomic_fetch_add(&nbad, 1, __ATOMIC_RELAXED);
}

static void
on_signal(int sig) {
	int saved = errno;

	(void)sig;
	fork_once();
	__atomic_fetch_add(&nhandled, 1, __ATOMIC_RELAXED);
	errno = saved;
}

static void *
forker(void *arg) {
	pthread_barrier_wait(&begun);
	for (int i = 0; i < NFORKS; i++)
		fork_once();
	__atomic_fetch_add(&ndone, 1, __ATOMIC_SEQ_CST);
	pthread_barrier_wait(&over);
	return arg;
}

/* Past the caches, so that each request comes to the gate. */
static void *
allocator(void *arg) {
	uint64_t seed = (uintptr_t)arg;
	char *live[64] = {NULL};

	pthread_barrier_wait(&begun);
	while (__atomic_load_n(&ndone, __ATOMIC_SEQ_CST) < NFORKERS) {
		size_t at = (size_t)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 58);
		size_t size = at % 8 == 0 ? 40000 + at * 4096 : (size_t)16 << at % 11;

		free(live[at]);
		live[at] = keep(malloc(size));
		if (live[at] == NULL || live[at][0] == 'x')
			__atomic_fetch_add(&nbad, 1, __ATOMIC_RELAXED);
		live[at][0] = live[at][size - 1] = 'y';
	}
	pthread_barrier_wait(&over);
	for (int i = 0; i < 64; i++)
		free(live[i]);
	return NULL;
}

static int
child_storm(void) {
	pthread_t f[NFORKERS], a[NALLOCATORS];
	struct sigaction sa;

	alarm(100);
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
	test_say("%u forks in handlers, %u bad, %u stalled\n", nhandled, nbad, nstalled);
	return nbad != 0 ? 2 : nhandled == 0 ? 3 : nstalled != 0 ? 4 : 0;
}

static const struct test_child children[] = {
	{"storm", child_storm},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static struct test_result r;

	test_children(argc, argv, children);
	for (int round = 0; round < 3; round++) {
		run_child_conf(&r, "storm", "");
		child_exits(&r, 0, "forks from handlers beside other forks: all end, and none is held up");
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
