#!/bin/sh
# The library in a second namespace of the loader (dlmopen), used by threads of the first: the C library of the second calls nothing
# at the end of such a thread.
. "$JEMALLOC_SRC/test/include/tap.sh"
cat >program.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK ((size_t)1 << 18)

static void *(*its_malloc)(size_t);
static void (*its_free)(void *);

static void *
use(void *arg) {
	for (int i = 0; i < 1000; i++)
		its_free(its_malloc(100));
	return arg;
}

/* The stacks go with their threads. */
static void
run(int n) {
	for (int i = 0; i < n; i++) {
		char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pthread_attr_t attr;
		pthread_t t;

		pthread_attr_init(&attr);
		pthread_attr_setstack(&attr, stack, STACK);
		pthread_create(&t, &attr, use, NULL);
		pthread_join(t, NULL);
		munmap(stack, STACK);
	}
}

static size_t
metadata(int (*ctl)(const char *, void *, size_t *, void *, size_t)) {
	size_t bytes = 0, size = sizeof(bytes);
	unsigned long long epoch = 1;

	ctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
	ctl("stats.metadata", &bytes, &size, NULL, 0);
	return bytes;
}

int
main(int argc, char **argv) {
#ifndef LM_ID_NEWLM
	return 77;
#else
	void *h = argc > 1 ? dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW) : NULL;
	int status = -1, (*ctl)(const char *, void *, size_t *, void *, size_t);
	pid_t pid, (*its_fork)(void);
	size_t before;

	if (h == NULL)
		return 77;
	its_malloc = (void *(*)(size_t))dlsym(h, "malloc");
	its_free = (void (*)(void *))dlsym(h, "free");
	its_fork = (pid_t (*)(void))dlsym(h, "fork");
	ctl = (int (*)(const char *, void *, size_t *, void *, size_t))dlsym(h, "mallctl");
	run(50);
	before = metadata(ctl);
	run(500);
	printf("%s\n", metadata(ctl) > before + 65536 ? "metadata grows" : "they leave nothing");
	fflush(stdout);
	if ((pid = its_fork()) == 0) {
		use(NULL);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("fork %d\n", status);
	return 0;
#endif
}
C
compile program program.c -pthread
out=$(./program "$LIB" 2>&1)
rc=$?
[ $rc -ne 77 ] || skip_all "no second namespace here"
is "$rc $(echo $out)" "0 they leave nothing fork 0" "threads of another namespace end untold, and a fork follows"
out=$(MALLOC_CONF=prof:true,lg_prof_sample:8 ./program "$LIB" 2>&1)
is "$? $(echo $out)" "0 they leave nothing fork 0" "with the profiler"
done_testing
