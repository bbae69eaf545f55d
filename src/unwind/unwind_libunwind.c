/*
 * The method "libunwind": its quick walk, which has a cache. Built only if configure was asked for
 * it (--enable-prof-libunwind). libunwind does not check what it reads. Therefore a walk of ours,
 * with every check, goes first and counts the steps that can be taken. Invariant: libunwind is
 * asked for one frame more than that at most, where there is a walk of ours (HAS_WALK), except at
 * boot: 2 frames. No lock of ours; libunwind itself may take the loader's lock. No state of ours
 * but the caching policy of libunwind, which boot sets. unwind.c calls the table at the end, with
 * max > 0.
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "unwind/unwind_step.h"

/*
 * Fewer frames than this are read into an array of twice as many. The allocator's own frames are
 * about ten.
 */
#define LITTLE_ROOM 32

/* Finds no FDE (of type unwind_find_fde_t), because libunwind knows no registered ones either. */
static const unsigned char *
no_fde(uintptr_t pc UNUSED) {
	return NULL;
}

/*
 * Counts the steps from frame to frame, up to max, that can be taken from `here`; max where there
 * is no walk of ours. The step that finds the end of the stack counts too; a step that fails in
 * another way does not. *why: the reason for a number below max; unwind_stop_full: there is none.
 */
static unsigned
count_safe(const struct unwind_where_s *here, unsigned max, struct unwind_memo_s *memo,
    unwind_stop_t *why) {
	struct walk_s w;
	unsigned n = 0, stop = 0;
	*why = unwind_stop_full;
	if (!HAS_WALK) {
		return max;
	}
	unwind_walk_begin(&w, here, memo);
	w.guard_sp = here->sp;
	while (n < max && stop == 0) {
		n++;
		stop = unwind_step_guard(&w, no_fde);
	}
	unwind_walk_end(&w, here->sp);
	if (stop != 0) {
		*why = (unwind_stop_t)(stop - 1);
	}
	return stop == 0 || stop == 1 + unwind_stop_end ? n : n - 1; /* stop: 0, or 1 + the reason */
}

/*
 * unw_backtrace() stores frames of the allocator first; those before the address where->pc are left
 * out. They might fill an array for few frames, so with a small max a longer one is used; otherwise
 * a deeper stack gives max less these frames. On some machines (aarch64) unw_backtrace() subtracts
 * 1 from return addresses, which is added again.
 */
static NOINLINE unsigned
libunwind_capture(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo) {
	int saved = errno;
	struct unwind_where_s here;
	void *all[2 * LITTLE_ROOM], **to = max < LITTLE_ROOM ? all : frames;
	unwind_stop_t why;
	unwind_memo_forget(memo);
	UNWIND_HERE(&here);
	/* n steps lead to n + 1 frames: libunwind stores the frame of this function too. */
	unsigned room = to == all ? ARRAY_LEN(all) : max;
	room = 1 + count_safe(&here, room - 1, memo, &why);
	int got = unw_backtrace(to, (int)room);
	unsigned n = got > 0 ? (unsigned)got : 0, own = 0;
	errno = saved;
	assert(n <= room);
	while (own < n && where->pc - (uintptr_t)to[own] > 1) {
		own++;
	}
	/* libunwind tells no reason: if it went as far as our own walk, the reason of that counts. */
	unwind_count_stop(n - own >= max ? unwind_stop_full : n < room ? unwind_stop_end : why);
	n = (unsigned)min_zu(n - own, max);
	uintptr_t subtracted = n == 0 ? 0 : where->pc - (uintptr_t)to[own];
	for (unsigned i = 0; i < n; i++) {
		frames[i] = (void *)((uintptr_t)to[own + i] + subtracted);
	}
	return n;
}

static int
libunwind_boot(void) {
	/* libunwind initialises tables of its own during its first walk. */
	void *frames[2];
	unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_PER_THREAD);
	return unw_backtrace(frames, (int)ARRAY_LEN(frames)) > 0 ? 0 : ENOTSUP;
}

const struct unwind_backend_s unwind_libunwind = {"libunwind", libunwind_boot,
    libunwind_capture};
