/*
 * Formats messages and passes them to malloc_io_message or to file descriptor 2. malloc_io.h has
 * the contract. The only state is that pointer: NULL until jemalloc_init.c sets it, in the first
 * step of boot, to a function that reads the user's malloc_message each time; constant then. No
 * lock; called in any thread, also in signal handlers and with locks held.
 */
#include "os/malloc_io.h"

#include <unistd.h>

#include "os/sys.h"
#include "util/assert.h"
#include "util/fmt.h"

malloc_io_write_t *malloc_io_message;

void
malloc_io_boot(void) {
	assert_write = malloc_write;
}

void
malloc_io_write_stderr(void *opaque, const char *s) {
	sys_write_signals_t signals;
	(void)opaque;
	/* A closed pipe, or a log file at its limit, must not end the program. */
	sys_write_signals_block(&signals);
	int err = sys_write_all(STDERR_FILENO, s, strlen(s), NULL);
	sys_write_signals_restore(&signals, err != 0);
}

void
malloc_write(const char *s) {
	int saved = errno;
	malloc_io_write_t *cb = malloc_io_message;
	if (cb == NULL) {
		cb = malloc_io_write_stderr;
	}
	cb(NULL, s);
	errno = saved;
}

void
malloc_printf(const char *format, ...) {
	char buf[MALLOC_PRINTF_MAX];
	va_list ap;
	va_start(ap, format);
	fmt_vsnprintf(buf, sizeof(buf), format, ap);
	va_end(ap);
	malloc_write(buf);
}
