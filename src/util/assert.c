/*
 * The failing side of assert().  Called at most once per process and thread, in any state of the
 * allocator, so the message is put together on the stack and nothing but the writer is trusted.
 */
#include "util/assert.h"

#include <stdlib.h>
#include <unistd.h>

#include "util/fmt.h"

static void
assert_write_fd2(const char *s) {
	size_t left = strlen(s);
	unsigned tries = 10000; /* the process is to end, whatever happens here */
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
