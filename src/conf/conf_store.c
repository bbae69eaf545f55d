/*
 * Stores the text of an option's value in its variable, by the type of the row (conf_store.h).
 *
 * Invariant: a value that is refused changes nothing. Locks: none, because it runs during boot in
 * one thread. Called by conf.c, and by the parsers of special values in conf_table.c.
 */
#include "conf/conf_store.h"

#include "util/fmt.h"
#include "util/fxp.h"

bool
conf_is_choice(const conf_row_t *row, size_t i) {
	return row->words[i] != NULL && strchr(row->words[i], ' ') == NULL;
}

/*
 * Parses all of value as a number: octal with CONF_OCTAL, else decimal unless it begins with 0x or
 * 0, as in C. Blanks may stand before it; a minus sign negates it modulo 2^64. Returns 0; EINVAL,
 * also for a number of more than 64 bits; ERANGE if a suffix K, M or G makes it one.
 */
static int
conf_number(const conf_row_t *row, const char *value, size_t len, uint64_t *out) {
	char *end;
	int err;
	uint64_t n = fmt_parse_uint(value, &end, (row->flags & CONF_OCTAL) != 0 ? 8 : 0, &err);
	if (err != 0) {
		return EINVAL;
	}
	const char *stop = value + len;
	*out = n;
	return end == stop ? 0 : (row->flags & CONF_SUFFIX) == 0 || end + 1 != stop ? EINVAL
	    : fmt_apply_unit(out, *end);
}

/*
 * Checks *n against the row's limits: 0, after clipping it if the row's flags say so, or ERANGE.
 * Numbers of a signed row are compared by their distance from the least one, INT64_MIN.
 */
static int
conf_bound(const conf_row_t *row, uint64_t *n) {
	bool is_signed = row->type == CONF_SSIZE || row->type == CONF_I64;
	uint64_t flip = is_signed ? UINT64_C(1) << 63 : 0;
	uint64_t min = (uint64_t)row->min;
	assert(is_signed ? row->min <= (int64_t)row->max && row->max <= INT64_MAX
	    : row->min >= 0 && min <= row->max);
	if ((*n ^ flip) < (min ^ flip)) {
		if ((row->flags & CONF_CLIP_MIN) == 0) {
			return ERANGE;
		}
		*n = min;
	} else if ((*n ^ flip) > (row->max ^ flip)) {
		if ((row->flags & CONF_CLIP_MAX) == 0) {
			return ERANGE;
		}
		*n = row->max;
	}
	return 0;
}

/*
 * The 64 bits of conf_number() are taken as they are: a signed row reads 2^63 and more as negative,
 * other rows read -1 as 2^64 - 1. An unsigned variable gets at most UINT_MAX, without an error.
 */
static int
conf_store_number(const conf_row_t *row, const char *value, size_t len) {
	uint64_t n;
	int err = conf_number(row, value, len, &n);
	err = err != 0 ? err : conf_bound(row, &n);
	if (err != 0) {
		return err;
	}
	if (row->type == CONF_UNSIGNED) {
		*(unsigned *)row->addr = n > UINT_MAX ? UINT_MAX : (unsigned)n;
	} else {
		static_assert(sizeof(size_t) == 8 && sizeof(ssize_t) == 8, "numbers have 64 bits");
		memcpy(row->addr, &n, sizeof(n));
	}
	return 0;
}

static int
conf_store_bool(const conf_row_t *row, const char *value, size_t len) {
	bool is_true = len == 4 && memcmp(value, "true", 4) == 0;
	if (!is_true && !(len == 5 && memcmp(value, "false", 5) == 0)) {
		return EINVAL;
	}
	*(bool *)row->addr = is_true;
	return 0;
}

/* A ratio out of range gives EINVAL, not ERANGE, and is never clipped. */
static int
conf_store_fxp(const conf_row_t *row, const char *value, size_t len) {
	fxp_t x;
	char *end;
	if (fxp_parse(&x, value, &end) != 0 || end != value + len) {
		return EINVAL;
	}
	if (x > row->max || x < (uint64_t)row->min) {
		return EINVAL;
	}
	*(fxp_t *)row->addr = x;
	return 0;
}

/*
 * The index of the first word that is the value, or with CONF_PREFIX_WORD begins with it (so an
 * empty value gives 0); -1: none. Words that cannot be chosen stand last in a row.
 */
static int
conf_find_word(const conf_row_t *row, const char *value, size_t len) {
	bool cut_ok = (row->flags & CONF_PREFIX_WORD) != 0;
	for (int i = 0; conf_is_choice(row, (size_t)i); i++) {
		const char *word = row->words[i];
		if (strncmp(word, value, len) == 0 && (cut_ok || word[len] == '\0')) {
			return i;
		}
	}
	return -1;
}

static int
conf_store_word(const conf_row_t *row, const char *value, size_t len) {
	int i = conf_find_word(row, value, len);
	if (i < 0) {
		return EINVAL;
	}
	if (row->type == CONF_WORD) {
		*(const char **)row->addr = row->words[i];
	} else {
		*(unsigned *)row->addr = (unsigned)i;
	}
	return 0;
}

/* Adds letters to those of earlier values; unknown letters and repetitions are dropped. */
static int
conf_store_letters(const conf_row_t *row, const char *value, size_t len) {
	char *dst = row->addr;
	size_t used = strlen(dst);
	assert(used < row->max);
	for (size_t i = 0; i < len; i++) {
		char c = value[i];
		if (strchr(row->words[0], c) != NULL && strchr(dst, c) == NULL) {
			assert(used + 1 < row->max);
			dst[used++] = c;
			dst[used] = '\0';
		}
	}
	return 0;
}

static int
conf_store_text(const conf_row_t *row, const char *value, size_t len) {
	bool is_refused = (row->flags & CONF_ABSOLUTE) != 0 && len > 0 && value[0] != '/';
	if (is_refused || len >= row->max) {
		return EINVAL;
	}
	memcpy(row->room, value, len);
	row->room[len] = '\0';
	*(const char **)row->addr = row->room;
	return 0;
}

int
conf_store(const conf_row_t *row, const char *value, size_t len) {
	switch ((conf_type_t)row->type) {
	case CONF_BOOL:
		return conf_store_bool(row, value, len);
	case CONF_UNSIGNED:
	case CONF_SIZE:
	case CONF_SSIZE:
	case CONF_U64:
	case CONF_I64:
		return conf_store_number(row, value, len);
	case CONF_FXP:
		return conf_store_fxp(row, value, len);
	case CONF_WORD:
	case CONF_ENUM:
		return conf_store_word(row, value, len);
	case CONF_LETTERS:
		return conf_store_letters(row, value, len);
	case CONF_TEXT:
		return conf_store_text(row, value, len);
	case CONF_CUSTOM:
		break;
	}
	assert_not_reached();
	return EINVAL;
}
