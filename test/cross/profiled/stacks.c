/*
 * A program whose stacks are known, for scripts/cross-tests: two callers of one function, which
 * hold 100 and 50 blocks of 1000 bytes, and a pair of malloc and free below DEPTH further calls.
 * usage: stacks PAIRS DEPTH
 */
#include <stdlib.h>

static void *volatile last;

__attribute__((noinline)) void
hold_block(void) {
	last = malloc(1000);
}

__attribute__((noinline)) void
left_branch(int n) {
	for (int i = 0; i < n; i++) {
		hold_block();
	}
}

__attribute__((noinline)) void
right_branch(int n) {
	for (int i = 0; i < n; i++) {
		hold_block();
	}
	last = NULL;
}

__attribute__((noinline)) void
pair(void) {
	last = malloc(100);
	free(last);
}

__attribute__((noinline)) void
descend(int depth) {
	if (depth == 0) {
		pair();
	} else {
		descend(depth - 1);
	}
	__asm__ volatile("");
}

int
main(int argc, char **argv) {
	int pairs = argc > 1 ? atoi(argv[1]) : 0;
	int depth = argc > 2 ? atoi(argv[2]) : 0;
	left_branch(100);
	right_branch(50);
	for (int i = 0; i < pairs; i++) {
		descend(depth);
	}
	return 0;
}
