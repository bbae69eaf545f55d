/*
 * Reads machine code: calls, their targets, and the instructions that set a frame pointer (code.h).
 * Invariant: only bytes are read that the kernel has confirmed as readable; one confirmed byte
 * stands for its whole page. (A page that another thread unmaps at the same time can still fault.)
 * The bytes may be data, or may begin inside an instruction, so what is found proves nothing; it
 * only makes a wrong step unlikely. code_keeps_frame(pc, ra) does not confirm the bytes before ra
 * again: unless ra is 0, its caller has called code_is_call_in_object(ra), which confirms them. No
 * lock, no state. Called by unwind_step.c.
 */
#include "unwind/code.h"

#include "os/pages.h"
#include "os/sys.h"
#include "unwind/objects.h"
#include "unwind/unwind_rows.h"
#include "util/bits.h"

/* The instruction that sets a function's frame pointer is searched in so many bytes before pc. */
#define FUNCTION_MAX (ZU(16) << 10)
/*
 * Bytes from the begin of a function in which it must set its frame pointer, if the call names the
 * function. Also: when fewer confirmed bytes than this lie below the place that find_setting() has
 * reached, it asks for the page below them. (sets_frame() reads at most 16 bytes below the place.)
 */
#define BEGIN_MAX 64u
/*
 * Bytes before a return address that must be readable: those of x86-64's longest call. (A call of
 * aarch64 has 4.)
 */
#define CALL_MAX 7
/* Greatest number of bytes that are read of a stub (it jumps to a function of another object). */
#define STUB_MAX 12

#if defined(__x86_64__)

static NO_SANITIZE_ADDRESS uint32_t
read_32(uintptr_t at) {
	uint32_t v;
	__builtin_memcpy(&v, (const void *)at, sizeof(v));
	return v;
}

/* The word at end + distance, as of an operand relative to pc; 0 if it cannot be read. */
static NO_SANITIZE_ADDRESS uintptr_t
word_at(uintptr_t end, uint32_t distance) {
	uintptr_t v = 0, at = end + (uintptr_t)(int32_t)distance;
	if (sys_is_readable((const void *)at, sizeof(v))) {
		__builtin_memcpy(&v, (const void *)at, sizeof(v));
	}
	return v;
}

/* Whether a call may end at ra; the CALL_MAX bytes before ra can be read. */
static NO_SANITIZE_ADDRESS bool
is_after_call(uintptr_t ra) {
	const unsigned char *p = (const unsigned char *)ra;
	/* call rel32; or a call through a register or memory (0xff /2) of 2 to 7 bytes. */
	if (p[-5] == 0xe8) {
		return true;
	}
	for (int n = 2; n <= CALL_MAX; n++) {
		if (p[-n] == 0xff && (p[-n + 1] & 0x38) == 0x10) {
			return true;
		}
	}
	return false;
}

/*
 * If a stub of the linkage table is at `at`: the function to which it jumps; otherwise `at`. The
 * function is in a slot, which the loader fills at the first call at the latest; the call before ra
 * has been made.
 */
static NO_SANITIZE_ADDRESS uintptr_t
follow_stub(uintptr_t at) {
	if (at == 0 || !sys_is_readable((const void *)at, STUB_MAX)) {
		return at;
	}
	uintptr_t p = at;
	p += read_32(p) == 0xfa1e0ff3 ? 4 : 0;
	p += *(const unsigned char *)p == 0xf2 ? 1 : 0;
	bool is_jump = (read_32(p) & 0xffff) == 0x25ff;
	uintptr_t function = is_jump ? word_at(p + 6, read_32(p + 2)) : 0;
	return function != 0 ? function : at;
}

/*
 * The function that the call before ra names, by its address or by a slot of the table of addresses
 * (GOT); 0: the call has another form. The CALL_MAX bytes before ra can be read.
 */
static NO_SANITIZE_ADDRESS uintptr_t
call_target(uintptr_t ra) {
	const unsigned char *p = (const unsigned char *)ra;
	if (p[-5] == 0xe8) {
		return follow_stub(ra + (uintptr_t)(int32_t)read_32(ra - 4));
	}
	bool is_by_slot = p[-6] == 0xff && p[-5] == 0x15;
	return is_by_slot ? word_at(ra, read_32(ra - 4)) : 0;
}

/*
 * Whether "mov %rsp,%rbp" is at p, with a "push %rbp" among the 16 bytes before it; bytes before lo
 * must not be read.
 */
static NO_SANITIZE_ADDRESS bool
sets_frame(uintptr_t p, uintptr_t lo) {
	static const unsigned char forms[2][3] = {{0x48, 0x89, 0xe5}, {0x48, 0x8b, 0xec}};
	const unsigned char *at = (const unsigned char *)p;
	if (memcmp(at, forms[0], 3) != 0 && memcmp(at, forms[1], 3) != 0) {
		return false;
	}
	for (uintptr_t n = 1; n <= 16 && n <= p - lo; n++) {
		if (at[-(intptr_t)n] == 0x55) {
			return true;
		}
	}
	return false;
}

/*
 * Whether a function that has a frame pointer ends at p: the pointer is restored (pop or leave)
 * before a return or a jump.
 */
static NO_SANITIZE_ADDRESS bool
ends_frame(uintptr_t p) {
	const unsigned char *at = (const unsigned char *)p;
	return (at[0] == 0x5d || at[0] == 0xc9) && (at[1] == 0xc3 || at[1] == 0xc2 || at[1] == 0xf3
	    || at[1] == 0xe9 || at[1] == 0xeb);
}

/* Bytes of the instruction that sets a frame pointer, and step in bytes by which it is searched. */
#define SETS_BYTES 3u
#define SETS_STEP 1u

#else /* aarch64 */

/* Whether a call ends at ra (bl, blr); the CALL_MAX bytes before ra can be read. */
static NO_SANITIZE_ADDRESS bool
is_after_call(uintptr_t ra) {
	uint32_t insn = *(const uint32_t *)(ra - 4);
	return (insn & 0xfc000000) == 0x94000000 || (insn & 0xfffffc00) == 0xd63f0000;
}

/*
 * The function that the call before ra names. 0: it calls through a register, or the target is a
 * stub of the linkage table (adrp) or cannot be read.
 */
static NO_SANITIZE_ADDRESS uintptr_t
call_target(uintptr_t ra) {
	uint32_t insn = *(const uint32_t *)(ra - 4);
	if ((insn & 0xfc000000) != 0x94000000) {
		return 0;
	}
	uintptr_t to = ra - 4 + (uintptr_t)((int64_t)(int32_t)(insn << 6) >> 4);
	bool is_unknown = !sys_is_readable((const void *)to, STUB_MAX)
	    || (*(const uint32_t *)to & 0x9f00001f) == 0x90000010
	    || (*(const uint32_t *)(to + 4) & 0x9f00001f) == 0x90000010;
	return is_unknown ? 0 : to;
}

/* Whether "add x29, sp, #n" is at p; "mov x29, sp" is one of these. */
static NO_SANITIZE_ADDRESS bool
sets_frame(uintptr_t p, uintptr_t lo UNUSED) {
	return (*(const uint32_t *)p & 0xffc003ff) == 0x910003fd;
}

/* Whether a function, with or without a frame pointer, ends at p: there is a return. */
static NO_SANITIZE_ADDRESS bool
ends_frame(uintptr_t p) {
	uint32_t insn = *(const uint32_t *)p;
	return insn == 0xd65f03c0 || insn == 0xd65f0bff || insn == 0xd65f0fff;
}

/* Bytes of the instruction that sets a frame pointer, and step: all instructions have 4 bytes. */
#define SETS_BYTES 4u
#define SETS_STEP 4u

#endif

bool
code_is_call_in_object(uintptr_t ra) {
	const void *hdr;
	return ra >= PAGE_MAX && objects_find(ra - 1, &hdr)
	    && sys_is_readable((const void *)(ra - CALL_MAX), CALL_MAX) && is_after_call(ra);
}

/*
 * The nearest place before pc where a frame pointer is set. 0: there is none, or a function seems
 * to end between that place and pc (ends_frame()). That end may be an early return of the same
 * function: then a caller is lost, which is better than a wrong one.
 */
static uintptr_t
find_setting(uintptr_t pc) {
	uintptr_t page = align_down(pc - 1, os_page_size), lo = page;
	uintptr_t limit = pc > FUNCTION_MAX ? pc - FUNCTION_MAX : 0;
	if (!sys_is_readable((const void *)page, 1)) {
		return 0;
	}
	for (uintptr_t p = align_down(pc - SETS_BYTES, SETS_STEP); p > limit; p -= SETS_STEP) {
		/*
		 * The page before lo is confirmed before p is close to lo, because sets_frame() looks back
		 * by 16 bytes. If it cannot be read, the search ends at lo.
		 */
		if (p < lo + BEGIN_MAX && lo > limit && sys_is_readable((const void *)(lo - 1), 1)) {
			lo -= os_page_size;
		}
		if (p < lo || ends_frame(p)) {
			return 0;
		}
		if (sets_frame(p, lo)) {
			return p;
		}
	}
	return 0;
}

bool
code_keeps_frame(uintptr_t pc, uintptr_t ra) {
	uintptr_t setting = find_setting(pc);
	if (setting == 0) {
		return false;
	}
	/* + 1: unwind_row_find() takes a return address, and looks up the byte before it. */
	unsigned kind = ROW_KIND(unwind_row_find(setting + 1));
	uintptr_t function = ra == 0 ? 0 : call_target(ra);
	/* A setting below the begin of the function is not of it: the difference wraps and is large. */
	bool is_of_call = function == 0 || setting - function <= BEGIN_MAX;
	return (kind == ROW_MISSING || kind == ROW_NO_FDE) && is_of_call;
}
