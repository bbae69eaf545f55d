/*
 * Collects text in a buffer of the caller and passes it to a write callback in pieces. Each piece
 * is NUL terminated and with its NUL no longer than the buffer; it may end within a UTF-8
 * character. With buf_len 0 or 1 nothing is collected: a string is passed on at once as it is. A
 * buf_writer_t is used by one thread at a time and has no lock. The owner calls buf_writer_flush()
 * at the end; otherwise the rest of the text is lost. malloc_stats_print() (stats.c) and
 * prof_recent.c use it to reduce the number of calls of the user's callback.
 */
#ifndef UTIL_BUF_WRITER_H
#define UTIL_BUF_WRITER_H

#include "util/compiler.h"

typedef struct {
	/* Receives each piece; opaque is passed on unchanged. */
	void (*write)(void *opaque, const char *s);
	void *opaque;
	char *buf; /* of the caller; not used if buf_len is 0 */
	/* Bytes of buf, one of them for the NUL. 0: no buffer; 1 becomes 0, for only the NUL fits. */
	size_t buf_len;
	size_t used; /* bytes of text in buf that have not been passed on yet */
} buf_writer_t;

/* buf may be NULL if buf_len is 0; it must stay valid as long as bw is used. */
void buf_writer_init(buf_writer_t *bw, void (*write)(void *opaque, const char *s), void *opaque,
    char *buf, size_t buf_len);

/* Appends a NUL-terminated string. A write callback itself; opaque is the buf_writer_t. */
void buf_writer_cb(void *opaque, const char *s);

/* Passes on the text in the buffer; does nothing if there is none. */
void buf_writer_flush(buf_writer_t *bw);

#endif /* UTIL_BUF_WRITER_H */
