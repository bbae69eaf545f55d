/*
 * Pages from the end of the data segment, sbrk(2): before mmap, after it, or not at all, as each arena says.
 *
 * The segment only grows here: what an arena gives up is unmapped like any other pages.  Others may move
 * the break too (the program, the C library); what is returned was added by this call alone.
 * Its lock is held for the two or three system calls of one request; called by ehooks_alloc.
 */
#ifndef EXTENT_DSS_H
#define EXTENT_DSS_H

#include "util/compiler.h"

typedef enum {
	dss_prec_disabled,
	dss_prec_primary,   /* sbrk, then mmap */
	dss_prec_secondary, /* mmap, then sbrk */
	dss_prec_count
} dss_prec_t;

extern unsigned opt_dss; /* dss_prec_t of the arenas of the start */
extern const char *const dss_prec_names[]; /* by the enum, NULL at the end */

/* Once, after the options were read. */
void dss_boot(void);

/* What arenas begin with from now on; opt_dss at first.  ENOTSUP: not built in. */
dss_prec_t dss_default_get(void);
int dss_default_set(dss_prec_t prec);

/* size bytes that read as zeros, at a multiple of the power of two, or NULL.  Keeps errno. */
void *dss_alloc(size_t size, size_t alignment);

#endif
