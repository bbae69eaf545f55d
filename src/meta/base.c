/*
 * Maps blocks of metadata, hands out their bytes, and counts the touched pages; base.h has the
 * contract. A request is served from the newest block; if it does not fit, a new block is mapped,
 * and the rest of the old one stays unused. The first block of a base has 64 KiB and each further
 * one twice as much, up to 2 MiB, so an arena that needs little metadata maps little; but huge ones
 * (metadata_thp) are whole huge pages, and near a limit of memory a block is just large enough. A
 * base's mutex protects its cursor, blocks and counters; functions whose names end in _locked are
 * called with it held, or for a base that no other thread knows. Called by arena, edata_cache,
 * freepool, hpa, background_thread, inspect (counters) and jemalloc_init (boot).
 */
#include "meta/base.h"

#include "meta/sc.h"
#include "os/pages.h"
#include "os/witness.h"
#include "util/bits.h"

/* Bytes of a base's first block. */
#define BASE_BLOCK_MIN ((size_t)64 << 10)
/* The size in bytes at which blocks stop to double; a request that needs more gets a longer one. */
#define BASE_BLOCK_MAX ((size_t)2 << 20)
/* Least alignment of what is handed out, in bytes. */
#define BASE_ALIGN_MIN ((size_t)16)

/* The header at the start of a block. */
struct base_block_s {
	base_block_t *next; /* the block made before it */
	size_t size;        /* bytes of the block, with this header */
};

static base_t *b0;
unsigned opt_metadata_thp = metadata_thp_disabled;
bool opt_metadata_thp_given = false;
const char *const metadata_thp_names[] = {"disabled", "auto", "always", NULL};
bool (*base_fault_hook)(void);
size_t (*base_populate_hook)(char *addr, size_t size);

/* Whether a block of so many bytes is to be made of huge pages. */
static bool
base_wants_thp(size_t size) {
	if (opt_metadata_thp == metadata_thp_disabled
	    || (opt_metadata_thp == metadata_thp_auto && size < BASE_BLOCK_MAX)) {
		return false;
	}
	thp_mode_t system = pages_system_thp_mode();
	return system == thp_mode_default || system == thp_mode_always;
}

/* Maps whole huge pages. NULL if there is no room, or the system refuses huge pages. */
static base_block_t *
base_block_map_huge(size_t bytes) {
	base_block_t *block = pages_map(NULL, bytes, HUGEPAGE, NULL);
	if (block != NULL && pages_advise(block, bytes, PAGES_HUGE) != 0) {
		pages_unmap(block, bytes);
		return NULL;
	}
	return block;
}

/*
 * Maps a block of `at_least` bytes or more, with room for size bytes at the given alignment; it
 * belongs to no base yet. *unit becomes HUGEPAGE if huge pages are wanted for a block of this size
 * and available, else PAGE. NULL if there is no memory.
 */
static base_block_t *
base_block_map(size_t size, size_t alignment, size_t at_least, size_t *unit) {
	size_t need = sizeof(base_block_t) + alignment + size;
	if (need < size) {
		return NULL;
	}
	size_t bytes = PAGE_CEILING(max_zu(need, at_least));
	base_block_t *block = NULL;
	*unit = PAGE;
	if (base_wants_thp(bytes)
	    && (block = base_block_map_huge(HUGEPAGE_CEILING(bytes))) != NULL) {
		*unit = HUGEPAGE;
		bytes = HUGEPAGE_CEILING(bytes);
	}
	if (block == NULL) {
		block = pages_map(NULL, bytes, PAGE, NULL);
	}
	if (block != NULL) {
		block->size = bytes;
	}
	return block;
}

/*
 * Counts bytes of the newest block as touched, which are used for the first time. `bytes` is a
 * multiple of base_t.unit.
 */
static void
base_touched_locked(base_t *base, size_t bytes) {
	base->stats.resident += bytes;
	base->stats.n_thp += base->unit == HUGEPAGE && HUGEPAGE != PAGE ? bytes >> LG_HUGEPAGE : 0;
}

/* Makes a block the newest one of a base. */
static void
base_block_adopt_locked(base_t *base, base_block_t *block, size_t unit) {
	assert(unit == PAGE || (unit == HUGEPAGE && ((uintptr_t)block & HUGEPAGE_MASK) == 0));
	base->unit = unit;
	block->next = base->blocks;
	base->blocks = block;
	base->cursor = (char *)(block + 1);
	base->end = (char *)block + block->size;
	base->next_size = min_zu(max_zu(base->next_size * 2, PAGE), BASE_BLOCK_MAX);
	base->stats.mapped += block->size;
	base->ready = (char *)block + unit;
	base_touched_locked(base, unit);
}

/*
 * Counts the pages of the newest block up to `to` as touched, if they were not. May populate pages
 * by one call of the hook before that: the number of bytes that base_ahead() says, if they reach
 * `to`; with is_whole (the caller will use all of the bytes) as many as reach `to`, if base_ahead()
 * says fewer but not 0. These pages count as touched too. Nothing is populated if that is a page or
 * less.
 */
static void
base_reach_locked(base_t *base, char *to, bool is_whole) {
	if (to <= base->ready) {
		return;
	}
	size_t need = (size_t)(to - base->ready), run = base_ahead(base->stats.allocated);
	run = min_zu(is_whole && run != 0 ? max_zu(run, need) : run, (size_t)(base->end - base->ready));
	bool is_ahead = run >= need && run > PAGE && base_populate_hook != NULL
	    && base->unit == PAGE;
	if (is_ahead && base_populate_hook(base->ready, run) == run) {
		to = base->ready + run;
	}
	base_touched_locked(base, (size_t)(to - base->ready));
	base->ready = to;
}

/* Hands out size bytes of the newest block; NULL if they do not fit. */
static void *
base_carve_locked(base_t *base, size_t size, size_t alignment, bool is_whole) {
	uintptr_t from = align_up((uintptr_t)base->cursor, alignment);
	if (from + size < from || from + size > (uintptr_t)base->end) {
		return NULL;
	}
	base_reach_locked(base, (char *)align_up(from + size, base->unit), is_whole);
	base->cursor = (char *)(from + size);
	base->stats.allocated += size;
	return (void *)from;
}

/* As base_carve_locked(), but of a new block if they do not fit; NULL if there is no memory. */
static void *
base_alloc_locked(base_t *base, size_t size, size_t alignment, bool is_whole) {
	void *p = base_carve_locked(base, size, alignment, is_whole);
	if (p != NULL) {
		return p;
	}
	size_t unit;
	base_block_t *block = base_block_map(size, alignment, base->next_size, &unit);
	if (block == NULL) {
		/*
		 * Near the process's limit of memory, a block just large enough may still be
		 * available.
		 */
		block = base_block_map(size, alignment, PAGE, &unit);
	}
	if (block == NULL) {
		return NULL;
	}
	base_block_adopt_locked(base, block, unit);
	p = base_carve_locked(base, size, alignment, is_whole);
	assert(p != NULL);
	return p;
}

/* Does base_alloc(). edata: bytes of extent descriptors in it, which is size or 0. */
static void *
base_alloc_counted(base_t *base, size_t size, size_t alignment, size_t edata) {
	alignment = max_zu(alignment, BASE_ALIGN_MIN);
	if (size > SC_LARGE_MAXCLASS || (base_fault_hook != NULL && base_fault_hook())) {
		return NULL;
	}
	size = align_up(size, BASE_ALIGN_MIN);
	mutex_lock(&base->mtx);
	void *p = base_alloc_locked(base, size, alignment, edata != 0);
	if (p != NULL) {
		base->stats.edata += edata;
	}
	mutex_unlock(&base->mtx);
	return p;
}

void *
base_alloc(base_t *base, size_t size, size_t alignment) {
	return base_alloc_counted(base, size, alignment, 0);
}

void *
base_alloc_edata(base_t *base, size_t size, size_t alignment) {
	return base_alloc_counted(base, size, alignment, size);
}

int
base_purge(base_t *base, void *addr, size_t size) {
	assert((((uintptr_t)addr | size) & PAGE_MASK) == 0);
	if (opt_metadata_thp != metadata_thp_disabled) {
		return ENOTSUP;
	}
	int err = pages_purge_forced(addr, size);
	if (err == 0) {
		mutex_lock(&base->mtx);
		assert(base->stats.resident >= size);
		base->stats.resident -= size;
		mutex_unlock(&base->mtx);
	}
	return err;
}

void
base_touched(base_t *base, size_t size) {
	mutex_lock(&base->mtx);
	base->stats.resident += size;
	mutex_unlock(&base->mtx);
}

base_t *
base_new(void) {
	size_t unit;
	base_block_t *block = base_block_map(sizeof(base_t), CACHELINE, BASE_BLOCK_MIN, &unit);
	if (block == NULL) {
		return NULL;
	}
	base_t tmp;
	memset(&tmp, 0, sizeof(tmp));
	tmp.next_size = BASE_BLOCK_MIN;
	base_block_adopt_locked(&tmp, block, unit);
	base_t *base = base_carve_locked(&tmp, sizeof(base_t), CACHELINE, false);
	assert(base != NULL);
	*base = tmp;
	mutex_init(&base->mtx, "base", WITNESS_RANK_BASE);
	return base;
}

void
base_delete(base_t *base) {
	base_block_t *block = base->blocks;
	while (block != NULL) {
		base_block_t *next = block->next;
		pages_unmap_in_time(block, block->size);
		block = next;
	}
}

int
base_boot(void) {
	if (b0 == NULL) {
		b0 = base_new();
	}
	return b0 == NULL ? ENOMEM : 0;
}

base_t *
base_b0(void) {
	return b0;
}

void
base_stats_read(base_t *base, base_stats_t *out) {
	mutex_lock(&base->mtx);
	*out = base->stats;
	mutex_unlock(&base->mtx);
	assert(out->allocated <= out->mapped);
}
