/* A small block is freed by two threads. */
#include "crime.h"
#include <pthread.h>

static void *
release(void *p) {
	free(p);
	return NULL;
}

int
main(void) {
	void *p = keep(malloc(100));
	pthread_t t;

	for (int i = 0; i < 2; i++) {
		pthread_create(&t, NULL, release, p);
		pthread_join(t, NULL);
	}
	return not_caught();
}
