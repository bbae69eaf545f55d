/*
 * Changes of thread caches while the process runs, and explicit caches (tcache.create).
 * Each function except tcaches_* acts on the calling thread's own cache and needs no lock; the
 * table of explicit caches has its own. The caller is inside the gate. Called by mallctl nodes and
 * by requests that name a cache.
 */
#ifndef THREAD_TCACHE_SET_H
#define THREAD_TCACHE_SET_H

#include "thread/tcache.h"
#include "thread/tsd.h"

/*
 * Implement thread.tcache.max, .enabled and .ncached_max. 0, or an errno value: EAGAIN without
 * memory, ENOENT if ncached_max is set in a thread without a cache.
 */
int tcache_max_set(tsd_t *tsd, size_t max);
int tcache_enabled_set(tsd_t *tsd, bool enabled);
int tcache_ncached_max_set(tsd_t *tsd, size_t from, size_t to, size_t n);
/* Limit of objects for the class of a size; 0 if not cached. EINVAL: no cache can hold the size. */
int tcache_ncached_max_get(tsd_t *tsd, size_t size, size_t *n);

/*
 * Explicit caches. EFAULT: no memory, no id left, or no such id. No other thread may use a cache
 * while it is flushed or destroyed.
 */
int tcaches_create(tsd_t *tsd, unsigned *id);
int tcaches_flush(tsd_t *tsd, unsigned id);
int tcaches_destroy(tsd_t *tsd, unsigned id);
/* Finds an explicit cache by its id, without a lock. NULL if there is none. */
tcache_t *tcaches_get(tsd_t *tsd, unsigned id);

#endif
