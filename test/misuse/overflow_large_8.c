/* Eight bytes are written behind a large block, which is then freed. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(LARGE));

	memset(keep(p + LARGE), 0, 8);
	free(keep(p));
	return 0;
}
