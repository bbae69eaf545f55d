/*
 * The method "libgcc": stacks by libgcc's unwinder. It is correct wherever there is unwind
 * information, but much slower than our own walk. Its first call may allocate and resolve symbols,
 * so it is made at boot. libgcc does not check what it reads: a wrong unwind table or register
 * would make it read anywhere. Therefore each of its steps is taken by a walk of ours first, the
 * guard, with every check (only on x86-64 and aarch64: HAS_WALK). Invariant: libgcc takes a step
 * only if the guard has taken it, and both stand at the same frame; only the step out of libgcc's
 * own function, whose table boot has looked up, comes before the guard. No lock of ours; libgcc
 * takes the loader's lock where the C library has no look-up without it. unwind.c calls the table
 * at the end.
 */
#include <unwind.h>

#include "unwind/unwind_step.h"

/* DWARF's number of the frame pointer: of x86-64, of aarch64; not used on others (HAS_WALK). */
#if defined(__x86_64__)
#define REG_FP 6
#else
#define REG_FP 29
#endif

/*
 * One walk of libgcc's unwinder, as the argument of its callback. "CFA" is here what libgcc's
 * _Unwind_GetCFA() gives for a frame: its stack pointer (the CFA of the frame that it called).
 */
struct libgcc_walk {
	void **frames;
	unsigned n;         /* frames stored */
	unsigned max;
	uintptr_t from;     /* frames with a lower CFA are omitted: they are the allocator's */
	uintptr_t last_cfa; /* CFA of the last frame */
	struct walk_s guard; /* our walk, which takes each step first */
	bool is_guarded;     /* guard has begun */
	unwind_stop_t stop;  /* why the guard ended; unwind_stop_end while it goes on */
};

/*
 * Declared in no header of libgcc: finds the FDE of the function at pc, also one that the program
 * has registered (__register_frame).
 */
struct bases_s {
	void *text;
	void *data;
	void *function;
};
extern const void *_Unwind_Find_FDE(void *pc, struct bases_s *bases) WEAK;

/* An unwind_find_fde_t. */
static const unsigned char *
find_fde(uintptr_t pc) {
	struct bases_s bases;
	return _Unwind_Find_FDE == NULL ? NULL : _Unwind_Find_FDE((void *)pc, &bases);
}

/*
 * Takes the guard's step out of the present frame; the first call begins the guard there. True:
 * libgcc may follow; false: w->stop says why not. For a frame that a signal interrupted, libgcc on
 * aarch64 reports the address of the saved registers as the CFA; it continues from the stack
 * pointer among these registers, and so does the guard.
 */
static bool
try_step(struct libgcc_walk *w, struct _Unwind_Context *context, uintptr_t ip, uintptr_t cfa,
    bool is_interrupted) {
	struct walk_s *g = &w->guard;
	if (!HAS_WALK) {
		return true;
	}
	if (!w->is_guarded) {
		struct unwind_where_s here = {.pc = ip, .sp = cfa,
			.fp = (uintptr_t)_Unwind_GetGR(context, REG_FP)};
		unwind_walk_begin(g, &here, g->memo);
		g->guard_sp = cfa;
		w->is_guarded = true;
	}
	if (g->pc != ip || (g->sp != cfa && !is_interrupted)) {
		w->stop = unwind_stop_bad_frame;
		return false;
	}
	unsigned stop = unwind_step_guard(g, find_fde);
	w->stop = stop == 0 ? unwind_stop_end : (unwind_stop_t)(stop - 1);
	return stop == 0;
}

/*
 * Called by libgcc for each frame: stores its address, unless it is omitted, and decides whether
 * libgcc may step to the next one.
 */
static _Unwind_Reason_Code
on_frame(struct _Unwind_Context *context, void *opaque) {
	struct libgcc_walk *w = opaque;
	int is_interrupted = 0;
	uintptr_t ip = _Unwind_GetIPInfo(context, &is_interrupted);
	uintptr_t cfa = _Unwind_GetCFA(context);
	if (ip == 0 || w->n == w->max) {
		return _URC_END_OF_STACK;
	}
	/* In some programs the outermost frame returns to itself again and again. */
	if (w->n > 0 && cfa == w->last_cfa && (uintptr_t)w->frames[w->n - 1] == ip) {
		return _URC_END_OF_STACK;
	}
	assert(w->n < w->max);
	w->last_cfa = cfa;
	ip += is_interrupted != 0;
	if (w->n > 0 || cfa >= w->from) {
		w->frames[w->n++] = (void *)ip;
	}
	return try_step(w, context, ip, cfa, is_interrupted != 0) ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static unsigned
libgcc_capture(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo) {
	struct libgcc_walk w = {.frames = frames, .max = max, .from = where->sp, .guard.memo = memo};
	int saved = errno;
	unwind_memo_forget(memo); /* keeps no marks; the guard uses what memo says of the stacks */
	_Unwind_Backtrace(on_frame, &w);
	errno = saved;
	assert(w.n <= max);
	if (w.is_guarded) {
		unwind_walk_end(&w.guard, where->sp);
	}
	unwind_count_stop(w.n == max ? unwind_stop_full : w.stop);
	return w.n;
}

/*
 * libgcc would end the process if it found no description of its own function, as in a static
 * program without .eh_frame_hdr; so find_fde() is asked for that first.
 */
static int
libgcc_boot(void) {
	if (find_fde((uintptr_t)_Unwind_Backtrace + 1) == NULL) {
		return ENOTSUP;
	}
	void *frames[2];
	struct unwind_memo_s nothing = {.lo = 0};
	struct libgcc_walk w = {.frames = frames, .max = ARRAY_LEN(frames), .guard.memo = &nothing};
	_Unwind_Backtrace(on_frame, &w);
	return w.n > 0 ? 0 : ENOTSUP;
}

const struct unwind_backend_s unwind_libgcc = {"libgcc", libgcc_boot, libgcc_capture};
