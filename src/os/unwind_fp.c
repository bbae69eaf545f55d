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
 * and inside the range that the kernel has confirmed as readable; the range is remembered per
 * thread, so that confirming it is rare.  No lock, no allocation, no loader lock on the way.
 */
#include <dlfcn.h>
#include <sys/auxv.h>

#include "os/cfi.h"
#include "os/pages.h"
#include "os/sys.h"
#include "os/tls.h"
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
#define N_MODULES 512
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

struct module_s {
	uintptr_t start;
	uintptr_t end;
	const void *hdr;
};

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
	/* A signal handler had a stack of its own: hi belongs to another stack than the start. */
	bool is_moved;
};

/* The confirmed stack of this thread. */
static TLS_MODEL __thread struct {
	uintptr_t lo;
	uintptr_t hi;
} known_stack;

static struct {
	ALIGNED(CACHELINE) struct row_entry_s rows[N_ROWS];
	/* Mixed into the keys. */
	atomic_u64_t salt;
	atomic_u64_t rows_made;
	atomic_u64_t generations;
	atomic_u64_t unloads;
	/* For C libraries without a lock-free look-up: the objects at the last refresh. */
	struct module_s modules[2][N_MODULES];
	unsigned n_modules[2];
	atomic_u32_t modules_now;
	atomic_b_t is_refreshing;
	bool is_booted;
	const struct unwind_backend_s *fallback;
} fp;

/* ---- objects ---- */

#ifdef DLFO_STRUCT_HAS_EH_DBASE
extern int _dl_find_object(void *pc, struct dl_find_object *result) WEAK;

static bool
has_object_lookup(void) {
	return _dl_find_object != NULL;
}

static bool
look_up_object(uintptr_t pc, const void **hdr) {
	struct dl_find_object o;
	if (_dl_find_object((void *)pc, &o) != 0) {
		return false;
	}
	*hdr = o.dlfo_eh_frame;
	return true;
}
#else
static bool
has_object_lookup(void) {
	return false;
}

static bool
look_up_object(uintptr_t pc, const void **hdr) {
	(void)pc;
	(void)hdr;
	return false;
}
#endif

static bool
look_up_module(uintptr_t pc, const void **hdr) {
	unsigned now = atomic_load_u32(&fp.modules_now, MO_ACQUIRE);
	for (unsigned i = 0; i < fp.n_modules[now]; i++) {
		const struct module_s *m = &fp.modules[now][i];
		if (pc - m->start < m->end - m->start) {
			*hdr = m->hdr;
			return true;
		}
	}
	return false;
}

/* The unwind tables of the object at pc (NULL: it has none); false if there is no object. */
static bool
find_object(uintptr_t pc, const void **hdr) {
	return has_object_lookup() ? look_up_object(pc, hdr) : look_up_module(pc, hdr);
}

static int
on_module(void *opaque, const struct sys_module_s *m) {
	unsigned next = *(unsigned *)opaque;
	unsigned i = fp.n_modules[next];
	/* The half that nobody is sent to while it is filled. */
	assert(next <= 1 && next != atomic_load_u32(&fp.modules_now, MO_RELAXED));
	assert(m->start < m->end);
	if (i == N_MODULES) {
		return 1;
	}
	fp.modules[next][i] = (struct module_s){m->start, m->end, m->eh_frame_hdr};
	fp.n_modules[next] = i + 1;
	return 0;
}

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
	if (!has_object_lookup() && !atomic_exchange_b(&fp.is_refreshing, true, MO_ACQUIRE)) {
		unsigned next = 1 - atomic_load_u32(&fp.modules_now, MO_RELAXED);
		fp.n_modules[next] = 0;
		sys_modules(on_module, &next);
		atomic_store_u32(&fp.modules_now, next, MO_RELEASE);
		atomic_store_b(&fp.is_refreshing, false, MO_RELEASE);
	}
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

static row_t
row_make(const void *hdr, uintptr_t at) {
	struct cfi_row_s r;
	int err = hdr == NULL ? ENOENT : cfi_find_row(hdr, at, &r);
	if (err != 0) {
		return err == ENOENT ? ROW_NO_FDE : ROW_UNKNOWN;
	}
	return pack_row(&r);
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
	if (row == ROW_MISSING && find_object(pc - 1, &hdr)) {
		row = row_make(hdr, pc - 1);
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
	bool is_joined = w->sp < known_stack.lo && end >= known_stack.lo && end < known_stack.hi;
	w->hi = is_joined ? known_stack.hi : end;
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
	if (w->n_guessed == GUESS_MAX || w->fp < w->sp || (w->fp & 7) != 0
	    || !confirm(w, w->fp + 16)) {
		return false;
	}
	uintptr_t ra = load_word(w->fp + 8);
	if (ra < PAGE_MAX) {
		return false;
	}
	const void *hdr;
	bool is_in_object = find_object(ra - 1, &hdr);
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
	if (pc == 0) {
		return 1 + unwind_stop_end;
	}
	row_t row = row_find(w->pc);
	switch (ROW_KIND(row)) {
	case ROW_END:
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

struct walk_result_s {
	unsigned n;
	unwind_stop_t stop;
};

/*
 * Steps until the stack pointer is at or above `from`, or for ever; the return addresses on the
 * way go to frames, of which *n are there already (NULL: nowhere).
 */
ALWAYS_INLINE NO_SANITIZE_ADDRESS unwind_stop_t
walk_until(struct walk_s *w, uintptr_t from, void **frames, unsigned max, unsigned *n) {
	uint64_t salt = atomic_load_u64(&fp.salt, MO_ACQUIRE);
	uintptr_t pc = w->pc, sp = w->sp, fpr = w->fp, hi = w->hi;
	void **p = frames, **const last = frames + (frames == NULL ? 0 : max);
	unsigned n_sure = 0, stop = 0;
	while (frames != NULL || sp < from) {
		if (frames != NULL) {
			if (unlikely(p == last)) {
				stop = 1 + unwind_stop_full;
				break;
			}
			*p++ = (void *)pc;
		}
		if (likely(step_fast(row_load(row_slot(pc), pc, salt), &pc, &sp, &fpr, hi))) {
			continue;
		}
		n_sure = w->n_guessed == 0 ? (unsigned)(p - frames) : n_sure;
		stop = step_slow(w, pc, sp, fpr);
		if (stop != 0) {
			/* Guessed frames that lead nowhere do not count. */
			*n = pc == 0 && n_sure > 0 ? n_sure - 1 : n_sure;
			assert(stop <= unwind_stop_count && *n <= max);
			return (unwind_stop_t)(stop - 1);
		}
		pc = w->pc;
		sp = w->sp;
		fpr = w->fp;
		hi = w->hi;
	}
	w->pc = pc;
	w->sp = sp;
	w->fp = fpr;
	*n = (unsigned)(p - frames);
	assert(frames == NULL ? sp >= from : *n == max);
	return unwind_stop_full;
}

static NO_SANITIZE_ADDRESS struct walk_result_s
walk(void **frames, unsigned max, uintptr_t from, struct walk_s *w) {
	struct walk_result_s r = {0, unwind_stop_full};
	if (w->sp < from) {
		r.stop = walk_until(w, from, NULL, 0, &r.n);
	}
	if (r.stop == unwind_stop_full) {
		r.stop = walk_until(w, 0, frames, max, &r.n);
	}
	return r;
}

/* Confirmed stack at the start of a walk: what this thread knows, or the page of sp. */
static void
begin(struct walk_s *w) {
	bool is_known = w->sp >= known_stack.lo && w->sp < known_stack.hi;
	w->hi = is_known ? known_stack.hi : align_up(w->sp + 1, os_page_size);
	assert(w->hi > w->sp);
	w->lr = 0;
	w->n_guessed = 0;
	w->is_moved = false;
}

static void
end(uintptr_t first_sp, const struct walk_s *w) {
	uintptr_t lo = align_down(first_sp, os_page_size);
	if (!w->is_moved && (lo < known_stack.lo || lo >= known_stack.hi || w->hi > known_stack.hi)) {
		known_stack.lo = lo;
		known_stack.hi = w->hi;
		assert(lo <= first_sp && first_sp < w->hi);
	}
}

/* Walks from the caller of the function that expands this. */
#define WALK_FROM_CALLER(w) \
	(w)->pc = (uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)); \
	(w)->sp = (uintptr_t)__builtin_dwarf_cfa(); \
	(w)->fp = *(const uintptr_t *)__builtin_frame_address(0)

static struct walk_result_s
walk_counted(void **frames, unsigned max, uintptr_t from, struct walk_s *w) {
	uintptr_t first_sp = w->sp;
	begin(w);
	assert(max > 0 && (first_sp & 7) == 0);
	struct walk_result_s r = walk(frames, max, from, w);
	end(first_sp, w);
	unwind_count_stop(r.stop);
	return r;
}

static NOINLINE unsigned
fp_capture(void **frames, unsigned max, const void *frame_hint) {
	struct walk_s w;
	WALK_FROM_CALLER(&w);
	uintptr_t from = frame_hint != NULL ? (uintptr_t)frame_hint : w.sp;
	return walk_counted(frames, max, from, &w).n;
}

/* Could another method do better?  Not with a bad frame: it would believe the same tables. */
static bool
is_fallback_wanted(unwind_stop_t stop) {
	switch (stop) {
	case unwind_stop_no_row:
		return fp.fallback != NULL;
	case unwind_stop_no_module:
		/* Static programs without .eh_frame_hdr register their tables with libgcc. */
		return fp.fallback != NULL && !has_object_lookup();
	default:
		return false;
	}
}

static NOINLINE unsigned
auto_capture(void **frames, unsigned max, const void *frame_hint) {
	struct walk_s w;
	WALK_FROM_CALLER(&w);
	uintptr_t from = frame_hint != NULL ? (uintptr_t)frame_hint : w.sp;
	struct walk_result_s r = walk_counted(frames, max, from, &w);
	if (unlikely(is_fallback_wanted(r.stop))) {
		unwind_count_fallback();
		return fp.fallback->capture(frames, max, (const void *)from);
	}
	return r.n;
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
	bool is_safe = has_object_lookup() || sys_auxval(AT_BASE) == 0;
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

const struct unwind_backend_s unwind_fp = {"fp", fp_boot, fp_capture};
const struct unwind_backend_s unwind_auto = {"auto", auto_boot, auto_capture};
