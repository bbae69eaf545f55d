/*
 * Reads the MALLOC_CONF option strings (conf.h). A scanner cuts a string into key:value pairs and
 * finds what is malformed; conf_store(), or the parser that the row of the key names (conf_table),
 * writes each value. A first, silent scan of all sources looks only for confirm_conf. Its last
 * value says whether the second scan prints what it reads, from the first source on.
 *
 * Invariant: a bad pair stores nothing (but of a range option the items before the bad one are
 * stored), and the rest of the string still counts. conf.h says which of several values of a key
 * holds. A bad pair that is repeated in one string is an error each time, but is reported again
 * only if CONF_REPORTED_MAX others were reported since. Locks: none; options are read during boot
 * in one thread. Called by jemalloc_init.c and by tests; stats.c and ctl_opt.c read the source
 * texts, in any thread.
 */
#include "conf/conf.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "conf/conf_table.h"
#include "os/malloc_io.h"
#include "os/sys.h"
#include "prof/sites/prof_opt.h"
#include "util/fmt.h"
#include "util/fxp.h"
#include "util/hash.h"

WEAK EXPORT EARLY_DATA const char *je_malloc_conf;
WEAK EXPORT EARLY_DATA const char *je_malloc_conf_2_conf_harder;
EXPORT void (*je_malloc_message)(void *cbopaque, const char *s);

/* Most bytes of a value or of a source that one message repeats. */
#define CONF_ECHO_MAX 800
/* Most bytes of a key, or of the text around a malformed place, that one message repeats. */
#define CONF_CONTEXT_MAX 64
/* Most bytes of the text of the link, or of the environment variable, kept, with the NUL. */
#define CONF_KEPT_MAX 4096
/* How many different bad pairs of one string are remembered as reported. */
#define CONF_REPORTED_MAX 64

typedef struct {
	const char *key;
	size_t key_len;
	const char *value;
	size_t value_len;
} conf_pair_t;

typedef enum {
	SCAN_PAIR,
	SCAN_PAIR_COMMA,  /* a pair, then a comma at the end of the string */
	SCAN_MALFORMED,   /* key: what stands before the bad character, perhaps nothing; value: from it
	                     to the comma or the end */
	SCAN_BARE_KEY,    /* the string ends with a key that no colon follows */
	SCAN_END
} scan_t;

/* The texts that a message repeats leave at least 100 bytes for the words around them. */
cassert(CONF_ECHO_MAX + CONF_CONTEXT_MAX + 100 <= MALLOC_PRINTF_MAX);
cassert(CONF_CONTEXT_MAX <= CONF_ECHO_MAX);

static struct {
	unsigned nerrors;         /* errors that abort_conf counts, of all strings so far */
	bool silent;              /* first scan: only confirm_conf is stored, no messages */
	bool has_equals_note;     /* the note about key=value was printed; once in the process */
	unsigned nreported;       /* how often a bad pair of the present string was reported */
	/* hashes of the last of them; the oldest is overwritten */
	uint64_t reported[CONF_REPORTED_MAX];
	size_t link_len;          /* bytes of the text in conf_link; 0: no link */
	const char *env;          /* value of MALLOC_CONF: in environ during boot, then conf_env */
} conf;
/* The text of the link /etc/malloc.conf, as read at boot. */
static LARGE_BSS char conf_link[CONF_KEPT_MAX];
/* The copy of the value of MALLOC_CONF, since a program may overwrite its environment in place. */
static LARGE_BSS char conf_env[CONF_KEPT_MAX];

/* ------------------------------------------------------------------ messages */

/* How many bytes of a text of this length a message repeats. */
static int
conf_echo_len(size_t len) {
	return (int)min_zu(len, CONF_ECHO_MAX);
}

static void
conf_complain(const char *what, const conf_pair_t *p) {
	int klen = (int)min_zu(p->key_len, CONF_CONTEXT_MAX);
	int vlen = conf_echo_len(p->value_len);
	malloc_printf("<jemalloc>: %s: %.*s:%.*s\n", what, klen, p->key, vlen, p->value);
}

/*
 * Notes that the text of a pair is reported; false if the same text (by its hash) is among the last
 * CONF_REPORTED_MAX that were reported of this string.
 */
static bool
conf_try_note_reported(const conf_pair_t *p) {
	assert(p->value >= p->key + p->key_len);
	uint64_t hash = hash64(p->key, (size_t)(p->value - p->key) + p->value_len, 0);
	unsigned n = conf.nreported < CONF_REPORTED_MAX ? conf.nreported : CONF_REPORTED_MAX;
	for (unsigned i = 0; i < n; i++) {
		if (conf.reported[i] == hash) {
			return false;
		}
	}
	conf.reported[conf.nreported++ % CONF_REPORTED_MAX] = hash;
	return true;
}

static void
conf_hint_key(const conf_pair_t *p) {
	const conf_row_t *row = conf_row_find(p->key, p->key_len);
	if (row != NULL && !conf_row_is_built(row)) {
		malloc_printf("<jemalloc>: Hint: \"%s\" %s.\n", row->key, conf_row_absence(row));
		return;
	}
	const char *near = conf_row_nearest(p->key, p->key_len);
	if (near != NULL) {
		malloc_printf("<jemalloc>: Hint: the nearest known option is \"%s\".\n", near);
	} else {
		malloc_write("<jemalloc>: Hint: no known option has a name like this.\n");
	}
}

/* Prints what the user most likely meant by a text that is no pair. */
static void
conf_hint_malformed(const conf_pair_t *p) {
	const conf_row_t *row = conf_row_find(p->key, p->key_len);
	const char *near = p->key_len == 0 ? NULL
	    : row != NULL ? row->key : conf_row_nearest(p->key, p->key_len);
	if (near != NULL) {
		malloc_printf("<jemalloc>: Hint: a pair is key:value with a colon; "
		    "the nearest known option is \"%s\".\n", near);
	} else {
		malloc_write("<jemalloc>: Hint: a pair is key:value with a colon, "
		    "pairs are joined by single commas.\n");
	}
}

/* Prints `what` and the text [from, to), cut to CONF_CONTEXT_MAX bytes. */
static void
conf_complain_format(const char *what, const char *from, const char *to) {
	assert(from <= to);
	size_t len = min_zu((size_t)(to - from), CONF_CONTEXT_MAX);
	malloc_printf("<jemalloc>: %s -- %.*s\n", what, (int)len, from);
}

/* Writes the words that can be chosen to buf, with commas, as many as fit, and returns buf. */
static const char *
conf_words_hint(const conf_row_t *row, char *buf, size_t size) {
	size_t used = 0;
	buf[0] = '\0';
	for (size_t i = 0; conf_is_choice(row, i) && used + 24 < size; i++) {
		if (conf_row_offers(row, i)) {
			used += (size_t)fmt_snprintf(buf + used, size - used, "%s%s",
			    used == 0 ? "" : ", ", row->words[i]);
		}
	}
	return buf;
}

static void
conf_hint_number(const conf_row_t *row) {
	malloc_printf("<jemalloc>: Hint: %s takes a number, %lld to %llu%s.\n", row->key,
	    (long long)row->min, (unsigned long long)row->max,
	    (row->flags & CONF_SUFFIX) != 0 ? ", with K, M or G" : "");
}

static void
conf_hint_text(const conf_row_t *row) {
	size_t most = (size_t)row->max - 1;
	if ((row->flags & CONF_FILE_PREFIX) != 0) {
		malloc_printf("<jemalloc>: Hint: %s takes at most %zu bytes, %u behind the last slash.\n",
		    row->key, most, (unsigned)PROF_PREFIX_BASE_MAX);
	} else {
		malloc_printf("<jemalloc>: Hint: %s takes %sat most %zu bytes.\n", row->key,
		    (row->flags & CONF_ABSOLUTE) != 0 ? "an absolute path of " : "", most);
	}
}

static void
conf_hint_value(const conf_row_t *row) {
	char buf[160];
	switch ((conf_type_t)row->type) {
	case CONF_BOOL:
		malloc_printf("<jemalloc>: Hint: %s takes true or false.\n", row->key);
		return;
	case CONF_WORD:
	case CONF_ENUM:
		malloc_printf("<jemalloc>: Hint: %s takes one of %s.\n", row->key,
		    conf_words_hint(row, buf, sizeof(buf)));
		return;
	case CONF_TEXT:
		conf_hint_text(row);
		return;
	case CONF_SSIZE:
	case CONF_I64:
	case CONF_UNSIGNED:
	case CONF_SIZE:
	case CONF_U64:
		if ((row->flags & CONF_OCTAL) != 0) {
			break;
		}
		conf_hint_number(row);
		return;
	case CONF_FXP:
		malloc_printf("<jemalloc>: Hint: %s takes a decimal number, 0 to %llu.\n", row->key,
		    (unsigned long long)(row->max / FXP_INIT_INT(1)));
		return;
	case CONF_LETTERS:
	case CONF_CUSTOM:
		break;
	}
	malloc_printf("<jemalloc>: Hint: %s: %s.\n", row->key, row->help);
}

static void
conf_abort_on_errors(void) {
	if (conf.nerrors > 0 && opt_abort_conf) {
		malloc_write("<jemalloc>: Abort (abort_conf:true) on invalid conf value (see above).\n");
		abort();
	}
}

/* ------------------------------------------------------------------ scanner */

static bool
is_key_char(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Whether '=' follows a known key: such a pair is read as if it had a colon. */
static bool
is_equals_pair(const conf_pair_t *p) {
	return p->key[p->key_len] == '=' && conf_row_find(p->key, p->key_len) != NULL;
}

static void
conf_note_equals(const conf_pair_t *p) {
	if (conf.silent || conf.has_equals_note || p->key[p->key_len] != '=') {
		return;
	}
	conf.has_equals_note = true;
	malloc_printf("<jemalloc>: Note: \"%.*s=\" is read as \"%.*s:\"; a pair is key:value with a "
	    "colon.\n", (int)p->key_len, p->key, (int)p->key_len, p->key);
}

/*
 * Reads the next pair at *at into *p and moves *at behind it and its comma. After SCAN_MALFORMED
 * that is behind the next comma, too.
 */
static scan_t
conf_scan(const char **at, conf_pair_t *p) {
	const char *s = *at;
	p->key = s;
	if (*s == '\0') {
		return SCAN_END;
	}
	while (is_key_char(*s)) {
		s++;
	}
	p->key_len = (size_t)(s - p->key);
	p->value = s;
	p->value_len = 0;
	if (*s == '\0') {
		*at = s;
		assert(p->key_len > 0);
		return SCAN_BARE_KEY;
	}
	bool has_colon = *s == ':' || is_equals_pair(p);
	if (has_colon) {
		p->value = ++s;
	}
	while (*s != '\0' && *s != ',') {
		s++;
	}
	p->value_len = (size_t)(s - p->value);
	bool has_comma = *s == ',';
	assert(has_comma || *s == '\0');
	*at = has_comma ? s + 1 : s;
	if (!has_colon) {
		return SCAN_MALFORMED;
	}
	return has_comma && **at == '\0' ? SCAN_PAIR_COMMA : SCAN_PAIR;
}

/* ------------------------------------------------------------------ pairs and strings */

/* The message for a value that was refused with err, EINVAL or ERANGE; buf: room for it. */
static const char *
conf_error_text(const conf_row_t *row, int err, char *buf, size_t size) {
	if ((row->flags & CONF_RANGES) != 0) {
		fmt_snprintf(buf, size, "Invalid settings for %s", row->key);
		return buf;
	}
	bool is_out = err == ERANGE && (row->flags & CONF_STRICT) == 0;
	return is_out ? "Out-of-range conf value" : "Invalid conf value";
}

/* Counts an error, except for options that are retired or whose key begins with experimental_. */
static void
conf_count_error(const conf_pair_t *p, const conf_row_t *row) {
	static const char tolerated[] = "experimental_";
	size_t n = sizeof(tolerated) - 1;
	if (p->key_len >= n && memcmp(p->key, tolerated, n) == 0) {
		return;
	}
	if (row == NULL || row->feature != CONF_RETIRED) {
		conf.nerrors++;
	}
}

/* Stores one pair, or prints a complaint with a hint and counts the error. */
static void
conf_apply(const conf_pair_t *p) {
	const conf_row_t *row = conf_row_find(p->key, p->key_len);
	if (conf.silent) {
		if (row != NULL && row->addr == &opt_confirm_conf) {
			conf_store(row, p->value, p->value_len);
		}
		return;
	}
	if (row == NULL || !conf_row_is_built(row)) {
		if (conf_try_note_reported(p)) {
			conf_complain("Invalid conf pair", p);
			conf_hint_key(p);
		}
		conf_count_error(p, row);
		return;
	}
	conf_parse_fn_t *parse = row->parse != NULL ? row->parse : conf_store;
	bool is_confirming = opt_confirm_conf;
	int err = parse(row, p->value, p->value_len);
	opt_confirm_conf = is_confirming; /* the silent scan has decided it */
	if (err != 0) {
		char buf[64];
		if (conf_try_note_reported(p)) {
			conf_complain(conf_error_text(row, err, buf, sizeof(buf)), p);
			conf_hint_value(row);
		}
		conf_count_error(p, row);
		return;
	}
	opt_prof_more |= (row->flags & CONF_PROF_MORE) != 0;
	if (is_confirming) {
		conf_complain("-- Set conf value", p);
	}
}

/* Counts the error `found` at p, which ends at `at`; prints a complaint, mostly with a hint. */
static void
conf_report_format(scan_t found, const conf_pair_t *p, const char *at) {
	if (conf.silent) {
		return;
	}
	conf.nerrors++;
	if (found != SCAN_PAIR_COMMA && !conf_try_note_reported(p)) {
		return;
	}
	if (found == SCAN_PAIR_COMMA) {
		conf_complain_format("Conf string ends with comma", p->key, at);
	} else if (found == SCAN_BARE_KEY) {
		conf_complain_format("Conf string ends with key", p->key, at);
		conf_hint_malformed(p);
	} else {
		conf_complain_format("Malformed conf string", p->key, p->value + 1);
		conf_hint_malformed(p);
	}
}

unsigned
conf_parse(const char *text) {
	unsigned before = conf.nerrors;
	conf.nreported = 0;
	const char *at = text;
	conf_pair_t pair;
	scan_t found;
	while ((found = conf_scan(&at, &pair)) != SCAN_END) {
		if (found == SCAN_PAIR || found == SCAN_PAIR_COMMA) {
			conf_note_equals(&pair);
			conf_apply(&pair);
		}
		if (found != SCAN_PAIR) {
			conf_report_format(found, &pair, at);
		}
	}
	return conf.nerrors - before;
}

/* ------------------------------------------------------------------ sources */

static const char *const conf_source_what[CONF_NSOURCES] = {
	[CONF_SOURCE_BUILD] = "string specified via --with-malloc-conf",
	[CONF_SOURCE_GLOBAL] = "string pointed to by the global variable malloc_conf",
	[CONF_SOURCE_SYMLINK] =
	    "\"name\" of the file referenced by the symbolic link named /etc/malloc.conf",
	[CONF_SOURCE_ENV] = "value of the environment variable MALLOC_CONF",
	[CONF_SOURCE_HARDER] = "string pointed to by the global variable malloc_conf_2_conf_harder",
};

/* Whether the link may be read: in a set-user-ID program only if it belongs to root. */
static bool
conf_link_is_trusted(void) {
	struct stat st;
	return !sys_is_secure()
	    || (ERROR_OF(lstat(JEMALLOC_CONFIG_FILE, &st)) == 0 && st.st_uid == 0);
}

static void
conf_read_link(void) {
	if (config_user_config && conf_link_is_trusted()) {
		ssize_t n = sys_readlink(JEMALLOC_CONFIG_FILE, conf_link, sizeof(conf_link));
		conf.link_len = n < 0 ? 0 : (size_t)n;
		assert(conf.link_len < sizeof(conf_link) && conf_link[conf.link_len] == '\0');
	}
}

const char *
conf_source_text(conf_source_t source) {
	switch (source) {
	case CONF_SOURCE_BUILD:
		return CONFIG_MALLOC_CONF;
	case CONF_SOURCE_GLOBAL:
		return je_malloc_conf;
	case CONF_SOURCE_SYMLINK:
		return conf.link_len == 0 ? NULL : conf_link;
	case CONF_SOURCE_ENV:
		return conf.env;
	case CONF_SOURCE_HARDER:
		return je_malloc_conf_2_conf_harder;
	case CONF_NSOURCES:
		break;
	}
	assert_not_reached();
	return NULL;
}

static void
conf_parse_source(conf_source_t source) {
	const char *text = conf_source_text(source);
	if (opt_confirm_conf && !conf.silent) {
		const char *shown = text != NULL ? text : "";
		malloc_printf("<jemalloc>: malloc_conf #%u (%s): \"%.*s\"\n", (unsigned)source + 1,
		    conf_source_what[source], conf_echo_len(strlen(shown)), shown);
	}
	if (text != NULL) {
		conf_parse(text);
	}
	conf_abort_on_errors(); /* a silent scan counts none */
}

void
conf_boot(void) {
	conf_read_link();
	conf.env = config_user_config ? sys_env(JEMALLOC_CONFIG_ENV) : NULL;
	conf.silent = true;
	for (unsigned i = 0; i < CONF_NSOURCES; i++) {
		conf_parse_source((conf_source_t)i);
	}
	conf.silent = false;
	for (unsigned i = 0; i < CONF_NSOURCES; i++) {
		conf_parse_source((conf_source_t)i);
	}
	if (conf.env != NULL) {
		size_t len = min_zu(strlen(conf.env), sizeof(conf_env) - 1);
		memcpy(conf_env, conf.env, len);
		conf_env[len] = '\0';
		conf.env = conf_env;
	}
}
