/*
 * Messages, and the end of the program. Results go to stdout, messages and hints to stderr. Control
 * characters in text of another process are replaced or escaped; only a string of JSON keeps those
 * from U+0080 on. Called by the other files of jeprofctl; parsing values needs none of it.
 */
#pragma once
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

/* The exit codes of jeprofctl; 3 is not used. */
enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,     /* wrong words or options: jeprofctl finds it, or the process answers so */
	EXIT_ALREADY = 4,   /* it is in that state already; --idempotent makes it 0 */
	EXIT_NO_WAY = 5,    /* no such process, or no way into it */
	EXIT_REFUSED = 6,   /* the process refuses, or would end by it */
	EXIT_NO_ANSWER = 7, /* no answer in time, or busy */
};

enum { TEXT_BYTES = 2 * PATH_MAX }; /* room for a path or a message, with its NUL */

extern bool talk_is_quiet;                 /* hint() prints nothing (-q, --json) */
extern char *unfinished;                   /* path of a file to remove at exit; NULL: none */
extern volatile sig_atomic_t interrupted;  /* how many SIGINT, SIGTERM, SIGHUP came so far */
extern int patience;                       /* so many of them end a wait: 1, or 2 with --duration */

/*
 * Prints "jeprofctl: MESSAGE" and a newline on stderr, cut off at TEXT_BYTES. "?" replaces control
 * characters, also U+0080 to U+009F, and marks that turn the direction of writing.
 */
__attribute__((format(printf, 1, 2))) void talk(const char *format, ...);
/* The same, then exit(code). */
__attribute__((format(printf, 2, 3), noreturn)) void leave(int code, const char *format, ...);

/*
 * The name of a file as one word for a shell, in buf, between single quotes if it needs them; "./"
 * is put before a "-" at its beginning. ASCII control characters become "?". A word that does not
 * fit ends the program with EXIT_USAGE.
 */
const char *shell_word(const char *text, char *buf, size_t size);

/*
 * Prints on stderr what to type next, unless talk_is_quiet; the format ends in a newline.
 * Characters are replaced as in talk().
 */
__attribute__((format(printf, 1, 2))) void hint(const char *format, ...);

/* Prints into buf; a text that does not fit ends the program with EXIT_USAGE. */
__attribute__((format(printf, 3, 4))) void print_to(char *buf, size_t size, const char *format,
    ...);

/* Whether the character is an ASCII control character. */
bool is_control(char c);

/* Writes out what stdout holds back, or exits with EXIT_FAILED and the reason. */
void need_written(void);

/* Prints a text of another process on stdout; control characters become "?", as in talk(). */
void put_plain(const char *text);
/*
 * Prints a text of another process on stdout as a string of JSON, with its quotes. ASCII control
 * characters become \u00xx; if the text is no UTF-8, so does each byte from 0x80 on.
 */
void put_json_string(const char *text);

/* An atexit() handler: removes the file `unfinished`. */
void remove_unfinished(void);

/* A signal handler: counts in `interrupted`. */
void on_signal(int number);
