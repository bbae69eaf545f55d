/*
 * Hot extents: those freed last in each page class, kept whole for the next request of their size.
 * A hot extent is reused without a search, a split or a join, which a dirty one needs. All of them
 * are made dirty by each purge of dirty pages and by a background thread before it sleeps. A
 * request for which no dirty or muzzy extent fits makes one longer hot extent dirty, to take a part
 * of it (pac_hot_try_cool); if that does not help, it makes all of them dirty.
 *
 * Invariant: an extent in a stack has the state hot in its descriptor (the rest of a huge piece and
 * extents in small extent caches have this state too). The page map says hot too, except for an
 * extent that was a large object and whose descriptor still has the class (szind): there the page
 * map says active, as it does for a free object in a thread cache. So a batch of objects becomes
 * hot, and becomes objects again, without a write to the page map. Lock: hot_mtx guards the stacks;
 * no other lock is taken under it. pac_hot_flush(), pac_hot_try_cool(), pac_hot_cool_at() and
 * pac_hot_destroy() put extents into the dirty cache after they have released hot_mtx. Their caller
 * holds no cache's lock, and calls pac_tell_back() (pac_purge.h) afterwards unless the arena ends.
 * Callers are pac*.c and large.c, all inside the gate (os/gate.h: fork waits meanwhile); statistics
 * call pac_ndirty() and pac_hot_each().
 */
#ifndef EXTENT_PAC_HOT_H
#define EXTENT_PAC_HOT_H

#include "extent/pac_types.h"

void pac_hot_init(pac_t *pac);
/* Makes all hot extents dirty and frees the stacks; no other thread uses the cache any more. */
void pac_hot_destroy(pac_t *pac);

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
 * Takes up to n hot extents that have at least `size` and at most `most` bytes (`most` is less than
 * twice `size`) and this alignment, which is at least PAGE. Returns their number, 0 if none fits.
 * They are active and the caller's. Their elements of the page map are not written and say what
 * they said in the stack (hot or active); the caller writes them where its use of the extent needs
 * others.
 */
unsigned pac_hot_take(pac_t *pac, size_t size, size_t most, size_t alignment, edata_t **out,
    unsigned n);
/*
 * The length in bytes of the greatest extent that a request for size bytes may take whole: a
 * quarter more than size, but exactly size in a bounded cache or with hooks of the user.
 */
size_t pac_hot_most(const pac_t *pac, size_t size);
/*
 * Makes active extents hot, es[0] first, until all n are or there is no room. All are of one page
 * class. Returns how many became hot; the caller still owns the others. *npages: pages of the hot
 * ones, which the caller subtracts from nactive. The extents are neither slabs nor samples, and the
 * page map is as the invariant says. Other threads may take the hot ones at once.
 */
unsigned pac_hot_leave(pac_t *pac, edata_t *const *es, unsigned n, size_t *npages);

/*
 * Makes hot an active extent that is no object or slab any more. False: there is no room, and the
 * caller keeps it, but its szind is cleared and the page map says hot, so the caller must put it
 * elsewhere.
 */
bool pac_hot_try_keep(pac_t *pac, edata_t *e);

/* Makes all hot extents dirty. */
void pac_hot_flush(pac_t *pac);
/*
 * Makes one hot extent of at least size bytes dirty. Of the page classes all of whose extents have
 * so many bytes it takes the smallest one that is not empty, and of that the extent freed last.
 * False: all these classes are empty.
 */
bool pac_hot_try_cool(pac_t *pac, size_t size);
/*
 * Makes hot extents in [addr, addr + size) dirty, up to the first one that is neither hot nor
 * dirty, so that an expansion in place finds one dirty extent there.
 */
void pac_hot_cool_at(pac_t *pac, const char *addr, size_t size);

#endif
