/*
 * Which calls are logged, and the lines of the log (call_log.h). Builds without --enable-log have
 * nothing of this file.
 *
 * Invariant: `wanted` changes only while options are read, by one thread. Locks: none. call_log()
 * is called by jemalloc_logged.c, cxx.c and ctl_experimental.c, call_log_names_set() by
 * conf_table.c.
 */
#include "call_log.h"

#if CONFIG_LOG

#include "os/malloc_io.h"
#include "os/tls.h"
#include "util/fmt.h"

/* Longest line in bytes with the NUL; a longer one is cut. */
#define LINE_MAX_BYTES 256
/* Room in bytes for a name of the log with the NUL, such as "core.malloc_usable_size.entry". */
#define NAME_MAX_BYTES 48

#define CALL_NAME(name) [call_of_##name] = #name,
static const char *const call_names[call_nfunctions] = {CALL_LOG_FUNCTIONS(CALL_NAME)};
static const char *const side_names[call_nsides] = {[call_entry] = "entry", [call_exit] = "exit"};
static bool wanted[call_nfunctions][call_nsides];
/* The thread is writing a line; what it calls meanwhile, in a signal handler too, is not logged. */
static TLS_MODEL __thread bool is_writing;

/* ------------------------------------------------------------------ names */

/* Whether `given` covers `name`: it is ".", equals it, or is its part before one of its dots. */
static bool
name_covers(const char *given, size_t len, const char *name) {
	if (len == 1 && given[0] == '.') {
		return true;
	}
	return len > 0 && strncmp(given, name, len) == 0 && (name[len] == '\0' || name[len] == '.');
}

/* Adds what the name covers to `set`; false if it covers nothing. */
static bool
name_add(const char *given, size_t len, bool set[call_nfunctions][call_nsides]) {
	bool is_known = false;
	for (unsigned i = 0; i < call_nfunctions; i++) {
		for (unsigned side = 0; side < call_nsides; side++) {
			char name[NAME_MAX_BYTES];
			fmt_snprintf(name, sizeof(name), "core.%s.%s", call_names[i], side_names[side]);
			if (name_covers(given, len, name)) {
				set[i][side] = true;
				is_known = true;
			}
		}
	}
	return is_known;
}

int
call_log_names_set(const char *names, size_t len) {
	bool set[call_nfunctions][call_nsides];
	memset(set, 0, sizeof(set));
	const char *end = names + len;
	while (names < end) {
		const char *bar = memchr(names, '|', (size_t)(end - names));
		bar = bar == NULL ? end : bar;
		if (!name_add(names, (size_t)(bar - names), set)) {
			return EINVAL;
		}
		names = bar == end ? end : bar + 1;
	}
	memcpy(wanted, set, sizeof(wanted));
	return 0;
}

/* ------------------------------------------------------------------ lines */

void
call_log(call_t call, call_side_t side, const char *format, ...) {
	if (!wanted[call][side] || is_writing) {
		return;
	}
	is_writing = true;
	char line[LINE_MAX_BYTES];
	size_t room = sizeof(line) - 1; /* for the line end */
	size_t used = (size_t)fmt_snprintf(line, room, "core.%s.%s: ", call_names[call],
	    side_names[side]);
	va_list ap;
	va_start(ap, format);
	size_t more = (size_t)fmt_vsnprintf(line + used, room - used, format, ap);
	va_end(ap);
	used = used + more < room ? used + more : room - 1;
	line[used] = '\n';
	line[used + 1] = '\0';
	malloc_write(line);
	is_writing = false;
}

#endif
