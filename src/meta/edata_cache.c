/*
 * Makes extent descriptors in blocks, keeps the unused ones, and gives pages of them back.
 * edata_cache.h has the contract. Invariant: a descriptor is spare if and only if its address is
 * NULL and it was made; it keeps its arena_ind while its page is not given back. The cache's mutex
 * protects the list and the headers of the blocks. Initialised with the arena, then called by
 * extent.c, pac_hpa.c and pac_types.h for each descriptor that they use or return, by pac_purge.c
 * to give pages back, and by arena_life.c for the blocks.
 */
#include "meta/edata_cache.h"

#include "os/pages.h"
#include "os/witness.h"
#include "util/bits.h"

/*
 * Blocks that a thread looks at under the lock at once: it gives back 1 MiB at most, which takes a
 * fraction of a millisecond.
 */
#define EDATA_BLOCKS 16u
#define EDATA_PER_PAGE (PAGE / EDATA_ALIGN)

void
edata_cache_init(edata_cache_t *c, base_t *base, unsigned arena_ind) {
	mutex_init(&c->mtx, "extent_avail", WITNESS_RANK_EDATA_CACHE);
	ql_init(&c->spare);
	c->base = base;
	c->arena_ind = (uint16_t)arena_ind;
	assert(c->blocks == NULL);
}

edata_block_t *
edata_cache_blocks(edata_cache_t *c) {
	mutex_lock(&c->mtx);
	edata_block_t *b = c->blocks;
	mutex_unlock(&c->mtx);
	return b;
}

/* ------------------------------------------------------------------ spare ones */

/* Makes a descriptor spare. */
static void
edata_spare_locked(edata_cache_t *c, edata_t *e) {
	e->state = extent_state_none;
	__atomic_store_n(&e->addr, NULL, MO_RELAXED);
	ql_insert_after(&c->spare, &e->link);
	atomic_fetch_add_zu(&c->count, 1, MO_RELAXED);
}

/* The next descriptor of the newest block that was not handed out yet; NULL if there is none. */
static edata_t *
edata_fresh_locked(edata_cache_t *c) {
	edata_block_t *b = c->blocks;
	if (b == NULL || b->nmade == b->n) {
		return NULL;
	}
	edata_t *e = edata_block_at(b, b->nmade++);
	__atomic_store_n(&e->arena_ind, c->arena_ind, MO_RELAXED);
	return e;
}

/*
 * The first of the pages of a block that consist of descriptors which were made; *n: their number,
 * at most 15; with pages of 64 KiB 0.
 */
static char *
edata_block_pages(edata_block_t *b, unsigned *n) {
	uintptr_t from = PAGE_CEILING((uintptr_t)edata_block_at(b, 0));
	uintptr_t to = PAGE_FLOOR((uintptr_t)edata_block_at(b, b->nmade));
	*n = to > from ? (unsigned)((to - from) >> LG_PAGE) : 0;
	assert(*n <= EDATA_BLOCK_MAX >> LG_PAGE && *n < 32);
	return (char *)from;
}

/* Makes the descriptors of a page spare. */
static void
edata_spare_page_locked(edata_cache_t *c, char *page) {
	for (size_t at = PAGE; at > 0; at -= EDATA_ALIGN) {
		edata_t *e = (edata_t *)(void *)(page + at - EDATA_ALIGN);
		__atomic_store_n(&e->arena_ind, c->arena_ind, MO_RELAXED);
		edata_spare_locked(c, e);
	}
}

/* Makes the descriptors of a page that was given back spare again. There is one (npurged). */
static void
edata_refill_locked(edata_cache_t *c) {
	edata_block_t *b = c->blocks;
	unsigned n;
	while (b->purged == 0) {
		b = b->next;
	}
	unsigned i = (unsigned)__builtin_ctz(b->purged);
	char *page = edata_block_pages(b, &n) + ((size_t)i << LG_PAGE);
	assert(i < n && c->npurged > 0);
	b->purged &= b->purged - 1;
	c->npurged--;
	base_touched(c->base, PAGE);
	edata_spare_page_locked(c, page);
}

/* Takes a spare descriptor, or one of the newest block that is not made yet; NULL: neither. */
static edata_t *
edata_take_locked(edata_cache_t *c) {
	if (ql_is_empty(&c->spare) && c->npurged > 0) {
		edata_refill_locked(c);
	}
	ql_t *l = ql_first(&c->spare);
	edata_t *e = l == NULL ? edata_fresh_locked(c) : edata_of_link(l);
	if (l != NULL) {
		ql_remove(l);
		size_t left = atomic_fetch_sub_zu(&c->count, 1, MO_RELAXED) - 1;
		c->least = min_zu(c->least, left);
	}
	if (e != NULL) {
		/* Any address that is not NULL says that it is not spare. */
		__atomic_store_n(&e->addr, (char *)e, MO_RELAXED);
	}
	return e;
}

/* Makes a new block and takes a descriptor of it. */
static edata_t *
edata_cache_make(edata_cache_t *c) {
	base_stats_t st;
	base_stats_read(c->base, &st);
	size_t bytes = min_zu(max_zu(st.edata / 4, EDATA_BLOCK_MIN), EDATA_BLOCK_MAX);
	bytes &= ~(size_t)(EDATA_ALIGN - 1);
	edata_block_t *b = base_alloc_edata(c->base, bytes, EDATA_ALIGN);
	if (b == NULL) {
		/* There may be room for a single one. */
		bytes = (size_t)2 * EDATA_ALIGN;
		b = base_alloc_edata(c->base, bytes, EDATA_ALIGN);
	}
	edata_t *e = NULL;
	mutex_lock(&c->mtx);
	if (b != NULL) {
		/* Another thread may have made a block meanwhile. */
		while ((e = edata_fresh_locked(c)) != NULL) {
			edata_spare_locked(c, e);
		}
		b->n = (uint32_t)(bytes / EDATA_ALIGN - 1);
		b->next = c->blocks;
		c->blocks = b;
	}
	e = edata_take_locked(c);
	mutex_unlock(&c->mtx);
	return e;
}

edata_t *
edata_cache_get(edata_cache_t *c) {
	mutex_lock(&c->mtx);
	edata_t *e = edata_take_locked(c);
	mutex_unlock(&c->mtx);
	assert(e == NULL || e->arena_ind == c->arena_ind);
	return e != NULL ? e : edata_cache_make(c);
}

void
edata_cache_put(edata_cache_t *c, edata_t *e) {
	assert(e->arena_ind == c->arena_ind);
	mutex_lock(&c->mtx);
	edata_spare_locked(c, e);
	mutex_unlock(&c->mtx);
}

/* ------------------------------------------------------------------ giving pages back */

static bool
edata_page_is_spare(const char *page) {
	for (size_t at = 0; at < PAGE; at += EDATA_ALIGN) {
		const edata_t *e = (const edata_t *)(const void *)(page + at);
		if (__atomic_load_n(&e->addr, MO_RELAXED) != NULL) {
			return false;
		}
	}
	return true;
}

/*
 * Gives n pages of a block, with spare descriptors only, back; first: the first one's number. False
 * if that is refused (also ENOTSUP).
 */
static bool
edata_run_try_purge(edata_cache_t *c, edata_block_t *b, char *run, unsigned first, unsigned n) {
	size_t bytes = (size_t)n << LG_PAGE;
	mutex_assert_owner(&c->mtx);
	for (size_t at = 0; at < bytes; at += EDATA_ALIGN) {
		ql_remove(&((edata_t *)(void *)(run + at))->link);
	}
	atomic_fetch_sub_zu(&c->count, bytes / EDATA_ALIGN, MO_RELAXED);
	if (base_purge(c->base, run, bytes) == 0) {
		b->purged |= (((uint32_t)1 << n) - 1) << first;
		c->npurged += n;
		return true;
	}
	for (unsigned i = 0; i < n; i++) {
		edata_spare_page_locked(c, run + ((size_t)i << LG_PAGE));
	}
	return false;
}

/* Gives pages of p->at back, run by run, for at most p->excess descriptors; false: refused. */
static bool
edata_block_try_purge(edata_cache_t *c, edata_pass_t *p) {
	unsigned n, len;
	char *first = edata_block_pages(p->at, &n);
	for (unsigned i = 0; i < n; i += len + 1) {
		char *run = first + ((size_t)i << LG_PAGE);
		for (len = 0; i + len < n && (len + 1) * EDATA_PER_PAGE <= p->excess
		    && (p->at->purged >> (i + len) & 1) == 0
		    && edata_page_is_spare(run + ((size_t)len << LG_PAGE)); len++) {}
		if (len > 0 && !edata_run_try_purge(c, p->at, run, i, len)) {
			return false;
		}
		p->excess -= len * EDATA_PER_PAGE;
	}
	return true;
}

/* Goes on with the pass for EDATA_BLOCKS blocks; ends it without block or excess, or if refused. */
static void
edata_pass_locked(edata_cache_t *c, edata_pass_t *p) {
	for (unsigned i = 0; p->at != NULL && i < EDATA_BLOCKS; i++) {
		bool may_go_on = p->excess != 0 && edata_block_try_purge(c, p);
		p->at = may_go_on ? p->at->next : NULL;
	}
}

void
edata_cache_tick(edata_cache_t *c, uint64_t now, uint64_t period) {
	if (now < atomic_load_u64(&c->due, MO_RELAXED)) {
		return;
	}
	edata_pass_t *p = &c->pass;
	mutex_lock(&c->mtx);
	if (p->at == NULL) {
		*p = (edata_pass_t){c->blocks, c->least > EDATA_KEPT ? c->least - EDATA_KEPT : 0};
	}
	/* The heap may have grown since the pass began. */
	size_t count = atomic_load_zu(&c->count, MO_RELAXED);
	p->excess = min_zu(p->excess, count > EDATA_KEPT ? count - EDATA_KEPT : 0);
	edata_pass_locked(c, p);
	if (p->at == NULL) {
		c->least = atomic_load_zu(&c->count, MO_RELAXED);
		c->stuck = p->excess >= EDATA_PER_PAGE ? c->least : 0;
		atomic_store_u64(&c->due, now + period, MO_RELAXED);
	}
	mutex_unlock(&c->mtx);
}

uint64_t
edata_cache_ns_until(edata_cache_t *c, uint64_t now) {
	mutex_lock(&c->mtx);
	size_t count = atomic_load_zu(&c->count, MO_RELAXED);
	uint64_t due = atomic_load_u64(&c->due, MO_RELAXED);
	bool has_work = c->pass.at != NULL
	    || (count >= EDATA_KEPT + EDATA_PER_PAGE && count != c->stuck);
	mutex_unlock(&c->mtx);
	return !has_work ? UINT64_MAX : due > now ? due - now : 0;
}

void
edata_cache_purge(edata_cache_t *c) {
	edata_pass_t p = {edata_cache_blocks(c), SIZE_MAX};
	while (p.at != NULL) {
		mutex_lock(&c->mtx);
		edata_pass_locked(c, &p);
		mutex_unlock(&c->mtx);
	}
}
