/* Writes a profile before and after a piece of work: what did the work leave behind? */
#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <stdlib.h>

static void *volatile table[3000];

void
load(int from, int to, size_t size) {
	for (int i = from; i < to; i++) {
		table[i] = malloc(size);
	}
}

void
dump(const char *when) {
	/* NULL: the name is made from prof_prefix. */
	int err = mallctl("prof.dump", NULL, NULL, NULL, 0);
	printf("dump %s: %s\n", when, err == 0 ? "written" : "failed");
}

int
main(void) {
	load(0, 1000, 500);
	dump("before");
	load(1000, 3000, 4000);
	dump("after");
	return 0;
}
