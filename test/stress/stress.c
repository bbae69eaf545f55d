/*
 * Everything at once: threads that allocate, resize, align, hand blocks to each other and
 * free them; threads that come and go; forks whose children go on; signals all the time.
 * Every block is filled with a pattern made from its address and size and is looked at
 * before it changes hands or goes.
 *
 *   stress [SECONDS] [THREADS]		default 30 seconds over all configurations, 6 threads
 */
#include "ctl.h"
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#define SLOTS 800
#define MAIL 256

struct block {
	unsigned char *p;
	size_t size;
};

static struct block mail[MAIL];
static pthread_mutex_t mail_lock[MAIL];
static volatile bool stop;
static unsigned errors, forks_done, ops_done, signals_seen;
static int n_threads = 6;

static void
error(const char *what, const void *p, size_t size) {
	if (__atomic_fetch_add(&errors, 1, __ATOMIC_RELAXED) < 10)
		diag("%s: block %p of %zu", what, p, size);
}

/* -------------------------------------------------------------- pattern */

static unsigned char
pattern(const unsigned char *p, size_t size, size_t at) {
	return (unsigned char)(((uintptr_t)p >> 3) * 31 + size + at * 7);
}

/* Small blocks byte by byte, large ones at their ends and on every page. */
static size_t
next(size_t size, size_t at) {
	return size <= 2048 || at < 128 || at + 128 >= size ? at + 1
	    : at + 1021 < size - 128 ? at + 1021 : size - 128;
}

static void
fill(struct block *b) {
	for (size_t i = 0; i < b->size; i = next(b->size, i))
		b->p[i] = pattern(b->p, b->size, i);
}

/* The first len bytes at p are those of a block that was at from with the given size. */
static bool
holds(const unsigned char *p, size_t len, const unsigned char *from, size_t size) {
	for (size_t i = 0; i < len; i = next(size, i)) {
		if (p[i] != pattern(from, size, i))
			return false;
	}
	return true;
}

static void
check(const struct block *b, const char *when) {
	if (!holds(b->p, b->size, b->p, b->size))
		error(when, b->p, b->size);
}

/* -------------------------------------------------------------- operations */

static size_t
any_size(uint64_t *seed) {
	uint64_t r = test_random(seed);

	switch (r % 64) {
	case 0:
		return 1 + (r >> 8) % 3000000;
	case 1:
	case 2:
		return 1 + (r >> 8) % 200000;
	case 3:
	case 4:
	case 5:
		return 1 + (r >> 8) % 20000;
	default:
		return 1 + (r >> 8) % (r % 2 ? 256 : 1500);
	}
}

static void
obtain(struct block *b, uint64_t *seed) {
	size_t align = (size_t)8 << test_random(seed) % 12;
	void *p = NULL;

	b->size = any_size(seed);
	switch (test_random(seed) % 8) {
	case 0:
		b->p = keep(calloc(1, b->size));
		if (b->p != NULL && !is_filled(b->p, 0, b->size))
			error("calloc is not zero", b->p, b->size);
		break;
	case 1:
		if (posix_memalign(&p, align, b->size) != 0 || ((uintptr_t)p & (align - 1)) != 0)
			error("posix_memalign", p, b->size);
		b->p = p;
		break;
	case 2:
		b->p = keep(mallocx(b->size, MALLOCX_ALIGN(align) | MALLOCX_ZERO));
		if (b->p != NULL && ((uintptr_t)b->p & (align - 1)) != 0)
			error("mallocx", b->p, b->size);
		break;
	default:
		b->p = keep(malloc(b->size));
	}
	if (b->p == NULL) {
		error("no memory", NULL, b->size);
		b->size = 0;
		return;
	}
	if (malloc_usable_size(b->p) < b->size)
		error("usable size", b->p, b->size);
	fill(b);
}

static void
release(struct block *b, uint64_t *seed) {
	if (b->p == NULL)
		return;
	check(b, "changed before free");
	if (test_random(seed) % 4 == 0)
		dallocx(b->p, MALLOCX_TCACHE_NONE);
	else
		free(b->p);
	b->p = NULL;
}

static void
resize(struct block *b, uint64_t *seed) {
	struct block old = *b;
	size_t least;

	if (b->p == NULL)
		return;
	check(b, "changed before realloc");
	b->size = test_random(seed) % 2 ? any_size(seed) : old.size + old.size / 8 + 1;
	b->p = keep(realloc(old.p, b->size));
	if (b->p == NULL) {
		error("realloc", old.p, b->size);
		*b = old;
		return;
	}
	least = old.size < b->size ? old.size : b->size;
	if (!holds(b->p, least > 128 ? least - 128 : least, old.p, old.size))
		error("realloc lost contents", b->p, b->size);
	fill(b);
}

/* Puts its block into a box and takes what lay there. */
static void
exchange(struct block *b, uint64_t *seed) {
	size_t at = test_random(seed) % MAIL;
	struct block mine = *b;

	pthread_mutex_lock(&mail_lock[at]);
	*b = mail[at];
	mail[at] = mine;
	pthread_mutex_unlock(&mail_lock[at]);
	if (b->p != NULL)
		check(b, "changed in the box");
}

static void
steps(struct block *slots, size_t n, uint64_t *seed) {
	for (int i = 0; i < 1000; i++) {
		struct block *b = &slots[test_random(seed) % n];
		uint64_t what = test_random(seed) % 16;

		if (b->p == NULL)
			obtain(b, seed);
		else if (what < 9)
			release(b, seed);
		else if (what < 12)
			resize(b, seed);
		else
			exchange(b, seed);
	}
	__atomic_fetch_add(&ops_done, 1000, __ATOMIC_RELAXED);
}

static void
release_all(struct block *slots, size_t n, uint64_t *seed) {
	for (size_t i = 0; i < n; i++)
		release(&slots[i], seed);
}

/* -------------------------------------------------------------- threads */

static void *
worker(void *arg) {
	static __thread struct block slots[SLOTS];
	uint64_t seed = (uint64_t)(uintptr_t)arg * 977;

	while (!stop) {
		steps(slots, SLOTS, &seed);
		if (test_random(&seed) % 64 == 0)
			mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
		if (test_random(&seed) % 256 == 0)
			mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
		if (test_random(&seed) % 256 == 0)
			ctl_epoch();
	}
	release_all(slots, SLOTS, &seed);
	return NULL;
}

static void *
short_worker(void *arg) {
	struct block slots[20] = {{NULL, 0}};
	uint64_t seed = (uint64_t)(uintptr_t)arg * 1013 + 5;

	steps(slots, 20, &seed);
	release_all(slots, 20, &seed);
	return NULL;
}

static void *
spawner(void *arg) {
	uintptr_t n = (uintptr_t)arg;

	while (!stop) {
		pthread_t t[3];
		int started = 0;

		for (int i = 0; i < 3; i++)
			started += pthread_create(&t[started], NULL, short_worker, (void *)n++) == 0;
		for (int i = 0; i < started; i++)
			pthread_join(t[i], NULL);
	}
	return NULL;
}

static void
child_work(struct block *slots, uint64_t *seed) {
	pthread_t t;

	alarm(400);
	errors = 0;
	for (int i = 0; i < SLOTS; i++) {
		if (slots[i].p != NULL)
			check(&slots[i], "changed by fork");
	}
	for (int i = 0; i < 3; i++) {
		struct block own[50] = {{NULL, 0}};

		for (int j = 0; j < 50; j++)
			obtain(&own[j], seed);
		release_all(own, 50, seed);
	}
	release_all(slots, SLOTS, seed);
	if (pthread_create(&t, NULL, spawner, (void *)7) == 0) {
		usleep(2000);
		stop = true;
		pthread_join(t, NULL);
	}
	_exit(errors != 0);
}

/* The boxes may be locked at the moment of the fork: the child starts with free ones. */
static void
boxes_of_child(void) {
	for (int i = 0; i < MAIL; i++) {
		pthread_mutex_init(&mail_lock[i], NULL);
		mail[i].p = NULL;
	}
}

static void *
forker(void *arg) {
	static struct block slots[SLOTS];
	uint64_t seed = (uint64_t)(uintptr_t)arg;

	while (!stop) {
		int status = -1;
		pid_t pid;

		steps(slots, SLOTS, &seed);
		pid = fork();
		if (pid == 0) {
			boxes_of_child();
			child_work(slots, &seed);
		}
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			continue;
		if (status != 0) {
			diag("child: status %#x", (unsigned)status);
			__atomic_fetch_add(&errors, 1, __ATOMIC_RELAXED);
		}
		__atomic_fetch_add(&forks_done, 1, __ATOMIC_RELAXED);
	}
	release_all(slots, SLOTS, &seed);
	return NULL;
}

static void
on_signal(int sig) {
	(void)sig;
	signals_seen++;
}

static void
signals_on(void) {
	struct sigaction a;
	struct itimerval every = {{0, 1000}, {0, 1000}};

	memset(&a, 0, sizeof(a));
	a.sa_handler = on_signal;
	a.sa_flags = SA_RESTART;
	sigaction(SIGPROF, &a, NULL);
	setitimer(ITIMER_PROF, &every, NULL);
}

static int
child_run(void) {
	int seconds = atoi(getenv("STRESS_SECONDS"));
	pthread_t t[64], s, f;
	uint64_t seed = 1;
	size_t before, after;

	n_threads = atoi(getenv("STRESS_THREADS"));
	for (int i = 0; i < MAIL; i++)
		pthread_mutex_init(&mail_lock[i], NULL);
	ctl_void("thread.tcache.flush");
	ctl_epoch();
	before = ctl_size("stats.allocated");
	signals_on();
	for (int i = 0; i < n_threads; i++)
		pthread_create(&t[i], NULL, worker, (void *)(uintptr_t)(i + 1));
	pthread_create(&s, NULL, spawner, (void *)1000);
	pthread_create(&f, NULL, forker, (void *)77);
	for (int64_t end = test_now_ms() + seconds * 1000; test_now_ms() < end;)
		usleep(20000);
	stop = true;
	for (int i = 0; i < n_threads; i++)
		pthread_join(t[i], NULL);
	pthread_join(s, NULL);
	pthread_join(f, NULL);
	release_all(mail, MAIL, &seed);
	ctl_void("thread.tcache.flush");
	ctl_epoch();
	after = ctl_size("stats.allocated");
	is_uint(errors, 0, "every block was whole");
	ok(ops_done > 0 && forks_done > 0, "%u thousand operations, %u forks, %u signals",
	    ops_done / 1000, forks_done, signals_seen);
	if (ctl_bool("config.stats"))
		ok(after <= before + 100000, "what is left: %zu bytes (before %zu)", after, before);
	return done_testing();
}

static const struct test_child children[] = {
	{"run", child_run},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static const char *const confs[] = { "abort_conf:false", "prof:true,lg_prof_sample:12",
	    "narenas:1,dirty_decay_ms:0,muzzy_decay_ms:0", "tcache:false,prof:true,lg_prof_sample:16",
	    "tcache_max:1024,narenas:2,zero:true" };
	static struct test_result r;
	int n = sizeof(confs) / sizeof(confs[0]);
	int seconds;
	char s[32], t[32];

	test_children(argc, argv, children);
	seconds = argc > 1 ? atoi(argv[1]) : 30;
	snprintf(s, sizeof(s), "%d", (seconds + n - 1) / n);
	snprintf(t, sizeof(t), "%s", argc > 2 ? argv[2] : "6");
	setenv("STRESS_SECONDS", s, 1);
	setenv("STRESS_THREADS", t, 1);
	test_state.timeout_s = seconds + 500;
	for (int i = 0; i < n; i++) {
		run_child_conf(&r, "run", confs[i]);
		if (child_exits(&r, 0, "%s", confs[i]))
			diag("%s", r.out);
	}
	return done_testing();
}
