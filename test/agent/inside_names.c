/*
 * Inside of names/names.c: when names are searched for again although the wall clock was set back.
 * Prints what is wrong. Built by inside.t.
 */
#include <time.h>

static time_t wall = 1800000000; /* the wall clock, seconds since 1970 */
#define time(at) wall
#include "names/names.c"
#include "expect.h"

static int64_t now_ms = 5000; /* the monotonic clock */

int64_t
client_now_ms(void) {
	return now_ms;
}

/* A table that could not be made is tried again in 10 minutes, not after the year of the jump. */
static void
check_failed(void) {
	memcpy(making.keys[0], "key", 4);
	making_end(0, true);
	expect("failed just now", has_failed_lately("key"), true);
	expect("another one has not", has_failed_lately("other"), false);
	wall -= 365 * 86400;
	now_ms += FAILED_MS - 1;
	expect("failed lately", has_failed_lately("key"), true);
	now_ms += 1;
	expect("is tried again", has_failed_lately("key"), false);
}

static void
check_outdated(void) {
	names_t n = {.root = -1};
	names_object_t object = {.id = ""};
	kept_t own = {.made = wall};
	expect("a new table", is_outdated(&n, &object, &own), false);
	own.made = wall - RETRY_SECONDS - 1;
	expect("an old one", is_outdated(&n, &object, &own), true);
	own.made = wall + 5;
	expect("one of a file server whose clock is ahead", is_outdated(&n, &object, &own), false);
	own.made = wall + 86400;
	expect("one from tomorrow", is_outdated(&n, &object, &own), true);
}

int
main(void) {
	check_failed();
	check_outdated();
	return bad;
}
