/*
 * Requests and frees that say more than an address: MALLOCX_* flags, and the size of the block that is freed.
 *
 * Called by the public functions of such a form when their fast path (imalloc.h) has given up.  No lock is held;
 * imalloc() and ifree() enter the gate themselves.
 */
#ifndef IMALLOC_FLAGS_H
#define IMALLOC_FLAGS_H

#include "imalloc.h"

/* The meaning of MALLOCX_* flags: the whole request, and the cache alone. */
imalloc_req_t imalloc_flags_req(size_t size, int flags, alloc_how_t how);
int imalloc_flags_tcache(int flags);

/* mallocx() when the fast path has given up, or for the inside. */
void *imalloc_mallocx(size_t size, int flags) NOINLINE;

/* dallocx: the flags say which cache. */
void ifree_flags(void *ptr, int flags) NOINLINE;
/* Sized frees of the standard (alignment 0: none), and sdallocx. A size that cannot be the object's ends the process. */
void ifree_sized_standard(void *ptr, size_t size, size_t alignment) NOINLINE;
void ifree_sized_default(void *ptr, size_t size, int flags) NOINLINE;

#endif
