/*
 * A report that is described once and printed as JSON or as text for people.
 * Functions named emitter_json_ do nothing in the table mode, those named emitter_table_ nothing in
 * the JSON mode; all others act in both. The text is collected in a buffer and goes to a write
 * callback when that is full, and at the end. In JSON, not in the table, a string is escaped, and a
 * byte that is not part of valid UTF-8 becomes U+FFFD. Keys and headers must not be NULL. An
 * emitter_t is used by one thread at a time and has no lock. Callers are stats.c, prof_recent.c and
 * prof_log.c.
 */
#pragma once

#include "util/compiler.h"

typedef enum {
	emitter_json, /* on one line, without blanks */
	emitter_table,
} emitter_mode_t;

/*
 * The C type of the variable that `value` points to: for a string `value` is a const char **, NULL
 * as an empty one, in quotes in the table too. The types of mallctl (ctl/node.h) have these values.
 */
typedef enum {
	emitter_type_bool = 1,
	emitter_type_unsigned,
	emitter_type_uint32,
	emitter_type_uint64,
	emitter_type_size,
	emitter_type_ssize,
	emitter_type_int64,
	emitter_type_string,
} emitter_type_t;

typedef void emitter_write_t(void *opaque, const char *s);

/* Bytes of the emitter's own buffer, for callers that have none. */
#define EMITTER_OWN_BYTES 256

typedef struct {
	emitter_mode_t mode;
	emitter_write_t *write;
	void *opaque;
	char *buf;   /* of the caller, or `own` */
	size_t size; /* bytes of buf, one of them for the NUL */
	size_t used; /* bytes of text in buf that were not passed on yet; less than size */
	unsigned depth; /* open objects and arrays (JSON) or open dicts (table) */
	bool has_item; /* the innermost JSON container has an item: its next one begins with a comma */
	bool has_key; /* a JSON key was written whose value is still to come */
	char own[EMITTER_OWN_BYTES];
} emitter_t;

/*
 * write, which is not NULL, gets opaque unchanged and pieces that with their NUL fill the buffer; a
 * piece may end within a UTF-8 character. buf has at least 2 bytes and stays valid as long as em is
 * used; NULL: em has a small buffer of its own.
 */
void emitter_init(emitter_t *em, emitter_mode_t mode, emitter_write_t *write, void *opaque,
    char *buf, size_t size);

static inline bool
emitter_is_json(const emitter_t *em) {
	return em->mode != emitter_table;
}

/*
 * Begin and end the whole report: in JSON the outermost object; in the table mode they print
 * nothing. emitter_end() passes on what is in the buffer.
 */
void emitter_begin(emitter_t *em);
void emitter_end(emitter_t *em);

/* Prints "json_key": value, or an indented line "table_key: value". */
void emitter_kv(emitter_t *em, const char *json_key, const char *table_key, emitter_type_t type,
    const void *value);

/*
 * Like emitter_kv(); the table line ends in " (note_key: note_value)" if note_key is not NULL. JSON
 * has no note.
 */
void emitter_kv_note(emitter_t *em, const char *json_key, const char *table_key,
    emitter_type_t type,
    const void *value, const char *note_key, emitter_type_t note_type, const void *note_value);

/*
 * Opens an object under json_key, or prints a header line and indents what follows by two blanks.
 */
void emitter_dict_begin(emitter_t *em, const char *json_key, const char *table_header);
void emitter_dict_end(emitter_t *em);

/*
 * Inside an object: emitter_json_key(), then exactly one value, array or object; emitter_json_kv()
 * writes key and value.
 */
void emitter_json_key(emitter_t *em, const char *key);
void emitter_json_value(emitter_t *em, emitter_type_t type, const void *value);
void emitter_json_kv(emitter_t *em, const char *key, emitter_type_t type, const void *value);
void emitter_json_array_begin(emitter_t *em);
void emitter_json_array_end(emitter_t *em);
void emitter_json_object_begin(emitter_t *em);
void emitter_json_object_end(emitter_t *em);

/* emitter_json_key() followed by emitter_json_array_begin() or emitter_json_object_begin(). */
void emitter_json_array_kv_begin(emitter_t *em, const char *key);
void emitter_json_object_kv_begin(emitter_t *em, const char *key);

/* The table half of emitter_kv(), for what JSON prints differently. */
void emitter_table_kv(emitter_t *em, const char *table_key, emitter_type_t type, const void *value);
/* Prints free text, without indentation; at most 1023 bytes, the rest is cut off. */
void emitter_table_printf(emitter_t *em, const char *f, ...) PRINTF_FMT(2, 3);
