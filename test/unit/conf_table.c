/* conf_table.h: every row keeps to what its type promises; bounds by data; look-ups. */
#include "test.h"

#include <ctype.h>

#include "conf/conf.h"
#include "conf/conf_table.h"
#include "hpa/hpa_opt.h"
#include "hpa/hslab.h"
#include "imalloc.h"
#include "meta/base.h"
#include "os/malloc_io.h"
#include "prof/file/prof_keep.h"
#include "prof/sites/prof_opt.h"
#include "thread/tcache_limits.h"

static size_t
value_size(const conf_row_t *row) {
	switch ((conf_type_t)row->type) {
	case CONF_BOOL:
		return sizeof(bool);
	case CONF_UNSIGNED:
	case CONF_FXP:
	case CONF_ENUM:
		return 4;
	case CONF_LETTERS:
		return row->max;
	case CONF_CUSTOM:
		return 0;
	default:
		return 8;
	}
}

static bool
is_number(const conf_row_t *row) {
	return row->type == CONF_UNSIGNED || row->type == CONF_SIZE || row->type == CONF_SSIZE
	    || row->type == CONF_U64 || row->type == CONF_I64;
}

static bool
is_signed(const conf_row_t *row) {
	return row->type == CONF_SSIZE || row->type == CONF_I64;
}

static void
check_row(const conf_row_t *row) {
	bool good = row->key != NULL && row->key[0] != '\0' && strlen(row->key) <= 48;
	bool is_shown = (row->flags & CONF_SHOWN) != 0;

	good = good && row->key[strspn(row->key, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
	good = good && row->type <= CONF_CUSTOM && row->feature < CONF_NFEATURES;
	if (row->feature == CONF_RETIRED) {
		good = good && row->addr == NULL && row->parse == NULL && !is_shown;
		ok(good && !conf_row_is_built(row) && conf_row_absence(row) != NULL, "%s: absent",
		    row->key);
		return;
	}
	good = good && row->help != NULL && row->help[0] != '\0';
	good = good && ((row->flags & CONF_RANGES) == 0 || row->type == CONF_CUSTOM);
	good = good && (row->flags & (CONF_STABLE | CONF_EXPERIMENTAL))
	    != (CONF_STABLE | CONF_EXPERIMENTAL);
	good = good && (row->live == NULL || (row->flags & CONF_NODE) != 0);
	if (row->type == CONF_BOOL || row->type == CONF_CUSTOM)
		good = good && (row->set != NULL) == ((row->flags & CONF_RANGES) != 0);
	if (row->type == CONF_TEXT)
		good = good && row->max > 1 && row->room != NULL && *(const char **)row->addr != NULL;
	if (row->type == CONF_LETTERS)
		good = good && row->words[1] == NULL && row->max == strlen(row->words[0]) + 1;
	if (row->type == CONF_WORD || row->type == CONF_ENUM)
		good = good && row->words[0] != NULL && row->words[1] != NULL;
	if (is_number(row) || row->type == CONF_FXP)
		good = good && row->max > 0 && row->words == NULL;
	good = good && (row->type == CONF_CUSTOM ? row->parse != NULL : row->addr != NULL);
	good = good && (row->type != CONF_CUSTOM || (row->flags & CONF_SHOWN) == 0);
	if (row->type == CONF_WORD || row->type == CONF_ENUM || row->type == CONF_LETTERS)
		good = good && row->words != NULL && row->words[0] != NULL;
	if (is_signed(row))
		good = good && row->max <= INT64_MAX && row->min <= (int64_t)row->max;
	else if (is_number(row))
		good = good && row->min >= 0 && (uint64_t)row->min <= row->max;
	ok(good && (row->flags & (CONF_NODE | CONF_PRINT)) != CONF_PRINT, "%s: sound", row->key);
}

static uint64_t
read_value(const conf_row_t *row) {
	uint64_t v = 0;

	if (row->type == CONF_UNSIGNED)
		return *(unsigned *)row->addr;
	memcpy(&v, row->addr, sizeof(v));
	return v;
}

static int
store_number(const conf_row_t *row, uint64_t n) {
	char text[32];

	snprintf(text, sizeof(text), (row->flags & CONF_OCTAL) != 0 ? "%lo"
	    : is_signed(row) ? "%ld" : "%lu", n);
	return conf_store(row, text, strlen(text));
}

static void
check_bounds(const conf_row_t *row) {
	unsigned char old[8];
	bool good;

	memcpy(old, row->addr, value_size(row));
	good = store_number(row, (uint64_t)row->min) == 0 && read_value(row) == (uint64_t)row->min;
	if (row->max <= UINT_MAX || row->type != CONF_UNSIGNED)
		good = good && store_number(row, row->max) == 0 && read_value(row) == row->max;
	ok(good, "%s: its bounds are in", row->key);
	if (row->min > 0 || is_signed(row)) {
		bool clips = (row->flags & CONF_CLIP_MIN) != 0;

		store_number(row, row->max);
		good = store_number(row, (uint64_t)row->min - 1) == (clips ? 0 : ERANGE);
		ok(good && (!clips || read_value(row) == (uint64_t)row->min), "%s: below", row->key);
	}
	if (row->max < INT64_MAX) {
		bool clips = (row->flags & CONF_CLIP_MAX) != 0;

		store_number(row, (uint64_t)row->min);
		good = store_number(row, row->max + 1) == (clips ? 0 : ERANGE);
		ok(good && (!clips || read_value(row) == row->max), "%s: above", row->key);
	}
	memcpy(row->addr, old, value_size(row));
}

static void
check_bool(const conf_row_t *row) {
	bool old = *(bool *)row->addr;
	bool good = conf_store(row, "true", 4) == 0 && *(bool *)row->addr;

	good = good && conf_store(row, "false", 5) == 0 && !*(bool *)row->addr;
	good = good && conf_store(row, "tru", 3) == EINVAL && conf_store(row, "1", 1) == EINVAL
	    && conf_store(row, "truee", 5) == EINVAL && conf_store(row, "", 0) == EINVAL;
	ok(good && !*(bool *)row->addr, "%s: true and false only", row->key);
	*(bool *)row->addr = old;
}

/* What options tell beside their value: that they were given, what the value means. */
#define GIVEN_LIST(X) \
	X(GIVEN_MORE, opt_prof_more) X(GIVEN_PREFIX, opt_prof_prefix_given) \
	X(GIVEN_METADATA, opt_metadata_thp_given) X(GIVEN_LIMIT, opt_tcache_limits_given) \
	X(GIVEN_LARGE, opt_tcache_large_given) X(GIVEN_JUNK_ALLOC, opt_junk_alloc) \
	X(GIVEN_JUNK_FREE, opt_junk_free) X(GIVEN_ALL_OFFSET, opt_cache_oblivious_all)
#define GIVEN_DUMP(i) ((uint64_t)1 << (16 + (i)))
#define GIVEN_BIT(name, var) name##_BIT,
enum { GIVEN_LIST(GIVEN_BIT) GIVEN_BITS };
#define GIVEN_FLAG(name, var) name = 1 << name##_BIT,
enum { GIVEN_LIST(GIVEN_FLAG) GIVEN_NONE = 0 };

static uint64_t
given_flags(void) {
#define GIVEN_READ(name, var) | ((var) ? (uint64_t)name : 0)
	uint64_t flags = 0 GIVEN_LIST(GIVEN_READ);

	for (unsigned i = 0; i < prof_keep_n; i++)
		flags |= opt_prof_dump_given[i] ? GIVEN_DUMP(i) : 0;
	return flags;
}

static void
forget_given(void) {
#define GIVEN_FORGET(name, var) (var) = false;
	GIVEN_LIST(GIVEN_FORGET)
	memset(opt_prof_dump_given, 0, sizeof(opt_prof_dump_given));
}

/* Each that tells it does so by its own flags only, with the value that it has by default too. */
static void
test_given(void) {
	static const struct {
		const char *key, *value;
		uint64_t flags;
	} rows[] = {{"tcache_max", "65536", GIVEN_LIMIT | GIVEN_LARGE},
	    {"lg_tcache_max", "16", GIVEN_LIMIT | GIVEN_LARGE},
	    {"tcache_nslots_large", "20", GIVEN_LIMIT | GIVEN_LARGE},
	    {"tcache_nslots_small_min", "20", GIVEN_LIMIT},
	    {"tcache_nslots_small_max", "200", GIVEN_LIMIT}, {"lg_tcache_nslots_mul", "1", GIVEN_LIMIT},
	    {"metadata_thp", "disabled", GIVEN_METADATA},
	    {"prof_prefix", "p", GIVEN_PREFIX},
	    {"prof_dump_min_gap_ms", "1000", GIVEN_MORE | GIVEN_DUMP(prof_keep_min_gap_ms)},
	    {"prof_dump_max_files", "10", GIVEN_MORE | GIVEN_DUMP(prof_keep_max_files)},
	    {"prof_dump_max_bytes", "1000", GIVEN_MORE | GIVEN_DUMP(prof_keep_max_bytes)},
	    {"junk", "true", GIVEN_JUNK_ALLOC | GIVEN_JUNK_FREE}, {"junk", "alloc", GIVEN_JUNK_ALLOC},
	    {"junk", "free", GIVEN_JUNK_FREE}, {"junk", "false", 0},
	    {"cache_oblivious", "true", GIVEN_ALL_OFFSET}, {"cache_oblivious", "false", 0},
	    {"tcache", "true", 0}};
	char text[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(text, sizeof(text), "%s:%s", rows[i].key, rows[i].value);
		forget_given();
		conf_parse(text);
		if (conf_row_is_built(conf_row_find(rows[i].key, strlen(rows[i].key))))
			is_uint(given_flags(), rows[i].flags, "%s: what is noted beside the value", text);
		else
			skip(1, "not in this build");
	}
}

/* A refused value leaves no trace: an option is not "given" by it either. */
static void
check_refusal(const conf_row_t *row) {
	char bad[5000];
	uint64_t before = given_flags();
	unsigned char old[8];
	size_t size = row->addr != NULL && value_size(row) <= sizeof(old) ? value_size(row) : 0;

	memcpy(old, row->addr != NULL ? row->addr : old, size);
	memset(bad, '!', sizeof(bad));
	if (row->parse(row, bad, sizeof(bad)) == 0)
		return;
	ok(given_flags() == before && (size == 0 || memcmp(old, row->addr, size) == 0),
	    "%s: a refused value changes nothing", row->key);
}

static void
test_lookups(void) {
	for (size_t i = 0; i < conf_nrows; i++) {
		const conf_row_t *row = &conf_rows[i];
		char cut[64];

		ok(conf_row_find(row->key, strlen(row->key)) == row, "%s: found, no key twice", row->key);
		if (!conf_row_is_built(row))
			continue;
		snprintf(cut, sizeof(cut), "%.*sX%s", 1, row->key, row->key + 1);
		is_str(conf_row_nearest(cut, strlen(cut)), row->key, "\"%s\": nearest", cut);
	}
	ok(conf_row_find("metadata", 8) != NULL && conf_row_find("", 0) == NULL,
	    "cut keys, but not cut to nothing");
	ok(conf_row_find("narena", 6) == NULL && conf_row_find("narenasx", 8) == NULL, "others not");
	ok(conf_row_nearest("qqqqqqqqqq", 10) == NULL, "nothing near");
	ok(conf_row_nearest("", 0) == NULL, "nothing near nothing");
}

#define KEY_MAX 48 /* bytes; longer ones have no nearest row */

/* Fewest letters to insert, delete or replace until a, in lower case, is b. */
static unsigned
model_edits(const char *a, const char *b) {
	static unsigned least[80][80]; /* for the first i letters of a and the first j of b */
	size_t alen = strlen(a), blen = strlen(b);

	for (size_t i = 0; i <= alen; i++) {
		for (size_t j = 0; j <= blen; j++) {
			unsigned n = i == 0 ? (unsigned)j : j == 0 ? (unsigned)i : UINT_MAX;

			if (i > 0 && j > 0) {
				unsigned is_other = tolower((unsigned char)a[i - 1]) != b[j - 1];

				n = least[i - 1][j - 1] + is_other;
				n = least[i - 1][j] + 1 < n ? least[i - 1][j] + 1 : n;
				n = least[i][j - 1] + 1 < n ? least[i][j - 1] + 1 : n;
			}
			least[i][j] = n;
		}
	}
	return least[alen][blen];
}

/* The first of the rows with the fewest edits, if these are few for the length of the key. */
static const char *
model_nearest(const char *key) {
	size_t len = strlen(key);
	unsigned fewest = (unsigned)len / 3 + 2;
	const char *nearest = NULL;

	for (size_t i = 0; i < conf_nrows && len > 0 && len <= KEY_MAX; i++) {
		unsigned n = conf_row_is_built(&conf_rows[i]) ? model_edits(key, conf_rows[i].key) : fewest;

		if (n < fewest) {
			fewest = n;
			nearest = conf_rows[i].key;
		}
	}
	return nearest;
}

/* Overwrites the stack below, where a function that follows may read what it has not written. */
static __attribute__((noinline)) void
dirty_stack(void) {
	volatile char below[4096];

	for (size_t i = 0; i < sizeof(below); i++)
		below[i] = (char)i;
}

/* Keys with some letters too many, too few, others, or large. */
static void
test_nearest(void) {
	uint64_t rnd = 17;
	unsigned bad = 0, nfound = 0;

	for (unsigned k = 0; k < 500; k++) {
		char key[80];
		size_t len;

		snprintf(key, sizeof(key), "%s", conf_rows[draw_below(&rnd, conf_nrows)].key);
		len = strlen(key);
		for (uint64_t n = draw_below(&rnd, 2 + len); n > 0; n--) {
			size_t at = draw_below(&rnd, len + 1);
			char letter = (char)('a' + draw_below(&rnd, 26));

			switch (draw_below(&rnd, 4)) {
			case 0:
				if (len > KEY_MAX)
					break;
				memmove(key + at + 1, key + at, len + 1 - at);
				key[at] = letter;
				len++;
				break;
			case 1:
				if (at == len)
					break;
				memmove(key + at, key + at + 1, len - at);
				len--;
				break;
			case 2:
				key[at] = at < len ? letter : '\0';
				break;
			default:
				key[at] = (char)toupper((unsigned char)key[at]);
			}
		}
		const char *want = model_nearest(key);

		dirty_stack();
		const char *nearest = conf_row_nearest(key, len);

		if (wrong_if(nearest != want)) {
			diag("\"%s\": %s, not %s", key, nearest ? nearest : "none", want ? want : "none");
			bad++;
		}
		nfound += nearest != NULL;
	}
	is_uint(bad, 0, "500 keys, each more or less near: the row of the fewest edits");
	ok(nfound > 50 && nfound < 450, "if there is one: %u", nfound);
	const char *longest = "";

	for (size_t i = 0; i < conf_nrows; i++) {
		if (strlen(conf_rows[i].key) > strlen(longest) && conf_row_is_built(&conf_rows[i]))
			longest = conf_rows[i].key;
	}
	for (size_t len = KEY_MAX - 1; len < KEY_MAX + 2; len++) {
		char key[KEY_MAX + 2];

		snprintf(key, sizeof(key), "%s%.*s", longest, (int)(len - strlen(longest)),
		    "------------------------------------------------");
		const char *nearest = conf_row_nearest(key, len);

		ok(nearest == model_nearest(key), "a key of %zu bytes: %s", len,
		    nearest ? nearest : "none");
	}
}

/* Sizes of what lies in a slab are of the slab, whatever huge page configure was told. */
static void
test_slab_sizes(void) {
	static const char *const keys[] = {"hpa_slab_max_alloc", "hpa_hugification_threshold",
	    "hpa_purge_threshold"};
	size_t threshold = opt_hpa_hugification_threshold, purged = opt_hpa_purge_threshold;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		is_uint(conf_row_find(keys[i], strlen(keys[i]))->max, HSLAB_SIZE, "%s: a slab", keys[i]);
	is_uint(threshold / (HSLAB_SIZE / 100), 95, "huge at 95 in 100");
	conf_parse("hpa_hugification_threshold_ratio:0.5,hpa_purge_threshold_ratio:0.25");
	is_uint(opt_hpa_hugification_threshold, HSLAB_SIZE / 2, "the half of a slab");
	is_uint(opt_hpa_purge_threshold, HSLAB_SIZE / 4, "a quarter of it");
	opt_hpa_hugification_threshold = threshold;
	opt_hpa_purge_threshold = purged;
}

static void
hush(void *opaque, const char *s) {
	(void)opaque;
	(void)s;
}

int
main(void) {
	free(malloc(1));
	malloc_io_message = hush;
	for (size_t i = 0; i < conf_nrows; i++) {
		const conf_row_t *row = &conf_rows[i];

		check_row(row);
		if (row->addr != NULL && is_number(row))
			check_bounds(row);
		if (row->addr != NULL && row->type == CONF_BOOL)
			check_bool(row);
		if (row->parse != NULL && conf_row_is_built(row))
			check_refusal(row);
	}
	test_lookups();
	test_nearest();
	test_slab_sizes();
	test_given();
	return done_testing();
}
