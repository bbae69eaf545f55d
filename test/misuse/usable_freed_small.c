/* The size of a freed small block is asked for. */
#include "crime.h"
#include <malloc.h>

int
main(void) {
	void *p = keep(malloc(16));

	free(p);
	return malloc_usable_size(keep(p)) > 1000;
}
