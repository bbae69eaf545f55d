/*
 * Prints a report as JSON or as text; emitter.h describes the interface.
 * The JSON side keeps three facts: how many containers are open (depth), whether the innermost one
 * needs a comma before the next item, and whether a key has been written whose value is still to
 * come. The text side keeps only its level of indentation, in depth too. Invariant: the last byte
 * of the buffer is free for the NUL. No lock and no allocation: the state is in the caller's
 * emitter_t. Callers are malloc_stats_print() (stats.c), prof_recent.c and prof_log.c.
 */
#include "util/emitter.h"

#include "util/bits.h"
#include "util/fmt.h"

cassert(sizeof(unsigned) == sizeof(uint32_t));
cassert(sizeof(size_t) == sizeof(uint64_t) && sizeof(ssize_t) == sizeof(int64_t));

/* Bytes for the text of any value that is not a string, with the NUL. */
#define EMITTER_VALUE_BUF 32

void
emitter_init(emitter_t *em, emitter_mode_t mode, emitter_write_t *write, void *opaque, char *buf,
    size_t size) {
	assert(write != NULL && (buf == NULL || size >= 2));
	em->mode = mode;
	em->write = write;
	em->opaque = opaque;
	em->buf = buf != NULL ? buf : em->own;
	em->size = buf != NULL ? size : sizeof(em->own);
	em->used = 0;
	em->depth = 0;
	em->has_item = false;
	em->has_key = false;
}

/* Passes on the text in the buffer, if there is any. */
static void
emitter_flush(emitter_t *em) {
	assert(em->used < em->size);
	em->buf[em->used] = '\0';
	if (em->used > 0) {
		em->used = 0;
		em->write(em->opaque, em->buf);
	}
}

static void
emitter_put(emitter_t *em, const char *s, size_t n) {
	while (n > 0) {
		size_t len = min_zu(n, em->size - 1 - em->used);
		memcpy(em->buf + em->used, s, len);
		em->used += len;
		s += len;
		n -= len;
		if (em->used == em->size - 1) {
			emitter_flush(em);
		}
	}
}

static void
emitter_puts(emitter_t *em, const char *s) {
	emitter_put(em, s, strlen(s));
}

/*
 * Writes the JSON text of the characters at s that need no escape, or of the one there, which is
 * not the end. Returns the number of bytes that it stands for. A byte that is not valid UTF-8
 * becomes U+FFFD.
 */
static size_t
json_part(emitter_t *em, const char *s) {
	/* pairs: a character, and what stands for it behind a backslash */
	static const char short_escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";
	unsigned char c = (unsigned char)*s;
	char text[8] = "\\ufffd";
	size_t len = 0;
	while (s[len] >= '_' && s[len] <= 'z') { /* most characters of keys */
		len++;
	}
	for (const char *n = short_escapes; len == 0 && *n != '\0'; n += 2) {
		if (*s == n[0]) {
			emitter_put(em, (char[]){'\\', n[1]}, 2);
			return 1;
		}
	}
	if (c < 0x20 || c == 0x7f) {
		fmt_snprintf(text, sizeof(text), "\\u%04x", (unsigned)c);
	} else if (len == 0) {
		len = c < 0x80 ? 1 : fmt_utf8_len(s);
	}
	emitter_put(em, len == 0 ? text : s, len == 0 ? 6 : len);
	return len == 0 ? 1 : len;
}

/* Writes a string in quotes; NULL as an empty one. */
static void
put_string(emitter_t *em, const char *s) {
	s = s == NULL ? "" : s;
	emitter_puts(em, "\"");
	while (*s != '\0' && emitter_is_json(em)) {
		s += json_part(em, s);
	}
	emitter_puts(em, s); /* all of it in the table */
	emitter_puts(em, "\"");
}

static void
put_value(emitter_t *em, emitter_type_t type, const void *value) {
	char text[EMITTER_VALUE_BUF] = "";
	size_t n = sizeof(text);
	switch (type) {
	case emitter_type_bool:
		fmt_snprintf(text, n, "%s", *(const bool *)value ? "true" : "false");
		break;
	case emitter_type_unsigned:
	case emitter_type_uint32:
		fmt_snprintf(text, n, "%u", *(const unsigned *)value);
		break;
	case emitter_type_uint64:
	case emitter_type_size:
		fmt_snprintf(text, n, "%llu", (unsigned long long)*(const uint64_t *)value);
		break;
	case emitter_type_ssize:
	case emitter_type_int64:
		fmt_snprintf(text, n, "%lld", (long long)*(const int64_t *)value);
		break;
	case emitter_type_string:
		put_string(em, *(const char *const *)value);
		break;
	}
	emitter_puts(em, text);
}

/*
 * Writes the comma before an item. Called before a key and before a value; for a
 * value that has a key it writes nothing, and only notes that the key has its value now.
 */
static void
json_item_begin(emitter_t *em) {
	if (em->has_key) {
		em->has_key = false;
		return;
	}
	if (em->has_item) {
		emitter_puts(em, ",");
	}
	em->has_item = true;
}

static void
json_open(emitter_t *em, const char *bracket) {
	json_item_begin(em);
	emitter_puts(em, bracket);
	em->depth++;
	em->has_item = false;
}

static void
json_close(emitter_t *em, const char *bracket) {
	assert(em->depth > 0 && !em->has_key);
	em->depth--;
	emitter_puts(em, bracket);
	/* The container that was just closed is itself an item of the one around it. */
	em->has_item = true;
}

void
emitter_json_key(emitter_t *em, const char *key) {
	if (!emitter_is_json(em)) {
		return;
	}
	assert(!em->has_key);
	json_item_begin(em);
	put_string(em, key);
	emitter_puts(em, ":");
	em->has_key = true;
}

void
emitter_json_value(emitter_t *em, emitter_type_t type, const void *value) {
	if (!emitter_is_json(em)) {
		return;
	}
	json_item_begin(em);
	put_value(em, type, value);
}

void
emitter_json_kv(emitter_t *em, const char *key, emitter_type_t type, const void *value) {
	emitter_json_key(em, key);
	emitter_json_value(em, type, value);
}

void
emitter_json_array_begin(emitter_t *em) {
	if (emitter_is_json(em)) {
		json_open(em, "[");
	}
}

void
emitter_json_array_end(emitter_t *em) {
	if (emitter_is_json(em)) {
		json_close(em, "]");
	}
}

void
emitter_json_object_begin(emitter_t *em) {
	if (emitter_is_json(em)) {
		json_open(em, "{");
	}
}

void
emitter_json_object_end(emitter_t *em) {
	if (emitter_is_json(em)) {
		json_close(em, "}");
	}
}

void
emitter_json_array_kv_begin(emitter_t *em, const char *key) {
	emitter_json_key(em, key);
	emitter_json_array_begin(em);
}

void
emitter_json_object_kv_begin(emitter_t *em, const char *key) {
	emitter_json_key(em, key);
	emitter_json_object_begin(em);
}

void
emitter_begin(emitter_t *em) {
	assert(em->depth == 0);
	emitter_json_object_begin(em);
}

void
emitter_end(emitter_t *em) {
	emitter_json_object_end(em);
	assert(em->depth == 0);
	emitter_flush(em);
}

void
emitter_table_printf(emitter_t *em, const char *f, ...) {
	if (emitter_is_json(em)) {
		return;
	}
	char text[1024];
	va_list ap;
	va_start(ap, f);
	fmt_vsnprintf(text, sizeof(text), f, ap);
	va_end(ap);
	emitter_puts(em, text);
}

static void
table_line(emitter_t *em, const char *key, emitter_type_t type, const void *value,
    const char *note_key, emitter_type_t note_type, const void *note_value) {
	emitter_table_printf(em, "%*s%s: ", (int)(2 * em->depth), "", key);
	put_value(em, type, value);
	if (note_key != NULL) {
		emitter_table_printf(em, " (%s: ", note_key);
		put_value(em, note_type, note_value);
		emitter_puts(em, ")");
	}
	emitter_puts(em, "\n");
}

void
emitter_kv_note(emitter_t *em, const char *json_key, const char *table_key, emitter_type_t type,
    const void *value, const char *note_key, emitter_type_t note_type, const void *note_value) {
	if (emitter_is_json(em)) {
		emitter_json_kv(em, json_key, type, value);
	} else {
		table_line(em, table_key, type, value, note_key, note_type, note_value);
	}
}

void
emitter_kv(emitter_t *em, const char *json_key, const char *table_key, emitter_type_t type,
    const void *value) {
	emitter_kv_note(em, json_key, table_key, type, value, NULL, emitter_type_bool, NULL);
}

void
emitter_table_kv(emitter_t *em, const char *table_key, emitter_type_t type, const void *value) {
	if (!emitter_is_json(em)) {
		table_line(em, table_key, type, value, NULL, emitter_type_bool, NULL);
	}
}

void
emitter_dict_begin(emitter_t *em, const char *json_key, const char *table_header) {
	if (emitter_is_json(em)) {
		emitter_json_object_kv_begin(em, json_key);
		return;
	}
	emitter_table_printf(em, "%*s%s\n", (int)(2 * em->depth), "", table_header);
	em->depth++;
}

void
emitter_dict_end(emitter_t *em) {
	if (emitter_is_json(em)) {
		emitter_json_object_end(em);
		return;
	}
	assert(em->depth > 0);
	em->depth--;
}
