/* A pointer to no memory at all is freed. */
#include "crime.h"

int
main(void) {
	free(keep((void *)(uintptr_t)0x123456789000));
	return not_caught();
}
