/*
 * Text into a file, fast: a buffer with room for the next number guaranteed, digits written by hand,
 * and the text of addresses kept, because the stacks of a profile have most of their frames in common.
 */
#ifndef PROF_WRITE_H
#define PROF_WRITE_H

#include "prof_sys.h"
#include "util/assert.h"

#define PROF_WRITER_BYTES ((size_t)65536)

/* " 0x" and at most 12 digits. */
#define PROF_FRAME_TEXT 15

typedef struct {
	uint64_t addr;                       /* 0: the slot is empty */
	unsigned char text[PROF_FRAME_TEXT + 1]; /* the last byte is the length of what is before */
} prof_frame_text_t;

typedef struct {
	prof_file_t *file;
	char *buf;
	prof_frame_text_t *frames;
	size_t len;
	uint64_t flushed;
} prof_writer_t;

/* ENOMEM. */
int prof_writer_init(prof_writer_t *w, prof_file_t *file);
void prof_writer_flush(prof_writer_t *w);
/* Flushes and gives the buffer back. */
void prof_writer_end(prof_writer_t *w);
/* Gives the buffer back, with what is in it. */
void prof_writer_forget(prof_writer_t *w);

void prof_write_data(prof_writer_t *w, const char *text, size_t len);
void prof_write_text(prof_writer_t *w, const char *text);
void prof_write_dec(prof_writer_t *w, uint64_t v);
void prof_write_hex(prof_writer_t *w, uint64_t v);
/* Text inside quotes, escaped as JSON wants it. */
void prof_write_json(prof_writer_t *w, const char *text);

/* Where this many bytes may be put; the caller adds to w->len what it did put there. */
#define PROF_WRITER_ROOM 64

ALWAYS_INLINE char *
prof_writer_room_for(prof_writer_t *w, size_t bytes) {
	assert(bytes <= PROF_WRITER_BYTES);
	if (unlikely(w->len + bytes > PROF_WRITER_BYTES)) {
		prof_writer_flush(w);
	}
	return w->buf + w->len;
}

ALWAYS_INLINE char *
prof_writer_room(prof_writer_t *w) {
	return prof_writer_room_for(w, PROF_WRITER_ROOM);
}

/* A short literal. */
#define prof_write_lit(w, text) do { \
	static_assert(sizeof(text) <= PROF_WRITER_ROOM, "a short literal"); \
	memcpy(prof_writer_room(w), "" text, sizeof(text) - 1); \
	(w)->len += sizeof(text) - 1; \
} while (0)

#define PROF_FRAME_SLOTS_LG 10

/* The text of an address that is in no slot, made at `to`; returns its end. */
char *prof_frame_make(prof_writer_t *w, char *to, uint64_t v);

ALWAYS_INLINE prof_frame_text_t *
prof_frame_slot(const prof_writer_t *w, uint64_t v) {
	return &w->frames[(v * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - PROF_FRAME_SLOTS_LG)];
}

/* " 0x" and the number at `to`, which has PROF_WRITER_ROOM; returns its end. */
ALWAYS_INLINE char *
prof_frame_put(prof_writer_t *w, char *to, uint64_t v) {
	const prof_frame_text_t *slot = prof_frame_slot(w, v);
	if (unlikely(slot->addr != v || v == 0)) {
		return prof_frame_make(w, to, v);
	}
	memcpy(to, slot->text, sizeof(slot->text));
	return to + slot->text[PROF_FRAME_TEXT];
}

/* Bytes so far, written or not. */
static inline uint64_t
prof_writer_total(const prof_writer_t *w) {
	return w->flushed + w->len;
}

#endif /* PROF_WRITE_H */
