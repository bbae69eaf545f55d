/* One byte is written in front of a buffer that fills its pages, which is then freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(BUFFER));

	*(char *)keep(p - 1) = 1;
	free(keep(p));
	return 0;
}
