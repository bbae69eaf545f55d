/*
 * Which sites pin the free regions of slabs (prof/sites/prof_frag): the charges of samples sum to
 * the waste of the bins and go to who keeps slabs from leaving; none goes to slabs that are gone or
 * in use again, to samples of before a reset, or where each object is a sample. The standard error
 * of a charge is as large as its errors are.
 */
#include "ctl.h"
#include "dir.h"

#include "arena/arena.h"
#include "arena/slab.h"
#include "prof/sites/prof_frag.h"
#include "prof/sites/prof_hook.h"

#include <fcntl.h>
#include <fenv.h>
#include <pthread.h>

const char *malloc_conf = "abort_conf:false,prof:true,lg_prof_sample:8,narenas:2,junk:false";

#define N 400000u
/* One of so many objects of the phase stays. */
#define EACH 16u

static const char *path = "p.heap";
static void *objects[N];
static char text[4u << 20];

/* Writes a profile and reads it, without malloc. */
static void
dump(void) {
	const char *name = path;
	if (mallctl("prof.dump", NULL, NULL, &name, sizeof(name)) != 0) {
		bail_out("prof.dump");
	}
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = '\0';
	if (fd >= 0) {
		close(fd);
	}
}

/* A number of the line frag_heap. */
static uint64_t
part(const char *name) {
	char head[64];
	const char *line = strstr(text, "\n# frag_heap ");
	snprintf(head, sizeof(head), " %s:", name);
	const char *at = line == NULL ? NULL : strstr(line, head);
	return at == NULL ? UINT64_MAX : strtoull(at + strlen(head), NULL, 10);
}

/* Whether a is within so many percent of b. */
static bool
is_near(uint64_t a, uint64_t b, unsigned percent) {
	uint64_t off = a > b ? a - b : b - a;
	return off * 100 <= b * percent;
}

/* The bytes of the objects of a site of the profile, by its number: all have one size. */
static size_t
site_size(unsigned site) {
	unsigned long long n = 0, bytes = 0;
	const char *at = text;
	for (unsigned i = 0; at != NULL && i < site; i++) {
		at = strstr(at + 1, "\n@");
	}
	at = at == NULL ? NULL : strstr(at, "\n  t*: ");
	return at != NULL && sscanf(at, "\n  t*: %llu: %llu", &n, &bytes) == 2 && n > 0
	    ? (size_t)((bytes + n / 2) / n) : 0;
}

/*
 * What sites with objects of this size pin; 0: all sites. A profile of few samples tells a size
 * with an error of some percent, as numbers of objects are whole.
 */
static uint64_t
pinned(size_t size) {
	uint64_t sum = 0;
	for (const char *p = text; (p = strstr(p, "\n# frag ")) != NULL; p++) {
		char *end;
		unsigned site = (unsigned)strtoul(p + 8, &end, 10);
		if (size == 0 || is_near(site_size(site), size, 8)) {
			sum += strtoull(end, NULL, 10);
		}
	}
	return sum;
}

static NOINLINE void *
site_a(size_t n) {
	return keep(malloc(n));
}

static NOINLINE void *
site_b(size_t n) {
	return keep(malloc(n));
}

static NOINLINE void *
site_of_phase(size_t n) {
	return keep(malloc(n));
}

static void
objects_free(unsigned from, unsigned to) {
	for (unsigned i = from; i < to; i++) {
		free(objects[i]);
		objects[i] = NULL;
	}
}

/* Frees objects from..to except one of so many. */
static void
objects_thin(unsigned from, unsigned to, unsigned each) {
	for (unsigned i = from; i < to; i++) {
		if (i % each != 0) {
			free(objects[i]);
			objects[i] = NULL;
		}
	}
}

static void
caches_flush(void) {
	ctl_void("thread.tcache.flush");
	ctl_void("arena.0.purge");
	ctl_void("arena.1.purge");
}

/* A phase of which each 16th object stays, in the first half; the dense ones in the second. */
static void
phase_make(void) {
	for (unsigned i = 0; i < N / 2; i++) {
		objects[i] = i % EACH == 0 ? site_a(90) : site_of_phase(90);
	}
	objects_thin(0, N / 2, EACH);
	for (unsigned i = N / 2; i < N; i++) {
		objects[i] = site_b(180);
	}
	caches_flush();
}

static void
test_parts(void) {
	uint64_t sum = 0;
#define ADD(name, says) sum += part(#name);
	PROF_FRAG_PARTS(ADD)
#undef ADD
	is_uint(part("resident"), sum, "the parts sum to the resident bytes");
	ctl_epoch();
	ok(is_near(part("resident"), ctl_size("stats.resident"), 3), "which are those of statistics: "
	    "%llu and %zu", (unsigned long long)part("resident"), ctl_size("stats.resident"));
	ok(is_near(part("live") + part("cached"), ctl_size("stats.allocated"), 3),
	    "the live and cached ones are what is allocated");
	uint64_t bins = 0;
	for (const char *p = text; (p = strstr(p, "\n# frag_class ")) != NULL; p++) {
		unsigned long long slabs = 0, used = 0, stock = 0;
		sscanf(p, "\n# frag_class %*u slabs:%llu used:%llu stock:%llu", &slabs, &used, &stock);
		bins += slabs - used - stock;
	}
	is_uint(part("free"), bins, "classes have the free regions of all bins");
}

static void
test_sites(void) {
	phase_make();
	dump();
	uint64_t a = pinned(small_class_of(90)), b = pinned(small_class_of(180)), all = pinned(0);
	uint64_t waste = part("free");
	ok(waste > (uint64_t)N / 4 * 90, "the phase leaves slabs nearly empty: %llu bytes",
	    (unsigned long long)waste);
	ok(a * 10 >= all * 9, "who left each %uth object has 90 percent of the charge: %llu of %llu",
	    EACH, (unsigned long long)a, (unsigned long long)all);
	ok(b * 20 <= all, "who packs densely has next to nothing: %llu", (unsigned long long)b);
	ok(is_near(all, waste, 10), "the sum is within 10 percent of the waste: %llu of %llu",
	    (unsigned long long)all, (unsigned long long)waste);
	test_parts();
}

/*
 * Free bytes of all slabs of a class, whether their pages were given back or not. The slabs of
 * samples, a third of all here, count as if they were as large as the others.
 */
static uint64_t
slabs_free(size_t size) {
	size_t slabs = 0, used = 0, slab_size = 0;
	char name[64];
	for (unsigned i = 0; slab_size == 0; i++) {
		if (ctl_size(ctl_name(name, "arenas.bin.%u.size", i)) == size) {
			slab_size = ctl_size(ctl_name(name, "arenas.bin.%u.slab_size", i));
			slabs = ctl_size(
			    ctl_name(name, "stats.arenas.%u.bins.%u.curslabs", MALLCTL_ARENAS_ALL, i));
			used = ctl_size(
			    ctl_name(name, "stats.arenas.%u.bins.%u.curregs", MALLCTL_ARENAS_ALL, i));
		}
	}
	return slabs * slab_size - used * size;
}

/*
 * Pages inside slabs that were given back are neither resident nor pinned by what is left in their
 * slabs; of four pages about one keeps an object. Hardened builds give none back: what is freed
 * keeps its contents, which they check.
 */
static void
test_holes(void) {
	unsigned each = 256 * (unsigned)(ctl_size("arenas.page") / 4096);
	for (unsigned i = 0; i < N; i++) {
		objects[i] = site_a(90);
	}
	objects_thin(0, N, each);
	caches_flush();
	dump();
	ctl_epoch();
	uint64_t waste = part("free"), all = pinned(0), total = slabs_free(small_class_of(90));
	ok(config_hardening ? waste > total / 2 : waste < total / 2 && waste > total / 8,
	    "pages without an object are given back: %llu of %llu bytes stay",
	    (unsigned long long)waste, (unsigned long long)total);
	ok(is_near(all, waste, 25),
	    "and who left the others is not charged for them: %llu of %llu", (unsigned long long)all,
	    (unsigned long long)waste);
	test_parts();
	objects_free(0, N);
	caches_flush();
}

static void
test_forked(void) {
	uint64_t before = pinned(0);
	pid_t child = fork();
	if (child == 0) {
		dump();
		_exit(is_near(pinned(0), before, 1) ? 0 : 1);
	}
	int status = -1;
	waitpid(child, &status, 0);
	is_int(status, 0, "a forked child says the same");
}

static sample_rec_t *
record_of(const void *p) {
	return p == NULL ? NULL : arena_sample_rec(p, emap_elem(p));
}

/* Frees what is no sample, from..to; returns how many samples with a slab stay. */
static unsigned
free_others(unsigned from, unsigned to) {
	unsigned n = 0;
	for (unsigned i = from; i < to; i++) {
		const sample_rec_t *rec = record_of(objects[i]);
		n += rec != NULL && rec->slab != 0;
		if (rec == NULL) {
			free(objects[i]);
			objects[i] = NULL;
		}
	}
	caches_flush();
	return n;
}

/* Of how many samples the slab is there. */
static unsigned
with_slab(unsigned from, unsigned to) {
	unsigned n = 0;
	for (unsigned i = from; i < to; i++) {
		const sample_rec_t *rec = record_of(objects[i]);
		unsigned nholes;
		n += rec != NULL && slab_nused(rec->slab, &nholes) != 0;
	}
	return n;
}

static void
test_gone(void) {
	unsigned n = free_others(N / 2, N);
	ok(n > 100, "%u samples stay, and their slabs go", n);
	ok(with_slab(N / 2, N) * 20 <= n, "nearly all: %u of %u are there", with_slab(N / 2, N), n);
	dump();
	uint64_t b = pinned(small_class_of(180));
	ok(b * 20 <= part("free"), "where nothing is free, they are charged nothing: %llu",
	    (unsigned long long)b);
	static void *again[N / 2];
	for (unsigned i = 0; i < N / 2; i++) {
		again[i] = site_of_phase(180);
	}
	for (unsigned i = 0; i < N / 2; i++) {
		if (i % EACH != 0) {
			free(again[i]);
		}
	}
	caches_flush();
	dump();
	ok(with_slab(N / 2, N) * 20 <= n, "new slabs at their places are others: %u of %u",
	    with_slab(N / 2, N), n);
	ok(is_near(pinned(0), part("free"), 10), "the sum is as before: %llu of %llu",
	    (unsigned long long)pinned(0), (unsigned long long)part("free"));
	for (unsigned i = 0; i < N / 2; i += EACH) {
		free(again[i]);
	}
	objects_free(N / 2, N);
}

static void
test_reset(void) {
	uint64_t a = pinned(small_class_of(90));
	ok(a > 0, "before a reset");
	ctl_void("prof.reset");
	dump();
	is_uint(pinned(small_class_of(90)), 0, "samples of before a reset are charged nothing");
	objects_free(0, N / 2);
}

static void *
phase_of_thread(void *arg) {
	unsigned from = (unsigned)(uintptr_t)arg;
	for (unsigned i = from; i < from + N / 8; i++) {
		objects[i] = i % EACH == 0 ? site_a(90) : site_of_phase(90);
	}
	objects_thin(from, from + N / 8, EACH);
	return NULL;
}

static void
test_threads(void) {
	pthread_t t[4];
	unsigned bad = 0;
	for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
		pthread_create(&t[i], NULL, phase_of_thread, (void *)(uintptr_t)(i * (N / 8)));
	}
	for (unsigned i = 0; i < 20; i++) {
		dump();
		bad += wrong_if(part("resident") == UINT64_MAX);
		bad += wrong_if(pinned(0) > part("resident"));
	}
	for (unsigned i = 0; i < ARRAY_LEN(t); i++) {
		pthread_join(t[i], NULL);
	}
	is_uint(bad, 0, "dumps while four threads sample and free");
	caches_flush();
	dump();
	ok(is_near(pinned(0), part("free"), 15), "objects that four threads left: %llu of %llu",
	    (unsigned long long)pinned(0), (unsigned long long)part("free"));
	objects_free(0, N / 2);
}

/* The free bytes in slabs of a class, by the line frag_class. */
static uint64_t
waste_of(size_t size) {
	unsigned long long slabs = 0, used = 0, stock = 0;
	char head[64];
	snprintf(head, sizeof(head), "\n# frag_class %zu ", size);
	const char *at = strstr(text, head);
	if (at != NULL) {
		sscanf(at + strlen(head), "slabs:%llu used:%llu stock:%llu", &slabs, &used, &stock);
	}
	return slabs - used - stock;
}

/*
 * Whether the margin of each of the two sites that pin something holds half of the waste; counts
 * the sites. The margin is that of bin/jeprof.d/noise.pl.
 */
static unsigned
covered(unsigned *sites) {
	unsigned good = 0;
	double truth = (double)waste_of(small_class_of(90)) / 2;
	for (const char *p = text; (p = strstr(p, "\n# frag ")) != NULL; p++) {
		unsigned long long bytes = 0, error = 0;
		if (sscanf(p, "\n# frag %*u %llu %llu", &bytes, &error) == 2) {
			double off = (double)bytes - truth, most = 1.96 * (double)error;
			(*sites)++;
			good += off * off <= most * most * 1.02; /* (m + 1) / m, m: some 50 */
		}
	}
	return good;
}

/* The function that allocates is the whole stack. */
static void *(*site_now)(size_t);

static void
site_hook(void **vec, unsigned *len, unsigned max) {
	vec[0] = (void *)site_now;
	*len = max > 0;
}

/*
 * Two sites that leave every 16th object each, in turn: chance decides which are samples. The
 * unwinder would see more than two: in a program that contains the allocator its frames stay in
 * the stack, and malloc() takes another way in it where a heartbeat is wanted.
 */
static void
test_error(void) {
	size_t lg = 11;
	unsigned rounds = test_is_full() ? 2000 : 400, good = 0, sites = 0;
	prof_hook_fn_t unwinder = prof_hook_get(PROF_HOOK_BACKTRACE);
	prof_hook_set(PROF_HOOK_BACKTRACE, (prof_hook_fn_t)site_hook);
	for (unsigned r = 0; r < rounds; r++) {
		ctl_write("prof.reset", lg);
		for (unsigned i = 0; i < N / 8; i++) {
			site_now = i % EACH != 0 ? site_of_phase : i / EACH % 2 == 0 ? site_a : site_b;
			objects[i] = site_now(90);
		}
		objects_thin(0, N / 8, EACH);
		caches_flush();
		dump();
		good += covered(&sites);
		objects_free(0, N / 8);
	}
	prof_hook_set(PROF_HOOK_BACKTRACE, unwinder);
	is_uint(sites, 2 * rounds, "two sites pin what is free");
	double share = 100.0 * good / (sites + (sites == 0));
	ok(test_is_full() ? share >= 93 && share <= 97 : share >= 90 && share <= 99,
	    "%.1f of 100 margins hold the truth", share);
}

/*
 * Of each slab few objects stay. Where it is one, the slabs of the samples that stay are gone;
 * where it is one on each of two pages, the sample's own page went back. In the long slabs of large
 * pages more stay, and the sum of four rounds varies half as much as one.
 */
static void
few_stay(unsigned each, const char *what) {
	size_t lg = 9;
	uint64_t a = 0, all = 0, waste = 0;
	for (unsigned r = 0; r < 4; r++) {
		ctl_write("prof.reset", lg);
		for (unsigned i = 0; i < N / 2; i++) {
			objects[i] = i % each == 0 ? site_a(90) : site_of_phase(90);
		}
		objects_thin(0, N / 2, each);
		caches_flush();
		dump();
		a += pinned(small_class_of(90));
		all += pinned(0);
		waste += part("free");
		objects_free(0, N / 2);
	}
	ok(is_near(all, waste, each > 128 ? 25 : 12), "objects that are %s: %llu of %llu", what,
	    (unsigned long long)all,
	    (unsigned long long)waste);
	ok(a * 10 >= all * 9, "are charged for them: %llu of %llu", (unsigned long long)a,
	    (unsigned long long)all);
}

static void
test_few(void) {
	bool is_long = ctl_size("arenas.page") > 8192;
	few_stay(is_long ? 250 : 128, "alone in their slabs");
	few_stay(is_long ? 249 : 64, "two in a slab");
}

static void
test_exact(void) {
	size_t lg = 0;
	ctl_write("prof.reset", lg);
	for (unsigned i = 0; i < 1000; i++) {
		objects[i] = site_a(90);
	}
	void *large = site_a(1u << 20);
	dump();
	is_uint(pinned(0), 0, "where each object is a sample, none stands for others");
	is_uint(record_of(objects[5])->slab, 0, "and no slab is noted");
	is_uint(record_of(large)->slab, 0, "nor for a large object");
	unsigned nholes;
	is_uint(slab_nused(UINT64_MAX, &nholes), 0, "a slab that never was");
	free(large);
	objects_free(0, 1000);
}

/*
 * The root of the variance is taken for each site of a profile; where it is 0, halving down to it
 * would take 1000 rounds, the last of which underflow. (Under valgrind no flag is ever raised.)
 */
static void
test_error_of_nothing(void) {
	static prof_frag_t frag;
	static prof_item_t item;
	uint64_t error = 1;
	feclearexcept(FE_ALL_EXCEPT);
	uint64_t bytes = prof_frag_pinned(&frag, &item, &error);
	ok(bytes == 0 && error == 0, "a site without charges pins nothing");
	is_int(fetestexcept(FE_UNDERFLOW), 0, "which is not found by halving");
	item.pinned_variance = 99.5f;
	(void)prof_frag_pinned(&frag, &item, &error);
	is_uint(error, 9, "the root of a variance, rounded down");
	item.pinned_variance = 0.5f;
	(void)prof_frag_pinned(&frag, &item, &error);
	is_uint(error, 0, "also of one below 1");
}

/* The objects of one further arena, of which few stay, and what is free there. */
static void
test_arenas(void) {
	unsigned arena;
	size_t len = sizeof(arena);
	size_t lg = 19;
	enum { OBJECTS = 10000 };
	ctl_write("prof.reset", lg); /* samples lie elsewhere */
	dump();
	uint64_t arenas = part("arenas"), spread = part("spread"), nfree = part("free");
	uint64_t large = part("live") + part("cached");
	ok(arenas >= 1 && arenas <= 3, "arenas: %llu", (unsigned long long)arenas);
	if (mallctl("arenas.create", &arena, &len, NULL, 0) != 0) {
		bail_out("arenas.create");
	}
	int flags = (int)(MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE);
	for (unsigned i = 0; i < OBJECTS; i++) {
		objects[i] = mallocx(100, flags);
	}
	for (unsigned i = 0; i < OBJECTS; i++) {
		if (i % EACH != 0) {
			dallocx(objects[i], MALLOCX_TCACHE_NONE);
			objects[i] = NULL;
		}
	}
	void *block = mallocx(4u << 20, flags);
	dump();
	is_uint(part("arenas"), arenas + 1, "a further one");
	uint64_t more = part("free") - nfree;
	ok(part("free") > nfree && more > OBJECTS * 100 / 2, "free in its slabs: %llu",
	    (unsigned long long)more);
	uint64_t here = part("spread");
	ok(here >= spread && here <= part("free") / 2 && (here - spread >= more / 2
	    || part("free") - here <= more + more / 2),
	    "all but the arena that has most: %llu of %llu, before %llu of %llu",
	    (unsigned long long)here, (unsigned long long)part("free"), (unsigned long long)spread,
	    (unsigned long long)nfree);
	ok(here > 0, "which is not nothing");
	uint64_t live = part("live") + part("cached");
	ok(live >= large + (4u << 20) && live <= large + (5u << 20), "a large block is live: %llu",
	    (unsigned long long)(live - large));
	ok(part("slack") < (1u << 20), "and has hardly an end: %llu",
	    (unsigned long long)part("slack"));
	dallocx(block, MALLOCX_TCACHE_NONE);
	objects_free(0, OBJECTS);
}

int
main(void) {
	static void (*const tests[])(void) = {test_holes, test_sites, test_forked, test_gone,
	    test_reset, test_threads, test_error, test_few, test_exact, test_error_of_nothing,
	    test_arenas, NULL};
	return dir_main(config_prof, tests);
}
