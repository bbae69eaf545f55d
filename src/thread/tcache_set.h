/*
 * Changes of thread caches while the process runs, and explicit caches (tcache.create).
 * Each function except tcaches_* acts on the calling thread's own cache and needs no lock; the
 * table of explicit caches has its own. The caller is inside the gate. Called by mallctl nodes
 * (ctl_thread.c), and by requests and frees that name an explicit cache (imalloc.c).
 */
#ifndef THREAD_TCACHE_SET_H
#define THREAD_TCACHE_SET_H

#include "thread/tcache.h"
#include "thread/tsd.h"

/*
 * Implement thread.tcache.max (bytes), .enabled and .ncached_max (n objects for requests of
 * from..to bytes). They flush the thread's cache and put an empty one in its place. But without a
 * cache .max only stores the maximum; .enabled false leaves none, and true changes nothing if there
 * is one. max is rounded up to a class; max and to are cut to TCACHE_MAX_LIMIT, n to
 * TCACHE_NCACHED_LIMIT; ncached_max leaves classes above the thread's maximum as they are. 0, or an
 * errno value: EAGAIN without memory, nothing changed; ENOENT if ncached_max is set in a thread
 * without a cache. A range from..to without a class gives 0 and changes nothing.
 */
int tcache_max_set(tsd_t *tsd, size_t max);
int tcache_enabled_set(tsd_t *tsd, bool enabled);
int tcache_ncached_max_set(tsd_t *tsd, size_t from, size_t to, size_t n);
/* *n: limit of objects for the class of a size; 0: none is cached. EINVAL: size is too large. */
int tcache_ncached_max_get(tsd_t *tsd, size_t size, size_t *n);

/*
 * Explicit caches. 0, or EFAULT: no memory (or tsd NULL), no id left, or no such id. EAGAIN: an
 * extent hook is to flush or destroy the cache that its own thread is in the middle of. To destroy
 * a cache flushes it first; its id is used again for a later one. During a flush or a destruction
 * no other thread may use the cache.
 */
int tcaches_create(tsd_t *tsd, unsigned *id);
int tcaches_flush(tsd_t *tsd, unsigned id);
int tcaches_destroy(tsd_t *tsd, unsigned id);
/* Finds an explicit cache by its id, without a lock. NULL if there is none. */
tcache_t *tcaches_get(unsigned id);

#endif
