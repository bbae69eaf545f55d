/*
 * A text that grows, and the quoting of what comes from outside: JSON, labels of metrics, HTML.
 * What is no UTF-8 becomes '?'. Invariant: a text that had no memory stays as it was, and is_cut
 * says so.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct text_s {
	char *at;       /* malloc()ed, ended with NUL; NULL while empty */
	size_t length;
	size_t room;
	bool is_cut;
} text_t;

__attribute__((format(printf, 2, 3))) void text_add(text_t *t, const char *format, ...);
void text_bytes(text_t *t, const char *from, size_t length);

/* With quotes around it. */
void text_json(text_t *t, const char *from);

/* NAME="VALUE" of a sample in an exposition of metrics. */
void text_label(text_t *t, const char *name, const char *value);

void text_html(text_t *t, const char *from);

/* "1.5G" */
void text_size(text_t *t, double bytes);
