/* A block of 64 is freed as one of 200. */
#include "crime.h"

int
main(void) {
	void *p[100];

	blocks(p, 100, 64);
	for (int i = 0; i < 100; i++)
		sdallocx(p[i], 200, 0);
	return not_caught();
}
