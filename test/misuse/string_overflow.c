/* A string is copied into a block that has no room for its end. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(16));

	strcpy(p, keep("sixteen letters."));
	free(keep(p));
	return 0;
}
