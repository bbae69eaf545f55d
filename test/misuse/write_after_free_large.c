/* A large block is written to after it was freed, and the program ends. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(LARGE));

	free(p);
	*(char *)keep(p + LARGE / 2 + 1) = 7;
	return 0;
}
