/*
 * Clocks, stamps of time, sleep and random numbers of bin/client/, used by the tools too. Not
 * installed, and not part of jeprof_client.h. No state and no locks: any thread may call.
 */
#pragma once
#include <stdint.h>
#include <time.h>

/* Nanoseconds of a clock. */
uint64_t client_clock_ns(clockid_t clock);
/* Milliseconds of the monotonic clock. */
int64_t client_now_ms(void);
/*
 * Sleeps for ms milliseconds, not at all if that is 0 or less; ends early at a signal that this
 * thread handles, so that the caller can look at interrupts.
 */
void client_sleep_ms(int64_t ms);
/* "20261120T120227.938Z": a time in ns since 1970, UTC. Returns buf. */
const char *client_stamp(uint64_t ns, char buf[32]);
/* A random number, never 0; if getrandom() fails, it is made of the time and the pid. */
uint64_t client_random_word(void);
