/*
 * One step of a walk over a stack: from the registers of a frame to those of its caller, as the
 * unwind row of its code says (unwind_rows.h). A guard is such a walk that goes ahead of an
 * unwinder which checks nothing (libgcc, libunwind), and stops it before a step that it must not
 * take. A mark is what a thread keeps of a frame for its next walk (unwind_backend.h).
 * Invariant: only memory that is known to be a mapped stack is read as one. A step leads upwards on
 * the stack, not beyond hi, or to another stack. The range [sp, hi) is either part of the thread's
 * own stack, whose end is known and which exists as long as the thread, or the rest of the page in
 * which the walk began, or memory that the kernel has confirmed as readable during this walk.
 * Another stack (of a signal handler, a coroutine) may be unmapped before the next walk; so the
 * kernel is asked again, by one call for what the last walk saw. No lock. Called by the walks
 * (unwind_fp.c) and by the guards of the other unwinders (unwind_libgcc.c, unwind_libunwind.c).
 */
#pragma once

#include "unwind/unwind_backend.h"
#include "unwind/unwind_rows.h"

/* Processors for which walks are implemented. */
#if defined(__x86_64__) || defined(__aarch64__)
#define HAS_WALK 1
#else
#define HAS_WALK 0
#endif

/* The value of walk_s.fp if the frame pointer was saved in a way that rows cannot describe. */
#define FP_IS_LOST (~(uintptr_t)2)

/* The registers of one frame during a walk. */
struct walk_s {
	/*
	 * A return address; for an interrupted instruction its address plus 1, as if it were a
	 * call.
	 */
	uintptr_t pc;
	uintptr_t sp;
	uintptr_t fp;
	/* End of the part of the stack above sp that can be read. */
	uintptr_t hi;
	/* The link register at the place that a signal interrupted; 0 if not known. */
	uintptr_t lr;
	/* Consecutive steps by bare frame pointers, without a row, to addresses in no object. */
	unsigned n_guessed;
	/* Steps to another stack by rows, in this walk. */
	unsigned n_moves;
	/*
	 * Addresses from which the last unwind_step() read pc (with RA_AT_SIGNED if that was signed;
	 * NOT_READ: not by a row alone) and fp (0: unchanged).
	 */
	uintptr_t ra_at;
	uintptr_t fp_at;
	/* hi is the end of the thread's own stack. */
	bool is_own;
	/*
	 * The walk has come to another stack than that on which it began, out of a signal handler
	 * or by rows; hi belongs to the other stack.
	 */
	bool is_moved;
	/*
	 * sp at the begin of a guard's walk; 0: this is not one. Below it is memory that the guarded
	 * unwinder writes between the guard's step and its own. Only in a guard's walk rows may lead to
	 * another stack, if an address behind a call is found there.
	 */
	uintptr_t guard_sp;
	/* A step computed its row, which cannot be cached (unwind_row_try_read()). */
	bool is_slow;
	/* The outermost frame was reached, according to its row. */
	bool is_at_end;
	struct unwind_memo_s *memo; /* what the thread knows of its stacks */
};

/*
 * The address of a word that is 0, for marks: a mark whose ra_at it is never counts as unchanged,
 * because no return address is 0.
 */
extern HIDDEN const uintptr_t unwind_not_read;
#define NOT_READ ((uintptr_t)&unwind_not_read)

/* Reads a word of the stack; the address is known to be readable. */
ALWAYS_INLINE NO_SANITIZE_ADDRESS uintptr_t
load_word(uintptr_t addr) {
	uintptr_t v;
	__builtin_memcpy(&v, (const void *)addr, sizeof(v));
	return v;
}

/* ---- signed return addresses ---- */

/* The bit of a mark's ra_at for a signed word; no stack has an address with it. */
#define RA_AT_SIGNED (ROW_SIGNED_HERE == 0 ? (uintptr_t)0 : ~(~(uintptr_t)0 >> 1))

/* Removes the signature (pointer authentication) from a return address. */
ALWAYS_INLINE uintptr_t
strip_signature(uintptr_t pc) {
#if defined(__aarch64__)
	register uintptr_t lr __asm__("x30") = pc;
	__asm__("hint #7" : "+r"(lr));
	return lr;
#else
	return pc;
#endif
}

/* The return address that a row finds in a word of the stack. */
ALWAYS_INLINE uintptr_t
ra_of_word(row_t row, uintptr_t word) {
	return (row & ROW_SIGNED_HERE) != 0 ? strip_signature(word) : word;
}

/* What a mark keeps of the place where a row found a return address. */
ALWAYS_INLINE uintptr_t
mark_ra_at(row_t row, uintptr_t addr) {
	return (row & ROW_SIGNED_HERE) != 0 ? addr | RA_AT_SIGNED : addr;
}

/* The word of the stack from which a mark's return address was read, as it is now. */
ALWAYS_INLINE NO_SANITIZE_ADDRESS uintptr_t
mark_load_word(const struct unwind_mark_s *m) {
	return load_word(m->ra_at & ~RA_AT_SIGNED);
}

/* The return address in that word. */
ALWAYS_INLINE NO_SANITIZE_ADDRESS uintptr_t
mark_load_ra(const struct unwind_mark_s *m) {
	uintptr_t word = mark_load_word(m);
	return (m->ra_at & RA_AT_SIGNED) != 0 ? strip_signature(word) : word;
}

/*
 * The slow parts of unwind_walk_begin() and unwind_walk_end(), for a stack that is not known to be
 * the thread's own.
 */
void unwind_walk_begin_elsewhere(struct walk_s *w);
void unwind_walk_learn(const struct walk_s *w, uintptr_t first_sp);

/* Begins a walk from `where`, with what the thread knows of its stacks (m). */
ALWAYS_INLINE void
unwind_walk_begin(struct walk_s *w, const struct unwind_where_s *where, struct unwind_memo_s *m) {
	*w = (struct walk_s){.pc = where->pc, .sp = where->sp, .fp = where->fp, .memo = m};
	w->is_own = w->sp >= m->own_lo && w->sp < m->own_hi;
	w->hi = m->own_hi;
	if (unlikely(!w->is_own)) {
		unwind_walk_begin_elsewhere(w);
	}
}

/* Ends a walk that began at the stack address first_sp: keeps what it learned of that stack. */
ALWAYS_INLINE void
unwind_walk_end(const struct walk_s *w, uintptr_t first_sp) {
	if (unlikely(!w->is_own || first_sp < w->memo->own_lo)) {
		unwind_walk_learn(w, first_sp);
	}
}

/*
 * A step with all checks. Returns 0, and w has the registers of the caller; or why the walk ends,
 * as an unwind_stop_t plus 1, and the registers in w mean nothing.
 */
unsigned unwind_step(struct walk_s *w);
/* Finds an FDE that was registered with another unwinder; NULL if there is none. */
typedef const unsigned char *unwind_find_fde_t(uintptr_t pc);
/*
 * Like unwind_step(), for a guard: called before an unwinder that checks nothing takes the same
 * step. Uses all unwind information that can be found, including FDEs of find_fde and expressions,
 * and steps only to an address whose code that unwinder may read.
 */
unsigned unwind_step_guard(struct walk_s *w, unwind_find_fde_t *find_fde);
