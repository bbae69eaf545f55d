/* A block of 20000 bytes, which a thread caches, is freed twice. */
#include "crime.h"

int
main(void) {
	void *p = keep(malloc(20000));

	free(p);
	free(keep(p));
	return not_caught();
}
