/*
 * A pool of threads that ends in a process which allocates nothing more: little of its memory
 * stays, whatever arenas the threads had and however they ended. The resident memory after the end
 * decides, not how long anything took.
 */
#include "ctl.h"

#include <pthread.h>

#define NTHREADS 32
#define EACH ((size_t)6 << 20)
#define PARTS (EACH / 1000)
/* The bound of 16 MiB, and what the process and the library need themselves. */
#define MOST (((size_t)16 << 20) + ((size_t)20 << 20))

static struct {
	pthread_barrier_t all;
	bool is_alone;     /* there is one thread; otherwise all begin together */
	bool waits;        /* for the other threads, while they have their memory */
	bool frees_last;   /* the last thread frees that of all */
	bool one_by_one;   /* they end some time apart */
	bool has_arena;    /* each has an arena of its own, and a cache made by hand */
	void **parts[NTHREADS];
	int nended;
} pool;

static void
fill(int k) {
	pool.parts[k] = malloc(PARTS * sizeof(void *));
	for (size_t i = 0; i < PARTS; i++) {
		pool.parts[k][i] = malloc(500 + i % 1000);
		memset(pool.parts[k][i], 1, 500 + i % 1000);
	}
}

static void
empty(int k) {
	for (size_t i = 0; i < PARTS; i++)
		free(pool.parts[k][i]);
	free(pool.parts[k]);
}

/* Binds the thread to an arena of its own; some blocks stay in a cache made by hand. */
static void
take_own_arena(void) {
	unsigned ind = 0, cache = 0;
	size_t len = sizeof(ind);

	mallctl("arenas.create", &ind, &len, NULL, 0);
	ctl_write("thread.arena", ind);
	len = sizeof(cache);
	mallctl("tcache.create", &cache, &len, NULL, 0);
	for (int i = 0; i < 10; i++)
		dallocx(mallocx(1000, MALLOCX_TCACHE(cache)), MALLOCX_TCACHE(cache));
}

static void *
worker(void *arg) {
	int k = (int)(intptr_t)arg;

	if (!pool.is_alone)
		pthread_barrier_wait(&pool.all);
	if (pool.has_arena)
		take_own_arena();
	fill(k);
	if (pool.waits)
		pthread_barrier_wait(&pool.all);
	if (!pool.frees_last)
		empty(k);
	else if (k == 0) {
		while (__atomic_load_n(&pool.nended, __ATOMIC_SEQ_CST) < NTHREADS - 1)
			usleep(1000);
		for (int i = 0; i < NTHREADS; i++)
			empty(i);
	}
	if (pool.one_by_one)
		usleep((useconds_t)k * 2000);
	__atomic_fetch_add(&pool.nended, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static int
nthreads_now(void) {
	char text[4096];
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC), field = 2;
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	char *at = strrchr(text, ')') + 2;
	for (char *word = strtok(at, " "); word != NULL; word = strtok(NULL, " ")) {
		if (++field == 20)
			return atoi(word);
	}
	return 0;
}

static void
run_pool(bool is_detached) {
	pthread_t t[NTHREADS];
	pthread_attr_t attr;

	pthread_barrier_init(&pool.all, NULL, NTHREADS);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, is_detached ? PTHREAD_CREATE_DETACHED
	    : PTHREAD_CREATE_JOINABLE);
	for (int i = 0; i < NTHREADS; i++)
		pthread_create(&t[i], &attr, worker, (void *)(intptr_t)i);
	for (int i = 0; i < NTHREADS && !is_detached; i++)
		pthread_join(t[i], NULL);
	while (nthreads_now() > 1 && is_detached)
		usleep(1000);
}

/* Resident memory, also after the first thread has ended. */
static size_t
resident(void) {
	char text[128];
	int fd = open("/proc/thread-self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0 ? strtoull(strchr(text, ' '), NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : SIZE_MAX;
}

/* Resident memory, less what the process had before. */
static int
tell(size_t before) {
	size_t now = resident();

	ok(now <= before + MOST, "%zd of %zu MiB stay", ((ssize_t)now - (ssize_t)before) >> 20,
	    NTHREADS * EACH >> 20);
	return done_testing();
}

static int
ends(bool is_detached) {
	size_t before = resident();

	run_pool(is_detached);
	return tell(before);
}

static int
child_plain(void) {
	return ends(false);
}

static int
child_detached(void) {
	return ends(true);
}

static int
child_together(void) {
	pool.waits = true;
	return ends(false);
}

static int
child_one_by_one(void) {
	pool.waits = true;
	pool.one_by_one = true;
	return ends(false);
}

static int
child_freed_by_last(void) {
	pool.waits = true;
	pool.frees_last = true;
	return ends(false);
}

static int
child_own_arenas(void) {
	pool.waits = true;
	pool.has_arena = true;
	return ends(false);
}

/* The first thread ends by itself; one that only sleeps is left. */
static void *
sleeper(void *arg) {
	while (__atomic_load_n(&pool.nended, __ATOMIC_SEQ_CST) < NTHREADS || nthreads_now() > 2)
		usleep(1000);
	_exit(tell(*(size_t *)arg));
}

static int
child_main_ends(void) {
	static size_t before;
	static pthread_t t[NTHREADS + 1];

	before = resident();
	pthread_barrier_init(&pool.all, NULL, NTHREADS);
	pool.waits = true;
	pthread_create(&t[NTHREADS], NULL, sleeper, &before);
	for (int i = 0; i < NTHREADS; i++)
		pthread_create(&t[i], NULL, worker, (void *)(intptr_t)i);
	pthread_exit(NULL);
}

/* Where unused pages never go, nothing goes. */
static int
child_never(void) {
	size_t before = resident();

	pool.waits = true;
	run_pool(false);
	size_t now = resident();
	ok(now - before >= NTHREADS * EACH * 8 / 10, "%zu MiB stay", (now - before) >> 20);
	return done_testing();
}

/* Threads that come and go find the pages of those before: the pages are touched once. */
static int
child_generations(void) {
	struct rusage first, last;

	pool.is_alone = true;

	for (int round = 0; round < 10; round++) {
		pthread_t t;

		pthread_create(&t, NULL, worker, NULL);
		pthread_join(t, NULL);
		getrusage(RUSAGE_SELF, round == 0 ? &first : &last);
	}
	ok(last.ru_minflt - first.ru_minflt < 1000, "%ld page faults in nine more rounds",
	    last.ru_minflt - first.ru_minflt);
	return done_testing();
}

static const struct test_child children[] = {
	{"plain", child_plain},
	{"detached", child_detached},
	{"together", child_together},
	{"one_by_one", child_one_by_one},
	{"freed_by_last", child_freed_by_last},
	{"own_arenas", child_own_arenas},
	{"main_ends", child_main_ends},
	{"never", child_never},
	{"generations", child_generations},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	static const char *const confs[] = {"narenas:64", "narenas:8", "narenas:1",
	    "percpu_arena:percpu", "narenas:64,dirty_decay_ms:0", "narenas:64,muzzy_decay_ms:10000",
	    "narenas:64,background_thread:true"};
	for (size_t i = 0; i < sizeof(confs) / sizeof(confs[0]); i++) {
		child_runs("plain", confs[i]);
		if (i % 3 != 0 && !test_is_full())
			continue;
		if (strstr(confs[i], "background") == NULL)
			child_runs("detached", confs[i]);
		child_runs("together", confs[i]);
		child_runs("one_by_one", confs[i]);
		child_runs("freed_by_last", confs[i]);
	}
	child_runs("own_arenas", NULL);
	child_runs("main_ends", "narenas:64");
	child_runs("main_ends", "narenas:1");
	child_runs("never", "narenas:64,dirty_decay_ms:-1");
	child_runs("generations", "narenas:8");
	return done_testing();
}
