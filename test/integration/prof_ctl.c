/*
 * The nodes of the profiler: what they say while it is off by option, on, and switched;
 * names of threads; reset; and that switching on and off under load loses nothing.
 */
#include "ctl.h"
#include "heap.h"
#include <pthread.h>

static char path[] = "/tmp/jetest.XXXXXX";

static struct heap_profile
dump(void) {
	const char *name = path;
	struct heap_profile h = {0, 0, 0, 0, 0, 0, 0, 0, false, false};

	if (mallctl("prof.dump", NULL, NULL, &name, sizeof(name)) == 0)
		h = heap_read(path);
	return h;
}

static int
child_off(void) {
	const char *name = "/dev/null";
	bool on = true, off = false;
	size_t lg = 10;

	ok(!ctl_bool("opt.prof") && !ctl_bool("prof.active"), "profiling is off");
	is_int(ctl_write("prof.active", on), ENOENT, "prof.active cannot be set");
	is_int(ctl_write("prof.active", off), 0, "but may be set to what it is");
	is_int(ctl_write("thread.prof.active", on), ENOENT, "nor thread.prof.active");
	ok(!ctl_bool("thread.prof.active"), "which reads false");
	is_int(ctl_write("prof.thread_active_init", on), ENOENT, "prof.thread_active_init");
	is_int(ctl_write("prof.gdump", on), ENOENT, "prof.gdump");
	is_int(ctl_write("prof.dump", name), ENOENT, "prof.dump");
	is_int(ctl_write("prof.prefix", name), ENOENT, "prof.prefix");
	is_int(ctl_write("prof.reset", lg), ENOENT, "prof.reset");
	is_int(ctl_write("thread.prof.name", name), ENOENT, "thread.prof.name");
	is_uint(ctl_u64("prof.interval"), 0, "prof.interval is 0");
	is_uint(ctl_size("prof.lg_sample"), 0, "prof.lg_sample is 0");
	return done_testing();
}

static void *volatile kept[1000];

static void
keep_some(int from, int n, size_t size) {
	for (int i = from; i < from + n; i++)
		kept[i] = malloc(size);
}

static void
drop_some(int from, int n) {
	for (int i = from; i < from + n; i++)
		free(kept[i]);
}

static void
test_switches(void) {
	bool off = false, on = true, old = false;
	size_t len = sizeof(old);
	double before;

	keep_some(0, 100, 1000);
	before = dump().sampled;
	ok(before >= 100, "100 blocks are sampled (%.0f)", before);
	is_int(mallctl("prof.active", &old, &len, &off, sizeof(off)), 0, "off");
	ok(old && !ctl_bool("prof.active"), "it was on and is off");
	keep_some(100, 100, 1000);
	ok(dump().sampled == before, "nothing more is sampled");
	drop_some(0, 50);
	ok(dump().sampled == before - 50, "frees are seen while it is off");
	is_int(ctl_write("prof.active", on), 0, "on");
	keep_some(200, 100, 1000);
	ok(dump().sampled == before + 50, "and what comes now is sampled");
	is_int(ctl_write("thread.prof.active", off), 0, "off for this thread");
	keep_some(300, 100, 1000);
	ok(dump().sampled == before + 50, "it is not sampled");
	is_int(ctl_write("thread.prof.active", on), 0, "on");
	drop_some(50, 350);
	ok(dump().sampled == before - 100, "all gone (%.0f)", dump().sampled);
}

static void
test_reset(void) {
	size_t lg = 12, too_large = 100;

	keep_some(0, 100, 1000);
	is_int(ctl_void("prof.reset"), 0, "prof.reset");
	ok(dump().sampled == 0, "nothing is left in the profile");
	drop_some(0, 100);
	ok(dump().good, "old samples can be freed after it");
	is_int(ctl_write("prof.reset", lg), 0, "with another rate");
	is_uint(ctl_size("prof.lg_sample"), 12, "prof.lg_sample says so");
	is_uint(dump().rate, 4096, "and the head of the dump");
	is_int(ctl_write("prof.reset", too_large), 0, "a rate that is too large");
	is_uint(ctl_size("prof.lg_sample"), 63, "becomes 63");
	lg = 0;
	is_int(ctl_write("prof.reset", lg), 0, "back to every block");
	is_int(mallctl("prof.reset", NULL, NULL, &lg, 4), EINVAL, "a wrong length");
}

static void *
named(void *arg) {
	const char *name = "tester", *got = NULL, *bad = "with\nnewline", *null = NULL;
	size_t len = sizeof(got);
	void *p;

	(void)arg;
	is_int(ctl_write("thread.prof.name", name), 0, "thread.prof.name");
	is_int(mallctl("thread.prof.name", &got, &len, NULL, 0), 0, "read it");
	is_str(got, "tester", "it is the name");
	is_int(mallctl("thread.prof.name", &got, NULL, NULL, 0), 0,
	    "a place without its length asks for nothing");
	is_int(mallctl("thread.prof.name", NULL, &len, &name, sizeof(name)), 0,
	    "and a length without a place");
	is_int(mallctl("thread.prof.name", &got, NULL, &name, sizeof(name)), 0, "beside a name");
	is_int(mallctl("thread.prof.name", &got, &len, &name, sizeof(name)), EPERM, "not both at once");
	is_int(ctl_write("thread.prof.name", bad), EINVAL, "a control character");
	is_int(ctl_write("thread.prof.name", null), EINVAL, "NULL");
	name = "0123456789abcdefghij";
	is_int(ctl_write("thread.prof.name", name), 0, "a long name");
	is_str(ctl_str("thread.prof.name"), "0123456789abcde", "is cut to 15");
	p = keep(malloc(777));
	return p;
}

static void
test_names(void) {
	char text[200000];
	pthread_t t;
	void *p;
	int fd;
	ssize_t n;

	pthread_create(&t, NULL, named, NULL);
	pthread_join(t, &p);
	dump();
	fd = open(path, O_RDONLY);
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	contains(text, "] 0123456789abcde\n", "the dump has the name of a thread that is gone");
	free(p);
}

static volatile bool stop;

static void *
load(void *arg) {
	uint64_t seed = (uint64_t)(uintptr_t)arg;
	void *p[200] = {NULL};

	while (!stop) {
		size_t at = test_random(&seed) % 200;

		free(p[at]);
		p[at] = keep(malloc(1 + test_random(&seed) % (at == 3 ? 100000 : 2000)));
	}
	for (int i = 0; i < 200; i++)
		free(p[i]);
	return NULL;
}

static void
test_under_load(void) {
	double before = dump().sampled;
	pthread_t t[3];
	bool on = true, off = false;

	for (int i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, load, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < 10000; i++) {
		mallctl("prof.active", NULL, NULL, i % 2 ? &on : &off, 1);
		if (i % 500 == 0)
			dump();
	}
	stop = true;
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	mallctl("prof.active", NULL, NULL, &on, 1);
	ok(dump().good, "10000 switches under load");
	ok(dump().sampled <= before + 10, "no sample is left behind (%.0f, %.0f)", before,
	    dump().sampled);
}

static int
child_on(void) {
	int fd = mkstemp(path);

	close(fd);
	ok(ctl_bool("opt.prof") && ctl_bool("prof.active"), "profiling is on");
	is_uint(ctl_size("prof.lg_sample"), 0, "prof.lg_sample");
	is_uint(ctl_u64("prof.interval"), (uint64_t)1 << 40, "prof.interval");
	test_switches();
	test_reset();
	test_names();
	test_under_load();
	unlink(path);
	return done_testing();
}

static const struct test_child children[] = {
	{"off", child_off},
	{"on", child_on},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static struct test_result r;

	test_children(argc, argv, children);
	if (!ctl_bool("config.prof"))
		plan_skip_all("no profiler in this build");
	run_child_conf(&r, "off", "prof:false");
	child_exits(&r, 0, "nodes without opt.prof");
	run_child_conf(&r, "on", "prof:true,lg_prof_sample:0,lg_prof_interval:40");
	child_exits(&r, 0, "nodes with it");
	run_child_conf(&r, "on", "prof:true,lg_prof_sample:0,lg_prof_interval:40,tcache:false");
	child_exits(&r, 0, "and without thread caches");
	return done_testing();
}
