/* Leaks a known amount from two functions that can be told apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));
void *volatile kept[2000];

__attribute__((noinline)) void
leak_a_lot(int i) {
	kept[i] = malloc(10000);
	memset(kept[i], 1, 10000);
}

__attribute__((noinline)) void
leak_a_little(int i) {
	kept[i] = malloc(100);
}

__attribute__((noinline)) void
leak_nothing(void) {
	void *volatile p = malloc(5000);

	free(p);
}

static void
dump(void) {
	if (mallctl != NULL && mallctl("prof.dump", NULL, NULL, NULL, 0) != 0)
		puts("prof.dump failed");
}

int
main(int argc, char **argv) {
	int twice = argc > 1 && strcmp(argv[1], "dump") == 0;
	int later = argc > 1 && strcmp(argv[1], "later") == 0;
	_Bool on = 1;

	if (later) {
		leak_a_lot(1999);	/* before the switch: in no profile */
		if (mallctl("prof.active", NULL, NULL, &on, sizeof(on)) != 0)
			puts("prof.active failed");
	}
	for (int i = 0; i < 100; i++) {
		leak_a_lot(i);
		leak_nothing();
	}
	if (twice)
		dump();
	for (int i = 100; i < 600; i++)
		leak_a_little(i);
	for (int i = 600; i < 650; i++)
		leak_a_lot(i);
	if (twice || later)
		dump();
	return 0;
}
