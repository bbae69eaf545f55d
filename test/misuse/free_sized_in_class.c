/* free_sized is told another size of the same class. */
#include "crime.h"

int
main(void) {
	free_sized(keep(malloc(57)), 60);
	return 0;
}
