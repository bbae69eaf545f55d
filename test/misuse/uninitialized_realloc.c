/* A pointer that was never set is resized. */
#include "crime.h"

int
main(void) {
	keep(realloc(keep((void *)(uintptr_t)0xa5a5a5a5a5a5a5a5), 16));
	return 0;
}
