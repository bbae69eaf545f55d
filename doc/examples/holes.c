/* Holes: of each sixteen entries that a phase makes, one stays. */
#include <stdlib.h>
#include <string.h>

enum { N = 400000 };
static char *entries[N];

static char *
entry(int i) {
	char *p = malloc(100);
	memset(p, i, 100);
	return p;
}

__attribute__((noinline)) static void
remember(int i) {
	entries[i] = entry(i);
}

__attribute__((noinline)) static void
work(int i) {
	entries[i] = entry(i);
}

int
main(void) {
	for (int i = 0; i < N; i++) {
		if (i % 16 == 0)
			remember(i);
		else
			work(i);
	}
	for (int i = 0; i < N; i++)
		if (i % 16 != 0)
			free(entries[i]);
	return 0;
}
