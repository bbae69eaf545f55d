/* Clocks, the replaceable clock, and the calendar of time stamps. */
#include "test.h"

#include <sys/syscall.h>

#include "os/nstime.h"

static uint64_t
fake_clock(void) {
	return 12345;
}

#ifdef __LP64__
static bool is_refused; /* all clocks are */

int
clock_gettime(clockid_t id, struct timespec *ts) {
	if (is_refused) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_clock_gettime, id, ts);
}

static void
test_refused(void) {
	is_refused = true;
	errno = 5;
	uint64_t a = nstime_monotonic_ns(), b = nstime_monotonic_coarse_ns(), c = nstime_realtime_ns();
	is_int(errno, 5, "a system that refuses its clocks: errno is kept");
	is_refused = false;
	ok(a == 0 && b == 0 && c == 0, "they stand at 0");
}
#else
static void
test_refused(void) {
}
#endif

static void
test_clocks(void) {
	errno = 5;
	uint64_t a = nstime_monotonic_ns();
	uint64_t b = nstime_monotonic_ns();
	ok(a > 0 && b >= a, "monotonic");
	uint64_t coarse, now;
	unsigned tries = 0;
	do { /* again if the thread stood still between the two */
		coarse = nstime_monotonic_coarse_ns();
		now = nstime_monotonic_ns();
	} while (coarse <= now && now - coarse >= NSTIME_PER_SEC && ++tries < 100);
	ok(coarse <= now && now - coarse < NSTIME_PER_SEC,
	    "the coarse clock is the same, a little behind");
	uint64_t sec = (uint64_t)time(NULL);
	uint64_t real = nstime_realtime_ns() / NSTIME_PER_SEC;
	ok(real + 1 >= sec && real <= (uint64_t)time(NULL) + 1, "wall clock");
	is_int(errno, 5, "errno is kept");
	nstime_now_hook = fake_clock;
	is_uint(nstime_monotonic_ns(), 12345, "hook: fine");
	is_uint(nstime_monotonic_coarse_ns(), 12345, "hook: coarse");
	nstime_now_hook = NULL;
	nstime_realtime_hook = fake_clock;
	is_uint(nstime_realtime_ns(), 12345, "hook: wall clock");
	nstime_realtime_hook = NULL;
	is_uint(nstime_ns_between(5, 8), 3, "between");
	is_uint(nstime_ns_between(8, 5), 0, "a clock that went back gives 0");
}

static void
check_stamp(int64_t sec, unsigned ms, const char *want) {
	char buf[NSTIME_STAMP_SIZE];
	nstime_utc_stamp(buf, (uint64_t)sec * NSTIME_PER_SEC + ms * NSTIME_PER_MSEC + 999999);
	is_str(buf, want, "stamp %s", want);
}

static void
test_stamps(void) {
	check_stamp(0, 0, "19700101T000000.000Z");
	check_stamp(86399, 999, "19700101T235959.999Z");
	check_stamp(951782400, 5, "20000229T000000.005Z");
	check_stamp(951868800, 50, "20000301T000000.050Z");
	check_stamp(1709164799, 500, "20240228T235959.500Z");
	check_stamp(1735689599, 0, "20241231T235959.000Z");
	check_stamp(4107542400, 0, "21000301T000000.000Z");
	check_stamp(4107456000, 0, "21000228T000000.000Z");
	check_stamp(-1, 0, "19691231T235959.000Z");
	check_stamp(-1, 999, "19691231T235959.999Z");
	check_stamp(-86400, 0, "19691231T000000.000Z");
	check_stamp(-315619200, 1, "19600101T000000.001Z");
	check_stamp(-2208988801, 7, "18991231T235959.007Z");
	check_stamp(-9223372036, 145, "16770921T001244.145Z");
	unsigned n_bad = 0;
	uint64_t state = 1;
	for (unsigned i = 0; i < 100000; i++) {
		/* All that 64 bits of nanoseconds can hold, from 1677 to 2262. */
		time_t sec = (time_t)(test_random(&state) % UINT64_C(18446744073)) - 9223372036;
		char want[64], got[NSTIME_STAMP_SIZE];
		struct tm tm;
		gmtime_r(&sec, &tm);
		strftime(want, sizeof(want), "%Y%m%dT%H%M%S.000Z", &tm);
		nstime_utc_stamp(got, (uint64_t)sec * NSTIME_PER_SEC);
		n_bad += strcmp(want, got) != 0;
	}
	is_uint(n_bad, 0, "100000 random instants as the C library's calendar has them");
}

int
main(void) {
	test_clocks();
	test_refused();
	test_stamps();
	return done_testing();
}
