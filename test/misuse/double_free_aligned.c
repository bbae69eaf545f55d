/* An aligned block of 3000 bytes is freed twice. */
#include "crime.h"

int
main(void) {
	void *p = keep(aligned_alloc(1024, 3000));

	free(p);
	free(keep(p));
	return not_caught();
}
