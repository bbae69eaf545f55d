/* The size of a pointer that was never set is asked for. */
#include "crime.h"
#include <malloc.h>

int
main(void) {
	return malloc_usable_size(keep((void *)(uintptr_t)0xa5a5a5a5a5a5a5a5)) > 1000;
}
