/*
 * Buffered text output for dumps and the log (prof_write.h).
 *
 * Invariant: between calls the buffer has at least one byte of room. A number or short literal asks
 * prof_writer_room() once for PROF_WRITER_ROOM (64) bytes, and then needs no further check. Locks:
 * none; a writer belongs to one thread. Called by prof_dump.c, prof_dump_label.c and prof_log.c.
 */
#include "prof/file/prof_write.h"

#include "meta/freepool.h"
#include "util/bits.h"
#include "util/fmt.h"

/* Bytes for the longest decimal number, which has 20 digits. */
#define NUMBER_MAX 24
static_assert(NUMBER_MAX <= PROF_WRITER_ROOM, "room for any number");
static_assert(3 + 16 <= PROF_WRITER_ROOM, "room for any frame");
static_assert(sizeof(prof_frame_text_t) == 24, "no padding");
static_assert(PROF_WRITER_ROOM < PROF_WRITER_BYTES, "a buffer holds more than one number");

/* Bytes of the cache of address texts. */
#define FRAMES_BYTES (sizeof(prof_frame_text_t) << PROF_FRAME_SLOTS_LG)

int
prof_writer_init(prof_writer_t *w, prof_file_t *file) {
	w->file = file;
	w->len = 0;
	w->flushed = 0;
	w->buf = meta_alloc(PROF_WRITER_BYTES + FRAMES_BYTES);
	w->frames = w->buf == NULL ? NULL : (prof_frame_text_t *)(w->buf + PROF_WRITER_BYTES);
	if (w->buf == NULL) {
		return ENOMEM;
	}
	/*
	 * meta_alloc() has zeroed all slots, so each seems to hold the address 0. Only one of them is
	 * looked at for 0; it gets the text of 0 now. So a look-up need not ask if a slot is empty.
	 */
	prof_frame_text_t *zero = prof_frame_slot(w, 0);
	memcpy(zero->text, " 0x0", 4);
	zero->text[PROF_FRAME_TEXT] = 4; /* the length */
	return 0;
}

void
prof_writer_flush(prof_writer_t *w) {
	assert(w->len <= PROF_WRITER_BYTES);
	prof_file_write(w->file, w->buf, w->len);
	w->flushed += w->len;
	w->len = 0;
}

void
prof_writer_forget(prof_writer_t *w) {
	meta_free(w->buf, PROF_WRITER_BYTES + FRAMES_BYTES);
	w->buf = NULL;
	w->frames = NULL;
	w->len = 0;
}

void
prof_write_data(prof_writer_t *w, const char *text, size_t len) {
	while (len > 0) {
		assert(w->len < PROF_WRITER_BYTES); /* so each round makes progress */
		size_t n = min_zu(len, PROF_WRITER_BYTES - w->len);
		memcpy(w->buf + w->len, text, n);
		w->len += n;
		text += n;
		len -= n;
		if (w->len == PROF_WRITER_BYTES) {
			prof_writer_flush(w);
		}
	}
}

void
prof_write_text(prof_writer_t *w, const char *text) {
	prof_write_data(w, text, strlen(text));
}

void
prof_write_dec(prof_writer_t *w, uint64_t v) {
	char *to = prof_writer_room(w);
	if (v < 10) {
		*to = (char)('0' + v);
		w->len++;
		return;
	}
	char digits[2 * NUMBER_MAX];
	char *end = digits + NUMBER_MAX, *first = fmt_u64_dec(end, v);
	memcpy(to, first, NUMBER_MAX); /* a fixed length costs less; bytes behind are of no meaning */
	w->len += (size_t)(end - first);
}

/* Writes the hexadecimal digits of v to `to`, which has room for 16; returns how many there are. */
static unsigned
put_hex(char *to, uint64_t v) {
	char digits[16], *end = digits + sizeof(digits), *first = fmt_u64_hex(end, v);
	memcpy(to, first, (size_t)(end - first));
	return (unsigned)(end - first);
}

void
prof_write_hex(prof_writer_t *w, uint64_t v) {
	w->len += put_hex(prof_writer_room(w), v);
}

char *
prof_frame_make(prof_writer_t *w, char *to, uint64_t v) {
	memcpy(to, " 0x", 4);
	unsigned len = 3 + put_hex(to + 3, v);
	assert(len <= 3 + 16);
	if (len <= PROF_FRAME_TEXT) {
		prof_frame_text_t *slot = prof_frame_slot(w, v);
		slot->addr = v;
		memcpy(slot->text, to, PROF_FRAME_TEXT);
		slot->text[PROF_FRAME_TEXT] = (unsigned char)len;
	}
	return to + len;
}
