/*
 * Functions of the user that are called at each allocation that succeeds, and at each free and
 * resize in place: experimental.hooks.install.
 *
 * tsd_no_fast_path is set exactly while any are installed. Then no thread has a fast path, and the
 * slow path calls them: after an allocation, and before a free, so that a free is reported before
 * another thread can get the address. They run outside of the gate with tls_s.inside raised, so
 * that their own allocations are not reported. The lock is a leaf, held while a slot is written and
 * the threads are recalled (thread/recall.h); under it only the lock of the gate's list is taken,
 * which has no rank. Callers of hooks copy a slot without the lock. If its sequence number is odd,
 * or is another one after the copy, the slot was being written, and its hook is not called. Called
 * by imalloc.c, irealloc.c, and ctl_experimental.c (install, remove).
 */
#pragma once

#include "thread/tsd.h"

/*
 * X(number, name, says): the functions that allocate and free; says: for the manual. A hook
 * receives the number.
 */
#define ALLOC_HOWS(X) \
	X(0, malloc, "malloc") \
	X(1, calloc, "calloc") \
	X(2, realloc, "realloc") \
	X(3, aligned_alloc, "aligned_alloc") \
	X(4, posix_memalign, "posix_memalign") \
	X(5, memalign, "memalign") \
	X(6, valloc, "valloc") \
	X(7, pvalloc, "pvalloc") \
	X(8, mallocx, "mallocx") \
	X(9, rallocx, "rallocx") \
	X(10, xallocx, "xallocx") \
	X(11, new, "operator new") \
	X(12, batch_alloc, "experimental.batch_alloc") \
	X(13, free, "free, free_sized, free_aligned_sized, operator delete and realloc(p, 0)") \
	X(14, dallocx, "dallocx") \
	X(15, sdallocx, "sdallocx")

typedef enum {
#define ALLOC_HOW_ENUM(n, name, says) alloc_how_##name = n,
	ALLOC_HOWS(ALLOC_HOW_ENUM)
#undef ALLOC_HOW_ENUM
} alloc_how_t;

/* Most bytes of such a name, with the NUL. Arrays, so that no pointer is relocated at a start. */
#define ALLOC_HOW_NAME_MAX 16
extern const char alloc_how_names[][ALLOC_HOW_NAME_MAX];

/*
 * args of a hook: [0] bytes of the request (for a free the usable size; for xallocx without its
 * `extra`), [1] alignment (0: natural), [2] 1 if zeroes were asked for. For a free [1], [2] are 0.
 */
#define ALLOC_HOOK_NARGS 3

/*
 * The hooks as the user passes them; the layout is part of the public interface. A function may be
 * NULL. extra: passed to each call; how: number of the public function (alloc_how_t); result: its
 * return value (alloc_hook.c makes it of `how`: 0 for posix_memalign, the usable size for xallocx,
 * otherwise the block, also for batch_alloc); args: see ALLOC_HOOK_NARGS. A block that realloc or
 * rallocx moves is reported by alloc and then dalloc, both with the `how` of that function.
 */
typedef struct alloc_hooks_s {
	void (*alloc)(void *extra, unsigned how, void *p, uintptr_t result, const uintptr_t *args);
	void (*dalloc)(void *extra, unsigned how, void *p, const uintptr_t *args);
	void (*expand)(void *extra, unsigned how, void *p, size_t old_usable, size_t usable,
	    uintptr_t result,
	    const uintptr_t *args);
	void *extra;
} alloc_hooks_t;

/* Slots: so many alloc_hooks_t can be installed at the same time. */
#define ALLOC_HOOKS_MAX 4

/* Installs hooks; inside the gate. 0, and *handle to remove them; EAGAIN: all slots are in use. */
int alloc_hook_install(const alloc_hooks_t *hooks, void **handle);
/*
 * Removes hooks; inside the gate. A call in another thread may still be running when this returns.
 * 0, or EINVAL if there is no such handle.
 */
int alloc_hook_remove(const void *handle);

/*
 * Whether this thread's operation is to be reported: hooks are installed (tsd_no_fast_path), and
 * the operation is the user's own, not that of a hook or of the library.
 */
ALWAYS_INLINE bool
alloc_hook_is_wanted(const struct tls_s *t) {
	return unlikely(atomic_load_b(&tsd_no_fast_path, MO_RELAXED)) && t->inside == 0
	    && !gate_is_entered(t);
}

/* Call these only if alloc_hook_is_wanted(). They keep errno. size, alignment: as requested. */
void alloc_hook_alloc(alloc_how_t how, void *p, size_t size, size_t alignment, bool zero);
void alloc_hook_dalloc(alloc_how_t how, void *p, size_t usable);
/* For a block that was resized in place, to a larger or smaller size. */
void alloc_hook_expand(alloc_how_t how, void *p, size_t old_usable, size_t usable, size_t size,
    size_t alignment, bool zero);
