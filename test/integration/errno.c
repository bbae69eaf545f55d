/*
 * A function that the library calls for the user may set errno; who allocates, changes a size or
 * frees must not see that. Here extent hooks and hooks of the profiler, of events and of allocation
 * set it each time; with and without caches and samples.
 */
#include "ctl.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#define KEPT 33   /* before each call */
#define SPOILT 77 /* what each hook leaves */
#define N_LIVE 600
#define LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Operators of C++, where the library has them: new, aligned new, delete. */
extern void *_Znwm(size_t size) __attribute__((weak));
extern void *_ZnwmSt11align_val_t(size_t size, size_t alignment) __attribute__((weak));
extern void _ZdlPv(void *p) __attribute__((weak));
extern void free_sized(void *p, size_t size) __attribute__((weak));

/* ------------------------------------------------------------------ hooks that set errno */

static const char *last_hook;
static unsigned n_spoilt;

static void
spoil(const char *hook) {
	last_hook = hook;
	n_spoilt++;
	errno = SPOILT;
}

static void *
alloc_pages(extent_hooks_t *h, void *at, size_t size, size_t alignment, bool *zero, bool *commit,
    unsigned ind) {
	(void)h;
	(void)ind;
	char *p = at != NULL ? MAP_FAILED : mmap(NULL, size + alignment, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	*zero = *commit = true;
	spoil("alloc");
	return p == MAP_FAILED ? NULL : p + (-(uintptr_t)p & (alignment - 1));
}

static bool
dalloc_pages(extent_hooks_t *h, void *p, size_t size, bool committed, unsigned ind) {
	(void)h;
	(void)committed;
	(void)ind;
	bool is_refused = munmap(p, size) != 0;
	spoil("dalloc");
	return is_refused;
}

static bool
purge_pages(extent_hooks_t *h, void *p, size_t size, size_t from, size_t length, unsigned ind) {
	(void)h;
	(void)size;
	(void)ind;
	bool is_refused = madvise((char *)p + from, length, MADV_DONTNEED) != 0;
	spoil("purge");
	return is_refused;
}

static bool
split_pages(extent_hooks_t *h, void *p, size_t size, size_t a, size_t b, bool committed,
    unsigned ind) {
	(void)h;
	(void)p;
	(void)size;
	(void)a;
	(void)b;
	(void)committed;
	(void)ind;
	spoil("split");
	return false;
}

static bool
merge_pages(extent_hooks_t *h, void *a, size_t size_a, void *b, size_t size_b, bool committed,
    unsigned ind) {
	(void)h;
	(void)a;
	(void)size_a;
	(void)b;
	(void)size_b;
	(void)committed;
	(void)ind;
	spoil("merge");
	return false;
}

static extent_hooks_t pages = {.alloc = alloc_pages, .dalloc = dalloc_pages,
	.purge_forced = purge_pages, .split = split_pages, .merge = merge_pages};

static void
on_backtrace(void **frames, unsigned *n, unsigned max) {
	*n = max > 0;
	frames[0] = (void *)(uintptr_t)on_backtrace;
	spoil("backtrace");
}

static void
on_sample(const void *p, size_t size, void **frames, unsigned n, size_t usable) {
	(void)p;
	(void)size;
	(void)frames;
	(void)n;
	(void)usable;
	spoil("sample");
}

static void
on_sample_free(const void *p, size_t usable) {
	(void)p;
	(void)usable;
	spoil("sample_free");
}

static void
on_event(bool is_alloc, uint64_t allocated, uint64_t deallocated) {
	(void)is_alloc;
	(void)allocated;
	(void)deallocated;
	spoil("event");
}

/* ------------------------------------------------------------------ the calls */

static int more_flags; /* of mallocx() and its kin */

static void *
by_posix_memalign(size_t size) {
	void *p = NULL;
	return posix_memalign(&p, 64, size) == 0 ? p : NULL;
}

static void *
by_calloc(size_t size) {
	return calloc(1, size);
}

static void *
by_realloc(size_t size) {
	return realloc(NULL, size);
}

static void *
by_aligned_alloc(size_t size) {
	return aligned_alloc(64, size);
}

static void *
by_memalign(size_t size) {
	return memalign(8192, size);
}

static void *
by_mallocx(size_t size) {
	return mallocx(size, more_flags);
}

static void *
by_mallocx_zero(size_t size) {
	return mallocx(size, more_flags | MALLOCX_ALIGN(128) | MALLOCX_ZERO);
}

static void *
by_new_aligned(size_t size) {
	return _ZnwmSt11align_val_t(size, 64);
}

static const struct {
	const char *name;
	void *(*fn)(size_t size);
} makers[] = {{"malloc", malloc}, {"calloc", by_calloc}, {"realloc(NULL)", by_realloc},
    {"posix_memalign", by_posix_memalign}, {"aligned_alloc", by_aligned_alloc},
    {"memalign", by_memalign}, {"valloc", valloc}, {"pvalloc", pvalloc}, {"mallocx", by_mallocx},
    {"mallocx with zeroes", by_mallocx_zero}, {"operator new", _Znwm},
    {"operator new, aligned", by_new_aligned}};

static void *
to_realloc(void *p, size_t size) {
	return realloc(p, size);
}

static void *
to_rallocx(void *p, size_t size) {
	return rallocx(p, size, more_flags);
}

static void *
to_xallocx(void *p, size_t size) {
	(void)xallocx(p, size, 0, more_flags);
	return p;
}

static const struct {
	const char *name;
	void *(*fn)(void *p, size_t size);
} changers[] = {{"realloc", to_realloc}, {"rallocx", to_rallocx}, {"xallocx", to_xallocx}};

static void
end_free(void *p) {
	free(p);
}

static void
end_dallocx(void *p) {
	dallocx(p, more_flags);
}

static void
end_sdallocx(void *p) {
	sdallocx(p, malloc_usable_size(p), more_flags);
}

static void
end_free_sized(void *p) {
	free_sized(p, malloc_usable_size(p));
}

static const struct {
	const char *name;
	void (*fn)(void *p);
} enders[] = {{"free", end_free}, {"dallocx", end_dallocx}, {"sdallocx", end_sdallocx},
    {"free_sized", end_free_sized}, {"operator delete", _ZdlPv}};

/* What a kind of call has met: calls in which a hook was called, and which have changed errno. */
typedef struct {
	unsigned n_hooked;
	unsigned n_changed;
} met_t;
static met_t of_maker[LEN(makers)], of_changer[LEN(changers)], of_ender[LEN(enders)];
static unsigned before;

static void
begin(void) {
	before = n_spoilt;
	errno = KEPT;
}

static void
end(met_t *met, const char *call, size_t size) {
	bool is_changed = errno != KEPT;
	met->n_hooked += n_spoilt != before;
	met->n_changed += is_changed;
	if (is_changed && met->n_changed < 4) {
		diag("errno after %s of %zu bytes; the last hook was %s", call, size, last_hook);
	}
}

static void
round_of(size_t maker, size_t changer, size_t ender) {
	static const size_t sizes[] = {1000, 5000, 24, 20000, 3000, 100000, 14000, 400000};
	static void *live[N_LIVE];
	bool is_there = makers[maker].fn != NULL && (makers[maker].fn != by_new_aligned
	    || _ZnwmSt11align_val_t != NULL) && enders[ender].fn != NULL
	    && (enders[ender].fn != end_free_sized || free_sized != NULL);
	for (size_t i = 0; i < N_LIVE && is_there; i++) {
		size_t size = sizes[i / 20 % LEN(sizes)];
		begin();
		live[i] = keep(makers[maker].fn(size));
		end(&of_maker[maker], makers[maker].name, size);
	}
	for (size_t i = 0; i < N_LIVE && is_there; i += 3) {
		size_t size = sizes[i / 20 % LEN(sizes)] * (i % 2 == 0 ? 2 : 1) * 2 / 3;
		begin();
		void *p = keep(changers[changer].fn(live[i], size));
		end(&of_changer[changer], changers[changer].name, size);
		live[i] = p != NULL ? p : live[i];
	}
	for (size_t i = 0; i < N_LIVE && is_there; i++) {
		size_t size = malloc_usable_size(live[i]);
		begin();
		enders[ender].fn(live[i]);
		end(&of_ender[ender], enders[ender].name, size);
	}
}

static void
show(const met_t *met, const char *name, bool is_there) {
	if (is_there) {
		is_uint(met->n_changed, 0, "%s keeps errno", name);
		ok(met->n_hooked > 0, "in %u calls that have called a hook", met->n_hooked);
	}
}

/* The thread's arena has the hooks. */
static void
use_arena(void) {
	extent_hooks_t *table = &pages;
	unsigned ind = 0;
	size_t len = sizeof(ind);
	is_int(mallctl("arenas.create", &ind, &len, &table, sizeof(table)), 0, "an arena");
	is_int(mallctl("thread.arena", NULL, NULL, &ind, sizeof(ind)), 0, "for this thread");
}

static void
use_prof_hooks(void) {
	void (*backtrace)(void **, unsigned *, unsigned) = on_backtrace;
	void (*sample)(const void *, size_t, void **, unsigned, size_t) = on_sample;
	void (*sample_free)(const void *, size_t) = on_sample_free;
	ctl_write("experimental.hooks.prof_backtrace", backtrace);
	ctl_write("experimental.hooks.prof_sample", sample);
	ctl_write("experimental.hooks.prof_sample_free", sample_free);
}

static int
rounds(int flags) {
	use_arena();
	more_flags = flags;
	for (size_t i = 0; i < LEN(makers); i++) {
		for (size_t k = 0; k < LEN(enders); k++) {
			round_of(i, k % LEN(changers), k);
		}
	}
	for (size_t i = 0; i < LEN(makers); i++) {
		show(&of_maker[i], makers[i].name, of_maker[i].n_hooked + of_maker[i].n_changed > 0);
	}
	for (size_t i = 0; i < LEN(changers); i++) {
		show(&of_changer[i], changers[i].name, true);
	}
	for (size_t i = 0; i < LEN(enders); i++) {
		show(&of_ender[i], enders[i].name, of_ender[i].n_hooked + of_ender[i].n_changed > 0);
	}
	return done_testing();
}

static int
child_pages(void) {
	return rounds(0);
}

static int
child_direct(void) {
	return rounds(MALLOCX_TCACHE_NONE);
}

static int
child_samples(void) {
	use_prof_hooks();
	return rounds(0);
}

/* Hooks of allocation, so that another way through realloc() is taken. */
static void
on_call(void *extra, unsigned how, void *p, uintptr_t result, const uintptr_t *args) {
	(void)extra;
	(void)how;
	(void)p;
	(void)result;
	(void)args;
	spoil("call");
}

static void
on_free(void *extra, unsigned how, void *p, const uintptr_t *args) {
	on_call(extra, how, p, 0, args);
}

static void
on_resize(void *extra, unsigned how, void *p, size_t old_usable, size_t usable, uintptr_t result,
    const uintptr_t *args) {
	(void)old_usable;
	(void)usable;
	on_call(extra, how, p, result, args);
}

static int
child_shown(void) {
	struct {
		void (*alloc)(void *, unsigned, void *, uintptr_t, const uintptr_t *);
		void (*dalloc)(void *, unsigned, void *, const uintptr_t *);
		void (*expand)(void *, unsigned, void *, size_t, size_t, uintptr_t, const uintptr_t *);
		void *extra;
	} hooks = {on_call, on_free, on_resize, NULL};
	void *handle = NULL;
	size_t len = sizeof(handle);
	is_int(mallctl("experimental.hooks.install", &handle, &len, &hooks, sizeof(hooks)), 0,
	    "hooks of allocation");
	return rounds(0);
}

static int
child_events(void) {
	struct {
		void (*f)(bool is_alloc, uint64_t allocated, uint64_t deallocated);
		uint64_t interval;
		bool alloc_only;
	} e = {on_event, 4096, false};
	is_int(ctl_write("experimental.hooks.thread_event", e), 0, "events");
	return rounds(0);
}

int
main(int argc, char **argv) {
	static const struct test_child children[] = {{"pages", child_pages},
	    {"direct", child_direct}, {"samples", child_samples}, {"events", child_events},
	    {"shown", child_shown}, {NULL, NULL}};
	test_children(argc, argv, children);
	child_runs("pages", "dirty_decay_ms:0,muzzy_decay_ms:0");
	child_runs("direct", "dirty_decay_ms:0,muzzy_decay_ms:0,tcache:false");
	child_runs("shown", "dirty_decay_ms:0,muzzy_decay_ms:0");
	child_runs("events", "dirty_decay_ms:0,muzzy_decay_ms:0");
	if (ctl_bool("config.prof")) {
		child_runs("samples", "prof:true,lg_prof_sample:10");
	} else {
		skip(1, "built without the profiler");
	}
	return done_testing();
}
