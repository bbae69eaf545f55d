/*
 * Reports a failed assertion and ends the process: assert_fail() and assert_fail_not_reached().
 * An assertion may fail in any state of the allocator and with any lock held. So the message (at
 * most 511 bytes, the rest is cut off) is formatted on the stack, and the library allocates nothing
 * and takes no lock for it; a malloc_message function of the program may. Both functions are called
 * only by the macros in the header, in debug builds, and neither returns.
 */
#include "util/compiler.h"

#include <stdlib.h>
#include <unistd.h>

#include "util/fmt.h"

static void
assert_write_fd2(const char *s) {
	size_t left = strlen(s);
	/* Gives up after 10000 EINTR: abort() must follow even if the message is lost. */
	unsigned tries = 10000;
	while (left > 0) {
		ssize_t n = write(STDERR_FILENO, s, left);
		if (n < 0 && errno == EINTR && --tries > 0) {
			continue;
		}
		if (n <= 0) {
			return;
		}
		s += n;
		left -= (size_t)n;
	}
}

/* The default writer, until malloc_io_boot() replaces it. */
void (*assert_write)(const char *s) = assert_write_fd2;

void
assert_fail(const char *file, int line, const char *expr) {
	char msg[512];
	fmt_snprintf(msg, sizeof(msg), "<jemalloc>: %s:%d: Failed assertion: \"%s\"\n", file, line,
	    expr);
	assert_write(msg);
	abort();
}

void
assert_fail_not_reached(const char *file, int line) {
	char msg[512];
	fmt_snprintf(msg, sizeof(msg), "<jemalloc>: %s:%d: Unreachable code reached\n", file, line);
	assert_write(msg);
	abort();
}
