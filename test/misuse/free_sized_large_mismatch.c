/* free_sized is told the size of a small block for one of 1 MB. */
#include "crime.h"

int
main(void) {
	free_sized(keep(malloc(1 << 20)), 64);
	return 0;
}
