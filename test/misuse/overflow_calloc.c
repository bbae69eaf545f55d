/* One byte is written behind a block that calloc made. */
#include "crime.h"

int
main(void) {
	char *p = keep(calloc(5, 8));

	*(char *)keep(p + 40) = 1;
	free(p);
	return 0;
}
