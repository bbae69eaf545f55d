/*
 * Time as 64-bit nanoseconds.  Tests put a clock of their own into nstime_now_hook; both
 * monotonic readings and the wall clock of a test then come from there.
 */
#ifndef OS_NSTIME_H
#define OS_NSTIME_H

#include "util/compiler.h"

#define NSTIME_PER_SEC UINT64_C(1000000000)
#define NSTIME_PER_MSEC UINT64_C(1000000)
/* "YYYYMMDDTHHMMSS.mmmZ" and the final 0. */
#define NSTIME_STAMP_SIZE 21

/* NULL: the system's monotonic clock. */
extern HIDDEN uint64_t (*nstime_now_hook)(void);
/* NULL: the system's wall clock. */
extern HIDDEN uint64_t (*nstime_realtime_hook)(void);

uint64_t nstime_monotonic_ns(void);
/* Cheaper, with the grain of the scheduler's tick (1 to 10 ms). */
uint64_t nstime_monotonic_coarse_ns(void);
uint64_t nstime_realtime_ns(void);

/*
 * UTC stamp of fixed width, computed by arithmetic: the time-zone code of the C library takes
 * locks and allocates.
 */
void nstime_utc_stamp(char buf[NSTIME_STAMP_SIZE], uint64_t realtime_ns);

/* Nanoseconds from `from` to `to`; 0 if the clock went back. */
static inline uint64_t
nstime_ns_between(uint64_t from, uint64_t to) {
	return to > from ? to - from : 0;
}

#endif
