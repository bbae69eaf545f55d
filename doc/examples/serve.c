/* A server that serves itself: a request each millisecond, of which every tenth leaves something in a cache. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CACHED 4096
#define CACHED_BYTES ((size_t)32 << 10)
#define REQUEST_BYTES ((size_t)16 << 10)

static void *volatile cache[CACHED];

void
remember(unsigned n) {
	void *old = cache[n % CACHED];
	cache[n % CACHED] = memset(malloc(CACHED_BYTES), 1, CACHED_BYTES);
	free(old);
}

void
serve(unsigned n) {
	char *volatile answer = memset(malloc(REQUEST_BYTES), (int)n, REQUEST_BYTES);
	if (n % 10 == 0) {
		remember(n / 10);
	}
	free(answer);
}

/* usage: serve [SECONDS] */
int
main(int argc, char **argv) {
	unsigned seconds = argc > 1 ? (unsigned)atoi(argv[1]) : 60;
	struct timespec tick = {0, 1000000};
	for (unsigned n = 0; n < seconds * 1000; n++) {
		serve(n);
		nanosleep(&tick, NULL);
	}
	return 0;
}
