/* A freed block of 1 MB is resized. */
#include "crime.h"

int
main(void) {
	void *p = keep(malloc(1 << 20));

	free(p);
	free(keep(realloc(keep(p), 3 << 20)));
	return not_caught();
}
