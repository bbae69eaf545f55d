/*
 * A block of 1 MB that realloc has moved, since another one lies behind it, is freed by its old
 * address.
 */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(1 << 20));

	keep(malloc(1 << 20));
	keep(realloc(p, 64 << 20));
	free(keep(p));
	return not_caught();
}
