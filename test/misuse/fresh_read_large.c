/* A large block is read before it was written: the first of its size. */
#include "crime.h"

int
main(void) {
	return is_all_zero(keep(malloc(LARGE)), LARGE) ? READ_ZERO : 0;
}
