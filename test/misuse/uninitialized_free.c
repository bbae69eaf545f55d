/* A pointer that was never set is freed. */
#include "crime.h"

int
main(void) {
	free(keep((void *)(uintptr_t)0xa5a5a5a5a5a5a5a5));
	return 0;
}
