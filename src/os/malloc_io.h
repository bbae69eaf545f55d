/*
 * Messages of the library: warnings, errors, statistics printed without a callback. The text goes
 * to the user's malloc_message function if one is set, otherwise to file descriptor 2 by write(2).
 * No allocation, no stdio and no lock, at most about 1.6 KiB of stack, so messages can be written
 * in any state of the allocator. write(2) blocks if descriptor 2 is a full pipe in blocking mode;
 * if it is in non-blocking mode, only functions with a malloc_io_text_t wait. The user's function
 * is called in the same state, perhaps with locks held, and uses stack of its own. malloc_write(),
 * malloc_write_long() and malloc_printf() preserve errno.
 * Called by the files directly in src/ and by arena/, conf/, os/ and the profiler; util/ must not
 * depend on it.
 */
#pragma once

#include "util/compiler.h"

/* Greatest length of one malloc_printf() in bytes with the NUL; longer text is cut. */
#define MALLOC_PRINTF_MAX 1024

typedef void(malloc_io_write_t)(void *opaque, const char *s);

/* The state of one long text; the same struct is passed with each of its pieces. */
typedef struct {
	void *opaque; /* what the user's malloc_message gets as its opaque */
	unsigned timeout_ms; /* longest single wait; malloc_io_write_stderr() may lower it to 0 */
} malloc_io_text_t;

/*
 * Where malloc_write() sends a text. Boot (jemalloc_init.c) sets it to a function that passes s on
 * to the user's malloc_message or, without one, to malloc_io_write_stderr(). While it is NULL,
 * before boot, malloc_io_write_stderr() is called. opaque is a malloc_io_text_t *, or NULL for a
 * message of the library's own.
 */
extern HIDDEN malloc_io_write_t *malloc_io_message;

/* Makes failed assertions write by malloc_write(), and no longer directly to descriptor 2. */
void malloc_io_boot(void);

/* Writes s to the user's message function or to file descriptor 2. */
void malloc_write(const char *s);
/*
 * malloc_write() of one piece of a long text; has the signature of a malloc_io_write_t. text:
 * malloc_io_text_t *, the same for all pieces; the user's function gets its `opaque`, and then
 * timeout_ms has no effect. May wait: a caller inside the gate, for which a fork waits, sets a
 * small timeout_ms (stats.c).
 */
void malloc_write_long(void *text, const char *s);
/* timeout_ms of a text that somebody has asked for (malloc_stats_print()). */
#define MALLOC_IO_TIMEOUT_MS 5000
/*
 * Writes to file descriptor 2 in every case; has the signature of a malloc_io_write_t. If that is a
 * pipe without a reader, or a file at the limit of file sizes, the text is lost, but no signal is
 * raised. If it is a full pipe in non-blocking mode, and opaque is NULL, the rest of s is lost. If
 * opaque is a malloc_io_text_t *, the function waits for room, at most timeout_ms each time. A
 * wait in vain, or a failed write, sets timeout_ms to 0. A piece that comes while timeout_ms is 0
 * is not written at all. So a text has no holes: only its end can be lost, even if a full disk has
 * room again later.
 */
void malloc_io_write_stderr(void *opaque, const char *s);
/* malloc_write() of a text that is formatted as fmt.h says. */
void malloc_printf(const char *format, ...) PRINTF_FMT(1, 2);
