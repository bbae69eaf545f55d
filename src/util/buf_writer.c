/*
 * Collects text and passes it to a write callback when the buffer is full or flushed; buf_writer.h
 * has the contract. Invariant: used < buf_len if there is a buffer, so the last byte of the buffer
 * is always free for the NUL. The buffer is the caller's, and is not freed here. One shorter than 2
 * bytes could hold no text and is treated as no buffer. No lock: one thread uses a buf_writer_t at
 * a time. Called by stats.c.
 */
#include "util/buf_writer.h"

#include "util/assert.h"
#include "util/bits.h"

/* Bytes, with the NUL, of the copies in which buf_writer_write() passes on text if unbuffered. */
#define BUF_WRITER_STACK 256

void
buf_writer_init(buf_writer_t *bw, void (*write)(void *opaque, const char *s), void *opaque,
    char *buf, size_t buf_len) {
	assert(write != NULL);
	assert(buf != NULL || buf_len == 0);
	bw->write = write;
	bw->opaque = opaque;
	bw->buf = buf;
	bw->buf_len = buf_len >= 2 ? buf_len : 0;
	bw->used = 0;
}

void
buf_writer_flush(buf_writer_t *bw) {
	assert(bw->used == 0 || bw->used < bw->buf_len);
	if (bw->used == 0) {
		return;
	}
	bw->buf[bw->used] = '\0';
	bw->used = 0;
	bw->write(bw->opaque, bw->buf);
}

/* Without a buffer: copies the text, because the callback needs a NUL at the end of each piece. */
static void
buf_writer_write_through(buf_writer_t *bw, const char *data, size_t n) {
	char part[BUF_WRITER_STACK];
	while (n > 0) {
		size_t len = min_zu(n, sizeof(part) - 1);
		memcpy(part, data, len);
		part[len] = '\0';
		bw->write(bw->opaque, part);
		data += len;
		n -= len;
	}
}

void
buf_writer_write(buf_writer_t *bw, const char *data, size_t n) {
	if (bw->buf_len == 0) {
		buf_writer_write_through(bw, data, n);
		return;
	}
	while (n > 0) {
		size_t len = min_zu(n, bw->buf_len - 1 - bw->used);
		memcpy(bw->buf + bw->used, data, len);
		bw->used += len;
		data += len;
		n -= len;
		if (bw->used == bw->buf_len - 1) {
			buf_writer_flush(bw);
		}
	}
}

void
buf_writer_puts(buf_writer_t *bw, const char *s) {
	if (bw->buf_len == 0) {
		bw->write(bw->opaque, s);
		return;
	}
	buf_writer_write(bw, s, strlen(s));
}

void
buf_writer_cb(void *opaque, const char *s) {
	buf_writer_puts(opaque, s);
}
