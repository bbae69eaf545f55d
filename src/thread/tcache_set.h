/*
 * Changes of thread caches while the process runs, and explicit caches (tcache.create).
 * The functions tcache_* act on the calling thread's own cache and need no lock. Of tcaches_*, for
 * explicit caches, only creation and destruction take the lock `tcaches` of their table, and under
 * it at most a base's; the others read one element without it. Caches are flushed outside of it.
 * The caller is inside the gate. Called by mallctl nodes (ctl_thread.c), and by requests and frees
 * that name an explicit cache (imalloc.c).
 */
#ifndef THREAD_TCACHE_SET_H
#define THREAD_TCACHE_SET_H

#include "thread/tcache.h"
#include "thread/tsd.h"

/*
 * Implement thread.tcache.max (bytes), .enabled and .ncached_max (n objects for requests of
 * from..to bytes). .max and .ncached_max flush the thread's cache and put an empty one in its
 * place; without a cache .max only stores the maximum, for a later one. .enabled false flushes the
 * cache and leaves none; true makes one if there is none. `max` is rounded up to a class; `max` and
 * `to` are cut to TCACHE_MAX_LIMIT, n to TCACHE_NCACHED_LIMIT; .ncached_max leaves classes above
 * the thread's maximum as they are. 0, or an errno value: EAGAIN without memory, with nothing
 * changed or flushed; ENOENT if .ncached_max is set in a thread without a cache. A range from..to
 * without a class gives 0 and changes nothing.
 */
int tcache_max_set(tsd_t *tsd, size_t max);
int tcache_enabled_set(tsd_t *tsd, bool enabled);
int tcache_ncached_max_set(tsd_t *tsd, size_t from, size_t to, size_t n);
/*
 * *n: limit of objects for the class of a size; 0: none is cached, or the thread has no cache.
 * Returns 0, or EINVAL: size is above TCACHE_MAX_LIMIT.
 */
int tcache_ncached_max_get(tsd_t *tsd, size_t size, size_t *n);

/*
 * Explicit caches. Creation: 0, or EFAULT: no memory, no id left, or tsd NULL (as in an extent
 * hook). Flush and destruction: 0; EFAULT: no such id; or EAGAIN: this is an extent hook, called
 * while its thread is in the middle of this cache. Destruction flushes the cache too; its id is
 * used again for a later one. During a flush or a destruction no other thread may use the cache.
 */
int tcaches_create(tsd_t *tsd, unsigned *id);
int tcaches_flush(tsd_t *tsd, unsigned id);
int tcaches_destroy(tsd_t *tsd, unsigned id);
/* Finds an explicit cache by its id, without a lock. NULL if there is none. */
tcache_t *tcaches_get(unsigned id);

#endif
