/* A pointer one byte into a large block is freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(LARGE));

	free(keep(p + 1));
	return 0;
}
