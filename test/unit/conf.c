/* conf.h: messages line by line, what is stored, ranges, any bytes. */
#include "test.h"

#include "arena/arenas.h"
#include "arena/bin_info.h"
#include "conf/conf.h"
#include "conf/conf_table.h"
#include "extent/pac.h"
#include "imalloc.h"
#include "os/malloc_io.h"
#include "prof/prof.h"
#include "stats.h"
#include "thread/tcache.h"

static char said[65536];
static size_t said_len;

static void
listen(void *opaque, const char *s) {
	size_t n = strlen(s);

	(void)opaque;
	if (n > sizeof(said) - 1 - said_len)
		n = sizeof(said) - 1 - said_len;
	memcpy(said + said_len, s, n);
	said_len += n;
	said[said_len] = '\0';
}

static unsigned
parse(const char *text) {
	said_len = 0;
	said[0] = '\0';
	return conf_parse(text);
}

/* The lines that are not hints or notes. */
static const char *
messages(void) {
	static char kept[sizeof(said)];
	size_t len = 0;

	for (const char *line = said; *line != '\0';) {
		size_t n = strcspn(line, "\n") + 1;

		if (strncmp(line, "<jemalloc>: Hint: ", 18) != 0
		    && strncmp(line, "<jemalloc>: Note: ", 18) != 0) {
			memcpy(kept + len, line, n);
			len += n;
		}
		line += n;
	}
	kept[len] = '\0';
	return kept;
}

static const struct {
	const char *text;
	unsigned nerrors;
	const char *messages;
} cases[] = {
	{"", 0, ""},
	{"abort:false", 0, ""},
	{"narenas:4,stats_print:false", 0, ""},
	{"x:1", 1, "<jemalloc>: Invalid conf pair: x:1\n"},
	{ "x:1,x:1,y:1,x:1,abort:no,abort:no", 6, "<jemalloc>: Invalid conf pair: x:1\n"
	    "<jemalloc>: Invalid conf pair: y:1\n<jemalloc>: Invalid conf value: abort:no\n" },
	{ "x=1,x:=1,x=1,:1", 4, "<jemalloc>: Malformed conf string -- x=\n"
	    "<jemalloc>: Invalid conf pair: x:=1\n<jemalloc>: Invalid conf pair: :1\n" },
	{"x:1:2", 1, "<jemalloc>: Invalid conf pair: x:1:2\n"},
	{"abort:yes", 1, "<jemalloc>: Invalid conf value: abort:yes\n"},
	{"abort:", 1, "<jemalloc>: Invalid conf value: abort:\n"},
	{"abort:true ", 1, "<jemalloc>: Invalid conf value: abort:true \n"},
	{"abort:TRUE", 1, "<jemalloc>: Invalid conf value: abort:TRUE\n"},
	{"narenas:0", 1, "<jemalloc>: Out-of-range conf value: narenas:0\n"},
	{"narenas:0x10,narenas:010, ", 1, "<jemalloc>: Malformed conf string --  \n"},
	{"dirty_decay_ms:-2", 1, "<jemalloc>: Out-of-range conf value: dirty_decay_ms:-2\n"},
	{ "dirty_decay_ms:18446744072001", 1,
	    "<jemalloc>: Out-of-range conf value: dirty_decay_ms:18446744072001\n" },
	{ "dirty_decay_ms:99999999999999999999", 1,
	    "<jemalloc>: Invalid conf value: dirty_decay_ms:99999999999999999999\n" },
	{"narenas_ratio:2.5x", 1, "<jemalloc>: Invalid conf value: narenas_ratio:2.5x\n"},
	{"bin_shards:1-2", 1, "<jemalloc>: Invalid settings for bin_shards: bin_shards:1-2\n"},
	{"abort", 1, "<jemalloc>: Conf string ends with key -- abort\n"},
	{"retain:true,abort", 1, "<jemalloc>: Conf string ends with key -- abort\n"},
	{"abort:false,", 1, "<jemalloc>: Conf string ends with comma -- abort:false,\n"},
	{",", 1, "<jemalloc>: Malformed conf string -- ,\n"},
	{"retain=true,narenas=4,x:1", 1, "<jemalloc>: Invalid conf pair: x:1\n"},
	{"abort=yes", 1, "<jemalloc>: Invalid conf value: abort:yes\n"},
	{ "=4,narenas =4,nosuch=1", 3, "<jemalloc>: Malformed conf string -- =\n"
	    "<jemalloc>: Malformed conf string -- narenas \n"
	    "<jemalloc>: Malformed conf string -- nosuch=\n" },
	{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", 1,
	    "<jemalloc>: Malformed conf string -- "
	    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n" },
	{"experimental_x:1", 0, "<jemalloc>: Invalid conf pair: experimental_x:1\n"},
	{ "hpa_sec_bytes_after_flush:1", 0,
	    "<jemalloc>: Invalid conf pair: hpa_sec_bytes_after_flush:1\n" },
	{"prof_sample_interval:0", 1, "<jemalloc>: Invalid conf value: prof_sample_interval:0\n"},
	{"prof_sample_interval:1T", 1, "<jemalloc>: Invalid conf value: prof_sample_interval:1T\n"},
	{ "prof_sample_interval:99999999999G", 1,
	    "<jemalloc>: Invalid conf value: prof_sample_interval:99999999999G\n" },
	{"tcache_max:1K", 1, "<jemalloc>: Invalid conf value: tcache_max:1K\n"},
	{"thp:not supported", 1, "<jemalloc>: Invalid conf value: thp:not supported\n"},
};

/* A known key with '=' is a pair, and one note of the process says so. */
static void
test_equals(void) {
	is_uint(parse("narenas=7,retain=false"), 0, "pairs with = are no errors");
	is_uint(opt_narenas, 7, "the value is stored");
	ok(!opt_retain, "the second one too");
	is_str(said, "<jemalloc>: Note: \"narenas=\" is read as \"narenas:\"; "
	    "a pair is key:value with a colon.\n", "the note, once for both");
	is_uint(parse("narenas=3,retain=true"), 0, "again");
	is_str(said, "", "the note is not repeated");
	is_uint(opt_narenas, 3, "the value is stored again");
}

static void
test_messages(void) {
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned n;

		if (!config_prof && strncmp(cases[i].text, "prof_s", 6) == 0)
			continue;
		n = parse(cases[i].text);

		is_uint(n, cases[i].nerrors, "\"%s\": errors that count", cases[i].text);
		is_str(messages(), cases[i].messages, "\"%s\": what is said", cases[i].text);
	}
	parse("dirty_decy_ms:1");
	contains(said, "\"dirty_decay_ms\"", "the hint has the nearest key");
	parse(":auto");
	ok(strstr(said, "metadata_thp") == NULL && strstr(said, "no known option") != NULL,
	    "an empty key is no cut key");
	parse("hpa_sec_bytes_after_flush:1");
	contains(said, "no longer exists", "a key that upstream gave up says so");
	parse("NARENAS:4");
	contains(said, "\"narenas\"", "upper case is near lower case");
	parse("Dirty_Decay_MS=1");
	contains(said, "\"dirty_decay_ms\"", "also at a malformed pair");
}

/* What a number may be is told with both limits. */
static void
test_limits(void) {
	parse("prof_sample_interval:0");
	contains(said, "prof_sample_interval takes a number, 1 to 9223372036854775807, with", "both");
	parse("prof_budget:101");
	contains(said, "Hint: prof_budget takes a decimal number, 0 to 100.", "of a decimal too");
}

/* A prefix that no name could begin with is refused while it is read: the one before stays. */
static void
test_prefix(void) {
	static char text[5000] = "prof_prefix:/a/";

	memset(text + 15, 'x', 4000);
	is_uint(parse(text), 1, "a prefix of 4003 bytes is refused");
	is_str(opt_prof_prefix, "%n%s/x", "the one from before stays");
	contains(said, "Hint: prof_prefix takes at most 3984 bytes, 143 behind", "what it takes");
	text[15 + 144] = '\0';
	is_uint(parse(text), 1, "and one whose last part is too long");
	text[15 + 143] = '\0';
	is_uint(parse(text), 0, "one byte less");
	is_str(opt_prof_prefix, text + 12, "is taken");
}

/* The hint offers what may be chosen, and no more. */
static void
test_unwinders(void) {
	parse("prof_unwind:best");
	is_int(strstr(said, "fp") != NULL, config_prof_frameptr, "frame pointers in the hint");
	is_int(strstr(said, "libgcc") != NULL, config_prof_libgcc, "libgcc in the hint");
	is_int(strstr(said, "libunwind") != NULL, config_prof_libunwind, "libunwind in the hint");
	is_uint(parse("prof_unwind:libunwind"), config_prof_libunwind ? 0 : 1, "and taken accordingly");
	parse("dss:never");
	is_int(strstr(said, "primary") != NULL, config_dss, "sbrk too");
}

static void
test_values(void) {
	parse("narenas:0x10");
	is_uint(opt_narenas, 16, "hexadecimal");
	parse("narenas:010");
	is_uint(opt_narenas, 8, "octal");
	parse("narenas: +9");
	is_uint(opt_narenas, 9, "a blank and a sign");
	parse("narenas:4294967296");
	is_uint(opt_narenas, UINT_MAX, "more than fits is the most that fits");
	parse("narenas:default");
	is_uint(opt_narenas, 0, "default");
	parse("narenas_ratio:.5");
	is_uint(opt_narenas_ratio, 1u << 15, "a ratio");
	parse("dirty_decay_ms:18446744073709551615");
	is_int(opt_dirty_decay_ms, -1, "2^64-1 is -1");
	parse("bogus:1,dirty_decay_ms:7,=,muzzy_decay_ms:8");
	ok(opt_dirty_decay_ms == 7 && opt_muzzy_decay_ms == 8, "what is bad does not drop the rest");
	parse("tcache_max:99999999999");
	is_uint(opt_tcache_max, TCACHE_MAX_LIMIT, "clipped from above");
	parse("lg_tcache_max:12");
	is_uint(opt_tcache_max, 4096, "by power of two");
	parse("stats_print_opts:gzg,stats_print_opts:aJ");
	is_str(opt_stats_print_opts, "gaJ", "letters add up, each once");
	parse("zero_realloc:abort,zero_realloc:abor");
	is_int(opt_zero_realloc, zero_realloc_abort, "a word, never cut short");
	parse("thp:al");
	is_int(opt_thp, thp_mode_always, "a word that may be");
	parse("thp:");
	is_int(opt_thp, thp_mode_default, "nothing is the first");
	if (!config_prof)
		return;
	parse("prof_sample_interval:3K");
	is_uint(opt_prof_sample_interval, 3072, "K");
	parse("prof_sample_interval:0x10M");
	is_uint(opt_prof_sample_interval, (uint64_t)16 << 20, "hexadecimal M");
	parse("prof_dump_mode:640");
	is_uint(opt_prof_dump_mode, 0640, "a mode is octal");
	is_uint(parse("prof_dump_mode:200,prof_dump_mode:0,prof_dump_mode:1000"), 3, "modes refused");
	is_uint(opt_prof_dump_mode, 0640, "the process reads its own dumps again (prof_keep)");
	parse("prof_prefix:%n%s/x");
	is_str(opt_prof_prefix, "%n%s/x", "a text as it is");
	test_limits();
	test_prefix();
	test_unwinders();
}

static size_t
narenas_now(void) {
	return opt_narenas;
}

/* Bytes of the slabs of a size as the options would make them; the process keeps those it has. */
static size_t
slab_size(size_t size) {
	static bin_info_t kept[BIN_MAX];
	size_t bytes;

	memcpy(kept, bin_infos, sizeof(kept));
	bin_info_boot();
	bytes = bin_infos[sc_index_compute(size)].slab_size;
	memcpy(bin_infos, kept, sizeof(kept));
	return bytes;
}

static size_t
slab_48_now(void) {
	return slab_size(48);
}

static size_t
slab_64_now(void) {
	return slab_size(64);
}

static size_t
thp_now(void) {
	return opt_thp;
}

static size_t
time_res_now(void) {
	return opt_prof_time_resolution;
}

/* The word default brings back what was there before any other value. */
static void
test_default(void) {
	static const struct {
		const char *key;
		const char *other;
		size_t (*now)(void);
	} c[] = {
		{"narenas", "7", narenas_now},
		{"slab_sizes", "40-64:4", slab_64_now},
		{"slab_sizes", "1-14336:9|48-48:5", slab_48_now},
		{"thp", "always", thp_now},
		{"prof_time_resolution", "high", time_res_now},
	};
	char text[64];

	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		size_t first;

		if (!config_prof && strncmp(c[i].key, "prof_", 5) == 0)
			continue;
		snprintf(text, sizeof(text), "%s:default", c[i].key);
		parse(text);
		first = c[i].now();
		snprintf(text, sizeof(text), "%s:%s", c[i].key, c[i].other);
		is_uint(parse(text), 0, "%s is accepted", text);
		ok(c[i].now() != first, "and changes something");
		snprintf(text, sizeof(text), "%s:%s,%s:default", c[i].key, c[i].other, c[i].key);
		is_uint(parse(text), 0, "%s is accepted", text);
		is_uint(c[i].now(), first, "and does not");
	}
}

static void
test_junk(void) {
	if (!config_fill) {
		skip(1, "no fill");
		return;
	}
	parse("junk:alloc");
	ok(opt_junk_alloc && !opt_junk_free, "junk:alloc");
	parse("junk:free");
	ok(!opt_junk_alloc && opt_junk_free, "junk:free");
	parse("junk:true");
	ok(opt_junk_alloc && opt_junk_free, "junk:true");
	parse("junk:false");
	ok(!opt_junk_alloc && !opt_junk_free, "junk:false");
}

static char ranges[256];

static int
note_range(size_t lo, size_t hi, size_t n) {
	size_t len = strlen(ranges);

	snprintf(ranges + len, sizeof(ranges) - len, "%zu-%zu=%zu ", lo, hi, n);
	return n == 13 ? EINVAL : 0;
}

static void
test_ranges(void) {
	static const struct {
		const char *text;
		int err;
		const char *items;
	} c[] = {
		{"1-2:3", 0, "1-2=3 "},
		{"1-2:3|0x10-32:4|", 0, "1-2=3 16-32=4 "},
		{"1-2:3||", EINVAL, "1-2=3 "},
		{"", EINVAL, ""},
		{"1-2", EINVAL, ""},
		{"1-2:", EINVAL, ""},
		{"1:2", EINVAL, ""},
		{"1-2:3x", EINVAL, ""},
		{"1-2:3|x", EINVAL, "1-2=3 "},
		{"1-2:13|3-4:5", EINVAL, "1-2=13 "},
	};

	for (size_t i = 0; i < ARRAY_LEN(c); i++) {
		ranges[0] = '\0';
		is_int(conf_parse_ranges(c[i].text, strlen(c[i].text), note_range), c[i].err,
		    "ranges \"%s\"", c[i].text);
		is_str(ranges, c[i].items, "its items");
	}
	ranges[0] = '\0';
	is_int(conf_parse_ranges("1-2:345", 6, note_range), EINVAL, "never past its end");
}

/* Pieces that a grammar-aware fuzzer would choose, and raw bytes. */
static void
random_text(uint64_t *rng, char *text, size_t size) {
	static const char *const pieces[] = { ",", ":", "|", "-", "true", "false", "0x", "-1", "99999",
	    "stats_print", "narenas", "bin_shards", "thp", "prof_prefix", "junk", " ", "=", "m", "d",
	    "stats_print_opts", "1.5", "narenas_ratio", "1-2:3", "K" };
	size_t len = 0;
	size_t want = (size_t)draw_below(rng, size - 1);

	while (len < want) {
		const char *p = pieces[draw_below(rng, ARRAY_LEN(pieces))];

		if (draw_below(rng, 4) == 0) {
			text[len++] = (char)(1 + draw_below(rng, 255));
		} else if (len + strlen(p) < size) {
			memcpy(text + len, p, strlen(p));
			len += strlen(p);
		} else {
			break;
		}
	}
	text[len] = '\0';
}

static void
test_any_bytes(void) {
	uint64_t rng = 42;
	char text[3000];
	bool lines_end = true;

	for (int i = 0; i < 3000; i++) {
		random_text(&rng, text, i % 10 == 0 ? sizeof(text) : 80);
		opt_confirm_conf = i % 2 != 0;
		parse(text);
		lines_end = lines_end && (said_len == 0 || said[said_len - 1] == '\n');
	}
	opt_confirm_conf = false;
	ok(lines_end, "any bytes: every message ends its line");
}

int
main(void) {
	/* The library is up before its options are parsed again. */
	free(malloc(1));
	malloc_io_message = listen;
	test_equals();
	test_messages();
	test_values();
	test_default();
	test_junk();
	test_ranges();
	test_any_bytes();
	return done_testing();
}
