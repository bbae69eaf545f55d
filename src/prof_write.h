/*
 * Text into a file, fast: a buffer with room for the next number guaranteed, digits written by hand.
 */
#ifndef PROF_WRITE_H
#define PROF_WRITE_H

#include "prof_sys.h"

#define PROF_WRITER_BYTES ((size_t)65536)

typedef struct {
	prof_file_t *file;
	char *buf;
	size_t len;
	uint64_t flushed;
} prof_writer_t;

/* ENOMEM. */
int prof_writer_init(prof_writer_t *w, prof_file_t *file);
void prof_writer_flush(prof_writer_t *w);
/* Flushes and gives the buffer back. */
void prof_writer_end(prof_writer_t *w);

void prof_write_data(prof_writer_t *w, const char *text, size_t len);
void prof_write_text(prof_writer_t *w, const char *text);
void prof_write_dec(prof_writer_t *w, uint64_t v);
void prof_write_hex(prof_writer_t *w, uint64_t v);
/* " 0x" and the number. */
void prof_write_frame(prof_writer_t *w, uint64_t v);
/* Text inside quotes, escaped as JSON wants it. */
void prof_write_json(prof_writer_t *w, const char *text);

/* Where this many bytes may be put; the caller adds to w->len what it did put there. */
#define PROF_WRITER_ROOM 64

ALWAYS_INLINE char *
prof_writer_room(prof_writer_t *w) {
	if (unlikely(w->len + PROF_WRITER_ROOM > PROF_WRITER_BYTES)) {
		prof_writer_flush(w);
	}
	return w->buf + w->len;
}

/* A short literal. */
#define prof_write_lit(w, text) do { \
	static_assert(sizeof(text) <= PROF_WRITER_ROOM, "a short literal"); \
	memcpy(prof_writer_room(w), "" text, sizeof(text) - 1); \
	(w)->len += sizeof(text) - 1; \
} while (0)

/* Bytes so far, written or not. */
static inline uint64_t
prof_writer_total(const prof_writer_t *w) {
	return w->flushed + w->len;
}

#endif /* PROF_WRITE_H */
