/*
 * The fork fallback heap: slabs whose bitmaps are atomic words (shelter.h).
 *
 * Invariant: a region belongs to the thread that has cleared its bit, until the bit is set again. A
 * thread that has cleared all bits of a slab owns the slab and may purge it. There is one list of
 * slabs for each small class and one for all large blocks, which are slabs of one region. A list
 * grows at its head, by compare-and-swap, and nothing is removed, so a walk needs no lock. A slab
 * of a small class stays mapped for ever; it is purged when it has no block. A large block's pages
 * are purged and made inaccessible when it is freed, or unmapped if LARGE_KEPT_MAX is exceeded
 * (size 0 then). A tail mark follows each large block (large_marks.h). Descriptors come from arrays
 * by a counter: the first array is static, others are mapped between guard pages. Locks: none.
 * Callers: see shelter.h.
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

#define WORD_BITS 64u
#define SLAB_WORDS 16u
#define SLAB_REGS_MAX (SLAB_WORDS * WORD_BITS)
#define SLAB_BYTES ((size_t)64 << 10)
/* Maximum bytes of address space, without pages, that freed large blocks keep for reuse. */
#define LARGE_KEPT_MAX ((size_t)64 << 20)
/* Largest size and alignment of a block. */
#define LARGE_MAX ((size_t)1 << 40)

typedef struct shelter_slab_s shelter_slab_t;
struct shelter_slab_s {
	edata_t e;            /* the descriptor in the page map: address and class */
	atomic_u64_t free[SLAB_WORDS]; /* bit set: the region is free */
	shelter_slab_t *next; /* written before the slab is on its list */
	uint32_t nregs;
	atomic_b_t is_touched; /* the slab may have pages */
} __attribute__((aligned(EDATA_ALIGN)));
cassert(offsetof(shelter_slab_t, e) == 0);

typedef struct {
	atomic_u32_t n_used;
	uint32_t n;
	shelter_slab_t slabs[];
} slab_array_t;

#define N_FIRST 24u
#define ARRAY_BYTES ((size_t)64 << 10)

static LARGE_BSS union {
	slab_array_t head;
	char room[sizeof(slab_array_t) + N_FIRST * sizeof(shelter_slab_t)];
} first;

static LARGE_BSS struct {
	atomic_p_t arrays;              /* array from which descriptors come; NULL: the first */
	atomic_p_t lists[BIN_MAX + 1];  /* by class; the last one has the large blocks */
	atomic_p_t latest[BIN_MAX];     /* by class: the slab that served the last request */
	atomic_zu_t large_kept;         /* bytes of large slabs without a block */
} shelter;

/* ------------------------------------------------------------------ descriptors */

/* Replaces the full array by a new one; false without memory. */
static bool
array_try_make(slab_array_t *full) {
	bool commit = true;
	size_t room = PAGE_CEILING(ARRAY_BYTES);
	char *p = pages_map(NULL, room + 2 * PAGE, PAGE, &commit);
	if (p == NULL) {
		return false;
	}
	/* An overrun of a block does not reach the descriptors. */
	pages_mark_guard(p, PAGE);
	pages_mark_guard(p + PAGE + room, PAGE);
	void *seen = full == &first.head ? NULL : full;
	slab_array_t *a = (slab_array_t *)(p + PAGE);
	a->n = (uint32_t)((room - sizeof(*a)) / sizeof(a->slabs[0]));
	if (!atomic_cas_strong_p(&shelter.arrays, &seen, a, MO_ACQ_REL, MO_RELAXED)) {
		pages_unmap_in_time(p, room + 2 * PAGE); /* another thread was faster */
	}
	return true;
}

/* Returns a zeroed descriptor, or NULL without memory. */
static shelter_slab_t *
descriptor_new(void) {
	for (;;) {
		slab_array_t *a = atomic_load_p(&shelter.arrays, MO_ACQUIRE);
		a = a != NULL ? a : &first.head;
		uint32_t n = a == &first.head ? N_FIRST : a->n, i = atomic_load_u32(&a->n_used, MO_RELAXED);
		if (i >= n) {
			if (!array_try_make(a)) {
				return NULL;
			}
		} else if (atomic_cas_weak_u32(&a->n_used, &i, i + 1, MO_RELAXED, MO_RELAXED)) {
			return &a->slabs[i];
		}
	}
}

/* ------------------------------------------------------------------ bitmaps */

/* The value of a word of the bitmap whose regions are all free. */
static uint64_t
word_full(const shelter_slab_t *s, unsigned w) {
	uint32_t left = s->nregs - w * WORD_BITS;
	return left >= WORD_BITS ? UINT64_MAX : ((uint64_t)1 << left) - 1;
}

static unsigned
slab_nwords(const shelter_slab_t *s) {
	assert(s->nregs > 0 && s->nregs <= SLAB_REGS_MAX);
	return (s->nregs + WORD_BITS - 1) / WORD_BITS;
}

/* Takes a region and returns its number; false if all are in use. */
static bool
slab_try_take(shelter_slab_t *s, uint32_t *r) {
	for (unsigned w = 0; w < slab_nwords(s); w++) {
		uint64_t seen = atomic_load_u64(&s->free[w], MO_RELAXED);
		while (seen != 0) {
			*r = w * WORD_BITS + (uint32_t)__builtin_ctzll(seen);
			if (atomic_cas_weak_u64(&s->free[w], &seen, seen & (seen - 1), MO_ACQUIRE,
			    MO_RELAXED)) {
				return true;
			}
		}
	}
	return false;
}

static void
slab_put_words(shelter_slab_t *s, unsigned n) {
	for (unsigned w = 0; w < n; w++) {
		atomic_fetch_or_u64(&s->free[w], word_full(s, w), MO_RELEASE);
	}
}

/* Takes the whole slab if all of its regions are free. */
static bool
slab_try_claim(shelter_slab_t *s) {
	for (unsigned w = 0; w < slab_nwords(s); w++) {
		uint64_t full = word_full(s, w);
		if (!atomic_cas_strong_u64(&s->free[w], &full, 0, MO_ACQUIRE, MO_RELAXED)) {
			slab_put_words(s, w);
			return false;
		}
	}
	return true;
}

static bool
slab_is_empty(shelter_slab_t *s) {
	for (unsigned w = 0; w < slab_nwords(s); w++) {
		if (atomic_load_u64(&s->free[w], MO_RELAXED) != word_full(s, w)) {
			return false;
		}
	}
	return true;
}

/* ------------------------------------------------------------------ slabs */

/* Maps pages whose addresses the page map can hold. */
static char *
slab_pages(size_t bytes, size_t alignment) {
	bool commit = true;
	char *p = pages_map(NULL, bytes, alignment, &commit);
	if (p != NULL && emap_reserve(p, bytes) != 0) {
		pages_unmap_in_time(p, bytes);
		return NULL;
	}
	return p;
}

/* Initialises a slab that the caller owns, and that is in a list or will be put there. */
static void
slab_begin(shelter_slab_t *s, char *p, size_t bytes, bool is_large) {
	edata_init(&s->e, p, bytes, true, true);
	s->e.state = extent_state_shelter;
	s->e.is_slab = !is_large;
	arena_mark_slow_sized_free(p, bytes);
}

static void
slab_publish(shelter_slab_t *s, atomic_p_t *list) {
	void *head = atomic_load_p(list, MO_RELAXED);
	do {
		s->next = head;
	} while (!atomic_cas_weak_p(list, &head, s, MO_RELEASE, MO_RELAXED));
}

static shelter_slab_t *
slab_new(szind_t szind) {
	assert(szind < SC_NBINS);
	size_t reg = sz_i2s(szind);
	size_t n = max_zu(min_zu(SLAB_BYTES / reg, SLAB_REGS_MAX), 1), bytes = PAGE_CEILING(n * reg);
	char *p = slab_pages(bytes, PAGE);
	shelter_slab_t *s = p == NULL ? NULL : descriptor_new();
	if (s == NULL) {
		if (p != NULL) {
			pages_unmap_in_time(p, bytes);
		}
		return NULL;
	}
	slab_begin(s, p, bytes, false);
	s->nregs = (uint32_t)min_zu(bytes / reg, SLAB_REGS_MAX);
	s->e.szind = (uint8_t)szind;
	emap_set_slab(&s->e);
	return s;
}

static bool
is_all_zero(const char *p, size_t size) {
	return p[0] == 0 && memcmp(p, p + 1, size - 1) == 0;
}

/*
 * Purges a small slab if it has no block and was touched; all its bytes must be zero, otherwise the
 * process ends. The slab stays in its list.
 */
static void
slab_purge(shelter_slab_t *s) {
	assert(s->e.is_slab);
	if (!atomic_load_b(&s->is_touched, MO_RELAXED) || !slab_try_claim(s)) {
		return;
	}
	if (unlikely(!is_all_zero(s->e.addr, s->e.size))) {
		safety_fail("write to a freed block");
		memset(s->e.addr, 0, s->e.size);
	}
	if (pages_purge_forced(s->e.addr, s->e.size) == 0) {
		atomic_store_b(&s->is_touched, false, MO_RELAXED);
	}
	slab_put_words(s, slab_nwords(s));
}

static shelter_slab_t *
slab_of(const void *ptr) {
	return (shelter_slab_t *)emap_edata(ptr);
}

static bool
slab_is_large(const shelter_slab_t *s) {
	return !s->e.is_slab;
}

static size_t
slab_reg_size(const shelter_slab_t *s) {
	return slab_is_large(s) ? s->e.size : sz_i2s(s->e.szind);
}

/* ------------------------------------------------------------------ small blocks */

/* Checks that a region that was just taken is zero, ends the process if not, and returns it. */
static void *
region_clean(shelter_slab_t *s, uint32_t r) {
	assert(r < s->nregs);
	size_t reg = slab_reg_size(s);
	char *p = s->e.addr + r * reg;
	atomic_store_b(&s->is_touched, true, MO_RELAXED);
	if (unlikely(!is_all_zero(p, reg))) {
		safety_fail("write to a freed block");
		memset(p, 0, reg);
	}
	return p;
}

/* Takes a region of an existing slab; NULL if all are in use. */
static void *
small_find(szind_t szind) {
	assert(szind < SC_NBINS);
	uint32_t r;
	shelter_slab_t *s = atomic_load_p(&shelter.latest[szind], MO_ACQUIRE);
	if (s != NULL && slab_try_take(s, &r)) {
		return region_clean(s, r);
	}
	for (s = atomic_load_p(&shelter.lists[szind], MO_ACQUIRE); s != NULL; s = s->next) {
		if (slab_try_take(s, &r)) {
			atomic_store_p(&shelter.latest[szind], s, MO_RELEASE);
			return region_clean(s, r);
		}
	}
	return NULL;
}

static void *
small_malloc(szind_t szind) {
	void *p = small_find(szind);
	if (p != NULL) {
		return p;
	}
	shelter_slab_t *s = slab_new(szind);
	if (s == NULL) {
		return NULL;
	}
	/* The caller gets the first region. */
	slab_put_words(s, slab_nwords(s));
	atomic_fetch_and_u64(&s->free[0], ~(uint64_t)1, MO_RELAXED);
	slab_publish(s, &shelter.lists[szind]);
	atomic_store_p(&shelter.latest[szind], s, MO_RELEASE);
	return region_clean(s, 0);
}

/* ------------------------------------------------------------------ large blocks */

/* Bit in the word of a large slab, beside that of its region: a free is in progress. */
#define LARGE_IS_ENDING ((uint64_t)2)

/* Unmaps a large slab that the caller owns; its descriptor stays in the list with size 0. */
static void
large_unmap(shelter_slab_t *s) {
	emap_clear_boundary(&s->e);
	pages_unmap_in_time(s->e.addr, s->e.size);
	edata_set_size(&s->e, 0);
}

static uint64_t *
large_mark(const shelter_slab_t *s) {
	return (uint64_t *)(void *)(s->e.addr + s->e.u.large_usize);
}

/*
 * Takes a free large slab of `wanted` to about 2 * wanted bytes and makes it accessible; wanted 0:
 * one that is not mapped. NULL: there is none.
 */
static shelter_slab_t *
large_find(size_t wanted, size_t alignment) {
	assert(alignment != 0 && (alignment & (alignment - 1)) == 0);
	shelter_slab_t *s = atomic_load_p(&shelter.lists[BIN_MAX], MO_ACQUIRE);
	for (; s != NULL; s = s->next) {
		size_t size = __atomic_load_n(&s->e.size, __ATOMIC_RELAXED);
		if (atomic_load_u64(&s->free[0], MO_RELAXED) == 0 || size < wanted || size / 2 > wanted
		    || !slab_try_claim(s)) {
			continue;
		}
		size = s->e.size;
		if (size >= wanted && size / 2 <= wanted && ((uintptr_t)s->e.addr & (alignment - 1)) == 0
		    && (size == 0 || pages_unmark_guard(s->e.addr, size) == 0)) {
			return s;
		}
		slab_put_words(s, 1);
	}
	return NULL;
}

static shelter_slab_t *
large_new(size_t size, size_t alignment) {
	assert((size & PAGE_MASK) == 0 && alignment >= PAGE);
	char *p = slab_pages(size, alignment);
	if (p == NULL) {
		return NULL;
	}
	shelter_slab_t *s = large_find(0, 1), *fresh = s == NULL ? descriptor_new() : NULL;
	if (s == NULL && fresh == NULL) {
		pages_unmap_in_time(p, size);
		return NULL;
	}
	s = s != NULL ? s : fresh;
	slab_begin(s, p, size, true);
	s->nregs = 1;
	emap_set_boundary(&s->e);
	if (fresh != NULL) {
		slab_publish(fresh, &shelter.lists[BIN_MAX]);
	}
	return s;
}

static void *
large_malloc(size_t usize, size_t alignment) {
	if (usize > LARGE_MAX || alignment > LARGE_MAX) {
		return NULL;
	}
	size_t size = PAGE_CEILING(usize + LARGE_MARK_BYTES);
	alignment = max_zu(alignment, PAGE);
	shelter_slab_t *s = large_find(size, alignment);
	if (s != NULL) {
		atomic_fetch_sub_zu(&shelter.large_kept, s->e.size, MO_RELAXED);
	} else if ((s = large_new(size, alignment)) == NULL) {
		return NULL;
	}
	s->e.u.large_usize = usize;
	large_mark_put(large_mark(s));
	return s->e.addr;
}

/* Frees a large block: purges it and makes it inaccessible, or unmaps it if too much is kept. */
static void
large_free(shelter_slab_t *s) {
	assert(slab_is_large(s) && s->nregs == 1);
	if (unlikely(atomic_fetch_or_u64(&s->free[0], LARGE_IS_ENDING, MO_ACQUIRE) != 0)) {
		safety_fail("double free");
		return;
	}
	if (unlikely(!large_mark_is(large_mark(s), LARGE_MARK_WORD))) {
		safety_fail(SAFETY_TAIL_IS_LOST);
	}
	size_t size = s->e.size;
	if (atomic_fetch_add_zu(&shelter.large_kept, size, MO_RELAXED) + size > LARGE_KEPT_MAX) {
		atomic_fetch_sub_zu(&shelter.large_kept, size, MO_RELAXED);
		large_unmap(s);
	} else {
		if (pages_purge_forced(s->e.addr, size) != 0) {
			memset(s->e.addr, 0, size);
		}
		/* Makes a use after the free fault, unless the system refuses. */
		(void)pages_mark_guard(s->e.addr, size);
	}
	atomic_store_u64(&s->free[0], 1, MO_RELEASE);
}

/* ------------------------------------------------------------------ the interface */

void *
shelter_malloc(size_t size, size_t alignment) {
	size_t usize = canary_usize(size, alignment);
	if (usize == 0) {
		return NULL;
	}
	if (usize > SC_SMALL_MAXCLASS) {
		return large_malloc(usize, alignment);
	}
	char *p = small_malloc(sz_s2i(usize));
	if (p != NULL) {
		canary_begin(p, usize);
		canary_put(p, usize, size);
	}
	return p;
}

/* Sets *r to the number of the region that begins at ptr; false if none begins there. */
static bool
region_begins(const shelter_slab_t *s, const void *ptr, size_t *r) {
	size_t off = (size_t)((const char *)ptr - s->e.addr), reg = slab_reg_size(s);
	if (unlikely(reg == 0 || off % reg != 0 || off / reg >= s->nregs)) {
		return false;
	}
	*r = off / reg;
	return true;
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
	if (slab_is_large(s)) {
		return s->e.u.large_usize;
	}
	size_t reg = slab_reg_size(s);
	return config_hardening ? canary_size(ptr, reg, &s->e) : reg;
}

/*
 * Whether the next request of the class tries this slab first. Such a slab is purged only by a trim
 * (at most SLAB_BYTES per class), because otherwise a handler that allocates and frees one block
 * would fault in and purge its pages each time.
 */
static bool
slab_is_latest(const shelter_slab_t *s) {
	return atomic_load_p(&shelter.latest[s->e.szind], MO_RELAXED) == (const void *)s;
}

static void
small_free(shelter_slab_t *s, void *ptr, size_t r) {
	assert(!slab_is_large(s) && r < s->nregs);
	uint64_t bit = (uint64_t)1 << r % WORD_BITS;
	if (likely((atomic_load_u64(&s->free[r / WORD_BITS], MO_RELAXED) & bit) == 0)) {
		if (config_hardening && !canary_is_own_intact(ptr, slab_reg_size(s))) {
			safety_fail(SAFETY_TAIL_IS_LOST);
		}
		memset(ptr, 0, slab_reg_size(s));
	}
	if (unlikely((atomic_fetch_or_u64(&s->free[r / WORD_BITS], bit, MO_RELEASE) & bit) != 0)) {
		safety_fail("double free");
	} else if (!slab_is_latest(s) && !gate_is_closed() && slab_is_empty(s)) {
		slab_purge(s);
	}
}

void
shelter_free(void *ptr) {
	shelter_slab_t *s = slab_of(ptr);
	size_t r;
	if (unlikely(!region_begins(s, ptr, &r))) {
		safety_fail("pointer into a block");
	} else if (slab_is_large(s)) {
		large_free(s);
	} else {
		small_free(s, ptr, r);
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
