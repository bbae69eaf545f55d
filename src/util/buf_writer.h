/*
 * Gathers text into a buffer of the caller and hands it on in pieces that are NUL terminated and no
 * longer than the buffer.  With buf_len 0 every piece of text goes through at once.
 * One thread at a time; the caller flushes at the end.
 */
#ifndef UTIL_BUF_WRITER_H
#define UTIL_BUF_WRITER_H

#include "util/compiler.h"

typedef struct {
	void (*write)(void *opaque, const char *s);
	void *opaque;
	char *buf;
	size_t buf_len; /* with the final NUL; 0: unbuffered */
	size_t used;
} buf_writer_t;

void buf_writer_init(buf_writer_t *bw, void (*write)(void *opaque, const char *s), void *opaque,
    char *buf, size_t buf_len);

void buf_writer_puts(buf_writer_t *bw, const char *s);

/* n bytes without NUL among them; need not be terminated. */
void buf_writer_write(buf_writer_t *bw, const char *data, size_t n);

void buf_writer_flush(buf_writer_t *bw);

/* buf_writer_puts in the shape of a write callback; opaque is the buf_writer_t. */
void buf_writer_cb(void *opaque, const char *s);

#endif /* UTIL_BUF_WRITER_H */
