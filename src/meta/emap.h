/*
 * The page map: finds the extent that contains an address, with one or two loads and no lock.
 * A static root (one entry per GiB of address space) leads to leaves, which have one element of 8
 * bytes per 4 KiB granule, whatever the page size. An entry is not the leaf's address, but that
 * address minus 8 times the number of the leaf's first granule. So the element of an address is at
 * the entry plus 8 times the number of its granule in the whole address space.
 * The leaves of the 16 GiB of address space around the first mappings of the process (the window)
 * lie one behind another and have no entries in the root. A leaf of them is writable only after
 * emap_reserve(); until then its elements read as 0. There is no window under a limit of address
 * space.
 * Invariant: of every extent the map has all granules of the first page and the last granule, and
 * of a slab of small objects every granule. (While its owner makes or takes apart an extent, some
 * may be missing.) A huge slab (hpa/) is not in the map, but the extents that are taken from it
 * are. Elements of an extent in a page cache are written under that cache's lock, others by the
 * extent's owner. Leaves are never freed. Written by arena/, extent/ and thread/shelter. These read
 * it too, as do the paths of free, realloc and usable sizes, other files of thread/, and ctl/.
 */
#pragma once

#include "meta/edata.h"
#include "meta/sz.h"
#include "util/atomic.h"

/*
 * An element:
 *   [63:48] slab: byte offset of the thread-cache bin to which a free of a region goes; else 0
 *   [47:7]  the edata (128-byte aligned)    [4:2] its state    [1] sampled    [0] slab
 *   [5]     a large object that a thread cache may hold (its bin: edata_t.u.large_bin), no sample
 * The other bits are 0.
 * The state says in which cache an extent lies, or active; a hot extent that was an object stays
 * active here (extent/pac_hot.h). The caches of all arenas have the same states. If the element of
 * a neighbour has our cache's state while we hold our cache's lock, and its descriptor is of our
 * arena (edata_is_of), it is in our cache and stays there.
 */
/* log2 of the bytes of a granule, and of the address space that a leaf is for. */
#define EMAP_LG_GRANULE 12
#define EMAP_LG_LEAF 30
/* log2 of the bytes of address space for which there is one bit `huge`. */
#define EMAP_LG_HUGE 21
#define EMAP_ROOT_ENTRIES ((size_t)1 << (48 - EMAP_LG_LEAF))
#define EMAP_LEAF_ENTRIES ((size_t)1 << (EMAP_LG_LEAF - EMAP_LG_GRANULE))

#define ELEM_SLAB ((uint64_t)1)
#define ELEM_SAMPLED ((uint64_t)2)
#define ELEM_LARGE ((uint64_t)32)
#define ELEM_STATE_SHIFT 2
#define ELEM_STATE_MASK ((uint64_t)7)
cassert(extent_state_count <= ELEM_STATE_MASK + 1);
#define ELEM_EDATA_MASK ((((uint64_t)1 << 48) - 1) & ~(uint64_t)(EDATA_ALIGN - 1))
#define ELEM_BIN_SHIFT 48

/* A quarter of an element in memory; the quarter with the bin's offset can be read alone. */
typedef uint16_t __attribute__((may_alias)) elem_part_t;
#define ELEM_BIN_PART (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 3 : 0)

/* GiB of the window, and of these how many lie below the GiB of its own mapping. */
#define EMAP_WINDOW_LEAVES ((size_t)16)
#define EMAP_WINDOW_BELOW ((size_t)13)
#define EMAP_WINDOW_ENTRIES (EMAP_WINDOW_LEAVES * EMAP_LEAF_ENTRIES)

/* The window; constant after emap_boot(). */
typedef struct {
	uintptr_t from;      /* its first address; without a window 2^63, so no address is in it */
	uintptr_t size;      /* the number of its elements: EMAP_WINDOW_ENTRIES, or 0 */
	atomic_u64_t *elems; /* these */
} emap_window_t;
extern HIDDEN emap_window_t emap_window;

/* Bits about 1 GiB of address space. */
typedef struct {
	/* bit set: emap_reserve() was called for this 4 KiB piece of elements; it counts as touched */
	atomic_u64_t pieces[EMAP_LEAF_ENTRIES / 512 / 64];
	/* bit set: these 2 MiB of address space are a huge piece (extent/piece.h) */
	atomic_u64_t huge[EMAP_LEAF_ENTRIES / 512 / 64];
} emap_bits_t;
extern HIDDEN emap_bits_t emap_window_bits[EMAP_WINDOW_LEAVES];

extern HIDDEN atomic_p_t emap_root[EMAP_ROOT_ENTRIES];

/* Objects of classes below this may be freed into a thread cache; set once at boot. */
extern HIDDEN szind_t emap_ncacheable;

/* An entry of the root, for an address below 2^48; 0: nothing in its GiB was ever mapped. */
ALWAYS_INLINE uintptr_t
emap_origin(const void *ptr) {
	return (uintptr_t)atomic_load_p(&emap_root[(uintptr_t)ptr >> EMAP_LG_LEAF], MO_RELAXED);
}

/* The number of the granule of an address below 2^48 in the whole address space. */
ALWAYS_INLINE uintptr_t
emap_granule(const void *ptr) {
	assert(((uintptr_t)ptr >> 48) == 0);
	return (uintptr_t)ptr >> EMAP_LG_GRANULE;
}

/* Where the element of an address is: number `at` of those at `elems`. */
typedef struct {
	atomic_u64_t *elems;
	uintptr_t at;
} emap_place_t;

/* Finds that of an address below 2^48; false: nothing in its GiB was ever mapped. */
ALWAYS_INLINE bool
emap_find(const void *ptr, emap_place_t *p) {
	p->at = ((uintptr_t)ptr - emap_window.from) >> EMAP_LG_GRANULE;
	if (likely(p->at < EMAP_WINDOW_ENTRIES)) {
		p->elems = emap_window.elems;
		return true;
	}
	p->elems = (atomic_u64_t *)emap_origin(ptr);
	p->at = emap_granule(ptr);
	return p->elems != NULL;
}

ALWAYS_INLINE uint64_t
emap_elem_at(const emap_place_t *p) {
	return atomic_load_u64(&p->elems[p->at], MO_RELAXED);
}

/* Only the bin's offset of that element, read without a shift. */
ALWAYS_INLINE size_t
emap_bin_at(const emap_place_t *p) {
	const elem_part_t *parts = (const elem_part_t *)&p->elems[p->at];
	return __atomic_load_n(&parts[ELEM_BIN_PART], __ATOMIC_RELAXED);
}

/*
 * The element of an address that is known to be below 2^48; 0 if no extent is there. In an extent
 * other than a slab, behind the first page and before the last granule, it may be anything.
 */
ALWAYS_INLINE uint64_t
emap_elem(const void *ptr) {
	emap_place_t p;
	return likely(emap_find(ptr, &p)) ? emap_elem_at(&p) : 0;
}

/* The same for the bin's offset. */
ALWAYS_INLINE size_t
emap_bin(const void *ptr) {
	emap_place_t p;
	return likely(emap_find(ptr, &p)) ? emap_bin_at(&p) : 0;
}

/*
 * emap_elem() for any pointer value; 0 if it is not below 2^48. (The size is read, because a value
 * can lie behind 2^63 too.)
 */
static inline uint64_t
emap_elem_any(const void *ptr) {
	uintptr_t at = ((uintptr_t)ptr - emap_window.from) >> EMAP_LG_GRANULE;
	if (likely(at < emap_window.size)) {
		return atomic_load_u64(&emap_window.elems[at], MO_RELAXED);
	}
	return ((uintptr_t)ptr >> 48) != 0 ? 0 : emap_elem(ptr);
}

static inline edata_t *
elem_edata(uint64_t elem) {
	return (edata_t *)(uintptr_t)(elem & ELEM_EDATA_MASK);
}

/* The same for an element with ELEM_LARGE, in which all bits but the descriptor's are known. */
ALWAYS_INLINE edata_t *
elem_edata_large(uint64_t elem) {
	const uint64_t others = ELEM_LARGE | (uint64_t)extent_state_active << ELEM_STATE_SHIFT;
	assert((elem & ~ELEM_EDATA_MASK) == others);
	return (edata_t *)(uintptr_t)(elem - others);
}

static inline extent_state_t
elem_state(uint64_t elem) {
	return (extent_state_t)((elem >> ELEM_STATE_SHIFT) & ELEM_STATE_MASK);
}

/* The extent in the element of an address that is known to be below 2^48; NULL: none. */
static inline edata_t *
emap_edata(const void *ptr) {
	return elem_edata(emap_elem(ptr));
}

/* Offset in bytes of the bin to which objects of this class are freed; 0 if they are not cached. */
ALWAYS_INLINE uint32_t
emap_bin_of_class(szind_t szind) {
	return szind >= emap_ncacheable ? 0 : (uint32_t)(szind + 1) << SC_LG_BIN_STRIDE;
}

/*
 * What the element of an active extent says of its use. is_slab: e->is_slab. Regions of a slab and
 * large objects are freed fast; a sample has neither a bin nor ELEM_LARGE, so that its free takes
 * the slow path.
 */
ALWAYS_INLINE uint64_t
elem_use(const edata_t *e, bool is_slab) {
	uint64_t slab = is_slab ? ELEM_SLAB : 0;
	if (e->is_sampled) {
		return slab | ELEM_SAMPLED;
	}
	uint64_t bin = emap_bin_of_class(e->szind);
	return slab | (is_slab ? bin << ELEM_BIN_SHIFT : bin != 0 ? ELEM_LARGE : 0);
}

/* Sets emap_ncacheable and makes the window; called at boot, again only if boot failed. */
void emap_boot(szind_t ncacheable);

/*
 * Makes sure that leaves exist for the range; 0, or ENOMEM (also if the range reaches beyond 2^48
 * or is empty). Afterwards writing elements of the range cannot fail.
 */
int emap_reserve(const void *addr, size_t size);

/*
 * Writes the elements of an extent's first page, and that of its last granule, from its fields
 * (state, szind, is_slab, is_sampled).
 */
void emap_set_boundary(const edata_t *e);
/*
 * For an extent that has become longer at its end: clears its old last element and writes the new
 * one. Those of the first page stay. from: the old end, the first address behind the extent.
 */
void emap_move_end(const edata_t *e, const char *from);
/*
 * For one that has become shorter at its start: clears the elements of its old first page and
 * writes those of the new one. from: the old start.
 */
void emap_move_start(const edata_t *e, char *from);
/* emap_write() writes the element of one granule, emap_write_page() all elements of one page. */
ALWAYS_INLINE void
emap_write(const char *addr, uint64_t elem) {
	emap_place_t p;
	bool is_there UNUSED = emap_find(addr, &p);
	assert(is_there);
	atomic_store_u64(&p.elems[p.at], elem, MO_RELEASE);
}

ALWAYS_INLINE void
emap_write_page(const char *addr, uint64_t elem) {
	for (size_t i = 0; i < PAGE >> EMAP_LG_GRANULE; i++) {
		emap_write(addr + (i << EMAP_LG_GRANULE), elem);
	}
}

/*
 * For a large extent whose is_sampled has just changed: writes the elements of the first page. Its
 * object begins there; in the last granule's element only the extent and its state are asked for.
 */
ALWAYS_INLINE void
emap_set_sampled(const edata_t *e) {
	assert(!e->is_slab && e->state == extent_state_active);
	uint64_t elem = (uintptr_t)e | (uint64_t)extent_state_active << ELEM_STATE_SHIFT;
	emap_write_page(e->addr, elem | elem_use(e, false));
}
/*
 * emap_set_slab() writes all granules of an active slab. emap_clear_slab_interior() clears all but
 * those of its first page; the cache that gets the extent writes the last granule's anew.
 */
void emap_set_slab(const edata_t *e);
void emap_clear_slab_interior(const edata_t *e);
/* Clears what emap_set_boundary() has written, for an extent that ceases to exist as such. */
void emap_clear_boundary(const edata_t *e);

/* emap_bits() of an address that is not in the window. */
emap_bits_t *emap_bits_outside(const void *ptr);

/* The bits about the GiB of any pointer value; NULL if nothing in it was ever mapped. */
static inline emap_bits_t *
emap_bits(const void *ptr) {
	size_t ind = ((uintptr_t)ptr - emap_window.from) >> EMAP_LG_LEAF;
	return likely(ind < EMAP_WINDOW_LEAVES) ? &emap_window_bits[ind] : emap_bits_outside(ptr);
}

/* Whether the address lies in a huge piece. */
static inline bool
emap_is_huge(const void *ptr) {
	uintptr_t a = (uintptr_t)ptr;
	const emap_bits_t *bits = emap_bits(ptr);
	size_t i = (a >> EMAP_LG_HUGE) & (((size_t)1 << (EMAP_LG_LEAF - EMAP_LG_HUGE)) - 1);
	return bits != NULL
	    && ((atomic_load_u64(&bits->huge[i >> 6], MO_RELAXED) >> (i & 63)) & 1) != 0;
}

/*
 * Notes whether the 2 MiB at this address, for which emap_reserve() succeeded, are a huge piece.
 * Returns whether they were one before.
 */
bool emap_set_huge(const void *ptr, bool is_huge);

/*
 * The word that the map has for the 2 MiB of address space around ptr: the huge slab there (hpa/,
 * an hslab_t), or NULL. The result is NULL if nothing in its GiB was ever mapped.
 */
atomic_p_t *emap_huge_word(const void *ptr);

/* Bytes of the page map that are in use: touched pages of leaves. */
size_t emap_bytes(void);
