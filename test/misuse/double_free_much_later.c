/* A small block is freed again after a thousand others. */
#include "crime.h"

int
main(void) {
	static void *p[1000];

	blocks(p, 1000, 64);
	for (int i = 0; i < 1000; i++)
		free(p[i]);
	free(keep(p[3]));
	return not_caught();
}
