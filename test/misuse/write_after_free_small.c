/* A small block is written to after it was freed, and the program ends. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(128));

	free(p);
	*(char *)keep(p + 128 / 2 + 1) = 7;
	return 0;
}
