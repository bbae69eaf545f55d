/* A pointer that is not even aligned is freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(64));

	free(keep(p + 1));
	return not_caught();
}
