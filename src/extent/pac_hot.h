/*
 * Hot extents: those freed last in each page class, kept whole for the next request of about their
 * size. A hot extent is reused without a search, a split or a join, which a dirty one needs. All of
 * them are made dirty by each purge of dirty pages and by a background thread before it sleeps. A
 * request for which no dirty or muzzy extent fits makes one longer hot extent dirty, to take a part
 * of it (pac_hot_try_cool); if that does not help, it makes all of them dirty. Wherever this header
 * says that a hot extent becomes dirty, one of a huge slab returns to the slab (pac_put_unused).
 *
 * Invariant: an extent in a stack has the state hot in its descriptor (the rest of a huge piece has
 * this state too). The page map says hot too, except for an extent that was a large object and
 * whose descriptor still has the class (szind): there the page map says active, as it does for a
 * free object in a thread cache. So a batch of objects becomes hot, and becomes objects again,
 * without a write to the page map. Lock: hot_mtx guards the stacks; no other lock is taken under
 * it. pac_hot_flush() and pac_hot_try_cool() put extents into the dirty cache after they have
 * released hot_mtx. Their caller holds no cache's lock (with hooks of the user no lock at all), and
 * calls pac_recheck_wake() (pac_purge.h) afterwards, unless the arena ends or its decay time is 0.
 * Callers are pac*.c and large.c, all inside the gate (os/gate.h: fork waits meanwhile); statistics
 * and the profiler call pac_ndirty(), statistics also pac_hot_each().
 */
#pragma once

#include "extent/pac_types.h"

void pac_hot_init(pac_t *pac);

/*
 * Pages that count as dirty: those of dirty extents, of hot ones, and of the rest of the huge piece
 * that slabs are cut from (extent/piece.h). Needs no lock.
 */
size_t pac_ndirty(const pac_t *pac);
/*
 * Calls add(ctx, page class, bytes) for each extent that pac_ndirty() counts beside dirty ones.
 * Holds hot_mtx meanwhile, so add() takes no lock.
 */
void pac_hot_each(pac_t *pac, void (*add)(void *ctx, unsigned pind, size_t size), void *ctx);

/*
 * Bytes of the hot extents of huge slabs that were no objects, of the page classes up to `most`
 * bytes, each counted as its class.
 */
size_t pac_hot_sec_bytes(pac_t *pac, size_t most);

/*
 * Takes up to n (not 0) hot extents that have at least `size` and at most `most` bytes (`most` is
 * less than twice `size`) and this alignment, which is at least PAGE. Returns their number; an
 * extent below many that do not fit is not found (HOT_LOOKS). They are active and the caller's, who
 * adds their pages to nactive. Their elements of the page map still say hot or active, as in the
 * stack; the caller writes them where its use of the extent needs others.
 */
unsigned pac_hot_take(pac_t *pac, size_t size, size_t most, size_t alignment, edata_t **out,
    unsigned n);
/*
 * Bytes of the longest extent that a large object of size bytes may take whole: above 128 KiB a
 * quarter more, rounded down to whole pages; but exactly size in a bounded cache or with hooks of
 * the user, and if a quarter more might be in no class.
 */
size_t pac_hot_most(const pac_t *pac, size_t size);
/*
 * Makes n (not 0) active extents of one page class hot, es[0] first, until all are or PAC_HOT_DEEP
 * are in the stack. Returns how many became hot; the caller owns the others. *npages: pages of
 * those that became hot, which the caller subtracts from nactive. The extents are neither slabs nor
 * samples, and the page map is as the invariant says. Other threads may take the hot ones at once.
 */
unsigned pac_hot_leave(pac_t *pac, edata_t *const *es, unsigned n, size_t *npages);

/*
 * Makes hot an active extent that is no object or slab any more; the caller subtracts its pages
 * from nactive. False: there is no room, and the caller keeps it, but its szind is SC_NSIZES and
 * the page map says hot, so the caller must put it elsewhere.
 */
bool pac_hot_try_keep(pac_t *pac, edata_t *e);

/*
 * Makes all hot extents dirty. Where other threads free meanwhile it ends when it has done so with
 * as many pages as were hot at first.
 */
void pac_hot_flush(pac_t *pac);
/*
 * Makes one hot extent of at least size bytes dirty. Of the page classes all of whose extents have
 * so many bytes it takes the smallest one that is not empty, and of that the extent freed last.
 * False: all these classes are empty.
 */
bool pac_hot_try_cool(pac_t *pac, size_t size);
/*
 * Whether a hot extent of this cache begins at addr, which is the end of an extent, or behind a
 * dirty one that begins there. Takes no lock, so that may change at any time. The page map of a hot
 * extent that was an object says active.
 */
bool pac_hot_is_at(const pac_t *pac, const char *addr);
