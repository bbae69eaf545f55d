/*
 * A subset of printf, and the parser of integers; fmt.h lists what is supported.
 * A conversion is handled in three steps: read the specification, turn the argument into a prefix
 * and a body, pad both and copy them to the sink. No state, no lock, no allocation; the variable
 * errno and the locale are not used. So it is safe in signal handlers and while the allocator is in
 * any state. Called for messages, statistics, options, paths and numbers of files of the kernel
 * (os/), and parts of dump files (prof_write.c writes most numbers of dump files itself).
 */
#include "util/fmt.h"

#include "util/bits.h"

/* The destination of the text. Counts every byte, stores those that fit. */
typedef struct {
	char *buf;
	size_t size; /* of buf, bytes */
	size_t len;  /* bytes produced so far, stored or not */
} fmt_sink_t;

/* A conversion specification. */
typedef struct {
	bool zero;     /* flag '0' */
	int width;     /* negative: the text stands at the left */
	int precision; /* negative: none */
	char len;      /* length modifier: 'l' for ll, 'z', or 0 */
	char conv;
} fmt_spec_t;

/*
 * A struct around va_list, so that functions can take its address. Where va_list is an array type,
 * a parameter of that type is a pointer, and its address is not that of a va_list.
 */
typedef struct {
	va_list ap;
} fmt_args_t;

char *
fmt_u64_dec(char *end, uint64_t v) {
	do {
		*--end = (char)('0' + v % 10);
		v /= 10;
	} while (v != 0);
	return end;
}

char *
fmt_u64_hex(char *end, uint64_t v) {
	do {
		*--end = "0123456789abcdef"[v & 15];
		v >>= 4;
	} while (v != 0);
	return end;
}

static void
sink_put(fmt_sink_t *sink, const char *s, size_t n) {
	if (sink->len < sink->size) {
		memcpy(sink->buf + sink->len, s, min_zu(n, sink->size - sink->len));
	}
	sink->len += n;
}

static void
sink_fill(fmt_sink_t *sink, char c, size_t n) {
	if (sink->len < sink->size) {
		memset(sink->buf + sink->len, c, min_zu(n, sink->size - sink->len));
	}
	sink->len += n;
}

/* Writes the prefix (sign or 0x), zeros and the body, padded with blanks to the field's width. */
static void
sink_field(fmt_sink_t *sink, const fmt_spec_t *spec, const char *prefix, size_t zeros,
    const char *body, size_t body_len) {
	size_t prefix_len = strlen(prefix);
	size_t used = prefix_len + zeros + body_len;
	size_t width = spec->width < 0 ? -(size_t)spec->width : (size_t)spec->width;
	size_t pad = width > used ? width - used : 0;
	if (spec->width > 0) {
		sink_fill(sink, ' ', pad);
	}
	sink_put(sink, prefix, prefix_len);
	sink_fill(sink, '0', zeros);
	sink_put(sink, body, body_len);
	if (spec->width < 0) {
		sink_fill(sink, ' ', pad);
	}
}

/* Reads the width. Digits that mean more than INT_MAX / 2 become that, so nothing overflows. */
static const char *
spec_read_width(fmt_spec_t *spec, const char *f, fmt_args_t *args) {
	if (*f == '*') {
		spec->width = va_arg(args->ap, int);
		return f + 1;
	}
	int n = 0;
	for (; *f >= '0' && *f <= '9'; f++) {
		n = n < INT_MAX / 20 ? n * 10 + (*f - '0') : INT_MAX / 2;
	}
	spec->width = n;
	return f;
}

static const char *
spec_read_precision(fmt_spec_t *spec, const char *f, fmt_args_t *args) {
	spec->precision = -1;
	if (f[0] != '.' || f[1] != '*') {
		return f;
	}
	spec->precision = va_arg(args->ap, int);
	return f + 2;
}

static const char *
spec_read_len(fmt_spec_t *spec, const char *f) {
	size_t n = f[0] == 'z' ? 1 : f[0] == 'l' && f[1] == 'l' ? 2 : 0;
	spec->len = n == 0 ? '\0' : f[0];
	return f + n;
}

/*
 * Reads a specification; f points behind the percent sign. Returns the position behind the
 * conversion letter, or at the NUL if the format ends early. Takes the arguments of '*', but not
 * the one to convert; an unknown letter has no such argument.
 */
static const char *
spec_read(fmt_spec_t *spec, const char *f, fmt_args_t *args) {
	spec->zero = *f == '0';
	f += spec->zero;
	f = spec_read_width(spec, f, args);
	f = spec_read_precision(spec, f, args);
	f = spec_read_len(spec, f);
	spec->conv = *f;
	return *f != '\0' ? f + 1 : f;
}

static int64_t
arg_signed(char len, fmt_args_t *args) {
	return len == 'l' ? va_arg(args->ap, long long) : len == 'z' ? va_arg(args->ap, ssize_t)
	    : va_arg(args->ap, int);
}

static uint64_t
arg_unsigned(char len, fmt_args_t *args) {
	return len == 'l' ? va_arg(args->ap, unsigned long long) : len == 'z' ? va_arg(args->ap, size_t)
	    : va_arg(args->ap, unsigned);
}

/* Prints an integer given as prefix and absolute value; with the flag 0 zeros fill the width. */
static void
put_number(fmt_sink_t *sink, const fmt_spec_t *spec, const char *prefix, uint64_t v) {
	char digits[FMT_U64_BUF];
	char *end = digits + sizeof(digits);
	bool is_hex = spec->conv == 'x' || spec->conv == 'p';
	char *first = is_hex ? fmt_u64_hex(end, v) : fmt_u64_dec(end, v);
	size_t n = (size_t)(end - first), used = strlen(prefix) + n;
	size_t width = spec->zero && spec->width > 0 ? (size_t)spec->width : 0;
	sink_field(sink, spec, prefix, width > used ? width - used : 0, first, n);
}

static void
put_signed(fmt_sink_t *sink, const fmt_spec_t *spec, fmt_args_t *args) {
	int64_t v = arg_signed(spec->len, args);
	put_number(sink, spec, v < 0 ? "-" : "", v < 0 ? -(uint64_t)v : (uint64_t)v);
}

static void
put_unsigned(fmt_sink_t *sink, const fmt_spec_t *spec, fmt_args_t *args) {
	put_number(sink, spec, "", arg_unsigned(spec->len, args));
}

static void
put_pointer(fmt_sink_t *sink, const fmt_spec_t *spec, fmt_args_t *args) {
	put_number(sink, spec, "0x", (uint64_t)(uintptr_t)va_arg(args->ap, void *));
}

static void
put_string(fmt_sink_t *sink, const fmt_spec_t *spec, fmt_args_t *args) {
	const char *s = va_arg(args->ap, const char *);
	if (s == NULL) {
		s = "(null)";
	}
	/* With a precision the string need not be NUL terminated. */
	size_t n = 0;
	size_t limit = spec->precision < 0 ? SIZE_MAX : (size_t)spec->precision;
	while (n < limit && s[n] != '\0') {
		n++;
	}
	sink_field(sink, spec, "", 0, s, n);
}

static void
put_char(fmt_sink_t *sink, const fmt_spec_t *spec, fmt_args_t *args) {
	char c = (char)va_arg(args->ap, int);
	sink_field(sink, spec, "", 0, &c, 1);
}

static void
put_conversion(fmt_sink_t *sink, const fmt_spec_t *spec, fmt_args_t *args, const char *from,
    const char *to) {
	switch (spec->conv) {
	case '%': sink_put(sink, "%", 1); return;
	case 'd': put_signed(sink, spec, args); return;
	case 'u':
	case 'x': put_unsigned(sink, spec, args); return;
	case 'p': put_pointer(sink, spec, args); return;
	case 's': put_string(sink, spec, args); return;
	case 'c': put_char(sink, spec, args); return;
	default: sink_put(sink, from, (size_t)(to - from)); return;
	}
}

int
fmt_vsnprintf(char *buf, size_t size, const char *f, va_list ap) {
	fmt_sink_t sink = {.buf = buf, .size = size, .len = 0};
	fmt_args_t args;
	va_copy(args.ap, ap);
	while (*f != '\0') {
		const char *from = f;
		if (*f != '%') {
			while (*f != '\0' && *f != '%') {
				f++;
			}
			sink_put(&sink, from, (size_t)(f - from));
			continue;
		}
		fmt_spec_t spec;
		f = spec_read(&spec, f + 1, &args);
		put_conversion(&sink, &spec, &args, from, f);
	}
	va_end(args.ap);
	if (size > 0) {
		buf[min_zu(sink.len, size - 1)] = '\0';
	}
	return sink.len < INT_MAX ? (int)sink.len : INT_MAX;
}

int
fmt_snprintf(char *buf, size_t size, const char *f, ...) {
	va_list ap;
	va_start(ap, f);
	int n = fmt_vsnprintf(buf, size, f, ap);
	va_end(ap);
	return n;
}

static bool
is_blank(char c) {
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* The value of a digit in any base up to 36; 36 for a character that is no digit. */
static unsigned
digit_value(char c) {
	if (c >= '0' && c <= '9') {
		return (unsigned)(c - '0');
	}
	char lower = (char)(c | 0x20);
	return lower >= 'a' && lower <= 'z' ? (unsigned)(lower - 'a') + 10 : 36;
}

/*
 * Replaces a base of 0 by the one that the text shows. Skips "0x" if the base is 16 then.
 * "0x" without a digit behind it is the number 0, followed by an x.
 */
static const char *
parse_base(const char *s, unsigned *base) {
	bool has_0x = s[0] == '0' && (s[1] | 0x20) == 'x' && digit_value(s[2]) < 16;
	if (has_0x && (*base == 0 || *base == 16)) {
		*base = 16;
		return s + 2;
	}
	if (*base == 0) {
		*base = s[0] == '0' ? 8 : 10;
	}
	return s;
}

/*
 * Reads all digits of the base from s on. If they do not fit, *err is ERANGE and the value
 * UINTMAX_MAX.
 */
static const char *
parse_digits(const char *s, unsigned base, uintmax_t *value, int *err) {
	uintmax_t v = 0;
	for (; digit_value(*s) < base; s++) {
		uintmax_t scaled;
		if (__builtin_mul_overflow(v, (uintmax_t)base, &scaled)
		    || __builtin_add_overflow(scaled, (uintmax_t)digit_value(*s), &v)) {
			*err = ERANGE;
		}
	}
	*value = *err == ERANGE ? UINTMAX_MAX : v;
	return s;
}

uintmax_t
fmt_parse_uint(const char *s, char **end, int base, int *err) {
	const char *p = s;
	uintmax_t value = 0;
	*err = 0;
	while (is_blank(*p)) {
		p++;
	}
	bool negative = *p == '-';
	if (*p == '-' || *p == '+') {
		p++;
	}
	unsigned radix = (unsigned)base;
	if (base == 0 || (base >= 2 && base <= 36)) {
		p = parse_base(p, &radix);
		const char *digits = p;
		p = parse_digits(digits, radix, &value, err);
		*err = p == digits ? EINVAL : *err;
	} else {
		*err = EINVAL;
	}
	if (end != NULL) {
		*end = (char *)(uintptr_t)(*err == EINVAL ? s : p);
	}
	return negative && *err == 0 ? -value : value;
}

int
fmt_parse_digits(const char *s, size_t len, uint64_t *n) {
	int err = 0;
	uintmax_t value;
	const char *end = parse_digits(s, 10, &value, &err);
	*n = value;
	return len == 0 || end != s + len ? EINVAL : err;
}

int
fmt_apply_unit(uint64_t *n, char unit) {
	static const char units[] = "KMG";
	const char *at = memchr(units, unit, 3);
	unsigned shift = at == NULL ? 0 : 10u * (unsigned)(at - units + 1);
	if (shift == 0) {
		return EINVAL;
	}
	if (*n > UINT64_MAX >> shift) {
		return ERANGE;
	}
	*n <<= shift;
	return 0;
}

uint32_t
fmt_parse_percent(const char *s, size_t len) {
	uint64_t percent;
	bool is_percent = len > 1 && s[len - 1] == '%' && fmt_parse_digits(s, len - 1, &percent) == 0;
	return is_percent && percent <= 100 ? (uint32_t)percent : 0;
}

bool
fmt_is_word(const char *s, size_t len, const char *word) {
	return strlen(word) == len && memcmp(s, word, len) == 0;
}

int
fmt_find_word(const char *const words[], const char *s, size_t len) {
	for (int i = 0; words[i] != NULL; i++) {
		if (fmt_is_word(s, len, words[i])) {
			return i;
		}
	}
	return -1;
}

static bool
is_utf8_tail(unsigned char c) {
	return (c & 0xc0) == 0x80;
}

size_t
fmt_utf8_len(const char *s) {
	const unsigned char *p = (const unsigned char *)s;
	if (p[0] >= 0xc2 && p[0] <= 0xdf) {
		return is_utf8_tail(p[1]) ? 2 : 0;
	}
	if (p[0] >= 0xe0 && p[0] <= 0xef) {
		unsigned char lo = p[0] == 0xe0 ? 0xa0 : 0x80;
		unsigned char hi = p[0] == 0xed ? 0x9f : 0xbf;
		return p[1] >= lo && p[1] <= hi && is_utf8_tail(p[2]) ? 3 : 0;
	}
	if (p[0] >= 0xf0 && p[0] <= 0xf4) {
		unsigned char lo = p[0] == 0xf0 ? 0x90 : 0x80;
		unsigned char hi = p[0] == 0xf4 ? 0x8f : 0xbf;
		bool is_valid = p[1] >= lo && p[1] <= hi && is_utf8_tail(p[2]) && is_utf8_tail(p[3]);
		return is_valid ? 4 : 0;
	}
	return 0;
}
