/*
 * Memory for the allocator's own structures: taken from the system in blocks, handed out by a moving
 * cursor, never given back one by one.
 *
 * A base takes its pages through a table of two functions, so that an arena with hooks of its own can
 * feed it without this floor knowing about hooks.  b0 is the base of the process; it exists before
 * anything else.  The lock is the base's own; it is a leaf but for the page source.
 */
#ifndef META_BASE_H
#define META_BASE_H

#include "os/mutex.h"
#include "util/compiler.h"

typedef struct base_pages_s {
	/* size bytes, page aligned, zeroed, committed; NULL when there are none. */
	void *(*map)(void *ctx, size_t size);
	void (*unmap)(void *ctx, void *addr, size_t size);
	void *ctx;
} base_pages_t;

typedef struct base_stats_s {
	size_t allocated; /* bytes handed out */
	size_t resident;  /* bytes of pages touched by it */
	size_t mapped;    /* bytes of blocks */
	size_t edata;     /* of allocated: extent descriptors */
	size_t n_thp;     /* huge pages touched by it, where blocks were made of them */
} base_stats_t;

typedef struct base_block_s base_block_t;
typedef struct base_s {
	mutex_t mtx;
	const base_pages_t *pages;
	base_block_t *blocks; /* newest first; the cursor is in the newest */
	char *cursor;
	char *end;
	size_t next_size;     /* bytes of the next block */
	size_t unit;          /* of the newest block: a page, or a huge page where it is made of them */
	base_stats_t stats;
} base_t;

typedef enum {
	metadata_thp_disabled,
	metadata_thp_auto,  /* only from a base's second block on */
	metadata_thp_always
} metadata_thp_t;

/* Blocks of huge pages, where the system has them to give; bases with a page source of their own get none. */
extern unsigned opt_metadata_thp;
extern const char *const metadata_thp_names[]; /* by the enum, NULL at the end */

/* Makes b0. 0 or ENOMEM. */
int base_boot(void);
base_t *base_b0(void);

/* A new base; lives in its own first block. pages NULL: straight from the system. NULL: no memory. */
base_t *base_new(const base_pages_t *pages);
/* Gives all blocks back; the base itself goes with them. */
void base_delete(base_t *base);

/* For tests, which let any allocation of metadata fail, recycled ones too: true says that there is no memory. */
extern HIDDEN bool (*base_fault_hook)(void);

/* size bytes, zeroed, aligned to the power of two (at least 16); NULL: no memory. */
void *base_alloc(base_t *base, size_t size, size_t alignment);
/* The same for an extent descriptor, counted apart. */
void *base_alloc_edata(base_t *base, size_t size, size_t alignment);

void base_stats_read(base_t *base, base_stats_t *out);

#endif
