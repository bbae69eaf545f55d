/*
 * Call frame information: the unwind row of one code address.
 * The row is read from a loaded object's .eh_frame_hdr and .eh_frame, the tables that C++
 * exceptions use. Only what a walk over {pc, sp, fp} needs is computed: how to find the canonical
 * frame address (CFA), the return address and the caller's frame pointer. No allocation, no lock,
 * no state. The caller (unwind_rows.c, unwind_step.c, frame_scan.c) makes sure that the tables are
 * mapped. Other memory is read by cfi_eval() only, which asks the system whether it can be read.
 */
#pragma once

#include "util/compiler.h"

/* How the CFA is computed. */
typedef enum {
	/* not supported: there is a row only for an outermost frame, which needs no CFA */
	cfi_cfa_bad,
	cfi_cfa_sp,         /* CFA = sp + cfa_off */
	cfi_cfa_fp,         /* CFA = fp + cfa_off */
	cfi_cfa_deref_fp,   /* CFA = *(fp + cfa_off) */
	cfi_cfa_expression, /* CFA = value of the expression expr */
	cfi_cfa_signal      /* a signal frame: the registers are in the kernel's record at sp */
} cfi_cfa_t;

/* Where the value that a register has in the caller is found. */
typedef enum {
	cfi_reg_same,   /* the register still has it */
	cfi_reg_at_cfa, /* saved at CFA + off */
	cfi_reg_at_fp,  /* saved at fp + off */
	/* the register has no value in the caller; of the return address: there is no caller */
	cfi_reg_undefined,
	cfi_reg_bad /* not supported: the row is made, but a walk cannot use this register */
} cfi_reg_t;

struct cfi_rule_s {
	cfi_reg_t kind;
	int64_t off; /* bytes; of cfi_reg_at_cfa and cfi_reg_at_fp */
};

/* The unwind row: how to get from a frame to its caller. */
struct cfi_row_s {
	cfi_cfa_t cfa;
	int64_t cfa_off; /* bytes */
	struct cfi_rule_s fp; /* rule of the frame pointer */
	/* Rule of the return address; cfi_reg_undefined marks the outermost frame. */
	struct cfi_rule_s ra;
	/* The saved return address is signed (aarch64 pointer authentication). */
	bool is_ra_signed;
	/*
	 * The expression of the CFA, if cfa is cfi_cfa_expression; points into the object's tables.
	 */
	const unsigned char *expr;
	size_t expr_len;
};

/* What cfi_eval() needs: the registers that an expression may use, and memory it must not read. */
struct cfi_regs_s {
	uintptr_t pc;
	uintptr_t sp;
	uintptr_t fp;
	/* The memory [dead, dead_end) is not to be read: it changes while the unwinder runs. */
	uintptr_t dead;
	uintptr_t dead_end;
};

/* Least size in bytes of an .eh_frame_hdr with fields of 4 bytes, without its table. */
#define CFI_HDR_BYTES 12

/*
 * Finds the row for the instruction at pc. For a return address, pass the address minus 1, which
 * lies in the call. Returns 0, ENOENT (no function is described there, or the .eh_frame_hdr has
 * another form than linkers write) or ENOTSUP (the record of the last function that begins at or
 * before pc, or the CFA at pc, is not supported). With 0 single registers of the row may still be
 * cfi_reg_bad; with an error *row means nothing.
 */
int cfi_find_row(const void *eh_frame_hdr, uintptr_t pc, struct cfi_row_s *row);

/*
 * The same by the FDE (record of one function), which was registered with libgcc or found by a
 * scan; ENOENT: its record can be read, and pc is not in that function.
 */
int cfi_row_of_fde(const unsigned char *fde, uintptr_t pc, struct cfi_row_s *row);

/*
 * Finds in `count` pairs {start, record}, sorted by start, each a distance in bytes from base (an
 * int32_t, not aligned), the last one whose start is at or below pc. Returns the address of the
 * pair, or NULL.
 */
const unsigned char *cfi_search(const void *table, uint64_t count, uintptr_t base, uintptr_t pc);

/* What cfi_read_record() found. */
typedef enum {
	cfi_record_bad, /* no record, or none of a supported form */
	cfi_record_cie,
	cfi_record_fde,
	cfi_record_end  /* the terminator of an .eh_frame */
} cfi_record_t;

/*
 * Reads one record at *p of an .eh_frame that begins at `begin`. The length of the .eh_frame need
 * not be known; all bytes from `begin` to `end` are readable. Moves *p behind the record, also
 * behind a bad one or the terminator; if the end of the record is not found at or before `end`, the
 * result is cfi_record_bad and *p stays. If the result is cfi_record_fde, *start is the address of
 * its function and *size the bytes of the function; else they mean nothing. An FDE whose CIE does
 * not lie between `begin` and the FDE is bad.
 */
cfi_record_t cfi_read_record(const unsigned char *begin, const unsigned char **p,
    const unsigned char *end, uintptr_t *start, uintptr_t *size);

/*
 * Evaluates an expression with these registers. Returns false if it needs other registers, or
 * memory that cannot be read (as the system says) or is dead, or if it is not supported; *value
 * means nothing then.
 */
bool cfi_eval(const unsigned char *expr, size_t len, const struct cfi_regs_s *regs,
    uintptr_t *value);
