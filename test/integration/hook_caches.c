/*
 * Hooks of the program that change or delete the cache of the very request that calls them: each
 * kind of hook with each such change, while blocks of many sizes come and go through every function
 * that allocates. No block is lost, handed out twice or written to; the byte counters are exact.
 * An extent hook runs in the middle of a fill or a flush, so it may not change that cache at all.
 */
#include "ctl.h"

#define N_LIVE 256
#define N_STEPS test_rounds(6000, 40000)

static unsigned id;            /* of the explicit cache in use */
static unsigned arenas[2];     /* those between which thread.arena changes */
static bool is_in_hook;
static unsigned n_calls;
static unsigned n_refused, n_accepted; /* by tcache.flush and tcache.destroy */
static bool has_cache;         /* id is that of a cache */
static unsigned empty_id;      /* of an explicit cache that no request names */
static extent_hooks_t *system_pages; /* NULL: the program has no extent hooks */
static uint64_t reset_bytes;   /* allocated, and gone by a reset without a free, or kept */
static unsigned n_wrong;       /* blocks, and answers */
static bool grows;             /* some blocks are kept, for new maxima of mapped memory */

/* ------------------------------------------------------------------ what a hook does */

static void
set_enabled(bool on) {
	ctl_write("thread.tcache.enabled", on);
}

static void
act_off_on(void) {
	set_enabled(false);
	if (n_calls % 2 == 0)
		set_enabled(true);
}

static void
act_off_use_on(void) {
	static void *got[64];

	set_enabled(n_calls % 3 != 0);
	for (unsigned i = 0; i < 64; i++)
		got[i] = keep(malloc(16u << i % 8));
	for (unsigned i = 0; i < 64; i++)
		free(got[i]);
	set_enabled(true);
}

static void
act_max(void) {
	size_t max = (size_t)1024 << n_calls % 12;

	ctl_write("thread.tcache.max", max);
}

static void
act_ncached(void) {
	const char *text = n_calls % 2 == 0 ? "0-32768:3" : "0-32768:100";

	ctl_write("thread.tcache.ncached_max.write", text);
}

/* tcache.flush or tcache.destroy. */
static bool
end_cache(const char *node, unsigned which) {
	int err = ctl_write(node, which);

	n_refused += err == EAGAIN;
	n_accepted += err == 0;
	n_wrong += err != 0 && (err != EAGAIN || system_pages == NULL);
	return err == 0;
}

static bool
make_cache(unsigned *which) {
	size_t len = sizeof(*which);

	return mallctl("tcache.create", which, &len, NULL, 0) == 0;
}

static void
act_flush(void) {
	ctl_void("thread.tcache.flush");
	if (has_cache)
		end_cache("tcache.flush", id);
	end_cache("tcache.flush", empty_id);
}

/* No extent hook makes a cache: the loop does then. */
static void
act_destroy(void) {
	if (has_cache && end_cache("tcache.destroy", id))
		has_cache = make_cache(&id);
	if (!has_cache && system_pages == NULL)
		bail_out("no cache");
}

static void
act_arena(void) {
	ctl_write("thread.arena", arenas[n_calls % 2]);
}

/* Another arena than that of the request. */
static void
act_reset(void) {
	static unsigned other;
	size_t len = sizeof(other);
	char name[40];

	if (other == 0 && mallctl("arenas.create", &other, &len, NULL, 0) != 0)
		bail_out("no arena");
	size_t got = sallocx(keep(mallocx(100, MALLOCX_ARENA(other) | MALLOCX_TCACHE_NONE)), 0);
	reset_bytes += system_pages == NULL ? got : 0; /* what an extent hook requests is not counted */
	ctl_void(ctl_name(name, "arena.%u.reset", other));
}

static void
act_all(void) {
	static void (*const each[])(void)
	    = {act_off_on, act_max, act_destroy, act_ncached, act_arena, act_flush, act_off_use_on};

	each[n_calls % 7]();
}

static const struct {
	const char *name;
	void (*f)(void);
} acts[] = {
	{"the cache off, and on", act_off_on},
	{"off, requests, and on", act_off_use_on},
	{"another maximum", act_max},
	{"other limits of bins", act_ncached},
	{"a flush", act_flush},
	{"the explicit cache destroyed", act_destroy},
	{"another arena", act_arena},
	{"an arena reset", act_reset},
	{"all in turn", act_all},
};

static void (*act)(void);

static void
hook_runs(void) {
	if (act == NULL || is_in_hook)
		return;
	is_in_hook = true;
	n_calls++;
	act();
	is_in_hook = false;
}

/* ------------------------------------------------------------------ kinds of hooks */

static void
on_event(bool is_alloc, uint64_t allocated, uint64_t deallocated) {
	(void)is_alloc;
	(void)allocated;
	(void)deallocated;
	hook_runs();
}

static void
on_message(void *opaque, const char *text) {
	(void)opaque;
	(void)text;
	hook_runs();
}

static void
on_sample(const void *ptr, size_t size, void **bt, unsigned len, size_t usable) {
	(void)ptr;
	(void)size;
	(void)bt;
	(void)len;
	(void)usable;
	hook_runs();
}

static void
on_sample_free(const void *ptr, size_t usable) {
	(void)ptr;
	(void)usable;
	hook_runs();
}

static void
on_backtrace(void **vec, unsigned *len, unsigned max) {
	(void)max;
	vec[0] = (void *)(uintptr_t)0x1000;
	*len = 1;
	hook_runs();
}

static void
on_dump(const char *path) {
	unlink(path);
	hook_runs();
}

static void
on_alloc(void *extra, unsigned how, void *p, uintptr_t result, const uintptr_t *args) {
	(void)extra;
	(void)how;
	(void)p;
	(void)result;
	(void)args;
	hook_runs();
}

/* Extent hooks: all of them are the program's, and those of one kind change the caches. */
static const char *const extent_kinds[] = {"alloc", "dalloc", "destroy", "commit", "decommit",
    "purge_lazy", "purge_forced", "split", "merge"};
static const char *extent_kind;

static bool
is_kind(const char *kind) {
	return strcmp(extent_kind, kind) == 0;
}

static void
extent_runs(const char *kind) {
	if (is_kind(kind))
		hook_runs();
}

static void *
on_extent_alloc(extent_hooks_t *h, void *at, size_t size, size_t alignment, bool *zero,
    bool *commit, unsigned ind) {
	(void)h;
	extent_runs("alloc");
	void *p = system_pages->alloc(system_pages, at, size, alignment, zero, commit, ind);
	*commit = false; /* so that there are calls of commit */
	return p;
}

/* The hook that would come first refuses, so that there are calls of the next one. */
static bool
on_dalloc(extent_hooks_t *h, void *addr, size_t size, bool committed, unsigned ind) {
	(void)h;
	extent_runs("dalloc");
	return !is_kind("dalloc")
	    || system_pages->dalloc(system_pages, addr, size, committed, ind);
}

static void
on_destroy(extent_hooks_t *h, void *addr, size_t size, bool committed, unsigned ind) {
	(void)h;
	extent_runs("destroy");
	system_pages->destroy(system_pages, addr, size, committed, ind);
}

#define RANGE_HOOK(kind) \
static bool \
on_##kind(extent_hooks_t *h, void *addr, size_t size, size_t offset, size_t length, \
    unsigned ind) { \
	(void)h; \
	extent_runs(#kind); \
	return system_pages->kind(system_pages, addr, size, offset, length, ind); \
}
RANGE_HOOK(purge_lazy)
RANGE_HOOK(purge_forced)

/* The pages stay as they were: the system's functions refuse these two where it need not count. */
static bool
on_commit(extent_hooks_t *h, void *addr, size_t size, size_t offset, size_t length, unsigned ind) {
	(void)h;
	(void)addr;
	(void)size;
	(void)offset;
	(void)length;
	(void)ind;
	extent_runs("commit");
	return false;
}

static bool
on_decommit(extent_hooks_t *h, void *addr, size_t size, size_t offset, size_t length,
    unsigned ind) {
	(void)h;
	extent_runs("decommit");
	return is_kind("purge_forced")
	    || system_pages->purge_forced(system_pages, addr, size, offset, length, ind);
}

static bool
on_split(extent_hooks_t *h, void *addr, size_t size, size_t a, size_t b, bool committed,
    unsigned ind) {
	(void)h;
	extent_runs("split");
	return system_pages->split(system_pages, addr, size, a, b, committed, ind);
}

static bool
on_merge(extent_hooks_t *h, void *a, size_t size_a, void *b, size_t size_b, bool committed,
    unsigned ind) {
	(void)h;
	extent_runs("merge");
	return system_pages->merge(system_pages, a, size_a, b, size_b, committed, ind);
}

/* An arena, with the program's extent hooks if it has any; its unused pages go at once then. */
static unsigned
make_arena(void) {
	static extent_hooks_t hooks = {on_extent_alloc, on_dalloc, on_destroy, on_commit, on_decommit,
	    on_purge_lazy, on_purge_forced, on_split, on_merge};
	extent_hooks_t *own = &hooks;
	unsigned ind;
	size_t len = sizeof(ind);
	ssize_t at_once = 0, never = -1;
	char name[60];

	if (mallctl("arenas.create", &ind, &len, system_pages != NULL ? &own : NULL,
	    system_pages != NULL ? sizeof(own) : 0) != 0)
		bail_out("no arena");
	if (system_pages != NULL) {
		ctl_write(ctl_name(name, "arena.%u.dirty_decay_ms", ind), at_once);
		if (is_kind("purge_lazy"))
			ctl_write(ctl_name(name, "arena.%u.muzzy_decay_ms", ind), never);
	}
	return ind;
}

/* ------------------------------------------------------------------ blocks that come and go */

static struct block {
	unsigned char *p;
	size_t size;
	unsigned char fill;
} live[N_LIVE];

static size_t
some_size(uint64_t *seed) {
	static const size_t most[] = {64, 64, 512, 512, 4096, 4096, 20000, 70000, 300000};

	return 1 + test_random(seed) % most[test_random(seed) % 9];
}

static void *
from_batch(size_t size) {
	void *p = NULL;
	size_t n = 0, len = sizeof(n);
	struct {
		void **ptrs;
		size_t num, size;
		int flags;
	} packet = {&p, 1, size, 0};

	mallctl("experimental.batch_alloc", &n, &len, &packet, sizeof(packet));
	return p;
}

static void *
some_block(uint64_t *seed, size_t size) {
	switch (test_random(seed) % 8) {
	case 0: return calloc(1, size);
	case 1: return aligned_alloc(64, size);
	case 2: return mallocx(size, MALLOCX_TCACHE(id));
	case 3: return mallocx(size, MALLOCX_TCACHE(id) | MALLOCX_ARENA(arenas[0]));
	case 4: return mallocx(size, MALLOCX_TCACHE_NONE);
	case 5: return from_batch(size);
	default: return malloc(size);
	}
}

static void
block_check(const struct block *b) {
	n_wrong += b->p != NULL && !is_filled(b->p, b->fill, b->size);
}

static void
block_fill(struct block *b, uint64_t *seed) {
	b->fill = (unsigned char)(test_random(seed) | 1);
	memset(b->p, b->fill, b->size);
}

static void
block_step(struct block *b, uint64_t *seed) {
	unsigned what = test_random(seed) % 8;
	size_t size = some_size(seed);

	block_check(b);
	if (b->p != NULL && what < 2) {
		unsigned char *p = what == 0 ? realloc(b->p, size)
		    : rallocx(b->p, size, MALLOCX_TCACHE(id));

		n_wrong += !is_filled(p, b->fill, size < b->size ? size : b->size);
		b->p = p;
	} else {
		if (what == 2 && b->p != NULL)
			dallocx(b->p, MALLOCX_TCACHE(id));
		else
			free(b->p);
		b->p = some_block(seed, size);
	}
	if (b->p == NULL)
		bail_out("no memory");
	b->size = size;
	block_fill(b, seed);
}

/* Small blocks that stay: caches are filled from new memory. */
static void
keep_some(void) {
	for (unsigned i = 0; i < 1000; i++)
		reset_bytes += sallocx(keep(malloc(900)), 0);
}

/* Bytes allocated and not freed, as counted; what another thread freed is no part of it. */
static uint64_t
net(void) {
	return ctl_u64("thread.allocated") - ctl_u64("thread.deallocated");
}

/* An arena ends with blocks in it. */
static void
destroy_arena(void) {
	unsigned ind = make_arena();
	char name[40];

	for (size_t size = 100; size < 200000; size *= 10)
		reset_bytes += sallocx(keep(mallocx(size, MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE)), 0);
	ctl_void(ctl_name(name, "arena.%u.destroy", ind));
}

static void
act_in_loop(const char *kind, unsigned i) {
	uint64_t seed = 1 + i, before = net();

	n_calls = 0;
	reset_bytes = 0;
	n_wrong = 0;
	act = acts[i].f;
	for (unsigned step = 0; step < N_STEPS; step++) {
		if (grows && step % 600 == 0)
			keep_some();
		if (system_pages != NULL && step % 600 == 0)
			destroy_arena();
		if (!has_cache && !(has_cache = make_cache(&id)))
			bail_out("no cache");
		block_step(&live[test_random(&seed) % N_LIVE], &seed);
	}
	act = NULL;
	for (unsigned k = 0; k < N_LIVE; k++) {
		block_check(&live[k]);
		free(live[k].p);
		live[k].p = NULL;
	}
	ok(n_calls > 0 && n_wrong == 0, "%s, %s: %u calls, %u blocks wrong", kind, acts[i].name,
	    n_calls, n_wrong);
	is_uint(net(), before + reset_bytes, "all counted");
	set_enabled(true);
}

static int
loops(const char *kind) {
	arenas[0] = make_arena();
	arenas[1] = make_arena();
	has_cache = make_cache(&id);
	if (!has_cache || !make_cache(&empty_id))
		bail_out("no cache");
	if (system_pages != NULL && ctl_write("thread.arena", arenas[0]) != 0)
		bail_out("no arena");
	for (unsigned i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
		act_in_loop(kind, i);
	return done_testing();
}

static int
child_extent(void) {
	size_t len = sizeof(system_pages);

	if (mallctl("arena.0.extent_hooks", &system_pages, &len, NULL, 0) != 0)
		bail_out("no hooks");
	for (unsigned i = 0; i < sizeof(extent_kinds) / sizeof(extent_kinds[0]); i++) {
		char name[40];

		extent_kind = extent_kinds[i];
		loops(ctl_name(name, "extent %s", extent_kind));
	}
	ok(n_refused > 0, "a cache in use was neither emptied nor destroyed, %u times", n_refused);
	ok(n_accepted > 0, "others were, %u times", n_accepted);
	return done_testing();
}

static int
hooked(const char *kind, const char *node, void *hook) {
	if (mallctl(node, NULL, NULL, &hook, sizeof(hook)) != 0)
		bail_out(node);
	return loops(kind);
}

static int
child_event(void) {
	struct {
		void (*f)(bool, uint64_t, uint64_t);
		uint64_t interval;
		bool alloc_only;
	} e;

	memset(&e, 0, sizeof(e));
	e.f = on_event;
	e.interval = 1;
	if (mallctl("experimental.hooks.thread_event", NULL, NULL, &e, sizeof(e)) != 0)
		bail_out("no event");
	return loops("thread_event");
}

static int
child_message(void) {
	malloc_message = on_message;
	loops("malloc_message");
	malloc_message = NULL;
	return done_testing();
}

static int
child_sample(void) {
	return hooked("prof_sample", "experimental.hooks.prof_sample", (void *)(uintptr_t)on_sample);
}

static int
child_sample_free(void) {
	return hooked("prof_sample_free", "experimental.hooks.prof_sample_free",
	    (void *)(uintptr_t)on_sample_free);
}

static int
child_backtrace(void) {
	return hooked("prof_backtrace", "experimental.hooks.prof_backtrace",
	    (void *)(uintptr_t)on_backtrace);
}

static int
child_dump(void) {
	return hooked("prof_dump", "experimental.hooks.prof_dump", (void *)(uintptr_t)on_dump);
}

static int
child_maximum(void) {
	grows = true;
	return hooked("prof_dump at a maximum", "experimental.hooks.prof_dump",
	    (void *)(uintptr_t)on_dump);
}

static int
child_alloc(void) {
	struct {
		void (*alloc)(void *, unsigned, void *, uintptr_t, const uintptr_t *);
		void *dalloc, *expand, *extra;
	} hooks = {on_alloc, NULL, NULL, NULL};
	void *handle;
	size_t len = sizeof(handle);

	if (mallctl("experimental.hooks.install", &handle, &len, &hooks, sizeof(hooks)) != 0)
		bail_out("no hook");
	return loops("alloc");
}

/* ------------------------------------------------------------------ two kinds at once */

static void
act_destroy_outer(void) {
	end_cache("tcache.destroy", id);
}

/* A request of its own, with another cache; its extent hook is amid both requests. */
static void
on_sample_request(const void *ptr, size_t size, void **bt, unsigned len, size_t usable) {
	(void)ptr;
	(void)size;
	(void)bt;
	(void)len;
	(void)usable;
	act = act_destroy_outer;
	keep(mallocx(20000, MALLOCX_TCACHE(empty_id)));
	act = NULL;
}

static int
child_both(void) {
	void *hook = (void *)(uintptr_t)on_sample_request;
	size_t len = sizeof(system_pages);

	extent_kind = "alloc";
	if (mallctl("arena.0.extent_hooks", &system_pages, &len, NULL, 0) != 0)
		bail_out("no pages");
	arenas[0] = make_arena();
	if (ctl_write("thread.arena", arenas[0]) != 0 || !make_cache(&id)
	    || !make_cache(&empty_id)
	    || mallctl("experimental.hooks.prof_sample", NULL, NULL, &hook, sizeof(hook)) != 0)
		bail_out("no hooks");
	for (unsigned i = 0; i < 2000 && n_accepted == 0; i++)
		keep(mallocx(64, MALLOCX_TCACHE(id)));
	ok(n_refused > 0, "the outer request's cache is in use, %u times", n_refused);
	is_uint(n_accepted, 0, "it is never destroyed amid the request");
	return done_testing();
}

static const struct test_child children[] = {
	{"both", child_both},
	{"event", child_event},
	{"message", child_message},
	{"sample", child_sample},
	{"sample_free", child_sample_free},
	{"backtrace", child_backtrace},
	{"dump", child_dump},
	{"maximum", child_maximum},
	{"alloc", child_alloc},
	{"extent", child_extent},
	{NULL, NULL},
};

/*
 * The child makes no thread of the profiler's: jeprofd, which other tests run at the same time, may
 * ask each process, and the C library's record of the new thread would be counted too.
 */
static void
runs(const char *child, const char *conf) {
	char all[256];

	if (!ctl_bool("config.prof")) {
		child_runs(child, conf);
		return;
	}
	snprintf(all, sizeof(all), "prof_thread:false%s%s", conf != NULL ? "," : "",
	    conf != NULL ? conf : "");
	child_runs(child, all);
}

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	runs("event", NULL);
	runs("message", "stats_interval:300000,stats_interval_opts:Jgmdablxeh");
	runs("alloc", NULL);
	runs("extent", NULL);
	if (ctl_bool("config.prof")) {
		runs("event", "prof:true,lg_prof_sample:12");
		runs("both", "prof:true,lg_prof_sample:0");
		runs("sample", "prof:true,lg_prof_sample:12");
		runs("sample", "prof:true,lg_prof_sample:0");
		runs("sample_free", "prof:true,lg_prof_sample:12");
		runs("backtrace", "prof:true,lg_prof_sample:12");
		runs("dump", "prof:true,lg_prof_sample:16,lg_prof_interval:22,"
		    "prof_prefix:/tmp/hook_caches");
		runs("maximum", "prof:true,lg_prof_sample:16,prof_gdump:true,"
		    "prof_dump_min_gap_ms:0,prof_prefix:/tmp/hook_caches");
	}
	return done_testing();
}
