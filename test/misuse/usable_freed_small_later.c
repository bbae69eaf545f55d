/* The size of a small block is asked for that was freed a while ago. */
#include "crime.h"
#include <malloc.h>

int
main(void) {
	void *p[100];

	blocks(p, 100, 16);
	for (int i = 0; i < 100; i++)
		free(p[i]);
	return malloc_usable_size(keep(p[5])) > 1000;
}
