/* One byte is written behind a block of 20000 bytes, which a thread caches. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(20000));

	*(char *)keep(p + 20000) = 0;
	free(p);
	return 0;
}
