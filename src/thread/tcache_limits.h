/*
 * How much a thread cache may hold: the options, and the limits by class that follow from them.
 * Invariant: values are set while options are parsed (conf_table.c) and at boot, and are read-only
 * afterwards, so no lock is needed. tcache.c reads the limits when it makes a cache, grants slots
 * or flushes a full bin, tcache_set.c when a program changes those of one cache. jemalloc_init.c,
 * imalloc.c, tsd.c, stats.c and mallctl read tcache_max_default or tcache_nhbins; jemalloc_init.c,
 * tsd.c and prof_dump.c read opt_tcache, prof_dump.c also opt_tcache_max.
 */
#pragma once

#include "meta/sc.h"

/*
 * Most slots of a bin with a grant (slots beyond its limit, tcache.h); also the greatest value of
 * the options tcache_nslots_*.
 */
#define TCACHE_NSLOTS_LIMIT 2048u
#define TCACHE_NCACHED_LIMIT 8191u /* maximum of ncached_max settings, in objects */
/* Largest size that a cache can hold, in bytes. */
#define TCACHE_MAX_LIMIT ((size_t)8 << 20)
/*
 * A batch is what a bin with the limit 0 is granted at once in a thread that only allocates or only
 * frees such objects: as many slots as neither of these bounds, in bytes and objects, forbids.
 */
#define TCACHE_BATCH_BYTES ((size_t)2 << 20)
#define TCACHE_BATCH_MAX 32u
/* By default bins of objects above this size have the limit 0 and hold only granted slots. */
#define TCACHE_GRANT_ABOVE ((size_t)32 << 10)
/*
 * A request of zeroed memory above this size does not use a cache. Before an arena takes new pages
 * for any request above this size, so many bytes of cached objects above it are flushed, if there
 * are as many (tcache_make_way).
 */
#define TCACHE_FLUSH_ABOVE ((size_t)128 << 10)

/*
 * The options; the manual and conf_table.c say what each does. opt_tcache_max is bytes, nslots are
 * objects, lg_* log2 of a factor or divisor. opt_tcache_gc_* and opt_experimental_tcache_gc are
 * only shown.
 */
extern bool opt_tcache;
/* Whether an option that limits caches, except tcache_ncached_max, was set, to any value. */
extern bool opt_tcache_limits_given;
/* The same of tcache_max, lg_tcache_max and tcache_nslots_large alone. */
extern bool opt_tcache_large_given;
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

/* Largest size in bytes that caches hold by default: opt_tcache_max rounded up to a class. */
extern HIDDEN size_t tcache_max_default;
extern unsigned tcache_nhbins; /* number of classes up to it */

/* Computes the two, and arena_large_explicit_min; called by boot, after bin_info_boot(). */
void tcache_boot(void);
/*
 * The limit, in objects, that the bin of this class has in a new cache, if the cache's maximum size
 * allows the class; the caller tests that.
 */
unsigned tcache_ncached_max_default(szind_t szind);
/*
 * Whether a bin with this limit (max) may be granted more: no option, tcache_ncached_max neither,
 * has set a limit of any class, and max is the default. In hardened builds not for objects above
 * TCACHE_GRANT_ABOVE.
 */
bool tcache_may_grant(szind_t szind, unsigned max);
/*
 * For the option parser: sets the limit for the classes of the request sizes from..to (bytes, both
 * included) to n objects, at most TCACHE_NCACHED_LIMIT. Returns 0 always, as the parser wants.
 */
int tcache_ncached_max_default_set(size_t from, size_t to, size_t n);
/*
 * Finds the classes of the request sizes from..to (bytes, both included), cut at TCACHE_MAX_LIMIT:
 * *first to *last, both included. Returns false if there are none.
 */
bool tcache_range_classes(size_t from, size_t to, szind_t *first, szind_t *last);
