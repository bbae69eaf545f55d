/* A block of no bytes is read. */
#include "crime.h"

int
main(void) {
	volatile char *p = keep(malloc(0));

	return p[0] == 0 ? 0 : 1;
}
