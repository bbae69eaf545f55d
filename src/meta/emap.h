/*
 * The page map: from an address to the extent that holds it, two loads, no lock.
 *
 * A static root (one entry per GiB of address space) points to leaves of one 8-byte element per
 * 4 KiB granule, whatever the page size:
 *   [63:51] byte offset of the thread-cache bin that takes a free of this object; 0 = no bin
 *   [50:48] and [6:5] high and low bits of an active slab's arena number plus one, if that and its bin's
 *           being the first shard can be said in them; else 0
 *   [47:7]  the edata (128-byte aligned)    [4:2] its state    [1] sampled    [0] slab
 * Invariant: of every extent the first and the last page are mapped (all granules of the first page,
 * the last granule); of a slab every granule.  Elements of an extent in a page cache are written
 * under that cache's lock, and their state says which cache; that is what makes it safe to look at a
 * neighbour: seen in our cache's state with our cache's lock held, it stays there.
 * Leaves are never given back.
 */
#ifndef META_EMAP_H
#define META_EMAP_H

#include "meta/edata.h"
#include "meta/sz.h"
#include "util/atomic.h"

#define EMAP_LG_GRANULE 12
#define EMAP_LG_LEAF 30
#define EMAP_ROOT_ENTRIES ((size_t)1 << (48 - EMAP_LG_LEAF))
#define EMAP_LEAF_ENTRIES ((size_t)1 << (EMAP_LG_LEAF - EMAP_LG_GRANULE))

#define ELEM_SLAB ((uint64_t)1)
#define ELEM_SAMPLED ((uint64_t)2)
#define ELEM_STATE_SHIFT 2
#define ELEM_STATE_MASK ((uint64_t)7)
#define ELEM_EDATA_MASK ((((uint64_t)1 << 48) - 1) & ~(uint64_t)(EDATA_ALIGN - 1))
#define ELEM_BIN_SHIFT 51
#define ELEM_ARENA_LOW_SHIFT 5
#define ELEM_ARENA_HIGH_SHIFT 48
#define ELEM_ARENA_LG_LOW 2
/* Slabs of arenas below this carry their number. */
#define ELEM_ARENAS 31u

typedef struct emap_leaf_s {
	atomic_u64_t elems[EMAP_LEAF_ENTRIES];
	atomic_u64_t pieces[EMAP_LEAF_ENTRIES / 512 / 64]; /* 4 KiB pieces of elems ever written */
} emap_leaf_t;

extern HIDDEN atomic_p_t emap_root[EMAP_ROOT_ENTRIES];

/* Classes below this may be freed into a thread cache; set once at boot. */
extern HIDDEN szind_t emap_ncacheable;

/* Where the element of a reserved address lies. */
ALWAYS_INLINE atomic_u64_t *
emap_slot(uintptr_t a) {
	emap_leaf_t *leaf = atomic_load_p(&emap_root[a >> EMAP_LG_LEAF], MO_RELAXED);
	assert((a >> 48) == 0 && leaf != NULL);
	return &leaf->elems[(a >> EMAP_LG_GRANULE) & (EMAP_LEAF_ENTRIES - 1)];
}

/* The element of an address that the caller knows to be below 2^48; 0 if never mapped. */
ALWAYS_INLINE uint64_t
emap_elem(const void *ptr) {
	uintptr_t a = (uintptr_t)ptr;
	const emap_leaf_t *leaf = atomic_load_p(&emap_root[a >> EMAP_LG_LEAF], MO_RELAXED);
	if (unlikely(leaf == NULL)) {
		return 0;
	}
	return atomic_load_u64(&leaf->elems[(a >> EMAP_LG_GRANULE) & (EMAP_LEAF_ENTRIES - 1)],
	    MO_RELAXED);
}

/* The same for any bit pattern. */
static inline uint64_t
emap_elem_any(const void *ptr) {
	return ((uintptr_t)ptr >> 48) != 0 ? 0 : emap_elem(ptr);
}

static inline edata_t *
elem_edata(uint64_t elem) {
	return (edata_t *)(uintptr_t)(elem & ELEM_EDATA_MASK);
}

static inline extent_state_t
elem_state(uint64_t elem) {
	return (extent_state_t)((elem >> ELEM_STATE_SHIFT) & ELEM_STATE_MASK);
}

static inline edata_t *
emap_edata(const void *ptr) {
	return elem_edata(emap_elem(ptr));
}

/* The bin that takes a free of an object of this class, in its place. */
ALWAYS_INLINE uint64_t
elem_bits_of_class(szind_t szind) {
	return szind >= emap_ncacheable ? 0 : ((uint64_t)(szind + 1) << SC_LG_BIN_STRIDE) << ELEM_BIN_SHIFT;
}

/* The number that the slabs of a bin carry; 0: none. */
ALWAYS_INLINE uint64_t
elem_arena_number(unsigned arena_ind, unsigned shard) {
	return shard == 0 && arena_ind < ELEM_ARENAS ? arena_ind + 1 : 0;
}

/* All but the edata of the element of an active slab whose regions are no samples. */
ALWAYS_INLINE uint64_t
elem_bits_of_slab(unsigned arena_ind, szind_t szind, unsigned shard) {
	uint64_t arena = elem_arena_number(arena_ind, shard);
	uint64_t low = arena & (((uint64_t)1 << ELEM_ARENA_LG_LOW) - 1), high = arena >> ELEM_ARENA_LG_LOW;
	return ELEM_SLAB | (uint64_t)extent_state_active << ELEM_STATE_SHIFT | low << ELEM_ARENA_LOW_SHIFT
	    | high << ELEM_ARENA_HIGH_SHIFT | elem_bits_of_class(szind);
}

/* Whether the slabs of a bin, and no other extents, have those bits. */
ALWAYS_INLINE bool
elem_bits_tell_bin(unsigned arena_ind, szind_t szind, unsigned shard) {
	return elem_arena_number(arena_ind, shard) != 0 && szind < emap_ncacheable;
}

void emap_boot(szind_t ncacheable);

/*
 * Makes sure that leaves exist for the range; 0 or ENOMEM.  After it, writing elements of the
 * range cannot fail.
 */
int emap_reserve(const void *addr, size_t size);

/* Writes the first and last page of an extent from its fields (state, szind, slab, sampled). */
void emap_set_boundary(const edata_t *e);
/*
 * The first page alone, of a large extent of no cacheable class that is no sample, when only its state
 * is news: to whoever asks for its last page, active and hot are the same.
 */
ALWAYS_INLINE void
emap_set_first_state(const edata_t *e) {
	assert(!e->is_slab && !e->is_sampled && (e->szind >= emap_ncacheable || e->state != extent_state_active));
	assert(e->state == extent_state_active || e->state == extent_state_hot);
	uint64_t elem = (uintptr_t)e | (uint64_t)e->state << ELEM_STATE_SHIFT;
	atomic_u64_t *slot = emap_slot((uintptr_t)e->addr);
	for (size_t i = 0; i < PAGE >> EMAP_LG_GRANULE; i++) {
		atomic_store_u64(&slot[i], elem, MO_RELEASE);
	}
}
/* Writes all granules of an active slab / takes those between the boundaries back. */
void emap_set_slab(const edata_t *e);
void emap_clear_slab_interior(const edata_t *e);
/* Removes the first and last page of an extent that goes back to the system. */
void emap_clear_boundary(const edata_t *e);

/* Bytes of page-map memory in use (touched pages of leaves). */
size_t emap_bytes(void);

#endif
