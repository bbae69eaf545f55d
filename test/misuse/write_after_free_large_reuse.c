/* A large block is written to after it was freed; then many more are made. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(LARGE));

	free(p);
	*(char *)keep(p + LARGE / 2 + 1) = 7;
	for (int i = 0; i < many(); i++)
		free(keep(malloc(LARGE)));
	return 0;
}
