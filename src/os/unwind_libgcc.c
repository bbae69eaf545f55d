/*
 * Stacks by libgcc's unwinder.  Right wherever there is unwind information, but about 1500
 * instructions a frame.  Its first call may allocate and resolve symbols, so boot makes it, at a
 * safe point.
 */
#include <unwind.h>

#include "os/unwind.h"
#include "util/assert.h"

struct libgcc_walk {
	void **frames;
	unsigned n;
	unsigned max;
	uintptr_t from;
	uintptr_t last_cfa;
};

static _Unwind_Reason_Code
on_frame(struct _Unwind_Context *context, void *opaque) {
	struct libgcc_walk *w = opaque;
	int is_interrupted = 0;
	uintptr_t ip = _Unwind_GetIPInfo(context, &is_interrupted);
	uintptr_t cfa = _Unwind_GetCFA(context);
	if (ip == 0 || w->n == w->max) {
		return _URC_END_OF_STACK;
	}
	/* The outermost frame of some programs yields itself again and again. */
	if (w->n > 0 && cfa == w->last_cfa && (uintptr_t)w->frames[w->n - 1] == ip) {
		return _URC_END_OF_STACK;
	}
	assert(w->n < w->max);
	w->last_cfa = cfa;
	ip += is_interrupted != 0;
	if (w->n > 0 || cfa >= w->from) {
		w->frames[w->n++] = (void *)ip;
	}
	return _URC_NO_REASON;
}

static unsigned
libgcc_capture(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo) {
	(void)memo;
	struct libgcc_walk w = {.frames = frames, .max = max, .from = where->sp};
	int saved = errno;
	_Unwind_Backtrace(on_frame, &w);
	errno = saved;
	assert(w.n <= max);
	unwind_count_stop(w.n == max ? unwind_stop_full : unwind_stop_end);
	return w.n;
}

static int
libgcc_boot(void) {
	void *frames[2];
	struct libgcc_walk w = {.frames = frames, .max = ARRAY_LEN(frames)};
	_Unwind_Backtrace(on_frame, &w);
	return w.n > 0 ? 0 : ENOTSUP;
}

const struct unwind_backend_s unwind_libgcc = {"libgcc", libgcc_boot, libgcc_capture, false};
