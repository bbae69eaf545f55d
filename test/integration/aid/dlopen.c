/*
 * The library as a plug-in: opened late and privately, used from threads, closed while a
 * thread that used it lives on, and opened again.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *(*lib_malloc)(size_t);
static void (*lib_free)(void *);
static pthread_barrier_t used, closed;

static void *
thread(void *arg) {
	void *p[100];

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 100; i++) {
			p[i] = lib_malloc((size_t)(i * 100 + 1));
			memset(p[i], 1, (size_t)(i * 100 + 1));
		}
		for (int i = 0; i < 100; i++)
			lib_free(p[i]);
	}
	pthread_barrier_wait(&used);
	pthread_barrier_wait(&closed);
	return arg;
}

int
main(int argc, char **argv) {
	(void)argc;
	for (int round = 0; round < 5; round++) {
		void *h = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		int (*ctl)(const char *, void *, size_t *, void *, size_t);
		const char *version = NULL;
		size_t len = sizeof(version);
		pthread_t t[3];

		if (h == NULL) {
			printf("dlopen: %s\n", dlerror());
			return 1;
		}
		lib_malloc = (void *(*)(size_t))dlsym(h, "malloc");
		lib_free = (void (*)(void *))dlsym(h, "free");
		ctl = (int (*)(const char *, void *, size_t *, void *, size_t))dlsym(h, "mallctl");
		if (lib_malloc == NULL || lib_malloc == malloc || lib_free == NULL || ctl == NULL)
			return 2;
		if (ctl("version", &version, &len, NULL, 0) != 0)
			return 3;
		pthread_barrier_init(&used, NULL, 4);
		pthread_barrier_init(&closed, NULL, 4);
		for (int i = 0; i < 3; i++)
			pthread_create(&t[i], NULL, thread, NULL);
		pthread_barrier_wait(&used);
		if (dlclose(h) != 0)
			return 4;
		pthread_barrier_wait(&closed);
		for (int i = 0; i < 3; i++)
			pthread_join(t[i], NULL);
		free(strdup("the C library's own still works"));
	}
	puts("done");
	return 0;
}
