/* What the crimes of test/misuse share. The driver, misuse.t, looks at how they end. */
#pragma once

#include "test.h"
#include <jemalloc/jemalloc.h>
#include <malloc.h>
#include <pthread.h>

/* More than any cache of a thread holds. */
#define LARGE ((size_t)256 << 10)
/* Large, but not so much that it may cost a page to look at its ends. */
#define BUFFER ((size_t)32 << 10)
/* Exit status of a program that read what it must not, and found nothing but zeros. */
#define READ_ZERO 42

TEST_FN bool
is_all_zero(const char *p, size_t n) {
	return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

/* ------------------------------------------------------------ crimes while another thread forks */

/*
 * CRIME_WINDOW=shelter: from before main on another thread is between the handlers of a fork, so
 * that the program's blocks are the shelter's. CRIME_WINDOW=deferred: from the first release of a
 * block on, so that releases wait. It lasts until the program ends, or says so.
 *
 * That thread waits in fork() for the list of streams, which a third one holds: it flushes all
 * streams, one of which waits for the window's end. Whether the gate is closed shows in the
 * thread's counter of bytes: blocks of the shelter are not in it.
 */
#define WINDOW_IS_OPEN 99 /* exit status of a program that was to have a window, and had none */

static struct {
	bool is_wanted_at_release;
	bool is_shut;
	_Atomic bool is_flushing, is_over;
	pthread_t flusher, forker;
} window;

TEST_FN bool
window_is_seen(void) {
	static __thread volatile uint64_t *counted;
	size_t len = sizeof(counted);
	uint64_t before;

	if (counted == NULL && mallctl("thread.allocatedp", &counted, &len, NULL, 0) != 0)
		_exit(WINDOW_IS_OPEN);
	before = *counted;
	free(keep(malloc(100)));
	return *counted == before;
}

TEST_FN ssize_t
window_write(void *cookie, const char *text, size_t n) {
	(void)cookie;
	(void)text;
	window.is_flushing = true;
	while (!window.is_over)
		usleep(1000);
	return (ssize_t)n;
}

TEST_FN void *
window_flush(void *stream) {
	fputs("x", stream);
	fflush(NULL);
	return NULL;
}

TEST_FN void *
window_fork(void *arg) {
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	return arg;
}

TEST_FN void
window_shut(void) {
	cookie_io_functions_t io = {.write = window_write};
	FILE *stream = fopencookie(NULL, "w", io);

	window.is_wanted_at_release = false;
	if (window_is_seen() || stream == NULL)
		_exit(WINDOW_IS_OPEN);
	pthread_create(&window.flusher, NULL, window_flush, stream);
	while (!window.is_flushing)
		usleep(100);
	pthread_create(&window.forker, NULL, window_fork, NULL);
	while (!window_is_seen())
		usleep(100);
	window.is_shut = true;
}

TEST_FN void
window_open(void) {
	if (window.is_wanted_at_release)
		_exit(WINDOW_IS_OPEN); /* nothing was released */
	if (!window.is_shut)
		return;
	window.is_shut = false;
	window.is_over = true;
	pthread_join(window.forker, NULL);
	pthread_join(window.flusher, NULL);
	if (window_is_seen())
		_exit(WINDOW_IS_OPEN);
	free(keep(malloc(LARGE))); /* what waits is released */
}

TEST_FN __attribute__((constructor)) void
window_begin(void) {
	const char *when = getenv("CRIME_WINDOW");

	if (when == NULL)
		return;
	window_is_seen(); /* from now on no call passes the gate by */
	atexit(window_open);
	window.is_wanted_at_release = strcmp(when, "deferred") == 0;
	if (!window.is_wanted_at_release)
		window_shut();
}

/* Before a release. Hides the block from clang, which removes a pair of new and delete. */
TEST_FN void *
releasing(void *p) {
	if (window.is_wanted_at_release)
		window_shut();
	return keep(p);
}

/* Blocks that a crime makes until one of them is the one it has misused. */
TEST_FN int
many(void) {
	return getenv("CRIME_WINDOW") == NULL ? 100000 : 1000;
}

#define free(p) free(releasing(p))
#define realloc(p, size) realloc(releasing(p), size)
#define sdallocx(p, size, flags) sdallocx(releasing(p), size, flags)
#define free_sized(p, size) free_sized(releasing(p), size)
#define free_aligned_sized(p, alignment, size) free_aligned_sized(releasing(p), alignment, size)

/* ------------------------------------------------------------------ what they do */

/* Work that a program does after its crime: time enough for it to be noticed. */
TEST_FN int
not_caught(void) {
	void *p[3000];

	window_open();
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
blocks(void **p, int n, size_t size) {
	for (int i = 0; i < n; i++)
		p[i] = keep(malloc(size));
}
