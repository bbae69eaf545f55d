/*
 * One description of a report, printed as JSON (indented or compact) or as text for people.
 * Calls named json_ act in the JSON modes only, calls named table_ in the table mode only, the others
 * in both.  The text goes to a write callback in small pieces; put a buf_writer behind it.
 * Strings come out of JSON as valid JSON whatever bytes they hold.
 */
#ifndef UTIL_EMITTER_H
#define UTIL_EMITTER_H

#include "util/compiler.h"
#include "util/ql.h"

typedef enum {
	emitter_json,
	emitter_json_compact,
	emitter_table,
} emitter_mode_t;

/* What a value pointer points to; string and title: a const char *. */
typedef enum {
	emitter_type_bool,
	emitter_type_int,
	emitter_type_int64,
	emitter_type_unsigned,
	emitter_type_uint32,
	emitter_type_uint64,
	emitter_type_size,
	emitter_type_ssize,
	emitter_type_string, /* in quotes, also in the table */
	emitter_type_title,  /* in the table without quotes */
} emitter_type_t;

typedef enum {
	emitter_justify_left,
	emitter_justify_right,
	emitter_justify_none, /* width does not count */
} emitter_justify_t;

typedef void emitter_write_t(void *opaque, const char *s);

typedef struct {
	emitter_mode_t mode;
	emitter_write_t *write;
	void *opaque;
	unsigned depth;   /* open objects and arrays (JSON), open dicts (table) */
	bool has_item;    /* the innermost open JSON container has an item: a comma is due */
	bool has_key;     /* a JSON key is written and waits for its value */
} emitter_t;

/* A column of a table row: the value is in the union, of the type named beside it. */
typedef struct {
	ql_t link;
	emitter_justify_t justify;
	int width;
	emitter_type_t type;
	union {
		bool bool_val;
		int int_val;
		int64_t int64_val;
		unsigned unsigned_val;
		uint32_t uint32_val;
		uint64_t uint64_val;
		size_t size_val;
		ssize_t ssize_val;
		const char *str_val;
	};
} emitter_col_t;

typedef struct {
	ql_t cols;
} emitter_row_t;

void emitter_init(emitter_t *em, emitter_mode_t mode, emitter_write_t *write, void *opaque);

static inline bool
emitter_is_json(const emitter_t *em) {
	return em->mode != emitter_table;
}

/* The whole report; in JSON the outermost object. */
void emitter_begin(emitter_t *em);
void emitter_end(emitter_t *em);

/* "json_key": value, or an indented line "table_key: value". */
void emitter_kv(emitter_t *em, const char *json_key, const char *table_key, emitter_type_t type,
    const void *value);

/* The same; the table line ends in " (note_key: note_value)" when note_key is not NULL. */
void emitter_kv_note(emitter_t *em, const char *json_key, const char *table_key, emitter_type_t type,
    const void *value, const char *note_key, emitter_type_t note_type, const void *note_value);

/* An object under json_key, or a header line with what follows indented by two more blanks. */
void emitter_dict_begin(emitter_t *em, const char *json_key, const char *table_header);
void emitter_dict_end(emitter_t *em);

/* Inside an object: key, then one value, array or object. */
void emitter_json_key(emitter_t *em, const char *key);
void emitter_json_value(emitter_t *em, emitter_type_t type, const void *value);
void emitter_json_kv(emitter_t *em, const char *key, emitter_type_t type, const void *value);
void emitter_json_array_begin(emitter_t *em);
void emitter_json_array_end(emitter_t *em);
void emitter_json_object_begin(emitter_t *em);
void emitter_json_object_end(emitter_t *em);

/* json_key and json_array_begin or json_object_begin in one. */
void emitter_json_array_kv_begin(emitter_t *em, const char *key);
void emitter_json_object_kv_begin(emitter_t *em, const char *key);

static inline void
emitter_row_init(emitter_row_t *row) {
	ql_init(&row->cols);
}

/* Appends col to row; justify, width, type and value are the caller's to set. */
static inline void
emitter_col_init(emitter_col_t *col, emitter_row_t *row) {
	memset(col, 0, sizeof(*col));
	ql_push_tail(&row->cols, &col->link);
}

void emitter_table_row(emitter_t *em, const emitter_row_t *row);
void emitter_table_kv(emitter_t *em, const char *table_key, emitter_type_t type, const void *value);
void emitter_table_dict_begin(emitter_t *em, const char *header);
void emitter_table_dict_end(emitter_t *em);
/* At most 1023 bytes of text. */
void emitter_table_printf(emitter_t *em, const char *f, ...) PRINTF_FMT(2, 3);

#endif /* UTIL_EMITTER_H */
