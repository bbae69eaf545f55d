/*
 * A small program that uses memory in every way that a process has: constructors, main,
 * threads, exit handlers and destructors. "yes" says that the library serves it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));

static char *from_constructor;

__attribute__((constructor)) static void
early(void) {
	from_constructor = strdup("made by a constructor");
}

__attribute__((destructor)) static void
late(void) {
	char *p = malloc(1000);

	memset(p, 1, 1000);
	free(p);
	free(from_constructor);
}

static void
at_exit(void) {
	free(calloc(10, 1000));
}

static void *
thread(void *arg) {
	for (int i = 1; i < 2000; i++) {
		char *p = malloc((size_t)i * 17);

		p[i] = 1;
		p = realloc(p, (size_t)i * 31);
		free(p);
	}
	return arg;
}

int
main(void) {
	const char *version = NULL;
	size_t len = sizeof(version);
	pthread_t t[4];
	void *p[3000];

	atexit(at_exit);
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, thread, NULL);
	for (int i = 0; i < 3000; i++) {
		p[i] = malloc((size_t)(i * 11 % 5000 + 1));
		memset(p[i], i, (size_t)(i * 11 % 5000 + 1));
	}
	for (int i = 0; i < 3000; i++)
		free(p[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	if (mallctl != NULL)
		mallctl("version", &version, &len, NULL, 0);
	printf("served by the library: %s\n", version != NULL ? "yes" : "no");
	return strcmp(from_constructor, "made by a constructor") != 0;
}
