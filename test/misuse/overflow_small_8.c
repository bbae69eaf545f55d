/* Eight bytes are written behind a small block, which is then freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(8));

	memset(keep(p + 8), 1, 8);
	free(keep(p));
	return 0;
}
