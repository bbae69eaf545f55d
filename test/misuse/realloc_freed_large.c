/* A block that its thread's cache holds is made smaller. */
#include "crime.h"

int
main(void) {
	void *p[64];

	for (int round = 0; round < 8; round++) {
		blocks(p, 64, 65536);
		for (int i = 0; i < 64; i++)
			free(p[i]);
	}
	p[0] = keep(realloc(keep(p[63]), 32768 + 4096));
	return not_caught();
}
