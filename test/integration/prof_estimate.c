/*
 * What a profile says against what is true: 100 rounds of known live bytes in mixed sizes,
 * in one thread and in several, and the cumulative bytes of loops that free at once. The
 * standard deviation of each estimate is known from the sizes, so that the mean of all
 * rounds and their spread can both be held against what chance allows.
 */
#include "ctl.h"
#include "heap.h"
#include <malloc.h>
#include <pthread.h>

#define ROUNDS 100

static char dir[] = "/tmp/jetest.XXXXXX";
static double rate;

struct sums {
	double truth;		/* usable bytes */
	double variance;	/* of the estimate */
};

static void
count(struct sums *s, void *p)
{
	double z = (double)malloc_usable_size(p);
	double miss = exp(-z / rate);

	s->truth += z;
	s->variance += z * z * miss / (1 - miss);
}

static struct heap_profile
dump(void)
{
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

/* Deviations of all rounds, in standard deviations of one. */
static void
judge(const char *what, const double *d, int n)
{
	double sum = 0, squares = 0, worst = 0;

	for (int i = 0; i < n; i++) {
		sum += d[i];
		squares += d[i] * d[i];
		if (fabs(d[i]) > worst)
			worst = fabs(d[i]);
	}
	ok(fabs(sum / sqrt(n)) < 3.5, "%s: mean of %d rounds is off by %.2f sigma", what, n,
	    sum / sqrt(n));
	ok(fabs((squares - n) / sqrt(2.0 * n)) < 4.5, "%s: spread %.2f, 1 is right", what,
	    sqrt(squares / n));
	ok(worst < 5, "%s: the worst round is off by %.2f sigma", what, worst);
}

/* -------------------------------------------------------------- live bytes */

#define BLOCKS 3000

static size_t
mixed_size(uint64_t *seed, int i)
{
	if (i % 500 == 0)
		return 200000 + test_random(seed) % 800000;
	if (i % 20 == 0)
		return 5000 + test_random(seed) % 100000;
	return 1 + test_random(seed) % (i % 3 == 0 ? 4000 : 200);
}

static size_t
small_size(uint64_t *seed, int i)
{
	return 8 + test_random(seed) % (i % 2 ? 64 : 500);
}

static size_t
large_size(uint64_t *seed, int i)
{
	return 40000 + test_random(seed) % (i % 2 ? 5000 : 60000);
}

typedef size_t size_fn(uint64_t *seed, int i);

static void
live_rounds(const char *what, size_fn *size, int blocks)
{
	static void *p[BLOCKS];
	double d[ROUNDS];
	uint64_t seed = 1;
	bool good = true;

	for (int r = 0; r < ROUNDS; r++) {
		struct sums s = { 0, 0 };
		struct heap_profile h;

		ctl_void("prof.reset");
		for (int i = 0; i < blocks; i++) {
			p[i] = keep(i % 7 == 0 ? calloc(1, size(&seed, i)) : malloc(size(&seed, i)));
			count(&s, p[i]);
		}
		h = dump();
		good = good && h.good && h.has_maps;
		d[r] = (h.live_bytes - s.truth) / sqrt(s.variance);
		for (int i = 0; i < blocks; i++)
			free(p[i]);
	}
	ok(good, "%s: every dump can be read", what);
	judge(what, d, ROUNDS);
}

/* What was freed is gone from the profile, exactly. */
static void
test_freed(void)
{
	struct heap_profile h;

	ctl_void("prof.reset");
	for (int i = 0; i < 100000; i++)
		free(keep(malloc(100)));
	h = dump();
	ok(h.good && h.live_bytes == 0, "nothing lives, nothing is shown (%.0f bytes)",
	    h.live_bytes);
}

static void *threads_blocks[4][1000];
static struct sums threads_sums[4];

static void *
thread(void *arg)
{
	int t = (int)(intptr_t)arg;
	uint64_t seed = (uint64_t)test_now_ms() * 8 + (uint64_t)t;

	for (int i = 0; i < 1000; i++) {
		threads_blocks[t][i] = keep(malloc(mixed_size(&seed, i)));
		count(&threads_sums[t], threads_blocks[t][i]);
	}
	return NULL;
}

static void
test_threads(void)
{
	double d[20];

	for (int r = 0; r < 20; r++) {
		struct sums s = { 0, 0 };
		struct heap_profile h;
		pthread_t t[4];

		ctl_void("prof.reset");
		memset(threads_sums, 0, sizeof(threads_sums));
		for (int i = 0; i < 4; i++)
			pthread_create(&t[i], NULL, thread, (void *)(intptr_t)i);
		for (int i = 0; i < 4; i++) {
			pthread_join(t[i], NULL);
			s.truth += threads_sums[i].truth;
			s.variance += threads_sums[i].variance;
		}
		h = dump();
		/* What pthread_create allocates is not counted: at most some KB. */
		d[r] = (h.live_bytes - s.truth) / sqrt(s.variance);
		for (int i = 0; i < 4000; i++)
			free(threads_blocks[i / 1000][i % 1000]);
	}
	judge("blocks of threads that are gone", d, 20);
}

/* -------------------------------------------------------------- cumulative bytes */

static void
cumulative_rounds(const char *what, size_t size, int n)
{
	double d[ROUNDS];

	for (int r = 0; r < ROUNDS; r++) {
		struct sums s = { 0, 0 };
		struct heap_profile h;
		void *p = keep(malloc(size));

		count(&s, p);
		free(p);
		if (exp(-s.truth / rate) * n < 1) {
			skip(3, "nearly every block is a sample: nothing to estimate");
			return;
		}
		ctl_void("prof.reset");
		for (int i = 0; i < n; i++)
			free(keep(malloc(size)));
		h = dump();
		d[r] = (h.all_bytes - s.truth * n) / sqrt(s.variance * n);
	}
	judge(what, d, ROUNDS);
}

static int
child_live(void)
{
	rate = (double)((size_t)1 << ctl_size("prof.lg_sample"));
	mkdtemp(dir);
	live_rounds("mixed", mixed_size, BLOCKS);
	live_rounds("small", small_size, BLOCKS);
	live_rounds("large", large_size, 300);
	test_freed();
	test_threads();
	rmdir(dir);
	return done_testing();
}

static int
child_cumulative(void)
{
	rate = (double)((size_t)1 << ctl_size("prof.lg_sample"));
	mkdtemp(dir);
	cumulative_rounds("loop of 64", 64, 30000);
	cumulative_rounds("loop of 3000", 3000, 3000);
	cumulative_rounds("loop of 20000", 20000, 500);
	cumulative_rounds("loop of 100000", 100000, 100);
	rmdir(dir);
	return done_testing();
}

static const struct test_child children[] = {
	{ "live", child_live },
	{ "cumulative", child_cumulative },
	{ NULL, NULL },
};

static void
run(const char *child, const char *conf)
{
	static struct test_result r;

	test_state.timeout_s = 200;
	run_child_conf(&r, child, conf);
	/* Chance alone fails a run now and then; what is really off is off again. */
	if (r.status != 0)
		run_child_conf(&r, child, conf);
	if (!child_exits(&r, 0, "%s, %s", child, conf))
		return;
	for (char *line = strtok(r.out, "\n"); line != NULL; line = strtok(NULL, "\n"))
		diag("%s", line);
}

int
main(int argc, char **argv)
{
	test_children(argc, argv, children);
	if (!ctl_bool("config.prof"))
		plan_skip_all("no profiler in this build");
	run("live", "prof:true,lg_prof_sample:14");
	run("live", "prof:true,lg_prof_sample:17");
	run("live", "prof:true,lg_prof_sample:14,tcache:false");
	run("cumulative", "prof:true,lg_prof_sample:14,prof_accum:true");
	run("cumulative", "prof:true,lg_prof_sample:17,prof_accum:true");
	return done_testing();
}
