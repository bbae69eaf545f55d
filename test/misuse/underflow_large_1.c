/* One byte is written in front of a large block, which is then freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(LARGE));

	*(char *)keep(p - 1) = 1;
	free(keep(p));
	return 0;
}
