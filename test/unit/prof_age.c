/*
 * Ages in a profile (prof/sites/prof_age): by a clock of the test's own each sample is in the
 * column that it belongs to, through frees, reuse of records, resets and threads that go on.
 */
#include "ctl.h"

#include "meta/base.h"
#include "meta/freepool.h"
#include "meta/recs.h"
#include "meta/region.h"
#include "os/nstime.h"
#include "prof/sites/prof_ages.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>

const char *malloc_conf = "abort_conf:false,prof:true,lg_prof_sample:0,prof_accum:true,junk:false";

#define SECOND UINT64_C(1000000000)
#define START (UINT64_C(1000000) * SECOND)

static char dir[] = "/tmp/prof_age.XXXXXX";
static char path[256];
/* volatile: to the compiler malloc reads no variable */
static volatile uint64_t now = START;

static uint64_t
own_clock(void) {
	return now;
}

/* The profile, read without malloc. */
static const char *
slurp(void) {
	static char text[1 << 20];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = '\0';
	if (fd >= 0) {
		close(fd);
	}
	return text;
}

/* The columns that the profile has of a site. */
static char age[512], life[512];

/* The number of the first site with these counts; 0: none. */
static unsigned
site_of(const char *text, const char *counts) {
	const char *first = strstr(text, "\n@"), *at = first == NULL ? NULL : strstr(first, counts);
	unsigned n = 0;
	for (const char *p = text; at != NULL && (p = strstr(p, "\n@")) != NULL && p < at; p++) {
		n++;
	}
	return n;
}

static void
line_take(const char *text, const char *what, unsigned site, char *to, size_t size) {
	char head[64];
	int len = snprintf(head, sizeof(head), "\n# %s %u ", what, site);
	const char *at = strstr(text, head);
	const char *end = at == NULL ? NULL : strchr(at + 1, '\n');
	bool has_line = end != NULL;
	snprintf(to, size, "%.*s", has_line ? (int)(end - at) - len : 0, has_line ? at + len : "");
}

/* Dumps and finds the site whose total begins so. */
static const char *
dump(const char *counts) {
	const char *name = path;
	if (mallctl("prof.dump", NULL, NULL, &name, sizeof(name)) != 0) {
		bail_out("prof.dump");
	}
	const char *text = slurp();
	unsigned site = site_of(text, counts);
	line_take(text, "age", site, age, sizeof(age));
	line_take(text, "life", site, life, sizeof(life));
	return site == 0 ? "no site" : age;
}

static NOINLINE void *
make(size_t size) {
	return keep(malloc(size));
}

/* Adds a column to what a line has to be. */
static void
column_add(char *line, unsigned column, size_t bytes) {
	size_t n = strlen(line);
	snprintf(line + n, 256 - n, "%s%u:%zu", n == 0 ? "" : " ", column, bytes);
}

/* Is this the line of a site that has one object, all of its bytes in the first column? */
static void
is_one_new(size_t bytes, const char *what) {
	char counts[64], want[64];
	snprintf(counts, sizeof(counts), "  t*: 1: %zu ", bytes);
	snprintf(want, sizeof(want), "0:%zu", bytes);
	is_str(dump(counts), want, "%s", what);
}

static void
test_columns(void) {
	static const uint64_t at[] = {0, 1, 4, 16, 60, 240, 960, 3600, 14400, 57600};
	static const size_t sizes[] = {16, 32, 48, 64, 80, 96, 112, 128, 160, 192};
	void *p[2 * ARRAY_LEN(at)];
	char all[64], half[64], of_all[256] = "", of_half[256] = "";
	size_t sum = 0;
	unsigned bad = 0;
	for (unsigned i = 0; i < ARRAY_LEN(at); i++) {
		bad += prof_age_column(at[i] * SECOND) != i;
		bad += i > 0 && prof_age_column(at[i] * SECOND - 1) != i - 1;
	}
	bad += prof_age_column(UINT64_MAX) != PROF_AGES - 1 || prof_age_between(2, 1) != 0;
	is_uint(bad, 0, "each bound begins a column");
	for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
		now = START - at[i / 2] * SECOND - (i % 2 == 0 ? 0 : SECOND / 2);
		p[i] = make(sizes[i / 2]);
	}
	for (unsigned i = 0; i < ARRAY_LEN(at); i++) {
		size_t size = small_class_of(sizes[i]);
		column_add(of_half, i, size);
		column_add(of_all, i, 2 * size);
		sum += size;
	}
	snprintf(all, sizeof(all), "  t*: %zu: %zu ", ARRAY_LEN(p), 2 * sum);
	snprintf(half, sizeof(half), "  t*: %zu: %zu ", ARRAY_LEN(at), sum);
	now = START;
	is_str(dump(all), of_all, "each sample is in its column");
	for (unsigned i = 0; i < ARRAY_LEN(p); i += 2) {
		free(p[i]);
	}
	is_str(dump(half), of_half, "what was freed is in none");
	is_str(life, of_half, "but in the lifetimes");
	for (unsigned i = 1; i < ARRAY_LEN(p); i += 2) {
		free(p[i]);
	}
}

static void
test_reuse(void) {
	now = START;
	void *old = make(1000), *large = make(100000);
	now += 100 * SECOND;
	free(old);
	free(large);
	void *fresh = make(1000), *again = make(100000);
	is_one_new(small_class_of(1000), "a record that is used again tells its new time");
	is_one_new(class_of(100000), "of a large object too");
	again = keep(realloc(again, 1000000));
	free(again);
	free(fresh);
	now += 1000 * SECOND;
	void *set_back = make(500);
	now = START;
	is_one_new(small_class_of(500), "a clock that was set back makes nothing old");
	free(set_back);
}

static void
test_reset(void) {
	void *p = make(3000);
	is_one_new(small_class_of(3000), "before a reset");
	is_int(mallctl("prof.reset", NULL, NULL, NULL, 0), 0, "prof.reset");
	dump("  t*: ");
	const char *text = slurp();
	ok(strstr(text, "\n# age 1 ") == NULL, "records of before are in no profile after it");
	contains(text, "\n# age_bounds_s 1 4 16 60 240 960 3600 14400 57600\n", "which has the bounds");
	free(p);
}

/* Each block's records stay where they are; a share of the region is not exceeded. */
static void
test_blocks(void) {
	static sample_rec_t *r[3000];
	unsigned bad = 0;
	uint64_t n_before = 0, n_after = 0, n_region = 0;
	for (const recs_block_t *b = recs_blocks(false); b != NULL; b = b->next) {
		n_before += b->n;
	}
	for (unsigned i = 0; i < ARRAY_LEN(r); i++) {
		r[i] = recs_alloc(i % 7 == 0 ? 1 : 30 + i % 7);
		bad += wrong_if(r[i] == NULL) || wrong_if(r[i]->tctx != NULL);
	}
	is_uint(bad, 0, "many records, none with a count");
	for (const recs_block_t *b = recs_blocks(true); b != NULL; b = b->next) {
		n_region += b->n;
	}
	for (const recs_block_t *b = recs_blocks(false); b != NULL; b = b->next) {
		n_after += b->n;
	}
	ok(n_region * sizeof(sample_rec_t) <= REGION_BOX_MIN / 4, "%llu of them in the region",
	    (unsigned long long)n_region);
	ok(n_after > n_before, "the others elsewhere");
	for (unsigned i = 0; i < ARRAY_LEN(r); i++) {
		recs_free(r[i], i % 7 == 0 ? 1 : 30 + i % 7);
	}
	const recs_block_t *first = recs_blocks(false);
	for (unsigned i = 0; i < ARRAY_LEN(r); i++) {
		r[i] = recs_alloc(i % 7 == 0 ? 1 : 30 + i % 7);
	}
	ok(recs_blocks(false) == first, "freed ones are used again");
	for (unsigned i = 0; i < ARRAY_LEN(r); i++) {
		recs_free(r[i], i % 7 == 0 ? 1 : 30 + i % 7);
	}
}

static struct {
	unsigned n, at; /* the piece that is refused */
	bool is_for_ever;
} refusal;

static bool
refuse(void) {
	refusal.n++;
	return refusal.n == refusal.at || (refusal.is_for_ever && refusal.n > refusal.at);
}

/*
 * Each piece of memory that a block needs is refused in turn: what it has got goes back. No other
 * call has the same n, so that no freed records serve it.
 */
static void
test_refusals(bool is_in_region, bool is_for_ever, uint32_t n) {
	size_t each = region_good_size(n * sizeof(sample_rec_t)), head = sizeof(recs_block_t);
	sample_rec_t *got[6] = {NULL};
	unsigned bad = 0, k = 0, nfailures = 0;
	bool was_in_region = false; /* the last one; with large pages no room may be left */
	refusal.is_for_ever = is_for_ever;
	do {
		size_t region = region_in_use(), meta = meta_in_use();
		const recs_block_t *first = recs_blocks(false);
		refusal.n = 0;
		refusal.at = k + 1;
		base_fault_hook = refuse;
		got[k] = recs_alloc(n);
		base_fault_hook = NULL;
		was_in_region = region_in_use() != region;
		nfailures += got[k] == NULL;
		if (recs_blocks(false) != first) {
			meta += meta_good_size(each) + meta_good_size(head);
		} else if (got[k] != NULL) {
			region += each + region_good_size(head);
		}
		bad += wrong_if(region_in_use() != region) || wrong_if(meta_in_use() != meta);
	} while (refusal.n > k++ && k < ARRAY_LEN(got));
	bad += wrong_if(nfailures > 0 && was_in_region && !is_for_ever);
	is_uint(bad, 0, "nothing is lost if a piece is refused, %s region, %s",
	    is_in_region ? "in the" : "without", is_for_ever ? "and all later ones" : "once");
	ok(k >= 3 && got[k - 1] != NULL, "two pieces are needed");
	for (unsigned i = 0; i < k; i++) {
		recs_free(got[i], n);
	}
}

/* After test_blocks(): the region has no room left. */
static void
test_singles(void) {
	const recs_block_t *first = recs_blocks(false), *b;
	do {
		recs_alloc(1);
	} while ((b = recs_blocks(false)) == first);
	for (uint64_t i = 1; i < b->n; i++) {
		recs_alloc(1);
	}
	ok(recs_blocks(false) == b, "a block of single records is handed out whole");
}

static size_t
below(uint64_t *seed, size_t n) {
	return (size_t)(test_random(seed) % n);
}

static atomic_b_t is_over;
static atomic_u32_t nbegun;

static void *
churn(void *arg) {
	uint64_t seed = (uintptr_t)arg;
	void *held[64] = {keep(malloc(1))};
	atomic_fetch_add_u32(&nbegun, 1, MO_RELEASE);
	while (!atomic_load_b(&is_over, MO_RELAXED)) {
		void **h = &held[below(&seed, ARRAY_LEN(held))];
		free(*h);
		*h = keep(malloc(1 + below(&seed, 40000)));
	}
	for (unsigned i = 0; i < ARRAY_LEN(held); i++) {
		free(held[i]);
	}
	return NULL;
}

/* Whether the columns of each line sum to the live bytes of its site. */
static unsigned
sums_wrong(const char *text) {
	unsigned bad = 0;
	for (const char *p = text; (p = strstr(p, "\n# age ")) != NULL; p++) {
		unsigned site = 0, n = 0;
		unsigned long long sum = 0, live = 0;
		char *end;
		const char *at = text;
		site = (unsigned)strtoul(p + 7, &end, 10);
		while (*end == ' ') {
			sum += strtoull(end + 3, &end, 10);
		}
		while (n < site && (at = strstr(at + 1, "\n@")) != NULL) {
			n++;
		}
		at = at == NULL ? NULL : strstr(at, "\n  t*: ");
		bad += at == NULL || sscanf(at, "\n  t*: %*u: %llu [", &live) != 1 || live != sum;
	}
	return bad;
}

static void
test_threads(void) {
	pthread_t t[4];
	unsigned bad = 0;
	for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
		pthread_create(&t[i], NULL, churn, (void *)(uintptr_t)(i + 1));
	}
	while (atomic_load_u32(&nbegun, MO_ACQUIRE) < ARRAY_LEN(t)) {
		usleep(100);
	}
	for (unsigned i = 0; i < 30; i++) {
		dump("  t*: ");
		const char *text = slurp();
		bad += sums_wrong(text) + wrong_if(strstr(text, "\n# age ") == NULL);
		}
	atomic_store_b(&is_over, true, MO_RELAXED);
	for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
		pthread_join(t[i], NULL);
	}
	is_uint(bad, 0, "while four threads sample, the columns of each site sum to its live bytes");
}

int
main(void) {
	if (!config_prof) {
		plan_skip_all("built without the profiler");
	}
	if (mkdtemp(dir) == NULL) {
		bail_out("mkdtemp");
	}
	snprintf(path, sizeof(path), "%s/p.heap", dir);
	nstime_now_hook = own_clock;
	test_columns();
	test_reuse();
	test_reset();
	nstime_now_hook = NULL;
	test_threads();
	test_refusals(true, false, 600);
	test_refusals(true, true, 1200);
	test_blocks();
	test_refusals(false, false, 2400);
	test_refusals(false, true, 4800);
	test_singles();
	unlink(path);
	rmdir(dir);
	return done_testing();
}
