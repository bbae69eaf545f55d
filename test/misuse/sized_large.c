/* A block of 1 MB is freed as one of 64. */
#include "crime.h"

int
main(void) {
	void *p = keep(malloc(1 << 20));

	sdallocx(p, 64, 0);
	return not_caught();
}
