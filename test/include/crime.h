/* What the crimes of test/misuse share. The driver, misuse.t, looks at how they end. */
#ifndef TEST_CRIME_H
#define TEST_CRIME_H

#include "test.h"
#include <jemalloc/jemalloc.h>
#include <pthread.h>

/* Work that a program does after its crime: time enough for it to be noticed. */
TEST_FN int
not_caught(void)
{
	void *p[3000];

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 3000; i++)
			p[i] = keep(malloc((size_t)(i % 300 * 8 + 1)));
		for (int i = 0; i < 3000; i++)
			free(p[i]);
		mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
	}
	return 0;
}

/* Blocks of a size, in an order that is the same each time. */
TEST_FN void
blocks(void **p, int n, size_t size)
{
	for (int i = 0; i < n; i++)
		p[i] = keep(malloc(size));
}

#endif
