/*
 * For programs that test functions inside of jeprofd (inside_*.c, ends.c, queue.c): compares two
 * numbers, and prints what is wrong. `bad`, 1 after a difference, is the program's exit status.
 */
#pragma once
#include <stdio.h>

static int bad;

static void
expect(const char *what, long long got, long long want) {
	if (got != want) {
		printf("# %s: %lld, not %lld\n", what, got, want);
		bad = 1;
	}
}
