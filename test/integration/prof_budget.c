/*
 * The budget as a program sets it: option, node and session; and that estimates stay right while
 * the interval changes again and again.
 */
#include "dumps.h"

#include <math.h>

#define PERCENT(x) ((uint32_t)((x) * 65536))

static void
settings(void) {
	uint32_t half = PERCENT(0.5), much = PERCENT(100) + 1, none = 0;
	const char *options = "budget:2.25", *bad[] = {"budget:", "budget:x", "budget:-1", "budget:101",
	    "budget:1%", "budget:0.5x"};

	is_uint(ctl_u32("opt.prof_budget"), PERCENT(1.5), "the option, a decimal number");
	is_uint(ctl_u32("prof.budget"), PERCENT(1.5), "holds at the start");
	is_int(ctl_write("prof.budget", half), 0, "a write");
	is_uint(ctl_u32("prof.budget"), half, "holds");
	is_int(ctl_write("prof.budget", much), EINVAL, "more than 100 percent");
	is_uint(ctl_u32("prof.budget"), half, "changes nothing");
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		is_int(ctl_write("prof.session.start", bad[i]), EINVAL, "a session with %s", bad[i]);
	is_int(ctl_write("prof.session.start", options), 0, "a session with its own");
	is_uint(ctl_u32("prof.budget"), PERCENT(2.25), "which holds");
	is_int(ctl_void("prof.session.stop"), 0, "until it ends");
	is_uint(ctl_u32("prof.budget"), half, "then that of before");
	is_int(ctl_write("prof.budget", none), 0, "none");
	is_uint(ctl_u32("prof.budget"), 0, "is allowed");
}

/* The live objects and bytes that a reader estimates of the profile. */
static void
estimate(const char *path, double *objects, double *bytes) {
	char line[4096];
	double rate = 1, n, s;
	bool in_stack = false;
	FILE *f = fopen(path, "r");

	*objects = *bytes = 0;
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		sscanf(line, "heap_v2/%lf", &rate);
		in_stack = in_stack || line[0] == '@';
		if (in_stack && sscanf(line, "  t*: %lf: %lf [", &n, &s) == 2 && n > 0) {
			double scale = 1 / (1 - exp(-s / n / rate));

			*objects += n * scale;
			*bytes += s * scale;
		}
	}
	if (f != NULL)
		fclose(f);
}

static void
unbiased(void) {
	enum { ROUNDS = 60, EACH = 20000, SIZE = 320 };
	uint32_t tiny = 1, none = 0;
	const double want = (double)ROUNDS * EACH;
	unsigned changes = 0;
	size_t last = 0, most = 0;
	double objects, bytes;

	for (int i = 0; i < ROUNDS; i++) {
		/* A budget that nothing can keep to, and none, which goes back to what was set. */
		ctl_write("prof.budget", tiny);
		for (int k = 0; k < EACH; k++) {
			keep(malloc(SIZE));
			if (k % 256 == 0) {
				size_t now = ctl_size("prof.sample_interval");

				changes += now != last;
				most = now > most ? now : most;
				last = now;
			}
		}
		ctl_write("prof.budget", none);
	}
	ok(changes >= 2 * ROUNDS, "the interval changed %u times", changes);
	ok(most > 4096, "up to %zu bytes", most);
	const char *path = "all";

	is_int(ctl_write("prof.dump", path), 0, "a dump");
	estimate(path, &objects, &bytes);
	/*
	 * The variance of the sum is at most that of samples at the largest interval alone: six
	 * deviations are never passed.
	 */
	double deviation = sqrt(want * ((double)most / SIZE));

	ok(fabs(objects - want) < 6 * deviation, "%.0f objects, estimated %.0f, deviation %.0f", want,
	    objects, deviation);
	ok(fabs(bytes - want * SIZE) < 6 * deviation * SIZE, "their bytes");
	ok(deviation < want / 20, "which says something");
}

static void
told(void) {
	uint32_t tiny = 1;
	const char *path = "told.0.m0.heap";

	ctl_write("prof.budget", tiny);
	for (int k = 0; k < 100000; k++)
		keep(malloc(320));
	is_int(ctl_write("prof.dump", path), 0, "a dump");
	dumps_read('m');
	is_uint(dump_number(0, "sample_interval"), ctl_size("prof.sample_interval"),
	    "the dump tells the interval in force");
	ok(dump_number(0, "sample_interval") > 4096, "which is larger");
	is_uint(dump_number(0, "sample_interval_set"), 4096, "than what was set");
}

int
main(int argc, char **argv) {
	static const struct dumps_test tests[] = {
		{"settings", settings, "prof:true,prof_budget:1.5"},
		{"unbiased", unbiased, "prof:true,lg_prof_sample:12"},
		{"told", told, "prof:true,lg_prof_sample:12"},
	};

	return dumps_run_all(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
