/* A function is freed. */
#include "crime.h"

int
main(void) {
	free(keep((void *)(uintptr_t)main));
	return not_caught();
}
