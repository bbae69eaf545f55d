/* Allocates 1 MiB a hundred times; keeps half of it. */
#include <stdlib.h>
#include <string.h>

#define STEPS 100
#define STEP_BYTES ((size_t)1 << 20)

static void *volatile kept[STEPS];

void
keep(int i) {
	kept[i] = malloc(STEP_BYTES);
	memset(kept[i], 1, STEP_BYTES);
}

int
main(void) {
	for (int i = 0; i < STEPS; i++) {
		keep(i);
		if (i % 2 == 1) {
			free(kept[i]);
		}
	}
	return 0;
}
