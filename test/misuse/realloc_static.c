/* A static variable is resized. */
#include "crime.h"

int
main(void) {
	static char text[100];

	keep(realloc(keep(text), 1000));
	return not_caught();
}
