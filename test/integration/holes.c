/*
 * Pages that hold nothing go back although others of their slab hold something: after the decay
 * time, by the library's clock, which is the program's own here. Nine of ten small blocks are freed
 * at random; then pages without a live byte are counted with mincore(2). What lives keeps its
 * contents, what is allocated there again is as the options say, and pages that are to stay stay.
 */
#include "ctl.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define BLOCKS_MAX 60000u
#define SEC UINT64_C(1000000000)

static struct {
	unsigned char *p;
	unsigned char fill; /* 0: freed */
} blocks[BLOCKS_MAX];
static unsigned n_blocks;
static size_t page, size;
static uint64_t seed = 1, passed_ns;
static char *low, *high;
static unsigned char *is_used; /* by pages of the library from `low` on: something lives there */
static int flags;
static bool flushes = true; /* the cache, after scatter() */
static bool is_regular; /* each tenth lives, so that no slab is empty */

/* For the program and for the library, which calls it by name. */
int
clock_gettime(clockid_t id, struct timespec *ts) {
	static time_t start;
	int err = (int)syscall(SYS_clock_gettime, id, ts);
	uint64_t passed = __atomic_load_n(&passed_ns, __ATOMIC_RELAXED);

	if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
		return err;
	if (start == 0)
		start = ts->tv_sec + 1;
	ts->tv_sec = start + (time_t)(passed / SEC);
	ts->tv_nsec = (long)(passed % SEC);
	return err;
}

/* In steps of a tenth of a second, each with a heartbeat. */
static void
let_pass(unsigned tenths) {
	for (unsigned i = 0; i < tenths; i++) {
		__atomic_fetch_add(&passed_ns, SEC / 10, __ATOMIC_RELAXED);
		for (int k = 0; k < 300; k++)
			free(keep(malloc(512)));
	}
}

static void
mark(unsigned i, bool used) {
	size_t first = (size_t)((char *)blocks[i].p - low) / page;
	size_t last = (size_t)((char *)blocks[i].p - low + size - 1) / page;

	for (size_t k = first; k <= last; k++)
		is_used[k] += used;
}

/* Blocks of 7/32 of a page, of which one in `keep_one_of` lives in the end. */
static void
scatter(unsigned n, unsigned keep_one_of) {
	page = ctl_size("arenas.page");
	size = page / 32 * 7;
	n_blocks = n;
	for (unsigned i = 0; i < n; i++) {
		blocks[i].p = keep(mallocx(size, flags));
		blocks[i].fill = (unsigned char)(1 + test_random(&seed) % 255);
		memset(blocks[i].p, blocks[i].fill, size);
		if (low == NULL || (char *)blocks[i].p < low)
			low = (char *)blocks[i].p;
		if ((char *)blocks[i].p > high)
			high = (char *)blocks[i].p;
	}
	low -= (uintptr_t)low % page;
	is_used = mmap(NULL, (size_t)(high - low) / page + 2, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < n; i++) {
		if ((is_regular ? i : test_random(&seed)) % keep_one_of != 0) {
			dallocx(blocks[i].p, flags);
			blocks[i].fill = 0;
		} else {
			mark(i, true);
		}
	}
	if (flushes)
		ctl_void("thread.tcache.flush");
}

/* Pages on which blocks were and nothing lives; *in_memory: those of them that are in memory. */
static size_t
empty_pages(size_t *in_memory) {
	size_t n = 0;

	*in_memory = 0;
	for (unsigned i = 0; i < n_blocks; i++) {
		size_t k = (size_t)((char *)blocks[i].p - low) / page;
		unsigned char seen[65536 / 4096] = {0};

		if (is_used[k] != 0)
			continue;
		is_used[k] = 255; /* counted */
		n++;
		*in_memory += mincore(low + k * page, page, seen) == 0 && (seen[0] & 1) != 0;
	}
	for (unsigned i = 0; i < n_blocks; i++) {
		size_t k = (size_t)((char *)blocks[i].p - low) / page;

		is_used[k] = is_used[k] == 255 ? 0 : is_used[k];
	}
	return n;
}

static unsigned
damaged(void) {
	unsigned bad = 0;

	for (unsigned i = 0; i < n_blocks; i++)
		bad += blocks[i].fill != 0 && !is_filled(blocks[i].p, blocks[i].fill, size);
	return bad;
}

static unsigned
some(void) {
	return ctl_size("arenas.page") > 4096 ? 2500 : 18000;
}

static uint64_t
purged(void) {
	ctl_epoch();
	return ctl_u64("stats.arenas.4096.dirty_purged");
}

static size_t
resident(void) {
	ctl_epoch();
	return ctl_size("stats.resident");
}

/* As many blocks as were freed, in their places: zeroed, or filled like the option says. */
static void
fill_again(void) {
	unsigned bad = 0, back = 0;

	for (unsigned i = 0; i < n_blocks; i++) {
		if (blocks[i].fill != 0)
			continue;
		blocks[i].p = keep(mallocx(size, flags | MALLOCX_ZERO));
		bad += !is_filled(blocks[i].p, 0, size);
		back += (char *)blocks[i].p >= low && (char *)blocks[i].p <= high;
		blocks[i].fill = (unsigned char)(1 + i % 255);
		memset(blocks[i].p, blocks[i].fill, size);
	}
	is_uint(bad, 0, "what is allocated again is zero, as asked");
	ok(back > n_blocks / 2, "and most of it lies where it was (%u of %u)", back, n_blocks);
	is_uint(damaged(), 0, "every block has its contents");
}

static void
drop_all(void) {
	for (unsigned i = 0; i < n_blocks; i++) {
		if (blocks[i].fill != 0)
			dallocx(blocks[i].p, flags);
		blocks[i].fill = 0;
	}
	ctl_void("thread.tcache.flush");
}

/* Ten seconds by default; the passes are a third of that apart, and find a page empty twice. */
static int
child_by_time(void) {
	size_t before, after, n, full, left;
	uint64_t count;

	scatter(some(), 10);
	n = empty_pages(&full);
	ok(n > 500 || page > 4096, "%zu pages hold nothing", n);
	/* One pass has seen them. */
	let_pass(50);
	empty_pages(&left);
	ok(left > full - full / 5, "after five seconds %zu of %zu are in memory still", left, full);
	before = resident();
	let_pass(110);
	empty_pages(&left);
	ok(left < n / 10, "after sixteen %zu", left);
	after = resident();
	ok(!ctl_bool("config.stats") || before - after > (full - n / 5) * page,
	    "stats.resident fell from %zu to %zu KiB", before >> 10, after >> 10);
	ok(!ctl_bool("config.stats") || purged() >= full - n / 5, "counted as purged (%zu)",
	    (size_t)purged());
	is_uint(damaged(), 0, "what lives has its contents");
	count = purged();
	let_pass(200);
	is_uint(purged(), count, "no page is given back twice");
	fill_again();
	ok(resident() > after + (full - n / 5) * page, "they count as resident again (%zu KiB)",
	    resident() >> 10);
	drop_all();
	return done_testing();
}

/*
 * A program that was quick frees much, of which no slab becomes empty, and then calls malloc ten
 * times a second: its heartbeats are near again.
 */
static int
child_slow(void) {
	size_t n, full, left;

	flushes = false;
	is_regular = true;
	for (unsigned i = 0; i < 3000; i++) /* its countdown is that of a quick thread */
		free(keep(malloc(64)));
	scatter(BLOCKS_MAX, 10);
	n = empty_pages(&full);
	for (unsigned i = 0; i < 200; i++) {
		__atomic_fetch_add(&passed_ns, SEC / 10, __ATOMIC_RELAXED);
		free(keep(malloc(64)));
	}
	empty_pages(&left);
	ok(left < full / 10, "after twenty seconds %zu of %zu empty pages are in memory", left, n);
	return done_testing();
}

/* Blocks that are freed bit by bit: the holes of a slab grow. */
static int
child_bit_by_bit(void) {
	size_t n, left;

	scatter(some(), 2);
	for (unsigned part = 0; part < 8; part++) {
		let_pass(80);
		for (unsigned i = 0; i < n_blocks; i++) {
			if (blocks[i].fill != 0 && test_random(&seed) % 4 == 0) {
				free(blocks[i].p);
				blocks[i].fill = 0;
			}
		}
		ctl_void("thread.tcache.flush");
		ok(damaged() == 0, "part %u", part);
	}
	memset(is_used, 0, (size_t)(high - low) / page + 2);
	for (unsigned i = 0; i < n_blocks; i++) {
		if (blocks[i].fill != 0)
			mark(i, true);
	}
	let_pass(160);
	n = empty_pages(&left);
	ok(left < n / 10, "of %zu empty pages %zu are in memory", n, left);
	fill_again();
	return done_testing();
}

static int
child_never(void) {
	size_t n, full, left;

	scatter(some(), 10);
	n = empty_pages(&full);
	let_pass(600);
	empty_pages(&left);
	is_uint(left, full, "all of %zu stay", n);
	is_int(ctl_void("arena.4096.purge"), 0, "arena.4096.purge");
	empty_pages(&left);
	ok(left < n / 10, "gives them back (%zu left)", left);
	is_uint(damaged(), 0, "what lives has its contents");
	fill_again();
	return done_testing();
}

/* A heap of which little is free, as that of most programs, is left alone. */
static int
child_dense(void) {
	uint64_t count;
	unsigned gone = 0;

	scatter(some(), 1);
	for (unsigned i = 0; i < n_blocks; i++) {
		if (i % 64 < 9) {
			free(blocks[i].p);
			blocks[i].fill = 0;
			gone++;
		}
	}
	ctl_void("thread.tcache.flush");
	let_pass(5);
	count = purged();
	let_pass(300);
	ok(purged() < count + 64, "%u of %u blocks are free: %zu pages go", gone, n_blocks,
	    (size_t)(purged() - count));
	is_uint(damaged(), 0, "what lives has its contents");
	return done_testing();
}

/* With huge pieces under the slabs. */
static int
child_huge(void) {
	size_t n, full, left;

	scatter(some() * 3, 10);
	n = empty_pages(&full);
	let_pass(160);
	empty_pages(&left);
	ok(left < n / 10, "of %zu empty pages %zu are in memory", n, left);
	is_uint(ctl_size("stats.thp.pieces"), 0, "no piece is left");
	fill_again();
	return done_testing();
}

/* Pages of hooks are the program's: none is purged in part. */
static unsigned n_purges;

static void *
hook_alloc(extent_hooks_t *h, void *addr, size_t n, size_t alignment, bool *zero, bool *commit,
    unsigned ind) {
	static char *next;
	static size_t room;

	(void)h, (void)ind;
	if (addr != NULL)
		return NULL;
	if (next == NULL) {
		room = (size_t)256 << 20;
		next = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	size_t skip = -(uintptr_t)next & (alignment - 1);
	if (next == MAP_FAILED || room < n + skip)
		return NULL;
	char *p = next + skip;
	next = p + n;
	room -= n + skip;
	*zero = *commit = true;
	return p;
}

static bool
hook_purge(extent_hooks_t *h, void *addr, size_t n, size_t offset, size_t len, unsigned ind) {
	(void)h, (void)addr, (void)n, (void)offset, (void)len, (void)ind;
	n_purges++;
	return true;
}

static int
child_hooks(void) {
	static extent_hooks_t hooks = {.alloc = hook_alloc, .purge_forced = hook_purge};
	extent_hooks_t *table = &hooks;
	unsigned ind;
	size_t len = sizeof(ind), n, full, left;

	is_int(mallctl("arenas.create", &ind, &len, &table, sizeof(table)), 0, "an arena with hooks");
	flags = (int)(MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE);
	scatter(some(), 10);
	n = empty_pages(&full);
	/* Slabs that are empty as a whole may be purged: the hook refuses. */
	let_pass(300);
	empty_pages(&left);
	is_uint(left, full, "all of %zu stay", n);
	is_uint(damaged(), 0, "what lives has its contents");
	drop_all();
	return done_testing();
}

/* An arena that is reset and destroyed between the steps of passes. */
static int
child_life(void) {
	for (unsigned round = 0; round < 8; round++) {
		unsigned ind;
		size_t len = sizeof(ind);
		char name[64];

		is_int(mallctl("arenas.create", &ind, &len, NULL, 0), 0, "an arena");
		flags = (int)(MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE);
		scatter(some() / 4, 10);
		let_pass(60 + round);
		if (round % 2 == 0)
			is_int(ctl_void(ctl_name(name, "arena.%u.reset", ind)), 0, "%s", name);
		for (unsigned i = 0; i < n_blocks && round % 2 == 0; i++)
			blocks[i].p = keep(mallocx(size, flags));
		let_pass(80);
		is_int(ctl_void(ctl_name(name, "arena.%u.destroy", ind)), 0, "%s", name);
		munmap(is_used, (size_t)(high - low) / page + 2);
		low = high = NULL;
	}
	return done_testing();
}

static int
child_fork(void) {
	size_t n, left;

	scatter(some(), 10);
	let_pass(160);
	n = empty_pages(&left);
	ok(left < n / 10, "%zu pages of %zu are left", left, n);
	pid_t pid = fork();
	if (pid == 0) {
		unsigned bad = damaged();

		fill_again();
		drop_all();
		_exit(bad != 0 || test_state.failed != 0);
	}
	int status = -1;
	is_int(waitpid(pid, &status, 0), pid, "a child");
	is_int(status, 0, "has the same, and uses it");
	is_uint(damaged(), 0, "what lives has its contents");
	fill_again();
	return done_testing();
}

/* Frees and allocates at random for a while, and checks what it has. */
static void *
churn(void *arg) {
	static const unsigned n = 1500;
	uint64_t x = (uintptr_t)arg;
	size_t unit = ctl_size("arenas.page") / 32;
	unsigned char **p = mmap(NULL, n * sizeof(*p), PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t bad = 0;

	for (unsigned round = 0; round < test_rounds(40, 400); round++) {
		unsigned full = round % 2 == 0 ? n : n / 10;

		for (unsigned i = 0; i < n; i++) {
			size_t bytes = unit * (1 + i % 14);
			unsigned char **at = &p[i];

			if (*at != NULL) {
				bad += !is_filled(*at, (int)(i % 251), bytes);
				free(*at);
				*at = NULL;
			}
			if (test_random(&x) % n < full) {
				*at = keep(i % 3 == 0 ? calloc(1, bytes) : malloc(bytes));
				bad += i % 3 == 0 && !is_filled(*at, 0, bytes);
				memset(*at, (int)(i % 251), bytes);
			}
		}
		ctl_void("thread.tcache.flush");
		let_pass(2);
	}
	for (unsigned i = 0; i < n; i++)
		free(p[i]);
	return (void *)bad;
}

static int
child_threads(void) {
	pthread_t t[4];
	void *bad;

	for (size_t i = 0; i < 4; i++)
		ok(pthread_create(&t[i], NULL, churn, (void *)(i + 1)) == 0, "thread %zu", i);
	for (size_t i = 0; i < 4; i++) {
		pthread_join(t[i], &bad);
		is_uint((uintptr_t)bad, 0, "thread %zu found what it had written", i);
	}
	ok(!ctl_bool("config.stats") || purged() > 1000, "%zu pages were purged", (size_t)purged());
	return done_testing();
}

static const struct test_child children[] = {
	{"by_time", child_by_time},
	{"slow", child_slow},
	{"bit_by_bit", child_bit_by_bit},
	{"never", child_never},
	{"dense", child_dense},
	{"huge", child_huge},
	{"hooks", child_hooks},
	{"life", child_life},
	{"fork", child_fork},
	{"threads", child_threads},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	if (canary_bytes() != 0)
		plan_skip_all("with checks free blocks have contents");
	child_runs("by_time", "narenas:1,dirty_decay_ms:10000,populate:false");
	child_runs("by_time", "narenas:1,dirty_decay_ms:10000,zero:true");
	child_runs("slow", "narenas:1");
	child_runs("bit_by_bit", "narenas:1");
	child_runs("never", "narenas:1,dirty_decay_ms:-1");
	child_runs("dense", "narenas:1");
	child_runs("huge", "narenas:1,thp_min:4194304");
	child_runs("hooks", "narenas:1");
	child_runs("life", "narenas:1");
	child_runs("fork", "narenas:1");
	child_runs("threads", "narenas:1,dirty_decay_ms:300");
	child_runs("threads", "narenas:2,dirty_decay_ms:0");
	return done_testing();
}
