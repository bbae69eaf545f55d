/* One byte is written behind 20 bytes, which lie in a class of 32. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(20));

	*(char *)keep(p + 20) = 0;
	free(p);
	return 0;
}
