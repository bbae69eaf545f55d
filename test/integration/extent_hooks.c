/*
 * Arenas whose pages come from the program. The hooks here keep a model: which ranges there are and
 * whether they are committed; each call must name a range exactly as the calls before left it.
 * Members are left out or refuse in turn; hooks allocate; many threads; profiled; with background
 * threads.
 */
#include "ctl.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define REGION ((size_t)64 << 30)	/* never given twice */
#define RANGES 40000
#define LIVE 1500

enum { m_dalloc = 1, m_destroy = 2, m_commit = 4, m_decommit = 8, m_lazy = 16, m_forced = 32,
    m_split = 64,
	m_merge = 128, m_all = 255 };

struct range {
	char *addr;
	size_t size;
	bool committed;
};

static struct range ranges[RANGES];	/* sorted by address */
static size_t nranges;
static pthread_mutex_t mtx = PTHREAD_MUTEX_INITIALIZER;
static char *region, *region_next;
static unsigned calls[16], faults, wrong_ind, want_ind;
static bool uncommitted, allocates, refuses_some;
static size_t hoard;			/* bytes that the next hook allocates and keeps */
static void *hoarded;
static size_t limit;			/* bytes that alloc gives at most at once, 0: any */
static extent_hooks_t table;
static __thread unsigned depth;

static void
fault(const char *what, void *addr, size_t size) {
	if (faults++ < 5)
		fprintf(stderr, "# %s: %p, %zu bytes\n", what, addr, size);
}

/* Enters a hook. */
static void
enter(int which, extent_hooks_t *hooks, unsigned ind) {
	static __thread void *kept;

	if (allocates && depth == 0) {
		depth++;
		free(kept);
		kept = keep(malloc(100 + (size_t)which * 1000));
		memset(kept, 7, 100);
		free(keep(calloc(1, 100000)));
		if (hoard != 0) {
			hoarded = memset(keep(malloc(hoard)), 7, hoard);
			hoard = 0;
		}
		depth--;
	}
	pthread_mutex_lock(&mtx);
	calls[which]++;
	if (ind != want_ind || hooks != &table)
		wrong_ind++;
}

static bool
leave(bool answer) {
	pthread_mutex_unlock(&mtx);
	return answer;
}

/* The first range at or above addr. */
static size_t
at(const void *addr) {
	size_t low = 0, high = nranges;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (ranges[mid].addr < (const char *)addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void
insert(size_t i, struct range r) {
	if (nranges == RANGES) {
		fault("too many ranges", r.addr, r.size);
		return;
	}
	memmove(&ranges[i + 1], &ranges[i], (nranges - i) * sizeof(r));
	ranges[i] = r;
	nranges++;
}

static struct range *
exact(const char *what, void *addr, size_t size) {
	size_t i = at(addr);

	if (i < nranges && ranges[i].addr == addr && ranges[i].size == size)
		return &ranges[i];
	fault(what, addr, size);
	return NULL;
}

static void *
my_alloc(extent_hooks_t *hooks, void *new_addr, size_t size, size_t alignment, bool *zero,
    bool *commit, unsigned ind) {
	char *p;

	enter(0, hooks, ind);
	p = (char *)(((uintptr_t)region_next + alignment - 1) & ~(alignment - 1));
	if (new_addr != NULL || (limit != 0 && size > limit) || size > (size_t)(region + REGION - p)) {
		leave(false);
		return NULL;
	}
	region_next = p + size;
	*commit = !uncommitted;
	if (!uncommitted)
		mprotect(p, size, PROT_READ | PROT_WRITE);
	*zero = true;
	insert(at(p), (struct range){p, size, *commit});
	leave(false);
	return p;
}

static void
gone(const char *what, void *addr, size_t size) {
	struct range *r = exact(what, addr, size);

	if (r != NULL) {
		memmove(r, r + 1, (size_t)(ranges + nranges - (r + 1)) * sizeof(*r));
		nranges--;
		mprotect(addr, size, PROT_NONE);
		madvise(addr, size, MADV_DONTNEED);
	}
}

static bool
my_dalloc(extent_hooks_t *hooks, void *addr, size_t size, bool committed, unsigned ind) {
	enter(1, hooks, ind);
	(void)committed;
	if (refuses_some && calls[1] % 2 == 0) {
		exact("dalloc", addr, size);
		return leave(true);
	}
	gone("dalloc", addr, size);
	return leave(false);
}

static void
my_destroy(extent_hooks_t *hooks, void *addr, size_t size, bool committed, unsigned ind) {
	enter(2, hooks, ind);
	(void)committed;
	gone("destroy", addr, size);
	leave(false);
}

static bool
my_commit(extent_hooks_t *hooks, void *addr, size_t size, size_t offset, size_t length,
    unsigned ind) {
	struct range *r;

	enter(3, hooks, ind);
	r = exact("commit", addr, size);
	if (offset != 0 || length != size || r == NULL || r->committed)
		fault("commit of what is", addr, size);
	if (r != NULL)
		r->committed = mprotect(addr, size, PROT_READ | PROT_WRITE) == 0;
	return leave(false);
}

static bool
my_decommit(extent_hooks_t *hooks, void *addr, size_t size, size_t offset, size_t length,
    unsigned ind) {
	struct range *r;

	enter(4, hooks, ind);
	r = exact("decommit", addr, size);
	if (refuses_some && calls[4] % 3 == 0)
		return leave(true);
	if (offset != 0 || length != size || r == NULL || !r->committed)
		fault("decommit of what is not", addr, size);
	if (r != NULL)
		r->committed = false;
	madvise(addr, size, MADV_DONTNEED);
	mprotect(addr, size, PROT_NONE);
	return leave(false);
}

static bool
my_purge_lazy(extent_hooks_t *hooks, void *addr, size_t size, size_t offset, size_t length,
    unsigned ind) {
	enter(5, hooks, ind);
	if (exact("purge_lazy", addr, size) == NULL || offset != 0 || length != size)
		fault("purge_lazy", addr, size);
	return leave(madvise(addr, size, MADV_FREE) != 0);
}

static bool
my_purge_forced(extent_hooks_t *hooks, void *addr, size_t size, size_t offset, size_t length,
    unsigned ind) {
	enter(6, hooks, ind);
	if (exact("purge_forced", addr, size) == NULL || offset != 0 || length != size)
		fault("purge_forced", addr, size);
	if (refuses_some && calls[6] % 3 == 0)
		return leave(true);
	return leave(madvise(addr, size, MADV_DONTNEED) != 0);
}

static bool
my_split(extent_hooks_t *hooks, void *addr, size_t size, size_t size_a, size_t size_b,
    bool committed, unsigned ind) {
	struct range *r;

	enter(7, hooks, ind);
	r = exact("split", addr, size);
	if (size_a + size_b != size || size_a == 0 || size_b == 0 || r == NULL
	    || r->committed != committed)
		fault("split", addr, size);
	if (refuses_some && calls[7] % 5 == 0)
		return leave(true);
	if (r != NULL) {
		r->size = size_a;
		insert((size_t)(r - ranges) + 1, (struct range){(char *)addr + size_a, size_b, committed});
	}
	return leave(false);
}

static bool
my_merge(extent_hooks_t *hooks, void *addr_a, size_t size_a, void *addr_b, size_t size_b,
    bool committed, unsigned ind) {
	struct range *a, *b;

	enter(8, hooks, ind);
	a = exact("merge", addr_a, size_a);
	b = exact("merge", addr_b, size_b);
	if (a == NULL || b != a + 1 || a->committed != committed || b->committed != committed) {
		fault("merge", addr_a, size_a);
		return leave(true);
	}
	if (refuses_some && calls[8] % 2 == 0)
		return leave(true);
	a->size += size_b;
	memmove(b, b + 1, (size_t)(ranges + nranges - (b + 1)) * sizeof(*b));
	nranges--;
	return leave(false);
}

/* All pages zero, nothing given. */
static void
new_region(void) {
	int fixed = region == NULL ? 0 : MAP_FIXED;

	region = mmap(region, REGION, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed,
	    -1, 0);
	if (region == MAP_FAILED)
		bail_out("mmap");
	region_next = region;
	nranges = 0;
}

/* A new arena with these members; the model starts empty. */
static unsigned
make(unsigned members) {
	extent_hooks_t *hooks = &table;
	unsigned ind = 0;
	size_t len = sizeof(ind);

	new_region();
	memset(calls, 0, sizeof(calls));
	faults = wrong_ind = 0;
	table = (extent_hooks_t){ my_alloc, members & m_dalloc ? my_dalloc : NULL,
		members & m_destroy ? my_destroy : NULL, members & m_commit ? my_commit : NULL,
		members & m_decommit ? my_decommit : NULL, members & m_lazy ? my_purge_lazy : NULL,
		members & m_forced ? my_purge_forced : NULL, members & m_split ? my_split : NULL,
		members & m_merge ? my_merge : NULL };
	want_ind = ctl_unsigned("arenas.narenas");
	if (mallctl("arenas.create", &ind, &len, &hooks, sizeof(hooks)) != 0)
		return 0;
	want_ind = ind;
	return ind;
}

static int
ctl_arena(const char *what, unsigned ind) {
	char name[64];

	return ctl_void(ctl_name(name, "arena.%u.%s", ind, what));
}

static struct {
	unsigned char *p;
	size_t size;
} live[LIVE];

/*
 * Blocks of the arena, at random; wrong: outside the region, not aligned, not zero, contents lost.
 */
static unsigned
use(unsigned ind, uint64_t seed, int steps) {
	int flags = MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE;
	unsigned wrong = 0;

	for (int i = 0; i < steps; i++) {
		size_t k = test_random(&seed) % LIVE, lg = test_random(&seed) % 16;
		size_t size = 1 + test_random(&seed) % (k % 16 == 0 ? 2000000 : k % 3 == 0 ? 40000 : 1000);
		unsigned char *p = live[k].p;

		if (p != NULL) {
			wrong += wrong_if(p[0] != (unsigned char)k)
			    || wrong_if(p[live[k].size - 1] != (unsigned char)k);
			if (i % 4 == 0) {
				p = rallocx(p, size, flags);
				wrong += wrong_if(p == NULL) || wrong_if(p[0] != (unsigned char)k);
			} else {
				dallocx(p, MALLOCX_TCACHE_NONE);
				p = NULL;
			}
		}
		if (p == NULL && i % 3 != 0) {
			bool zero = i % 7 == 0;

			p = mallocx(size, flags | (i % 5 == 0 ? MALLOCX_LG_ALIGN(lg) : 0)
			    | (zero ? MALLOCX_ZERO : 0));
			wrong += wrong_if(p == NULL)
			    || wrong_if((i % 5 == 0 && ((uintptr_t)p & (((size_t)1 << lg) - 1)) != 0));
			for (size_t n = 0; zero && p != NULL && n < size; n++)
				wrong += p[n] != 0;
		}
		live[k].p = p;
		live[k].size = size;
		if (p != NULL) {
			wrong += wrong_if((char *)p < region) || wrong_if((char *)p >= region + REGION);
			p[0] = p[size - 1] = (unsigned char)k;
		}
		if (i % 2000 == 1999)
			ctl_arena("purge", ind);
	}
	return wrong;
}

static void
forget(void) {
	memset(live, 0, sizeof(live));
}

static void
one(const char *name, unsigned members, ssize_t muzzy) {
	unsigned ind = make(members);
	char node[64];

	ok(ind != 0, "%s: an arena", name);
	ctl_write(ctl_name(node, "arena.%u.muzzy_decay_ms", ind), muzzy);
	is_uint(use(ind, 42, (int)test_rounds(4000, 12000)), 0,
	    "%s: blocks are right and in the region", name);
	is_int(ctl_arena("reset", ind), 0, "%s: reset", name);
	forget();
	is_uint(use(ind, 43, (int)test_rounds(2000, 4000)), 0, "%s: and again", name);
	is_int(ctl_arena("destroy", ind), 0, "%s: destroy", name);
	forget();
	is_uint(faults, 0, "%s: each call names what is there", name);
	is_uint(wrong_ind, 0, "%s: with the table and the index", name);
	if ((members & m_destroy) != 0)
		is_uint(nranges, 0, "%s: nothing is left", name);
	ok(calls[0] > 0 && (!(members & m_split) || calls[7] > 10) && (!(members & m_merge)
	    || calls[8] > 10), "%s: %u alloc, %u dalloc, %u destroy, %u commit, %u decommit, %u lazy, "
	    "%u forced, %u split, %u merge", name, calls[0], calls[1], calls[2], calls[3], calls[4],
	    calls[5], calls[6], calls[7], calls[8]);
}

static int
child_model(void) {
	one("all members", m_all, 0);
	one("alloc alone", 0, 0);
	one("no dalloc", m_all & ~m_dalloc, 10000);
	one("no merge", m_all & ~m_merge, 0);
	one("no split, no merge", m_all & ~(m_split | m_merge), 0);
	one("no decommit", m_all & ~(m_decommit | m_dalloc), 0);
	one("only lazy", m_destroy | m_lazy | m_split | m_merge, 10000);
	uncommitted = true;
	one("uncommitted pages", m_all, 0);
	one("uncommitted, no dalloc", m_all & ~m_dalloc, 0);
	uncommitted = false;
	refuses_some = true;
	one("now and then refused", m_all, 10000);
	one("refused, no dalloc", m_all & ~m_dalloc, 0);
	refuses_some = false;
	allocates = true;
	one("hooks that allocate", m_all, 10000);
	uncommitted = refuses_some = true;
	one("everything at once", m_all, 0);
	return done_testing();
}

static extent_hooks_t *system_pages;

static void
read_system_pages(void) {
	size_t len = sizeof(system_pages);

	if (mallctl("arena.0.extent_hooks", &system_pages, &len, NULL, 0) != 0)
		bail_out("no hooks");
}
static size_t mapped, nmapped, step;
static bool agrees;

static void *
count_alloc(extent_hooks_t *hooks, void *at, size_t size, size_t alignment, bool *zero,
    bool *commit, unsigned ind) {
	(void)hooks;
	mapped += size;
	step = nmapped++ == 0 ? size : step;
	return system_pages->alloc(system_pages, at, size, alignment, zero, commit, ind);
}

static bool
refuse_split(extent_hooks_t *hooks, void *addr, size_t size, size_t size_a, size_t size_b,
    bool committed, unsigned ind) {
	(void)hooks;
	(void)addr;
	(void)size;
	(void)size_a;
	(void)size_b;
	(void)committed;
	(void)ind;
	return !agrees;
}

static unsigned
make_unsplit(void) {
	static extent_hooks_t unsplit = {.alloc = count_alloc, .split = refuse_split};
	extent_hooks_t *hooks = &unsplit;
	size_t len = sizeof(unsigned);
	unsigned ind = 0;

	read_system_pages();
	if (mallctl("arenas.create", &ind, &len, &hooks, sizeof(hooks)) != 0)
		bail_out("no arena");
	return ind;
}

/* Growth steps that are never split would each be lost but for one request. */
static int
child_refused(void) {
	size_t used = 0;
	unsigned ind = make_unsplit();

	for (unsigned i = 0; i < 1000; i++) {
		void *p = keep(mallocx(20000 + i % 7 * 4096, MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE));

		used += sallocx(p, 0);
	}
	for (unsigned i = 0; i < 1000; i++)
		used += sallocx(keep(mallocx(600, MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE)), 0);
	ok(mapped <= used + used / 4 + ((size_t)4 << 20), "without splits %zu bytes for %zu", mapped,
	    used);
	return done_testing();
}

/* A hook that refused while there was something to split is asked again when there is more. */
static int
child_agrees(void) {
	int flags = MALLOCX_ARENA(make_unsplit()) | MALLOCX_TCACHE_NONE;

	keep(mallocx(20000, flags));
	is_uint(nmapped, 2, "a step of %zu bytes that may not be split, and a request", step);
	keep(mallocx(step, flags));
	is_uint(nmapped, 2, "the step serves as a whole");
	agrees = true;
	for (unsigned i = 0; i < 1000; i++)
		keep(mallocx(20000, flags));
	ok(nmapped < 50, "then 1000 requests take %zu mappings", nmapped - 2);
	return done_testing();
}

/* Of another arena; what is served while another thread forks is of none. */
static bool
is_elsewhere(void *p) {
	unsigned ind;
	size_t len = sizeof(ind);

	return ((char *)p < region || (char *)p >= region + REGION)
	    && mallctl("arenas.lookup", &ind, &len, &p, sizeof(p)) == 0;
}

static void *
worker(void *arg) {
	uint64_t seed = (uint64_t)(uintptr_t)arg;
	char *mine[200] = {NULL};
	unsigned ind = want_ind, wrong = 0;
	int steps = (int)test_rounds(5000, 20000);

	/* Through the thread's cache: its own arena is the one with hooks. */
	if (mallctl("thread.arena", NULL, NULL, &ind, sizeof(ind)) != 0)
		wrong++;
	for (int i = 0; i < steps; i++) {
		size_t k = test_random(&seed) % 200;
		size_t size = 1 + test_random(&seed) % (k % 20 == 0 ? 200000 : 5000);

		free(mine[k]);
		mine[k] = keep(malloc(size));
		wrong += is_elsewhere(mine[k]);
		mine[k][size - 1] = 1;
		if (i % (steps / 4) == 0 && fork() == 0) {
			for (int n = 0; n < 1000; n++)
				free(keep(malloc(1 + test_random(&seed) % 50000)));
			_exit(0);
		}
	}
	for (int k = 0; k < 200; k++)
		free(mine[k]);
	while (wait(NULL) > 0)
		continue;
	ctl_void("thread.tcache.flush");
	return (void *)(uintptr_t)wrong;
}

static int
child_threads(void) {
	pthread_t t[6];
	size_t wrong = 0;
	unsigned ind;
	ssize_t ms = 20;
	char name[64];
	bool bound = true;

	allocates = true;
	ind = make(m_all);
	ctl_write(ctl_name(name, "arena.%u.dirty_decay_ms", ind), ms);
	for (uintptr_t i = 0; i < 6; i++)
		pthread_create(&t[i], NULL, worker, (void *)(i + 1));
	for (int i = 0; i < 20; i++) {
		usleep(10000);
		ctl_arena(i % 2 ? "purge" : "decay", ind);
		ctl_epoch();
	}
	for (int i = 0; i < 6; i++) {
		void *w;

		pthread_join(t[i], &w);
		wrong += (size_t)w;
	}
	is_uint(wrong, 0, "six threads bound to the arena: all blocks from it");
	for (int i = 0; bound && i < 100000; i++) {
		ctl_epoch();
		bound = ctl_unsigned(ctl_name(name, "stats.arenas.%u.nthreads", ind)) != 0;
		usleep(1000);
	}
	is_int(ctl_arena("destroy", ind), 0, "destroyed when they have gone");
	is_uint(faults, 0, "each call names what is there");
	is_uint(wrong_ind, 0, "with the table and the index");
	is_uint(nranges, 0, "nothing is left");
	return done_testing();
}

/* Arena 0, which serves all and would serve the hooks too. */
static int
child_zero(void) {
	extent_hooks_t *hooks = &table, *old = NULL;
	size_t len = sizeof(old), before;
	char *p, *small, *huge;

	new_region();
	allocates = true;
	is_int(mallctl("arena.0.extent_hooks", &old, &len, NULL, 0), 0, "the system's table");
	table = *old;
	ok(table.alloc && table.dalloc && table.destroy && table.commit && table.decommit
	    && table.purge_lazy && table.purge_forced && table.split && table.merge, "has all members");
	table.alloc = my_alloc;
	is_int(mallctl("arena.0.extent_hooks", &old, &len, &hooks, sizeof(hooks)), 0,
	    "own alloc, the rest its");
	ok(old != &table, "the old table is given");
	is_int(mallctl("arena.0.extent_hooks", &old, &len, NULL, 0), 0, "read");
	ok(old == &table, "it is ours now");
	before = calls[0];
	p = keep(malloc(7 << 20));
	ok(p >= region && p < region + REGION && calls[0] > before, "a large block comes from us");
	memset(p, 1, 7 << 20);
	huge = keep(malloc(30 << 20));
	ok(huge < region || huge >= region + REGION, "an oversized one from an arena of its own");
	for (int i = 0; i < 100000; i++)
		keep(malloc(100));
	small = keep(malloc(100));
	ok(small >= region && small < region + REGION, "small ones too, though the hook allocates");
	if (ctl_bool("config.stats")) {
		ctl_epoch();
		size_t allocated = ctl_size("stats.allocated"), active = ctl_size("stats.active");

		char *grow[64] = {NULL};

		hoard = 7 << 20;
		for (int i = 0; i < 64 && hoard != 0; i++)
			grow[i] = keep(malloc(7 << 20));
		for (int i = 0; i < 64; i++)
			free(grow[i]);
		ok(hoarded != NULL && hoard == 0, "a hook has allocated 7 MiB");
		ctl_epoch();
		ok(ctl_size("stats.allocated") >= allocated + (7 << 20), "which are in the statistics");
		ok(ctl_size("stats.active") >= active + (7 << 20), "as pages too");
		free(hoarded);
		is_int(ctl_arena("purge", MALLCTL_ARENAS_ALL), 0, "purge of all arenas");
		ctl_epoch();
		is_uint(ctl_size("stats.arenas.4096.pdirty"), 0, "no page is dirty");
	}
	free(p);
	free(huge);
	free(small);
	is_int(ctl_arena("purge", 0), 0, "purge by its own functions");
	return done_testing();
}

static int
child_rules(void) {
	extent_hooks_t *hooks = NULL, *got = NULL, bad = {0};
	size_t len = sizeof(got), ulen = sizeof(unsigned);
	unsigned ind = 0, last = ctl_unsigned("arenas.narenas");
	char name[64];
	struct {
		extent_hooks_t *hooks;
		bool own_metadata;
	} config = {&table, true};

	is_int(mallctl("arena.0.extent_hooks", NULL, NULL, &hooks, sizeof(hooks)), EINVAL,
	    "NULL is refused");
	hooks = &bad;
	is_int(mallctl("arena.0.extent_hooks", NULL, NULL, &hooks, sizeof(hooks)), EINVAL,
	    "no alloc: refused");
	is_int(mallctl("arenas.create", &ind, &ulen, &hooks, sizeof(hooks)), EINVAL,
	    "also by arenas.create");
	is_uint(ctl_unsigned("arenas.narenas"), last, "which makes none");
	is_int(mallctl("arena.0.extent_hooks", &got, &len, &hooks, 4), EINVAL, "wrong length");
	is_int(mallctl(ctl_name(name, "arena.%u.extent_hooks", last), &got, &len, NULL, 0), EFAULT,
	    "no such arena");
	is_int(mallctl("arena.4096.extent_hooks", &got, &len, NULL, 0), EFAULT, "all arenas");
	is_int(mallctl("arena.1.extent_hooks", &got, &len, NULL, 0), 0,
	    "an automatic one not there yet");
	ok(!ctl_bool("arena.1.initialized"), "reading does not make it");
	make(m_all);
	hooks = &table;
	want_ind = 1;
	is_int(mallctl("arena.1.extent_hooks", &got, &len, &hooks, sizeof(hooks)), 0, "writing does");
	ok(ctl_bool("arena.1.initialized"), "it is there");
	got = mallocx(100, MALLOCX_ARENA(1) | MALLOCX_TCACHE_NONE);
	ok((char *)got >= region && (char *)got < region + REGION, "with the hooks");
	dallocx(got, MALLOCX_TCACHE_NONE);
	want_ind = ctl_unsigned("arenas.narenas");
	is_int(mallctl("experimental.arenas_create_ext", &ind, &ulen, &config, sizeof(config)), 0,
	    "arenas_create_ext");
	is_uint(ind, want_ind, "the next index");
	got = mallocx(100, MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE);
	ok((char *)got >= region && (char *)got < region + REGION, "from its hooks");
	is_int(mallctl("experimental.arenas_create_ext", &ind, &ulen, &config, 8), EINVAL,
	    "wrong length");
	is_int(ctl_arena("destroy", ind), 0, "destroy");
	is_uint(faults + wrong_ind, 0, "all calls as they should be");
	return done_testing();
}

/* Pages that are scarce: less than the first step of growth. */
static int
child_scarce(void) {
	size_t page = ctl_size("arenas.page");
	unsigned ind;
	int n = 0, flags;
	void *p[100];

	limit = 64 * page;
	ind = make(m_all);
	flags = MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE;
	ok(mallocx(50 * page, flags) != NULL, "what the hook can give is got");
	ok(mallocx(70 * page, flags) == NULL, "what it cannot give is not");
	for (int i = 0; i < 100; i++)
		n += (p[i] = mallocx(5000, flags)) != NULL;
	is_int(n, 100, "small blocks, sampled ones too");
	is_int(ctl_arena("destroy", ind), 0, "destroy");
	is_uint(faults + wrong_ind + nranges, 0, "all given back");
	limit = 600 * page;
	ind = make(m_all);
	flags = MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE;
	for (int i = 0; i < 2000; i++)
		keep(mallocx(5 * page, flags));
	ok(calls[0] < 500, "steps of growth that are refused begin anew: %u calls", calls[0]);
	is_int(ctl_arena("destroy", ind), 0, "destroy");
	return done_testing();
}

static unsigned inside_ind;
static int inside_err = -1;

static bool
reset_dalloc(extent_hooks_t *hooks, void *addr, size_t size, bool committed, unsigned ind) {
	(void)hooks;
	(void)addr;
	(void)size;
	(void)committed;
	(void)ind;
	if (inside_ind != 0)
		inside_err = ctl_arena("reset", inside_ind);
	return true;
}

/* A hook that a purge of the samples' pages has called resets the arena: nothing is freed. */
static int
child_inside(void) {
	static extent_hooks_t own;
	static void *p[2000];
	extent_hooks_t *hooks = &own;
	size_t len = sizeof(unsigned);
	unsigned ind;
	char name[64];

	read_system_pages();
	own = *system_pages;
	own.dalloc = reset_dalloc;
	if (mallctl("arenas.create", &ind, &len, &hooks, sizeof(hooks)) != 0)
		bail_out("no arena");
	int flags = MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE;
	size_t size = 16 * ctl_size("arenas.page"); /* large, whatever the pages are */
	char *large = keep(mallocx(size, flags));
	memset(large, 7, size);
	for (int i = 0; i < 2000; i++)
		p[i] = mallocx(1000, flags);
	for (int i = 0; i < 2000; i++)
		dallocx(p[i], flags);
	inside_ind = ind;
	is_int(ctl_arena("purge", ind), 0, "purge");
	inside_ind = 0;
	is_int(inside_err, EFAULT, "a reset from a hook inside it is refused");
	ctl_epoch();
	is_uint(ctl_size(ctl_name(name, "stats.arenas.%u.large.allocated", ind)), sallocx(large, 0),
	    "and has freed nothing");
	is_int(ctl_arena("reset", ind), 0, "afterwards it is not");
	return done_testing();
}

static unsigned amid_ind, amid_other, amid_nested;
static struct {
	int reset, destroy, reset_other, reset_nested, background, max_background;
	size_t printed;
} amid;

static void
amid_write(void *opaque, const char *s) {
	(void)opaque;
	amid.printed += strlen(s);
}

static void
amid_ask(unsigned ind) {
	bool off = false;
	size_t one = 1;

	amid.reset = ctl_arena("reset", ind);
	amid.destroy = ctl_arena("destroy", ind);
	amid.reset_other = ctl_arena("reset", amid_other);
	amid.background = ctl_write("background_thread", off);
	amid.max_background = ctl_write("max_background_threads", one);
	malloc_stats_print(amid_write, NULL, NULL);
	keep(mallocx(1 << 20, MALLOCX_ARENA(amid_nested) | MALLOCX_TCACHE_NONE));
}

static void *
amid_alloc(extent_hooks_t *hooks, void *at, size_t size, size_t alignment, bool *zero,
    bool *commit, unsigned ind) {
	(void)hooks;
	if (ind == amid_ind && amid.printed == 0)
		amid_ask(ind);
	else if (ind == amid_nested)
		amid.reset_nested = ctl_arena("reset", amid_ind);
	return system_pages->alloc(system_pages, at, size, alignment, zero, commit, ind);
}

/* The hook that a request has called asks for what would end the request's arena, and more. */
static int
child_amid(void) {
	static extent_hooks_t own;
	extent_hooks_t *hooks = &own;
	size_t len = sizeof(unsigned);

	read_system_pages();
	own = *system_pages;
	own.alloc = amid_alloc;
	if (mallctl("arenas.create", &amid_other, &len, NULL, 0) != 0
	    || mallctl("arenas.create", &amid_nested, &len, &hooks, sizeof(hooks)) != 0
	    || mallctl("arenas.create", &amid_ind, &len, &hooks, sizeof(hooks)) != 0)
		bail_out("no arena");
	char *p = mallocx(1 << 20, MALLOCX_ARENA(amid_ind) | MALLOCX_TCACHE_NONE);
	memset(p, 1, 1 << 20);
	is_int(amid.reset, EFAULT, "reset of the arena is refused");
	is_int(amid.destroy, EFAULT, "and to destroy it");
	is_int(amid.reset_nested, EFAULT, "also by the hook of an arena that the hook has used");
	is_int(amid.reset_other, 0, "reset of another one is not");
	is_int(amid.background, EAGAIN, "background threads are not awaited");
	is_int(amid.max_background, EAGAIN, "nor ended to have another number of them");
	ok(amid.printed > 1000, "statistics are printed: %zu bytes", amid.printed);
	is_uint(sallocx(p, 0), 1 << 20, "the request is served");
	is_int(ctl_arena("reset", amid_ind), 0, "afterwards the arena is reset");
	is_int(ctl_arena("destroy", amid_ind), 0, "and destroyed");
	return done_testing();
}

static unsigned n_at_limit;

static bool
limit_dalloc(extent_hooks_t *hooks, void *addr, size_t size, bool committed, unsigned ind) {
	(void)hooks;
	(void)addr;
	(void)size;
	(void)committed;
	(void)ind;
	n_at_limit++;
	return true;
}

/*
 * Statistics at a limit of memory take back what arenas do not use, while a lock of mallctl is
 * held; so they call no hook, which might use mallctl. Objects of this arena lie in stocks, and its
 * unused memory is limited, so that its slabs would go back at once.
 */
static int
child_limit(void) {
	static extent_hooks_t own;
	static void *p[40000];
	extent_hooks_t *hooks = &own;
	size_t len = sizeof(unsigned), large = 4 * ctl_size("arenas.page");
	unsigned ind, cache = 0;
	char name[64];

	read_system_pages();
	own = *system_pages;
	own.dalloc = limit_dalloc;
	for (int i = 0; i < 300; i++) /* much to be told */
		mallctl("arenas.create", &ind, &len, NULL, 0);
	if (mallctl("arenas.create", &ind, &len, &hooks, sizeof(hooks)) != 0
	    || mallctl("tcache.create", &cache, &len, NULL, 0) != 0
	    || ctl_write(ctl_name(name, "arena.%u.oversize_threshold", ind), large) != 0)
		bail_out("no arena");
	int flags = MALLOCX_ARENA(ind) | MALLOCX_TCACHE(cache);
	for (int i = 0; i < 40000; i++)
		p[i] = mallocx(64, flags);
	for (int i = 0; i < 40000; i++)
		dallocx(p[i], flags);
	ctl_write("tcache.flush", cache);
	size_t used = proc_status_bytes("VmSize");
	if (setrlimit(RLIMIT_AS, &(struct rlimit){used, RLIM_INFINITY}) != 0)
		bail_out("no limit");
	n_at_limit = 0;
	ctl_epoch();
	is_uint(n_at_limit, 0, "no hook is called");
	return done_testing();
}

static const struct test_child children[] = {
	{"model", child_model},
	{"refused", child_refused},
	{"agrees", child_agrees},
	{"threads", child_threads},
	{"zero", child_zero},
	{"rules", child_rules},
	{"scarce", child_scarce},
	{"inside", child_inside},
	{"amid", child_amid},
	{"limit", child_limit},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	child_runs("model", NULL);
	child_runs("model", "dirty_decay_ms:0,retain:false");
	child_runs("model", "prof:true,lg_prof_sample:12,background_thread:true,dirty_decay_ms:10");
	child_runs("refused", NULL);
	child_runs("refused", "prof:true,lg_prof_sample:12");
	child_runs("threads", NULL);
	child_runs("threads", "prof:true,lg_prof_sample:12");
	child_runs("threads", "background_thread:true,dirty_decay_ms:0");
	child_runs("zero", "narenas:1");
	child_runs("rules", "narenas:2");
	child_runs("scarce", NULL);
	child_runs("scarce", "prof:true,lg_prof_sample:5");
	child_runs("agrees", "cache_oblivious:false");
	child_runs("amid", NULL);
	child_runs("limit", NULL);
	if (ctl_bool("config.prof"))
		child_runs("inside", "prof:true,lg_prof_sample:0");
	return done_testing();
}
