/*
 * util/fmt.h: random formats and arguments against the C library, cases of its own, integer
 * parsing.
 */
#include "test.h"

#include <inttypes.h>

#include "util/fmt.h"
#include "util/prng.h"

static uint64_t rng = 17;

/* Both sides with the same arguments and size; what is kept and what is returned must agree. */
static unsigned mismatches;

static void same(size_t size, const char *f, ...) PRINTF_FMT(2, 3);

static void
same(size_t size, const char *f, ...) {
	static char ours[4096];
	static char libc[4096];
	va_list ap;
	memset(ours, '~', sizeof(ours));
	memset(libc, '~', sizeof(libc));
	va_start(ap, f);
	int n_ours = fmt_vsnprintf(ours, size, f, ap);
	va_end(ap);
	va_start(ap, f);
	int n_libc = vsnprintf(libc, size, f, ap);
	va_end(ap);
	size_t kept = size == 0 ? 0 : strlen(libc) + 1;
	bool is_same = n_ours == n_libc && memcmp(ours, libc, kept) == 0 && ours[kept] == '~';
	if (!is_same && mismatches++ < 5) {
		diag("format \"%s\" size %zu: \"%s\" (%d), libc \"%s\" (%d)", f, size,
		    size ? ours : "", n_ours, size ? libc : "", n_libc);
	}
}

static uint64_t
random_value(void) {
	uint64_t v = prng_u64(&rng) >> draw_below(&rng, 64);
	return draw_below(&rng, 8) == 0 ? 0 : draw_below(&rng, 2) ? v : -v;
}

/* "[%", perhaps the flag 0, perhaps a width, the given end, "]". */
static void
random_format(char *out, bool may_zero, const char *end) {
	char width[16] = "";
	if (draw_below(&rng, 2)) {
		sprintf(width, "%d", (int)(1 + draw_below(&rng, 40)));
	}
	sprintf(out, "[%%%s%s%s]", may_zero && draw_below(&rng, 4) == 0 ? "0" : "", width, end);
}

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"

static void
random_integer(size_t size, char conv) {
	static const char *const mods[] = {"", "ll", "z"};
	unsigned m = (unsigned)draw_below(&rng, ARRAY_LEN(mods));
	char end[4];
	char f[64];
	uint64_t v = random_value();
	snprintf(end, sizeof(end), "%s%c", mods[m], conv);
	random_format(f, true, end);
	switch (m) {
	case 0: same(size, f, (int)v); break;
	case 1: same(size, f, (long long)v); break;
	default: same(size, f, (ssize_t)v); break;
	}
}

static void
random_text(size_t size) {
	char s[64];
	char f[64];
	size_t n = draw_below(&rng, sizeof(s));
	for (size_t i = 0; i < n; i++) {
		s[i] = (char)(1 + draw_below(&rng, 255));
	}
	s[n] = '\0';
	random_format(f, false, "s");
	same(size, f, s);
	same(size, "%*c|", (int)draw_below(&rng, 40) - 20, (int)(1 + draw_below(&rng, 255)));
	same(size, "%*.*s|", (int)draw_below(&rng, 40) - 20, (int)draw_below(&rng, 40) - 20, s);
	same(size, "%%%*d%0*u%s", (int)draw_below(&rng, 40) - 20, (int)n, (int)draw_below(&rng, 20),
	    (unsigned)n, s);
}

static void
test_random_formats(void) {
	static const char convs[] = "dux";
	for (int i = 0; i < 300000; i++) {
		size_t size = draw_below(&rng, 4) == 0 ? draw_below(&rng, 30) : 512;
		random_integer(size, convs[draw_below(&rng, sizeof(convs) - 1)]);
		if (i % 4 == 0) {
			random_text(size);
		}
	}
	is_uint(mismatches, 0, "300000 random integer formats and 300000 of text as the C library");
}

static void
test_own_cases(void) {
	char buf[128];
	const char *volatile none = NULL;
	fmt_snprintf(buf, sizeof(buf), "%s", none);
	is_str(buf, "(null)", "a NULL string");
	fmt_snprintf(buf, sizeof(buf), "%p %p %20p|", NULL, (void *)0xabc, (void *)0xabc);
	is_str(buf, "0x0 0xabc                0xabc|", "pointers");
	const char *unknown = "%y %08.3k %ld %d";
	fmt_snprintf(buf, sizeof(buf), unknown, 5);
	is_str(buf, "%y %08.3k %ld 5", "unknown conversions stay");
	const char *open_end = "abc %05";
	fmt_snprintf(buf, sizeof(buf), open_end, 5);
	is_str(buf, "abc %05", "a format that ends too early");
	is_int(fmt_snprintf(NULL, 0, "%d", 12345), 5, "only the length");
	char four[4] = {'a', 'b', 'c', 'd'};
	fmt_snprintf(buf, sizeof(buf), "%.*s", 4, four);
	is_str(buf, "abcd", "a string without NUL under a precision");
	char one[2] = {'x', 'y'};
	is_int(fmt_snprintf(one, 1, "long"), 4, "size 1 gives the length");
	ok(one[0] == '\0' && one[1] == 'y', "and only the NUL");
	errno = 4321;
	fmt_snprintf(buf, sizeof(buf), "%d%s", 1, "x");
	is_int(errno, 4321, "errno is left alone");
}

static void
test_fast_writers(void) {
	unsigned bad = 0;
	for (int i = 0; i < 200000; i++) {
		char ours[FMT_U64_BUF + 1];
		char libc[FMT_U64_BUF + 1];
		char *end = ours + FMT_U64_BUF;
		uint64_t v = random_value();
		*end = '\0';
		snprintf(libc, sizeof(libc), "%" PRIu64, v);
		bad += strcmp(fmt_u64_dec(end, v), libc) != 0;
		snprintf(libc, sizeof(libc), "%" PRIx64, v);
		bad += strcmp(fmt_u64_hex(end, v), libc) != 0;
	}
	is_uint(bad, 0, "fmt_u64_dec and fmt_u64_hex");
}

/* As strtoumax in value, end and error, where the standard leaves nothing open. */
static bool
parses_as_libc(const char *s, int base) {
	char *end = NULL;
	char *libc_end = NULL;
	int err = -1;
	errno = 0;
	uintmax_t want = strtoumax(s, &libc_end, base);
	int want_err = errno;
	errno = 77;
	uintmax_t got = fmt_parse_uint(s, &end, base, &err);
	bool has_digits = libc_end != s;
	bool is_same = errno == 77 && got == want && end == libc_end
	    && err == (has_digits ? want_err : EINVAL);
	if (!is_same) {
		diag("\"%s\" base %d: %ju, rest \"%s\", error %d; libc %ju \"%s\" %d", s, base, got, end,
		    err, want, libc_end, want_err);
	}
	return is_same;
}

static void
test_parse_random(void) {
	static const char chars[] = "0123456789abcdefxXzZ+- \t9990000";
	unsigned bad = 0;
	for (int i = 0; i < 300000; i++) {
		char s[40];
		size_t n = draw_below(&rng, 26);
		for (size_t j = 0; j < n; j++) {
			s[j] = chars[draw_below(&rng, j < 3 ? sizeof(chars) - 1 : 16)];
		}
		s[n] = '\0';
		int base = (int)draw_below(&rng, 37);
		if (strchr(s, 'b') != NULL && (base == 0 || base == 2)) {
			continue; /* since C23 a C library may read 0b101 as a number */
		}
		bad += bad < 5 && !parses_as_libc(s, base == 1 ? 10 : base);
	}
	is_uint(bad, 0, "300000 random texts as the C library");
}

static void
test_parse_cases(void) {
	static const char *const texts[] = {"0", "18446744073709551615", "18446744073709551616",
	    "-18446744073709551615", "-18446744073709551616", "-1", "+7", "+-7", "", " ", "-", "0x",
	    "0xg", "0x10", "-0x10", "010", "08", "\n\v\f\r\t 5", "1e5", "99999999999999999999999x",
	    "0xffffffffffffffff", "0x10000000000000000"};
	unsigned bad = 0;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		bad += !parses_as_libc(texts[i], 0) + !parses_as_libc(texts[i], 10)
		    + !parses_as_libc(texts[i], 16) + !parses_as_libc(texts[i], 8);
	}
	is_uint(bad, 0, "cases by hand as the C library");
	int err = 0;
	char *end = NULL;
	is_uint(fmt_parse_uint("12", &end, 1, &err), 0, "base 1");
	is_int(err, EINVAL, "is refused");
	is_uint(fmt_parse_uint("12", &end, 37, &err), 0, "base 37");
	is_int(err, EINVAL, "is refused");
	is_uint(fmt_parse_uint("12", NULL, 10, &err), 12, "no end wanted");
}

static void
test_percent(void) {
	static const struct {
		const char *text;
		unsigned want;
	} cases[] = {{"1%", 1}, {"9%", 9}, {"10%", 10}, {"90%", 90}, {"100%", 100}, {"0100%", 100},
	    {"101%", 0}, {"0%", 0}, {"1000%", 0}, {"4294967297%", 0}, {"18446744073709551617%", 0},
	    {"%", 0}, {"", 0}, {"1", 0}, {"100", 0}, {"-5%", 0}, {"+5%", 0}, {" 5%", 0}, {"5 %", 0},
	    {"5%%", 0}, {"5%x", 0}, {"1K%", 0}, {"/%", 0}, {":%", 0}, {"/5%", 0}, {"1:%", 0}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		is_uint(fmt_parse_percent(cases[i].text, strlen(cases[i].text)), cases[i].want,
		    "percent: \"%s\"", cases[i].text);
	}
	is_uint(fmt_parse_percent("90%", 2), 0, "the length ends it");
	is_uint(fmt_parse_percent("90%5", 3), 90, "and what is behind is not read");
}

static void
test_digits(void) {
	uint64_t n = 1;
	ok(fmt_parse_digits("0", 1, &n) == 0 && n == 0, "0");
	ok(fmt_parse_digits("007.x", 3, &n) == 0 && n == 7, "zeros before it, a dot behind");
	ok(fmt_parse_digits("18446744073709551615", 20, &n) == 0 && n == UINT64_MAX, "the greatest");
	is_int(fmt_parse_digits("18446744073709551616", 20, &n), ERANGE, "one more");
	is_int(fmt_parse_digits("", 0, &n), EINVAL, "none");
	is_int(fmt_parse_digits("12", 1, &n), EINVAL, "more than was named");
	is_int(fmt_parse_digits("1x", 2, &n) + fmt_parse_digits("+1", 2, &n)
	    + fmt_parse_digits(" 1", 2, &n) + fmt_parse_digits("0x1", 3, &n), 4 * EINVAL,
	    "no sign, blank, letter or base");
}

/* Three letters are units, no other character is; the greatest number with room, and one more. */
static void
test_units(void) {
	unsigned bad = 0;
	for (int c = 0; c < 256; c++) {
		unsigned shift = c == 'K' ? 10 : c == 'M' ? 20 : c == 'G' ? 30 : 0;
		uint64_t n = 3;
		int err = fmt_apply_unit(&n, (char)c);
		bad += err != (shift == 0 ? EINVAL : 0) || n != (uint64_t)3 << shift;
	}
	is_uint(bad, 0, "K, M, G and no others");
	for (unsigned i = 0; i < 3; i++) {
		uint64_t most = UINT64_MAX >> 10 * (i + 1), n = most;
		ok(fmt_apply_unit(&n, "KMG"[i]) == 0 && n == most << 10 * (i + 1), "the most %c", "KMG"[i]);
		n = most + 1;
		ok(fmt_apply_unit(&n, "KMG"[i]) == ERANGE && n == most + 1, "one more has no room");
	}
}

static void
test_words(void) {
	static const char *const words[] = {"one", "only", "", NULL};
	is_int(fmt_find_word(words, "one", 3), 0, "a word");
	is_int(fmt_find_word(words, "onlyx", 4), 1, "the length ends it");
	is_int(fmt_find_word(words, "only", 2), -1, "a piece of a word");
	is_int(fmt_find_word(words, "onex", 4), -1, "more than a word");
	is_int(fmt_find_word(words, "x", 0), 2, "an empty one");
	is_int(fmt_find_word(words + 3, "one", 3), -1, "no words");
}

/* The bytes of the character of which these are the first, by what it means; 0: of none. */
static size_t
utf8_len(const unsigned char *b) {
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t len = b[0] >= 0xf8 || b[0] < 0xc0 ? 0 : b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
	uint32_t c = len == 0 ? 0 : b[0] & (0x7f >> len);
	for (size_t i = 1; i < len; i++) {
		if (b[i] >> 6 != 2) {
			return 0;
		}
		c = c << 6 | (b[i] & 0x3f);
	}
	return c < least[len] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : len;
}

/* Each first and second byte, with tails at and beyond their bounds. */
static void
test_utf8(void) {
	static const unsigned char tails[] = {0x00, 0x7f, 0x80, 0xbf, 0xc0, 0xff};
	unsigned bad = 0;
	for (unsigned i = 0; i < 256 * 256; i++) {
		for (unsigned k = 0; k < 36; k++) {
			unsigned char b[5] = {(unsigned char)(i >> 8), (unsigned char)i, tails[k / 6],
			    tails[k % 6]};
			bad += wrong_if(fmt_utf8_len((const char *)b) != utf8_len(b));
		}
	}
	is_uint(bad, 0, "bytes that are a character of UTF-8, and how many");
}

int
main(void) {
	test_random_formats();
	test_own_cases();
	test_fast_writers();
	test_parse_random();
	test_parse_cases();
	test_percent();
	test_digits();
	test_units();
	test_words();
	test_utf8();
	return done_testing();
}
