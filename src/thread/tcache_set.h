/*
 * Changes of thread caches while the process runs, and explicit caches (tcache.create). The
 * functions tcache_* act on the calling thread's own cache and need no lock. tcaches_create() and
 * tcaches_destroy() take the lock `tcaches` of the table of explicit caches, a leaf;
 * tcaches_flush() and tcaches_get() read one entry of the table without a lock. No cache is flushed
 * while `tcaches` is held. The caller is inside the gate. Called by mallctl nodes (ctl_thread.c),
 * and by requests and frees that name an explicit cache (imalloc.c).
 */
#pragma once

#include "thread/tcache.h"
#include "thread/tsd.h"

/*
 * Implement thread.tcache.max (bytes), .enabled and .ncached_max (n objects for requests of
 * from..to bytes). .max and .ncached_max flush the thread's cache and put an empty one in its
 * place; in a thread without a cache .max only stores the maximum, for a cache made later. .enabled
 * false flushes the cache and leaves none; true makes one if there is none. `max` is rounded up to
 * a class; `max` and `to` are cut to TCACHE_MAX_LIMIT, n to TCACHE_NCACHED_LIMIT; .ncached_max
 * leaves classes above the thread's maximum as they are. Return 0 or an errno value. EAGAIN: there
 * is no memory, and nothing was changed or flushed. ENOENT: .ncached_max in a thread without a
 * cache. A range from..to without a class gives 0 and changes nothing.
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
 * hook). Flush and destruction: 0; EFAULT: no such id; or EAGAIN: the caller is an extent hook that
 * runs while its thread flushes this cache, or serves a request or free with it. Destruction
 * flushes the cache too; its id is used again for a later one. During a flush or a destruction no
 * other thread may use the cache.
 */
int tcaches_create(tsd_t *tsd, unsigned *id);
int tcaches_flush(tsd_t *tsd, unsigned id);
int tcaches_destroy(tsd_t *tsd, unsigned id);
/* Finds an explicit cache by its id, without a lock. NULL if there is none. */
tcache_t *tcaches_get(unsigned id);
