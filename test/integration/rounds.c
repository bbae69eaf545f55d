/*
 * What a call leaves behind: each thing that a program may do again and again, with the profiler or
 * without, adds no descriptor, thread or address space after some rounds. Each is done in a process
 * of its own, so that what one keeps is not taken for another's.
 */
#include "ctl.h"
#include "dir.h"

#include <pthread.h>

enum { BLOCKS = 8, ROUNDS = 8 };

/* ------------------------------------------------------------------ what is counted */

struct has {
	int descriptors, threads;
	size_t bytes; /* of address space */
};

static struct has
count(void) {
	return (struct has){.descriptors = files_in("/proc/self/fd"),
	    .threads = files_in("/proc/self/task"), .bytes = proc_status_bytes("VmSize")};
}

/* ------------------------------------------------------------------ what is done */

static bool has_prof;
static unsigned n_failed;

/* A call that succeeds, for what is the profiler's where it is on. */
static void
works(int err, const char *name) {
	if (err != 0 && (has_prof || strncmp(name, "prof.", 5) != 0)) {
		diag("%s: %s", name, strerror(err));
		n_failed++;
	}
}

static void
set_text(const char *name, const char *text) {
	works(ctl_write(name, text), name);
}

static void
set_switch(const char *name, bool on) {
	works(ctl_write(name, on), name);
}

static void
run(const char *name) {
	works(ctl_void(name), name);
}

static void
allocate(void) {
	static void *p[200];

	for (unsigned i = 0; i < 200; i++)
		p[i] = keep(malloc(1000 + 100 * i));
	for (unsigned i = 0; i < 200; i++)
		free(p[i]);
}

static void
dumps(void) {
	set_text("prof.dump", "a.heap");
	run("prof.dump");
}

static void
dumps_nowhere(void) {
	static const char *paths[] = {"nowhere/a.heap", "/dev/full"};

	for (unsigned i = 0; i < 2; i++)
		n_failed += ctl_write("prof.dump", paths[i]) == 0;
}

static void
deltas(void) {
	run("prof.mark");
	allocate();
	set_text("prof.dump_delta", "d.heap");
	run("prof.mark");
}

static void
sessions(void) {
	set_text("prof.session.start", "sample_interval:1");
	allocate();
	run("prof.session.stop");
}

/* Each session has a black box of its own: the tables leave one and enter a smaller one. */
static void
boxes(void) {
	static const char *const sizes[] = {"8M", "1M", "1M", "2M"};
	char options[80];

	for (unsigned i = 0; i < 4; i++) {
		snprintf(options, sizeof(options), "sample_interval:1,blackbox:%s,blackbox_size:%s",
		    i % 2 == 0 ? "fd" : "true", sizes[i]);
		set_text("prof.session.start", options);
		allocate();
		run("prof.session.stop");
	}
}

/* Waits for this number of threads beside the program's. */
static void
wait_for(int others) {
	for (unsigned i = 0; files_in("/proc/self/task") != 1 + others && i < 2000; i++) {
		free(keep(malloc(1 << 20)));
		usleep(10000);
	}
	n_failed += files_in("/proc/self/task") != 1 + others;
}

/* The profiler's thread comes, and ends when it has had nothing to do for a second. */
static void
own_threads(void) {
	const char *options = "sample_interval:1,blackbox:fd";

	if (!has_prof)
		return;
	set_text("prof.session.start", options);
	wait_for(1);
	run("prof.session.stop");
	wait_for(0);
}

static void
logs(void) {
	const char *nowhere = "nowhere/a.log";

	set_text("prof.log_start", "a.log");
	allocate();
	run("prof.log_stop");
	ctl_write("prof.log_start", nowhere);
	allocate();
	ctl_void("prof.log_stop");
}

static void
sink(void *arg, const char *text) {
	*(size_t *)arg += strlen(text);
}

static void
recent(void) {
	static struct {
		void (*write)(void *, const char *);
		void *arg;
	} to = {sink, NULL};
	size_t n = 0;
	ssize_t most = 100, none = 0;

	to.arg = &n;
	ctl_write("experimental.prof_recent.alloc_max", most);
	allocate();
	mallctl("experimental.prof_recent.alloc_dump", NULL, NULL, &to, sizeof(to));
	ctl_write("experimental.prof_recent.alloc_max", none);
}

static void
resets(void) {
	allocate();
	run("prof.reset");
}

static void
switches(void) {
	set_switch("prof.active", false);
	allocate();
	set_switch("prof.active", true);
	allocate();
}

static void
arenas(void) {
	unsigned ind = ctl_unsigned("arenas.create");
	char name[64];

	for (unsigned i = 0; i < 40; i++)
		keep(mallocx(1000 << i % 8, MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE));
	run(ctl_name(name, "arena.%u.destroy", ind));
}

static void
caches(void) {
	unsigned ind = ctl_unsigned("tcache.create");

	for (unsigned i = 0; i < 40; i++)
		dallocx(keep(mallocx(1000 << i % 8, MALLOCX_TCACHE(ind))), MALLOCX_TCACHE(ind));
	works(ctl_write("tcache.destroy", ind), "tcache.destroy");
}

static void
reports(void) {
	size_t n = 0;

	ctl_epoch();
	malloc_stats_print(sink, &n, NULL);
	malloc_stats_print(sink, &n, "J");
}

static void
background(void) {
	set_switch("background_thread", true);
	allocate();
	set_switch("background_thread", false);
}

static void *
thread_main(void *arg) {
	allocate();
	return arg;
}

static void
threads(void) {
	pthread_t t;

	pthread_create(&t, NULL, thread_main, NULL);
	pthread_join(t, NULL);
}

static void
large(void) {
	void *p = keep(malloc(3 << 20));

	p = keep(realloc(p, 5 << 20));
	free(keep(realloc(p, 1 << 20)));
}

static const struct {
	const char *name;
	void (*fn)(void);
	bool is_slow; /* few rounds */
} things[] = {
	{"dumps", dumps, false}, {"dumps to nowhere", dumps_nowhere, false}, {"deltas", deltas, false},
	{"sessions", sessions, false}, {"boxes", boxes, false}, {"own threads", own_threads, true},
	{"logs", logs, false}, {"recent samples", recent, false}, {"resets", resets, false},
	{"switches", switches, false}, {"arenas", arenas, false}, {"caches", caches, false},
	{"reports", reports, false}, {"background threads", background, false},
	{"threads", threads, false}, {"large blocks", large, false},
};

/* ------------------------------------------------------------------ rounds */

/*
 * What is lost in each round grows in each block of rounds. Memory that is kept for later uses, and
 * arenas that threads move to, grow in some.
 */
static int
child_rounds(void) {
	const char *number = getenv("THING");
	unsigned i = (unsigned)atoi(number != NULL ? number : "0");
	bool has_fewest[3] = {false, false, false};
	struct has before, after;

	has_prof = ctl_exists("opt.prof") && ctl_bool("opt.prof");
	after = count();
	for (unsigned block = 0; block < (things[i].is_slow ? 4 : BLOCKS); block++) {
		before = after;
		for (unsigned round = 0; round < (things[i].is_slow ? 1 : ROUNDS); round++)
			things[i].fn();
		after = count();
		has_fewest[0] |= after.descriptors <= before.descriptors;
		has_fewest[1] |= after.threads <= before.threads;
		has_fewest[2] |= after.bytes <= before.bytes;
		diag("%d descriptors, %d threads, %zu bytes", after.descriptors, after.threads,
		    after.bytes);
	}
	is_uint(n_failed, 0, "%s: each call does as it should", things[i].name);
	ok(has_fewest[0], "%s: descriptors", things[i].name);
	ok(has_fewest[1], "%s: threads", things[i].name);
	ok(has_fewest[2], "%s: address space", things[i].name);
	return done_testing();
}

static const struct test_child children[] = {{"rounds", child_rounds}, {NULL, NULL}};

int
main(int argc, char **argv) {
	static const char *const confs[] = {"prof:true,lg_prof_sample:10,prof_prefix:p", ""};

	test_children(argc, argv, children);
	dir_enter();
	for (unsigned c = 0; c < 2; c++) {
		for (unsigned i = 0; i < sizeof(things) / sizeof(things[0]); i++) {
			char number[12];
			snprintf(number, sizeof(number), "%u", i);
			setenv("THING", number, 1);
			child_runs("rounds", confs[c]);
		}
	}
	dir_leave();
	return done_testing();
}
