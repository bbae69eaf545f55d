/* A small block is freed again after others were. */
#include "crime.h"

int
main(void) {
	void *p[10];

	blocks(p, 10, 64);
	for (int i = 0; i < 10; i++)
		free(p[i]);
	free(keep(p[3]));
	return not_caught();
}
