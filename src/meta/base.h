/*
 * Memory for the allocator's own structures: taken from the system in blocks. Each byte is handed
 * out once: nothing is freed piece by piece. base_delete() returns all blocks of a base;
 * base_purge() gives pages back, but their addresses stay with the caller. A block is handed out by
 * a cursor that only moves forward. Each arena has a base. b0 is that of arena 0 and of the
 * process, and exists before everything else. Each base has a lock of its own. While it is held,
 * only the system and base_populate_hook (set by ahead.c) are called. Callers are arena,
 * edata_cache, freepool, hpa/, background_thread, inspect.c (counters) and
 * jemalloc_init.c (boot).
 */
#pragma once

#include "os/mutex.h"
#include "os/pages.h"
#include "util/bits.h"
#include "util/compiler.h"

typedef struct base_stats_s {
	size_t allocated; /* bytes handed out */
	size_t resident;  /* bytes of pages that were touched */
	size_t mapped;    /* bytes of blocks */
	size_t edata;     /* part of `allocated` that is extent descriptors */
	size_t n_thp;     /* huge pages that were touched, in blocks made of huge pages */
} base_stats_t;

typedef struct base_block_s base_block_t;
typedef struct base_s {
	mutex_t mtx; /* protects all that changes below */
	base_block_t *blocks; /* newest first; the cursor is in the newest */
	/* First free byte of the newest block, and the block's end. */
	char *cursor;
	char *end;
	char *ready;      /* pages of the newest block below this address are counted as touched */
	size_t next_size; /* least size of the next block in bytes */
	/* touched pages of the newest block are counted in this unit: PAGE or HUGEPAGE */
	size_t unit;
	base_stats_t stats;
} base_t;

/* Which blocks are made of huge pages; the option metadata_thp. */
typedef enum {
	metadata_thp_disabled,
	metadata_thp_auto, /* blocks of 2 MiB or more; the first ones of a base are smaller */
	metadata_thp_always
} metadata_thp_t;

/* A metadata_thp_t. Applies only if the system offers huge pages. */
extern unsigned opt_metadata_thp;
extern bool opt_metadata_thp_given; /* the user set it */
extern const char *const metadata_thp_names[]; /* indexed by the enum, NULL at the end */

/* Creates b0, unless it exists. Returns 0 or ENOMEM. */
int base_boot(void);
base_t *base_b0(void);

/* Creates a base, which lies in its own first block. Returns NULL if there is no memory. */
base_t *base_new(void);
/*
 * Unmaps all blocks, including the one that holds the base itself. The caller ensures that no other
 * thread uses the base.
 */
void base_delete(base_t *base);

/*
 * A base that has handed out at least 1 MiB (4 MiB with pages of 64 KiB) populates the pages behind
 * those already touched, before their first touch: a 64th of what it has handed out, at most 256
 * KiB, rounded down to a multiple of 16 KiB or of a larger PAGE. Boot sets base_populate_hook to a
 * function that populates fresh pages and returns size, or 0 if that is not to be done or fails;
 * NULL: not set. Not called for blocks of huge pages. It is called under the base's lock.
 */
#define BASE_LG_AHEAD 6
#define BASE_AHEAD_MIN (ZU(16) << 10)
#define BASE_AHEAD_MAX (ZU(256) << 10)
extern HIDDEN size_t (*base_populate_hook)(char *addr, size_t size);

/*
 * Bytes to be populated at once by a base that has handed out `allocated` bytes, and by an arena
 * that uses as many (extent/ahead.h); 0: none.
 */
static inline size_t
base_ahead(size_t allocated) {
	return min_zu(allocated >> BASE_LG_AHEAD, BASE_AHEAD_MAX) & ~(max_zu(BASE_AHEAD_MIN, PAGE) - 1);
}

/*
 * For tests: if this returns true, an allocation of metadata fails as if there were no memory;
 * NULL: not set. The users that hand out freed metadata again or have memory of their own
 * (meta/freepool.c, meta/region.c) ask this hook too.
 */
extern HIDDEN bool (*base_fault_hook)(void);

/*
 * Returns size bytes, zeroed, aligned to the power of two `alignment` (at least 16); NULL if there
 * is no memory.
 */
void *base_alloc(base_t *base, size_t size, size_t alignment);
/*
 * base_alloc() for extent descriptors, which are counted apart (edata). If the base populates pages
 * ahead at all (base_ahead() is not 0), it populates all that the descriptors need at once.
 */
void *base_alloc_edata(base_t *base, size_t size, size_t alignment);

/*
 * Gives pages that base_alloc() returned back to the system; addr and size are multiples of PAGE.
 * The caller keeps the addresses, which read as zero. The pages do not count as resident until the
 * caller uses them again, and says how many bytes by base_touched(). 0 or an errno value; ENOTSUP:
 * metadata_thp is not `disabled`.
 */
int base_purge(base_t *base, void *addr, size_t size);
void base_touched(base_t *base, size_t size);

/* Copies the counters, under the base's lock. */
void base_stats_read(base_t *base, base_stats_t *out);
