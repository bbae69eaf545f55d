/*
 * Messages, hints, quoting, exit and the signal handler of jeprofctl: see talk.h. Invariant: what
 * prints or quotes text replaces or escapes control characters, because text of another process
 * must not control the terminal; but put_json_string() leaves those from U+0080 on in valid UTF-8.
 * print_to() replaces none. No locks: one thread; the signal handler only counts. Called by the
 * other files of jeprofctl; parsing values needs none of it.
 */
#include "ctl.h"

#include "client/utf8.h"
#include "client/word.h"
#include "talk.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool talk_is_quiet;
char *unfinished;
volatile sig_atomic_t interrupted;
int patience = 1;

bool
is_control(char c) {
	return (unsigned char)c < ' ' || c == 127;
}

/*
 * How many bytes at the beginning of a text, which is not empty, make one character that a terminal
 * would obey: a control character of ASCII, or of the upper half, alone or as UTF-8, or a mark that
 * turns the direction of writing. 0: another character begins there. *n is its number of bytes in
 * both cases.
 */
static size_t
control_length(const char *text, size_t *n) {
	const unsigned char *s = (const unsigned char *)text;
	uint32_t point;
	size_t length = utf8_read(s, UTF8_BYTES, &point);
	*n = length > 0 ? length : 1;
	return (length > 0 ? utf8_is_obeyed(point) : s[0] < 0xa0) ? *n : 0;
}

/* Replaces each byte of control characters by '?', but not a newline at the end. */
static void
text_clean(char *text) {
	size_t n;
	for (char *c = text; *c != '\0'; c += n) {
		bool is_end = *c == '\n' && c[1] == '\0';
		memset(c, '?', control_length(c, &n) * !is_end);
	}
}

static void
vtalk(const char *format, va_list args) {
	char text[TEXT_BYTES];
	vsnprintf(text, sizeof(text), format, args);
	text_clean(text);
	fprintf(stderr, "jeprofctl: %s\n", text);
}

void
talk(const char *format, ...) {
	va_list args;
	va_start(args, format);
	vtalk(format, args);
	va_end(args);
}

void
leave(int code, const char *format, ...) {
	va_list args;
	va_start(args, format);
	vtalk(format, args);
	va_end(args);
	exit(code);
}

void
remove_unfinished(void) {
	if (unfinished != NULL) {
		unlink(unfinished);
	}
}

void
on_signal(int number) {
	(void)number;
	interrupted = interrupted + 1;
}

void
print_to(char *buf, size_t size, const char *format, ...) {
	va_list args;
	va_start(args, format);
	int n = vsnprintf(buf, size, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= size) {
		leave(EXIT_USAGE, "too long, more than %zu bytes: %.80s...", size - 1, buf);
	}
}

const char *
shell_word(const char *text, char *buf, size_t size) {
	char name[TEXT_BYTES];
	print_to(name, sizeof(name), "%s%s", *text == '-' ? "./" : "", text);
	for (char *c = name; *c != '\0'; c++) {
		*c = is_control(*c) ? '?' : *c;
	}
	size_t n = client_put_word(buf, size - 1, name);
	if (n == 0) {
		leave(EXIT_USAGE, "too long, more than %zu bytes: %.80s...", size - 1, name);
	}
	buf[n] = '\0';
	return buf;
}

void
need_written(void) {
	if (fflush(stdout) != 0 || ferror(stdout)) {
		leave(EXIT_FAILED, "cannot write: %s", strerror(errno));
	}
}

void
put_plain(const char *text) {
	for (size_t n; *text != '\0'; text += n) {
		bool is_obeyed = control_length(text, &n) > 0;
		fwrite(is_obeyed ? "??" "??" : text, 1, n, stdout);
	}
}

static bool
is_utf8(const char *text) {
	size_t n = 1;
	for (; *text != '\0' && n > 0; text += n) {
		n = utf8_length((const unsigned char *)text);
	}
	return n > 0;
}

void
put_json_string(const char *text) {
	bool is_valid = is_utf8(text);
	putchar('"');
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;
		if (c == '"' || c == '\\') {
			printf("\\%c", c);
		} else if (is_control((char)c) || (c >= 0x80 && !is_valid)) {
			printf("\\u%04x", c);
		} else {
			putchar(c);
		}
	}
	putchar('"');
}

void
hint(const char *format, ...) {
	char text[5 * TEXT_BYTES]; /* shell_word() makes up to four characters of one */
	va_list args;
	if (talk_is_quiet) {
		return;
	}
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	text_clean(text);
	fputs(text, stderr);
}
