/* free_sized is told the size of a larger block. */
#include "crime.h"

int
main(void) {
	free_sized(keep(malloc(64)), 200);
	return 0;
}
