/*
 * experimental.*: what utilization tells of an object and its class, batches of allocations, the
 * hook in place of abort. (Hooks of the profiler: prof_hooks.c; events of threads: user_event.c;
 * recent samples: prof_recent.t.)
 */
#include "ctl.h"

#include <malloc.h>

/* What has to work for the rest to mean anything. */
#define MUST(good) \
	do { \
		if (!(good)) \
			bail_out("not " #good); \
	} while (0)

struct util {
	void *slab;
	size_t nfree, nregs, size, bin_nfree, bin_nregs;
};

struct util_short {
	size_t nfree, nregs, size;
};

struct batch {
	void **ptrs;
	size_t num, size;
	int flags;
};

static int
query(const void *p, struct util *u) {
	size_t len = sizeof(*u);

	memset(u, 0xff, sizeof(*u));
	return mallctl("experimental.utilization.query", u, &len, (void *)&p, sizeof(p));
}

/* An arena of its own, without a cache: each object is counted where it lies. */
static void
test_query(void) {
	unsigned arena, nregs;
	size_t len = sizeof(arena), slab, large_size = ctl_size("arenas.lextent.0.size");
	struct util u;
	int local, flags;

	MUST(mallctl("arenas.create", &arena, &len, NULL, 0) == 0);
	flags = (int)MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE;
	nregs = ctl_unsigned("arenas.bin.3.nregs");
	slab = ctl_size("arenas.bin.3.slab_size");
	void *p[3], *large = mallocx(large_size, flags);
	for (int i = 0; i < 3; i++)
		p[i] = mallocx(ctl_size("arenas.bin.3.size") - canary_bytes(), flags);
	is_int(query(p[1], &u), 0, "a small object");
	ok(u.nregs == nregs && u.size == slab && u.nfree == nregs - 3,
	    "its slab: %zu of %zu free, %zu bytes", u.nfree, u.nregs, u.size);
	if (ctl_bool("config.stats"))
		ok(u.bin_nregs == nregs && u.bin_nfree == nregs - 3, "its class: %zu of %zu free",
		    u.bin_nfree, u.bin_nregs);
	ok((char *)u.slab <= (char *)p[1] && (char *)p[1] < (char *)u.slab + slab,
	    "it lies in the current slab");
	dallocx(p[0], flags);
	is_int(query(p[1], &u), 0, "again");
	is_uint(u.nfree, nregs - 2, "one was freed");
	is_int(query(large, &u), 0, "a large one");
	ok(u.nregs == 1 && u.nfree == 0 && u.size >= malloc_usable_size(large) && u.bin_nregs == 0,
	    "alone in its extent");
	is_int(query(&local, &u), 0, "no allocation");
	ok(u.nregs == 0 && u.size == 0 && u.nfree == 0 && u.slab == NULL, "is all zero");
	is_int(mallctl("experimental.utilization.query", NULL, NULL, (void *)&p[1], sizeof(p[1])),
	    EINVAL, "no room");
	len = sizeof(u) - 1;
	is_int(mallctl("experimental.utilization.query", &u, &len, (void *)&p[1], sizeof(p[1])), EINVAL,
	    "too little");

	const void *both[3] = {p[2], large, &local};
	struct util_short s[3];
	len = sizeof(s);
	is_int(mallctl("experimental.utilization.batch_query", s, &len, (void *)both, sizeof(both)), 0,
	    "three at once");
	ok(s[0].nfree == nregs - 2 && s[0].nregs == nregs && s[0].size == slab, "the small one");
	ok(s[1].nfree == 0 && s[1].nregs == 1 && s[1].size >= large_size, "the large one");
	ok(s[2].nfree == 0 && s[2].nregs == 0 && s[2].size == 0, "nothing");
	is_int(mallctl("experimental.utilization.batch_query", s, &len, (void *)both, sizeof(both) - 8),
	    EINVAL, "answers for more than was asked");
	dallocx(p[1], flags);
	dallocx(p[2], flags);
	dallocx(large, flags);
}

static int
batch(struct batch *b, size_t *got) {
	size_t len = sizeof(*got);

	*got = (size_t)-1;
	return mallctl("experimental.batch_alloc", got, &len, b, sizeof(*b));
}

static void
test_batch(void) {
	enum { N = 300 };
	static void *p[N];
	unsigned arena, other = 0;
	size_t len = sizeof(arena), got;
	struct batch b = {p, N, 100, 0};
	bool aligned = true, zero = true, there = true;

	is_int(batch(&b, &got), 0, "a batch");
	is_uint(got, N, "all of it");
	for (int i = 0; i < N; i++) {
		aligned = aligned && malloc_usable_size(p[i]) >= 100;
		memset(p[i], 7, 100);
		free(p[i]);
	}
	ok(aligned, "each as large as was asked");
	MUST(mallctl("arenas.create", &arena, &len, NULL, 0) == 0);
	/* Memory that was used is what has to be made zero. */
	b.flags = (int)MALLOCX_ARENA(arena) | MALLOCX_ALIGN(256);
	is_int(batch(&b, &got), 0, "in an arena");
	for (size_t i = 0; i < got; i++)
		memset(p[i], 7, 100);
	for (size_t i = 0; i < got; i++)
		dallocx(p[i], MALLOCX_TCACHE_NONE);
	b.flags |= MALLOCX_ZERO;
	is_int(batch(&b, &got), 0, "with flags");
	is_uint(got, N, "all");
	for (int i = 0; i < N; i++) {
		len = sizeof(other);
		MUST(mallctl("arenas.lookup", &other, &len, &p[i], sizeof(p[i])) == 0);
		there = there && other == arena;
		aligned = aligned && ((uintptr_t)p[i] & 255) == 0;
		zero = zero && is_filled(p[i], 0, 100);
		dallocx(p[i], MALLOCX_TCACHE_NONE);
	}
	ok(there && aligned && zero, "of that arena, aligned, zero (%d %d %d)", there, aligned, zero);
	b.size = SIZE_MAX;
	is_int(batch(&b, &got), 0, "a size that nobody has");
	is_uint(got, 0, "gives none");
	len = 4;
	is_int(mallctl("experimental.batch_alloc", &got, &len, &b, sizeof(b)), EINVAL,
	    "no room for the answer");
}

static void
instead(const char *message) {
	printf("instead of abort: %s", message);
	fflush(stdout);
	_exit(5);
}

static int
child_abort(void) {
	void (*hook)(const char *) = instead;
	char *p = keep(malloc(1 << 20));

	MUST(ctl_write("experimental.hooks.safety_check_abort", hook) == 0);
	free(keep(p + 4096));
	return 1;
}

static int
child_abort_again(void) {
	void (*hook)(const char *) = instead;

	MUST(ctl_write("experimental.hooks.safety_check_abort", hook) == 0);
	hook = NULL;
	MUST(ctl_write("experimental.hooks.safety_check_abort", hook) == 0);
	free((char *)keep(malloc(1 << 20)) + 4096);
	return 1;
}

static void
test_abort(void) {
	static struct test_result r;

	run_child_conf(&r, "abort", NULL);
	child_exits(&r, 5, "misuse, with a hook in place of abort");
	contains(r.out, "instead of abort: <jemalloc>: ", "it hears what is wrong");
	run_child_conf(&r, "abort_again", NULL);
	ok(died_of(&r, SIGABRT), "NULL: abort again");
}

/* Each allocation is a sample, so the small ones lie in the hidden arena. */
static int
child_pactivep(void) {
	unsigned narenas = ctl_unsigned("arenas.narenas");
	size_t sum = 0, len = sizeof(size_t *), *pages;
	char name[64];

	for (int i = 0; i < 5000; i++)
		if (malloc(1000) == NULL)
			return 2;
	for (unsigned i = 0; i < narenas; i++)
		if (mallctl(ctl_name(name, "experimental.arenas.%u.pactivep", i), &pages, &len, NULL, 0)
		    == 0)
			sum += *pages;
	ctl_epoch();
	printf("%d %d", sum * ctl_size("arenas.page") == ctl_size("stats.active"),
	    sum * ctl_size("arenas.page") == ctl_size("approximate_stats.active"));
	return 0;
}

static void
test_pactivep(void) {
	static struct test_result r;

	if (!ctl_bool("config.stats"))
		return;
	run_child_conf(&r, "pactivep", ctl_bool("config.prof") ? "prof:true,lg_prof_sample:0" : NULL);
	is_str(r.out, "1 1", "*pactivep of all arenas are stats.active, samples included");
}

int
main(int argc, char **argv) {
	static const struct test_child children[] = {{"abort", child_abort},
	    {"abort_again", child_abort_again}, {"pactivep", child_pactivep},
		{NULL, NULL}};

	test_children(argc, argv, children);
	test_query();
	test_batch();
	test_abort();
	test_pactivep();
	return done_testing();
}
