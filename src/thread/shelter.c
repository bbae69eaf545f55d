/*
 * The fork fallback heap: slabs whose bitmaps are atomic words (shelter.h).
 *
 * A slab is one mapping: a page whose second half begins with the slab's header and ends with a
 * mark, then the regions. A write in front of the regions is detected when a block of the slab is
 * freed or its size is asked for (slab_of()). There is one list of slabs for each small class; it
 * grows at its head, by compare-and-swap, and nothing is removed, so a walk needs no lock. A small
 * slab stays mapped for ever and is purged when it has no block. A large block is a slab of one
 * region in no list, with a tail mark (large_marks.h); its pages go when it is freed, and the last
 * few that were freed, of up to LARGE_KEPT_MAX, stay mapped without access.
 *
 * Invariant: a region belongs to the thread that has cleared its bit, until the bit is set again.
 * n_used is raised before a bit is cleared and lowered after it was set, so whoever has raised it
 * without exceeding nregs finds a bit. Who changes it from 0 to SLAB_CLAIMED owns the whole slab.
 * A child that is forked in between counts a block that nobody has. Locks: none. Callers: see
 * shelter.h.
 */
#include "thread/shelter.h"

#include "arena/arena.h"
#include "arena/bin_info.h"
#include "arena/canary.h"
#include "arena/large_marks.h"
#include "arena/safety.h"
#include "meta/sz.h"
#include "os/gate.h"
#include "os/pages.h"

/* Bits of a word of a slab's bitmap, and words of the bitmap. */
#define WORD_BITS 64u
#define SLAB_WORDS 16u
/* Most regions of a slab; most bytes of a small slab, unless a single region is larger. */
#define SLAB_REGS_MAX (SLAB_WORDS * WORD_BITS)
#define SLAB_BYTES ((size_t)64 << 10)
/* The value of n_used while one thread owns the whole slab, to purge it. */
#define SLAB_CLAIMED ((uint32_t)1 << 31)
/* From the header to the regions. */
#define HEADER_BYTES (PAGE / 2)
/* How many freed large blocks stay mapped without access; most bytes (pages) of one of them. */
#define LARGE_KEPT 8u
#define LARGE_KEPT_MAX ((size_t)8 << 20)
/* Largest size and alignment of a block, in bytes. */
#define LARGE_MAX ((size_t)1 << 40)

typedef struct shelter_slab_s shelter_slab_t;
struct shelter_slab_s {
	edata_t e;            /* the descriptor in the page map: address and class */
	atomic_u64_t free[SLAB_WORDS]; /* bit set: the region is free; of a large slab only bit 0 */
	atomic_u32_t n_used;  /* small: regions in use or about to be; or SLAB_CLAIMED */
	uint32_t nregs;       /* regions of the slab; large: 1 */
	atomic_b_t is_touched; /* small: pages of the slab may be in memory */
	shelter_slab_t *next; /* small: written before the slab is on its list */
};
cassert(offsetof(shelter_slab_t, e) == 0);
cassert(sizeof(shelter_slab_t) + LARGE_MARK_BYTES <= ((size_t)1 << LG_PAGE_MIN) / 2);

static LARGE_BSS struct {
	atomic_p_t lists[BIN_MAX];   /* by class */
	atomic_p_t latest[BIN_MAX];  /* by class: the slab that served the last request */
	atomic_p_t kept[LARGE_KEPT]; /* freed large blocks, a ring */
	atomic_u32_t n_freed;        /* large blocks that were put into it */
} shelter;

/* ------------------------------------------------------------------ slabs */

/* The mark between the header and the regions. */
static uint64_t *
front_mark(char *regions) {
	return (uint64_t *)(void *)(regions - LARGE_MARK_BYTES);
}

/* Maps a slab with zeroed, aligned regions, which no other thread finds yet; NULL: no memory. */
static shelter_slab_t *
slab_map(size_t bytes, size_t alignment) {
	assert((bytes & PAGE_MASK) == 0 && (alignment & (alignment - 1)) == 0);
	size_t lead = max_zu(alignment, PAGE);
	char *p = pages_map(NULL, lead + bytes, lead, NULL);
	if (p != NULL && emap_reserve(p + lead, bytes) != 0) {
		pages_unmap_in_time(p, lead + bytes);
		p = NULL;
	}
	if (p == NULL) {
		return NULL;
	}
	char *regions = p + lead;
	if (lead > PAGE) { /* the page of the header stays */
		pages_unmap_in_time(p, lead - PAGE);
	}
	shelter_slab_t *s = (shelter_slab_t *)(void *)(regions - HEADER_BYTES);
	large_mark_put(front_mark(regions));
	edata_init(&s->e, regions, bytes, true, true);
	s->e.state = extent_state_shelter;
	arena_mark_slow_sized_free(regions, bytes);
	return s;
}

/* A new slab of a small class, whose region 0 is the caller's; NULL without memory. */
static shelter_slab_t *
slab_new(szind_t szind) {
	size_t reg = sz_i2s(szind);
	size_t n = max_zu(min_zu(SLAB_BYTES / reg, SLAB_REGS_MAX), 1), bytes = PAGE_CEILING(n * reg);
	shelter_slab_t *s = slab_map(bytes, PAGE);
	if (s == NULL) {
		return NULL;
	}
	s->nregs = (uint32_t)min_zu(bytes / reg, SLAB_REGS_MAX);
	s->e.szind = (uint8_t)szind;
	s->e.is_slab = true;
	emap_set_slab(&s->e);
	atomic_store_u32(&s->n_used, 1, MO_RELAXED);
	for (uint32_t r = 1; r < s->nregs; r++) {
		atomic_fetch_or_u64(&s->free[r / WORD_BITS], (uint64_t)1 << r % WORD_BITS, MO_RELAXED);
	}
	void *head = atomic_load_p(&shelter.lists[szind], MO_RELAXED);
	do {
		s->next = head;
	} while (!atomic_cas_weak_p(&shelter.lists[szind], &head, s, MO_RELEASE, MO_RELAXED));
	return s;
}

/* Takes a region, and sets *r to its number; false if all are in use or the slab is claimed. */
static bool
slab_try_take(shelter_slab_t *s, uint32_t *r) {
	if (atomic_fetch_add_u32(&s->n_used, 1, MO_ACQUIRE) >= s->nregs) {
		atomic_fetch_sub_u32(&s->n_used, 1, MO_RELAXED);
		return false;
	}
	for (unsigned w = 0;; w = (w + 1) % SLAB_WORDS) {
		uint64_t seen = atomic_load_u64(&s->free[w], MO_RELAXED);
		while (seen != 0) {
			*r = w * WORD_BITS + (uint32_t)__builtin_ctzll(seen);
			if (atomic_cas_weak_u64(&s->free[w], &seen, seen & (seen - 1), MO_ACQUIRE,
			    MO_RELAXED)) {
				return true;
			}
		}
	}
}

/* Ends the process (safety_fail) unless these bytes, of freed regions, are zero. Returns p. */
static void *
check_zero(char *p, size_t size) {
	if (unlikely(p[0] != 0 || memcmp(p, p + 1, size - 1) != 0)) {
		safety_fail("write to a freed block");
		memset(p, 0, size);
	}
	return p;
}

/* Purges a small slab if it has no block and was touched. */
static void
slab_purge(shelter_slab_t *s) {
	uint32_t none = 0;
	assert(s->e.is_slab);
	if (!atomic_load_b(&s->is_touched, MO_RELAXED)
	    || !atomic_cas_strong_u32(&s->n_used, &none, SLAB_CLAIMED, MO_ACQUIRE, MO_RELAXED)) {
		return;
	}
	check_zero(s->e.addr, s->e.size);
	if (pages_purge_forced(s->e.addr, s->e.size) == 0) {
		atomic_store_b(&s->is_touched, false, MO_RELAXED);
	}
	atomic_fetch_sub_u32(&s->n_used, SLAB_CLAIMED, MO_RELEASE);
}

/* The slab of a block of the shelter. Ends the process after a write in front of the regions. */
static shelter_slab_t *
slab_of(const void *ptr) {
	shelter_slab_t *s = (shelter_slab_t *)emap_edata(ptr);
	char *regions = (char *)s + HEADER_BYTES;
	if (unlikely(s->e.addr != regions)
	    || unlikely(!large_mark_is(front_mark(regions), LARGE_MARK_WORD))) {
		safety_fail(SAFETY_FRONT_IS_LOST);
	}
	return s;
}

/* Bytes of a region; of a large slab the bytes of all its pages, not the usable size. */
static size_t
slab_reg_size(const shelter_slab_t *s) {
	return s->e.is_slab ? sz_i2s(s->e.szind) : s->e.size;
}

/* Sets *r to the number of the region that begins at ptr; false if none begins there. */
static bool
region_begins(const shelter_slab_t *s, const void *ptr, size_t *r) {
	size_t off = (size_t)((const char *)ptr - s->e.addr), reg = slab_reg_size(s);
	*r = off / reg;
	return likely(off % reg == 0) && likely(*r < s->nregs);
}

/* ------------------------------------------------------------------ small blocks */

static void *
small_malloc(szind_t szind) {
	assert(szind < SC_NBINS);
	uint32_t r = 0;
	shelter_slab_t *s = atomic_load_p(&shelter.latest[szind], MO_ACQUIRE);
	if (s == NULL || !slab_try_take(s, &r)) {
		s = atomic_load_p(&shelter.lists[szind], MO_ACQUIRE);
		while (s != NULL && !slab_try_take(s, &r)) {
			s = s->next;
		}
		if (s == NULL && (s = slab_new(szind)) == NULL) {
			return NULL;
		}
		atomic_store_p(&shelter.latest[szind], s, MO_RELEASE);
	}
	assert(r < s->nregs);
	atomic_store_b(&s->is_touched, true, MO_RELAXED);
	return check_zero(s->e.addr + r * slab_reg_size(s), slab_reg_size(s));
}

/*
 * A slab that becomes empty is purged, but not while the gate is closed, since shelter_trim()
 * follows (a lost child keeps its pages), nor if it is the one that the next request of the class
 * tries first, because otherwise a handler that allocates and frees one block would fault in and
 * purge its pages each time.
 */
static void
small_free(shelter_slab_t *s, void *ptr, size_t r) {
	assert(s->e.is_slab && r < s->nregs);
	atomic_u64_t *word = &s->free[r / WORD_BITS];
	uint64_t bit = (uint64_t)1 << r % WORD_BITS;
	if (likely((atomic_load_u64(word, MO_RELAXED) & bit) == 0)) {
		if (config_hardening && !canary_is_region_intact(ptr, slab_reg_size(s))) {
			safety_fail(SAFETY_TAIL_IS_LOST);
		}
		memset(ptr, 0, slab_reg_size(s));
	}
	if (unlikely((atomic_fetch_or_u64(word, bit, MO_RELEASE) & bit) != 0)) {
		safety_fail("double free");
	} else if (atomic_fetch_sub_u32(&s->n_used, 1, MO_RELEASE) == 1 && !gate_is_closed()
	    && s != atomic_load_p(&shelter.latest[s->e.szind], MO_RELAXED)) {
		slab_purge(s);
	}
}

/* ------------------------------------------------------------------ large blocks */

static uint64_t *
large_mark(const shelter_slab_t *s) {
	return (uint64_t *)(void *)(s->e.addr + s->e.u.large_usize);
}

static void *
large_malloc(size_t usize, size_t alignment) {
	shelter_slab_t *s = usize > LARGE_MAX || alignment > LARGE_MAX ? NULL
	    : slab_map(PAGE_CEILING(usize + LARGE_MARK_BYTES), alignment);
	if (s == NULL) {
		return NULL;
	}
	s->nregs = 1;
	s->e.u.large_usize = usize;
	large_mark_put(large_mark(s));
	emap_set_boundary(&s->e);
	return s->e.addr;
}

static void
large_unmap(shelter_slab_t *s) {
	emap_clear_boundary(&s->e);
	pages_unmap_in_time(s->e.addr - PAGE, PAGE + s->e.size);
}

/*
 * Frees a large block. One of up to LARGE_KEPT_MAX is kept without access, so that a later use is a
 * fault (if the system refuses that, it is only purged), and the one kept in its place is unmapped.
 */
static void
large_free(shelter_slab_t *s) {
	assert(!s->e.is_slab && s->nregs == 1);
	if (unlikely(atomic_fetch_or_u64(&s->free[0], 1, MO_ACQUIRE) != 0)) {
		safety_fail("double free");
		return;
	}
	if (unlikely(!large_mark_is(large_mark(s), LARGE_MARK_WORD))) {
		safety_fail(SAFETY_TAIL_IS_LOST);
	}
	if (s->e.size <= LARGE_KEPT_MAX) {
		(void)pages_purge_forced(s->e.addr, s->e.size);
		(void)pages_protect(s->e.addr, s->e.size, PAGES_CLOSED);
		uint32_t i = atomic_fetch_add_u32(&shelter.n_freed, 1, MO_RELAXED) % LARGE_KEPT;
		s = atomic_exchange_p(&shelter.kept[i], s, MO_ACQ_REL);
	}
	if (s != NULL) {
		large_unmap(s);
	}
}

/* ------------------------------------------------------------------ the interface */

void *
shelter_malloc(size_t size, size_t alignment) {
	size_t usize = canary_usize(size, alignment);
	if (usize == 0 || usize > SC_SMALL_MAXCLASS) {
		return usize == 0 ? NULL : large_malloc(usize, alignment);
	}
	char *p = small_malloc(sz_s2i(usize));
	if (p != NULL) {
		canary_begin(p, usize);
		canary_put(p, usize, size);
	}
	return p;
}

bool
shelter_is_live(const void *ptr) {
	const shelter_slab_t *s = slab_of(ptr);
	size_t r;
	return region_begins(s, ptr, &r)
	    && (atomic_load_u64(&s->free[r / WORD_BITS], MO_RELAXED) >> r % WORD_BITS & 1) == 0;
}

size_t
shelter_usize(const void *ptr) {
	const shelter_slab_t *s = slab_of(ptr);
	if (!shelter_is_live(ptr)) {
		return 0;
	}
	if (!s->e.is_slab) {
		return s->e.u.large_usize;
	}
	size_t reg = slab_reg_size(s);
	return config_hardening ? canary_size(ptr, reg, &s->e) : reg;
}

void
shelter_free(void *ptr) {
	shelter_slab_t *s = slab_of(ptr);
	size_t r;
	if (unlikely(!region_begins(s, ptr, &r))) {
		safety_fail("pointer into a block");
	} else if (s->e.is_slab) {
		small_free(s, ptr, r);
	} else {
		large_free(s);
	}
}

void
shelter_trim(void) {
	for (unsigned i = 0; i < BIN_MAX; i++) {
		shelter_slab_t *s = atomic_load_p(&shelter.lists[i], MO_ACQUIRE);
		for (; s != NULL; s = s->next) {
			slab_purge(s);
		}
	}
}
