/*
 * What begins and ends in the midst of a sequence: an arena of one worker's own with all that is in
 * it (made with or without functions of its own for pages, reset, destroyed), threads that take
 * part and end, and the background threads.
 *
 * Nobody but its worker uses such an arena, so at any moment its statistics are those of this file,
 * also while other workers run; and when it is destroyed, every byte that its functions gave has
 * come back.
 */
#pragma once

#include "blocks.h"

#include <pthread.h>
#include <sys/mman.h>

#define N_OWN 48

/* Functions for pages: they pass on to the system's, count what is out, and refuse now and then. */
typedef struct {
	extent_hooks_t table;
	const extent_hooks_t *below; /* the library's own */
	size_t out;                  /* bytes given and not taken back */
	unsigned n_calls;
	unsigned refuses;            /* one in so many calls that may be refused; 0: none */
	bool allocates;              /* each call also uses malloc */
} own_hooks_t;

/* In memory of the system: hooks are called while the worker is in malloc. */
typedef struct {
	own_hooks_t hooks;
	block_t slots[N_OWN];
	unsigned ind;
	bool is_there, has_hooks;
} own_t;

/* ------------------------------------------------------------------ the functions for pages */

static own_hooks_t *
own_enter(extent_hooks_t *table) {
	own_hooks_t *h = (own_hooks_t *)(void *)table;
	if (h->allocates) {
		free(keep(malloc(200)));
	}
	return h;
}

static bool
own_has_refused(own_hooks_t *h) {
	unsigned n = __atomic_add_fetch(&h->n_calls, 1, __ATOMIC_RELAXED);
	return h->refuses != 0 && n % h->refuses == 0;
}

static void *
own_alloc(extent_hooks_t *t, void *addr, size_t size, size_t align, bool *zero, bool *commit,
    unsigned ind) {
	own_hooks_t *h = own_enter(t);
	void *p = own_has_refused(h) ? NULL : h->below->alloc(t, addr, size, align, zero, commit, ind);
	__atomic_add_fetch(&h->out, p == NULL ? 0 : size, __ATOMIC_RELAXED);
	return p;
}

static bool
own_dalloc(extent_hooks_t *t, void *addr, size_t size, bool committed, unsigned ind) {
	own_hooks_t *h = own_enter(t);
	if (own_has_refused(h) || h->below->dalloc(t, addr, size, committed, ind)) {
		return true;
	}
	__atomic_sub_fetch(&h->out, size, __ATOMIC_RELAXED);
	return false;
}

static void
own_destroy(extent_hooks_t *t, void *addr, size_t size, bool committed, unsigned ind) {
	own_hooks_t *h = own_enter(t);
	__atomic_sub_fetch(&h->out, size, __ATOMIC_RELAXED);
	h->below->destroy(t, addr, size, committed, ind);
}

#define OWN_RANGE(name) \
	static bool own_##name(extent_hooks_t *t, void *addr, size_t size, size_t off, size_t len, \
	    unsigned ind) { \
		own_hooks_t *h = own_enter(t); \
		return own_has_refused(h) || h->below->name(t, addr, size, off, len, ind); \
	}
OWN_RANGE(commit)
OWN_RANGE(decommit)
OWN_RANGE(purge_lazy)
OWN_RANGE(purge_forced)

static bool
own_split(extent_hooks_t *t, void *addr, size_t size, size_t a, size_t b, bool committed,
    unsigned ind) {
	own_hooks_t *h = own_enter(t);
	return own_has_refused(h) || h->below->split(t, addr, size, a, b, committed, ind);
}

static bool
own_merge(extent_hooks_t *t, void *a, size_t size_a, void *b, size_t size_b, bool committed,
    unsigned ind) {
	own_hooks_t *h = own_enter(t);
	return own_has_refused(h) || h->below->merge(t, a, size_a, b, size_b, committed, ind);
}

/*
 * Members may be left out; without dalloc and destroy pages stay where they are, so there is
 * nothing to count.
 */
static void
own_hooks_draw(fuzz_t *f, own_hooks_t *h) {
	size_t len = sizeof(h->below);
	memset(h, 0, sizeof(*h));
	if (mallctl("arena.0.extent_hooks", (void *)&h->below, &len, NULL, 0) != 0) {
		breach(f, "no functions to pass on to");
	}
	h->table = (extent_hooks_t){own_alloc, own_dalloc, own_destroy, own_commit, own_decommit,
	    own_purge_lazy, own_purge_forced, own_split, own_merge};
	h->refuses = (unsigned[]){0, 0, 2, 5, 17}[below(f, 5)];
	h->allocates = one_in(f, 4);
	size_t left_out = below(f, 64);
	h->table.dalloc = (left_out & 1) != 0 ? NULL : h->table.dalloc;
	h->table.decommit = (left_out & 2) != 0 ? NULL : h->table.decommit;
	h->table.purge_lazy = (left_out & 4) != 0 ? NULL : h->table.purge_lazy;
	h->table.purge_forced = (left_out & 8) != 0 ? NULL : h->table.purge_forced;
	h->table.merge = (left_out & 16) != 0 ? NULL : h->table.merge;
	h->table.split = left_out >= 62 ? NULL : h->table.split;
}

/* ------------------------------------------------------------------ the arena and its blocks */

TEST_FN void
own_must(const fuzz_t *f, const char *what, int err) {
	if (err != 0) {
		breach(f, "%s answered %d", what, err);
	}
}

static int
own_do(const own_t *o, const char *what) {
	char name[64];
	return ctl_void(ctl_name(name, "arena.%u.%s", o->ind, what));
}

TEST_FN size_t
own_live(const own_t *o) {
	size_t live = 0;
	for (unsigned i = 0; i < N_OWN; i++) {
		live += o->slots[i].p != NULL ? o->slots[i].usable : 0;
	}
	return live;
}

/* A shelter serves requests while another thread forks, so then blocks may come from elsewhere. */
static void
own_check(const fuzz_t *f, const own_t *o) {
	char name[64];
	if (!o->is_there || !config_stats || f->is_loose) {
		return;
	}
	ctl_epoch();
	size_t now = ctl_size(ctl_name(name, "stats.arenas.%u.small.allocated", o->ind))
	    + ctl_size(ctl_name(name, "stats.arenas.%u.large.allocated", o->ind));
	size_t active = ctl_size(ctl_name(name, "stats.arenas.%u.pactive", o->ind)) * PAGE;
	if (now != own_live(o) || active < now) {
		breach(f, "arena %u: %zu allocated for %zu live, active %zu", o->ind, now, own_live(o),
		    active);
	}
	size_t mapped = ctl_size(ctl_name(name, "stats.arenas.%u.mapped", o->ind));
	if (mapped < active) {
		breach(f, "arena %u: mapped %zu, active %zu", o->ind, mapped, active);
	}
}

static void
own_create(fuzz_t *f, own_t *o) {
	size_t len = sizeof(o->ind);
	f->what = "arenas.create";
	o->has_hooks = one_in(f, 2);
	extent_hooks_t *table = &o->hooks.table;
	if (o->has_hooks) {
		own_hooks_draw(f, &o->hooks);
	}
	own_must(f, "it", mallctl("arenas.create", &o->ind, &len, o->has_hooks ? &table : NULL,
	    o->has_hooks ? sizeof(table) : 0));
	o->is_there = true;
	own_check(f, o);
}

/* All objects of the arena were whole, and none is there any more. */
static void
own_end(fuzz_t *f, own_t *o, bool is_destroy) {
	f->what = is_destroy ? "arena.i.destroy" : "arena.i.reset";
	for (unsigned i = 0; i < N_OWN; i++) {
		if (o->slots[i].p != NULL) {
			block_check(f, &o->slots[i]);
		}
		o->slots[i].p = NULL;
	}
	own_must(f, "it", own_do(o, is_destroy ? "destroy" : "reset"));
	own_check(f, is_destroy ? &(own_t){.is_there = false} : o);
	if (!is_destroy) {
		return;
	}
	o->is_there = false;
	if (o->has_hooks && __atomic_load_n(&o->hooks.out, __ATOMIC_RELAXED) != 0) {
		breach(f, "%zu bytes did not come back", o->hooks.out);
	}
}

/* One, or many by one call, of which the others are given back. */
static void
own_get(fuzz_t *f, own_t *o, block_t *b) {
	request_t r = {.size = draw_size(f), .align = one_in(f, 3) ? draw_align(f) : 0,
	    .zero = one_in(f, 3)};
	void *many[20];
	struct {
		void **ptrs;
		size_t n, size;
		int flags;
	} packet = {many, 1 + below(f, 20), 0, 0};
	size_t n = 0, len = sizeof(n);
	r.size += r.size == 0;
	r.flags = (int)MALLOCX_ARENA(o->ind) | MALLOCX_TCACHE_NONE | (r.zero ? MALLOCX_ZERO : 0)
	    | (r.align != 0 ? MALLOCX_ALIGN(r.align) : 0);
	packet.size = r.size;
	packet.flags = r.flags;
	if (one_in(f, 8) && r.size < 20000) {
		f->what = "batch_alloc";
		own_must(f, "it", mallctl("experimental.batch_alloc", &n, &len, &packet, sizeof(packet)));
		for (size_t i = 0; i < n; i++) {
			f->sum.allocated += i == 0 ? 0 : sallocx(many[i], 0);
			f->sum.deallocated += i == 0 ? 0 : sallocx(many[i], 0);
			if (i > 0) {
				memset(many[i], 0x77, r.size);
				dallocx(many[i], MALLOCX_TCACHE_NONE);
			}
		}
		r.p = n == 0 ? NULL : many[0];
	} else {
		f->what = "mallocx of an own arena";
		errno = 0;
		r.p = mallocx(r.size, r.flags);
	}
	if (r.p != NULL) {
		block_take(f, b, &r);
	} else if (!o->has_hooks || o->hooks.refuses == 0) {
		breach(f, "NULL for size %zu, align %zu", r.size, r.align);
	}
}

static void
own_block_step(fuzz_t *f, own_t *o) {
	block_t *b = &o->slots[below(f, N_OWN)];
	unsigned ind = 0;
	size_t len = sizeof(ind);
	if (b->p == NULL) {
		own_get(f, o, b);
		return;
	}
	block_check(f, b);
	void *p = b->p;
	if (!f->is_loose && (mallctl("arenas.lookup", &ind, &len, &p, sizeof(p)) != 0
	    || ind != o->ind)) {
		breach(f, "%p of arena %u is of %u", p, o->ind, ind);
	}
	if (one_in(f, 3)) {
		resize_in_place(f, b, draw_size(f));
		return;
	}
	if (one_in(f, 2)) {
		size_t size = draw_size(f) + 1;
		bool zero = one_in(f, 3);
		f->what = "rallocx in an own arena";
		p = rallocx(b->p, size, (int)MALLOCX_ARENA(o->ind) | MALLOCX_TCACHE_NONE | (zero
		    ? MALLOCX_ZERO : 0));
		if (p != NULL) {
			block_resized(f, b, p, size, 0, zero);
		} else if (!o->has_hooks || o->hooks.refuses == 0) {
			breach(f, "NULL for size %zu", size);
		}
		return;
	}
	f->what = "release in an own arena";
	f->sum.deallocated += b->usable;
	if (one_in(f, 2)) {
		dallocx(b->p, MALLOCX_TCACHE_NONE);
	} else {
		sdallocx(b->p, b->size, MALLOCX_TCACHE_NONE | (b->align != 0 ? MALLOCX_ALIGN(b->align)
		    : 0));
	}
	b->p = NULL;
}

/* Values of the arena; the functions for pages change places with themselves. */
static void
own_value_step(fuzz_t *f, own_t *o) {
	char name[64];
	ssize_t ms = (ssize_t[]){-1, 0, 1, 500}[below(f, 4)];
	size_t limit = PAGE << below(f, 12);
	extent_hooks_t *table = &o->hooks.table, *old = NULL;
	size_t len = sizeof(old);
	int err = 0;
	f->what = "a value of an own arena";
	switch (below(f, 6)) {
	case 0: err = ctl_write(ctl_name(name, "arena.%u.dirty_decay_ms", o->ind), ms); break;
	case 1: err = ctl_write(ctl_name(name, "arena.%u.muzzy_decay_ms", o->ind), ms); break;
	case 2: err = own_do(o, "decay"); break;
	case 3: err = own_do(o, "purge"); break;
	case 4:
		err = ctl_write(ctl_name(name, "arena.%u.retain_grow_limit", o->ind), limit);
		err = err == ENOENT ? 0 : err;
		break;
	default:
		if (o->has_hooks) {
			err = mallctl(ctl_name(name, "arena.%u.extent_hooks", o->ind), (void *)&old, &len,
			    (void *)&table, sizeof(table));
			err = err == 0 && old != table ? -1 : err;
		}
		break;
	}
	own_must(f, "it", err);
	own_check(f, o);
}

TEST_FN void
own_step(fuzz_t *f, own_t *o) {
	size_t way = below(f, 40);
	if (!o->is_there) {
		own_create(f, o);
	} else if (way < 1) {
		own_end(f, o, true);
	} else if (way < 2) {
		own_end(f, o, false);
	} else if (way < 6) {
		own_value_step(f, o);
	} else {
		for (size_t n = 1 + below(f, 8); n > 0; n--) {
			own_block_step(f, o);
		}
		if (way < 10) {
			own_check(f, o);
		}
	}
}

/* ------------------------------------------------------------------ threads that take part */

typedef struct {
	fuzz_t f;
	block_t *slots;
	unsigned n;
	unsigned ind;    /* an own arena to be bound to; 0: as it comes */
} guest_t;

/* Bound to an own arena: it leaves nothing there but what its cache holds at its end. */
static void
guest_visit(guest_t *g) {
	fuzz_t *f = &g->f;
	block_t b[16] = {{0}};
	if (ctl_write("thread.arena", g->ind) != 0) {
		breach(f, "no way to arena %u", g->ind);
	}
	f->arena_flags = f->tcache_flags = 0;
	for (unsigned i = 0; i < 100; i++) {
		block_t *one = &b[below(f, ARRAY_LEN(b))];
		if (one->p == NULL) {
			block_get(f, one);
		} else {
			block_put(f, one);
		}
	}
	for (unsigned i = 0; i < ARRAY_LEN(b); i++) {
		if (b[i].p != NULL) {
			block_put(f, &b[i]);
		}
	}
}

/* Works on its worker's blocks, leaves a cache behind, and ends. */
static void *
guest_work(void *arg) {
	guest_t *g = arg;
	fuzz_t *f = &g->f;
	if (g->ind != 0) {
		guest_visit(g);
		return NULL;
	}
	if (one_in(f, 4)) {
		bool on = false;
		ctl_write("thread.tcache.enabled", on);
	}
	f->sum.allocated = ctl_u64("thread.allocated");
	f->sum.deallocated = ctl_u64("thread.deallocated");
	for (unsigned i = 0; i < 60; i++) {
		block_t *b = &g->slots[below(f, g->n)];
		if (b->p == NULL) {
			block_get(f, b);
		} else if (one_in(f, 2)) {
			block_resize(f, b);
		} else {
			block_put(f, b);
		}
	}
	uint64_t allocated = ctl_u64("thread.allocated"), deallocated = ctl_u64("thread.deallocated");
	f->what = "the end of a thread";
	if (config_stats && !f->is_loose && (allocated != f->sum.allocated
	    || deallocated != f->sum.deallocated)) {
		breach(f, "%llu and %llu, not %llu and %llu", (unsigned long long)allocated,
		    (unsigned long long)deallocated, (unsigned long long)f->sum.allocated,
		    (unsigned long long)f->sum.deallocated);
	}
	return NULL;
}

TEST_FN void
guest_step(fuzz_t *f, block_t *slots, unsigned n, unsigned ind) {
	guest_t g = {*f, slots, n, ind};
	pthread_t t;
	f->what = "a thread";
	g.f.rng = test_random(&f->rng);
	if (pthread_create(&t, NULL, guest_work, &g) != 0 || pthread_join(t, NULL) != 0) {
		breach(f, "none");
	}
}

/* EINVAL: more than opt.max_background_threads. */
TEST_FN void
background_step(fuzz_t *f) {
	bool on = one_in(f, 2);
	size_t max = 1 + below(f, 4);
	f->what = "background threads";
	int err = one_in(f, 3) ? ctl_write("max_background_threads", max)
	    : ctl_write("background_thread", on);
	if (err != 0 && err != EINVAL) {
		breach(f, "answered %d", err);
	}
}
