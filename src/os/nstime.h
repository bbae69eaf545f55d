/*
 * Time as 64-bit nanoseconds: the monotonic and the wall clock, and UTC stamps of file names.
 * No lock and no allocation, and errno is preserved. The only state is the two hooks, through which
 * unit tests provide a clock of their own. A clock that the system refuses reads as 0.
 * Called in any thread by mutex.c, sys.c, extent/ (pac*, piece, ahead), hpa/, arena/, thread/
 * (tsd, thread_event, tcache, claim) and the profiler.
 */
#pragma once

#include "util/compiler.h"

#define NSTIME_PER_SEC UINT64_C(1000000000)
#define NSTIME_PER_MSEC UINT64_C(1000000)
/* Bytes of "YYYYMMDDTHHMMSS.mmmZ" with the NUL. */
#define NSTIME_STAMP_SIZE 21

/* If not NULL, replaces the system's monotonic clock, in all functions that read it. */
extern HIDDEN uint64_t (*nstime_now_hook)(void);
/* If not NULL, replaces the system's wall clock. */
extern HIDDEN uint64_t (*nstime_realtime_hook)(void);

/* Nanoseconds since an unspecified start; never goes back. */
uint64_t nstime_monotonic_ns(void);
/*
 * The same clock, cheaper, as it stood at the last tick of the scheduler: up to 1 to 10 ms behind
 * nstime_monotonic_ns().
 */
uint64_t nstime_monotonic_coarse_ns(void);
/*
 * nstime_monotonic_coarse_ns() by a system call, for the start of a process: the usual way costs a
 * program that reads no clock itself two page faults, of the C library's code and of the kernel's
 * shared page.
 */
uint64_t nstime_monotonic_syscall_ns(void);
/*
 * Nanoseconds since 1970-01-01 UTC; an earlier date is a negative number in two's complement. The
 * years 1678 to 2261 fit; a date before or after is returned as one near that end.
 */
uint64_t nstime_realtime_ns(void);

/*
 * Writes a wall-clock time, as nstime_realtime_ns() returns it, as "YYYYMMDDTHHMMSS.mmmZ" with a
 * NUL; milliseconds are rounded down, also before 1970. Computed here because the C library's
 * time-zone code takes locks and allocates.
 */
void nstime_utc_stamp(char buf[NSTIME_STAMP_SIZE], uint64_t wall_ns);

/* Nanoseconds from `from` to `to`; 0 if `to` is earlier. */
static inline uint64_t
nstime_ns_between(uint64_t from, uint64_t to) {
	return to > from ? to - from : 0;
}
