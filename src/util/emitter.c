/*
 * Prints a report as JSON or as text; emitter.h describes the interface.
 * The JSON side keeps three facts: how many containers are open (depth), whether the innermost one
 * needs a comma before the next item, and whether a key has been written whose value is still to
 * come. The text side keeps only its level of indentation, in depth too. No lock and no allocation:
 * the state is in the caller's emitter_t. Callers are malloc_stats_print() (stats.c),
 * prof_recent.c and prof_log.c.
 */
#include "util/emitter.h"

#include "util/assert.h"
#include "util/bits.h"
#include "util/fmt.h"

cassert(sizeof(unsigned) == sizeof(uint32_t));
cassert(sizeof(size_t) == sizeof(uint64_t) && sizeof(ssize_t) == sizeof(int64_t));

/* Bytes for the text of any value that is not a string, with the NUL. */
#define EMITTER_VALUE_BUF 32
/* Bytes, with the NUL, of the stack buffer for the pieces of JSON strings. */
#define EMITTER_PIECE 256
/* Bytes of the text that stands for one character, with the NUL. */
#define EMITTER_ESCAPE_SIZE 8

void
emitter_init(emitter_t *em, emitter_mode_t mode, emitter_write_t *write, void *opaque) {
	assert(write != NULL);
	em->mode = mode;
	em->write = write;
	em->opaque = opaque;
	em->depth = 0;
	em->has_item = false;
	em->has_key = false;
}

static void
emitter_puts(emitter_t *em, const char *s) {
	em->write(em->opaque, s);
}

/* Writes a value that is not a string into buf as text. */
static void
value_text(char buf[EMITTER_VALUE_BUF], emitter_type_t type, const void *value) {
	size_t n = EMITTER_VALUE_BUF;
	switch (type) {
	case emitter_type_bool:
		fmt_snprintf(buf, n, "%s", *(const bool *)value ? "true" : "false");
		return;
	case emitter_type_unsigned:
	case emitter_type_uint32: fmt_snprintf(buf, n, "%u", *(const unsigned *)value); return;
	case emitter_type_uint64:
	case emitter_type_size:
		fmt_snprintf(buf, n, "%llu", (unsigned long long)*(const uint64_t *)value);
		return;
	case emitter_type_ssize:
	case emitter_type_int64:
		fmt_snprintf(buf, n, "%lld", (long long)*(const int64_t *)value);
		return;
	case emitter_type_string: break;
	}
	assert_not_reached();
}

/* A NULL string is printed as the empty string. */
static const char *
value_string(const void *value) {
	const char *s = *(const char *const *)value;
	return s != NULL ? s : "";
}

/*
 * Writes the JSON text of the character at `at`, which is not the end, with a NUL. Returns the
 * number of bytes that it stands for. A byte that is not valid UTF-8 becomes U+FFFD.
 */
static size_t
json_escape(char out[EMITTER_ESCAPE_SIZE], const char *at) {
	const unsigned char *p = (const unsigned char *)at;
	/* pairs: a character, and what stands for it behind a backslash */
	static const char short_escapes[] = "\"\"\\\\\bb\ff\nn\rr\tt";
	for (const char *n = short_escapes; *n != '\0'; n += 2) {
		if (*p == (unsigned char)n[0]) {
			fmt_snprintf(out, 8, "\\%c", n[1]);
			return 1;
		}
	}
	if (*p < 0x20 || *p == 0x7f) {
		fmt_snprintf(out, 8, "\\u%04x", (unsigned)*p);
		return 1;
	}
	size_t len = *p < 0x80 ? 1 : fmt_utf8_len(at);
	if (len == 0) {
		fmt_snprintf(out, 8, "\\ufffd");
		return 1;
	}
	memcpy(out, p, len);
	out[len] = '\0';
	return len;
}

static void
json_string(emitter_t *em, const char *s) {
	char piece[EMITTER_PIECE];
	size_t used = 0;
	piece[used++] = '"';
	while (*s != '\0') {
		char out[EMITTER_ESCAPE_SIZE];
		size_t len = 1;
		if (*s >= '_' && *s <= 'z') {
			out[0] = *s++; /* most characters of keys */
		} else {
			s += json_escape(out, s);
			len = strlen(out);
		}
		/* Keep two bytes for the closing quote and the NUL. */
		if (used + len > sizeof(piece) - 2) {
			piece[used] = '\0';
			emitter_puts(em, piece);
			used = 0;
		}
		memcpy(piece + used, out, len);
		used += len;
	}
	piece[used++] = '"';
	piece[used] = '\0';
	emitter_puts(em, piece);
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
	json_string(em, key);
	emitter_puts(em, ":");
	em->has_key = true;
}

void
emitter_json_value(emitter_t *em, emitter_type_t type, const void *value) {
	if (!emitter_is_json(em)) {
		return;
	}
	json_item_begin(em);
	if (type == emitter_type_string) {
		json_string(em, value_string(value));
		return;
	}
	char buf[EMITTER_VALUE_BUF];
	value_text(buf, type, value);
	emitter_puts(em, buf);
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
}

static void
table_indent(emitter_t *em) {
	for (unsigned i = 0; i < em->depth; i++) {
		emitter_puts(em, "  ");
	}
}

static void
table_value(emitter_t *em, emitter_type_t type, const void *value) {
	if (type == emitter_type_string) {
		emitter_puts(em, "\"");
		emitter_puts(em, value_string(value));
		emitter_puts(em, "\"");
		return;
	}
	char buf[EMITTER_VALUE_BUF];
	value_text(buf, type, value);
	emitter_puts(em, buf);
}

static void
table_line(emitter_t *em, const char *key, emitter_type_t type, const void *value,
    const char *note_key, emitter_type_t note_type, const void *note_value) {
	table_indent(em);
	emitter_puts(em, key);
	emitter_puts(em, ": ");
	table_value(em, type, value);
	if (note_key != NULL) {
		emitter_puts(em, " (");
		emitter_puts(em, note_key);
		emitter_puts(em, ": ");
		table_value(em, note_type, note_value);
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
	table_indent(em);
	emitter_puts(em, table_header);
	emitter_puts(em, "\n");
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
