/* A pointer into a small block is freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(64));

	free(keep(p + 16));
	return not_caught();
}
