/* One byte is written behind a large block, which is then freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(LARGE));

	*(char *)keep(p + LARGE) = 0;
	free(keep(p));
	return 0;
}
