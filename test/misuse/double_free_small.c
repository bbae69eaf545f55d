/* The same small block is freed twice in a row. */
#include "crime.h"

int
main(void) {
	void *p = keep(malloc(64));

	free(p);
	free(keep(p));
	return not_caught();
}
