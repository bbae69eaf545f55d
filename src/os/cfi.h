/*
 * Call frame information: the unwind row of one code address, read from a loaded object's
 * .eh_frame_hdr and .eh_frame (the tables that exceptions use).
 *
 * Only what a walk over {pc, sp, fp} needs is computed: where the canonical frame address (CFA),
 * the return address and the caller's frame pointer are.  Pure reading of mapped memory: no
 * allocation, no lock, no state.
 */
#ifndef OS_CFI_H
#define OS_CFI_H

#include "util/compiler.h"

typedef enum {
	cfi_cfa_bad,      /* Described in a way that is not understood here. */
	cfi_cfa_sp,       /* CFA = sp + cfa_off */
	cfi_cfa_fp,       /* CFA = fp + cfa_off */
	cfi_cfa_deref_fp, /* CFA = *(fp + cfa_off) */
	cfi_cfa_signal    /* A signal frame: the registers lie in the kernel's record at sp. */
} cfi_cfa_t;

typedef enum {
	cfi_reg_same,   /* The register was not touched. */
	cfi_reg_at_cfa, /* Saved at CFA + off. */
	cfi_reg_at_fp,  /* Saved at fp + off. */
	cfi_reg_undefined,
	cfi_reg_bad
} cfi_reg_t;

struct cfi_rule_s {
	cfi_reg_t kind;
	int64_t off;
};

struct cfi_row_s {
	cfi_cfa_t cfa;
	int64_t cfa_off;
	struct cfi_rule_s fp;
	/* cfi_reg_undefined: the outermost frame. */
	struct cfi_rule_s ra;
	/* The saved return address is signed (aarch64 pointer authentication). */
	bool is_ra_signed;
};

/* What every .eh_frame_hdr has at least, the table aside. */
#define CFI_HDR_BYTES 12

/*
 * The row for the instruction at pc; for a return address pass the address minus 1, the call.
 * ENOENT: the object describes no function there; ENOTSUP: tables not understood.
 */
int cfi_find_row(const void *eh_frame_hdr, uintptr_t pc, struct cfi_row_s *row);

/* The two halves of it, for tests: the description of the function at pc, and its row. */
const unsigned char *cfi_find_fde(const void *eh_frame_hdr, uintptr_t pc);
int cfi_row_of_fde(const unsigned char *fde, uintptr_t pc, struct cfi_row_s *row);

#endif
