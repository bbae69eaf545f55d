/*
 * A large block that is free, wherever it waits, and an address inside of a large block are told
 * from a block in use by each function that takes a pointer; also if two threads free a block at
 * the same moment. With thread caches, past them, on huge slabs, with samples.
 */
#include "ctl.h"
#include <malloc.h>
#include <pthread.h>

/* Exit status of a run in which nothing is wrong. */
#define QUIET 77

static size_t size;

static void
end_quietly(void) {
	_exit(QUIET);
}

/* ------------------------------------------------------------------ how a block becomes free */

static void *
free_it(void *p) {
	free(p);
	return NULL;
}

static _Atomic bool is_freed;

static void *
free_and_stay(void *p) {
	free(p);
	is_freed = true;
	pause();
	return NULL;
}

static void
freed_here(char *p) {
	free(p);
}

static void
freed_elsewhere(char *p) {
	pthread_t t;

	pthread_create(&t, NULL, free_it, p);
	pthread_join(t, NULL);
}

/* It lies in the cache of a thread that lives. */
static void
freed_by_another(char *p) {
	pthread_t t;

	pthread_create(&t, NULL, free_and_stay, p);
	while (!is_freed)
		sched_yield();
}

static void
freed_and_flushed(char *p) {
	free(p);
	mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
}

static void
freed_past_caches(char *p) {
	dallocx(p, MALLOCX_TCACHE_NONE);
}

static void
freed_into_own_cache(char *p) {
	unsigned cache;
	size_t len = sizeof(cache);

	mallctl("tcache.create", &cache, &len, NULL, 0);
	dallocx(p, MALLOCX_TCACHE(cache));
}

static void
freed_by_size(char *p) {
	sdallocx(p, size, 0);
}

static void
freed_by_moving(char *p) {
	char *q = keep(malloc(size)), *moved = keep(realloc(p, 40 * size));

	if (moved == p)
		end_quietly();
	(void)q;
}

static void
in_use(char *p) {
	(void)p;
}

/* ------------------------------------------------------------------ who is asked */

/* Each ends the process; false: a size was told as 0, or nothing was given. */
static bool
said(size_t usize) {
	return usize != 0;
}

static bool asks_free(char *p) { free(p); return true; }
static bool asks_free_elsewhere(char *p) { freed_elsewhere(p); return true; }
static bool asks_dallocx(char *p) { dallocx(p, 0); return true; }
static bool asks_dallocx_none(char *p) { dallocx(p, MALLOCX_TCACHE_NONE); return true; }
static bool asks_sdallocx(char *p) { sdallocx(p, size, 0); return true; }
static bool asks_free_sized(char *p) { free_sized(p, size); return true; }
static bool asks_free_aligned(char *p) { free_aligned_sized(p, 16, size); return true; }
static bool asks_same(char *p) { return keep(realloc(p, size)) != NULL; }
static bool asks_less(char *p) { return keep(realloc(p, size / 2)) != NULL; }
static bool asks_more(char *p) { return keep(realloc(p, size * 2)) != NULL; }
static bool asks_small(char *p) { return keep(realloc(p, 100)) != NULL; }
static bool asks_nothing(char *p) { return keep(realloc(p, 0)) == NULL; }
static bool asks_rallocx(char *p) { return keep(rallocx(p, size, 0)) != NULL; }
static bool asks_rallocx_zero(char *p) { return keep(rallocx(p, size * 2, MALLOCX_ZERO)) != NULL; }
static bool asks_xallocx(char *p) { return said(xallocx(p, size, 0, 0)); }
static bool asks_xallocx_less(char *p) { return said(xallocx(p, size / 2, 0, 0)); }
static bool asks_xallocx_more(char *p) { return said(xallocx(p, size, size, 0)); }
static bool asks_sallocx(char *p) { return said(sallocx(p, 0)); }
static bool asks_usable(char *p) { return said(malloc_usable_size(p)); }

#define ASK(name) {#name, asks_##name}
static const struct {
	const char *name;
	bool (*fn)(char *p);
} asks[] = {
	ASK(free), ASK(free_elsewhere), ASK(dallocx), ASK(dallocx_none), ASK(sdallocx),
	ASK(free_sized), ASK(free_aligned), ASK(same), ASK(less), ASK(more), ASK(small), ASK(nothing),
	ASK(rallocx), ASK(rallocx_zero), ASK(xallocx), ASK(xallocx_less), ASK(xallocx_more),
	ASK(sallocx), ASK(usable),
};
#define N_ASKS (sizeof(asks) / sizeof(asks[0]))

#define STATE(name) {#name, name}
static const struct {
	const char *name;
	void (*fn)(char *p);
} states[] = {
	STATE(freed_here), STATE(freed_elsewhere), STATE(freed_by_another), STATE(freed_and_flushed),
	STATE(freed_past_caches), STATE(freed_into_own_cache), STATE(freed_by_size),
	STATE(freed_by_moving), STATE(in_use),
};
#define N_STATES (sizeof(states) / sizeof(states[0]))

/* ------------------------------------------------------------------ the runs */

struct run {
	unsigned state, ask;
	size_t offset; /* the address that is passed, from the block's beginning */
};

/* Fills the thread's cache and empties it again, so that a bin of any size takes blocks. */
static void
warm(void) {
	int n = size > (size_t)1 << 20 ? 2 : size > (size_t)1 << 18 ? 8 : 30;
	void *p[30];

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < n; i++)
			p[i] = keep(malloc(size));
		for (int i = 0; i < n; i++)
			free(p[i]);
	}
}

static void
run_one(void *arg) {
	const struct run *run = (const struct run *)arg;
	char *p;

	/*
	 * A thread made now leaves room in the slabs that the next one's start takes objects from.
	 * Otherwise that start could take the freed block's pages for a slab, and the address would be
	 * an object of it.
	 */
	freed_elsewhere((char *)keep(malloc(size)));
	warm();
	p = (char *)keep(malloc(size));
	states[run->state].fn(p);
	if (!asks[run->ask].fn((char *)keep(p + run->offset)))
		end_quietly();
}

/* Whether the run ended by one sentence, or by the answer that there is no block. */
static bool
is_told(struct run *run) {
	static struct test_result r;
	const char *first;

	test_fork(&r, run_one, run);
	first = strstr(r.out, "<jemalloc>: ");
	if (exited_with(&r, QUIET) || (died_of(&r, SIGABRT) && first == r.out
	    && strchr(r.out, '\n') == r.out + r.len - 1))
		return true;
	diag("%s of %s%s, %zu bytes", asks[run->ask].name, states[run->state].name,
	    run->offset != 0 ? ", inside" : "", size);
	diag_result(&r);
	return false;
}

static unsigned
run_all(void) {
	unsigned bad = 0;

	for (unsigned state = 0; state < N_STATES; state++) {
		for (unsigned ask = 0; ask < N_ASKS; ask++) {
			struct run run = {state, ask, 0};
			size_t offsets[] = {0, 64, size / 2, size - 8};

			for (unsigned i = 0; i < 4; i++) {
				bool is_misuse = states[state].fn != in_use || offsets[i] != 0;

				if (i > 1 && ask % 4 != state % 4)
					continue; /* a part of them */
				run.offset = offsets[i];
				bad += is_misuse && !is_told(&run);
			}
		}
	}
	return bad;
}

/* ------------------------------------------------------------------ at the same moment */

static _Atomic int n_ready, n_done;

/* The threads do not end, so that their caches keep what they hold. */
static void *
free_at_once(void *p) {
	warm();
	n_ready++;
	while (n_ready < 2)
		continue;
	free(p);
	n_done++;
	pause();
	return NULL;
}

static void
run_at_once(void *arg) {
	pthread_t t[2];
	void *p = keep(malloc(size));

	(void)arg;
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, free_at_once, p);
	while (n_done < 2)
		sched_yield();
}

static void
test_at_once(void) {
	static struct test_result r;
	unsigned n = test_rounds(30, 1000), told = 0;

	size = 64 * ctl_size("arenas.page");
	for (unsigned i = 0; i < n; i++) {
		test_fork(&r, run_at_once, NULL);
		told += died_of(&r, SIGABRT) && strstr(r.out, "<jemalloc>: double free\n") == r.out;
	}
	is_uint(told, n, "two threads free a block at the same moment: told");
}

/* ------------------------------------------------------------------ what is no misuse */

/*
 * More blocks than builds with checks keep inaccessible after their release: those that are
 * accessible again are handed out, and answer as blocks.
 */
static unsigned
many(void) {
	enum { N = 64 };
	static char *p[N];
	unsigned bad = 0;

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < N; i++) {
			p[i] = (char *)keep(malloc(size));
			p[i][0] = p[i][size - 1] = 1;
			bad += malloc_usable_size(p[i]) < size;
		}
		for (unsigned i = 0; i < N; i++)
			free(p[i]);
	}
	return bad;
}

static int
run_clean(void) {
	size_t least = 4 * ctl_size("arenas.page");
	unsigned bad = 0;

	for (size = least; size <= (size_t)8 << 20; size *= 2) {
		for (unsigned ask = 0; ask < N_ASKS; ask++) {
			char *p = (char *)keep(malloc(size));

			memset(p, 1, malloc_usable_size(p));
			bad += !asks[ask].fn(p);
		}
		warm();
		bad += size > (size_t)1 << 20 ? 0 : many();
	}
	return (int)bad;
}

static int
run_sizes(void) {
	size_t page = ctl_size("arenas.page");
	/* From four pages on a block is large; the third one is past the caches. */
	size_t sizes[] = {64 * page, 4 * page, 5000000, 16 * page - 100, 5 * page, 1 << 20, 4 << 20};
	unsigned n = test_rounds(getenv("MALLOC_CONF") == NULL ? 3 : 1,
	    sizeof(sizes) / sizeof(sizes[0])), bad = 0;

	for (unsigned i = 0; i < n; i++) {
		size = sizes[i];
		bad += run_all();
	}
	return bad != 0;
}

/*
 * In builds with checks the blocks that were freed last past the caches cannot be touched: 32 of
 * them, or as many as have 256 MiB.
 */
static int
run_shut(void) {
	enum { N = 80 };
	const size_t sizes[] = {16 * ctl_size("arenas.page"), 5 << 20, 20 << 20};
	static char *p[N];
	unsigned bad = 0;
	int fds[2];

	if (canary_bytes() == 0 || pipe(fds) != 0)
		return canary_bytes() != 0;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t allowed = ((size_t)256 << 20) / sizes[i], nshut = allowed < 32 ? allowed : 32;

		for (unsigned k = 0; k < N; k++)
			p[k] = (char *)keep(malloc(sizes[i]));
		for (unsigned k = 0; k < N; k++)
			dallocx(p[k], MALLOCX_TCACHE_NONE);
		for (unsigned k = 0; k < N; k++)
			bad += (write(fds[1], p[k], 1) != 1) != (k >= N - nshut);
	}
	return bad != 0;
}

/* A byte behind a block of four pages. */
static int
run_overflow(void) {
	size_t bytes = 4 * ctl_size("arenas.page");
	char *p = keep(malloc(bytes));

	p[malloc_usable_size(p)] = 1;
	free(keep(p));
	return 0;
}

static void
overflow_now(void *arg) {
	setenv("MALLOC_CONF", arg, 1);
	execl("/proc/self/exe", "large_misuse", "--child=overflow", (char *)NULL);
	_exit(99);
}

static const struct test_child children[] = {{"sizes", run_sizes}, {"clean", run_clean},
    {"shut", run_shut}, {"overflow", run_overflow}, {0}};

int
main(int argc, char **argv) {
	static const char *const confs[] = {
		NULL, "hpa:true", "prof:true,lg_prof_sample:0", "dirty_decay_ms:0", "tcache:false",
		"tcache_max:8388608,lg_tcache_nslots_mul:3", "narenas:1,oversize_threshold:1048576",
	};
	unsigned n = test_rounds(3, sizeof(confs) / sizeof(confs[0]));

	test_state.timeout_s = 300;
	test_children(argc, argv, children);
	for (unsigned i = 0; i < n; i++)
		child_runs("sizes", confs[i]);
	for (unsigned i = 0; i < sizeof(confs) / sizeof(confs[0]); i++)
		child_runs("clean", confs[i]);
	child_runs("shut", "oversize_threshold:0,narenas:1");
	dies(SIGABRT, "<jemalloc>: ", overflow_now, (void *)(uintptr_t)"cache_oblivious:true",
	    "cache_oblivious:true: a byte behind a block of four pages is told");
	test_at_once();
	return done_testing();
}
