/* One byte is written behind a buffer that fills its pages, which is then freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(BUFFER));

	*(char *)keep(p + BUFFER) = 1;
	free(keep(p));
	return 0;
}
