/* The 16th byte behind a large block is written, which is then freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(LARGE));

	*(char *)keep(p + LARGE + 15) = 0;
	free(keep(p));
	return 0;
}
