/*
 * malloc, realloc and free in a signal handler, thousands of times: POSIX does not promise that,
 * profilers do it. The handler interrupts its thread anywhere in the allocator; it must not hang
 * there, and neither the handler's blocks nor the program's may be touched by the other. What it
 * may not do is to interrupt the few instructions of the fast path and there move the very stack
 * that they work on; so where threads have caches the program's blocks here are none of those that
 * a cache holds. A timer sends the signals as fast as they are handled; a run ends when it has had
 * its number of them, however long that takes.
 */
#include "ctl.h"

#define N_SIGNALS 5000
#define PERIOD_US 100
#define N_HELD 400

static volatile int handled, refused, spoilt;

static unsigned char
mark_of(size_t size, int n) {
	return (unsigned char)(size * 7 + (size_t)n);
}

/* One small block: with a cache of the thread. */
static void
handler_small(int sig) {
	static const size_t sizes[] = {24, 100, 40, 64};
	int n = handled, saved = errno;
	size_t size = sizes[n % 4];
	unsigned char *p = malloc(size);

	(void)sig;
	refused += p == NULL;
	if (p != NULL) {
		memset(p, mark_of(size, n), size);
		spoilt += !is_filled(p, mark_of(size, n), size);
	}
	free(p);
	errno = saved;
	handled = n + 1;
}

/* Two blocks at once, of any size, the one that came first goes first; one in four is resized. */
static void
handler_any(int sig) {
	static const size_t sizes[] = {24, 100, 500, 64, 3000, 24, 16384, 40, 100000};
	int n = handled, saved = errno;
	size_t size = sizes[n % 9], other = sizes[(n + 3) % 9];
	unsigned char *p = malloc(size), *q = malloc(other);

	(void)sig;
	if (p == NULL || q == NULL) {
		refused++;
	} else {
		memset(p, mark_of(size, n), size);
		memset(q, mark_of(other, n + 1), other);
		if (n % 4 == 0) {
			unsigned char *more = realloc(p, size + 200);

			p = more == NULL ? p : more;
		}
		spoilt += wrong_if(!is_filled(p, mark_of(size, n), size))
		    || wrong_if(!is_filled(q, mark_of(other, n + 1), other));
	}
	free(p);
	free(q);
	errno = saved;
	handled = n + 1;
}

static struct {
	unsigned char *p;
	size_t size;
	int mark;
} held[N_HELD];

/*
 * Only where others would write first: this thread is to be interrupted in the allocator, not in
 * memset.
 */
static size_t
marked(size_t size) {
	return size < 32 ? size : 32;
}

static int
put(int i, size_t size, int n) {
	bool is_good = held[i].p == NULL || is_filled(held[i].p, held[i].mark, marked(held[i].size));

	if (n % 5 == 0) {
		unsigned char *p = realloc(held[i].p, size);

		is_good = is_good && p != NULL;
		held[i].p = p;
	} else {
		free(held[i].p);
		held[i].p = n % 3 == 0 ? calloc(1, size) : malloc(size);
		is_good = is_good && (n % 3 != 0 || is_filled(held[i].p, 0, marked(size)));
	}
	held[i].size = size;
	held[i].mark = mark_of(size, n);
	if (held[i].p == NULL)
		abort();
	memset(held[i].p, held[i].mark, marked(size));
	return !is_good;
}

/* Until all signals came. least: the smallest size that this thread asks for. */
static int
storm(void (*handler)(int), size_t least) {
	struct sigaction sa = {.sa_handler = handler, .sa_flags = SA_RESTART};
	struct itimerval on = {{0, PERIOD_US}, {0, PERIOD_US}}, off = {{0, 0}, {0, 0}};
	uint64_t seed = 99;
	int bad = 0;

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &on, NULL);
	for (int n = 0; handled < N_SIGNALS; n++) {
		uint64_t r = test_random(&seed);
		size_t most = r % 50 == 0 ? 200000 : r % 7 == 0 ? 5000 : 300;

		bad += put((int)((r >> 8) % N_HELD), least + (size_t)(r >> 20) % most, n);
		if (n % 1000 == 0)
			bad += mallctl("arena.4096.purge", NULL, NULL, NULL, 0) != 0;
	}
	setitimer(ITIMER_REAL, &off, NULL);
	for (int i = 0; i < N_HELD; i++) {
		bad += held[i].p != NULL && !is_filled(held[i].p, held[i].mark, marked(held[i].size));
		free(held[i].p);
	}
	printf("handled %d refused %d spoilt %d bad %d\n", handled, refused, spoilt, bad);
	return bad != 0 || spoilt != 0 || refused > N_SIGNALS / 100;
}

static int
child_small(void) {
	return storm(handler_small, 33000);
}

static int
child_any(void) {
	return storm(handler_any, 1);
}

static const struct test_child children[] = {
	{"small", child_small},
	{"any", child_any},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static const struct {
		const char *child, *conf;
	} runs[] = {
		{"small", NULL},
		{"small", "prof:true,lg_prof_sample:12"},
		{"any", "tcache:false"},
		{"any", "tcache:false,narenas:1,dirty_decay_ms:0"},
	};
	static struct test_result r;

	test_children(argc, argv, children);
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		run_child_conf(&r, runs[i].child, runs[i].conf);
		child_exits(&r, 0, "%d signals whose handler allocates, %s blocks (%s)", N_SIGNALS,
		    runs[i].child, runs[i].conf == NULL ? "default" : runs[i].conf);
		diag("%.200s", r.out);
	}
	return done_testing();
}
