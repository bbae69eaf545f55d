/*
 * Memory goes back to the system after it was freed: by time, with nothing but traffic
 * inside a thread cache; at once or never where the options say so; and on request. The
 * waits have limits far beyond the decay times; how long it took decides nothing.
 */
#include "ctl.h"

#include <pthread.h>

#define BYTES ((size_t)300 << 20)
#define MB(n) ((n) >> 20)

static void **chain;

/* Touched blocks of many sizes, 300 MB in all, linked through their first word. */
static void
fill(void) {
	static const size_t sizes[] = {64, 512, 3000, 14336, 20000, 100000, 1 << 20, 3 << 20, 12 << 20};
	size_t total = 0;

	for (size_t i = 0; total < BYTES; i++) {
		size_t kind = (i / 64) % 9;
		size_t size = sizes[kind];
		void **p;

		if (size > 50000 && i % 16 != 0)
			continue;
		p = keep(malloc(size));
		memset(p, 1, size);
		*p = chain;
		chain = p;
		total += size;
	}
}

static void
drop(void) {
	while (chain != NULL) {
		void **p = chain;

		chain = *p;
		free(p);
	}
}

/* Small blocks that never leave the thread's cache, for about ms milliseconds. */
static void
traffic(int ms) {
	for (int i = 0; i < ms; i++) {
		for (int j = 0; j < 20000; j++)
			free(keep(malloc(64)));
		usleep(500);
	}
}

/* Traffic until resident memory is below limit, at most that long; what it was last. */
static size_t
falls_below(size_t limit, int seconds) {
	int64_t end = test_now_ms() + seconds * 1000;
	size_t now;

	do {
		traffic(20);
		now = rss_bytes();
	} while (now >= limit && test_now_ms() < end);
	return now;
}

static int
child_by_time(void) {
	size_t before, full, now;

	traffic(1);
	before = rss_bytes();
	fill();
	full = rss_bytes();
	ok(full > before + BYTES - BYTES / 10, "%zu MB are in memory", MB(full));
	drop();
	now = falls_below(before + (24 << 20), 200);
	ok(now < before + (24 << 20), "RSS falls back (%zu -> %zu MB, before %zu)", MB(full), MB(now),
	    MB(before));
	return done_testing();
}

static void *
thread_fill_and_drop(void *arg) {
	fill();
	drop();
	return arg;
}

/*
 * Twenty pairs a second: 64 KB would take minutes. What counts is how few there are, however long
 * each takes.
 */
static void
falls_slowly(size_t before, const char *what) {
	size_t now = BYTES;
	unsigned n;

	for (n = 0; n < 400 && now >= before + (24 << 20); n++) {
		usleep(50000);
		free(keep(malloc(64)));
		now = rss_bytes();
	}
	ok(now < before + (24 << 20), "%s: RSS falls with next to no traffic: %u small blocks (%zu MB, "
	    "before %zu)", what, n, MB(now), MB(before));
}

static int
child_slowly(void) {
	size_t before;
	pthread_t t;

	traffic(1);
	before = rss_bytes();
	thread_fill_and_drop(NULL);
	falls_slowly(before, "by the same thread");
	ok(pthread_create(&t, NULL, thread_fill_and_drop, NULL) == 0 && pthread_join(t, NULL) == 0,
	    "a thread is over");
	falls_slowly(before, "by a thread that is over");
	return done_testing();
}

static pthread_barrier_t has_dropped;

static void *
thread_sleeps_then(void *arg) {
	thread_fill_and_drop(arg);
	pthread_barrier_wait(&has_dropped);
	pause();
	return arg;
}

static void *
thread_falls_slowly(void *before) {
	falls_slowly(*(size_t *)before, "in a thread that began afterwards");
	return NULL;
}

/* Who gave it back does nothing any more, and who is left has never done much. */
static int
child_slowly_others(void) {
	size_t before = rss_bytes();
	pthread_t t;

	pthread_barrier_init(&has_dropped, NULL, 2);
	for (int is_new = 0; is_new < 2; is_new++) {
		ok(pthread_create(&t, NULL, thread_sleeps_then, NULL) == 0, "a thread of 300 MB");
		pthread_barrier_wait(&has_dropped);
		if (!is_new)
			falls_slowly(before, "by a thread that sleeps");
		else
			ok(pthread_create(&t, NULL, thread_falls_slowly, &before) == 0
			    && pthread_join(t, NULL) == 0, "over");
	}
	return done_testing();
}

static int
child_at_once(void) {
	size_t before = rss_bytes();

	fill();
	drop();
	mallctl("thread.tcache.flush", NULL, NULL, NULL, 0);
	ok(rss_bytes() < before + (24 << 20), "dirty_decay_ms:0, RSS %zu MB right after the frees",
	    MB(rss_bytes()));
	/* Large blocks of a size that is used again and again: none stays in the thread's cache. */
	for (int i = 0; i < 20; i++) {
		void *p[12];

		for (int k = 0; k < 12; k++) {
			p[k] = keep(malloc(1 << 20));
			memset(p[k], 1, 1 << 20);
		}
		before = rss_bytes();
		for (int k = 0; k < 12; k++)
			free(p[k]);
	}
	ok(rss_bytes() < before - (10 << 20), "of 12 MB that are used again %zu go",
	    MB(before - rss_bytes()));
	return done_testing();
}

static int
child_never(void) {
	size_t before = rss_bytes(), full;

	fill();
	full = rss_bytes();
	drop();
	traffic(300);
	is_int(ctl_void("arena.4096.decay"), 0, "arena.4096.decay");
	/* With checks freed large blocks lose their pages at once. */
	ok(canary_bytes() != 0 || rss_bytes() > full - BYTES / 4,
	    "dirty_decay_ms:-1 keeps the memory (%zu MB)", MB(rss_bytes()));
	ctl_void("thread.tcache.flush");
	is_int(ctl_void("arena.4096.purge"), 0, "arena.4096.purge");
	ok(rss_bytes() < before + (24 << 20), "and gives it back on request (%zu MB)",
	    MB(rss_bytes()));
	return done_testing();
}

/* The time set at run time holds for what is already free. */
static int
child_set_later(void) {
	size_t before = rss_bytes(), now;
	ssize_t ms = 200;

	fill();
	drop();
	is_int(ctl_write("arenas.dirty_decay_ms", ms), 0, "default for new arenas");
	for (unsigned i = 0; i < ctl_unsigned("arenas.narenas"); i++) {
		char name[64];

		if (ctl_bool(ctl_name(name, "arena.%u.initialized", i)))
			is_int(ctl_write(ctl_name(name, "arena.%u.dirty_decay_ms", i), ms), 0,
			    "arena %u", i);
	}
	now = falls_below(before + (24 << 20), 200);
	ok(now < before + (24 << 20), "a decay time set later (%zu MB, before %zu)", MB(now),
	    MB(before));
	return done_testing();
}

/*
 * An arena bounded by bytes gives back what is above them when it is freed, whatever the decay
 * time.
 */
static void
test_oversize(void) {
	unsigned ind = 0;
	size_t len = sizeof(ind), before, full, kept, two = 2 << 20, none = 0;
	void *p[30];
	ssize_t ms = 3600000;
	char name[64], dirty[64];

	is_int(mallctl("arenas.create", &ind, &len, NULL, 0), 0, "an arena by hand");
	ctl_name(name, "arena.%u.oversize_threshold", ind);
	is_uint(ctl_size(name), ctl_size("opt.oversize_threshold"),
	    "its threshold is that of the option");
	is_int(ctl_write(ctl_name(dirty, "arena.%u.dirty_decay_ms", ind), ms), 0,
	    "by time nothing of it goes in this hour");
	for (int round = 0; round < 2; round++) {
		before = rss_bytes();
		for (int i = 0; i < 30; i++) {
			p[i] = keep(mallocx(4 << 20, MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE));
			memset(p[i], 1, 4 << 20);
		}
		full = rss_bytes();
		for (int i = 0; i < 30; i++)
			dallocx(p[i], MALLOCX_TCACHE_NONE);
		if (round == 0) {
			ok(rss_bytes() > before + (100 << 20), "by time: 120 MB stay a while");
			is_int(ctl_write(name, two), 0, "threshold 2 MB");
			is_uint(ctl_size(name), 2 << 20, "holds");
		}
		ok(rss_bytes() < full - (100 << 20), "four times that stays");
		ctl_epoch();
		kept = ctl_size(ctl_name(dirty, "stats.arenas.%u.pdirty", ind)) * ctl_size("arenas.page");
		ok(kept <= 8 << 20 && kept > 7 << 20, "and not less (%zu)", kept);
	}
	is_int(ctl_write(name, none), 0, "0: unbounded again");
	is_int(ctl_write("arena.4000.oversize_threshold", none), ENOENT, "no such arena");
}

static void
test_nodes(void) {
	static const char *const names[] = { "arenas.dirty_decay_ms", "arenas.muzzy_decay_ms",
		"arena.0.dirty_decay_ms", "arena.0.muzzy_decay_ms" };

	for (size_t i = 0; i < 4; i++) {
		ssize_t old = ctl_ssize(names[i]), v = 5000, got = 0;
		size_t len = sizeof(got);

		is_int(old, i % 2 == 0 ? 10000 : 0, "%s by default", names[i]);
		is_int(mallctl(names[i], &got, &len, &v, sizeof(v)), 0, "%s: set", names[i]);
		is_int(got, old, "%s: the old value is read", names[i]);
		is_int(ctl_ssize(names[i]), 5000, "%s: holds", names[i]);
		v = -2;
		is_int(ctl_write(names[i], v), EFAULT, "%s: -2 is refused", names[i]);
		v = (ssize_t)18446744072001;
		is_int(ctl_write(names[i], v), EFAULT, "%s: too large is refused", names[i]);
		is_int(ctl_ssize(names[i]), 5000, "%s: still holds", names[i]);
		v = -1;
		is_int(ctl_write(names[i], v), 0, "%s: -1 is accepted", names[i]);
		is_int(ctl_write(names[i], old), 0, "%s: set back", names[i]);
	}
}

/* The limit of the arena of oversized requests is one of memory: no muzzy pages beside it. */
static int
child_oversize_muzzy(void) {
	size_t before = rss_bytes(), size = 8 << 20;
	void *p[25];

	for (int i = 0; i < 25; i++) {
		p[i] = keep(malloc(size));
		memset(p[i], 1, size);
	}
	/* The kernel's count lags by some pages for each processor. */
	ok(rss_bytes() >= before + 24 * size, "200 MB");
	for (int i = 0; i < 25; i++)
		free(p[i]);
	ok(rss_bytes() <= before + 5 * size, "freed: the limit stays (%zu MB)", MB(rss_bytes()));
	return done_testing();
}

static size_t
active_now(void) {
	ctl_epoch();
	return ctl_size("stats.active");
}

/* An object of each small class in each arena, and back. */
static void
use_slabs(void) {
	for (unsigned a = 0; a < ctl_unsigned("arenas.narenas") - 1; a++) {
		int flags = MALLOCX_ARENA(a) | MALLOCX_TCACHE_NONE;

		for (unsigned i = 0; i < ctl_unsigned("arenas.nbins"); i++) {
			char name[64];
			void *p = keep(mallocx(ctl_size(ctl_name(name, "arenas.bin.%u.size", i)), flags));

			memset(p, 1, 8);
			dallocx(p, MALLOCX_TCACHE_NONE);
		}
	}
}

/*
 * A slab that holds nothing is in use no more, also where it is the one that the next request would
 * come from.
 */
static int
child_slabs(void) {
	bool is_at_once = ctl_ssize("opt.dirty_decay_ms") == 0, is_served =
	    ctl_bool("opt.background_thread");
	size_t slab = 4 * ctl_size("arenas.page"), few = 64 * slab, before, now;

	traffic(1);
	ctl_void("arena.4096.purge");
	before = active_now();
	for (int round = 0; round < 2; round++) {
		use_slabs();
		if (is_at_once) {
			now = active_now();
			ok(now <= before + slab, "at once (%zu bytes, before %zu)", now, before);
		} else if (is_served) {
			for (int i = 0; i < 3000 && active_now() > before + slab; i++)
				usleep(10000);
			now = active_now();
			ok(now <= before + slab, "by the background threads (%zu bytes, before %zu)", now,
			    before);
		} else if (round == 0) {
			ok(active_now() > before + few, "slabs of eight arenas wait for the next request");
			for (int i = 0; i < 300 && active_now() > before + 2 * slab; i++)
				traffic(20);
			now = active_now();
			ok(now <= before + 2 * slab, "by time (%zu bytes, before %zu)", now, before);
		} else {
			is_int(ctl_void("arena.4096.purge"), 0, "arena.4096.purge");
			now = active_now();
			ok(now <= before, "by a purge (%zu bytes, before %zu)", now, before);
		}
	}
	return done_testing();
}

/* The same of a thread's own arena. */
static int
child_slabs_of_idle(void) {
	size_t before;

	is_int(ctl_void("thread.idle"), 0, "thread.idle");
	before = active_now();
	use_slabs();
	ok(active_now() > before, "slabs wait");
	is_int(ctl_void("thread.idle"), 0, "thread.idle");
	is_uint(active_now(), before, "none does");
	return done_testing();
}

static const struct test_child children[] = {
	{"by_time", child_by_time},
	{"slowly", child_slowly},
	{"slowly_others", child_slowly_others},
	{"at_once", child_at_once},
	{"never", child_never},
	{"set_later", child_set_later},
	{"oversize_muzzy", child_oversize_muzzy},
	{"slabs", child_slabs},
	{"slabs_of_idle", child_slabs_of_idle},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	test_nodes();
	test_oversize();
	child_runs("by_time", "dirty_decay_ms:1000");
	child_runs("by_time", "dirty_decay_ms:500,muzzy_decay_ms:500");
	child_runs("by_time", "dirty_decay_ms:1000,narenas:1,retain:false");
	child_runs("by_time", NULL);
	child_runs("slowly", "dirty_decay_ms:1000");
	child_runs("slowly_others", "dirty_decay_ms:1000");
	child_runs("at_once", "dirty_decay_ms:0,muzzy_decay_ms:0");
	child_runs("never", "dirty_decay_ms:-1");
	child_runs("set_later", "dirty_decay_ms:100000");
	child_runs("oversize_muzzy", "muzzy_decay_ms:10000");
	if (canary_bytes() != 0) {
		skip(4, "with checks freed blocks wait in their slabs");
	} else {
		child_runs("slabs", "narenas:8,dirty_decay_ms:1000000");
		child_runs("slabs", "narenas:8,dirty_decay_ms:0");
		child_runs("slabs", "narenas:8,dirty_decay_ms:1000000,background_thread:true");
		child_runs("slabs_of_idle", "narenas:1");
	}
	return done_testing();
}
