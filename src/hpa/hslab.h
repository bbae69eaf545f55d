/*
 * A huge slab: 2 MiB of aligned memory from which runs of pages are handed out; and how it is found
 * by an address.
 * Two bitmaps say which pages are in use and which were touched since they were last purged; a page
 * that is touched and not in use is dirty. The descriptor lies outside of the slab. Invariant:
 * the counts and the longest free run agree with the bitmaps, and a page in use counts as touched.
 * The lock of its shard (hpa/hpa.h) protects a slab; the words of the page map that lead to it are
 * atomic. Called by hpa.c; hslab_of() also by pac_hpa.c.
 */
#pragma once

#include "os/pages.h"
#include "util/atomic.h"
#include "util/fb.h"
#include "util/ql.h"

#define HSLAB_LG_SIZE 21
#define HSLAB_SIZE (ZU(1) << HSLAB_LG_SIZE)
/* Pages of a slab, and their maximum over all page sizes. */
#define HSLAB_NPAGES ((unsigned)(HSLAB_SIZE >> LG_PAGE))
#define HSLAB_NPAGES_MAX (1u << (HSLAB_LG_SIZE - LG_PAGE_MIN))
#define HSLAB_NWORDS FB_NWORDS(HSLAB_NPAGES_MAX)

typedef struct hslab_s {
	char *addr;
	void *home; /* handle of the memory, for hpa_source_t.put */
	fb_word_t used[HSLAB_NWORDS];    /* bit set: the page is in use */
	fb_word_t touched[HSLAB_NWORDS]; /* bit set: used since it was fetched or purged */
	uint16_t n_used;      /* pages in use */
	uint16_t n_touched;   /* touched pages, those in use included */
	uint16_t longest;     /* pages of the longest free run */
	uint8_t level, pind;  /* indices of its list in the set (hset.h), or the last ones it had */
	/*
	 * its extents are for slabs of small objects (hpa.h), or were when its first one was taken:
	 * both kinds may mix (hrule_may_mix). Changes under the shard's mtx while no page is in use
	 */
	atomic_b_t is_dense;
	bool is_huge;         /* the system was asked to back it by one huge page, or does so itself */
	bool is_out;          /* a thread makes a system call for it (hpa.h) */
	/*
	 * the system was told since the fetch to use huge pages in it, or not to. No lock: only a
	 * thread that has the slab out, or has just fetched it, writes or reads this byte
	 */
	bool is_marked;
	ql_t all;             /* list of all slabs of the shard */
	ql_t place;           /* list of the set, of empty slabs, or of spare descriptors */
	ql_t dirty;           /* list of slabs that may be purged in part */
	ql_t ripe;            /* list of slabs that may become huge */
	/* when it was put on the list of empty slabs, on `dirty`, on `ripe`; monotonic ns */
	uint64_t empty_since;
	uint64_t dirty_since;
	uint64_t ripe_since;
} hslab_t;

/* A new slab at this address, without pages in use or touched; its links are on no list. */
void hslab_init(hslab_t *s, char *addr, void *home);

/* Index of the first page of the lowest free run of at least n pages; the slab has one. */
unsigned hslab_find(const hslab_t *s, unsigned n);
/* Whether the n pages from the index `first` on exist and are free. */
bool hslab_is_free(const hslab_t *s, unsigned first, unsigned n);
/*
 * hslab_take() marks free pages as used and returns whether none was touched before (they read as
 * zero); hslab_put() marks used pages as free.
 */
bool hslab_take(hslab_t *s, unsigned first, unsigned n);
void hslab_put(hslab_t *s, unsigned first, unsigned n);
/*
 * The next run of dirty pages at or behind *first: returns its length and sets *first; 0: there is
 * none.
 */
unsigned hslab_dirty_run(const hslab_t *s, unsigned *first);
/* Marks pages, none of which is in use, as not touched, because they were purged. */
void hslab_clean(hslab_t *s, unsigned first, unsigned n);

/* Pages that are touched and not in use. */
static inline unsigned
hslab_ndirty(const hslab_t *s) {
	return (unsigned)(s->n_touched - s->n_used);
}

/* Pages not in use that may be in memory: of a huge slab all, whether touched or not. */
static inline unsigned
hslab_nidle(const hslab_t *s) {
	return s->is_huge ? HSLAB_NPAGES - s->n_used : hslab_ndirty(s);
}

/* The slab entered for the 2 MiB of this address; NULL: none. It stays while it has extents. */
hslab_t *hslab_of(const void *addr);
/* Enters s, or NULL, for these 2 MiB, for which emap_reserve() has succeeded. */
void hslab_enter(const void *addr, hslab_t *s);
