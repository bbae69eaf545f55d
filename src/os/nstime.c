/*
 * Reads the clocks, and computes calendar dates for time stamps.
 * nstime.h has the contract and the callers. Invariant: errno is preserved, if the hooks of tests
 * preserve it. No lock, and no state besides these hooks.
 */
#include "os/nstime.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/sys_call.h"

/* The greatest number of seconds whose nanoseconds, with any fraction added, fit into 63 bits. */
#define REALTIME_SEC_MAX (INT64_MAX / (int64_t)NSTIME_PER_SEC - 1)
/* The calendar repeats after 400 years, which have so many days. */
#define DAYS_IN_400_YEARS UINT64_C(146097)

uint64_t (*nstime_now_hook)(void);
uint64_t (*nstime_realtime_hook)(void);

static uint64_t
ns_of(const struct timespec *ts) {
	assert(ts->tv_nsec >= 0 && (uint64_t)ts->tv_nsec < NSTIME_PER_SEC);
	return (uint64_t)ts->tv_sec * NSTIME_PER_SEC + (uint64_t)ts->tv_nsec;
}

/* 0 if the system refuses the clock (nstime.h). */
static struct timespec
clock_read(clockid_t id) {
	int saved = errno;
	struct timespec ts = {0, 0};
	clock_gettime(id, &ts);
	errno = saved;
	return ts;
}

static uint64_t
clock_ns(clockid_t id) {
	struct timespec ts = clock_read(id);
	return ns_of(&ts);
}

/*
 * A wall clock may be before 1970, or beyond what 63 bits hold (1677, 2262): then the seconds are
 * clipped; the fraction of a second stays.
 */
static uint64_t
realtime_ns(void) {
	struct timespec ts = clock_read(CLOCK_REALTIME);
	int64_t sec = ts.tv_sec;
	sec = sec > REALTIME_SEC_MAX ? REALTIME_SEC_MAX : sec;
	sec = sec < -REALTIME_SEC_MAX ? -REALTIME_SEC_MAX : sec;
	return (uint64_t)(sec * (int64_t)NSTIME_PER_SEC + ts.tv_nsec);
}

uint64_t
nstime_monotonic_ns(void) {
	return unlikely(nstime_now_hook != NULL) ? nstime_now_hook() : clock_ns(CLOCK_MONOTONIC);
}

uint64_t
nstime_monotonic_coarse_ns(void) {
	return unlikely(nstime_now_hook != NULL) ? nstime_now_hook() : clock_ns(CLOCK_MONOTONIC_COARSE);
}

/* The coarse clock, not by the C library: that would cost two page faults (nstime.h). */
uint64_t
nstime_monotonic_syscall_ns(void) {
	int saved = errno;
	struct timespec ts;
	if (likely(nstime_now_hook == NULL)
	    && sys_call(SYS_clock_gettime, CLOCK_MONOTONIC_COARSE, &ts) == 0) {
		return ns_of(&ts);
	}
	errno = saved;
	return nstime_monotonic_coarse_ns();
}

uint64_t
nstime_realtime_ns(void) {
	return unlikely(nstime_realtime_hook != NULL) ? nstime_realtime_hook()
	    : realtime_ns();
}

static bool
is_leap_year(unsigned y) {
	return (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;
}

/* Converts the number of a day since 1570-01-01 to year, month (1..12) and day (1..31). */
static void
date_of_day(uint64_t day, unsigned *year, unsigned *month, unsigned *mday) {
	static const unsigned char month_days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	/* Whole cycles of 400 years are skipped: the loop over years makes less than 400 turns. */
	unsigned y = 1570 + (unsigned)(day / DAYS_IN_400_YEARS) * 400;
	unsigned rest = (unsigned)(day % DAYS_IN_400_YEARS);
	while (rest >= 365u + is_leap_year(y)) {
		rest -= 365u + is_leap_year(y);
		y++;
	}
	unsigned m = 0;
	for (;;) {
		unsigned days = month_days[m] + (m == 1 && is_leap_year(y));
		if (rest < days) {
			break;
		}
		rest -= days;
		m++;
		assert(m < 12);
	}
	assert(rest < 31);
	*year = y;
	*month = m + 1;
	*mday = rest + 1;
}

/* Writes n with exactly `digits` decimal digits; returns the position behind them. */
static char *
put_digits(char *p, unsigned n, unsigned digits) {
	for (unsigned i = digits; i > 0; i--) {
		p[i - 1] = (char)('0' + n % 10);
		n /= 10;
	}
	assert(n == 0);
	return p + digits;
}

void
nstime_utc_stamp(char buf[NSTIME_STAMP_SIZE], uint64_t wall_ns) {
	/* Counted from a cycle of 400 years before 1970, so that nothing below is negative. */
	uint64_t since_1570 = DAYS_IN_400_YEARS * 86400 * UINT64_C(1000);
	int64_t ns = (int64_t)wall_ns;
	int64_t floor_ms = ns / (int64_t)NSTIME_PER_MSEC - (ns % (int64_t)NSTIME_PER_MSEC < 0);
	uint64_t ms = since_1570 + (uint64_t)floor_ms;
	uint64_t sec = ms / 1000;
	unsigned in_day = (unsigned)(sec % 86400);
	unsigned year, month, mday;
	date_of_day(sec / 86400, &year, &month, &mday);
	char *p = put_digits(buf, year, 4);
	p = put_digits(p, month, 2);
	p = put_digits(p, mday, 2);
	*p++ = 'T';
	p = put_digits(p, in_day / 3600, 2);
	p = put_digits(p, in_day / 60 % 60, 2);
	p = put_digits(p, in_day % 60, 2);
	*p++ = '.';
	p = put_digits(p, (unsigned)(ms % 1000), 3);
	*p++ = 'Z';
	*p = '\0';
	assert(p == buf + NSTIME_STAMP_SIZE - 1);
}
