/*
 * Changing thread caches while they run, and caches made by hand (tcache.create).
 */
#ifndef THREAD_TCACHE_SET_H
#define THREAD_TCACHE_SET_H

#include "thread/tcache.h"
#include "thread/tsd.h"

/* thread.tcache.max, .enabled and ncached_max; errno. */
int tcache_max_set(tsd_t *tsd, size_t max);
int tcache_enabled_set(tsd_t *tsd, bool enabled);
int tcache_ncached_max_set(tsd_t *tsd, size_t from, size_t to, size_t n);
/* Current limit for the class of a size; 0 if it is not cached. EINVAL: above the largest possible. */
int tcache_ncached_max_get(tsd_t *tsd, size_t size, size_t *n);

/* Caches by hand; EFAULT: no memory or no id left / no such id. */
int tcaches_create(tsd_t *tsd, unsigned *id);
int tcaches_flush(tsd_t *tsd, unsigned id);
int tcaches_destroy(tsd_t *tsd, unsigned id);
/* NULL: no such cache. */
tcache_t *tcaches_get(tsd_t *tsd, unsigned id);

#endif
