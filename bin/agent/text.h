/*
 * A text that grows, and the quoting of untrusted strings for JSON, labels of metrics and HTML; in
 * these, bytes that are not valid UTF-8 become '?'. Invariant: text_add() and text_bytes() add all
 * of their text; or nothing, and then set is_cut (no memory, or too long). The other functions
 * consist of such additions. A text belongs to one thread, so there is no lock. Used by the files
 * that write answers of jeprofd.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct text_s {
	char *at;       /* malloc()ed, its user frees it; ends with NUL; NULL until an addition */
	size_t length;  /* bytes without the NUL */
	size_t room;    /* bytes allocated */
	bool is_cut;    /* an addition is missing, perhaps in the middle: too long, or no memory */
} text_t;

__attribute__((format(printf, 2, 3))) void text_add(text_t *t, const char *format, ...);
void text_bytes(text_t *t, const char *from, size_t length);

/* ---- each of the following functions adds to the text what its comment describes ---- */

/* A JSON string, with its quotes; '<' is escaped too, for use in <script>. */
void text_json(text_t *t, const char *from);

/* NAME="VALUE" of a sample in an exposition of metrics. */
void text_label(text_t *t, const char *name, const char *value);

/* Text for HTML, also within a quoted attribute. */
void text_html(text_t *t, const char *from);

/* Bytes in the largest unit of 1024 that fits, K to E, with 4 digits at most: "1.5G", "812". */
void text_size(text_t *t, double bytes);
