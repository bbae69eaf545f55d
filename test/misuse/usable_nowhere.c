/* The size of a static variable is asked for. */
#include "crime.h"

int
main(void) {
	static char text[100];

	if (sallocx(keep(text), 0) != 0)
		abort();
	return not_caught();
}
