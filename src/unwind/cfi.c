/*
 * Interpreter of call frame information (DWARF CFI, as in .eh_frame), and of DWARF expressions. An
 * FDE describes one function and refers to a CIE, which holds what many functions share. Each
 * contains a small program; running both up to an address leaves the unwind row of that address:
 * how to compute the canonical frame address (CFA), and where the caller's frame pointer and the
 * return address are. The FDE is found by binary search in .eh_frame_hdr. Invariant: reading stays
 * inside the lengths that the records and the table of .eh_frame_hdr state; only cfi_read_record()
 * checks that these are true. Anything unknown in a record ends in ENOTSUP, or for the rule of a
 * single register in cfi_reg_bad, never in a guessed row; another form of the table in ENOENT. No
 * lock, no allocation, no state between calls, because a walk may begin anywhere in the program.
 * Called by unwind_rows.c, unwind_step.c and frame_scan.c.
 */
#include "unwind/cfi.h"

#include "os/sys.h"

/*
 * DWARF's numbers of the frame pointer, the stack pointer and the program counter. On a processor
 * where no walk uses this file: numbers that no table contains.
 */
#if defined(__x86_64__)
enum { REG_FP = 6, REG_SP = 7, REG_PC = 16 };
#elif defined(__aarch64__)
enum { REG_FP = 29, REG_SP = 31, REG_PC = 32 };
#else
enum { REG_FP = 0xfffe, REG_SP = 0xffff, REG_PC = 0xfffd };
#endif

/* Nested DW_CFA_remember_state that are supported; compilers write one level. */
#define REMEMBER_DEPTH 4

/* Addresses are read as numbers of 64 bits and cut to the size of a pointer. */
cassert(sizeof(uintptr_t) <= sizeof(uint64_t));

/*
 * Pointer encodings (DW_EH_PE_*): the low 4 bits are the format, the next 3 what it is relative to.
 */
enum {
	PE_ABSPTR = 0x00,
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_FORMAT = 0x0f,
	PE_PCREL = 0x10,
	PE_BASE = 0x70,
	PE_ALIGNED = 0x50,
	PE_INDIRECT = 0x80, /* the number is the address of the pointer */
	PE_OMIT = 0xff
};
/*
 * The only table format of .eh_frame_hdr that linkers write: pairs of signed 4-byte distances from
 * the start of the header.
 */
#define HDR_TABLE_ENCODING 0x3b

/*
 * Operations of expressions (DW_OP_*): those in what linkers write for a linkage table (PLT), what
 * compilers write for a realigned stack, and assembly that saves its stack pointer. The first two
 * stand for 32 operations each: OP_LIT0 + n pushes n, OP_BREG0 + n pushes register n plus an
 * offset.
 */
enum {
	OP_LIT0 = 0x30,
	OP_BREG0 = 0x70,
	OP_DEREF = 0x06,
	OP_AND = 0x1a,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST = 0x23,
	OP_SHL = 0x24,
	OP_GE = 0x2a
};
/* Values that the stack of an expression can hold; that for the linkage table (PLT) needs 3. */
#define EVAL_DEPTH 8

/*
 * A position in a record and the record's end. is_bad is set, and never cleared, when a read did
 * not fit or is not supported.
 */
struct cursor {
	const unsigned char *p;
	const unsigned char *end;
	bool is_bad;
};

/* The parts of a CIE that its FDEs need. */
struct cie {
	uint64_t code_align;        /* bytes in one unit of a code advance */
	int64_t data_align;         /* bytes in one unit of a register offset; often negative */
	uint64_t ra_reg;            /* register that holds the return address */
	unsigned char fde_encoding; /* PE_* of the addresses in its FDEs */
	bool has_augmentation;      /* its FDEs have an augmentation block to be skipped */
	bool is_signal;             /* its FDEs describe signal frames */
	struct cursor program;      /* the initial instructions */
};

/* The execution of a CFI program. */
struct machine {
	const struct cie *cie;
	struct cfi_row_s now; /* the rules at loc; its kind is that of a frame of no signal */
	/* the rules after the CIE's program; DW_CFA_restore returns to these */
	struct cfi_row_s initial;
	struct cfi_row_s saved[REMEMBER_DEPTH]; /* by DW_CFA_remember_state */
	unsigned n_saved; /* elements of saved in use */
	uintptr_t loc;    /* address that the rules in `now` apply from */
	uintptr_t target; /* run() stops when loc is above this address */
	bool is_bad;      /* an instruction was not supported */
};

/*
 * Reads n bytes as a little-endian number. If fewer are left: returns 0, sets is_bad and moves to
 * the end.
 */
static uint64_t
read_bytes(struct cursor *c, size_t n) {
	uint64_t v = 0;
	assert(c->p <= c->end && n <= sizeof(v));
	if ((size_t)(c->end - c->p) < n) {
		c->is_bad = true;
		c->p = c->end;
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		v |= (uint64_t)c->p[i] << (8 * i);
	}
	c->p += n;
	return v;
}

/* Reads an unsigned LEB128 number; is_bad if it has more than 10 bytes or the record ends. */
static uint64_t
read_uleb(struct cursor *c) {
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		unsigned byte = (unsigned)read_bytes(c, 1);
		v |= (uint64_t)(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0) {
			return v;
		}
	}
	c->is_bad = true;
	return 0;
}

/* Reads a signed LEB128 number; is_bad if it has more than 10 bytes or the record ends. */
static int64_t
read_sleb(struct cursor *c) {
	uint64_t v = 0;
	for (unsigned shift = 0; shift < 64;) {
		unsigned byte = (unsigned)read_bytes(c, 1);
		v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
		if ((byte & 0x80) == 0) {
			bool is_negative = (byte & 0x40) != 0 && shift < 64;
			return (int64_t)(is_negative ? v | ~UINT64_C(0) << shift : v);
		}
	}
	c->is_bad = true;
	return 0;
}

/* Moves on by n bytes; to the end, with is_bad, if there are fewer. */
static void
skip(struct cursor *c, uint64_t n) {
	assert(c->p <= c->end);
	if ((uint64_t)(c->end - c->p) < n) {
		c->is_bad = true;
		n = (uint64_t)(c->end - c->p);
	}
	c->p += n;
}

/* Reads a number in the format of an encoding, without adding what it is relative to. */
static uint64_t
read_format(struct cursor *c, unsigned char encoding) {
	switch (encoding & PE_FORMAT) {
	case PE_ABSPTR:
		return read_bytes(c, sizeof(void *));
	case PE_UDATA2:
		return read_bytes(c, 2);
	case PE_UDATA4:
		return read_bytes(c, 4);
	case PE_UDATA8:
	case PE_SDATA8:
		return read_bytes(c, 8);
	case PE_SDATA2:
		return (uint64_t)(int64_t)(int16_t)read_bytes(c, 2);
	case PE_SDATA4:
		return (uint64_t)(int64_t)(int32_t)read_bytes(c, 4);
	default:
		c->is_bad = true;
		return 0;
	}
}

/* Reads an encoded pointer; only absolute and pc-relative ones, not indirect, are supported. */
static uintptr_t
read_pointer(struct cursor *c, unsigned char encoding) {
	uintptr_t at = (uintptr_t)c->p;
	uintptr_t v = (uintptr_t)read_format(c, encoding);
	switch (encoding & (PE_BASE | PE_INDIRECT)) {
	case 0:
		return v;
	case PE_PCREL:
		return at + v;
	default:
		c->is_bad = true;
		return 0;
	}
}

static int32_t
table_word(const unsigned char *p) {
	int32_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

const unsigned char *
cfi_search(const void *table, uint64_t count, uintptr_t base, uintptr_t pc) {
	const unsigned char *pairs = table;
	uint64_t lo = 0, hi = count;
	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		if (base + (uintptr_t)(intptr_t)table_word(pairs + mid * 8) <= pc) {
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	assert(lo == hi && lo <= count);
	return lo == 0 ? NULL : pairs + (lo - 1) * 8;
}

/*
 * Finds the FDE (record of one function) of the last function that begins at or before pc; NULL:
 * there is none, or the table has another form.
 */
static const unsigned char *
find_fde(const void *eh_frame_hdr, uintptr_t pc) {
	const unsigned char *hdr = eh_frame_hdr;
	/*
	 * hdr[0] is the version; hdr[1..3] are the encodings of the pointer to .eh_frame, the count
	 * and the table.
	 */
	if (hdr[0] != 1 || (hdr[2] & ~PE_FORMAT) != 0 || hdr[3] != HDR_TABLE_ENCODING) {
		return NULL;
	}
	/* No more is known to be readable: fields of 8 bytes, which nobody writes, are not read. */
	struct cursor c = {hdr + 4, hdr + CFI_HDR_BYTES, false};
	read_format(&c, hdr[1]);
	uint64_t count = read_format(&c, hdr[2]);
	const unsigned char *pair = c.is_bad ? NULL : cfi_search(c.p, count, (uintptr_t)hdr, pc);
	return pair == NULL ? NULL : hdr + table_word(pair + 4);
}

/*
 * Returns a cursor from behind the length field of the record at p to the record's end. A length of
 * 0 ends .eh_frame and is bad here.
 */
static struct cursor
open_record(const unsigned char *p) {
	struct cursor c = {p, p + 4, false};
	uint64_t len = read_bytes(&c, 4);
	if (len == 0xffffffff) {
		c.end += 8;
		len = read_bytes(&c, 8);
	}
	c.is_bad = len == 0 || len > UINTPTR_MAX - (uintptr_t)c.p;
	c.end = c.p + (c.is_bad ? 0 : len);
	return c;
}

/* Reads the encoding of the personality routine and its address. */
static void
skip_personality(struct cursor *c) {
	unsigned char encoding = (unsigned char)read_bytes(c, 1);
	c->is_bad = c->is_bad || (encoding & PE_BASE) == PE_ALIGNED;
	read_format(c, encoding);
}

/*
 * Reads the augmentation block of a CIE: each letter behind the "z" of its augmentation string
 * tells what comes next in the block. Then moves to the end of the block.
 */
static void
read_augmentation(struct cursor *c, struct cie *cie, const unsigned char *letters) {
	uint64_t len = read_uleb(c);
	struct cursor data = {c->p, c->p, false};
	skip(c, len);
	data.end = c->p;
	for (; *letters != '\0' && !data.is_bad; letters++) {
		switch (*letters) {
		case 'R':
			cie->fde_encoding = (unsigned char)read_bytes(&data, 1);
			break;
		case 'L':
			skip(&data, 1);
			break;
		case 'P':
			skip_personality(&data);
			break;
		case 'S':
			cie->is_signal = true;
			break;
		case 'B':
		case 'G':
			/*
			 * aarch64: the key that signs, and tagged stacks. These letters have no
			 * data.
			 */
			break;
		default:
			data.is_bad = true;
			break;
		}
	}
	c->is_bad = c->is_bad || data.is_bad;
}

/* Fills in *cie from the record at p. Returns 0 or ENOTSUP. */
static int
read_cie(const unsigned char *p, struct cie *cie) {
	struct cursor c = open_record(p);
	memset(cie, 0, sizeof(*cie));
	if (c.is_bad || read_bytes(&c, 4) != 0) {
		return ENOTSUP;
	}
	uint64_t version = read_bytes(&c, 1);
	const unsigned char *letters = c.p;
	while (read_bytes(&c, 1) != 0) {
	}
	if (c.is_bad) {
		return ENOTSUP; /* the letters have no end in the record */
	}
	if (version == 4) {
		skip(&c, 2);
	}
	cie->code_align = read_uleb(&c);
	cie->data_align = read_sleb(&c);
	cie->ra_reg = version == 1 ? read_bytes(&c, 1) : read_uleb(&c);
	if (letters[0] == 'z') {
		cie->has_augmentation = true;
		read_augmentation(&c, cie, letters + 1);
	} else if (letters[0] != '\0') {
		return ENOTSUP;
	}
	cie->program = c;
	return c.is_bad || (version != 1 && version != 3 && version != 4) ? ENOTSUP : 0;
}

/*
 * The bytes of an offset of `factor` units of the data alignment. The product wraps on corrupt
 * input, which is then caught by the checks of the walk.
 */
static uint64_t
scaled(const struct machine *m, uint64_t factor) {
	return factor * (uint64_t)m->cie->data_align;
}

/* Sets a register's rule. Only the frame pointer and the return address are of interest. */
static void
set_rule(struct machine *m, uint64_t reg, cfi_reg_t kind, int64_t off) {
	struct cfi_rule_s rule = {kind, off};
	if (reg == REG_FP) {
		m->now.fp = rule;
	} else if (reg == m->cie->ra_reg) {
		m->now.ra = rule;
	}
}

static void
restore_rule(struct machine *m, uint64_t reg) {
	if (reg == REG_FP) {
		m->now.fp = m->initial.fp;
	} else if (reg == m->cie->ra_reg) {
		m->now.ra = m->initial.ra;
	}
}

/*
 * Reads an expression {length, bytes} and moves behind it. Returns true if its value is fp plus a
 * constant, or with *is_deref the word at that address; *off is the constant, in bytes.
 */
static bool
read_fp_expression(struct cursor *c, int64_t *off, bool *is_deref) {
	uint64_t len = read_uleb(c);
	struct cursor e = {c->p, c->p, false};
	skip(c, len);
	e.end = c->p;
	*is_deref = false;
	if (read_bytes(&e, 1) != OP_BREG0 + REG_FP) {
		return false;
	}
	*off = read_sleb(&e);
	if (e.p < e.end) {
		*is_deref = read_bytes(&e, 1) == OP_DEREF;
		return *is_deref && e.p == e.end && !e.is_bad;
	}
	return !e.is_bad;
}

/* The kind of a CFA that is a register, by DWARF's number, plus an offset. */
static cfi_cfa_t
kind_of_register(uint64_t reg) {
	return reg == REG_FP ? cfi_cfa_fp : reg == REG_SP ? cfi_cfa_sp : cfi_cfa_bad;
}

static void
def_cfa(struct machine *m, uint64_t reg, int64_t off) {
	m->now.cfa = kind_of_register(reg);
	m->now.cfa_off = off;
}

/*
 * Changes the register or the offset of the CFA. After an expression that is no register and
 * offset there is none to change: the program is malformed.
 */
static void
change_cfa(struct machine *m, cfi_cfa_t kind, int64_t off) {
	m->is_bad |= m->now.cfa == cfi_cfa_deref_fp || m->now.cfa == cfi_cfa_expression;
	m->now.cfa = kind;
	m->now.cfa_off = off;
}

/*
 * Defines the CFA by the expression at c: by the frame pointer if read_fp_expression() can, else it
 * is left to cfi_eval().
 */
static void
def_cfa_expression(struct machine *m, struct cursor *c) {
	bool is_deref;
	struct cursor e = *c;
	read_uleb(&e); /* the expression's length */
	m->now.cfa_off = 0;
	bool is_fp = read_fp_expression(c, &m->now.cfa_off, &is_deref);
	m->now.cfa = !is_fp ? cfi_cfa_expression : is_deref ? cfi_cfa_deref_fp : cfi_cfa_fp;
	m->now.expr = e.p;
	m->now.expr_len = (size_t)(c->p - e.p);
}

static void
rule_expression(struct machine *m, struct cursor *c, uint64_t reg) {
	int64_t off = 0;
	bool is_deref;
	bool is_fp = read_fp_expression(c, &off, &is_deref);
	set_rule(m, reg, is_fp && !is_deref ? cfi_reg_at_fp : cfi_reg_bad, off);
}

static void
remember(struct machine *m) {
	if (m->n_saved == REMEMBER_DEPTH) {
		m->is_bad = true;
		return;
	}
	assert(m->n_saved < REMEMBER_DEPTH);
	m->saved[m->n_saved++] = m->now;
}

static void
restore_remembered(struct machine *m) {
	if (m->n_saved == 0) {
		m->is_bad = true;
		return;
	}
	assert(m->n_saved <= REMEMBER_DEPTH);
	m->now = m->saved[--m->n_saved];
}

/* How an operand of an instruction is written. */
enum {
	ARG_NONE,
	ARG_1 = 1,         /* in so many bytes */
	ARG_2 = 2,
	ARG_4 = 4,
	ARG_LOW,           /* in the low 6 bits of the first byte */
	ARG_POINTER,       /* as addresses in the FDE */
	ARG_NUMBER,
	ARG_SCALED,        /* a number of units of the data alignment */
	ARG_SCALED_SIGNED, /* the same, signed */
	ARG_SCALED_MINUS,  /* the same, less than 0 and written without the sign */
	ARG_BLOCK          /* an expression, which is passed over */
};

/* What an instruction with the operands a and b does. */
enum {
	DO_FAIL, /* not supported */
	DO_NOTHING,
	DO_ADVANCE, /* by a units of the code alignment */
	DO_SET_LOC,
	DO_RULE, /* register a gets a rule of the kind of the row, with the offset b */
	DO_RULE_EXPRESSION,
	DO_RESTORE,
	DO_CFA, /* it is register a plus b */
	DO_CFA_REGISTER,
	DO_CFA_OFFSET,
	DO_CFA_EXPRESSION,
	DO_REMEMBER,
	DO_RESTORE_STATE,
	DO_NEGATE_RA_STATE
};

/* Place in the table of an instruction that has an operand in its low 6 bits. */
#define OP_WITH_LOW(op) (0x30 + ((op) >> 6))

/* The call frame instructions (DW_CFA_*). */
static const struct {
	uint8_t action;
	uint8_t a;
	uint8_t b;
	uint8_t kind; /* cfi_reg_t, for DO_RULE */
} ops[] = {
	[0x00] = {DO_NOTHING, 0, 0, 0}, /* nop */
	[0x01] = {DO_SET_LOC, ARG_POINTER, 0, 0}, /* set_loc */
	[0x02] = {DO_ADVANCE, ARG_1, 0, 0}, /* advance_loc1 */
	[0x03] = {DO_ADVANCE, ARG_2, 0, 0}, /* advance_loc2 */
	[0x04] = {DO_ADVANCE, ARG_4, 0, 0}, /* advance_loc4 */
	[0x05] = {DO_RULE, ARG_NUMBER, ARG_SCALED, cfi_reg_at_cfa}, /* offset_extended */
	[0x06] = {DO_RESTORE, ARG_NUMBER, 0, 0}, /* restore_extended */
	[0x07] = {DO_RULE, ARG_NUMBER, 0, cfi_reg_undefined}, /* undefined */
	[0x08] = {DO_RULE, ARG_NUMBER, 0, cfi_reg_same}, /* same_value */
	[0x09] = {DO_RULE, ARG_NUMBER, ARG_NUMBER, cfi_reg_bad}, /* register */
	[0x0a] = {DO_REMEMBER, 0, 0, 0}, /* remember_state */
	[0x0b] = {DO_RESTORE_STATE, 0, 0, 0}, /* restore_state */
	[0x0c] = {DO_CFA, ARG_NUMBER, ARG_NUMBER, 0}, /* def_cfa */
	[0x0d] = {DO_CFA_REGISTER, ARG_NUMBER, 0, 0}, /* def_cfa_register */
	[0x0e] = {DO_CFA_OFFSET, ARG_NUMBER, 0, 0}, /* def_cfa_offset */
	[0x0f] = {DO_CFA_EXPRESSION, 0, 0, 0}, /* def_cfa_expression */
	[0x10] = {DO_RULE_EXPRESSION, ARG_NUMBER, 0, 0}, /* expression */
	[0x11] = {DO_RULE, ARG_NUMBER, ARG_SCALED_SIGNED, cfi_reg_at_cfa}, /* offset_extended_sf */
	[0x12] = {DO_CFA, ARG_NUMBER, ARG_SCALED_SIGNED, 0}, /* def_cfa_sf */
	[0x13] = {DO_CFA_OFFSET, ARG_SCALED_SIGNED, 0, 0}, /* def_cfa_offset_sf */
	[0x14] = {DO_RULE, ARG_NUMBER, ARG_NUMBER, cfi_reg_bad}, /* val_offset */
	[0x15] = {DO_RULE, ARG_NUMBER, ARG_NUMBER, cfi_reg_bad}, /* val_offset_sf */
	[0x16] = {DO_RULE, ARG_NUMBER, ARG_BLOCK, cfi_reg_bad}, /* val_expression */
	[0x2d] = {DO_NEGATE_RA_STATE, 0, 0, 0},
	[0x2e] = {DO_NOTHING, ARG_NUMBER, 0, 0}, /* args_size */
	[0x2f] = {DO_RULE, ARG_NUMBER, ARG_SCALED_MINUS, cfi_reg_at_cfa}, /* negative_offset_extended */
	[OP_WITH_LOW(0x40)] = {DO_ADVANCE, ARG_LOW, 0, 0}, /* advance_loc */
	[OP_WITH_LOW(0x80)] = {DO_RULE, ARG_LOW, ARG_SCALED, cfi_reg_at_cfa}, /* offset */
	[OP_WITH_LOW(0xc0)] = {DO_RESTORE, ARG_LOW, 0, 0}, /* restore */
};

/* Reads an operand of an instruction whose first byte is op. */
static uint64_t
read_operand(const struct machine *m, struct cursor *c, unsigned op, unsigned how) {
	switch (how) {
	case ARG_LOW:
		return op & 0x3f;
	case ARG_POINTER:
		return read_pointer(c, m->cie->fde_encoding);
	case ARG_NUMBER:
		return read_uleb(c);
	case ARG_SCALED:
		return scaled(m, read_uleb(c));
	case ARG_SCALED_SIGNED:
		return scaled(m, (uint64_t)read_sleb(c));
	case ARG_SCALED_MINUS:
		return scaled(m, -read_uleb(c));
	case ARG_BLOCK:
		skip(c, read_uleb(c));
		return 0;
	default:
		return read_bytes(c, how);
	}
}

static void
run_one(struct machine *m, struct cursor *c) {
	unsigned op = (unsigned)read_bytes(c, 1), i = op < 0x40 ? op : OP_WITH_LOW(op);
	bool is_known = op < 0x30 || op >= 0x40;
	uint64_t a = is_known ? read_operand(m, c, op, ops[i].a) : 0;
	uint64_t b = is_known ? read_operand(m, c, op, ops[i].b) : 0;
	switch (is_known ? ops[i].action : DO_FAIL) {
	case DO_NOTHING:
		break;
	case DO_ADVANCE:
		m->loc += (uintptr_t)(a * m->cie->code_align);
		break;
	case DO_SET_LOC:
		m->loc = (uintptr_t)a;
		break;
	case DO_RULE:
		set_rule(m, a, (cfi_reg_t)ops[i].kind, (int64_t)b);
		break;
	case DO_RULE_EXPRESSION:
		rule_expression(m, c, a);
		break;
	case DO_RESTORE:
		restore_rule(m, a);
		break;
	case DO_CFA:
		def_cfa(m, a, (int64_t)b);
		break;
	case DO_CFA_REGISTER:
		change_cfa(m, kind_of_register(a), m->now.cfa_off);
		break;
	case DO_CFA_OFFSET:
		change_cfa(m, m->now.cfa, (int64_t)a);
		break;
	case DO_CFA_EXPRESSION:
		def_cfa_expression(m, c);
		break;
	case DO_REMEMBER:
		remember(m);
		break;
	case DO_RESTORE_STATE:
		restore_remembered(m);
		break;
	case DO_NEGATE_RA_STATE:
		m->now.is_ra_signed = !m->now.is_ra_signed;
		break;
	default:
		m->is_bad = true;
		break;
	}
}

/*
 * Runs a program to its end, or until loc is above m->target: what follows then holds only for
 * higher addresses. 0 or ENOTSUP.
 */
static int
run(struct machine *m, struct cursor c) {
	while (c.p < c.end) {
		uintptr_t loc = m->loc;
		run_one(m, &c);
		if (c.is_bad || m->is_bad) {
			return ENOTSUP;
		}
		/*
		 * An instruction that advances loc changes no rule, so stopping behind it is safe.
		 */
		if (m->loc != loc && m->loc > m->target) {
			break;
		}
	}
	return 0;
}

int
cfi_row_of_fde(const unsigned char *fde, uintptr_t pc, struct cfi_row_s *row) {
	struct cursor c = open_record(fde);
	const unsigned char *at = c.p;
	uint64_t back = read_bytes(&c, 4);
	struct cie cie;
	if (c.is_bad || back == 0 || read_cie(at - back, &cie) != 0) {
		return ENOTSUP;
	}
	uintptr_t start = read_pointer(&c, cie.fde_encoding);
	uintptr_t size = (uintptr_t)read_format(&c, cie.fde_encoding);
	if (cie.has_augmentation) {
		skip(&c, read_uleb(&c));
	}
	if (c.is_bad) {
		return ENOTSUP;
	}
	if (pc < start || pc - start >= size) {
		return ENOENT;
	}
	assert(start <= pc && c.p <= c.end && cie.program.p <= cie.program.end);
	struct machine m = {.cie = &cie, .loc = start, .target = UINTPTR_MAX};
	int err = run(&m, cie.program);
	m.initial = m.now;
	m.loc = start;
	m.target = pc;
	if (err == 0) {
		err = run(&m, c);
	}
	*row = m.now;
	row->cfa = cie.is_signal ? cfi_cfa_signal : row->cfa;
	/* Rules that a walk cannot follow are cfi_reg_bad; there is no kind beyond it. */
	assert(row->fp.kind <= cfi_reg_bad && row->ra.kind <= cfi_reg_bad);
	/* Without a caller the row is of use without a CFA. */
	bool is_lost = row->cfa == cfi_cfa_bad && row->ra.kind != cfi_reg_undefined;
	return err != 0 ? err : is_lost ? ENOTSUP : 0;
}

/*
 * The end of the record at p. NULL: the end is behind `end`, the length is 0 or that of a record of
 * more than 4 GiB, or fewer than 12 bytes are left between p and `end`; no CIE or FDE is shorter.
 */
static const unsigned char *
record_end(const unsigned char *p, const unsigned char *end) {
	size_t left = (size_t)(end - p);
	struct cursor c = {p, end, false};
	if (left < 12 || read_bytes(&c, 4) == 0xffffffff) {
		return NULL; /* records of more than 4 GiB do not occur */
	}
	c = open_record(p);
	return c.is_bad || c.end > end ? NULL : c.end;
}

cfi_record_t
cfi_read_record(const unsigned char *begin, const unsigned char **p, const unsigned char *end,
    uintptr_t *start, uintptr_t *size) {
	const unsigned char *at = *p, *next;
	struct cie cie;
	assert(begin <= at && at <= end);
	if ((size_t)(end - at) >= 4 && table_word(at) == 0) {
		*p = at + 4;
		return cfi_record_end;
	}
	next = record_end(at, end);
	if (next == NULL) {
		return cfi_record_bad;
	}
	*p = next;
	struct cursor c = {at + 4, next, false};
	const unsigned char *field = c.p;
	uint64_t back = read_bytes(&c, 4);
	if (back == 0) {
		return read_cie(at, &cie) == 0 ? cfi_record_cie : cfi_record_bad;
	}
	if (back < 4 || back > (uint64_t)(field - begin) || record_end(field - back, at) == NULL
	    || read_cie(field - back, &cie) != 0) {
		return cfi_record_bad;
	}
	*start = read_pointer(&c, cie.fde_encoding);
	*size = (uintptr_t)read_format(&c, cie.fde_encoding);
	return c.is_bad ? cfi_record_bad : cfi_record_fde;
}

int
cfi_find_row(const void *eh_frame_hdr, uintptr_t pc, struct cfi_row_s *row) {
	const unsigned char *fde = find_fde(eh_frame_hdr, pc);
	return fde == NULL ? ENOENT : cfi_row_of_fde(fde, pc, row);
}

/* ---- expressions ---- */

/* The evaluation of an expression. */
struct eval {
	struct cursor c;
	const struct cfi_regs_s *regs;
	uint64_t stack[EVAL_DEPTH];
	unsigned n;  /* values on the stack */
	bool is_bad; /* the expression is not supported, or needs what must not be read */
};

static void
push(struct eval *e, uint64_t v) {
	if (e->n == EVAL_DEPTH) {
		e->is_bad = true;
		return;
	}
	e->stack[e->n++] = v;
}

static uint64_t
pop(struct eval *e) {
	if (e->n == 0) {
		e->is_bad = true;
		return 0;
	}
	return e->stack[--e->n];
}

/* Pushes a register plus an offset (DW_OP_breg*). */
static void
eval_register(struct eval *e, unsigned reg) {
	uint64_t off = (uint64_t)read_sleb(&e->c);
	switch (reg) {
	case REG_FP:
		push(e, e->regs->fp + off);
		break;
	case REG_SP:
		push(e, e->regs->sp + off);
		break;
	case REG_PC:
		push(e, e->regs->pc + off);
		break;
	default:
		e->is_bad = true;
		break;
	}
}

/*
 * Replaces the address on top of the stack by the word at that address. is_bad if the word overlaps
 * [dead, dead_end) or the kernel says that it cannot be read.
 */
static NO_SANITIZE_ADDRESS void
eval_deref(struct eval *e) {
	uintptr_t at = (uintptr_t)pop(e);
	uintptr_t v = 0;
	bool is_dead = at + sizeof(v) > e->regs->dead && at < e->regs->dead_end;
	e->is_bad = e->is_bad || is_dead || !sys_is_readable((const void *)at, sizeof(v));
	if (!e->is_bad) {
		__builtin_memcpy(&v, (const void *)at, sizeof(v));
		push(e, v);
	}
}

/* The result of an operation on two values, of which b was pushed last. */
static uint64_t
eval_pair(struct eval *e, unsigned op, uint64_t a, uint64_t b) {
	switch (op) {
	case OP_AND:
		return a & b;
	case OP_PLUS:
		return a + b;
	case OP_SHL:
		return b < 64 ? a << b : 0;
	case OP_GE:
		return (int64_t)a >= (int64_t)b;
	default:
		e->is_bad = true;
		return 0;
	}
}

static void
eval_one(struct eval *e) {
	unsigned op = (unsigned)read_bytes(&e->c, 1);
	if (op >= OP_LIT0 && op < OP_LIT0 + 32) {
		push(e, op - OP_LIT0);
	} else if (op >= OP_BREG0 && op < OP_BREG0 + 32) {
		eval_register(e, op - OP_BREG0);
	} else if (op == OP_DEREF) {
		eval_deref(e);
	} else if (op == OP_PLUS_UCONST) {
		push(e, pop(e) + read_uleb(&e->c));
	} else {
		uint64_t b = pop(e), a = pop(e);
		push(e, eval_pair(e, op, a, b));
	}
}

bool
cfi_eval(const unsigned char *expr, size_t len, const struct cfi_regs_s *regs, uintptr_t *value) {
	struct eval e = {.c = {expr, expr + len, false}, .regs = regs};
	while (e.c.p < e.c.end && !e.c.is_bad && !e.is_bad) {
		eval_one(&e);
	}
	*value = (uintptr_t)pop(&e);
	return !e.c.is_bad && !e.is_bad;
}
