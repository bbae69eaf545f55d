/* A small block is read before it was written, while another was used and freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(128));

	memset(p, 7, 128);
	free(p);
	return is_all_zero(keep(malloc(128)), 128) ? READ_ZERO : 0;
}
