/* A pointer into a block of 1 MB is freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(1 << 20));

	free(keep(p + 65536));
	return not_caught();
}
