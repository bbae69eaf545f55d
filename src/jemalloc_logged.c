/*
 * In a build with --enable-log, the exported functions except smallocx and je_get_defrag_hint, of
 * which no line is written, and the C++ operators, which write theirs themselves (cxx.c). je_NAME
 * here calls unlogged_NAME, and writes a line before it and one with the result after it; the
 * option `log` says which of these lines are written (call_log.h: no lock, keeps errno, (null) for
 * NULL). In such a build jemalloc.c defines its function NAME under the name unlogged_NAME. Other
 * builds have nothing of this file.
 */
#include "call_log.h"

#if CONFIG_LOG

#include "malloc_boot.h"

/* A void function has no result to tell. */
#define LOGGED_VOID(name, params, args, ...) \
	void unlogged_##name params; \
	EXPORT void je_##name params { \
		malloc_boot(); \
		call_log(call_of_##name, call_entry, __VA_ARGS__); \
		unlogged_##name args; \
		call_log(call_of_##name, call_exit, "done"); \
	}
#define LOGGED(type, name, result_format, params, args, ...) \
	type unlogged_##name params; \
	EXPORT type je_##name params { \
		malloc_boot(); \
		call_log(call_of_##name, call_entry, __VA_ARGS__); \
		type result = unlogged_##name args; \
		call_log(call_of_##name, call_exit, "result: " result_format, result); \
		return result; \
	}

LOGGED(void *, malloc, "%p", (size_t size), (size), "size: %zu", size)
LOGGED(void *, calloc, "%p", (size_t num, size_t size), (num, size),
    "num: %zu, size: %zu", num, size)
LOGGED(void *, aligned_alloc, "%p", (size_t alignment, size_t size), (alignment, size),
    "alignment: %zu, size: %zu", alignment, size)
LOGGED(void *, realloc, "%p", (void *ptr, size_t size), (ptr, size),
    "ptr: %p, size: %zu", ptr, size)
LOGGED_VOID(free, (void *ptr), (ptr), "ptr: %p", ptr)
LOGGED_VOID(free_sized, (void *ptr, size_t size), (ptr, size), "ptr: %p, size: %zu", ptr, size)
LOGGED_VOID(free_aligned_sized, (void *ptr, size_t alignment, size_t size),
    (ptr, alignment, size), "ptr: %p, alignment: %zu, size: %zu", ptr, alignment, size)
#if HAVE_MEMALIGN
LOGGED(void *, memalign, "%p", (size_t alignment, size_t size), (alignment, size),
    "alignment: %zu, size: %zu", alignment, size)
#endif
#if HAVE_VALLOC
LOGGED(void *, valloc, "%p", (size_t size), (size), "size: %zu", size)
#endif
#if HAVE_PVALLOC
LOGGED(void *, pvalloc, "%p", (size_t size), (size), "size: %zu", size)
#endif
#if HAVE_MALLOC_USABLE_SIZE
LOGGED(size_t, malloc_usable_size, "%zu", (const void *ptr), (ptr), "ptr: %p", ptr)
#endif
LOGGED(void *, mallocx, "%p", (size_t size, int flags), (size, flags),
    "size: %zu, flags: %d", size, flags)
LOGGED(void *, rallocx, "%p", (void *ptr, size_t size, int flags), (ptr, size, flags),
    "ptr: %p, size: %zu, flags: %d", ptr, size, flags)
LOGGED(size_t, xallocx, "%zu", (void *ptr, size_t size, size_t extra, int flags),
    (ptr, size, extra, flags),
    "ptr: %p, size: %zu, extra: %zu, flags: %d", ptr, size, extra, flags)
LOGGED(size_t, sallocx, "%zu", (const void *ptr, int flags), (ptr, flags),
    "ptr: %p, flags: %d", ptr, flags)
LOGGED_VOID(dallocx, (void *ptr, int flags), (ptr, flags), "ptr: %p, flags: %d", ptr, flags)
LOGGED_VOID(sdallocx, (void *ptr, size_t size, int flags), (ptr, size, flags),
    "ptr: %p, size: %zu, flags: %d", ptr, size, flags)
LOGGED(size_t, nallocx, "%zu", (size_t size, int flags), (size, flags),
    "size: %zu, flags: %d", size, flags)
LOGGED(int, mallctl, "%d", (const char *name, void *oldp, size_t *oldlenp, void *newp,
    size_t newlen), (name, oldp, oldlenp, newp, newlen), "name: %s", name)
LOGGED(int, mallctlnametomib, "%d", (const char *name, size_t *mibp, size_t *miblenp),
    (name, mibp, miblenp), "name: %s", name)
LOGGED(int, mallctlbymib, "%d", (const size_t *mib, size_t miblen, void *oldp, size_t *oldlenp,
    void *newp, size_t newlen), (mib, miblen, oldp, oldlenp, newp, newlen),
    "mib: %p, miblen: %zu", (const void *)mib, miblen)
LOGGED_VOID(malloc_stats_print, (void (*write_cb)(void *, const char *), void *cbopaque,
    const char *opts), (write_cb, cbopaque, opts), "opts: %s", opts)

/* Written out: its last line tells two values; *memptr, which an error leaves unset, as NULL. */
int unlogged_posix_memalign(void **memptr, size_t alignment, size_t size);

EXPORT int
je_posix_memalign(void **memptr, size_t alignment, size_t size) {
	malloc_boot();
	call_log(call_of_posix_memalign, call_entry, "memptr: %p, alignment: %zu, size: %zu",
	    (void *)memptr, alignment, size);
	int err = unlogged_posix_memalign(memptr, alignment, size);
	call_log(call_of_posix_memalign, call_exit, "result: %d, *memptr: %p", err,
	    err == 0 ? *memptr : NULL);
	return err;
}

#endif
