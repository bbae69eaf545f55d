/* A block of no bytes is written to. */
#include "crime.h"

int
main(void) {
	volatile char *p = keep(malloc(0));

	p[0] = 5;
	return 0;
}
