/*
 * Parser of range options, lo-hi:n|lo-hi:n: two sizes in bytes and a number for each range, in
 * decimal, octal (0...) or hexadecimal (0x...) as in C, also with blanks and a sign before (-1 is
 * SIZE_MAX). A '|' at the end is ignored. Whether lo, hi and n make sense is for set() to check.
 * Also defined here: opt_confirm_conf and opt_abort_conf (conf_range.h).
 *
 * Invariant: a number that goes on behind `stop` is refused. It is read to its end, so the caller
 * sees to it that a NUL stands at `stop` or later. Locks: none; the parser has no state, so any
 * thread may call it. Called by conf_table.c for range options, and by ctl_thread.c for
 * thread.tcache.ncached_max.write.
 */
#include "conf/conf_range.h"

#include "util/fmt.h"

EARLY_DATA bool opt_confirm_conf = false;
bool opt_abort_conf = CONFIG_DEBUG;

/*
 * Reads a number inside [*at, stop) into *out and moves *at behind it. EINVAL if there is none, it
 * does not fit 64 bits, or it goes on behind stop.
 */
static int
conf_range_number(const char **at, const char *stop, size_t *out) {
	char *end;
	int err;
	if (*at == stop) {
		return EINVAL;
	}
	*out = (size_t)fmt_parse_uint(*at, &end, 0, &err);
	if (err != 0 || end > stop) {
		return EINVAL;
	}
	*at = end;
	return 0;
}

/* Moves *at behind this character; EINVAL if it does not stand there. */
static int
conf_range_char(const char **at, const char *stop, char c) {
	if (*at == stop || **at != c) {
		return EINVAL;
	}
	(*at)++;
	return 0;
}

int
conf_parse_ranges(const char *text, size_t len, conf_range_set_t *set) {
	const char *at = text;
	const char *stop = text + len;
	do {
		size_t lo, hi, n;
		if (conf_range_number(&at, stop, &lo) != 0 || conf_range_char(&at, stop, '-') != 0
		    || conf_range_number(&at, stop, &hi) != 0 || conf_range_char(&at, stop, ':') != 0
		    || conf_range_number(&at, stop, &n) != 0) {
			return EINVAL;
		}
		if (at != stop && conf_range_char(&at, stop, '|') != 0) {
			return EINVAL;
		}
		int err = set == NULL ? 0 : set(lo, hi, n);
		if (err != 0) {
			return err;
		}
	} while (at != stop);
	return 0;
}
