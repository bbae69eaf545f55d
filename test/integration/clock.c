/*
 * The wall clock is the program's own here (libfaketime does the same): before 1970, at 1970 to the
 * nanosecond, set back between two dumps, behind the last date that is supported. Names and headers
 * have the right date; the order of the dumps of a process is told by numbers that the wall clock
 * does not change.
 */
#include "dumps.h"

static struct timespec wall;

/* For the program and for the library, which calls it by name. */
int
clock_gettime(clockid_t id, struct timespec *ts) {
	if (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE)
		return (int)syscall(SYS_clock_gettime, id, ts);
	*ts = wall;
	return 0;
}

/* Index of the profile that was written last. */
static unsigned
last(void) {
	unsigned n = dumps_read('*');

	return n > 0 ? n - 1 : 0;
}

/* A dump while the clock shows this; the stamp in its name and header must be `want`. */
static void
dump_at(time_t sec, long ns, const char *want) {
	char part[64];

	wall = (struct timespec){sec, ns};
	is_int(ctl_void("prof.dump"), 0, "a dump at %s", want);
	unsigned i = last();
	snprintf(part, sizeof(part), ".%d.%s.", (int)getpid(), want);
	contains(dumps.v[i].name, part, "its name");
	is_str(dump_text(i, "dump_time"), want, "its header");
}

static void
dates(void) {
	dump_at(-315619200, 250000000, "19600101T000000.250Z");
	dump_at(-1, 999000000, "19691231T235959.999Z");
	dump_at(0, 0, "19700101T000000.000Z");
	dump_at((time_t)INT64_C(9223372035), 0, "22620411T234715.000Z");
	dump_at((time_t)INT64_C(99999999999), 0, "22620411T234715.000Z");
	dump_at((time_t)INT64_C(-99999999999), 0, "16770921T001245.000Z");
}

static void
session_at(time_t from, time_t to, const char *span) {
	wall = (struct timespec){from, 0};
	is_int(ctl_void("prof.session.start"), 0, "a session from %lld", (long long)from);
	wall.tv_sec = to;
	is_int(ctl_void("prof.session.stop"), 0, "to %lld", (long long)to);
	unsigned i = last();
	contains(dumps.v[i].name, span, "its span is in the name");
	is_int(strncmp(dump_text(i, "start_time"), span, 20), 0, "its start is in the header: %s",
	    dump_text(i, "start_time"));
	ok(dump_number(i, "profiled_ms") < 7000, "profiled_ms knows no wall clock");
}

static void
sessions(void) {
	session_at(0, 7, "19700101T000000.000Z_19700101T000007.000Z");
	session_at(-7, 0, "19691231T235953.000Z_19700101T000000.000Z");
}

/* The clock is set back between two dumps. */
static void
order(void) {
	dump_at(1782909296, 0, "20260701T123456.000Z");
	usleep(5000);
	dump_at(1782909290, 0, "20260701T123450.000Z");
	unsigned long long first = dump_number(0, "monotonic_ms"), second = dump_number(1,
	    "monotonic_ms"), now = (unsigned long long)test_now_ms();
	ok(first > 0 && second >= first + 5 && second <= now, "monotonic_ms: %llu, %llu, now %llu",
	    first, second, now);
	unsigned long long young = dump_number(0, "profiled_ms");
	unsigned long long more = dump_number(1, "profiled_ms") - young, span = second - first;
	ok(more + 1 >= span && more <= span + 1, "profiled_ms counts the same: %llu, %llu", more, span);
	ok(young <= first && dump_number(1, "profiled_ms") >= 5, "from the start of sampling on");
	char run[64];
	snprintf(run, sizeof(run), "%s", dump_text(0, "instance"));
	is_uint(strspn(run, "0123456789abcdef"), 16, "the number of the run of the library: %s", run);
	is_str(dump_text(1, "instance"), run, "is the same in all dumps");
	if (fork() == 0)
		_exit(ctl_void("prof.dump"));
	int status = -1;
	wait(&status);
	is_int(status, 0, "a dump of a forked child");
	unsigned same = 0;
	dumps_read('m');
	is_uint(dumps.n, 3, "three dumps");
	for (unsigned i = 0; i < dumps.n; i++)
		same += strcmp(dump_text(i, "instance"), run) == 0;
	is_uint(same, 2, "another one");
}

static const struct dumps_test tests[] = {
	{"dates", dates, "prof:true,lg_prof_sample:0"},
	{"sessions", sessions, ""},
	{"order", order, "prof:true,lg_prof_sample:0"},
};

int
main(int argc, char **argv) {
	return dumps_run_all(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
