/*
 * Background threads: memory goes back in a process that makes no call at all; they sleep when
 * nothing is due; they come at the start, block all signals, are not inherited by a forked child,
 * and do not keep a process alive; switched on and off while others allocate and load libraries.
 * What is waited for are states, with limits far beyond the decay times.
 */
#include "ctl.h"
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>

#define MB(n) ((n) >> 20)
#define BLOCKS 75
#define BLOCK ((size_t)4 << 20)

static void *blocks[BLOCKS];
static volatile bool stop;

/* Touched memory, 300 MB: half in blocks of 4 MB, half in small ones, linked. */
static void **chain;

static void
fill(void) {
	for (int i = 0; i < BLOCKS / 2; i++) {
		blocks[i] = keep(malloc(BLOCK));
		memset(blocks[i], 1, BLOCK);
	}
	for (size_t n = 0; n < BLOCKS / 2 * BLOCK; n += 2048) {
		void **p = keep(malloc(2048));

		memset(p, 1, 2048);
		*p = chain;
		chain = p;
	}
}

static void
drop(void) {
	for (int i = 0; i < BLOCKS / 2; i++)
		free(blocks[i]);
	while (chain != NULL) {
		void **p = chain;

		chain = *p;
		free(p);
	}
}

/*
 * Waits, with no call of the allocator, until RSS is a tenth and 40 MB above what was live at most.
 */
static void
falls_back(size_t live, const char *when) {
	size_t limit = live + live / 10 + (40 << 20), full = rss_bytes(), now = full;

	for (int64_t end = test_now_ms() + 200000; now >= limit && test_now_ms() < end; usleep(5000))
		now = rss_bytes();
	ok(now < limit, "%s: RSS falls back (%zu -> %zu MB, live %zu)", when, MB(full), MB(now),
	    MB(live));
}

/* The text of a file of task tid, at most size - 1 bytes. */
static void
task_text(const char *tid, const char *file, char *text, size_t size) {
	char path[300];
	int fd;
	ssize_t n = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%s/%s", tid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, size - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
}

/* Tasks of that name; *blocked counts those that block all signals a program can block. */
static int
tasks_named(const char *name, int *blocked) {
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	int n = 0;

	*blocked = 0;
	while (d != NULL && (e = readdir(d)) != NULL) {
		char comm[64], status[4096];
		const char *at;

		task_text(e->d_name, "comm", comm, sizeof(comm));
		if (e->d_name[0] == '.' || strncmp(comm, name, strlen(name)) != 0)
			continue;
		n++;
		task_text(e->d_name, "status", status, sizeof(status));
		at = strstr(status, "SigBlk:");
		/* SIGKILL and SIGSTOP cannot be; 32 to 34 are the C library's own. */
		*blocked += at != NULL
		    && (strtoull(at + 7, NULL, 16) | 0x380040100ULL) == 0xffffffffffffffffULL;
	}
	if (d != NULL)
		closedir(d);
	return n;
}

/*
 * Waits until n tasks bear the name; returns how many do. A new thread gives itself its name once
 * it runs, and a joined one stands in /proc for a moment more: the kernel wakes who joins before it
 * takes the task off its list.
 */
static int
tasks_become(int n, const char *name, int *blocked) {
	int now;

	for (int64_t end = test_now_ms() + 200000; (now = tasks_named(name, blocked)) != n
	    && test_now_ms() < end;)
		usleep(1000);
	return now;
}

static bool
threads_become(size_t n) {
	for (int64_t end = test_now_ms() + 200000; test_now_ms() < end; usleep(1000)) {
		ctl_epoch();
		if (ctl_size("stats.background_thread.num_threads") == n)
			return true;
	}
	return false;
}

static uint64_t
nruns(void) {
	ctl_epoch();
	return ctl_u64("stats.background_thread.num_runs");
}

/* Threads that there are while they are on. */
static int
all_threads(void) {
	size_t max = ctl_size("max_background_threads"), narenas = ctl_unsigned("opt.narenas");

	return (int)(max < narenas ? max : narenas);
}

static int
child_silent(void) {
	size_t before = rss_bytes(), full;
	int blocked, all = all_threads();

	is_int(tasks_named("", &blocked), 1 + all, "they are there before the program does anything");
	ok(ctl_bool("background_thread") && ctl_bool("opt.background_thread"), "it is on");
	fill();
	full = rss_bytes();
	ok(full > before + 280 * ((size_t)1 << 20), "%zu MB are in memory", MB(full));
	drop();
	falls_back(before, "without any call");
	is_int(tasks_named("jemalloc_bg_thd", &blocked), all, "threads of that name");
	is_int(blocked, all, "they block all signals");
	fill();
	drop();
	falls_back(before, "a second time");
	return done_testing();
}

/*
 * Waits until no thread runs for two seconds. What was due may come late; a thread that never
 * sleeps runs in each of the tries. Returns the runs so far.
 */
static uint64_t
fall_asleep(void) {
	uint64_t a, b;
	int tries = 0;

	do {
		a = nruns();
		usleep(2000000);
		b = nruns();
	} while (a != b && ++tries < 30);
	is_uint(b, a, "asleep: no run in two seconds (%llu runs so far)", (unsigned long long)b);
	return b;
}

/* Nothing unused: nothing to do, and no look at the clock either. */
static int
child_idle(void) {
	uint64_t b;
	int tries;

	fill();
	drop();
	is_int(ctl_void("thread.tcache.flush"), 0, "flush");
	is_int(ctl_void("arena.4096.purge"), 0, "purge");
	ok(threads_become(1), "the thread is there");
	b = fall_asleep();
	fill();
	drop();
	for (tries = 0; nruns() == b && tries < 12000; tries++)
		usleep(10000);
	ok(nruns() > b, "the next unused page wakes it");
	ok(ctl_u64("stats.background_thread.run_interval") > 0, "an interval");
	ok(ctl_u64("stats.mutexes.max_per_bg_thd.num_ops") > 0, "the thread's lock is counted");
	is_int(ctl_void("stats.mutexes.reset"), 0, "counters back to 0");
	return done_testing();
}

static void *
busy(void *arg) {
	uint64_t seed = (uint64_t)(uintptr_t)arg;
	char *live[100] = {NULL};

	while (!stop) {
		size_t at = test_random(&seed) % 100;

		free(live[at]);
		live[at] = keep(malloc(1 + test_random(&seed) % (at % 10 == 7 ? 300000 : 3000)));
		live[at][0] = 1;
	}
	for (int i = 0; i < 100; i++)
		free(live[i]);
	return NULL;
}

/* Loads and unloads a library with its own initialisers all the time. */
static void *
loader(void *arg) {
	static const char *const names[] = {"libresolv.so.2", "libutil.so.1", "libcrypt.so.1"};

	(void)arg;
	while (!stop) {
		for (int i = 0; i < 3; i++) {
			void *h = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);

			if (h != NULL)
				dlclose(h);
		}
	}
	return NULL;
}

static int
child_switched(void) {
	pthread_t t[9];
	unsigned bad = 0, wrong = 0;
	int blocked, rounds = (int)test_rounds(150, 1000);

	for (uintptr_t i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, busy, (void *)(i + 1));
	pthread_create(&t[8], NULL, loader, NULL);
	for (int i = 0; i < rounds; i++) {
		bool on = i % 2 == 0, old;
		size_t len = sizeof(old);

		bad += wrong_if(mallctl("background_thread", &old, &len, &on, sizeof(on)) != 0)
		    || wrong_if(old == on);
		wrong += ctl_bool("background_thread") != on;
	}
	is_uint(bad, 0, "%d times on and off", rounds);
	is_uint(wrong, 0, "each time it is what was set");
	is_int(tasks_become(0, "jemalloc_bg_thd", &blocked), 0, "off: no such thread is left");
	stop = true;
	for (int i = 0; i < 9; i++)
		pthread_join(t[i], NULL);
	return done_testing();
}

static pthread_barrier_t all_run;

static void *
switch_off(void *arg) {
	bool off = false;

	(void)arg;
	pthread_barrier_wait(&all_run); /* each has a stack of its own */
	return (void *)(intptr_t)ctl_write("background_thread", off);
}

/*
 * Threads of the child that get the stacks of threads of the parent, background ones too: a
 * background thread could not switch them off.
 */
static void
on_old_stacks(void) {
	enum { N = 8 };
	pthread_t t[N];
	void *err;
	int bad = 0;

	pthread_barrier_init(&all_run, NULL, N);
	for (int i = 0; i < N; i++)
		if (pthread_create(&t[i], NULL, switch_off, NULL) != 0)
			_exit(99);
	for (int i = 0; i < N; i++) {
		pthread_join(t[i], &err);
		bad += err != NULL;
	}
	is_int(bad, 0, "child: no thread of its own is taken for one");
}

/* The child of a fork has no such thread, until it wants one. */
static void
forked(void *arg) {
	size_t before = rss_bytes();
	bool on = true;
	int blocked;

	(void)arg;
	is_int(tasks_named("", &blocked), 1, "child: no thread is inherited");
	ok(!ctl_bool("background_thread"), "child: it is off");
	fill();
	drop();
	is_int(tasks_named("", &blocked), 1, "child: and stays so");
	ctl_epoch();
	is_uint(ctl_size("stats.background_thread.num_threads"), 0, "child: which it says");
	on_old_stacks();
	is_int(ctl_write("background_thread", on), 0, "child: on");
	fill();
	is_int(tasks_become(1, "jemalloc_bg_thd", &blocked), 1, "child: its own thread");
	drop();
	falls_back(before, "child");
	_exit(done_testing());
}

static int
child_forks(void) {
	static struct test_result r;
	size_t before = rss_bytes();
	bool off = false;

	fill();
	drop();
	ok(threads_become(1), "a thread in the parent");
	falls_back(before, "parent");
	for (int i = 0; i < 3; i++) {
		run_forked(&r, forked, NULL);
		child_exits(&r, 0, "fork %d", i);
	}
	is_int(ctl_write("background_thread", off), 0, "the parent's thread ends all the same");
	ok(threads_become(0), "and is gone");
	return done_testing();
}

static void *
in_arena(void *arg) {
	unsigned ind = (unsigned)(uintptr_t)arg;

	ctl_write("thread.arena", ind);
	for (int i = 0; i < 20; i++)
		free(keep(malloc(100000)));
	return NULL;
}

static int
child_max(void) {
	size_t n, got = 0, len = sizeof(got);
	bool on = true;

	is_uint(ctl_size("opt.max_background_threads"), 3, "opt.max_background_threads");
	is_uint(ctl_size("max_background_threads"), 3, "max_background_threads");
	for (uintptr_t i = 0; i < 8; i++) {
		pthread_t t;

		pthread_create(&t, NULL, in_arena, (void *)i);
		pthread_join(t, NULL);
	}
	is_int(ctl_write("background_thread", on), 0, "on");
	ok(threads_become(3), "eight arenas, three threads");
	n = 0;
	is_int(ctl_write("max_background_threads", n), EINVAL, "0 is refused");
	n = 4;
	is_int(ctl_write("max_background_threads", n), EINVAL, "more than the option is refused");
	n = 1;
	is_int(mallctl("max_background_threads", &got, &len, &n, sizeof(n)), 0, "down to one");
	is_uint(got, 3, "the old value");
	is_uint(ctl_size("stats.background_thread.num_threads"), 3, "statistics are of the last epoch");
	ok(threads_become(1), "one thread");
	n = 2;
	is_int(ctl_write("max_background_threads", n), 0, "up to two");
	ok(threads_become(2), "two threads");
	is_int(mallctl("background_thread", NULL, NULL, &on, 2), EINVAL, "wrong size");
	ok(threads_become(2), "changes nothing");
	on = true;
	is_int(ctl_write("background_thread", on), 0, "on when on");
	on = false;
	is_int(ctl_write("background_thread", on), 0, "off");
	ok(threads_become(0), "none");
	n = 3;
	is_int(ctl_write("max_background_threads", n), 0, "the maximum while off");
	ok(threads_become(0), "still none");
	return done_testing();
}

/* Decay times that change while the thread sleeps. */
static int
child_late_decay(void) {
	size_t before = rss_bytes();
	ssize_t ms = 300;
	char name[64];

	fill();
	drop();
	ok(threads_become(1), "a thread");
	/* With checks freed large blocks lose their pages at once. */
	ok(canary_bytes() != 0 || rss_bytes() > before + (200 << 20), "-1: the memory stays (%zu MB)",
	    MB(rss_bytes()));
	is_int(ctl_write(ctl_name(name, "arena.%u.dirty_decay_ms", 0), ms), 0, "a decay time now");
	falls_back(before, "without another call");
	return done_testing();
}

#define SMALL 100000
static void *small[SMALL];

/* Allocates 43 MB of small blocks; returns the RSS then. */
static size_t
fill_small(void) {
	for (int i = 0; i < SMALL; i++)
		small[i] = memset(keep(malloc(448)), 1, 448);
	return rss_bytes();
}

/* Frees all but one of 7 pages, which are a slab, so that no slab becomes empty. */
static void
drop_small(void) {
	int kept = (int)(7 * ctl_size("arenas.page") / 448);

	for (int i = 0; i < SMALL; i++) {
		if (i % kept != 0)
			free(small[i]);
	}
}

/* Waits, with no call of the allocator. Pages of slabs without a live block are at least half. */
static void
holes_go(size_t before, size_t full) {
	size_t limit = before + (full - before) / 2, now = full;

	for (int64_t end = test_now_ms() + 200000; now >= limit && test_now_ms() < end; usleep(5000))
		now = rss_bytes();
	ok(now < limit, "pages without a live block go (%zu -> %zu MB)", MB(full), MB(now));
}

/*
 * Releases that purge by themselves wake no thread; what they leave, muzzy pages and slabs with
 * pages of free regions only, is its business all the same.
 */
static int
child_at_once(void) {
	size_t before = rss_bytes(), full;

	ok(threads_become(1), "a thread");
	full = fill_small();
	drop_small();
	free(memset(keep(malloc(BLOCK)), 1, BLOCK));
	holes_go(before, full);
	ctl_epoch();
	for (int tries = 0; tries < 20000 && ctl_size("stats.arenas.0.pmuzzy") != 0; tries++) {
		usleep(10000);
		ctl_epoch();
	}
	is_uint(ctl_size("stats.arenas.0.pmuzzy"), 0, "and so do muzzy pages");
	return done_testing();
}

/*
 * Blocks that go back to slabs of which none becomes empty, while the thread sleeps. When all pages
 * have gone, it sleeps again, although it serves two arenas (one is that of oversized requests).
 */
static int
child_slabs(void) {
	size_t before = rss_bytes(), full;
	void *large = memset(keep(malloc(3 * BLOCK)), 1, 3 * BLOCK);

	ok(threads_become(1), "a thread");
	full = fill_small();
	fall_asleep();
	drop_small();
	holes_go(before, full);
	fall_asleep();
	free(large);
	return done_testing();
}

/*
 * What the C library maps for a thread of ours is a new maximum: the dump is written later, when no
 * lock is held. (musl takes a thread's memory from the system, so there nothing becomes due.)
 */
static int
child_gdump(void) {
	bool on = true, off = false;
	size_t before, got;

	ctl_epoch();
	before = ctl_size("stats.mapped");
	for (int i = 0; i < 20; i++) {
		is_int(ctl_write("background_thread", on), 0, "on");
		is_int(ctl_write("background_thread", off), 0, "off");
	}
	ctl_epoch();
	got = ctl_size("stats.mapped");
#ifdef __GLIBC__
	ok(got > before, "the C library has mapped something meanwhile (%zu, %zu)", before, got);
#else
	is_uint(got, before, "the C library has mapped nothing by us");
#endif
	return done_testing();
}

/*
 * A program whose first thread has ended ends with the last of its own threads, and its handlers of
 * exit() run: ours, which block all signals, do not keep it alive.
 */
static void
say_ended(void) {
	printf("ended\n");
}

static void *
outlive_first(void *first) {
	struct timespec second = {1, 0};
	int blocked;

	pthread_join(*(pthread_t *)first, NULL);
	bool on = true;
	if (mallctl("background_thread", NULL, NULL, &on, sizeof(on)) != 0)
		printf("not on\n");
	drop();
	fill();
	nanosleep(&second, NULL);
	if (tasks_become(1, "jemalloc_bg_thd", &blocked) != 1)
		printf("no background thread while one of the program runs\n");
	return NULL;
}

static int
child_first_ends(void) {
	static pthread_t first;
	pthread_t t;

	atexit(say_ended);
	first = pthread_self();
	pthread_create(&t, NULL, outlive_first, &first);
	pthread_exit(NULL);
}

static void
ends_with_its_threads(const char *conf) {
	static struct test_result r;

	run_child_conf(&r, "first_ends", conf);
	if (child_exits(&r, 0, "a program without its first thread ends: %s", conf))
		is_str(r.out, "ended\n", "by exit()");
}

static const struct test_child children[] = {
	{"silent", child_silent},
	{"idle", child_idle},
	{"switched", child_switched},
	{"forks", child_forks},
	{"max", child_max},
	{"late_decay", child_late_decay},
	{"at_once", child_at_once},
	{"slabs", child_slabs},
	{"gdump", child_gdump},
	{"first_ends", child_first_ends},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	child_runs("silent", "background_thread:true,dirty_decay_ms:500");
	child_runs("silent", "background_thread:true,dirty_decay_ms:300,muzzy_decay_ms:300,narenas:1");
	child_runs("silent", "background_thread:true,dirty_decay_ms:100,retain:false");
	child_runs("idle", "background_thread:true,dirty_decay_ms:100,narenas:1");
	child_runs("switched", "dirty_decay_ms:100,narenas:8");
	child_runs("forks", "background_thread:true,dirty_decay_ms:200,narenas:1");
	child_runs("max", "max_background_threads:3,narenas:8");
	child_runs("at_once",
	    "background_thread:true,dirty_decay_ms:0,muzzy_decay_ms:500,narenas:1,tcache:false");
	if (canary_bytes() == 0) /* with checks free blocks have contents */
		child_runs("slabs", "background_thread:true,dirty_decay_ms:500,narenas:1,tcache:false");
	child_runs("late_decay", "background_thread:true,dirty_decay_ms:-1,narenas:1");
	ends_with_its_threads("background_thread:true,narenas:1");
	ends_with_its_threads("narenas:1");
	if (ctl_bool("config.prof")) {
		ends_with_its_threads(
		    "background_thread:true,narenas:1,prof:true,prof_thread:true,lg_prof_sample:12");
		child_runs("gdump",
		    "abort:false,prof:true,prof_gdump:true,prof_dump_min_gap_ms:0,"
		    "prof_prefix:/dev/null/none,max_background_threads:1");
	}
	return done_testing();
}
