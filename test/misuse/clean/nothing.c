/* Blocks of no bytes, and NULL, everywhere. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
main(void) {
	void *p[1000];
	int same = 0;

	for (int i = 0; i < 1000; i++)
		p[i] = i % 2 != 0 ? malloc(0) : calloc(0, 8);
	for (int i = 1; i < 1000; i++)
		same += p[i] == p[i - 1] || p[i] == NULL;
	for (int i = 0; i < 1000; i++) {
		memset(p[i], 1, malloc_usable_size(p[i]));
		p[i] = realloc(p[i], (size_t)i + 1);
		memset(p[i], 1, (size_t)i + 1);
		free(p[i]);
	}
	free(NULL);
	free(realloc(NULL, 0));
	printf("%d %zu\n", same, malloc_usable_size(NULL));
	return 0;
}
