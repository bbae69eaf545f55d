/* free_aligned_sized is told the size of a larger block. */
#include "crime.h"

int
main(void) {
	free_aligned_sized(keep(aligned_alloc(64, 64)), 64, 256);
	return 0;
}
