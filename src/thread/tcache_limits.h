/*
 * How much a thread cache may hold: the options and what follows from them by class.
 * Set while options are parsed, read-only after boot.
 */
#ifndef THREAD_TCACHE_LIMITS_H
#define THREAD_TCACHE_LIMITS_H

#include "meta/sc.h"

#define TCACHE_NSLOTS_LIMIT 2048u        /* of the nslots options */
#define TCACHE_NCACHED_LIMIT 8191u       /* of ncached_max settings */
#define TCACHE_MAX_LIMIT ((size_t)8 << 20)
#define TCACHE_GRANT_MAX ((size_t)32 << 20) /* bytes that the bins of all threads may hold beyond their limits */

extern bool opt_tcache;
extern size_t opt_tcache_max;
extern ssize_t opt_lg_tcache_nslots_mul;
extern unsigned opt_tcache_nslots_small_min;
extern unsigned opt_tcache_nslots_small_max;
extern unsigned opt_tcache_nslots_large;
extern size_t opt_tcache_gc_incr_bytes;
extern size_t opt_tcache_gc_delay_bytes;
extern unsigned opt_lg_tcache_flush_small_div;
extern unsigned opt_lg_tcache_flush_large_div;
extern bool opt_experimental_tcache_gc;

/* Largest cached size (a class) and number of classes cached by default. */
extern HIDDEN size_t tcache_max_default;
extern unsigned tcache_nhbins;
/* Larger requests are large objects, and no cache of default limits holds them. */
extern HIDDEN size_t tcache_past_max;

void tcache_boot(void);
/* Most objects that a new cache keeps of a class. */
unsigned tcache_ncached_max_default(szind_t szind);
/* Whether a bin with this limit may be granted more: no option, and no call, has set it. */
bool tcache_may_grant(szind_t szind, unsigned max);
/* For option parsing: the limit for classes of the request sizes from..to. */
int tcache_ncached_max_default_set(size_t from, size_t to, size_t n);
/* Classes of the request sizes from..to, cut at the largest cacheable; false: none. */
bool tcache_range_has_classes(size_t from, size_t to, szind_t *first, szind_t *last);

#endif
