/*
 * Operations on extents: take out of and put into a cache (ecache.h), split, merge, map, unmap.
 * An extent in a cache is protected by the cache's lock. Taking it out sets its state in the page
 * map to active under that lock; from then on the thread that took it owns it. ecache_put() joins
 * only neighbours in the same cache that are both committed or both not. If the arena has hooks of
 * the user, these decide about each split and merge, and no lock at all, no decay's either, may be
 * held during the call: an extent to be cut or joined is first taken out of the cache as a whole.
 * Lock order: those of decays and huge slabs, grow_mtx, one cache's lock, edata_cache, base; the
 * locks of two caches are never held together. The caller of an ecache_ or extent_ function holds
 * no cache's lock and owns the active extent that it passes.
 * Outside extent.c only piece.c calls such functions with grow_mtx held, and only where there are
 * no hooks of the user; it alone calls extent_grow_locked(). Hooks are set under grow_mtx
 * (pac_hooks_set), so its holder may rely on whether there are any; calls of others that are under
 * way then may still go without the new hooks. Called by the page cache and its parts (pac*, join,
 * piece, ahead, purge_batch). mallctl sets the growth limit, arenas.c grow_alignment, grow_next and
 * grown.
 */
#pragma once

#include "extent/ecache.h"
#include "extent/ehooks.h"
#include "meta/edata_cache.h"
#include "meta/emap.h"

/*
 * A dirty or muzzy extent is split for a request only if its page class is at most 2^this times the
 * request, unless much is dirty or there is no other memory (pac_take_more() in pac.c).
 */
extern size_t opt_lg_extent_max_active_fit;

/* The sources of an arena's extents and of their descriptors; each operation needs it. */
typedef struct extent_src_s {
	ehooks_t ehooks;
	edata_cache_t edata_cache;
	/*
	 * Held while the system makes a mapping, so that threads that miss together map once; released
	 * while a hook of the user makes one.
	 */
	mutex_t grow_mtx;
	/*
	 * Growth step: bytes that the next mapping has at least, unless only the request is mapped
	 * (extent_grow_bytes_locked()). Under grow_mtx. Starts at HUGEPAGE, or in hidden arenas at
	 * grow_alignment; each mapping of a step raises it to the next page class; a step that the
	 * system or a hook refuses lowers it to the request's. If grow_alignment is above a page,
	 * mappings and refusals leave it as it is; extent_grow_limit_set() may lower it.
	 */
	size_t grow_next;
	/* Greatest value of grow_next in bytes, unless grow_alignment is more; under grow_mtx. */
	size_t grow_limit;
	/*
	 * Every mapping starts and ends at a multiple of this number of bytes, a power of two. PAGE,
	 * except in hidden arenas of samples (arena/arenas.c), which set it before their first mapping.
	 */
	size_t grow_alignment;
	/*
	 * Called for each new mapping before it is used, and again when pac_step.c maps an extent anew
	 * in place. It may run under grow_mtx. NULL: not set.
	 */
	void (*grown)(void *addr, size_t size);
} extent_src_t;

/* Initialises src for pages of the system; ehooks_init() may set the user's hooks afterwards. */
void extent_src_init(extent_src_t *src, base_t *base, unsigned arena_ind);
/*
 * Get and set the largest growth step in bytes, rounded down to a page class, at most
 * SC_LARGE_MAXCLASS. 0, or EINVAL: less than a page.
 */
size_t extent_grow_limit_get(extent_src_t *src);
int extent_grow_limit_set(extent_src_t *src, size_t limit);
/* For an arena that is used again after its end: the first growth step and limit hold again. */
void extent_src_renew(extent_src_t *src);

/*
 * Takes an extent out of the cache and returns exactly size bytes of it, active; retained ones may
 * need extent_commit(). NULL: none was found (eset_fit()), no descriptor, or a hook refused to
 * split. Page classes above 2^lg_max_fit times the size are not searched (64: all are).
 */
edata_t *ecache_take(extent_src_t *src, ecache_t *c, size_t size, size_t alignment,
    unsigned lg_max_fit);
/* Whether ecache_take() with lg_max_fit 64 would find an extent. */
bool ecache_is_enough(ecache_t *c, size_t size, size_t alignment);
/* ecache_take(), but of up to `most` bytes, as many as the extent has from the aligned start on. */
edata_t *ecache_take_upto(extent_src_t *src, ecache_t *c, size_t size, size_t most,
    size_t alignment, unsigned lg_max_fit);
/*
 * Takes [addr, addr + size) out of an extent in c. With is_behind the extent must begin at addr;
 * otherwise it must end at addr + size. NULL: there is none in c, or it is shorter or another
 * arena's; no descriptor; or a hook refused to split. ecache_take_at(): with is_behind.
 */
edata_t *ecache_take_piece(extent_src_t *src, ecache_t *c, char *addr, size_t size, bool is_behind);
edata_t *ecache_take_at(extent_src_t *src, ecache_t *c, char *addr, size_t size);
/*
 * Makes the active extent e longer by the first size bytes of the extent in c that lies behind it:
 * the border between the two moves, without a descriptor more. False: there is none that is long
 * enough and committed as e is, or the arena has hooks of the user; nothing has changed.
 */
bool ecache_try_lend(extent_src_t *src, ecache_t *c, edata_t *e, size_t size);
/*
 * Puts the caller's active extent e into the cache, joined with its neighbours there. The caller
 * may not use e afterwards.
 */
void ecache_put(extent_src_t *src, ecache_t *c, edata_t *e);
/* Takes out an extent of the largest page class that has any, as an active one; NULL: none. */
edata_t *ecache_take_largest(ecache_t *c);
/*
 * Takes out the least recently added extent, as an active one; NULL if the cache has at most
 * npages_min pages. Extents that were only parts of huge pieces (extent/piece.h) when they were put
 * in come last, and without may_be_held not at all (NULL: there are only such).
 */
edata_t *ecache_evict(ecache_t *c, size_t npages_min, bool may_be_held);

/*
 * Maps new address space, a growth step or only what the request needs (see grow_next), and returns
 * an active extent of exactly size bytes, which may need extent_commit(); the surplus goes to the
 * retained cache. If another thread has grown the arena meanwhile, the extent comes from the
 * retained cache (not with hooks of the user). Takes grow_mtx, with hooks of the user too, but not
 * during their calls. NULL: no memory, or a hook refused.
 */
edata_t *extent_grow(extent_src_t *src, ecache_t *retained, size_t size, size_t alignment);
/* extent_grow() without the search; under grow_mtx, under which the caller has seen no hooks. */
edata_t *extent_grow_locked(extent_src_t *src, ecache_t *retained, size_t size, size_t alignment);

/*
 * Cuts an active extent: e keeps the first size_a bytes, the rest is returned as another active
 * extent. NULL: no memory, or a hook refused; e is unchanged then.
 */
edata_t *extent_split(extent_src_t *src, edata_t *e, size_t size_a);
/*
 * Appends the active extent b to the active extent a, at whose end it begins; both are committed,
 * or both not. b's descriptor becomes spare (edata_cache_put). 0, or an errno value if a hook
 * refused; both are unchanged then.
 */
int extent_merge(extent_src_t *src, edata_t *a, edata_t *b);

/* Gives access to the pages, if there is none yet; 0 or an errno value. */
int extent_commit(extent_src_t *src, edata_t *e);
/* Unmaps e; its descriptor becomes spare. 0, or an errno value: refused, and e is unchanged. */
int extent_unmap(extent_src_t *src, edata_t *e);
/* As extent_unmap(), at the end of the arena; cannot be refused. */
void extent_destroy(extent_src_t *src, edata_t *e);
/*
 * The descriptor of addresses that are not mapped any more, nor in the page map, becomes spare
 * (edata_cache_put); room_space.mapped (os/room.h) falls by their bytes.
 */
void extent_forget(extent_src_t *src, edata_t *e);

/* Sets is_moved (pac_move.h) of an extent that is the caller's or in a cache it has locked. */
void extent_set_moved(edata_t *e, bool is_moved);
/* Number of extents of all arenas with is_moved. */
size_t extent_nmoved(void);
