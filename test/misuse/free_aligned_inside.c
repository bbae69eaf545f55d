/* The middle of an aligned block is freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(aligned_alloc(4096, 16384));

	free(keep(p + 4096));
	return not_caught();
}
