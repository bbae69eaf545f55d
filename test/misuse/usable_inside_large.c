/* The size of a pointer into a large block is asked for. */
#include "crime.h"
#include <malloc.h>

int
main(void) {
	char *p = keep(malloc(LARGE));

	return malloc_usable_size(keep(p + 64)) > 1000;
}
