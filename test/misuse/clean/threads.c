/* Blocks of many sizes that one thread allocates, another resizes and a third one frees. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 20000, STAGES = 3 };

static char *_Atomic box[STAGES][64];

static void *
stage(void *arg) {
	long me = (long)arg;

	for (int i = 0; i < N; i++) {
		size_t size = 1 + (size_t)i * 37 % 3000;
		char *p = NULL;

		if (me == 0) {
			p = malloc(size);
			memset(p, 'a', size);
		} else {
			while ((p = atomic_exchange(&box[me - 1][i % 64], NULL)) == NULL)
				continue;
			p = realloc(p, size + 20);
			p[size + 19] = 'b';
		}
		if (me == STAGES - 1) {
			free(p);
			continue;
		}
		for (char *none = NULL; !atomic_compare_exchange_weak(&box[me][i % 64], &none, p);)
			none = NULL;
	}
	return NULL;
}

int
main(void) {
	pthread_t t[STAGES];

	for (long i = 0; i < STAGES; i++)
		pthread_create(&t[i], NULL, stage, (void *)i);
	for (int i = 0; i < STAGES; i++)
		pthread_join(t[i], NULL);
	puts("done");
	return 0;
}
