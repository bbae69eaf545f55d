/* All that malloc_usable_size says is written and read, in every way to get a block. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long sum;

static char *
use(char *p) {
	size_t n = malloc_usable_size(p);

	memset(p, (int)n, n);
	for (size_t i = 0; i < n; i += 7)
		sum += (unsigned char)p[i] == (unsigned char)n;
	sum -= (n + 6) / 7;
	return p;
}

int
main(void) {
	static char *p[500];

	for (size_t size = 0; size < 40000; size += size / 9 + 1) {
		for (int i = 0; i < 500; i++) {
			free(p[i]);
			p[i] = use(i % 3 == 0 ? malloc(size) : i % 3 == 1 ? calloc(size, 1)
			    : aligned_alloc(64, size));
			if (i % 5 == 0)
				p[i] = use(realloc(p[i], malloc_usable_size(p[i]) + 1));
		}
	}
	printf("%lu wrong\n", sum);
	return 0;
}
