/* A variable of the stack is freed. */
#include "crime.h"

int
main(void) {
	char text[100];

	free(keep(text));
	return not_caught();
}
