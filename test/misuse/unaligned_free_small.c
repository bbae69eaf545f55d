/* A pointer one byte into a small block is freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(16));

	free(keep(p + 1));
	return 0;
}
