/* A block of 8000 bytes is freed twice. */
#include "crime.h"

int
main(void) {
	void *p = keep(malloc(8000));

	free(p);
	free(keep(p));
	return not_caught();
}
