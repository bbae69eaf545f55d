/* A small block is written to after it was freed; then many more are made. */
#include "crime.h"

int
main(void) {
	char *p = keep(malloc(128));

	free(p);
	*(char *)keep(p + 128 / 2 + 1) = 7;
	for (int i = 0; i < many(); i++)
		free(keep(malloc(128)));
	return 0;
}
