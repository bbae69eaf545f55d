/*
 * Pseudo-random numbers for models in programs that are built without test.h: the same ones in each
 * run. One thread.
 */
#pragma once
#include <stdint.h>

/* A number below 2^31. */
static inline uint64_t
draw(void) {
	static uint64_t state = 1;
	state = state * 6364136223846793005u + 1442695040888963407u;
	return state >> 33;
}

/* A number below n. */
static inline unsigned
pick(unsigned n) {
	return (unsigned)draw() % n;
}
