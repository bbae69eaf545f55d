/* A block of 1 MB is freed twice in a row. */
#include "crime.h"

int
main(void) {
	void *p = keep(malloc(1 << 20));

	free(p);
	free(keep(p));
	return not_caught();
}
