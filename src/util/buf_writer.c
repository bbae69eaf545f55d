/*
 * Collects text and passes it to a write callback when the buffer is full or flushed; buf_writer.h
 * has the contract. Invariant: used < buf_len if there is a buffer, so the last byte of the buffer
 * is always free for the NUL. The buffer is the caller's, and is not freed here. One shorter than 2
 * bytes could hold no text and is treated as no buffer. No lock: one thread uses a buf_writer_t at
 * a time. Called by stats.c and prof_recent.c.
 */
#include "util/buf_writer.h"

#include "util/assert.h"
#include "util/bits.h"

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

void
buf_writer_cb(void *opaque, const char *s) {
	buf_writer_t *bw = opaque;
	if (bw->buf_len == 0) {
		bw->write(bw->opaque, s);
		return;
	}
	for (size_t n = strlen(s); n > 0;) {
		size_t len = min_zu(n, bw->buf_len - 1 - bw->used);
		memcpy(bw->buf + bw->used, s, len);
		bw->used += len;
		s += len;
		n -= len;
		if (bw->used == bw->buf_len - 1) {
			buf_writer_flush(bw);
		}
	}
}
