/* One byte is written in front of a small block, which is then freed. */
#include "crime.h"

int
main(void) {
	void *p[8];

	blocks(p, 8, 100);
	*((char *)keep(p[5]) - 1) = 1;
	for (int i = 0; i < 8; i++)
		free(keep(p[i]));
	return 0;
}
