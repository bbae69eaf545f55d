/*
 * What a profile says against what is true: rounds of known live bytes in mixed sizes, in one
 * thread, in several and in many that each allocate a little, and the cumulative bytes of
 * loops that free at once. Variance and skewness of an estimate follow from the sizes. Rounds
 * go on until so many batches are full, each of a known error and nearly normal, so that a
 * measurement ends with an error of 0.35 % at most: a bias of 3 % is found, and chance alone
 * fails this program less than once in 10 000 runs (some 60 checks, each beyond five standard
 * deviations).
 */
#include "ctl.h"
#include "heap.h"
#include <malloc.h>
#include <pthread.h>

#define BATCHES_MAX 200
#define BATCH_ERROR 0.05
#define BATCH_SKEWNESS 0.06
#define LIMIT 5.0

static char dir[] = "/tmp/jetest.XXXXXX";
static double rate;

struct sums {
	double truth;		/* usable bytes */
	double variance;	/* of the estimate, and its third moment */
	double third;
};

/* n objects of z bytes. */
static struct sums
sums_of(double z, double n) {
	double miss = exp(-z / rate), hit = -expm1(-z / rate);
	struct sums s = { n * z, n * z * z * miss / hit,
	    n * z * z * z * miss * (miss - hit) / (hit * hit) };

	return s;
}

static void
add(struct sums *to, const struct sums *s) {
	to->truth += s->truth;
	to->variance += s->variance;
	to->third += s->third;
}

/* exp() is what takes the time here. */
static void
count(struct sums *s, void *p, size_t alignment) {
	static __thread struct sums small[4096];
	size_t z = counted_aligned(p, alignment);
	struct sums one;

	if (z >= 4096) {
		one = sums_of((double)z, 1);
		add(s, &one);
		return;
	}
	if (small[z].truth == 0)
		small[z] = sums_of((double)z, 1);
	add(s, &small[z]);
}

static struct heap_profile
dump(void) {
	char path[100];
	const char *name = path;
	struct heap_profile h;
	int rc;

	snprintf(path, sizeof(path), "%s/d.heap", dir);
	rc = mallctl("prof.dump", NULL, NULL, &name, sizeof(name));
	if (rc != 0)
		diag("prof.dump: %d", rc);
	h = heap_read(path);
	unlink(path);
	return h;
}

/* -------------------------------------------------------------- judging */

struct batch {
	struct sums s;
	double estimate;
};

struct measurement {
	const char *what;
	int n;			/* full batches */
	int rounds;
	struct batch b[BATCHES_MAX];
	struct batch now;
	bool good;		/* every dump could be read */
};

static struct measurement m;

static bool
begin(const char *what) {
	memset(&m, 0, sizeof(m));
	m.what = what;
	m.good = true;
	return true;
}

static int
n_batches(void) {
	return (int)test_rounds(60, BATCHES_MAX);
}

static bool
wants_more(void) {
	return m.n < n_batches() && m.rounds < 10000;
}

static void
add_round(const struct sums *s, const struct heap_profile *h, double estimate) {
	double dev;

	m.rounds++;
	m.good = m.good && h->good && h->has_maps;
	add(&m.now.s, s);
	m.now.estimate += estimate;
	dev = sqrt(m.now.s.variance);
	if (dev <= BATCH_ERROR * m.now.s.truth
	    && fabs(m.now.s.third) <= BATCH_SKEWNESS * dev * dev * dev) {
		m.b[m.n++] = m.now;
		memset(&m.now, 0, sizeof(m.now));
	}
}

/* A sum of n squares of normal variates, as one such variate (Wilson and Hilferty). */
static double
normal_of_squares(double sum, double n) {
	return (cbrt(sum / n) - (1 - 2 / (9 * n))) / sqrt(2 / (9 * n));
}

static void
judge(void) {
	struct batch all = {{0, 0, 0}, 0};
	double squares = 0, worst = 0, lag = 0, before = 0, sigma;

	for (int i = 0; i < m.n; i++) {
		double d = (m.b[i].estimate - m.b[i].s.truth) / sqrt(m.b[i].s.variance);

		add(&all.s, &m.b[i].s);
		all.estimate += m.b[i].estimate;
		squares += d * d;
		lag += d * before;
		before = d;
		worst = fabs(d) > worst ? fabs(d) : worst;
	}
	sigma = (all.estimate - all.s.truth) / sqrt(all.s.variance);
	ok(m.good && m.n == n_batches(), "%s: all of %d dumps can be read", m.what, m.rounds);
	ok(fabs(sigma) < LIMIT, "%s: off by %+.2f %%, %.2f sigma", m.what,
	    100 * (all.estimate / all.s.truth - 1), sigma);
	ok(fabs(normal_of_squares(squares, m.n)) < LIMIT, "%s: spread %.3f, 1 is right", m.what,
	    sqrt(squares / m.n));
	ok(worst < LIMIT + 1, "%s: the worst of %d batches is off by %.2f sigma", m.what, m.n, worst);
	ok(fabs(lag) < LIMIT * sqrt(m.n), "%s: batches are independent (%.2f)", m.what,
	    lag / sqrt(m.n));
}

/* -------------------------------------------------------------- live bytes */

#define BLOCKS 3000

static size_t
mixed_size(uint64_t *seed, int i) {
	if (i % 500 == 0)
		return 200000 + test_random(seed) % 800000;
	if (i % 20 == 0)
		return 5000 + test_random(seed) % 100000;
	return 1 + test_random(seed) % (i % 3 == 0 ? 4000 : 200);
}

static size_t
small_size(uint64_t *seed, int i) {
	return 8 + test_random(seed) % (i % 2 ? 64 : 500);
}

static size_t
large_size(uint64_t *seed, int i) {
	return 10000 + test_random(seed) % (i % 2 ? 5000 : 40000);
}

/* Blocks that thread caches hold on a grant only: the next round gets many of them from there. */
static size_t
granted_size(uint64_t *seed, int i) {
	return 150000 + test_random(seed) % (i % 2 ? 500000 : 3500000);
}

typedef size_t size_fn(uint64_t *seed, int i);

static int arena_flags, tcache_flags;

/* The alignment of the i-th block that take() makes. */
static size_t
alignment_of(int i) {
	return i % 16 == 3 ? 64 : i % 32 == 5 ? 8192 : 1;
}

/* Every way in. */
static void *
take(size_t size, int i) {
	switch (i % 16) {
	case 1:
	case 9:
		return calloc(1, size);
	case 3:
		return aligned_alloc(64, size);
	case 5:
		return mallocx(size, i % 32 == 5 ? MALLOCX_ALIGN(8192) : MALLOCX_TCACHE_NONE);
	case 7:
		return mallocx(size, tcache_flags);
	case 11:
		return mallocx(size, arena_flags);
	case 13:
		return realloc(malloc(1), size);
	default:
		return malloc(size);
	}
}

static void
live_rounds(const char *what, size_fn *size, int blocks) {
	static void *p[BLOCKS];
	uint64_t seed = 1;

	for (begin(what); wants_more();) {
		struct sums s = {0, 0, 0};
		struct heap_profile h;

		ctl_void("prof.reset");
		for (int i = 0; i < blocks; i++) {
			p[i] = keep(take(size(&seed, i), i));
			count(&s, p[i], alignment_of(i));
		}
		h = dump();
		add_round(&s, &h, h.live_bytes);
		for (int i = 0; i < blocks; i++)
			free(p[i]);
	}
	judge();
}

/* What was freed is gone from the profile, exactly. */
static void
test_freed(void) {
	struct heap_profile h;

	ctl_void("prof.reset");
	for (int i = 0; i < 100000; i++)
		free(keep(malloc(100)));
	h = dump();
	ok(h.good && h.live_bytes == 0, "nothing lives, nothing is shown (%.0f bytes)",
	    h.live_bytes);
}

#define THREADS 4

struct worker {
	pthread_t t;
	size_fn *size;
	int blocks;
	uint64_t seed;
	struct sums s;
	void *p[BLOCKS];
};

static void *
thread(void *arg) {
	struct worker *w = arg;

	for (int i = 0; i < w->blocks; i++) {
		w->p[i] = keep(malloc(w->size(&w->seed, i)));
		count(&w->s, w->p[i], 1);
	}
	return NULL;
}

/* What pthread_create allocates is not counted: at most some KB. */
static void
threads_rounds(const char *what, size_fn *size, int blocks, int generations) {
	static struct worker w[THREADS];
	static void *kept[1 << 16];
	uint64_t seed = 1;

	for (begin(what); wants_more();) {
		struct sums s = {0, 0, 0};
		struct heap_profile h;
		int n = 0;

		ctl_void("prof.reset");
		for (int g = 0; g < generations; g++) {
			for (int i = 0; i < THREADS; i++) {
				w[i].size = size;
				w[i].blocks = blocks;
				w[i].seed = test_random(&seed);
				w[i].s = (struct sums){0, 0, 0};
				pthread_create(&w[i].t, NULL, thread, &w[i]);
			}
			for (int i = 0; i < THREADS; i++) {
				pthread_join(w[i].t, NULL);
				add(&s, &w[i].s);
				memcpy(kept + n, w[i].p, (size_t)blocks * sizeof(*kept));
				n += blocks;
			}
		}
		h = dump();
		add_round(&s, &h, h.live_bytes);
		while (n > 0)
			free(kept[--n]);
	}
	judge();
}

/* -------------------------------------------------------------- cumulative bytes */

static void
cumulative_rounds(const char *what, size_t size) {
	void *p = keep(malloc(size));
	struct sums one = sums_of((double)counted_size(p), 1);
	/* A few rounds fill a batch. */
	int n = (int)(one.variance / (one.truth * one.truth * BATCH_ERROR * BATCH_ERROR)) + 1;

	free(p);
	for (begin(what); wants_more();) {
		struct sums s = sums_of(one.truth, n);
		struct heap_profile h;

		ctl_void("prof.reset");
		for (int i = 0; i < n; i++)
			free(keep(malloc(size)));
		h = dump();
		add_round(&s, &h, h.all_bytes);
	}
	judge();
}

static void
prepare(void) {
	rate = (double)ctl_size("prof.sample_interval");
	if (mkdtemp(dir) == NULL)
		bail_out("mkdtemp");
}

static int
child_live(void) {
	prepare();
	arena_flags = MALLOCX_ARENA((int)ctl_unsigned("arenas.create")) | MALLOCX_TCACHE_NONE;
	tcache_flags = MALLOCX_TCACHE((int)ctl_unsigned("tcache.create"));
	live_rounds("mixed", mixed_size, BLOCKS);
	if (rate < 10000)
		live_rounds("small", small_size, BLOCKS);
	else
		live_rounds("large", large_size, 600);
	test_freed();
	threads_rounds("blocks of threads that are gone", mixed_size, 500, 1);
	rmdir(dir);
	return done_testing();
}

/* Sizes whose countdowns and caches work by grants, 128 KiB to 4 MiB. */
static int
child_granted(void) {
	prepare();
	arena_flags = MALLOCX_ARENA((int)ctl_unsigned("arenas.create")) | MALLOCX_TCACHE_NONE;
	tcache_flags = MALLOCX_TCACHE((int)ctl_unsigned("tcache.create"));
	live_rounds("granted", granted_size, 40);
	threads_rounds("granted, of threads that are gone", granted_size, 20, 1);
	cumulative_rounds("loop of 200000", 200000);
	cumulative_rounds("loop of 1000000", 1000000);
	cumulative_rounds("loop of 3000000", 3000000);
	rmdir(dir);
	return done_testing();
}

/* Each allocates less than makes it worth a cache. */
static int
child_brief(void) {
	prepare();
	threads_rounds("threads with 25 blocks each", small_size, 25, 100);
	rmdir(dir);
	return done_testing();
}

static int
child_cumulative(void) {
	prepare();
	cumulative_rounds("loop of 64", 64);
	cumulative_rounds("loop of 3000", 3000);
	cumulative_rounds("loop of 20000", 20000);
	if (rate > 100000)
		cumulative_rounds("loop of 100000", 100000);
	rmdir(dir);
	return done_testing();
}

static const struct test_child children[] = {
	{"live", child_live},
	{"granted", child_granted},
	{"brief", child_brief},
	{"cumulative", child_cumulative},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	if (!ctl_bool("config.prof"))
		plan_skip_all("no profiler in this build");
	child_runs("live", "prof:true,lg_prof_sample:12");
	child_runs("live", "prof:true,prof_sample_interval:16000");
	child_runs("live", "prof:true,lg_prof_sample:12,tcache:false");
	child_runs("live", "prof:true,prof_sample_interval:16000,tcache:false");
	child_runs("granted", "prof:true,lg_prof_sample:21,prof_accum:true");
	child_runs("granted", "prof:true,lg_prof_sample:21,prof_accum:true,tcache:false");
	child_runs("brief", "prof:true,lg_prof_sample:10");
	child_runs("cumulative", "prof:true,lg_prof_sample:14,prof_accum:true");
	child_runs("cumulative", "prof:true,lg_prof_sample:17,prof_accum:true");
	return done_testing();
}
