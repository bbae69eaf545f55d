/*
 * Hot extents: those freed last in each page class, kept whole for the next request of their size.
 * A hot extent is reused without a search, a split or a join, which a dirty one needs. pac_tick()
 * and a request that finds no other extent, nor one among them to take a part of, make all of them
 * dirty.
 *
 * Invariant: an extent in a stack has the state hot (the rest of a huge piece and extents in small
 * extent caches have this state too). If it was an object whose class its descriptor still has
 * (szind), the page map says what it said of the free object, which is active; so that a batch of
 * objects becomes hot, and is objects again, without a write to the page map. Of all others it says
 * hot. Lock: hot_mtx guards the stacks; no other lock is taken under
 * it. An extent is put into the dirty cache after hot_mtx is released; the caller of a function
 * that does so holds no cache's lock, and calls pac_tell_back() afterwards unless the arena ends.
 * Callers are pac*.c and large.c, all inside the gate.
 */
#ifndef EXTENT_PAC_HOT_H
#define EXTENT_PAC_HOT_H

#include "extent/pac_types.h"

void pac_hot_init(pac_t *pac);
/* Makes all hot extents dirty and frees the stacks; no other thread uses the cache any more. */
void pac_hot_destroy(pac_t *pac);

/* Unused pages that are not purged yet, hot ones included. Needs no lock. */
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
 * Makes the hot extent freed last in the smallest class of extents of at least size bytes dirty.
 * False: these classes are empty. Longer extents in the class of size itself are not looked at.
 */
bool pac_hot_try_cool(pac_t *pac, size_t size);
/*
 * Makes hot extents in [addr, addr + size) dirty, up to the first one that is neither hot nor
 * dirty, so that an expansion in place finds one dirty extent there.
 */
void pac_hot_cool_at(pac_t *pac, const char *addr, size_t size);

#endif
