/*
 * Fast text output to a file or sink: prof_writer_room() guarantees room for a number, digits are
 * converted by our own code, and the text of addresses is cached, because most frames of a profile
 * occur in many stacks. No lock: a writer belongs to one thread. Called by prof_dump.c,
 * prof_dump_label.c and prof_log.c. prof_writer_init() and prof_writer_forget() need to be called
 * inside the gate (os/gate.h: fork waits until no thread is inside) or in a forked child, as they
 * allocate or free; the others may be called in any state.
 */
#pragma once

#include "prof/file/prof_sys.h"

/* Size of the buffer in bytes. */
#define PROF_WRITER_BYTES ((size_t)65536)

/* Bytes of the longest text of an address that is cached: " 0x" and 12 digits, for 48 bits. */
#define PROF_FRAME_TEXT 15

/* A slot of the cache of address texts. */
typedef struct {
	/* 0: the slot is empty; only in the slot where the address 0 belongs, it has the text of 0 */
	uint64_t addr;
	unsigned char text[PROF_FRAME_TEXT + 1]; /* the last byte is the length of the text before it */
} prof_frame_text_t;

typedef struct {
	prof_file_t *file;
	char *buf;                 /* PROF_WRITER_BYTES; NULL: not allocated */
	prof_frame_text_t *frames; /* cache of address texts, in the same memory as buf */
	size_t len;                /* bytes in buf that are not written yet */
	uint64_t flushed;          /* bytes passed to the file so far, also after an error */
} prof_writer_t;

/* Allocates the buffer and the cache; the file need not be open yet. 0 or ENOMEM. */
int prof_writer_init(prof_writer_t *w, prof_file_t *file);
/* Passes the buffer to the file and empties it, also after an error, which is in file->err. */
void prof_writer_flush(prof_writer_t *w);
/* Frees the buffer and drops what is in it. */
void prof_writer_forget(prof_writer_t *w);

/*
 * Write len bytes, a text up to its NUL (both of any length), and a number in decimal or
 * hexadecimal digits (without 0x).
 */
void prof_write_data(prof_writer_t *w, const char *text, size_t len);
void prof_write_text(prof_writer_t *w, const char *text);
void prof_write_dec(prof_writer_t *w, uint64_t v);
void prof_write_hex(prof_writer_t *w, uint64_t v);
/* Bytes that prof_writer_room() guarantees. */
#define PROF_WRITER_ROOM 64

/*
 * Makes room for `bytes` (at most PROF_WRITER_BYTES) in the buffer, by flushing it if need be, and
 * returns where they are; the caller adds to w->len what it has written there, which must be less
 * than `bytes`, so that one byte of the buffer stays free.
 */
ALWAYS_INLINE char *
prof_writer_room_for(prof_writer_t *w, size_t bytes) {
	assert(bytes <= PROF_WRITER_BYTES);
	if (unlikely(w->len + bytes > PROF_WRITER_BYTES)) {
		prof_writer_flush(w);
	}
	return w->buf + w->len;
}

/* prof_writer_room_for() PROF_WRITER_ROOM bytes. */
ALWAYS_INLINE char *
prof_writer_room(prof_writer_t *w) {
	return prof_writer_room_for(w, PROF_WRITER_ROOM);
}

/* Writes a literal of less than PROF_WRITER_ROOM bytes. */
#define prof_write_lit(w, text) do { \
	static_assert(sizeof(text) <= PROF_WRITER_ROOM, "a short literal"); \
	memcpy(prof_writer_room(w), "" text, sizeof(text) - 1); \
	(w)->len += sizeof(text) - 1; \
} while (0)

/* The same, and a number in decimal digits behind it. */
#define prof_write_num(w, text, v) do { \
	prof_write_lit(w, text); \
	prof_write_dec(w, v); \
} while (0)

/* log2 of the number of slots of the cache of address texts. */
#define PROF_FRAME_SLOTS_LG 10

/*
 * prof_frame_put() for an address that is not in the cache. Writes the text to `to` as well, and
 * puts it into the cache if it is at most PROF_FRAME_TEXT bytes long.
 */
char *prof_frame_make(prof_writer_t *w, char *to, uint64_t v);

/* The only slot where the text of address v may be. */
ALWAYS_INLINE prof_frame_text_t *
prof_frame_slot(const prof_writer_t *w, uint64_t v) {
	return &w->frames[(v * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - PROF_FRAME_SLOTS_LG)];
}

/*
 * Writes " 0x" and the hexadecimal digits of the address to `to`, which has room for
 * PROF_WRITER_ROOM bytes; returns the end. The caller sets w->len.
 */
ALWAYS_INLINE char *
prof_frame_put(prof_writer_t *w, char *to, uint64_t v) {
	const prof_frame_text_t *slot = prof_frame_slot(w, v);
	if (unlikely(slot->addr != v)) {
		return prof_frame_make(w, to, v);
	}
	memcpy(to, slot->text, sizeof(slot->text));
	return to + slot->text[PROF_FRAME_TEXT];
}

/* Bytes written to the writer so far, flushed or not. */
static inline uint64_t
prof_writer_total(const prof_writer_t *w) {
	return w->flushed + w->len;
}
