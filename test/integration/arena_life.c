/*
 * arena.<i>.reset and .destroy: all objects of an arena made by hand end at once, the samples among
 * them too; the index is used again; what destroyed arenas counted is kept; refusals; thousands of
 * lives.
 */
#include "ctl.h"
#include "heap.h"
#include <pthread.h>

#define FLAGS(ind) (MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE)

static unsigned
create(void) {
	unsigned ind = 0;
	size_t len = sizeof(ind);

	return mallctl("arenas.create", &ind, &len, NULL, 0) == 0 ? ind : 0;
}

static int
arena_do(const char *what, unsigned ind) {
	char name[64];

	return ctl_void(ctl_name(name, "arena.%u.%s", ind, what));
}

static size_t
stat_of(const char *what, unsigned ind) {
	char name[80];

	return ctl_size(ctl_name(name, "stats.arenas.%u.%s", ind, what));
}

static uint64_t
count_of(const char *what, unsigned ind) {
	char name[80];

	return ctl_u64(ctl_name(name, "stats.arenas.%u.%s", ind, what));
}

/* Blocks of all sizes, each kept by nobody but the arena; bytes. */
static size_t
fill(unsigned ind, unsigned n) {
	uint64_t seed = ind + n;
	size_t total = 0;

	for (unsigned i = 0; i < n; i++) {
		size_t size = 1 + test_random(&seed) % (i % 50 == 0 ? 700000 : i % 3 == 0 ? 20000 : 300);
		char *p = mallocx(size, FLAGS(ind));

		if (p == NULL)
			return 0;
		p[0] = p[size - 1] = 1;
		total += counted_size(p);
		if (i % 5 == 1) {
			total -= counted_size(p);
			dallocx(p, MALLOCX_TCACHE_NONE);
		}
	}
	return total;
}

static void
test_reset(void) {
	unsigned ind = create();
	size_t total, active, large, unused;
	bool goes_at_once = !ctl_bool("opt.retain") && ctl_size("opt.dirty_decay_ms") == 0;
	char *p;

	total = fill(ind, 5000);
	ctl_epoch();
	large = stat_of("large.allocated", ind);
	is_uint(stat_of("small.allocated", ind) + large, total, "%zu bytes live", total);
	active = stat_of("pactive", ind);
	ok(active > 0 && large > 0, "%zu pages in use", active);
	is_int(arena_do("reset", ind), 0, "reset");
	ctl_epoch();
	is_uint(stat_of("small.allocated", ind) + stat_of("large.allocated", ind), 0,
	    "nothing is live");
	is_uint(stat_of("pactive", ind), 0, "no page in use");
	is_uint(count_of("small.nmalloc", ind), count_of("small.ndalloc", ind),
	    "small: as many ended as began");
	is_uint(count_of("large.nmalloc", ind), count_of("large.ndalloc", ind),
	    "large: as many ended as began");
	unused = stat_of("pdirty", ind) + stat_of("pmuzzy", ind)
	    + stat_of("retained", ind) / ctl_size("arenas.page");
	ok(goes_at_once ? unused < active / 2 : unused > active / 2, "pages %s (%zu)",
	    goes_at_once ? "go" : "wait for new use", unused);
	is_uint(fill(ind, 5000), total, "the same again");
	p = mallocx(100, FLAGS(ind) | MALLOCX_ZERO);
	ok(p != NULL && p[0] == 0 && p[99] == 0, "zeroed where there was something");
	is_int(arena_do("reset", ind), 0, "reset again");
	is_int(arena_do("reset", ind), 0, "reset of an empty one");
	is_int(arena_do("purge", ind), 0, "purge");
	ctl_epoch();
	is_uint(stat_of("pdirty", ind) + stat_of("pmuzzy", ind), 0, "everything can be purged");
	is_int(arena_do("destroy", ind), 0, "destroy");
}

/* How often the locks of an arena were taken, but those of its bins. */
static uint64_t
taken_locks(unsigned ind) {
	static const char *const locks[] = {"extent_avail", "extents_dirty", "extents_muzzy",
		"extents_retained", "decay_dirty", "decay_muzzy", "base", "tcache_list", "hpa_shard",
		"hpa_shard_grow", "hpa_sec"};
	uint64_t sum = 0;
	char name[64];

	for (unsigned i = 0; i < sizeof(locks) / sizeof(locks[0]); i++)
		sum += ctl_u64(ctl_name(name, "stats.arenas.%u.mutexes.%s.num_ops", ind, locks[i]));
	return sum;
}

static void
test_destroy(void) {
	unsigned a, b, n, ind = create();
	uint64_t nlocked;
	uint64_t nmalloc = count_of("small.nmalloc", MALLCTL_ARENAS_DESTROYED), mine;
	char name[64];
	ssize_t ms = 77;

	ok(ctl_bool("arena.4097.initialized"), "one was destroyed before");
	fill(ind, 3000);
	ctl_write(ctl_name(name, "arena.%u.dirty_decay_ms", ind), ms);
	ctl_epoch();
	mine = count_of("small.nmalloc", ind);
	nlocked = taken_locks(ind);
	n = ctl_unsigned("arenas.narenas");
	is_int(arena_do("destroy", ind), 0, "destroy");
	ok(!ctl_bool(ctl_name(name, "arena.%u.initialized", ind)), "it is not there any more");
	ok(!ctl_exists(ctl_name(name, "stats.arenas.%u.pactive", ind)), "nor its statistics");
	ok(mallocx(1, FLAGS(ind)) == NULL, "nothing is got from it");
	is_int(arena_do("destroy", ind), EFAULT, "destroy again");
	is_int(arena_do("reset", ind), EFAULT, "reset");
	is_int(ctl_write(ctl_name(name, "arena.%u.dirty_decay_ms", ind), ms), EFAULT, "its decay time");
	is_int(arena_do("purge", ind), 0, "purge of none");
	is_int(ctl_write("thread.arena", ind), EAGAIN, "no thread can go there");
	is_uint(ctl_unsigned("arenas.narenas"), n, "the number of slots stays");
	is_uint(count_of("small.nmalloc", MALLCTL_ARENAS_DESTROYED), nmalloc + mine,
	    "its count is kept");
	is_uint(stat_of("small.allocated", MALLCTL_ARENAS_DESTROYED), 0, "and nothing is live there");
	is_str(ctl_str("stats.arenas.4097.dss"), "N/A", "they have no one way to memory");
	ok(ctl_ssize("stats.arenas.4097.dirty_decay_ms") == -1
	    && ctl_ssize("stats.arenas.4097.muzzy_decay_ms") == -1, "nor a time of decay");
	a = create();
	b = create();
	ok(a == ind && b == n, "the index comes again, then a new one (%u %u)", a, b);
	ctl_epoch();
	is_uint(count_of("small.nmalloc", a), 0, "its counters begin at 0");
	ok(nlocked > 200 && taken_locks(a) < nlocked / 4, "those of its locks too (%u of %u)",
	    (unsigned)taken_locks(a), (unsigned)nlocked);
	is_int(ctl_ssize(ctl_name(name, "arena.%u.dirty_decay_ms", a)),
	    ctl_ssize("arenas.dirty_decay_ms"), "its decay time is the default");
	ok(fill(a, 1000) > 0, "it works");
	is_int(arena_do("destroy", a), 0, "destroy the one");
	is_int(arena_do("destroy", b), 0, "and the other");
	ok(create() == b && create() == a, "the last destroyed comes first");
	arena_do("destroy", a);
	arena_do("destroy", b);
}

/* What can be set for an arena: how it is read and what is written. */
static const struct {
	const char *what;
	enum { SET_WORD, SET_TEXT, SET_NAME } kind;
	uintptr_t other;
} settings[] = {
	{"dirty_decay_ms", SET_WORD, 4711},
	{"muzzy_decay_ms", SET_WORD, 4712},
	{"oversize_threshold", SET_WORD, 1 << 20},
	{"retain_grow_limit", SET_WORD, 1 << 22},
	{"extent_hooks", SET_WORD, 0},
	{"dss", SET_TEXT, 0},
	{"name", SET_NAME, 0},
};

/* The value as a text; false: this library has no such setting. */
static bool
read_setting(unsigned ind, size_t k, char text[64]) {
	char name[64], buf[32] = "", *p = buf;
	uintptr_t word = 0;
	size_t len = sizeof(word);

	ctl_name(name, "arena.%u.%s", ind, settings[k].what);
	if (mallctl(name, settings[k].kind == SET_NAME ? (void *)&p : &word, &len, NULL, 0) != 0)
		return false;
	if (settings[k].kind == SET_WORD)
		snprintf(text, 64, "%ju", (uintmax_t)word);
	else
		snprintf(text, 64, "%s", settings[k].kind == SET_NAME ? buf : (const char *)word);
	return true;
}

static int
write_setting(unsigned ind, size_t k) {
	static extent_hooks_t own;
	char name[64];
	extent_hooks_t *system = NULL, *hooks = &own;
	const char *text = settings[k].kind == SET_NAME ? "somebody" : "primary";
	size_t len = sizeof(system);
	uintptr_t word = settings[k].other;

	if (settings[k].kind == SET_WORD && word == 0) {
		mallctl(ctl_name(name, "arena.%u.extent_hooks", ind), &system, &len, NULL, 0);
		own = *system;
		word = (uintptr_t)hooks;
	} else if (settings[k].kind != SET_WORD) {
		word = (uintptr_t)text;
	}
	return ctl_write(ctl_name(name, "arena.%u.%s", ind, settings[k].what), word);
}

/* The next arena of an index has nothing of what was set for the one before. */
static void
test_settings(void) {
	char first[64], set[64], next[64];
	unsigned ind = create();

	for (size_t k = 0; k < sizeof(settings) / sizeof(settings[0]); k++) {
		const char *what = settings[k].what;

		if (!read_setting(ind, k, first) || write_setting(ind, k) != 0) {
			skip(3, what);
			continue;
		}
		ok(read_setting(ind, k, set) && strcmp(set, first) != 0, "%s: %s becomes %s", what, first,
		    set);
		ok(fill(ind, 100) > 0 && arena_do("destroy", ind) == 0 && create() == ind,
		    "the arena ends, and another one begins");
		read_setting(ind, k, next);
		is_str(next, first, "as it was at first");
	}
	is_int(arena_do("destroy", ind), 0, "destroy");
}

struct binding {
	unsigned ind;
	int up[2], down[2];
};

/* Is in the arena until it is told to go. */
static void *
bound(void *arg) {
	struct binding *b = arg;
	char c;

	ctl_write("thread.arena", b->ind);
	free(keep(malloc(10)));
	if (write(b->up[1], "x", 1) != 1 || read(b->down[0], &c, 1) != 1)
		abort();
	ctl_void("thread.tcache.flush");
	return NULL;
}

static void
test_refusals(void) {
	static const unsigned autos[] = {0, 1, MALLCTL_ARENAS_ALL, MALLCTL_ARENAS_DESTROYED};
	unsigned n = ctl_unsigned("arenas.narenas"), ind = create(), tc = 0;
	size_t len = sizeof(tc);
	unsigned old = ctl_unsigned("thread.arena");
	struct binding b;
	pthread_t t;
	char c;

	for (int i = 0; i < 4; i++) {
		is_int(arena_do("reset", autos[i]), EFAULT, "reset of %u", autos[i]);
		is_int(arena_do("destroy", autos[i]), EFAULT, "destroy of %u", autos[i]);
	}
	is_int(arena_do("destroy", n + 5), ENOENT, "an index that never was");
	is_int(mallctl("arena.0.reset", NULL, NULL, &n, sizeof(n)), EPERM, "an argument");
	b.ind = ind;
	if (pipe(b.up) != 0 || pipe(b.down) != 0)
		bail_out("pipe");
	pthread_create(&t, NULL, bound, &b);
	if (read(b.up[0], &c, 1) != 1)
		bail_out("read");
	is_int(arena_do("destroy", ind), EFAULT, "a thread is bound to it");
	if (write(b.down[1], "x", 1) != 1)
		bail_out("write");
	pthread_join(t, NULL);
	for (int i = 0; i < 100000 && arena_do("destroy", ind) != 0; i++)
		usleep(1000);
	is_uint(create(), ind, "destroyed when it has gone");
	is_int(ctl_write("thread.arena", ind), 0, "this thread goes there");
	is_int(mallctl("tcache.create", &tc, &len, NULL, 0), 0, "and makes a cache by hand");
	is_int(ctl_write("thread.arena", old), 0, "and leaves");
	is_int(arena_do("destroy", ind), EFAULT, "the cache is bound to it");
	is_int(ctl_write("tcache.destroy", tc), 0, "the cache goes");
	is_int(arena_do("destroy", ind), 0, "then the arena can");
}

/* This thread's own cache gives back what it holds of the arena. */
static void
test_own_cache(void) {
	unsigned ind = create(), bad = 0;
	void *p[200];

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 200; i++)
			p[i] = mallocx(48, FLAGS(ind));
		for (int i = 0; i < 200; i++)
			free(p[i]);	/* into the cache */
		bad += arena_do(round % 2 ? "reset" : "destroy", ind) != 0;
		if (round % 2 == 0)
			bad += create() != ind;
		for (int i = 0; i < 200; i++) {
			p[i] = keep(malloc(48));
			memset(p[i], 9, 48);
		}
		for (int i = 0; i < 200; i++)
			free(p[i]);
	}
	is_uint(bad, 0, "objects in the caller's cache are no trouble");
	arena_do("destroy", ind);
}

static void
test_lives(void) {
	size_t before = 0, after, mapped = 0;
	unsigned bad = 0, ind = 0, lives = test_rounds(300, 1000);

	for (unsigned i = 0; i < lives; i++) {
		if (i == 100) {
			before = rss_bytes();
			ctl_epoch();
			mapped = ctl_size("stats.mapped");
		}
		ind = create();
		bad += fill(ind, 200) == 0;
		bad += arena_do("destroy", ind) != 0;
	}
	after = rss_bytes();
	ctl_epoch();
	is_uint(bad, 0, "%u lives", lives);
	ok(after < before + (4 << 20), "RSS does not grow (%zu -> %zu KB)", before >> 10, after >> 10);
	ok(ctl_size("stats.mapped") <= mapped + (4 << 20), "nor what is mapped");
}

static unsigned
arena_of(void *p) {
	unsigned ind = 0;
	size_t len = sizeof(ind);

	return mallctl("arenas.lookup", &ind, &len, &p, sizeof(p)) == 0 ? ind : UINT_MAX;
}

/*
 * Frees large blocks of an arena made by hand, without a word about caches, where the thread's
 * cache holds such sizes of the thread's own arena. Then the arena ends in another thread.
 */
static void *
free_of_other(void *arg) {
	void *p[8];
	unsigned ind = *(unsigned *)arg;
	uintptr_t bad = 0;

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 8; i++)
			p[i] = keep(malloc(1 << 20));
		for (int i = 0; i < 8; i++)
			free(p[i]);
	}
	for (int i = 0; i < 8; i++)
		p[i] = keep(mallocx(1 << 20, FLAGS(ind)));
	for (int i = 0; i < 8; i++)
		dallocx(p[i], 0);
	for (int i = 0; i < 8; i++) {
		p[i] = keep(malloc(1 << 20));
		bad += wrong_if(arena_of(p[i]) == ind);
	}
	for (int i = 0; i < 8; i++)
		free(p[i]);
	return (void *)bad;
}

static void
test_large_of_other(void) {
	unsigned ind = create();
	pthread_t t;
	void *bad;

	pthread_create(&t, NULL, free_of_other, &ind);
	pthread_join(t, &bad);
	is_uint((uintptr_t)bad, 0, "large blocks of an arena made by hand stay out of other caches");
	is_int(arena_do("destroy", ind), 0, "and it ends");
}

static volatile bool stop;

static void
swallow(void *opaque, const char *text) {
	(void)opaque;
	(void)text;
}

static void *
observer(void *arg) {
	(void)arg;
	while (!stop) {
		ctl_epoch();
		ctl_void("arena.4096.decay");
		malloc_stats_print(swallow, NULL, NULL);
		free(keep(malloc(70000)));
	}
	return NULL;
}

static void *
maker(void *arg) {
	uintptr_t bad = 0;

	(void)arg;
	for (int i = 0; i < 200; i++) {
		unsigned ind = create();

		bad += wrong_if(ind == 0) || wrong_if(fill(ind, 100) == 0)
		    || wrong_if(arena_do(i % 3 ? "destroy" : "reset", ind) != 0);
		if (i % 3 == 0)
			bad += arena_do("destroy", ind) != 0;
	}
	return (void *)bad;
}

static void
test_many(void) {
	pthread_t t[6];
	uintptr_t bad = 0;

	pthread_create(&t[0], NULL, observer, NULL);
	pthread_create(&t[1], NULL, observer, NULL);
	for (int i = 2; i < 6; i++)
		pthread_create(&t[i], NULL, maker, NULL);
	for (int i = 2; i < 6; i++) {
		void *b;

		pthread_join(t[i], &b);
		bad += (uintptr_t)b;
	}
	stop = true;
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	is_uint(bad, 0, "four threads make and end arenas, others look on");
}

static int
child_plain(void) {
	test_reset();
	test_destroy();
	test_settings();
	test_refusals();
	test_own_cache();
	test_lives();
	test_large_of_other();
	test_many();
	return done_testing();
}

/* Live samples of the whole process, as a dump says; 0: no dump. */
static unsigned
dumped(const char *path) {
	struct heap_profile h;

	if (ctl_write("prof.dump", path) != 0)
		return 0;
	h = heap_read(path);
	return h.good ? (unsigned)h.sampled : 0;
}

/* Samples end with their arena. */
static int
child_samples(void) {
	unsigned ind = create();
	char path[] = "/tmp/arena_life.XXXXXX";
	unsigned objects, few;
	size_t live;

	close(mkstemp(path));
	live = fill(0, 2000);
	ok(fill(ind, 20000) > 10 * live / 2, "ten times as much in the arena as elsewhere");
	objects = dumped(path);
	ok(objects > 1000, "%u samples", objects);
	is_int(arena_do("reset", ind), 0, "reset");
	few = dumped(path);
	ok(few > 0 && few < objects / 5, "after reset: those of the others (%u)", few);
	fill(ind, 20000);
	is_int(arena_do("destroy", ind), 0, "destroy");
	is_uint(dumped(path), few, "after destroy: the same");
	is_uint(create(), ind, "and again");
	fill(ind, 20000);
	ctl_epoch();
	ok(stat_of("small.allocated", ind) > 0, "the next life has samples too");
	is_int(arena_do("destroy", ind), 0, "destroy");
	unlink(path);
	return done_testing();
}

/* Of a destroyed arena no pages stay, those of its descriptors included (128 B each). */
static int
child_memory(void) {
	unsigned ind = create(), n = 40000;
	size_t before = rss_bytes(), after;

	for (unsigned i = 0; i < n; i++)
		keep(mallocx(16384, FLAGS(ind)));
	is_int(arena_do("destroy", ind), 0, "destroy of many extents");
	after = rss_bytes();
	/* the page map has 8 B for each page that was ever used */
	ok(after < before + (size_t)n * (64 + 4 * 8), "it gives back descriptors (RSS %zu, was %zu)",
	    after, before);
	return done_testing();
}

static const struct test_child children[] = {
	{"plain", child_plain},
	{"samples", child_samples},
	{"memory", child_memory},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	child_runs("plain", NULL);
	child_runs("plain", "dirty_decay_ms:0,retain:false,narenas:2");
	child_runs("memory", NULL);
	child_runs("memory", "dirty_decay_ms:0,retain:false,narenas:2");
	child_runs("plain", "muzzy_decay_ms:1000,background_thread:true,dirty_decay_ms:5");
	if (ctl_bool("config.prof")) {
		child_runs("plain", "prof:true,lg_prof_sample:10");
		child_runs("samples", "prof:true,lg_prof_sample:10");
	}
	return done_testing();
}
