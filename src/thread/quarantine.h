/*
 * The quarantine of a thread: freed objects that are not reused for a while, to detect writes after
 * the free (option lg_san_uaf_align).
 *
 * A small object that contains an address which is a multiple of 2^lg_san_uaf_align is filled with
 * a fixed byte when it is freed, and enters the quarantine of the freeing thread. When that has too
 * many objects or bytes, the oldest leave it; when the thread's cache is flushed, all do. An object
 * that leaves must still consist of that byte, otherwise the process ends; then it returns to its
 * slab. The thread's counters count it as freed when it enters, the arena's statistics when it
 * leaves. Samples, objects of explicit arenas, and those whose free names a cache or none (mallocx
 * flags) are not put here. The option exists in builds with --enable-uaf-detection and in debug
 * builds. In hardened builds (--enable-opt-safety-checks) small objects also enter while the option
 * is -1, whatever their address: a few of each class (the look, a check of freed objects:
 * thread/tcache.h), and all that are freed by a thread with a tsd but no cache.
 *
 * Only the owner calls these functions, without a lock and inside the gate, but quarantine_has()
 * also outside; and a forked child, for threads that do not exist there. Called by imalloc.c,
 * icheck.c, tcache.c (flush), tsd.c (end), jemalloc_init.c (at exit).
 */
#pragma once

#include "thread/tsd_types.h"

/* Maximum number of objects in a thread's quarantine, and of their bytes. */
#define QUARANTINE_MAX 256u
#define QUARANTINE_BYTES ((size_t)512 << 10)

/* The option, log2 of bytes, at least LG_PAGE; -1: off, objects enter only in hardened builds. */
extern ssize_t opt_lg_san_uaf_align;

ALWAYS_INLINE bool
quarantine_is_on(void) {
	return config_uaf_detection && unlikely(opt_lg_san_uaf_align >= 0);
}

/*
 * Puts an object of usize bytes into quarantine. It lies in extent e, is in use and is no sample.
 * Returns false if it is not suitable (large, of an explicit arena, without a byte for the user, or
 * without such an address while the option is not -1) or there is no memory; the caller then frees
 * it. Ends the process if it is in this quarantine already (double free) and was not written to
 * since; true, without a change, if safety_abort_hook returns.
 */
bool quarantine_try_add(tsd_t *tsd, const edata_t *e, void *ptr, size_t usize);
/* Whether ptr is in quarantine. */
bool quarantine_has(const tsd_t *tsd, const void *ptr);
/* Checks all objects and returns them to their slabs. */
void quarantine_flush(tsd_t *tsd);
/* Flushes and frees the quarantine at the end of the thread. */
void quarantine_delete(tsd_t *tsd);
