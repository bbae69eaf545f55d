/* One byte is written behind a block that realloc made smaller in its place. */
#include "crime.h"

int
main(void) {
	char *p = keep(realloc(keep(malloc(30)), 25));

	*(char *)keep(p + 25) = 0;
	free(keep(realloc(p, 1000)));
	return 0;
}
