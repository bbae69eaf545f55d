/*
 * Clocks and stamps of time, a sleep that a signal ends early, and random words for requests and
 * names of files. Invariant: client_random_word() never returns 0, because 0 means
 * "no request" in the mailbox. No state and no locks, so any thread may call. Callers: this folder,
 * bin/ctl and bin/agent.
 */
#include "client/clock.h"

#include <stdio.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

uint64_t
client_clock_ns(clockid_t clock) {
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int64_t
client_now_ms(void) {
	return (int64_t)(client_clock_ns(CLOCK_MONOTONIC) / 1000000);
}

void
client_sleep_ms(int64_t ms) {
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&ts, NULL); /* not resumed after a signal: the caller looks at its interrupts then */
}

const char *
client_stamp(uint64_t ns, char buf[32]) {
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm utc = {0};
	gmtime_r(&seconds, &utc);
	size_t length = strftime(buf, 32, "%Y%m%dT%H%M%S", &utc);
	snprintf(buf + length, 32 - length, ".%03uZ", (unsigned)(ns / 1000000 % 1000));
	return buf;
}

uint64_t
client_random_word(void) {
	uint64_t word = 0;
	if (getrandom(&word, sizeof(word), 0) != (ssize_t)sizeof(word)) {
		struct timespec ts;
		clock_gettime(CLOCK_REALTIME, &ts);
		word = (uint64_t)ts.tv_nsec * UINT64_C(0x9e3779b97f4a7c15) ^ ((uint64_t)ts.tv_sec << 20)
		    ^ (uint64_t)getpid();
	}
	return word != 0 ? word : 1;
}
