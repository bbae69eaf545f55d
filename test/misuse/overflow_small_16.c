/* The 16th byte behind a small block is written, which is then freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(40));

	*(char *)keep(p + 55) = 1;
	free(keep(p));
	return 0;
}
