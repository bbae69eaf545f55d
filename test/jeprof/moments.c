/*
 * A process that is killed at any moment: 16 threads allocate, reallocate and free at many stacks,
 * and keep books of what they hold in a file that outlives them; two more load and unload a plugin,
 * and start threads. usage: moments BOOKS PLUGIN. Built with PLUGIN it is that plugin.
 *
 * A thread writes into its book after an allocation and before a free, so at any moment the
 * profiler has what the book has, or the objects of one call more: realloc may have two.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>

#ifdef PLUGIN
void *
plugin_make(size_t size) {
	return malloc(size);
}
#else
#include <jemalloc/jemalloc.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORKERS = 16, HELD = 64 };

typedef struct book_s {
	volatile int64_t objects, bytes;
	int64_t pad[6];
} book_t;

static book_t *books;

#define KEEP __attribute__((noinline, noipa))

static KEEP void *left(unsigned way, unsigned depth, void *p, size_t size);

static KEEP void *
right(unsigned way, unsigned depth, void *p, size_t size) {
	void *q = depth == 0 ? realloc(p, size) : way & 1 ? left(way >> 1, depth - 1, p, size)
	    : right(way >> 1, depth - 1, p, size);
	__asm__ volatile("" ::: "memory");
	return q;
}

static KEEP void *
left(unsigned way, unsigned depth, void *p, size_t size) {
	void *q = depth == 0 ? realloc(p, size) : way & 1 ? left(way >> 1, depth - 1, p, size)
	    : right(way >> 1, depth - 1, p, size);
	__asm__ volatile("" ::: "memory");
	return q;
}

static void
name_set(const char *format, int number) {
	char text[16];
	const char *name = text;
	snprintf(text, sizeof(text), format, number);
	mallctl("thread.prof.name", NULL, NULL, &name, sizeof(name));
}

static void
book_add(book_t *b, void *p, int sign) {
	b->objects += sign;
	b->bytes += sign * (int64_t)malloc_usable_size(p);
	__asm__ volatile("" ::: "memory");
}

static void *
work(void *arg) {
	int number = (int)(intptr_t)arg;
	book_t *b = &books[number];
	void *p[HELD] = {NULL};
	uint64_t n = (uint64_t)number;
	name_set("w%d", number);
	for (;;) {
		n = n * UINT64_C(6364136223846793005) + 1442695040888963407;
		unsigned i = (unsigned)(n >> 40) % HELD;
		if (p[i] != NULL) {
			book_add(b, p[i], -1);
		}
		if (p[i] != NULL && (n >> 60) < 8) {
			free(p[i]);
			p[i] = NULL;
		} else {
			p[i] = right((unsigned)(n >> 33), 7, p[i], 16 + (n >> 48) % 2000);
			book_add(b, p[i], 1);
		}
	}
	return NULL;
}

static void *
nothing(void *arg) {
	free(malloc(100));
	return arg;
}

static void *
load(void *arg) {
	name_set("loader%d", 0);
	for (;;) {
		void *plugin = dlopen(arg, RTLD_NOW);
		void *(*make)(size_t) = plugin == NULL ? NULL
		    : (void *(*)(size_t))dlsym(plugin, "plugin_make");
		if (make == NULL) {
			abort();
		}
		free(make(500));
		dlclose(plugin);
	}
	return NULL;
}

static void *
begin(void *arg) {
	name_set("starter%d", 0);
	for (;;) {
		pthread_t t;
		if (pthread_create(&t, NULL, nothing, NULL) == 0) {
			pthread_join(t, NULL);
		}
	}
	return arg;
}

int
main(int argc, char **argv) {
	pthread_t t;
	int fd = argc == 3 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
	if (fd < 0 || ftruncate(fd, WORKERS * sizeof(book_t)) != 0) {
		return 2;
	}
	books = mmap(NULL, WORKERS * sizeof(book_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (intptr_t i = 0; i < WORKERS; i++) {
		pthread_create(&t, NULL, work, (void *)i);
	}
	pthread_create(&t, NULL, load, argv[2]);
	pthread_create(&t, NULL, begin, NULL);
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
#endif
