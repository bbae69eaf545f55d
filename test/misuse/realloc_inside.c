/* A pointer into a block is resized. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(1 << 20));

	free(keep(realloc(keep(p + (256 << 10)), 3 << 20)));
	return not_caught();
}
