/*
 * What the caches of the parent's other threads hold is of use in a forked child: objects of slabs
 * and large ones, the room that caches were granted, spares of samples, the quarantine. In four
 * generations, each of which has such threads, nothing adds up; statistics are true.
 */
#include "ctl.h"
#include <pthread.h>

#define NTHREADS 12
#define NOBJECTS 48
#define GENERATIONS 4

static pthread_barrier_t filled, over;
static size_t first_cached;

static const size_t sizes[] = {24, 200, 1000, 4096, 14336, 20000, 100000, 700000};
#define NSIZES (sizeof(sizes) / sizeof(sizes[0]))

/* All and nothing again and again, so that caches are granted slots. */
static void
swing(void) {
	static __thread char *p[NOBJECTS];

	for (unsigned s = 0; s < NSIZES; s++) {
		unsigned n = sizes[s] > 100000 ? 6 : NOBJECTS;

		for (unsigned round = 0; round < 12; round++) {
			for (unsigned i = 0; i < n; i++) {
				p[i] = keep(malloc(sizes[s]));
				memset(p[i], 'a', sizes[s]);
			}
			for (unsigned i = 0; i < n; i++)
				free(p[i]);
		}
	}
}

static void *
fill_cache(void *arg) {
	swing();
	pthread_barrier_wait(&filled);
	pthread_barrier_wait(&over);
	return arg;
}

/* Bytes that the process has allocated, and those of them in caches; this thread's is empty. */
static void
look(size_t *allocated, size_t *cached) {
	ctl_void("thread.tcache.flush");
	ctl_epoch();
	*allocated = ctl_size("stats.allocated");
	*cached = ctl_size("stats.arenas.4096.tcache_bytes");
}

/*
 * A generation: threads fill their caches, and a child looks at what it has and begins the next.
 * at_start: bytes allocated before. The exit status says what is wrong.
 */
static int
generation(unsigned left, size_t at_start) {
	pthread_t t[NTHREADS];
	size_t allocated, cached;
	int status = -1;

	pthread_barrier_init(&filled, NULL, NTHREADS + 1);
	pthread_barrier_init(&over, NULL, NTHREADS + 1);
	for (unsigned i = 0; i < NTHREADS; i++) {
		if (pthread_create(&t[i], NULL, fill_cache, NULL) != 0)
			return 2;
	}
	pthread_barrier_wait(&filled);
	look(&allocated, &cached);
	diag("%u left: %zu KiB allocated, %zu KiB in caches", left, allocated >> 10, cached >> 10);
	/* The budget of slots is that of the first generation. */
	first_cached = first_cached == 0 ? cached : first_cached;
	if (cached < (size_t)1 << 20 || cached < first_cached / 2)
		return 3;
	/* Those builds also keep freed large blocks of all threads without access for a while. */
	size_t most = ctl_bool("config.opt_safety_checks") ? allocated - cached : at_start;
	pid_t pid = fork();
	if (pid == 0) {
		alarm(300);
		look(&allocated, &cached);
		diag("child: %zu KiB allocated, %zu KiB in caches, %u threads", allocated >> 10,
		    cached >> 10, ctl_unsigned("stats.arenas.4096.nthreads"));
		/* The C library has the data of its threads for ever. */
		if (cached != 0 || allocated > most + 16384 * (GENERATIONS - left + 1))
			_exit(4);
		if (ctl_unsigned("stats.arenas.4096.nthreads") != 1)
			_exit(5);
		_exit(left == 0 ? 0 : generation(left - 1, at_start));
	}
	waitpid(pid, &status, 0);
	pthread_barrier_wait(&over);
	for (unsigned i = 0; i < NTHREADS; i++)
		pthread_join(t[i], NULL);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 6;
}

static int
child_generations(void) {
	size_t allocated, cached;

	swing();
	look(&allocated, &cached);
	return generation(GENERATIONS - 1, allocated);
}

static const struct test_child children[] = {
	{"generations", child_generations},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	child_runs("generations", "");
	child_runs("generations", "narenas:2");
	child_runs("generations", "tcache_max:1048576,dirty_decay_ms:-1");
	child_runs("generations", "percpu_arena:percpu");
	child_runs("generations", "hpa:true");
	if (ctl_bool("config.prof"))
		child_runs("generations", "prof:true,lg_prof_sample:18");
	if (ctl_bool("config.uaf_detection"))
		child_runs("generations", "lg_san_uaf_align:6");
	return done_testing();
}
