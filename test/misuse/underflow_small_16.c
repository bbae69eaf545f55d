/* The 16th byte in front of a small block is written, which is then freed. */
#include "crime.h"

int
main(void) {
	void *p[8];

	blocks(p, 8, 100);
	*((char *)keep(p[5]) - 16) = 1;
	for (int i = 0; i < 8; i++)
		free(keep(p[i]));
	return 0;
}
