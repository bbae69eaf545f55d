/* The size of a pointer one byte into a block is asked for. */
#include "crime.h"
#include <malloc.h>

int
main(void) {
	char *p = keep(malloc(16));

	return malloc_usable_size(keep(p + 1)) > 1000;
}
