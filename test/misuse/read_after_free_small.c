/* A small block is read after it was freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(128));

	memset(p, 7, 128);
	free(p);
	return is_all_zero(keep(p), 128) ? READ_ZERO : 0;
}
