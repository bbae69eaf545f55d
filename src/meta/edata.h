/*
 * The descriptor of an extent: a run of whole pages of one arena.
 *
 * An extent is active (a slab of small regions, or one large allocation) or it lies in one of the
 * arena's page caches (dirty, muzzy, retained).  A descriptor never changes its arena: it comes from
 * and returns to the arena's own edata_cache, so arena_ind may be read without a lock by whoever
 * finds the descriptor through the page map.
 * All other fields belong to whoever owns the extent: the thread that holds it, or the lock of the
 * cache that contains it; of a slab, nfree and the bitmap belong to the lock of its bin.
 */
#ifndef META_EDATA_H
#define META_EDATA_H

#include "util/assert.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/ph.h"
#include "util/ql.h"

#define EDATA_ALIGN 128
#define EDATA_INLINE_BITS_WORDS 4

typedef enum {
	extent_state_none = 0,
	extent_state_active,
	extent_state_dirty,
	extent_state_muzzy,
	extent_state_retained,
	extent_state_hot,     /* freed a moment ago, see extent/pac.h */
	extent_state_shelter, /* see thread/shelter.h */
	extent_state_count
} extent_state_t;

/* What the profiler remembers of one sampled object; all zero until it writes it. */
typedef struct sample_rec_s {
	void *tctx;
	uint64_t weight;
	uint64_t req_size;
	uint64_t time_ns;
	void *link[2];
} sample_rec_t;

typedef struct edata_s edata_t;
struct edata_s {
	char *addr;           /* page aligned start */
	size_t size;          /* bytes, whole pages */
	/* What stays as it is while an extent is active; `home` is all of it at once. */
	union {
		struct {
			uint16_t arena_ind;
			uint8_t szind;        /* class of the slab's regions or of the large allocation */
			uint8_t state;        /* extent_state_t */
			uint8_t bin_shard;
			bool is_slab;
			bool is_sampled;      /* slab of sampled regions, or a sampled large allocation */
			bool is_committed;
		};
		uint64_t home;
	};
	uint32_t nfree;       /* slab: free regions */
	bool is_zeroed;       /* all bytes known to be zero */
	bool is_listed;       /* linked in a list or heap of its bin */
	uint8_t nguards;      /* guard pages around it, see extent/guard.h: none in a cache */
	ql_t link;            /* LRU of a page cache; list of full slabs or of large allocations */
	ph_link_t heap;       /* by address, in a page cache's class or a bin's slabs with free regions */
	sample_rec_t *recs;   /* sampled: one per region of a slab, one for a large allocation */
	uint64_t *bits;       /* slab: one bit per region, set = free */
	union {
		uint64_t inline_bits[EDATA_INLINE_BITS_WORDS];
		struct {
			size_t large_usize; /* large: the usable size (size may include the offset's page) */
			char *large_start;  /* where the object begins, in the first page */
			uint8_t large_pind; /* its hot slot: the page class, of size; of a bounded cache's the one */
		};
	} u;
	edata_t *next_all;    /* of its arena, see edata_cache.h; never changes */
};
cassert(sizeof(edata_t) <= EDATA_ALIGN);
cassert(offsetof(edata_t, is_committed) - offsetof(edata_t, home) < sizeof(uint64_t));

/* The home of the regions of a bin: the same for all its slabs, and no other active extent's. */
static inline uint64_t
edata_home_of_bin(unsigned arena_ind, unsigned szind, unsigned shard) {
	edata_t e;
	e.home = 0;
	e.arena_ind = (uint16_t)arena_ind;
	e.szind = (uint8_t)szind;
	e.state = extent_state_active;
	e.bin_shard = (uint8_t)shard;
	e.is_slab = true;
	e.is_committed = true;
	return e.home;
}

static inline edata_t *
edata_of_heap(ph_link_t *l) {
	return container_of(l, edata_t, heap);
}

static inline edata_t *
edata_of_link(ql_t *l) {
	return container_of(l, edata_t, link);
}

/* Order of all heaps of extents: by address, so that memory is used from the low end. */
ALWAYS_INLINE int
edata_cmp_addr(const ph_link_t *a, const ph_link_t *b) {
	uintptr_t x = (uintptr_t)container_of(a, const edata_t, heap)->addr;
	uintptr_t y = (uintptr_t)container_of(b, const edata_t, heap)->addr;
	return (x > y) - (x < y);
}

static inline char *
edata_end(const edata_t *e) {
	return e->addr + e->size;
}

/* What holds for every extent at any time its owner looks. */
static inline void
edata_check(const edata_t *e) {
	assert(((uintptr_t)e & (EDATA_ALIGN - 1)) == 0);
	assert(e->addr != NULL && e->size > 0);
	assert(e->state > extent_state_none && e->state < extent_state_count);
	assert(!e->is_sampled || e->state == extent_state_active);
	assert(!e->is_listed || e->is_slab);
	assert(e->nguards == 0 || e->state == extent_state_active);
}

/* Who counts unused pages reads the size of an extent that may be in other hands by now (pac_ndirty). */
static inline void
edata_set_size(edata_t *e, size_t size) {
	__atomic_store_n(&e->size, size, __ATOMIC_RELAXED);
}

/*
 * A fresh descriptor for pages that nobody else knows yet.  arena_ind is not touched, not even for a moment: who looks at
 * a neighbour in the page map may be late and find a descriptor that is used again, and must see whose it is.
 */
static inline void
edata_init(edata_t *e, char *addr, size_t size, bool committed, bool zeroed) {
	e->addr = addr;
	edata_set_size(e, size);
	e->nfree = 0;
	e->szind = 0;
	e->state = extent_state_active;
	e->bin_shard = 0;
	e->is_slab = false;
	e->is_sampled = false;
	e->is_committed = committed;
	e->is_zeroed = zeroed;
	e->is_listed = false;
	e->nguards = 0;
	memset(&e->link, 0, offsetof(edata_t, next_all) - offsetof(edata_t, link));
	ql_init(&e->link);
}

#endif
