/*
 * Unwind rows of code addresses, each packed into one word and cached in a fixed table. A row says
 * how to find, at that address, the canonical frame address (CFA, sp of the caller), the return
 * address and the caller's frame pointer. No lock: an entry is two words, the packed row and a key
 * that mixes the address, the row and the generation of rows, so a torn or stale entry does not
 * match. The generation changes when an object was unloaded or may have been, when another object
 * lies where one was, or when an object without .eh_frame_hdr was scanned. Called by the walks
 * (unwind_fp.c, unwind_step.c) and by code.c; module_history.c forgets rows.
 */
#pragma once

#include "unwind/cfi.h"
#include "unwind/unwind_backend.h"
#include "util/atomic.h"

/* The cache has 2^13 entries of 16 bytes. */
#define LG_ROWS 13
#define N_ROWS (ZU(1) << LG_ROWS)

/*
 * A packed row. Offsets count words of 8 bytes. The offsets of the return address and of the frame
 * pointer count from the CFA (with ROW_FP_FP, that of the frame pointer counts from the callee's
 * frame pointer); the offset of the CFA counts from sp or fp, as the kind says.
 *   bits 0-2 kind (ROW_*), bit 3 ROW_PLAIN, bits 4-5 frame pointer (ROW_FP_*), bit 6
 *   ROW_RA_SIGNED, then three offsets of 19 bits: return address (0: still in the link register),
 *   frame pointer, CFA
 */
typedef uint64_t row_t;

enum {
	ROW_MISSING, /* no object is known there, or its tables are gone; never stored in the cache */
	ROW_SP,      /* CFA = sp + offset */
	ROW_FP,      /* CFA = fp + offset */
	ROW_DEREF,   /* CFA = *(fp + offset) */
	ROW_SIGNAL,  /* the registers are in the kernel's record of a signal */
	ROW_END,     /* the outermost frame */
	ROW_NO_FDE,  /* in an object, but in none of the functions that it describes */
	ROW_UNKNOWN  /* described in a way that a packed row cannot hold */
};
#define ROW_KIND(r) ((unsigned)(r) & 7) /* one of these */
/* A ROW_SP that saves all between sp and the CFA: a step only checks that the CFA is at most hi. */
#define ROW_PLAIN 8u
/* The saved return address is signed (aarch64). */
#define ROW_RA_SIGNED 64u
/*
 * The place of the caller's frame pointer: not saved, at CFA + offset, at fp + offset, or not
 * known.
 */
enum { ROW_FP_SAME, ROW_FP_CFA, ROW_FP_FP, ROW_FP_LOST };
#define ROW_FP_HOW(r) ((unsigned)((r) >> 4) & 3)
/* Bits of an offset; ROW_*_OFF(): an offset of a row in bytes; ROW_PACK_*(): its bits in a row. */
#define ROW_OFF_BITS 19
#define ROW_RA_OFF(r) (((int64_t)((r) << 38) >> 45) * 8)
#define ROW_FP_OFF(r) (((int64_t)((r) << 19) >> 45) * 8)
#define ROW_CFA_OFF(r) (((int64_t)(r) >> 45) * 8)
#define ROW_PACK_RA(words) ((row_t)(words) << 45 >> 38)
#define ROW_PACK_FP(words) ((row_t)(words) << 45 >> 19)
#define ROW_PACK_CFA(words) ((row_t)(words) << 45)
/*
 * The row of a function with a frame pointer: CFA = fp + 16; return address and the caller's frame
 * pointer are below it.
 */
#define ROW_FRAME \
	(ROW_FP | ROW_FP_CFA << 4 | ROW_PACK_RA(-1) | ROW_PACK_FP(-2) | ROW_PACK_CFA(2))

/*
 * Offset in bytes of the return address from the CFA in a plain row. On x86-64 it is -8, where the
 * call instruction stores it; only rows that say so are plain.
 */
#if defined(__x86_64__)
#define RA_OFF_PLAIN(r) ((uintptr_t)-8)
#else
#define RA_OFF_PLAIN(r) ((uintptr_t)ROW_RA_OFF(r))
#endif

/*
 * The flag of a signed return address where code signs them, as whole distributions for aarch64 do
 * (pointer authentication); elsewhere 0, so that no step looks for it.
 */
#if defined(__aarch64__)
#define ROW_SIGNED_HERE ROW_RA_SIGNED
#else
#define ROW_SIGNED_HERE 0u
#endif

struct row_entry_s {
	atomic_u64_t key; /* row_key() of address, row and generation */
	atomic_u64_t row;
};

extern HIDDEN struct unwind_rows_s {
	ALIGNED(CACHELINE) struct row_entry_s rows[N_ROWS];
	/* Mixed into the keys: a hash of the generation; 0 for the first one. */
	atomic_u64_t salt;
	atomic_u64_t made;        /* rows read from tables, for statistics */
	atomic_u64_t generations; /* the present generation; the first: 0 */
} unwind_rows;

/* The index of the first cache entry of an address; the other one is at index ^ 1. */
static inline size_t
row_slot(uintptr_t pc) {
	return (size_t)(((uint64_t)pc * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - LG_ROWS));
}

/* The key of an entry. A change of the address, the row or the salt alone changes it. */
static inline uint64_t
row_key(uintptr_t pc, row_t row, uint64_t salt) {
	return (uint64_t)pc ^ salt ^ row * UINT64_C(0xd6e8feb86659fd93);
}

/* The row of pc in this entry, or ROW_MISSING. */
ALWAYS_INLINE row_t
row_load(size_t slot, uintptr_t pc, uint64_t salt) {
	row_t row = atomic_load_u64(&unwind_rows.rows[slot].row, MO_RELAXED);
	uint64_t key = atomic_load_u64(&unwind_rows.rows[slot].key, MO_RELAXED);
	return likely(key == row_key(pc, row, salt)) ? row : ROW_MISSING;
}

/*
 * The row of the call before the return address pc: from the cache, or computed from the object's
 * tables and then stored in the cache. ROW_MISSING: no object is there, or none whose tables can be
 * read; that is not stored, because code may be loaded there later. Takes no lock, preserves errno
 * and may be called at any time.
 */
row_t unwind_row_find(uintptr_t pc);
/*
 * Computes the row from the object's tables as unwind_row_find() does, but not packed: for those
 * that cannot be cached. False: there is none that can be read.
 */
bool unwind_row_try_read(uintptr_t pc, struct cfi_row_s *r);
/* Packs a row; ROW_UNKNOWN if its CFA or return address does not fit. */
row_t unwind_row_pack(const struct cfi_row_s *r);

/* Makes all cached rows invalid, because other code may lie at their addresses. */
void unwind_rows_forget(void);
