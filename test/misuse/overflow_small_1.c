/* One byte is written behind a small block, which is then freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(8));

	*(char *)keep(p + 8) = 1;
	free(keep(p));
	return 0;
}
