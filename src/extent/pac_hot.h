/*
 * Hot extents: those freed last in each page class, ready to be used again. Part of pac.c.
 * pac.h says what hot extents are for.
 *
 * Invariant: an extent has the state hot exactly while it is in a stack. Lock: hot_mtx guards the
 * stacks; no other lock is taken under it. An extent that stops being hot goes to the dirty cache
 * after that, so the caller holds no cache's lock. Callers are pac.c, pac_serve.c and large.c, all
 * inside the gate.
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
 * Takes up to n hot extents of size to `most` bytes with this alignment. Returns how many; they are
 * active, but the page map still says hot, and the caller writes it. most: less than twice as much.
 */
unsigned pac_hot_take(pac_t *pac, size_t size, size_t most, size_t alignment, edata_t **out,
    unsigned n);
/*
 * The greatest extent that a request for size bytes may take whole: an eighth more, but nothing
 * more in a bounded cache and with hooks of the user.
 */
size_t pac_hot_most(const pac_t *pac, size_t size);
/*
 * Makes the first ones of n active extents of one page class hot. Returns how many; for the others
 * there is no room, or the next one is hot already. *npages: the pages of those made hot, which the
 * caller counts as inactive. They are neither slabs nor samples, and other threads may take them at
 * once.
 */
unsigned pac_hot_leave(pac_t *pac, edata_t *const *es, unsigned n, size_t *npages);

/* Makes all hot extents dirty. */
void pac_hot_flush(pac_t *pac);
/*
 * Makes hot extents in the size bytes from addr on dirty, as far as only unused pages are there, so
 * that an expansion finds them as one extent.
 */
void pac_hot_cool_at(pac_t *pac, const char *addr, size_t size);

/*
 * Called when pages that were between two containers are unused again. The background thread may
 * have looked in between and sleeps now: its limit is checked, see pac_serve().
 */
void pac_tell_back(pac_t *pac);

#endif
