/*
 * The descriptor of an extent: a run of whole pages of one arena.
 * An extent is active (a slab of small regions, one large allocation, or in the hands of a thread),
 * or it lies in one of its arena's page caches (dirty, muzzy, retained) or in another place named
 * by its state. A descriptor never changes its arena: it comes from the arena's edata_cache and
 * returns to it. So a thread that finds a descriptor through the page map may ask edata_is_of()
 * without a lock. All other fields belong to the owner of the extent: the thread that holds it, or
 * the lock of the cache that contains it; of a slab nfree, the bitmap, the links, is_listed, look,
 * holes and seen_empty belong to the lock of its bin. Used in meta/, extent/, hpa/, arena/, thread/
 * and ctl/, and by malloc, free and defrag.c.
 */
#pragma once

#include "meta/sc.h"
#include "util/atomic.h"
#include "util/compiler.h"
#include "util/ph.h"
#include "util/ql.h"

/* Alignment of a descriptor in bytes: the page map uses the low 7 bits of its address. */
#define EDATA_ALIGN 128
/* Words of the bitmap that fit into the descriptor; a slab with more regions has one elsewhere. */
#define EDATA_INLINE_BITS_WORDS 4

/* Where an extent is. The numbers occur in elements of the page map. */
typedef enum {
	extent_state_none = 0, /* spare, or the memory of a huge slab (hpa/) */
	extent_state_active,
	extent_state_dirty,
	extent_state_muzzy,
	extent_state_retained,
	extent_state_hot,     /* unused, in none of the three caches (extent/pac_hot.h) */
	extent_state_shelter, /* serves requests while the gate is closed (thread/shelter.h) */
	extent_state_shut,    /* freed recently and without access (arena/shut.h) */
	extent_state_count
} extent_state_t;

/*
 * The profiler's record of one sampled object. While tctx is NULL it is the record of no sample:
 * then only a req_size of TCACHE_REC_IS_SPARE has a meaning (thread/tcache_spare.h), and link is
 * NULL or chains records without an object. Written by the thread that samples or frees the object
 * (recs_begin(), recs_end()), link under the lock of the recent list; dumps read it without a lock.
 */
typedef struct sample_rec_s {
	void *tctx;        /* the prof_cnt_t that counts it; NULL: not sampled */
	uint64_t weight;   /* objects that the sample stands for, in 1/65536 (PROF_WEIGHT_ONE) */
	uint64_t time_ns;  /* when it was allocated, UTC or monotonic (option prof_time_resolution) */
	uint64_t sized;    /* usable bytes, and above them the label: sample_usize(), sample_label() */
	uint64_t req_size; /* requested bytes */
	void *link;        /* its entry in the recent list, NULL if none */
	/* the slab that would have served it, as slab_name(); 0: large, or none is known */
	uint64_t slab;
} sample_rec_t;

/*
 * A sample's usable bytes and the number of the label that its thread had (prof/sites/prof_label),
 * 0 for none, in one word: no object has 2^48 bytes, and labels have 16 bits.
 */
#define SAMPLE_USIZE_BITS 48u
#define SAMPLE_LABEL_MASK 0xffffu

/* Makes that word. Only the low 16 bits of `label` are kept. */
static inline uint64_t
sample_sized(size_t usize, uint32_t label) {
	return (uint64_t)usize | (uint64_t)label << SAMPLE_USIZE_BITS;
}

static inline uint64_t
sample_usize(uint64_t sized) {
	return sized & ((UINT64_C(1) << SAMPLE_USIZE_BITS) - 1);
}

static inline uint32_t
sample_label(uint64_t sized) {
	return (uint32_t)(sized >> SAMPLE_USIZE_BITS);
}

typedef struct edata_s edata_t;
struct edata_s {
	char *addr;  /* start, page aligned; NULL: spare (edata_cache.h) */
	size_t size; /* bytes, whole pages */
	/*
	 * What the extent is; constant as long as it is the same slab, but the size class and
	 * is_sampled of a large allocation may change. `home` is all of them as one number, for
	 * comparisons.
	 */
	union {
		struct {
			uint16_t arena_ind;   /* index of its arena */
			/*
			 * size class of the slab's regions or of the large allocation; SC_NSIZES: an unused
			 * extent, or a large allocation that no thread cache may take
			 */
			uint8_t szind;
			uint8_t state;        /* extent_state_t */
			uint8_t bin_shard;    /* slab: the shard of its class's bin to which it belongs */
			bool is_slab;
			/* a slab of sampled regions, or a sampled large allocation */
			bool is_sampled;
			bool is_committed; /* the pages may be accessed */
		};
		uint64_t home;
	};
	union {
		uint32_t nfree; /* slab: number of free regions */
		/*
		 * large, in builds with safety checks: 1 + requested bytes if it has canaries; 0: it has
		 * none
		 */
		uint32_t large_request;
	};
	bool is_zeroed;  /* all bytes are known to be zero */
	bool is_listed;  /* linked in a list or heap of its bin */
	uint8_t nguards; /* guard pages around it (extent/guard.h); always 0 in a cache */
	bool is_hpa : 1;   /* its pages are of a huge slab (hpa/hpa.h); never dirty, muzzy, retained */
	bool is_moved : 1; /* it may have pages that were mapped elsewhere (extent/pac_move.h) */
	uint8_t look : 6;  /* slab: its bin's `look` if this pass has seen it (arena/holes.h) */
	/* in a page cache: its LRU list; slab: a list of its bin; spare: their list */
	ql_t link;
	union {
		ph_link_t heap;  /* in a page cache: its class; slab with free regions: its bin */
		edata_t *below;  /* hot: the next one of its stack (extent/pac_hot.h); NULL: the last */
	};
	/* sampled: one record per region of a slab, or one for a large allocation */
	sample_rec_t *recs;
	uint64_t *bits; /* slab: one bit per region, set if the region is free; may be inline_bits */
	union {
		uint64_t inline_bits[EDATA_INLINE_BITS_WORDS];
		struct {
			/* large: usable size in bytes (size may include a page for the offset) */
			size_t large_usize;
			char *large_start; /* large: address of the object, in the first page */
			/*
			 * large: 1 from the free until the object is handed out again, so also while a
			 * thread cache holds it. Whoever changes 0 to 1 has freed the object.
			 */
			atomic_u32_t large_is_freed;
			uint32_t large_bin; /* large: offset in bytes of its bin in a thread cache; 0: none */
		};
	} u;
	uint32_t serial; /* slab: its number among those that its bin has had */
	/*
	 * Slab, a bit per page, else 0: pages of it that were given back (arena/holes.h), and those
	 * that held nothing when a pass looked last.
	 */
	uint16_t holes;
	uint16_t seen_empty;
};
cassert(sizeof(edata_t) <= EDATA_ALIGN);
cassert(sizeof(((edata_t *)0)->u) == EDATA_INLINE_BITS_WORDS * sizeof(uint64_t));
cassert(offsetof(edata_t, is_committed) - offsetof(edata_t, home) < sizeof(uint64_t));

/*
 * The word `home`, read at once, of a descriptor that may have another owner or be spare by now,
 * as a descriptor of which only the members of that word are set. The other owner may write a byte
 * of the word meanwhile; the arena stays the same. A descriptor whose page was given back meanwhile
 * reads as zeros: arena 0, no state.
 */
NO_SANITIZE_THREAD static inline edata_t
edata_seen(const edata_t *e) {
	edata_t seen;
	seen.home = *(const volatile uint64_t *)&e->home;
	return seen;
}

/* Whether a descriptor as of edata_seen() is that of an extent of this arena. */
static inline bool
edata_is_of(const edata_t *e, unsigned arena_ind) {
	edata_t seen = edata_seen(e);
	return seen.arena_ind == arena_ind && seen.state != extent_state_none;
}

static inline edata_t *
edata_of_heap(ph_link_t *l) {
	return container_of(l, edata_t, heap);
}

static inline edata_t *
edata_of_link(ql_t *l) {
	return container_of(l, edata_t, link);
}

/* The order of all heaps of extents: by address, so that memory is used from the low end. */
ALWAYS_INLINE int
edata_cmp_addr(const ph_link_t *a, const ph_link_t *b) {
	uintptr_t x = (uintptr_t)container_of(a, const edata_t, heap)->addr;
	uintptr_t y = (uintptr_t)container_of(b, const edata_t, heap)->addr;
	return (x > y) - (x < y);
}

/* The first address behind the extent. */
static inline char *
edata_end(const edata_t *e) {
	return e->addr + e->size;
}

/* Asserts what holds for every extent whenever its owner looks at it. */
static inline void
edata_check(const edata_t *e) {
	assert(((uintptr_t)e & (EDATA_ALIGN - 1)) == 0);
	assert(e->addr != NULL && e->size > 0);
	assert(e->state > extent_state_none && e->state < extent_state_count);
	assert(!e->is_sampled || e->state == extent_state_active);
	assert(!e->is_listed || e->is_slab);
	assert(e->nguards == 0 || e->state == extent_state_active);
}

/* Atomic, because pac_ndirty() reads the size of extents that may have another owner by then. */
static inline void
edata_set_size(edata_t *e, size_t size) {
	__atomic_store_n(&e->size, size, __ATOMIC_RELAXED);
}

/*
 * Fills in a new descriptor for pages that no other thread knows yet. arena_ind is not written, not
 * even temporarily: a thread that looks at a neighbour in the page map may be late and find a
 * descriptor that is in use again, and must still see its arena.
 */
static inline void
edata_init(edata_t *e, char *addr, size_t size, bool committed, bool zeroed) {
	e->addr = addr;
	edata_set_size(e, size);
	e->nfree = 0;
	e->szind = SC_NSIZES;
	e->state = extent_state_active;
	e->bin_shard = 0;
	e->is_slab = false;
	e->is_sampled = false;
	e->is_committed = committed;
	e->is_zeroed = zeroed;
	e->is_listed = false;
	e->nguards = 0;
	e->is_hpa = false;
	e->is_moved = false;
	e->look = 0;
	memset(&e->link, 0, sizeof(*e) - offsetof(edata_t, link));
	ql_init(&e->link);
}
