/*
 * Stacks by libunwind.  Built only where configure was asked for it.
 */
#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "os/unwind.h"
#include "util/assert.h"

static NOINLINE unsigned
libunwind_capture(void **frames, unsigned max, const void *frame_hint) {
	uintptr_t from = (uintptr_t)(frame_hint != NULL ? frame_hint : __builtin_dwarf_cfa());
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
    libunwind_capture};
