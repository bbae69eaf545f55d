/* The size of a pointer into a large block is asked for. */
#include "crime.h"
#include <malloc.h>

int
main(void) {
	char *p = keep(malloc(LARGE));

	/* In the first page, wherever in it the block begins: the map has no pages behind it. */
	return malloc_usable_size(keep(p + 16)) > 1000;
}
