/*
 * What an emulated machine can show of the library, without starting another program: sizes,
 * alignment, contents, threads that free each other's blocks, fork, the page size, statistics. Runs
 * natively too.
 */
#include <jemalloc/jemalloc.h>

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define THREADS 4
#define ROUNDS 20000
#define SLOTS 512

static bool
holds(const unsigned char *block, size_t size, unsigned char byte) {
	for (size_t i = 0; i < size; i++) {
		if (block[i] != byte) {
			return false;
		}
	}
	return true;
}

/* Blocks of every size class up to 4 MB, each filled; all live at once. */
static bool
sizes_hold(void) {
	static unsigned char *blocks[200];
	static size_t sizes[200];
	unsigned n = 0;
	bool good = true;
	for (size_t size = 1; size <= (4 << 20) && n < 200; size += size / 4 + 1, n++) {
		sizes[n] = size;
		blocks[n] = malloc(size);
		if (blocks[n] == NULL || malloc_usable_size(blocks[n]) < size) {
			return false;
		}
		memset(blocks[n], (int)n, size);
	}
	for (unsigned i = 0; i < n; i++) {
		good = good && holds(blocks[i], sizes[i], (unsigned char)i);
		free(blocks[i]);
	}
	return good;
}

static bool
alignments_hold(void) {
	for (size_t alignment = 8; alignment <= (2 << 20); alignment *= 2) {
		void *p = aligned_alloc(alignment, 100);
		void *q = mallocx(100, MALLOCX_ALIGN(alignment) | MALLOCX_ZERO);
		if (p == NULL || (uintptr_t)p % alignment != 0 || q == NULL || (uintptr_t)q % alignment != 0
		    || !holds(q, 100, 0)) {
			return false;
		}
		free(p);
		dallocx(q, MALLOCX_ALIGN(alignment));
	}
	return true;
}

static bool
realloc_keeps(void) {
	unsigned char *p = NULL;
	size_t size = 1;
	for (size = 1; size < (2 << 20); size *= 3) {
		unsigned char *q = realloc(p, size);
		if (q == NULL || (p != NULL && !holds(q, size / 3, 7))) {
			return false;
		}
		p = q;
		memset(p, 7, size);
	}
	free(p);
	return true;
}

/* Every thread swaps its new blocks against those of the others and frees what it gets. */
static void *slots[SLOTS];

static void *
swap_blocks(void *arg) {
	unsigned state = (unsigned)(uintptr_t)arg * 2654435761u + 1;
	for (unsigned i = 0; i < ROUNDS; i++) {
		state = state * 1664525u + 1013904223u;
		size_t size = 16 + (state >> 16) % 2000;
		size_t *block = malloc(size);
		if (block == NULL) {
			return arg;
		}
		block[0] = size;
		((unsigned char *)block)[size - 1] = 0x5a;
		block = __atomic_exchange_n(&slots[(state >> 8) % SLOTS], block, __ATOMIC_ACQ_REL);
		if (block != NULL && ((unsigned char *)block)[block[0] - 1] != 0x5a) {
			return arg;
		}
		free(block);
	}
	return NULL;
}

static bool
threads_agree(void) {
	pthread_t threads[THREADS];
	bool good = true;
	for (uintptr_t i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, swap_blocks, (void *)(i + 1)) != 0) {
			return false;
		}
	}
	for (unsigned i = 0; i < THREADS; i++) {
		void *failed;
		pthread_join(threads[i], &failed);
		good = good && failed == NULL;
	}
	for (unsigned i = 0; i < SLOTS; i++) {
		free(slots[i]);
		slots[i] = NULL;
	}
	return good;
}

static bool
child_allocates(void) {
	pid_t pid = fork();
	if (pid == 0) {
		_exit(sizes_hold() && threads_agree() ? 0 : 1);
	}
	int status = -1;
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool
page_is_read(void) {
	size_t page = 0, length = sizeof(page);
	/* A debug build can be told to pretend a larger one. */
	const char *pretended = getenv("JEMALLOC_TEST_PAGE");
	bool debug = false;
	size_t debug_length = sizeof(debug);
	mallctl("config.debug", &debug, &debug_length, NULL, 0);
	size_t want = debug && pretended != NULL && *pretended != 0 ? strtoul(pretended, NULL, 10)
	    : (size_t)sysconf(_SC_PAGESIZE);
	return mallctl("arenas.page", &page, &length, NULL, 0) == 0 && page == want;
}

static bool
allocated_moves(void) {
	uint64_t epoch = 1;
	size_t before = 0, after = 0, length = sizeof(before);
	if (mallctl("stats.allocated", &before, &length, NULL, 0) != 0) {
		return true;
	}
	/* What caches hold counts as allocated, and upkeep during the malloc might return it. */
	mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
	mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
	mallctl("stats.allocated", &before, &length, NULL, 0);
	void *p = malloc(1 << 20);
	mallctl("epoch", NULL, NULL, &epoch, sizeof(epoch));
	mallctl("stats.allocated", &after, &length, NULL, 0);
	size_t usable = malloc_usable_size(p);
	free(p);
	return after >= before + usable;
}

int
main(void) {
	ok(page_is_read(), "arenas.page is the page size of the system");
	ok(sizes_hold(), "blocks of many sizes keep their contents");
	ok(alignments_hold(), "alignments up to 2 MB");
	ok(realloc_keeps(), "realloc keeps the contents");
	ok(threads_agree(), "threads free each other's blocks");
	ok(child_allocates(), "a forked child allocates and starts threads");
	ok(allocated_moves(), "stats.allocated grows by what is allocated");
	return done_testing();
}
