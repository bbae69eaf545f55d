/* The place of a block that was not given out is freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(16));

	free(keep(p + 16 * 10));
	return 0;
}
