/*
 * What the machine code around an address says, for steps where no unwind information is: whether
 * a word can be a return address, and whether a function keeps a frame pointer. Without either, a
 * word that an earlier call has left on the stack would be taken for a caller. No lock, no state.
 * Called by unwind_step.c.
 */
#ifndef UNWIND_CODE_H
#define UNWIND_CODE_H

#include "util/compiler.h"

/* Whether ra is behind a call in a loaded object. */
bool code_is_call_in_object(uintptr_t ra);

/*
 * Whether the function that contains the instruction before pc is sure to keep a frame pointer.
 * That is so if an instruction before pc sets the frame pointer, no function ends between the two,
 * no unwind information covers that instruction and, if the call before ra names its target, that
 * instruction is among the first of the target. pc lies in an object. ra is 0, or behind a call.
 */
bool code_keeps_frame(uintptr_t pc, uintptr_t ra);

#endif
