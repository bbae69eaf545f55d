/*
 * A program that bears NULL: every kind of request, small and large, in two threads, with
 * contents checked, and memory handed back and forth. Exit status 0 if what it got was
 * good, 9 if a failure did not say ENOMEM. With "dump" it writes a heap profile as well.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));

static int bad;

static void
complain(int status) {
	bad = status;
}

static void *
life(void *arg) {
	unsigned char *p[300] = {NULL};
	size_t size[300];
	uint64_t x = 88172645463325252u + (uintptr_t)arg;

	for (int i = 0; i < 6000; i++) {
		int at;
		unsigned char *old;

		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		at = (int)(x % 300);
		old = p[at];
		if (old != NULL && (old[0] != (unsigned char)at || old[size[at] - 1] != (unsigned char)at))
			complain(8);
		errno = 0;
		size[at] = 1 + (x >> 20) % (i % 100 == 0 ? 6000000 : i % 7 == 0 ? 60000 : 900);
		switch (old != NULL ? 5 + x % 2 : (x >> 40) % 3) {
		case 0:
			p[at] = calloc(1, size[at]);
			if (p[at] != NULL && (p[at][0] != 0 || p[at][size[at] - 1] != 0))
				complain(7);
			break;
		case 1:
			p[at] = aligned_alloc(256, size[at]);
			break;
		case 2:
			p[at] = malloc(size[at]);
			break;
		case 5:
			p[at] = realloc(old, size[at]);
			if (p[at] == NULL)
				free(old);
			break;
		default:
			free(old);
			p[at] = NULL;
			continue;
		}
		if (p[at] == NULL) {
			if (errno != ENOMEM)
				complain(9);
			continue;
		}
		p[at][0] = p[at][size[at] - 1] = (unsigned char)at;
	}
	for (int i = 0; i < 300; i++)
		free(p[i]);
	return NULL;
}

int
main(int argc, char **argv) {
	pthread_t t;
	int started;

	alarm(400);
	started = pthread_create(&t, NULL, life, (void *)1) == 0;
	life(NULL);
	if (started)
		pthread_join(t, NULL);
	if (argc > 1 && strcmp(argv[1], "dump") == 0 && mallctl != NULL) {
		const char *name = "dump.heap";

		for (int i = 0; i < 3; i++)
			mallctl("prof.dump", NULL, NULL, &name, sizeof(name));
	}
	if (mallctl != NULL)
		mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
	life(NULL);
	return bad;
}
