/* A large block is read after it was freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(LARGE));

	memset(p, 7, LARGE);
	free(p);
	return is_all_zero(keep(p), LARGE) ? READ_ZERO : 0;
}
