/*
 * Text that grows as it is written, and quoting for JSON, HTML and labels of metrics (text.h).
 * Invariant: a text ends with NUL, unless `at` is still NULL. An addition that is too long or
 * for which there is no memory is left out and sets is_cut; a later, shorter one may succeed. No
 * locks, because each text belongs to one thread. Called by the files that write answers:
 * targets.c, metrics.c, page.c, pages.c, dead_pages.c, dead_facts.c and elsewhere.c.
 */
#include "agent.h"

#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/utf8.h"

/* Makes room for `more` bytes and a NUL; sets is_cut and returns false without memory. */
static bool
try_grow(text_t *t, size_t more) {
	if (t->length + more < t->room) {
		return true;
	}
	size_t room = (t->length + more + 1) * 3 / 2 + 256;
	char *at = realloc(t->at, room);
	if (at == NULL) {
		t->is_cut = true;
		return false;
	}
	t->at = at;
	t->room = room;
	return true;
}

void
text_bytes(text_t *t, const char *from, size_t length) {
	if (try_grow(t, length)) {
		memcpy(t->at + t->length, from, length);
		t->length += length;
		t->at[t->length] = '\0';
	}
}

void
text_add(text_t *t, const char *format, ...) {
	va_list args;
	va_start(args, format);
	int n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n < 0) {
		t->is_cut = true; /* too long for an int */
		return;
	}
	if (!try_grow(t, (size_t)n)) {
		return;
	}
	va_start(args, format);
	vsnprintf(t->at + t->length, (size_t)n + 1, format, args);
	va_end(args);
	t->length += (size_t)n;
}

/* The escaped form of an ASCII byte, a constant or in buf; NULL: the byte stays as it is. */
typedef const char *escape_t(unsigned char c, char buf[8]);

/* Adds the text: ASCII bytes as escape() says, '?' for each byte that is not valid UTF-8. */
static void
add_escaped(text_t *t, const char *from, escape_t *escape) {
	char buf[8];
	for (const unsigned char *s = (const unsigned char *)from; *s != '\0';) {
		size_t n = utf8_length(s);
		const char *other = n == 0 ? "?" : n == 1 ? escape(*s, buf) : NULL;
		if (other != NULL) {
			text_bytes(t, other, strlen(other));
		} else {
			text_bytes(t, (const char *)s, n);
		}
		s += n > 0 ? n : 1;
	}
}

static const char *
escape_json(unsigned char c, char buf[8]) {
	if (c >= ' ' && c != '"' && c != '\\' && c != '<' && c != 127) {
		return NULL;
	}
	snprintf(buf, 8, c == '"' || c == '\\' ? "\\%c" : "\\u%04x", c);
	return buf;
}

static const char *
escape_label(unsigned char c, char buf[8]) {
	(void)buf;
	return c == '"' ? "\\\"" : c == '\\' ? "\\\\" : c == '\n' ? "\\n" : c < ' ' || c == 127 ? "?"
	    : NULL;
}

static const char *
escape_html(unsigned char c, char buf[8]) {
	(void)buf;
	return c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;"
	    : c == '\'' ? "&#39;" : c < ' ' || c == 127 ? "?" : NULL;
}

void
text_json(text_t *t, const char *from) {
	text_bytes(t, "\"", 1);
	add_escaped(t, from, escape_json);
	text_bytes(t, "\"", 1);
}

void
text_label(text_t *t, const char *name, const char *value) {
	text_add(t, "%s=\"", name);
	add_escaped(t, value, escape_label);
	text_bytes(t, "\"", 1);
}

void
text_html(text_t *t, const char *from) {
	add_escaped(t, from, escape_html);
}

void
text_size(text_t *t, double bytes) {
	static const char letters[] = " KMGTPE";
	int i = 0;
	for (; bytes >= 1024 && i < 6; i++) {
		bytes /= 1024;
	}
	text_add(t, i == 0 ? "%.0f" : "%.4g%c", bytes, letters[i]);
}
