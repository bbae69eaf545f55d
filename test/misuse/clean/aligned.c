/* Each alignment with each size, all of it written, freed by free(). */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
main(void) {
	unsigned wrong = 0;
	void *held[64] = {NULL};

	for (size_t alignment = 8; alignment <= 1 << 16; alignment *= 2) {
		for (size_t size = 1; size < 70000; size += size / 5 + 1) {
			void **p = &held[size % 64];

			free(*p);
			if (posix_memalign(p, alignment, size) != 0)
				return 1;
			wrong += ((uintptr_t)*p & (alignment - 1)) != 0;
			memset(*p, 1, size);
		}
	}
	free(memalign(256, 100));
	free(valloc(5000));
	free(pvalloc(1));
	printf("%u wrong\n", wrong);
	return 0;
}
