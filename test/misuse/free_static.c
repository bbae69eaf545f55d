/* A static variable is freed. */
#include "crime.h"

int
main(void) {
	static char text[100];

	free(keep(text));
	return not_caught();
}
