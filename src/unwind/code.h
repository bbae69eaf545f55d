/*
 * What the machine code around an address says, for steps where there is no unwind information:
 * whether a word can be a return address, and whether a function keeps a frame pointer. Without
 * these two checks a word that an earlier call has left on the stack could be taken for a caller.
 * Any address may be passed: memory is read only if the kernel confirms it. No lock, no state.
 * Called by unwind_step.c.
 */
#ifndef UNWIND_CODE_H
#define UNWIND_CODE_H

#include "util/compiler.h"

/* Whether a call in a loaded object seems to end at ra, so that ra can be a return address. */
bool code_is_call_in_object(uintptr_t ra);

/*
 * Whether the function that contains the instruction before pc very likely keeps a frame pointer:
 * an instruction before pc sets the frame pointer, no function ends between the two, no unwind
 * information covers that instruction and, if the call before ra names its target, that instruction
 * is among the first bytes of the target. pc lies in an object. ra is a return address for which
 * code_is_call_in_object() is true, or 0.
 */
bool code_keeps_frame(uintptr_t pc, uintptr_t ra);

#endif
