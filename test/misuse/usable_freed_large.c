/* The size of a freed large block is asked for. */
#include "crime.h"
#include <malloc.h>

int
main(void) {
	void *p = keep(malloc(LARGE));

	free(p);
	return malloc_usable_size(keep(p)) > 1000;
}
