/* A place far behind in the slabs of small blocks is freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(16));

	free(keep(p + (1 << 20)));
	return 0;
}
