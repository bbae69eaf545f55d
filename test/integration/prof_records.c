/*
 * What the profiler counts beside the live heap: prof.stats by class, cumulative numbers, names of
 * threads; exactly, as each allocation is a sample here.  And that thresholds do not spoil them.
 */
#include "dumps.h"
#include "heap.h"

#include <pthread.h>
#include <sys/prctl.h>

#define K ((size_t)1024)
#define M (K * K)

typedef struct {
	uint64_t req_sum, count;
} stats_t;

static stats_t
stats_of(const char *what, unsigned i, const char *which) {
	char name[80];
	stats_t s = {UINT64_MAX, UINT64_MAX};
	size_t len = sizeof(s);

	snprintf(name, sizeof(name), "prof.stats.%s.%u.%s", what, i, which);
	int err = mallctl(name, &s, &len, NULL, 0);
	if (err != 0)
		diag("%s: %d", name, err);
	return s;
}

static void
are(stats_t now, stats_t before, uint64_t sum, uint64_t count, const char *name) {
	ok(now.req_sum - before.req_sum == sum && now.count - before.count == count,
	    "%s: %llu bytes in %llu", name, (unsigned long long)(now.req_sum - before.req_sum),
	    (unsigned long long)(now.count - before.count));
}

/* The bin whose size is n, or the large class. */
static unsigned
class_index(const char *what, size_t n) {
	char name[60];

	for (unsigned i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "arenas.%s.%u.size", what, i);
		if (ctl_size(name) == n)
			return i;
	}
	return 1000;
}

static void
stats(void) {
	unsigned small = class_index("bin", 320), large = class_index("lextent", M);
	stats_t sl = stats_of("bins", small, "live"), sa = stats_of("bins", small, "accum");
	stats_t ll = stats_of("lextents", large, "live"), la = stats_of("lextents", large, "accum");
	static void *p[100];
	stats_t s;
	uint64_t gap = canary_bytes(), sum = 28346 - 100 * gap;
	size_t len = sizeof(s), odd = 8;

	for (unsigned i = 0; i < 100; i++)
		p[i] = keep(malloc(257 - gap + i % 64));
	void *q = keep(malloc(M - 5));
	are(stats_of("bins", small, "live"), sl, sum, 100, "live of 320");
	are(stats_of("bins", small, "accum"), sa, sum, 100, "accum of 320");
	are(stats_of("lextents", large, "live"), ll, M - 5, 1, "live of a large class");
	for (unsigned i = 0; i < 40; i++)
		free(p[i]);
	uint64_t gone = 0;
	for (unsigned i = 0; i < 40; i++)
		gone += 257 - gap + i % 64;
	are(stats_of("bins", small, "live"), sl, sum - gone, 60, "after 40 were freed");
	are(stats_of("bins", small, "accum"), sa, sum, 100, "accum stays");
	free(q);
	are(stats_of("lextents", large, "live"), ll, 0, 0, "the large one is gone");
	are(stats_of("lextents", large, "accum"), la, M - 5, 1, "and was there");
	/* Large for a threshold: counted like any other. */
	uint64_t threshold = 290;
	is_int(ctl_write("prof.threshold.large", threshold), 0, "a threshold");
	q = keep(malloc(310 - gap));
	is_uint(dumps_read('l'), 1, "fires");
	are(stats_of("bins", small, "live"), sl, sum - gone + 310 - gap, 61, "and is counted once");
	free(q);
	bool off = false;
	is_int(ctl_write("prof.active", off), 0, "off");
	free(keep(malloc(300)));
	for (unsigned i = 40; i < 100; i++)
		free(p[i]);
	are(stats_of("bins", small, "live"), sl, 0, 0, "freed while off");
	are(stats_of("bins", small, "accum"), sa, sum + 310 - gap, 101, "what was off was not counted");
	is_int(mallctl("prof.stats.bins.0.live", &s, &odd, NULL, 0), EINVAL, "a wrong length");
	is_int(mallctl("prof.stats.bins.0.live", &s, &len, &s, sizeof(s)), EPERM, "read-only");
	is_int(mallctl("prof.stats.bins.1000.live", &s, &len, NULL, 0), ENOENT, "no such class");
	is_int(mallctl("prof.stats.lextents.100000.live", &s, &len, NULL, 0), ENOENT,
	    "no such large one");
}

static void
no_stats(void) {
	stats_t s;
	size_t len = sizeof(s);

	is_int(mallctl("prof.stats.bins.0.live", &s, &len, NULL, 0), ENOENT, "without prof_stats");
}

static volatile bool is_over;

static void *
load(void *arg) {
	uint64_t seed = (uintptr_t)arg;
	size_t gap = canary_bytes();
	void *p[64] = {NULL};

	for (unsigned i = 0; i < 20000; i++) {
		unsigned k = (unsigned)(test_random(&seed) % 64);

		free(p[k]);
		p[k] = keep(malloc(385 - gap + test_random(&seed) % 64));
	}
	for (unsigned i = 0; i < 64; i++)
		free(p[i]);
	return NULL;
}

static void
stats_of_threads(void) {
	unsigned small = class_index("bin", 448);
	stats_t sl = stats_of("bins", small, "live"), sa = stats_of("bins", small, "accum");
	pthread_t t[8];

	for (uintptr_t i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, load, (void *)(i + 1));
	for (unsigned i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	is_uint(stats_of("bins", small, "live").count - sl.count, 0, "eight threads: nothing lives");
	uint64_t n = stats_of("bins", small, "accum").count - sa.count;
	is_uint(n, 160000, "all were counted");
}

/* ------------------------------------------------------------------ cumulative */

__attribute__((noinline)) static void
site_a(unsigned n) {
	for (unsigned i = 0; i < n; i++)
		free(keep(malloc(1000)));
}

static void
accum(void) {
	char *name = (char *)"accum.heap";
	uint64_t alloc = 256 * K;

	is_int(ctl_write("prof.dump", name), 0, "before");
	struct heap_profile before = heap_read(name);
	is_int(ctl_write("prof.threshold.alloc", alloc), 0, "with a threshold");
	site_a(5000);
	ok(dumps_read('a') >= 15, "that fires: %u", dumps.n);
	is_int(ctl_write("prof.dump", name), 0, "after");
	struct heap_profile after = heap_read(name);
	ok(fabs(after.all_objects - before.all_objects - 5000) < 1, "5000 objects: %.1f",
	    after.all_objects - before.all_objects);
	ok(fabs(after.all_bytes - before.all_bytes - 5000 * 1024) < 1, "of 1024 bytes: %.1f",
	    after.all_bytes - before.all_bytes);
	ok(fabs(after.live_objects - before.live_objects) < 1, "none of them lives");
	is_int(ctl_void("prof.reset"), 0, "reset");
	is_int(ctl_write("prof.dump", name), 0, "dump");
	ok(heap_read(name).all_objects < 1, "forgotten");
}

/*
 * By a rate: right within what chance allows (5000 samples are within 7 % in five standard
 * deviations).
 */
static void
accum_sampled(void) {
	char *name = (char *)"accum.heap";

	site_a(40000);
	is_int(ctl_write("prof.dump", name), 0, "dump");
	struct heap_profile h = heap_read(name);
	ok(h.all_bytes > 40000 * 1024 * 0.93 && h.all_bytes < 40000 * 1024 * 1.07,
	    "cumulative bytes: %.0f of %d", h.all_bytes, 40000 * 1024);
}

/* ------------------------------------------------------------------ names */

static bool
has_thread(const char *name) {
	static char text[1 << 20], line[100];
	char *file = (char *)"names.heap";

	if (ctl_write("prof.dump", file) != 0)
		return false;
	int fd = open(file, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	snprintf(line, sizeof(line), "] %s\n", name);
	return strstr(text, line) != NULL;
}

static void *
by_system(void *arg) {
	char *mine = (char *)"mine";

	(void)arg;
	prctl(PR_SET_NAME, "first name");
	void *p = keep(malloc(100));
	ok(has_thread("first name"), "the system's name");
	prctl(PR_SET_NAME, "second");
	ok(has_thread("first name"), "of when it last sampled");
	void *q = keep(malloc(100));
	ok(has_thread("second") && !has_thread("first name"), "follows with the next sample");
	is_str(ctl_str("thread.prof.name"), "second", "can be read");
	is_int(ctl_write("thread.prof.name", mine), ENOENT, "but not set");
	prctl(PR_SET_NAME, "tor\nn");
	free(q);
	q = keep(malloc(100));
	ok(has_thread("tor?n"), "a line break would tear the profile");
	prctl(PR_SET_NAME, "0123456789abcdefghi");
	free(q);
	q = keep(malloc(100));
	ok(has_thread("0123456789abcde"), "fifteen bytes");
	free(q);
	return p;
}

static void
system_names(void) {
	pthread_t t;
	void *p;

	pthread_create(&t, NULL, by_system, NULL);
	pthread_join(t, &p);
	ok(has_thread("0123456789abcde"), "outlives its thread as long as a sample does");
	free(p);
	ok(!has_thread("0123456789abcde"), "not longer");
}

static void *
by_program(void *arg) {
	char *name = (char *)"work er\t1", *empty = (char *)"", *high = (char *)"caf\xc3\xa9",
	    *control = (char *)"a\x7f";

	(void)arg;
	is_str(ctl_str("thread.prof.name"), "", "none at first");
	is_int(ctl_write("thread.prof.name", name), 0, "blanks and tabs");
	void *p = keep(malloc(100));
	ok(has_thread(name), "in the profile");
	is_int(ctl_write("thread.prof.name", high), EINVAL, "not beyond ASCII");
	is_int(ctl_write("thread.prof.name", control), EINVAL, "nor a control character");
	is_str(ctl_str("thread.prof.name"), name, "the old one stays");
	is_int(ctl_write("thread.prof.name", empty), 0, "an empty one");
	is_str(ctl_str("thread.prof.name"), "", "is none");
	ok(!has_thread(name), "nor in the profile");
	free(p);
	return NULL;
}

static void
program_names(void) {
	pthread_t t;

	pthread_create(&t, NULL, by_program, NULL);
	pthread_join(t, NULL);
}

static void *
rename_often(void *arg) {
	char name[16], *at = name;

	for (unsigned i = 0; !is_over; i++) {
		snprintf(name, sizeof(name), "%s%06u", (const char *)arg, i % 1000000);
		ctl_write("thread.prof.name", at);
		free(keep(malloc(100)));
	}
	return NULL;
}

/* A name that changes while a profile is written is there whole, the old or the new one. */
static void
names_change(void) {
	pthread_t t[2];
	unsigned bad = 0;
	static char text[1 << 20];
	char *file = (char *)"names.heap";

	pthread_create(&t[0], NULL, rename_often, (void *)(uintptr_t)"aaaaaaaa");
	pthread_create(&t[1], NULL, rename_often, (void *)(uintptr_t)"bbbbbbbb");
	for (unsigned i = 0; i < 300; i++) {
		if (ctl_write("prof.dump", file) != 0)
			bad++;
		int fd = open(file, O_RDONLY);
		ssize_t n = read(fd, text, sizeof(text) - 1);
		close(fd);
		text[n > 0 ? n : 0] = '\0';
		for (char *at = text; (at = strstr(at, "] ")) != NULL; at++) {
			unsigned number;
			char letters[16], end;

			if (sscanf(at, "] %8[ab]%6u%c", letters, &number, &end) != 3 || end != '\n'
			    || strspn(letters, "a") % 8 != 0)
				bad++;
		}
	}
	is_over = true;
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	is_uint(bad, 0, "300 profiles while names change");
}

/*
 * Stacks can be taken before the first sample asks for one: else those of other threads are lost
 * while it sees to that.
 */
static void
is_ready(void) {
	static char text[1 << 20];
	char *file = (char *)"ready.heap";

	is_int(ctl_write("prof.dump", file), 0, "a profile without samples");
	int fd = open(file, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	ok(strstr(text, "unwinder_health=samples:0 ") != NULL, "no stack was taken");
	ok(strstr(text, "jemalloc.unwinder=") != NULL && strstr(text, "jemalloc.unwinder=none") == NULL,
	    "but could be");
}

#define EACH "prof:true,lg_prof_sample:0,prof_dump_min_gap_ms:0,"

static const struct dumps_test tests[] = {
	{"stats", stats, EACH "prof_stats:true"},
	{"stats_leak", stats, EACH "prof_stats:true,prof_recent_alloc_max:10,prof_accum:true"},
	{"no_stats", no_stats, "prof:true"},
	{"stats_threads", stats_of_threads, EACH "prof_stats:true"},
	{"ready", is_ready, "prof:true,lg_prof_sample:50"},
	{"accum", accum, EACH "prof_accum:true"},
	{"accum2", accum_sampled, "prof:true,prof_accum:true,lg_prof_sample:13"},
	{"system_names", system_names, EACH "prof_sys_thread_name:true"},
	{"program_names", program_names, EACH "prof_accum:false"},
	{"names_change", names_change, EACH "prof_accum:false"},
};

int
main(int argc, char **argv) {
	return dumps_run_all(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
