/*
 * One step of a walk with all checks, and what is known of the thread's stacks.
 * unwind_step.h has the contract. A step leads to a frame above the last one inside the confirmed
 * range [sp, hi) (at the same sp only out of an interrupted leaf function), or to another stack
 * (out of a signal handler, or at most MOVES_MAX times by rows), or says why the walk ends. A row
 * says how to find the canonical frame address (CFA), the return address and the caller's frame
 * pointer; a guard is a walk that goes ahead of an unwinder that checks nothing. Invariant: what is
 * read lies below hi or was confirmed by the kernel. The caller bounds the number of frames, so a
 * walk always ends. No lock, and no state outside of the walk and the thread's memo. Called by
 * unwind_fp.c, unwind_libgcc.c and unwind_libunwind.c.
 */
#include "unwind/unwind_step.h"

#include <elf.h>
#include <sys/auxv.h>

#include "os/pages.h"
#include "os/sys.h"
#include "os/thread.h"
#include "os/tls.h"
#include "unwind/code.h"
#include "unwind/frame_scan.h"
#include "unwind/objects.h"
#include "util/bits.h"

/* Largest distance in bytes from sp at which a step may go beyond hi; more is a broken chain. */
#define FRAME_SPAN_MAX (ZU(16) << 20)
/* Most consecutive steps by bare frame pointers to addresses in no loaded object. */
#define GUESS_MAX 64
/* Most steps of one walk to other stacks, by rows. */
#define MOVES_MAX 16
/* Bytes of stack below guard_sp that the guarded unwinder may use during its walk. */
#define UNWINDER_STACK ((uintptr_t)64 << 10)
/*
 * Greatest distance in bytes between a thread's outermost frame and the end of its stack: its
 * static TLS, arguments.
 */
#define STACK_END_SPAN (ZU(1) << 20)
/*
 * Bytes of code that the guarded unwinder may read where there is no row, to find out whether they
 * are the two instructions that return from a signal handler.
 */
#define CODE_BYTES 16

const uintptr_t unwind_not_read = 0;

/* ---- steps ---- */

/*
 * Whether the stack from sp up to addr can be read; if so, extends hi to addr at least. Asks the
 * kernel unless it is known.
 */
static bool
confirm(struct walk_s *w, uintptr_t addr) {
	if (addr <= w->hi) {
		return true;
	}
	if (w->is_own || addr <= w->sp || addr - w->sp > FRAME_SPAN_MAX) {
		return false;
	}
	uintptr_t end = align_up(addr, os_page_size);
	if (!sys_is_readable((const void *)w->hi, end - w->hi)) {
		return false;
	}
	assert(end >= addr && end > w->hi);
	const struct unwind_memo_s *m = w->memo;
	w->is_own = w->sp < m->own_lo && end >= m->own_lo && end < m->own_hi;
	w->hi = w->is_own ? m->own_hi : end;
	return true;
}

/* Whether a word at addr lies in [sp, end) and is aligned. */
static bool
is_in_frame(const struct walk_s *w, uintptr_t addr, uintptr_t end) {
	return addr >= w->sp && addr < end && (addr & 7) == 0;
}

/* Sets the registers of w to those of the caller: ra, cfa, caller_fp. Returns true. */
static bool
enter_caller(struct walk_s *w, uintptr_t ra, uintptr_t cfa, uintptr_t caller_fp) {
	/* Upwards only and never beyond what was confirmed: therefore a walk ends. */
	assert(cfa >= w->sp && cfa <= w->hi && (cfa & 7) == 0);
	w->pc = ra;
	w->sp = cfa;
	w->fp = caller_fp;
	w->lr = 0;
	return true;
}

/* Whether the page below a CFA has words that the guarded unwinder writes during its walk. */
static bool
is_unwinders_own(const struct walk_s *w, uintptr_t cfa) {
	return align_down(cfa - 8, os_page_size) < w->guard_sp
	    && cfa > w->guard_sp - UNWINDER_STACK;
}

/* Moves to another stack, if the walk may and the page below the CFA there can be read. */
static bool
move_to(struct walk_s *w, uintptr_t cfa) {
	if (w->guard_sp == 0 || w->n_moves == MOVES_MAX || cfa < os_page_size || (cfa & 7) != 0
	    || is_unwinders_own(w, cfa) || !sys_is_readable((const void *)(cfa - 8), 8)) {
		return false;
	}
	w->n_moves++;
	w->is_moved = true;
	w->is_own = false;
	w->hi = align_up(cfa, os_page_size);
	w->sp = align_down(cfa - 8, os_page_size);
	return true;
}

/*
 * Whether the walk may continue at a CFA. Extends hi to it, or moves the walk to the stack where it
 * lies.
 */
static bool
is_cfa_good(struct walk_s *w, uintptr_t cfa) {
	/* Only a leaf function that was interrupted may have an empty frame. */
	bool is_growing = cfa > w->sp || (cfa == w->sp && w->lr != 0);
	bool is_here = is_growing && (cfa & 7) == 0 && (cfa == w->sp || confirm(w, cfa));
	return is_here || move_to(w, cfa);
}

/* Computes the CFA as the row says; false if the walk may not continue there (is_cfa_good). */
static bool
find_cfa(struct walk_s *w, row_t row, uintptr_t *cfa) {
	uintptr_t off = (uintptr_t)ROW_CFA_OFF(row);
	if (ROW_KIND(row) == ROW_DEREF) {
		uintptr_t addr = w->fp + off;
		if (!confirm(w, addr + 8) || !is_in_frame(w, addr, w->hi)) {
			return false;
		}
		*cfa = load_word(addr);
	} else {
		*cfa = (ROW_KIND(row) == ROW_SP ? w->sp : w->fp) + off;
	}
	return is_cfa_good(w, *cfa);
}

/* Reads the caller's frame pointer as the row says; false if it is not in the frame. */
static bool
find_fp(struct walk_s *w, row_t row, uintptr_t cfa, uintptr_t *caller_fp) {
	assert(cfa <= w->hi);
	uintptr_t addr = (uintptr_t)ROW_FP_OFF(row);
	w->fp_at = 0;
	switch (ROW_FP_HOW(row)) {
	case ROW_FP_SAME:
		*caller_fp = w->fp;
		return true;
	case ROW_FP_CFA:
		addr += cfa;
		break;
	case ROW_FP_FP:
		addr += w->fp;
		break;
	default:
		*caller_fp = FP_IS_LOST;
		return true;
	}
	if (!is_in_frame(w, addr, cfa)) {
		return false;
	}
	w->fp_at = addr;
	*caller_fp = load_word(addr);
	return true;
}

/* Reads the return address as the row says; false if it is neither in the frame nor in w->lr. */
static bool
find_ra(struct walk_s *w, row_t row, uintptr_t cfa, uintptr_t *ra) {
	uintptr_t addr = cfa + (uintptr_t)ROW_RA_OFF(row);
	if (addr == cfa) {
		*ra = w->lr;
		return w->lr != 0;
	}
	if (!is_in_frame(w, addr, cfa)) {
		return false;
	}
	*ra = ra_of_word(row, load_word(addr));
	if (ROW_KIND(row) != ROW_DEREF) {
		w->ra_at = mark_ra_at(row, addr);
	}
	return true;
}

/* The rest of a step whose CFA is good; has_moved: it led to another stack. */
static bool
step_to(struct walk_s *w, row_t row, uintptr_t cfa, bool has_moved) {
	uintptr_t caller_fp, ra;
	if (!find_fp(w, row, cfa, &caller_fp) || !find_ra(w, row, cfa, &ra)) {
		return false;
	}
	return (!has_moved || code_is_call_in_object(ra)) && enter_caller(w, ra, cfa, caller_fp);
}

/* A step by a row, with all checks. */
static bool
step_by_row(struct walk_s *w, row_t row) {
	unsigned n_moves = w->n_moves;
	uintptr_t cfa;
	return find_cfa(w, row, &cfa) && step_to(w, row, cfa, w->n_moves != n_moves);
}

/*
 * Sets hi for the stack that sp is on. Returns false if that is not the thread's own stack; then hi
 * is the end of sp's page.
 */
static bool
stack_enter(struct walk_s *w) {
	const struct unwind_memo_s *m = w->memo;
	w->is_own = w->sp >= m->own_lo && w->sp < m->own_hi;
	w->hi = w->is_own ? m->own_hi : align_up(w->sp + 1, os_page_size);
	return w->is_own;
}

/* Leaves a signal handler: reads the interrupted registers from the kernel's record at sp. */
static bool
step_signal(struct walk_s *w) {
#if defined(__x86_64__)
	enum { AT_FP = 120, AT_SP = 160, AT_PC = 168, RECORD = 176 };
#else
	/* siginfo, the ucontext up to the registers (16-byte aligned), the fault address, x0. */
	enum { AT_X0 = 128 + 176 + 8, AT_FP = AT_X0 + 29 * 8, AT_SP = AT_X0 + 31 * 8 };
	enum { AT_PC = AT_SP + 8, RECORD = AT_PC + 8 };
#endif
	if (!confirm(w, w->sp + RECORD)) {
		return false;
	}
	uintptr_t record = w->sp;
	uintptr_t sp = load_word(record + AT_SP);
	w->pc = load_word(record + AT_PC) + 1;
	w->fp = load_word(record + AT_FP);
#if defined(__aarch64__)
	w->lr = load_word(record + AT_X0 + 30 * 8);
#endif
	/* If the handler ran on a stack of its own, nothing is confirmed yet on this one. */
	bool is_other = sp < w->sp || sp >= w->hi;
	w->is_moved = w->is_moved || is_other;
	w->sp = sp;
	return (sp & 7) == 0 && (!is_other || stack_enter(w) || sys_is_readable((const void *)sp, 1));
}

/*
 * Whether pc is in the code that returns from a signal handler by rt_sigreturn, where that is not
 * described: recognised by its two instructions.
 */
static NO_SANITIZE_ADDRESS bool
is_sigreturn(uintptr_t pc) {
#if defined(__x86_64__)
	static const unsigned char code[] = {0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05};
#else
	static const uint32_t code[] = {0xd2801168, 0xd4000001};
#endif
	return sys_is_readable((const void *)pc, sizeof(code))
	    && memcmp((const void *)pc, code, sizeof(code)) == 0;
}

/*
 * A step by the bare frame pointer, in code without unwind information (JIT, assembly). If that
 * code is in an object, it must show that it keeps a frame pointer. The walk drops such frames
 * unless the chain leads back to a call in a loaded object (trail_cut() of unwind_fp.c).
 */
static bool
step_guess(struct walk_s *w) {
	if (w->n_guessed == GUESS_MAX || w->fp < w->sp || (w->fp & 7) != 0
	    || !confirm(w, w->fp + 16)) {
		return false;
	}
	uintptr_t ra = load_word(w->fp + 8);
	if (ra < PAGE_MAX) {
		return false;
	}
	const void *hdr;
	bool is_in_object = objects_find(ra - 1, &hdr);
	if (is_in_object && !code_is_call_in_object(ra)) {
		return false;
	}
	if (objects_find(w->pc - 1, &hdr) && ((hdr == NULL && !frame_scan_try_know(w->pc - 1))
	    || !code_keeps_frame(w->pc, is_in_object ? ra : 0))) {
		return false;
	}
	assert(w->n_guessed < GUESS_MAX);
	w->n_guessed = is_in_object ? 0 : w->n_guessed + 1;
	return enter_caller(w, ra, w->fp + 16, load_word(w->fp));
}

/* Computes a CFA that is given by an expression; only the registers of a walk may occur in it. */
static bool
eval_cfa(const struct walk_s *w, const struct cfi_row_s *r, uintptr_t *cfa) {
	struct cfi_regs_s regs = {.pc = w->pc, .sp = w->sp, .fp = w->fp,
		.dead = w->guard_sp - UNWINDER_STACK, .dead_end = w->guard_sp};
	return cfi_eval(r->expr, r->expr_len, &regs, cfa);
}

/*
 * A step by a row that cannot be packed because its CFA is an expression. It depends on words that
 * no mark has, so the next walk takes it anew.
 */
static bool
step_by_expression(struct walk_s *w, struct cfi_row_s r) {
	uintptr_t cfa;
	unsigned n_moves = w->n_moves;
	if (!eval_cfa(w, &r, &cfa)) {
		return false;
	}
	r.cfa = cfi_cfa_sp; /* only the other rules are packed */
	r.cfa_off = 0;
	row_t rules = unwind_row_pack(&r);
	bool is_done = ROW_KIND(rules) == ROW_SP && is_cfa_good(w, cfa)
	    && step_to(w, rules, cfa, w->n_moves != n_moves);
	w->ra_at = NOT_READ;
	return is_done;
}

/* A step by a row; r is the same one, not packed, for ROW_UNKNOWN. The result of unwind_step(). */
static unsigned
step_by(struct walk_s *w, row_t row, const struct cfi_row_s *r) {
	unwind_stop_t why = unwind_stop_bad_frame;
	bool is_done;
	switch (ROW_KIND(row)) {
	case ROW_END:
		w->is_at_end = true;
		return 1 + unwind_stop_end;
	case ROW_SIGNAL:
		is_done = step_signal(w);
		break;
	case ROW_UNKNOWN:
		if (r->cfa != cfi_cfa_expression) {
			return 1 + unwind_stop_no_row;
		}
		w->is_slow = true;
		is_done = step_by_expression(w, *r);
		break;
	default:
		why = w->fp == FP_IS_LOST ? unwind_stop_no_row : why;
		is_done = step_by_row(w, row);
		break;
	}
	return is_done ? 0 : 1 + why;
}

/* Whether a row describes the code before pc. */
static bool
is_described(row_t row) {
	return ROW_KIND(row) != ROW_MISSING && ROW_KIND(row) != ROW_NO_FDE;
}

unsigned
unwind_step(struct walk_s *w) {
	struct cfi_row_s r;
	w->ra_at = NOT_READ;
	w->fp_at = 0;
	if (w->pc == 0) {
		return 1 + unwind_stop_end;
	}
	row_t row = unwind_row_find(w->pc);
	if (!is_described(row)) {
		bool is_done = is_sigreturn(w->pc) ? step_signal(w) : step_guess(w);
		return is_done ? 0 : 1 + unwind_stop_no_module;
	}
	if (ROW_KIND(row) == ROW_UNKNOWN && !unwind_row_try_read(w->pc, &r)) {
		return 1 + unwind_stop_no_row;
	}
	return step_by(w, row, &r);
}

/* ---- before an unwinder that checks nothing ---- */

/* A step by an FDE that was registered with the unwinder. */
static unsigned
step_by_fde(struct walk_s *w, const unsigned char *fde) {
	struct cfi_row_s r;
	return cfi_row_of_fde(fde, w->pc - 1, &r) != 0 ? 1 + unwind_stop_no_row
	    : step_by(w, unwind_row_pack(&r), &r);
}

unsigned
unwind_step_guard(struct walk_s *w, unwind_find_fde_t *find_fde) {
	const unsigned char *fde = w->pc == 0 || is_described(unwind_row_find(w->pc)) ? NULL
	    : find_fde(w->pc - 1);
	unsigned stop = fde != NULL ? step_by_fde(w, fde) : unwind_step(w);
	/* Where there is no row the unwinder reads the code at pc, which may be unmapped. */
	bool may_go_on = stop != 0 || w->pc == 0 || is_described(unwind_row_find(w->pc))
	    || sys_is_readable((const void *)(w->pc - 1), CODE_BYTES);
	return may_go_on ? stop : 1 + unwind_stop_no_module;
}

/* ---- stacks ---- */

/*
 * Whether `end` lies above lo and all bytes up to it can be read: they end at or before hi, up to
 * which the stack at lo is known to be readable, or at most STACK_END_SPAN above hi.
 */
static bool
is_own_end(uintptr_t lo, uintptr_t hi, uintptr_t end) {
	return end > lo && (end <= hi || (end - hi <= STACK_END_SPAN
	    && sys_is_readable((const void *)hi, end - hi)));
}

/*
 * Finds out whether the stack at lo, known up to hi, is the thread's own, and where it ends; then
 * records that in the memo. The end of the first thread's stack is the kernel's data above its
 * frames (AT_RANDOM), that of another thread its TLS. AT_RANDOM is tried for each thread: if only
 * mapped memory lies up to the kernel's data, that is the first thread's stack, which stays. The
 * first thread's TLS lies among the libraries or in the heap, where readable memory up to it may be
 * the stack of a coroutine.
 */
static void
own_try(struct unwind_memo_s *m, uintptr_t lo, uintptr_t hi) {
	uintptr_t ends[] = {(uintptr_t)sys_auxval(AT_RANDOM), (uintptr_t)tls_get()};
	size_t n = os_thread_is_started() ? 2 : 1;
	m->tried_hi = hi;
	for (size_t i = 0; i < n && m->own_hi == 0; i++) {
		uintptr_t end = align_down(ends[i], sizeof(uintptr_t));
		if (is_own_end(lo, hi, end)) {
			m->own_lo = lo;
			m->own_hi = end;
		}
	}
}

void
unwind_walk_begin_elsewhere(struct walk_s *w) {
	struct unwind_memo_s *m = w->memo;
	assert(w->sp != 0 && (w->sp & 7) == 0);
	if (stack_enter(w) || w->sp < m->lo || w->sp >= m->hi || m->hi <= w->hi) {
		return;
	}
	if (sys_is_readable((const void *)w->hi, m->hi - w->hi)) {
		w->hi = m->hi;
	} else {
		m->hi = m->lo;
	}
}

void
unwind_walk_learn(const struct walk_s *w, uintptr_t first_sp) {
	struct unwind_memo_s *m = w->memo;
	uintptr_t lo = align_down(first_sp, os_page_size);
	if (w->is_moved) {
		return;
	}
	/* A walk from below the own stack, by memory that can be read up to it, was on it too. */
	if (w->is_own || (lo < m->own_lo && w->hi >= m->own_lo)) {
		m->own_lo = lo;
	} else if (lo < m->lo || lo >= m->hi || w->hi > m->hi) {
		m->lo = lo;
		m->hi = w->hi;
	}
	if (m->own_hi == 0 && m->tried_hi != w->hi) {
		own_try(m, lo, w->hi);
	}
}
