/* A block of 1 MB is freed again after another was made. */
#include "crime.h"

int
main(void) {
	void *p = keep(malloc(1 << 20));
	void *q = keep(malloc(1 << 20));

	free(p);
	free(q);
	free(keep(p));
	return not_caught();
}
