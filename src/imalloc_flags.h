/*
 * Requests and frees that state more than an address: MALLOCX_* flags, and the size of the block
 * that is freed.
 *
 * The public functions of such a form (jemalloc.c, cxx.c) call these functions after their fast
 * path (imalloc.h) has failed, if they have one. The caller holds no lock; imalloc() and ifree()
 * enter the gate themselves.
 */
#pragma once

#include "imalloc.h"

/*
 * Decode MALLOCX_* flags: into a whole request; or only the cache (imalloc_req_t.tcache). No id is
 * checked: a cache that does not exist is none, with an arena that does not an allocation fails.
 */
imalloc_req_t imalloc_flags_req(size_t size, int flags, alloc_how_t how);
int imalloc_flags_tcache(int flags);

/* mallocx() after the fast path has failed. NULL with errno ENOMEM, as imalloc() (imalloc.h). */
void *imalloc_mallocx(size_t size, int flags) NOINLINE;

/* dallocx(): the flags name the cache, their other parts are ignored. ptr may be NULL. */
void ifree_flags(void *ptr, int flags) NOINLINE;
/*
 * Sized frees of the C and C++ standards (alignment 0: none), and sdallocx(). size and alignment
 * are those of the request, in bytes; if they cannot be the object's, the process ends. sdallocx()
 * takes alignment and cache from the flags. ptr may be NULL.
 */
void ifree_sized_standard(void *ptr, size_t size, size_t alignment) NOINLINE;
void ifree_sized_default(void *ptr, size_t size, int flags) NOINLINE;
