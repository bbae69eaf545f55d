/* The 16th byte in front of a large block is written, which is then freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(LARGE));

	*(char *)keep(p - 16) = 1;
	free(keep(p));
	return 0;
}
