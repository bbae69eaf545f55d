/*
 * Stacks by frame pointers, kept honest by unwind rows: the methods "fp" and "auto".
 *
 * A frame-pointer chain alone lies where a function without frame pointer stands between two with
 * one: the walk succeeds and loses a caller.  So every step is taken by the row of the return
 * address, read once from the object's tables and then kept in a fixed cache: "CFA = fp + c" is the
 * frame-pointer step, "CFA = sp + c" the other one, both about 25 instructions.
 *
 * The cache is a fixed table without locks.  An entry is two words, the packed row and a key that
 * mixes the address, the row and the generation: a torn or stale entry does not match.  The
 * generation changes when an object was unloaded.
 *
 * Nothing is read that is not known to be the thread's stack: a step must end above the last one
 * and inside the range that the kernel has confirmed as readable; the range is remembered in the
 * thread's memo, so that confirming it is rare.  A step that no row describes trusts nothing that was
 * confirmed before this walk.  No lock, no allocation, no loader lock on the way.
 *
 * The memo also holds the last walk's frames: where this one comes to the same registers at the
 * same place it goes on by comparing the words that the steps would read, at about 10 instructions.
 */
#include <sys/auxv.h>

#include "os/cfi.h"
#include "os/objects.h"
#include "os/pages.h"
#include "os/sys.h"
#include "os/unwind.h"
#include "util/assert.h"
#include "util/bits.h"
#include "util/hash.h"

#if defined(__x86_64__) || defined(__aarch64__)
#define HAS_WALK 1
#else
#define HAS_WALK 0
#endif

#define LG_ROWS 13
#define N_ROWS (ZU(1) << LG_ROWS)
/* Frames larger than this, or further from the stack pointer, are taken for a broken chain. */
#define FRAME_SPAN_MAX (ZU(16) << 20)
/* Frames without unwind information that are bridged by bare frame pointers. */
#define GUESS_MAX 64
/* Stands for a frame pointer that was saved in a way that rows do not describe. */
#define FP_IS_LOST (~(uintptr_t)2)

/*
 * A packed row.  Offsets count words of 8 bytes, from the CFA unless stated otherwise.
 *   bits 0-2 kind, bit 3 plain, bits 4-5 frame pointer, bit 6 return address signed, then three
 *   offsets of 19 bits: return address (0: still in the link register), frame pointer, CFA
 */
typedef uint64_t row_t;

enum {
	ROW_MISSING, /* Never stored. */
	ROW_SP,      /* CFA = sp + offset */
	ROW_FP,      /* CFA = fp + offset */
	ROW_DEREF,   /* CFA = *(fp + offset) */
	ROW_SIGNAL,
	ROW_END,
	ROW_NO_FDE,  /* In an object, but in none of its described functions. */
	ROW_UNKNOWN  /* Described, not understood. */
};
#define ROW_KIND(r) ((unsigned)(r) & 7)
/* An ROW_SP whose offsets all lie inside of its frame, with nothing else to it. */
#define ROW_PLAIN 8u
#define ROW_RA_SIGNED 64u
/* Frame pointer: not saved, at CFA + offset, at fp + offset, lost. */
enum { ROW_FP_SAME, ROW_FP_CFA, ROW_FP_FP, ROW_FP_LOST };
#define ROW_FP_HOW(r) ((unsigned)((r) >> 4) & 3)
#define ROW_OFF_BITS 19
#define ROW_RA_OFF(r) (((int64_t)((r) << 38) >> 45) * 8)
#define ROW_FP_OFF(r) (((int64_t)((r) << 19) >> 45) * 8)
#define ROW_CFA_OFF(r) (((int64_t)(r) >> 45) * 8)
#define ROW_PACK_RA(words) ((row_t)(words) << 45 >> 38)
#define ROW_PACK_FP(words) ((row_t)(words) << 45 >> 19)
#define ROW_PACK_CFA(words) ((row_t)(words) << 45)
/* The row of a function with a frame pointer: CFA = fp + 16, return address and caller's below. */
#define ROW_FRAME \
	(ROW_FP | ROW_FP_CFA << 4 | ROW_PACK_RA(-1) | ROW_PACK_FP(-2) | ROW_PACK_CFA(2))

/* Kind, plain, frame pointer, signed, then the three offsets: one word. */
cassert(7 + 3 * ROW_OFF_BITS == 64);
cassert(ROW_MISSING == 0 && ROW_UNKNOWN <= 7 && ROW_FP_LOST <= 3);
cassert(ROW_FP_SAME == 0 && ROW_FP_CFA == 1);
/* Slots pair up with their neighbours (index xor 1). */
cassert(N_ROWS % 2 == 0 && LG_ROWS < 64);

/* x86-64: the call put it there, is_plain() checked. */
#if defined(__x86_64__)
#define RA_OFF_PLAIN(r) ((uintptr_t)-8)
#else
#define RA_OFF_PLAIN(r) ((uintptr_t)ROW_RA_OFF(r))
#endif

struct row_entry_s {
	atomic_u64_t key;
	atomic_u64_t row;
};

/* A pair of words of one cache line. */
cassert(sizeof(struct row_entry_s) == 16 && CACHELINE % sizeof(struct row_entry_s) == 0);

/* The registers of one frame during a walk. */
struct walk_s {
	/* A return address; an interrupted instruction counts as a call: its address plus 1. */
	uintptr_t pc;
	uintptr_t sp;
	uintptr_t fp;
	/* End of the confirmed stack above sp. */
	uintptr_t hi;
	/* Link register where a signal came; 0 = not known. */
	uintptr_t lr;
	/* Steps in a row by bare frame pointers. */
	unsigned n_guessed;
	/* Where the last careful step read pc (NOT_READ: not by a row alone) and fp (0: kept it). */
	uintptr_t ra_at;
	uintptr_t fp_at;
	/* A signal handler had a stack of its own: hi belongs to another stack than the start. */
	bool is_moved;
	/* A step without row came in between: only what this walk confirmed since counts. */
	bool is_distrustful;
	/* hi before that. */
	uintptr_t trusted_hi;
	/* The outermost frame, by its row. */
	bool is_at_end;
	struct unwind_memo_s *memo;
};

/* No return address is 0: a mark that points here is never taken for read again. */
static const uintptr_t not_read = 0;
#define NOT_READ ((uintptr_t)&not_read)

static LARGE_BSS struct {
	ALIGNED(CACHELINE) struct row_entry_s rows[N_ROWS];
	/* Mixed into the keys. */
	atomic_u64_t salt;
	atomic_u64_t rows_made;
	atomic_u64_t generations;
	atomic_u64_t unloads;
	bool is_booted;
	const struct unwind_backend_s *fallback;
} fp;

/* ---- generations ---- */

static void
new_generation(void) {
	uint64_t n = atomic_fetch_add_u64(&fp.generations, 1, MO_RELAXED) + 1;
	atomic_store_u64(&fp.salt, hash_mix64(n), MO_RELEASE);
}

void
unwind_fp_refresh(void) {
	uint64_t adds, subs;
	if (!sys_module_changes(&adds, &subs)) {
		new_generation();
	} else if (atomic_exchange_u64(&fp.unloads, subs, MO_RELAXED) != subs) {
		new_generation();
	}
	objects_refresh();
}

void
unwind_fp_stats(struct unwind_stats_s *dst) {
	dst->rows_made = atomic_load_u64(&fp.rows_made, MO_RELAXED);
	dst->generations = atomic_load_u64(&fp.generations, MO_RELAXED);
}

/* ---- rows ---- */

static bool
is_words(int64_t off) {
	int64_t limit = INT64_C(1) << (ROW_OFF_BITS - 1);
	return (off & 7) == 0 && off / 8 >= -limit && off / 8 < limit;
}

static row_t
pack_fp_rule(const struct cfi_rule_s *rule) {
	row_t off = ROW_PACK_FP(rule->off / 8);
	switch (rule->kind) {
	case cfi_reg_same:
		return ROW_FP_SAME << 4;
	case cfi_reg_at_cfa:
		return is_words(rule->off) ? off | ROW_FP_CFA << 4 : ROW_FP_LOST << 4;
	case cfi_reg_at_fp:
		return is_words(rule->off) ? off | ROW_FP_FP << 4 : ROW_FP_LOST << 4;
	default:
		return ROW_FP_LOST << 4;
	}
}

/* The rule of the return address: false if it has no place in a row. */
static bool
pack_ra_rule(const struct cfi_rule_s *rule, row_t *row) {
	if (rule->kind == cfi_reg_same) {
		return true;
	}
	*row |= ROW_PACK_RA(rule->off / 8);
	return rule->kind == cfi_reg_at_cfa && rule->off < 0 && is_words(rule->off);
}

static bool
is_plain(row_t row) {
	int64_t size = ROW_CFA_OFF(row);
	if (ROW_KIND(row) != ROW_SP || (row & ROW_RA_SIGNED) != 0 || ROW_FP_HOW(row) > ROW_FP_CFA) {
		return false;
	}
	bool is_fp_inside = ROW_FP_HOW(row) == ROW_FP_SAME
	    || (ROW_FP_OFF(row) < 0 && ROW_FP_OFF(row) >= -size);
	bool is_ra_inside = ROW_RA_OFF(row) < 0 && ROW_RA_OFF(row) >= -size;
	return is_ra_inside && is_fp_inside && RA_OFF_PLAIN(row) == (uintptr_t)ROW_RA_OFF(row);
}

/* What was packed comes out again; only for rows that a step uses. */
static void
row_check(row_t row, const struct cfi_row_s *r) {
	assert(ROW_CFA_OFF(row) == r->cfa_off);
	assert(ROW_RA_OFF(row) == (r->ra.kind == cfi_reg_at_cfa ? r->ra.off : 0));
	assert((ROW_FP_HOW(row) != ROW_FP_CFA && ROW_FP_HOW(row) != ROW_FP_FP)
	    || ROW_FP_OFF(row) == r->fp.off);
	assert(((row & ROW_RA_SIGNED) != 0) == r->is_ra_signed);
	assert((row & ROW_PLAIN) == 0);
}

static row_t
pack_row(const struct cfi_row_s *r) {
	static const unsigned char kinds[] = {
		[cfi_cfa_bad] = ROW_UNKNOWN,
		[cfi_cfa_sp] = ROW_SP,
		[cfi_cfa_fp] = ROW_FP,
		[cfi_cfa_deref_fp] = ROW_DEREF,
		[cfi_cfa_signal] = ROW_SIGNAL,
	};
	if (r->cfa == cfi_cfa_signal) {
		return ROW_SIGNAL;
	}
	if (r->ra.kind == cfi_reg_undefined) {
		return ROW_END;
	}
	row_t row = kinds[r->cfa] | ROW_PACK_CFA(r->cfa_off / 8) | pack_fp_rule(&r->fp);
	row |= r->is_ra_signed ? ROW_RA_SIGNED : 0;
	if (!is_words(r->cfa_off) || !pack_ra_rule(&r->ra, &row)) {
		return ROW_UNKNOWN;
	}
	if (config_debug && ROW_KIND(row) != ROW_UNKNOWN) {
		row_check(row, r);
	}
	return is_plain(row) ? row | ROW_PLAIN : row;
}

static inline size_t
row_slot(uintptr_t pc) {
	return (size_t)(((uint64_t)pc * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - LG_ROWS));
}

static inline uint64_t
row_key(uintptr_t pc, row_t row, uint64_t salt) {
	return (uint64_t)pc ^ salt ^ row * UINT64_C(0xd6e8feb86659fd93);
}

ALWAYS_INLINE row_t
row_load(size_t slot, uintptr_t pc, uint64_t salt) {
	row_t row = atomic_load_u64(&fp.rows[slot].row, MO_RELAXED);
	uint64_t key = atomic_load_u64(&fp.rows[slot].key, MO_RELAXED);
	return likely(key == row_key(pc, row, salt)) ? row : ROW_MISSING;
}

static void
row_store(uintptr_t pc, row_t row, uint64_t salt) {
	/* A stored "missing" would match the empty entry of another address. */
	assert(ROW_KIND(row) != ROW_MISSING && row_slot(pc) < N_ROWS);
	struct row_entry_s *e = &fp.rows[row_slot(pc)];
	struct row_entry_s *other = &fp.rows[row_slot(pc) ^ 1];
	/* The older entry moves to the neighbour, where the slow path looks for it. */
	atomic_store_u64(&other->row, atomic_load_u64(&e->row, MO_RELAXED), MO_RELAXED);
	atomic_store_u64(&other->key, atomic_load_u64(&e->key, MO_RELAXED), MO_RELAXED);
	atomic_store_u64(&e->row, row, MO_RELAXED);
	atomic_store_u64(&e->key, row_key(pc, row, salt), MO_RELAXED);
	atomic_fetch_add_u64(&fp.rows_made, 1, MO_RELAXED);
}

/*
 * The row of the call before pc.  A context that was made by hand may return to the first instruction
 * of a function that has no caller: there is no call before that.
 */
static row_t
row_make(const void *hdr, uintptr_t pc) {
	struct cfi_row_s r;
	int err = hdr == NULL ? ENOENT : cfi_find_row(hdr, pc - 1, &r);
	if (err == 0) {
		return pack_row(&r);
	}
	if (err == ENOENT && hdr != NULL && cfi_find_row(hdr, pc, &r) == 0
	    && pack_row(&r) == ROW_END) {
		return ROW_END;
	}
	return err == ENOENT ? ROW_NO_FDE : ROW_UNKNOWN;
}

/*
 * An object that is being unloaded is unmapped before the C library forgets it; who maps code at its
 * place meanwhile has an address "in" an object whose tables are gone.
 */
static bool
has_tables(uintptr_t pc, const void **hdr) {
	return objects_find(pc - 1, hdr) && (*hdr == NULL || sys_is_readable(*hdr, CFI_HDR_BYTES));
}

/* From the cache or the tables; ROW_MISSING: no object there (not remembered: code may come). */
static row_t
row_find(uintptr_t pc) {
	uint64_t salt = atomic_load_u64(&fp.salt, MO_ACQUIRE);
	row_t row = row_load(row_slot(pc), pc, salt);
	if (row == ROW_MISSING) {
		row = row_load(row_slot(pc) ^ 1, pc, salt);
	}
	const void *hdr;
	if (row == ROW_MISSING && has_tables(pc, &hdr)) {
		row = row_make(hdr, pc);
		row_store(pc, row, salt);
	}
	return row;
}

/* ---- steps ---- */

ALWAYS_INLINE NO_SANITIZE_ADDRESS uintptr_t
load_word(uintptr_t addr) {
	uintptr_t v;
	__builtin_memcpy(&v, (const void *)addr, sizeof(v));
	return v;
}

/* Takes the signature off a return address. */
static inline uintptr_t
strip_signature(uintptr_t pc) {
#if defined(__aarch64__)
	register uintptr_t lr __asm__("x30") = pc;
	__asm__("hint #7" : "+r"(lr));
	return lr;
#else
	return pc;
#endif
}

/* Makes sure that the stack from sp up to addr can be read. */
static bool
confirm(struct walk_s *w, uintptr_t addr) {
	if (addr <= w->hi) {
		return true;
	}
	if (addr <= w->sp || addr - w->sp > FRAME_SPAN_MAX) {
		return false;
	}
	uintptr_t end = align_up(addr, os_page_size);
	if (!sys_is_readable((const void *)w->hi, end - w->hi)) {
		return false;
	}
	assert(end >= addr && end > w->hi);
	const struct unwind_memo_s *m = w->memo;
	bool is_joined = !w->is_distrustful && w->sp < m->lo && end >= m->lo && end < m->hi;
	w->hi = is_joined ? m->hi : end;
	return true;
}

static bool
is_in_frame(const struct walk_s *w, uintptr_t addr, uintptr_t end) {
	return addr >= w->sp && addr < end && (addr & 7) == 0;
}

/* Moves to the caller; false if the chain is broken. */
static bool
enter_caller(struct walk_s *w, uintptr_t ra, uintptr_t cfa, uintptr_t caller_fp) {
	/* Upwards only, and never beyond what the kernel confirmed: so a walk ends. */
	assert(cfa >= w->sp && cfa <= w->hi && (cfa & 7) == 0);
	w->pc = ra;
	w->sp = cfa;
	w->fp = caller_fp;
	w->lr = 0;
	return true;
}

/* From here on nothing counts as readable but the page of sp. */
static void
distrust(struct walk_s *w) {
	if (!w->is_distrustful) {
		w->is_distrustful = true;
		w->trusted_hi = w->hi;
		w->hi = align_up(w->sp + 1, os_page_size);
	}
}

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
	/* Only a leaf that was interrupted may have an empty frame. */
	bool is_growing = *cfa > w->sp || (*cfa == w->sp && w->lr != 0);
	return is_growing && (*cfa & 7) == 0 && (*cfa == w->sp || confirm(w, *cfa));
}

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
	*ra = load_word(addr);
	if (row & ROW_RA_SIGNED) {
		*ra = strip_signature(*ra);
	} else if (ROW_KIND(row) != ROW_DEREF) {
		w->ra_at = addr;
	}
	return true;
}

/* One step by a row, with every check. */
static bool
step_by_row(struct walk_s *w, row_t row) {
	uintptr_t cfa, caller_fp, ra;
	if (!find_cfa(w, row, &cfa) || !find_fp(w, row, cfa, &caller_fp)
	    || !find_ra(w, row, cfa, &ra)) {
		return false;
	}
	return enter_caller(w, ra, cfa, caller_fp);
}

/*
 * The same for the two common rows, with the registers in registers: false leaves all as it was,
 * for the careful way.  hi is not below sp.
 */
ALWAYS_INLINE NO_SANITIZE_ADDRESS bool
step_fast(row_t row, uintptr_t *pc, uintptr_t *sp, uintptr_t *fpr, uintptr_t hi) {
	if (row == ROW_FRAME) {
		uintptr_t base = *fpr;
		if (unlikely(base < *sp || base > hi - 16)) {
			return false;
		}
		*fpr = load_word(base);
		*pc = load_word(base + 8);
		*sp = base + 16;
		return true;
	}
	uintptr_t cfa = *sp + (uintptr_t)ROW_CFA_OFF(row);
	if (unlikely((row & ROW_PLAIN) == 0 || cfa > hi)) {
		return false;
	}
	*pc = load_word(cfa + RA_OFF_PLAIN(row));
	if ((row & ROW_FP_CFA << 4) != 0) {
		*fpr = load_word(cfa + (uintptr_t)ROW_FP_OFF(row));
	}
	*sp = cfa;
	return true;
}

/* Out of a signal handler: the interrupted registers, from the kernel's record at sp. */
static bool
step_signal(struct walk_s *w) {
#if defined(__x86_64__)
	enum { AT_FP = 120, AT_SP = 160, AT_PC = 168, RECORD = 176 };
#else
	/* siginfo, ucontext up to the registers (16-aligned), fault address, x0. */
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
	if (sp < w->sp || sp >= w->hi) {
		/* The handler had a stack of its own: nothing is confirmed where this one is. */
		w->hi = align_up(sp + 1, os_page_size);
		w->is_moved = true;
		if (!sys_is_readable((const void *)sp, 1)) {
			return false;
		}
	}
	w->sp = sp;
	return (sp & 7) == 0;
}

/*
 * The kernel's way back from a handler, where it is not described: the code that calls
 * rt_sigreturn, known by its two instructions.
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

/* True if the instruction before ra is a call; the 7 bytes there can be read. */
static NO_SANITIZE_ADDRESS bool
is_after_call(uintptr_t ra) {
#if defined(__x86_64__)
	const unsigned char *p = (const unsigned char *)ra;
	/* call rel32; or call by register or memory (0xff /2) of 2 to 7 bytes. */
	if (p[-5] == 0xe8) {
		return true;
	}
	for (int n = 2; n <= 7; n++) {
		if (p[-n] == 0xff && (p[-n + 1] & 0x38) == 0x10) {
			return true;
		}
	}
	return false;
#else
	uint32_t insn = *(const uint32_t *)(ra - 4);
	return (insn & 0xfc000000) == 0x94000000 || (insn & 0xfffffc00) == 0xd63f0000;
#endif
}

/*
 * Code without unwind information (JIT, assembly): a bare frame-pointer step.  The frames count
 * only if the chain gets back to a call in a loaded object; the walk cuts them off otherwise.
 */
static bool
step_guess(struct walk_s *w) {
	distrust(w);
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
	/* The longest call has 7 bytes. */
	if (is_in_object && !(sys_is_readable((const void *)(ra - 7), 7) && is_after_call(ra))) {
		return false;
	}
	assert(w->n_guessed < GUESS_MAX);
	w->n_guessed = is_in_object ? 0 : w->n_guessed + 1;
	return enter_caller(w, ra, w->fp + 16, load_word(w->fp));
}

/* The careful step: 0 or why the walk ends (an unwind_stop_t plus 1). */
static NOINLINE unsigned
step_slow(struct walk_s *w, uintptr_t pc, uintptr_t sp, uintptr_t fpr) {
	bool is_done;
	w->pc = pc;
	w->sp = sp;
	w->fp = fpr;
	w->ra_at = NOT_READ;
	w->fp_at = 0;
	if (pc == 0) {
		return 1 + unwind_stop_end;
	}
	row_t row = row_find(w->pc);
	switch (ROW_KIND(row)) {
	case ROW_END:
		w->is_at_end = true;
		return 1 + unwind_stop_end;
	case ROW_MISSING:
	case ROW_NO_FDE:
		is_done = is_sigreturn(w->pc) ? step_signal(w) : step_guess(w);
		return is_done ? 0 : 1 + unwind_stop_no_module;
	case ROW_UNKNOWN:
		return 1 + unwind_stop_no_row;
	case ROW_SIGNAL:
		return step_signal(w) ? 0 : 1 + unwind_stop_bad_frame;
	default:
		if (step_by_row(w, row)) {
			return 0;
		}
		return 1 + (w->fp == FP_IS_LOST ? unwind_stop_no_row : unwind_stop_bad_frame);
	}
}

/* ---- walks ---- */

/*
 * Frames and marks of one walk, in the memo's room (and, without marks, beyond it): [0, n) are new,
 * [old, room) are those of the last walk that this one may still come to.
 */
struct trail_s {
	void **frames;
	struct unwind_mark_s *marks;
	unsigned max;
	unsigned room;
	unsigned n;
	unsigned old;
	/* Up to here not guessed. */
	unsigned n_sure;
	/* The frames at old ended the last walk, and so does this one. */
	bool is_joined;
	/* All frames of the last walk, and no other, came first. */
	bool has_all;
};

static void
trail_begin(struct trail_s *t, const struct walk_s *w, void **frames, unsigned max, uint64_t salt) {
	const struct unwind_memo_s *m = w->memo;
	bool is_known = m->salt == salt && m->known < m->room;
	assert(m->known <= m->room && m->room <= max);
	*t = (struct trail_s){.frames = frames, .marks = m->marks, .max = max, .room = m->room};
	t->old = is_known ? m->known : m->room;
}

/* False: there are as many as were asked for. */
ALWAYS_INLINE bool
trail_has_added(struct trail_s *t, uintptr_t pc, struct unwind_mark_s mark) {
	unsigned i = t->n;
	if (unlikely(i == t->max)) {
		return false;
	}
	t->frames[i] = (void *)pc;
	if (likely(i < t->room)) {
		t->marks[i] = mark;
	}
	t->n = i + 1;
	if (unlikely(i >= t->old)) {
		t->old = t->room; /* written over */
	}
	return true;
}

/* Whether the last walk had the same registers at the same place. */
ALWAYS_INLINE bool
trail_meets(struct trail_s *t, uintptr_t pc, uintptr_t sp, uintptr_t fpr) {
	const struct unwind_mark_s *m = &t->marks[t->old], *end = &t->marks[t->room];
	while (m < end && m->sp < sp) {
		m++;
	}
	t->old = (unsigned)(m - t->marks);
	return m < end && m->sp == sp && m->fp == fpr && t->frames[t->old] == (void *)pc;
}

/*
 * From a frame that the walks have in common: how far the last one's steps would read the same words
 * again.  They are read in the order of the steps, so that each is known to be of the stack.
 */
ALWAYS_INLINE NO_SANITIZE_ADDRESS unsigned
same_until(void *const *frames, const struct unwind_mark_s *marks, unsigned from, unsigned room) {
	unsigned i = from + 1;
	for (; i < room; i++) {
		const struct unwind_mark_s *m = &marks[i];
		if (load_word(m->ra_at) != (uintptr_t)frames[i]
		    || (m->fp_at != 0 && load_word(m->fp_at) != m->fp)) {
			break;
		}
	}
	return i;
}

/* The stack of the last walk once more, whole: nothing is to be done. */
static NO_SANITIZE_ADDRESS bool
is_same_whole(void *const *frames, unsigned max, const struct unwind_where_s *where,
    const struct unwind_memo_s *m, uint64_t salt) {
	unsigned from = m->known;
	if (m->salt != salt || !m->is_whole || from == m->room || m->room - from > max) {
		return false;
	}
	const struct unwind_mark_s *first = &m->marks[from];
	return first->sp == where->sp && first->fp == where->fp
	    && frames[from] == (void *)where->pc
	    && same_until(frames, m->marks, from, m->room) == m->room;
}

static void
trail_move(struct trail_s *t, unsigned to, unsigned from, unsigned n) {
	assert(to + n <= t->room && from + n <= t->room);
	memmove(&t->frames[to], &t->frames[from], n * sizeof(t->frames[0]));
	memmove(&t->marks[to], &t->marks[from], n * sizeof(t->marks[0]));
}

/* The frames in common become new ones; false: nothing is left to be walked. */
static bool
trail_follow(struct trail_s *t, const struct unwind_memo_s *m) {
	unsigned until = same_until(t->frames, t->marks, t->old, t->room);
	unsigned total = t->n + (until - t->old);
	assert(t->n <= t->old && until <= t->room);
	t->has_all = t->n == 0 && t->old == m->known && until == t->room;
	if (until == t->room && (m->is_whole || total >= t->max)) {
		t->is_joined = true;
		return false;
	}
	if (t->n != t->old) {
		trail_move(t, t->n, t->old, until - t->old);
	}
	t->n = total;
	t->old = until;
	return true;
}

/* All frames to their place in the memo: its end.  How many of them were wanted. */
static unsigned
trail_end(struct trail_s *t, struct walk_s *w, uint64_t salt) {
	struct unwind_memo_s *m = w->memo;
	unsigned before = m->known;
	m->salt = salt;
	if (!t->is_joined && t->n > t->room) {
		unwind_memo_forget(m);
		return t->n;
	}
	unsigned at = (t->is_joined ? t->old : t->room) - t->n;
	if (t->n > 0 && at > 0) {
		trail_move(t, at, 0, t->n);
	}
	m->is_same = t->has_all && at == before;
	m->is_whole = t->is_joined ? m->is_whole : w->is_at_end;
	m->known = at;
	m->first = at;
	return (unsigned)min_zu(t->room - at, t->max);
}

/* A walk that went out of steps: guessed frames that led nowhere do not count. */
static void
trail_cut(struct trail_s *t, uintptr_t pc) {
	t->n = pc == 0 && t->n_sure > 0 ? t->n_sure - 1 : t->n_sure;
}

static NO_SANITIZE_ADDRESS unwind_stop_t
walk(struct walk_s *w, struct trail_s *t, uint64_t salt) {
	uintptr_t pc = w->pc, sp = w->sp, fpr = w->fp, hi = w->hi;
	uintptr_t ra_at = NOT_READ, fp_at = 0;
	for (;;) {
		if (trail_meets(t, pc, sp, fpr)) {
			/* The step that led here may be one by a row now. */
			t->marks[t->old].ra_at = ra_at;
			t->marks[t->old].fp_at = fp_at;
			if (!trail_follow(t, w->memo)) {
				bool is_cut = !w->memo->is_whole || t->n + t->room - t->old > t->max;
				return is_cut ? unwind_stop_full : unwind_stop_end;
			}
			pc = (uintptr_t)t->frames[t->n - 1];
			sp = t->marks[t->n - 1].sp;
			fpr = t->marks[t->n - 1].fp;
		} else if (!trail_has_added(t, pc, (struct unwind_mark_s){sp, fpr, ra_at, fp_at})) {
			return unwind_stop_full;
		}
		row_t row = row_load(row_slot(pc), pc, salt);
		if (likely(step_fast(row, &pc, &sp, &fpr, hi))) {
			ra_at = sp + RA_OFF_PLAIN(row);
			fp_at = (row & ROW_FP_CFA << 4) != 0 ? sp + (uintptr_t)ROW_FP_OFF(row) : 0;
			continue;
		}
		t->n_sure = w->n_guessed == 0 ? t->n : t->n_sure;
		unsigned stop = step_slow(w, pc, sp, fpr);
		if (stop != 0) {
			trail_cut(t, pc);
			return (unwind_stop_t)(stop - 1);
		}
		pc = w->pc;
		sp = w->sp;
		fpr = w->fp;
		hi = w->hi;
		ra_at = w->ra_at;
		fp_at = w->fp_at;
	}
}

/* Confirmed stack at the start of a walk: what this thread knows, or the page of sp. */
static void
begin(struct walk_s *w, const struct unwind_where_s *where, struct unwind_memo_s *memo) {
	bool is_known = where->sp >= memo->lo && where->sp < memo->hi;
	*w = (struct walk_s){.pc = where->pc, .sp = where->sp, .fp = where->fp, .memo = memo};
	w->hi = is_known ? memo->hi : align_up(w->sp + 1, os_page_size);
	assert(w->hi > w->sp && (w->sp & 7) == 0);
}

static void
end(const struct walk_s *w, uintptr_t first_sp) {
	struct unwind_memo_s *m = w->memo;
	uintptr_t lo = align_down(first_sp, os_page_size);
	uintptr_t hi = w->is_distrustful ? w->trusted_hi : w->hi;
	if (!w->is_moved && (lo < m->lo || lo >= m->hi || hi > m->hi)) {
		m->lo = lo;
		m->hi = hi;
		assert(lo <= first_sp && first_sp < hi);
	}
}

static unsigned
walk_uncounted(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo, unwind_stop_t *stop) {
	uint64_t salt = atomic_load_u64(&fp.salt, MO_ACQUIRE);
	if (likely(is_same_whole(frames, max, where, memo, salt))) {
		memo->is_same = true;
		*stop = unwind_stop_end;
		return memo->room - memo->known;
	}
	struct walk_s w;
	struct trail_s t;
	begin(&w, where, memo);
	trail_begin(&t, &w, frames, max, salt);
	*stop = walk(&w, &t, salt);
	end(&w, where->sp);
	return trail_end(&t, &w, salt);
}

/* Debug builds walk once more without the memo: both come to the same end on the same way. */
static void
walk_check(void *const *frames, unsigned n, const struct unwind_where_s *where) {
	struct unwind_memo_s nothing = {.lo = 0};
	void *plain[64];
	unwind_stop_t stop;
	unsigned n_plain = walk_uncounted(plain, ARRAY_LEN(plain), where, &nothing, &stop);
	if (stop == unwind_stop_end) {
		assert(n_plain == n && memcmp(plain, frames, n * sizeof(plain[0])) == 0);
	}
	(void)frames;
	(void)n;
	(void)n_plain;
}

static unsigned
walk_counted(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo, unwind_stop_t *stop) {
	unsigned n = walk_uncounted(frames, max, where, memo, stop);
	if (config_debug && *stop == unwind_stop_end && n < max) {
		walk_check(frames + memo->first, n, where);
	}
	unwind_count_stop(*stop);
	return n;
}

static unsigned
fp_capture(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo) {
	unwind_stop_t stop;
	return walk_counted(frames, max, where, memo, &stop);
}

/* Could another method do better?  Not with a bad frame: it would believe the same tables. */
static bool
is_fallback_wanted(unwind_stop_t stop) {
	switch (stop) {
	case unwind_stop_no_row:
		return fp.fallback != NULL;
	case unwind_stop_no_module:
		/* Static programs without .eh_frame_hdr register their tables with libgcc. */
		return fp.fallback != NULL && !objects_have_lookup();
	default:
		return false;
	}
}

/* The other method for this one sample; the next begins with frame pointers again. */
static COLD unsigned
fall_back(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo) {
	unwind_count_fallback();
	unwind_memo_forget(memo);
	return fp.fallback->capture(frames, max, where, memo);
}

static unsigned
auto_capture(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo) {
	unwind_stop_t stop;
	unsigned n = walk_counted(frames, max, where, memo, &stop);
	return unlikely(is_fallback_wanted(stop)) ? fall_back(frames, max, where, memo) : n;
}

static NOINLINE int
fp_boot(void) {
	if (!HAS_WALK || pages_boot_size() != 0) {
		return ENOTSUP;
	}
	if (!fp.is_booted) {
		fp.is_booted = true;
		unwind_fp_refresh();
	}
	/* Not even our own caller is described: a static program without .eh_frame_hdr. */
	unsigned kind = ROW_KIND(row_find((uintptr_t)__builtin_return_address(0)));
	return kind == ROW_SP || kind == ROW_FP ? 0 : ENOTSUP;
}

/*
 * The method for broken chains, only where it does not need the loader's lock: libgcc's has used
 * the lock-free look-up since there is one; a static program has no loader.
 */
static const struct unwind_backend_s *
choose_fallback(void) {
#if CONFIG_PROF_LIBGCC
	bool is_safe = objects_have_lookup() || sys_auxval(AT_BASE) == 0;
	if (is_safe && unwind_libgcc.boot() == 0) {
		return &unwind_libgcc;
	}
#endif
	return NULL;
}

static int
auto_boot(void) {
	int err = fp_boot();
	if (err == 0 && fp.fallback == NULL) {
		fp.fallback = choose_fallback();
	}
	return err;
}

const struct unwind_backend_s unwind_fp = {"fp", fp_boot, fp_capture, true};
const struct unwind_backend_s unwind_auto = {"auto", auto_boot, auto_capture, true};
