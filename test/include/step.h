/*
 * Stops after each instruction: the processor's trap flag raises SIGTRAP, whose handler is the
 * test's. The handler itself is not stepped.
 */
#pragma once

#include <stdbool.h>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define CAN_STEP 1
#else
#define CAN_STEP 0
#endif

#if CAN_STEP

/* Below what the compiler may keep under the stack pointer. */
static inline __attribute__((always_inline)) void
step(bool is_on) {
	unsigned long flags;
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tpop %0\n\tlea 128(%%rsp), %%rsp"
	    : "=r"(flags)::"memory");
	flags = is_on ? flags | 0x100 : flags & ~0x100ul;
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\tpush %0\n\tpopfq\n\tlea 128(%%rsp), %%rsp"
	    ::"r"(flags) : "memory", "cc");
}

#endif
