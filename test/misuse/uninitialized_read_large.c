/* A large block is read before it was written, while another was used and freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(LARGE));

	memset(p, 7, LARGE);
	free(p);
	return is_all_zero(keep(malloc(LARGE)), LARGE) ? READ_ZERO : 0;
}
