/*
 * The method "libunwind": its quick walk, which has a cache; or its cursor, if there is little room
 * or the quick walk finds nothing. Built only if configure was asked for it
 * (--enable-prof-libunwind). libunwind does not check what it reads. Therefore a walk of ours, with
 * every check, goes first and counts the steps that can be taken. Invariant: libunwind is asked for
 * no more steps than that, where there is a walk of ours (HAS_WALK), except at boot: 2 frames. No
 * lock of ours; libunwind itself may take the loader's lock. No state of ours but the caching
 * policy of libunwind, which boot sets. unwind.c calls the table at the end, with max > 0.
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "unwind/unwind_step.h"
#include "util/assert.h"

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
	w.may_move = true;
	w.guard_sp = here->sp;
	while (n < max && stop == 0) {
		n++;
		stop = unwind_step_guard(&w, no_fde);
	}
	unwind_walk_end(&w, here->sp);
	if (stop != 0) {
		*why = (unwind_stop_t)(stop - 1);
	}
	return stop == 0 || stop == 1 + unwind_stop_end ? n : n - 1;
}

/*
 * Walks frame by frame over at most max frames. Those below the stack address `from` are not
 * stored, but count for max and *all. Slower than the quick walk; used where that stores nothing,
 * and with little room.
 */
static unsigned
walk_by_cursor(void **frames, unsigned max, uintptr_t from, unsigned *all) {
	unw_context_t context;
	unw_cursor_t cursor;
	*all = 0;
	if (unw_getcontext(&context) != 0 || unw_init_local(&cursor, &context) != 0) {
		return 0;
	}
	unsigned n = 0;
	int step = 1;
	for (unsigned seen = 0; seen < max && step > 0; seen++) {
		unw_word_t ip, sp;
		if (unw_get_reg(&cursor, UNW_REG_IP, &ip) != 0 || ip == 0
		    || unw_get_reg(&cursor, UNW_REG_SP, &sp) != 0) {
			break;
		}
		*all = seen + 1;
		if (n > 0 || sp >= from) {
			frames[n++] = (void *)(uintptr_t)ip;
		}
		step = seen + 1 < max ? unw_step(&cursor) : 0;
	}
	return n;
}

/*
 * Walks by unw_backtrace(), which stores frames of the allocator first; those before the address
 * `first` are removed. Returns the number of frames left, 0 if that address was not found; *all: of
 * all that were stored.
 */
static unsigned
walk_quickly(void **frames, unsigned max, const void *first, unsigned *all) {
	int got = unw_backtrace(frames, (int)max);
	unsigned n = got > 0 ? (unsigned)got : 0;
	assert(n <= max);
	unsigned own = 0;
	*all = n;
	while (own < n && frames[own] != first) {
		own++;
	}
	memmove(frames, frames + own, (n - own) * sizeof(frames[0]));
	return n - own;
}

static NOINLINE unsigned
libunwind_capture(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo) {
	int saved = errno;
	struct unwind_where_s here;
	unsigned n = 0, all, wanted = max;
	unwind_stop_t why;
	unwind_memo_forget(memo);
	UNWIND_HERE(&here);
	/* n steps lead to n + 1 frames: libunwind stores the frame of this function too. */
	max = 1 + count_safe(&here, max - 1, memo, &why);
	/* The quick walk stores the frames of the allocator too, which might fill little room. */
	if (wanted >= 32) {
		n = walk_quickly(frames, max, (const void *)where->pc, &all);
	}
	if (n == 0) {
		n = walk_by_cursor(frames, max, where->sp, &all);
	}
	errno = saved;
	/* libunwind tells no reason: if it went as far as our own walk, the reason of that counts. */
	unwind_count_stop(all < max ? unwind_stop_end : why);
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
