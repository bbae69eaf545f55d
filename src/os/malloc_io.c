/*
 * Formats messages and passes them to malloc_io_message or to file descriptor 2. malloc_io.h has
 * the contract. The only state is the pointer malloc_io_message: NULL until jemalloc_init.c sets
 * it, in the first step of boot, to a function that reads the user's malloc_message each time;
 * constant then. No lock; called in any thread, also in signal handlers and with locks held, by the
 * files that malloc_io.h names.
 */
#include "os/malloc_io.h"

#include <unistd.h>

#include "os/sys.h"
#include "util/fmt.h"

malloc_io_write_t *malloc_io_message;

void
malloc_io_boot(void) {
	assert_write = malloc_write;
}

/*
 * Writes s to descriptor 2, or nothing if text->timeout_ms is 0. Waits for room at most
 * text->timeout_ms each time; with text NULL not at all. Returns 0 or an errno value.
 */
static int
write_timed(const char *s, malloc_io_text_t *text) {
	if (text != NULL && text->timeout_ms == 0) {
		return 0;
	}
	int err = sys_write_all(STDERR_FILENO, s, strlen(s), text == NULL ? 0 : text->timeout_ms,
	    NULL);
	if (err != 0 && text != NULL) {
		text->timeout_ms = 0; /* no later piece, or the text would have a hole */
	}
	return err;
}

void
malloc_io_write_stderr(void *opaque, const char *s) {
	sys_write_signals_t signals;
	/* A closed pipe, or a log file at its limit, must not end the program. */
	sys_write_signals_block(&signals);
	int err = write_timed(s, opaque);
	sys_write_signals_restore(&signals, err != 0); /* true: a write may have raised one */
}

static void
write_message(void *opaque, const char *s) {
	int saved = errno;
	malloc_io_write_t *cb = malloc_io_message;
	if (cb == NULL) {
		cb = malloc_io_write_stderr;
	}
	cb(opaque, s);
	errno = saved;
}

void
malloc_write(const char *s) {
	write_message(NULL, s);
}

void
malloc_write_long(void *text, const char *s) {
	assert(text != NULL);
	write_message(text, s);
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
