/*
 * Hot extents: those freed last in each page class, kept whole for the next request of their size.
 * A hot extent is reused without a search, a split or a join, which a dirty one needs. All of them
 * are made dirty by each purge of dirty pages, by a background thread before it sleeps, and by a
 * request that finds no other extent, nor one among them to take a part of.
 *
 * Invariant: an extent in a stack has the state hot in its descriptor (the rest of a huge piece and
 * extents in small extent caches have this state too). The page map says hot too, except for an
 * extent that was a large object and whose descriptor still has the class (szind): there the page
 * map says active, as it did while the object was free. So a batch of objects becomes hot, and
 * becomes objects again, without a write to the page map. Lock: hot_mtx guards the stacks; no other
 * lock is taken under it. An extent is put into the dirty cache after hot_mtx is released; the
 * caller of a function that does so holds no cache's lock, and calls pac_tell_back() afterwards
 * unless the arena ends. Callers are pac*.c and large.c, all inside the gate; statistics call
 * pac_ndirty().
 */
#ifndef EXTENT_PAC_HOT_H
#define EXTENT_PAC_HOT_H

#include "extent/pac_types.h"

void pac_hot_init(pac_t *pac);
/* Makes all hot extents dirty and frees the stacks; no other thread uses the cache any more. */
void pac_hot_destroy(pac_t *pac);

/* Pages that count as dirty: dirty, hot, and of the rest of the huge piece. Needs no lock. */
size_t pac_ndirty(const pac_t *pac);

/*
 * Takes up to n hot extents of size to `most` bytes (less than 2 * size) with this alignment.
 * Returns their number. They are active and the caller's, but their page-map elements are as
 * before; the caller writes those that do not fit the extent's use.
 */
unsigned pac_hot_take(pac_t *pac, size_t size, size_t most, size_t alignment, edata_t **out,
    unsigned n);
/*
 * The greatest extent that a request for size bytes may take whole: a quarter more, but nothing
 * more in a bounded cache and with hooks of the user.
 */
size_t pac_hot_most(const pac_t *pac, size_t size);
/*
 * Makes the first of n active extents of one page class hot, until there is no room. Returns their
 * number; the caller still owns the others. *npages: pages of the hot ones, which the caller
 * subtracts from nactive. The extents are neither slabs nor samples, and the page map is as the
 * invariant says. Other threads may take the hot ones at once.
 */
unsigned pac_hot_leave(pac_t *pac, edata_t *const *es, unsigned n, size_t *npages);

/* Makes an extent that is no object any more hot; false if there is no room. */
bool pac_hot_try_keep(pac_t *pac, edata_t *e);

/* Makes all hot extents dirty. */
void pac_hot_flush(pac_t *pac);
/*
 * Makes one hot extent of at least size bytes dirty: the one freed last in the smallest page class
 * all of whose extents are so long. False: there is none in such classes.
 */
bool pac_hot_try_cool(pac_t *pac, size_t size);
/*
 * Makes hot extents in [addr, addr + size) dirty, up to the first one that is neither hot nor
 * dirty, so that an expansion in place finds one dirty extent there.
 */
void pac_hot_cool_at(pac_t *pac, const char *addr, size_t size);

#endif
