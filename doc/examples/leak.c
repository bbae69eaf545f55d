/* Forgets a block of 1000 bytes a hundred times, and frees everything else. */
#include <stdlib.h>

static void *volatile last;

void
forget_one(void) {
	last = malloc(1000);
}

void
use_and_free(void) {
	last = malloc(50000);
	free(last);
}

int
main(void) {
	for (int i = 0; i < 100; i++) {
		forget_one();
		use_and_free();
	}
	last = NULL;
	return 0;
}
