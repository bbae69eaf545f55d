/* A block of 1 MB is freed as one of 2 MB. */
#include "crime.h"

int
main(void) {
	void *p = keep(malloc(1 << 20));

	sdallocx(p, 2 << 20, 0);
	return not_caught();
}
