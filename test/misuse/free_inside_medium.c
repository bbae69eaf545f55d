/* A pointer into a block of 5000 bytes is freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(5000));

	free(keep(p + 2048));
	return not_caught();
}
