/*
 * Messages of the library: warnings, errors, statistics printed without a callback. The text goes
 * to the user's malloc_message function if one is set, otherwise to file descriptor 2 by write(2).
 * No allocation, no stdio and no lock, at most about 1.6 KiB of stack, so messages can be written
 * in any state of the allocator; a long text (malloc_write_long()) may wait. The user's function is
 * called in the same state, perhaps with locks held, and uses stack of its own. errno is preserved.
 * Called by the files directly in src/ and by arena/, conf/, os/ and the profiler; util/ must not
 * depend on it.
 */
#ifndef OS_MALLOC_IO_H
#define OS_MALLOC_IO_H

#include "util/compiler.h"

/* Greatest length of one malloc_printf() in bytes with the NUL; longer text is cut. */
#define MALLOC_PRINTF_MAX 1024

typedef void(malloc_io_write_t)(void *opaque, const char *s);

/* The state of one long text; the same struct is passed with each of its pieces. */
typedef struct {
	void *opaque; /* what the user's malloc_message gets as its opaque */
	unsigned patience_ms; /* longest wait each time; malloc_io_write_stderr() may lower it to 0 */
} malloc_io_text_t;

/*
 * Where malloc_write() sends a text. Boot (jemalloc_init.c) sets it to a function that passes s on
 * to the user's malloc_message or, without one, to malloc_io_write_stderr(). NULL before: that
 * function. opaque is a malloc_io_text_t *, or NULL for a message of the library's own.
 */
extern HIDDEN malloc_io_write_t *malloc_io_message;

/* Makes failed assertions write by malloc_write(), and no longer directly to descriptor 2. */
void malloc_io_boot(void);

/* Writes s to the user's message function or to file descriptor 2. */
void malloc_write(const char *s);
/*
 * malloc_write() of one piece of a long text; has the signature of a malloc_io_write_t. text:
 * malloc_io_text_t *, the same for all pieces; the user's function gets its `opaque`, and then
 * patience_ms has no effect. May wait: a caller inside the gate, for which a fork waits, sets a
 * small patience_ms (stats.c).
 */
void malloc_write_long(void *text, const char *s);
/* The patience, in ms, with a text that somebody has asked for. */
#define MALLOC_IO_PATIENCE_MS 5000
/*
 * Writes to file descriptor 2 in every case; has the signature of a malloc_io_write_t. If that is a
 * pipe without a reader, or a file at the limit of file sizes, the text is lost, but no signal is
 * raised. If it is a full pipe that does not block, and opaque is NULL, the rest of s is lost. With
 * opaque a malloc_io_text_t * the function waits for room, at most patience_ms each time. A wait in
 * vain, or a failed write, sets patience_ms to 0, and while it is 0 no byte of any piece is
 * written: so what is lost (also on a disk that is full for a while) is the end of a text.
 */
void malloc_io_write_stderr(void *opaque, const char *s);
/* malloc_write() of a text that is formatted as fmt.h says. */
void malloc_printf(const char *format, ...) PRINTF_FMT(1, 2);

#endif
