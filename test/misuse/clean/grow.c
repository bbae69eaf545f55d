/* Buffers that grow into their usable size before they are made longer, and shrink again. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

int
main(void) {
	unsigned long moves = 0, wrong = 0;

	for (int round = 0; round < 50; round++) {
		size_t n = 0;
		char *p = NULL;

		for (; n < 100000; n++) {
			if (n >= malloc_usable_size(p)) {
				p = realloc(p, n + n / 16 + 1);
				moves++;
			}
			p[n] = (char)n;
		}
		for (; n > 0; n /= 2) {
			p = realloc(p, n);
			for (size_t i = 0; i < n; i++)
				wrong += p[i] != (char)i;
		}
		free(p);
	}
	printf("%d %lu\n", moves > 50, wrong);
	return 0;
}
