/*
 * What the machine code around an address says: whether a word can be a return address, and whether
 * a function keeps a frame pointer. Both are guesses. The stack may still hold return addresses of
 * earlier calls, which have returned; without these two checks a step could take such an address
 * for that of the caller. unwind_step.c asks both for steps where there is no unwind information,
 * and the first for steps by a row to another stack. Code is read only where the kernel has just
 * confirmed that it can be read, so a wrong address does not fault (unless another thread unmaps it
 * in between). errno is preserved. No lock, no state of its own.
 */
#pragma once

#include "util/compiler.h"

/*
 * Whether ra can be a return address: the bytes directly before ra lie in a loaded object and look
 * like a call instruction. ra may have any value.
 */
bool code_is_call_in_object(uintptr_t ra);

/*
 * Whether the function that contains the instruction before pc very likely keeps a frame pointer.
 * All of this must hold: an instruction that sets the frame pointer stands before pc, at most 16
 * KiB (FUNCTION_MAX in code.c); no function seems to end between that instruction and pc; no unwind
 * information covers the instruction; and if the call before ra has a known target, the instruction
 * is at most 64 bytes (BEGIN_MAX) behind the target.
 * pc - 1 lies in a loaded object. ra is the address to which this function returns, so it lies in
 * its caller, and code_is_call_in_object(ra) is true; 0: it is not known, and the last condition is
 * not checked.
 */
bool code_keeps_frame(uintptr_t pc, uintptr_t ra);
