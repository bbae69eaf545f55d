/*
 * Pages from the end of the data segment by sbrk(2): before mmap, after it, or not at all. Each
 * arena has its precedence. The library never lowers the break, because that would take away what
 * others added since. So pages that an arena returns to the system, and those of a failed try, are
 * unmapped like any others, which leaves a hole. The user's program and the C library may move the
 * break too; a range that dss_alloc() returns was added by that call alone. One lock, "dss", is
 * held during dss_alloc(): up to eight tries, each with at most two calls of sbrk(2) and one of
 * munmap(2). That unmaps what was skipped for the alignment, or a range that does not begin at the
 * break read before. Precedences are atomic. Called by ehooks_map(), under grow_mtx (extent.h) of
 * the arena. Only if an arena with hooks of the user began to grow, and the hooks were removed
 * meanwhile, grow_mtx is not held; "dss" is enough then. Options, mallctl and new arenas read or
 * set precedences; jemalloc_init.c calls dss_boot().
 */
#pragma once

#include "util/compiler.h"

/* The precedence of an arena. */
typedef enum {
	dss_prec_disabled,
	dss_prec_primary,   /* sbrk, then mmap */
	dss_prec_secondary, /* mmap, then sbrk */
	dss_prec_count
} dss_prec_t;

extern unsigned opt_dss;                   /* dss_prec_t: the first dss_default_get() */
extern const char *const dss_prec_names[]; /* indexed by the enum, NULL at the end */

/* To be called once, after the options were read. */
void dss_boot(void);

/*
 * The precedence with which new arenas start from now on; opt_dss until it is set.
 * dss_default_set() returns 0, or ENOTSUP if prec is not dss_prec_disabled although sbrk is not
 * built in. Any thread may call both.
 */
dss_prec_t dss_default_get(void);
int dss_default_set(dss_prec_t prec);

/*
 * Returns size bytes (a multiple of PAGE, not 0) that read as zeros, at a multiple of alignment (a
 * power of two) and of PAGE. NULL: no memory, or others moved the break in all tries. Preserves
 * errno.
 */
void *dss_alloc(size_t size, size_t alignment);
