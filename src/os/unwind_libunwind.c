/*
 * Stacks by libunwind: its quick walk with a cache of its own, else its cursor.  Built only where
 * configure was asked for it.
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "os/unwind.h"
#include "util/assert.h"

/* Frame by frame, leaving out those below `from`: slower, for processors without the short cut. */
static unsigned
walk_by_cursor(void **frames, unsigned max, uintptr_t from) {
	unw_context_t context;
	unw_cursor_t cursor;
	if (unw_getcontext(&context) != 0 || unw_init_local(&cursor, &context) != 0) {
		return 0;
	}
	unsigned n = 0;
	int step = 1;
	while (n < max && step > 0) {
		unw_word_t ip, sp;
		if (unw_get_reg(&cursor, UNW_REG_IP, &ip) != 0 || ip == 0
		    || unw_get_reg(&cursor, UNW_REG_SP, &sp) != 0) {
			break;
		}
		if (n > 0 || sp >= from) {
			frames[n++] = (void *)(uintptr_t)ip;
		}
		step = unw_step(&cursor);
	}
	return n;
}

/* The quick walk gives frames of our own first: cut them off. */
static unsigned
walk_quickly(void **frames, unsigned max, const void *first) {
	int got = unw_backtrace(frames, (int)max);
	unsigned n = got > 0 ? (unsigned)got : 0;
	assert(n <= max);
	unsigned own = 0;
	while (own < n && frames[own] != first) {
		own++;
	}
	memmove(frames, frames + own, (n - own) * sizeof(frames[0]));
	return n - own;
}

static unsigned
libunwind_capture(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo) {
	(void)memo;
	int saved = errno;
	unsigned n = 0;
	/* With little room the frames of our own may be all that there is. */
	if (max >= 32) {
		n = walk_quickly(frames, max, (const void *)where->pc);
	}
	if (n == 0) {
		n = walk_by_cursor(frames, max, where->sp);
	}
	errno = saved;
	unwind_count_stop(n == max ? unwind_stop_full : unwind_stop_end);
	return n;
}

static int
libunwind_boot(void) {
	/* Its first walk initialises tables of its own. */
	void *frames[2];
	unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_PER_THREAD);
	return unw_backtrace(frames, (int)ARRAY_LEN(frames)) > 0 ? 0 : ENOTSUP;
}

const struct unwind_backend_s unwind_libunwind = {"libunwind", libunwind_boot,
    libunwind_capture, false};
