/*
 * Reads symbol names in Rust's newer scheme (_R..., "v0"), which no C++ library knows, and writes
 * them as Rust does, but without generic arguments, lifetimes and the hashes of crates, which
 * name_shorten() would remove, and without the name in extern "C". A name is a path: parts that
 * nest, and references back to parts of the same name. Each *_read() function reads one part at
 * r->at and moves behind it; those of paths, types and constants also write it, unless r->mute is
 * above 0. Invariant: no read passes the NUL; once r->has_failed is set, nothing more is read, so
 * loops end. The references of a damaged name may form a tree of exponential size, so the number of
 * paths and types is limited. No locks: one thread. Called by demangle.c, for any name.
 */
#include "symbolize.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits of a name: paths and types inside each other, and all of them, those read again too. */
enum { DEPTH_MAX = 100, PARTS_MAX = 4000 };
/* Most characters of an identifier that is not ASCII. */
enum { LETTERS_MAX = 128 };

typedef struct {
	const char *begin, *at;	/* behind "_R"; what is read next */
	char *to;
	size_t len, room;
	unsigned mute, depth, parts;
	bool has_failed;
	char decoded[4 * LETTERS_MAX]; /* the last identifier that was Punycode, in UTF-8 */
} reader_t;

static void path_read(reader_t *r);
static void type_read(reader_t *r);

/* ---- letters and numbers ---- */
/* Reads this letter if it is the next one; else false, and nothing is read. */
static bool
try_letter(reader_t *r, char letter) {
	bool is_next = !r->has_failed && *r->at == letter;

	r->at += is_next;
	return is_next;
}

/* Reads any letter; fails, and returns '\0', at the end of the name. */
static char
letter_read(reader_t *r) {
	char letter = r->has_failed ? '\0' : *r->at;

	r->at += letter != '\0';
	r->has_failed = letter == '\0';
	return letter;
}

/* Adds bytes to the result, unless it is muted; fails if they and the NUL do not fit. */
static void
write_bytes(reader_t *r, const char *text, size_t len) {
	if (r->mute > 0 || r->has_failed)
		return;
	r->has_failed = len >= r->room - r->len;
	if (!r->has_failed)
		memcpy(r->to + r->len, text, len);
	r->len += r->has_failed ? 0 : len;
}

static void
write_text(reader_t *r, const char *text) {
	write_bytes(r, text, strlen(text));
}

/* A number of digits and letters that ends in '_': "_" is 0, "0_" is 1. */
static uint64_t
base62_read(reader_t *r) {
	uint64_t value = 0;

	if (try_letter(r, '_'))
		return 0;
	while (!r->has_failed && *r->at != '_') {
		char c = letter_read(r);
		unsigned digit = isdigit((unsigned char)c) ? (unsigned)(c - '0')
			: islower((unsigned char)c) ? (unsigned)(c - 'a') + 10
			: (unsigned)(c - 'A') + 36;

		r->has_failed |= !isalnum((unsigned char)c) || value > (UINT64_MAX - 62) / 62;
		value = value * 62 + digit;
	}
	(void)try_letter(r, '_');
	return value + 1;
}

/* The number behind a mark, from 1; 0 without the mark. */
static uint64_t
marked_read(reader_t *r, char mark) {
	return try_letter(r, mark) ? base62_read(r) + 1 : 0;
}

/* Begins a path or a type; false if there are too many, or they nest too deep. */
static bool
try_enter(reader_t *r) {
	r->depth++;
	r->parts++;
	r->has_failed |= r->depth > DEPTH_MAX || r->parts > PARTS_MAX;
	return !r->has_failed;
}

/* Reads by `read` what a reference refers to, which must lie before it. */
static void
reference_read(reader_t *r, void (*read)(reader_t *)) {
	const char *mark = r->at - 1, *next;
	uint64_t place = base62_read(r);

	r->has_failed |= place >= (uint64_t)(mark - r->begin);
	if (r->has_failed || r->mute > 0)
		return;
	next = r->at;
	r->at = r->begin + place;
	read(r);
	r->at = next;
}

/* ---- identifiers that are not ASCII: Punycode (RFC 3492) with '_' in the place of '-' ---- */
/*
 * Reads the next distance, below 2^32: digits a-z, 0-9 (0 to 35), the lowest first, of which
 * each but the last is at least its threshold. A threshold follows from the bias. False: damaged.
 */
static bool
try_distance(const char **at, const char *end, unsigned bias, uint64_t *distance) {
	uint64_t weight = 1;

	*distance = 0;
	for (unsigned place = 36;; place += 36) {
		unsigned least = place <= bias ? 1 : place - bias > 26 ? 26 : place - bias;
		unsigned char c = *at < end ? (unsigned char)*(*at)++ : '\0';
		unsigned digit = islower(c) ? (unsigned)(c - 'a') : (unsigned)(c - '0') + 26;

		if (!islower(c) && !isdigit(c))
			return false;
		*distance += digit * weight;
		if (*distance > UINT32_MAX)
			return false;
		if (digit < least)
			return true;
		weight *= 36 - least; /* no more than 35 * 2^32, as the distance has not grown beyond */
	}
}

/* The bias of the next distance, from one that led to the n-th letter. */
static unsigned
bias_behind(uint64_t distance, size_t n, bool is_first) {
	unsigned bias = 0;

	distance /= is_first ? 700 : 2;
	distance += distance / n;
	for (; distance > 35 * 26 / 2; bias += 36)
		distance /= 35;
	return bias + (unsigned)(36 * distance / (distance + 38));
}

/*
 * Decodes an identifier: the ASCII letters up to the last '_', and behind it a distance for each
 * other letter. It counts places in the text, and each time that it comes around, the letter to be
 * inserted is the next one, from U+0080 on. Returns the number of letters; 0: damaged, or too many.
 */
static size_t
punycode_decode(const char *text, size_t len, uint32_t letters[LETTERS_MAX]) {
	const char *end = text + len, *at = text;
	size_t n = 0;
	uint64_t place = 0, letter = 0x80, distance;

	for (const char *c = text; c < end; c++)
		at = *c == '_' ? c + 1 : at;
	for (const char *c = text; c + 1 < at; c++) {
		if (n == LETTERS_MAX || *c < '0' || *c > 'z') /* no letter, digit or '_' */
			return 0;
		letters[n++] = (unsigned char)*c;
	}
	for (unsigned bias = 72; at < end; place++) {
		if (n == LETTERS_MAX || !try_distance(&at, end, bias, &distance))
			return 0;
		bias = bias_behind(distance, n + 1, place == 0);
		place += distance;
		letter += place / (n + 1);
		place %= n + 1;
		if (letter < 0xa0 || letter > 0x10ffff) /* a control character is none */
			return 0;
		memmove(letters + place + 1, letters + place, (n++ - place) * sizeof(*letters));
		letters[place] = (uint32_t)letter;
	}
	return n;
}

/* Makes *text, a Punycode of *len bytes, UTF-8; fails if it is damaged or too long. */
static void
identifier_decode(reader_t *r, const char **text, size_t *len) {
	uint32_t letters[LETTERS_MAX];
	size_t n = punycode_decode(*text, *len, letters), used = 0;

	r->has_failed = n == 0;
	for (size_t i = 0; i < n && !r->has_failed; i++) {
		size_t more = put_utf8(letters[i], r->decoded + used);

		used += more;
		r->has_failed = more == 0;
	}
	*text = r->decoded;
	*len = used;
}

/* ---- paths ---- */
/* A name as it is in the source; 'u' before the length: it is not ASCII. */
static void
identifier_read(reader_t *r, const char **text, size_t *len) {
	bool is_punycode = try_letter(r, 'u');

	*len = 0;
	r->has_failed |= !isdigit((unsigned char)*r->at);
	if (r->has_failed)
		return;
	if (!try_letter(r, '0')) {
		while (isdigit((unsigned char)*r->at) && *len < r->room)
			*len = *len * 10 + (size_t)(*r->at++ - '0');
	}
	(void)try_letter(r, '_');
	*text = r->at;
	r->has_failed = strnlen(r->at, *len) < *len;
	r->at += r->has_failed ? 0 : *len;
	if (is_punycode && !r->has_failed)
		identifier_decode(r, text, len);
}

/* N: a part of a path and its name; those of closures and shims have a number. */
static void
nested_read(reader_t *r) {
	char number[32], space = letter_read(r);
	const char *text = "";
	size_t len;
	uint64_t which;

	path_read(r);
	which = marked_read(r, 's');
	identifier_read(r, &text, &len);
	if (!isupper((unsigned char)space)) {
		write_text(r, len > 0 ? "::" : "");
		write_bytes(r, text, len);
		return;
	}
	write_text(r, "::{");
	write_text(r, space == 'C' ? "closure" : space == 'S' ? "shim" : "");
	if (space != 'C' && space != 'S')
		write_bytes(r, &space, 1);
	write_text(r, len > 0 ? ":" : "");
	write_bytes(r, text, len);
	snprintf(number, sizeof(number), "#%llu}", (unsigned long long)which);
	write_text(r, number);
}

/* M, X, Y: <type> or <type as trait>. M and X begin with the path of the impl, not written here. */
static void
impl_read(reader_t *r, char kind) {
	if (kind != 'Y') {
		r->mute++;
		(void)marked_read(r, 's');
		path_read(r);
		r->mute--;
	}
	write_text(r, "<");
	type_read(r);
	if (kind != 'M') {
		write_text(r, " as ");
		path_read(r);
	}
	write_text(r, ">");
}

/* A constant: its type and a value in hex, written in decimal. Fails for another form. */
static void
constant_read(reader_t *r) {
	if (try_letter(r, 'p')) {
		write_text(r, "_");
		return;
	}
	if (try_letter(r, 'B')) {
		reference_read(r, constant_read);
		return;
	}
	r->has_failed |= strchr("abchijlmnostxy", *r->at) == NULL;
	(void)letter_read(r);
	if (try_letter(r, 'n'))
		write_text(r, "-");
	if (!r->has_failed) {
		char number[32], *end;

		snprintf(number, sizeof(number), "%llu", strtoull(r->at, &end, 16));
		write_text(r, number);
		r->at = end;
	}
	r->has_failed |= !try_letter(r, '_');
}

/* The template arguments up to the E, without text. */
static void
arguments_read(reader_t *r) {
	r->mute++;
	while (!r->has_failed && !try_letter(r, 'E')) {
		if (try_letter(r, 'L'))
			(void)base62_read(r);
		else if (try_letter(r, 'K'))
			constant_read(r);
		else
			type_read(r);
	}
	r->mute--;
}

static void
path_read(reader_t *r) {
	const char *text = "";
	size_t len;
	char kind;

	if (!try_enter(r))
		return;
	kind = letter_read(r);
	if (kind == 'C') {
		(void)marked_read(r, 's');
		identifier_read(r, &text, &len);
		write_bytes(r, text, len);
	} else if (kind == 'N') {
		nested_read(r);
	} else if (kind == 'M' || kind == 'X' || kind == 'Y') {
		impl_read(r, kind);
	} else if (kind == 'I') {
		path_read(r);
		arguments_read(r);
	} else if (kind == 'B') {
		reference_read(r, path_read);
	} else {
		r->has_failed = true;
	}
	r->depth--;
}

/* ---- types ---- */
/* Types up to the E, in round brackets. */
static void
list_read(reader_t *r, bool is_tuple) {
	size_t count = 0;

	write_text(r, "(");
	for (; !r->has_failed && !try_letter(r, 'E'); count++) {
		write_text(r, count > 0 ? ", " : "");
		type_read(r);
	}
	write_text(r, is_tuple && count == 1 ? ",)" : ")");
}

/* F: a pointer to a function. */
static void
function_read(reader_t *r) {
	const char *text;
	size_t len;

	(void)marked_read(r, 'G');
	if (try_letter(r, 'U'))
		write_text(r, "unsafe ");
	if (try_letter(r, 'K')) {
		write_text(r, "extern ");
		if (!try_letter(r, 'C'))
			identifier_read(r, &text, &len);
	}
	write_text(r, "fn");
	list_read(r, false);
	if (try_letter(r, 'u'))
		return;
	write_text(r, " -> ");
	type_read(r);
}

/* D: dyn A + B; what types its members have is left out. */
static void
dyn_read(reader_t *r) {
	const char *text;
	size_t len;

	write_text(r, "dyn ");
	(void)marked_read(r, 'G');
	for (size_t i = 0; !r->has_failed && !try_letter(r, 'E'); i++) {
		write_text(r, i > 0 ? " + " : "");
		path_read(r);
		r->mute++;
		while (try_letter(r, 'p')) {
			identifier_read(r, &text, &len);
			type_read(r);
		}
		r->mute--;
	}
	(void)marked_read(r, 'L');
}

/* The name of a type of one letter; NULL: there is none. */
static const char *
basic_name(char letter) {
	static const char *const names[] = {"i8", "bool", "char", "f64", "str", "f32", NULL, "u8",
	    "isize", "usize", NULL, "i32", "u32", "i128", "u128", "_", NULL, NULL, "i16", "u16", "()",
	    "...", NULL, "i64", "u64", "!"};

	return islower((unsigned char)letter) ? names[letter - 'a'] : NULL;
}

static void
type_read(reader_t *r) {
	const char *name;
	char kind;

	if (!try_enter(r))
		return;
	kind = letter_read(r);
	name = basic_name(kind);
	if (name != NULL) {
		write_text(r, name);
	} else if (kind == 'A' || kind == 'S') {
		write_text(r, "[");
		type_read(r);
		write_text(r, kind == 'A' ? "; " : "");
		if (kind == 'A')
			constant_read(r);
		write_text(r, "]");
	} else if (kind == 'T') {
		list_read(r, true);
	} else if (kind == 'R' || kind == 'Q' || kind == 'P' || kind == 'O') {
		if (kind == 'R' || kind == 'Q')
			(void)marked_read(r, 'L');
		write_text(r, kind == 'R' ? "&" : kind == 'Q' ? "&mut "
			: kind == 'P' ? "*const " : "*mut ");
		type_read(r);
	} else if (kind == 'F') {
		function_read(r);
	} else if (kind == 'D') {
		dyn_read(r);
	} else if (kind == 'B') {
		reference_read(r, type_read);
	} else if (!r->has_failed) {
		r->at--;
		path_read(r);
	}
	r->depth--;
}

bool
rust_try_demangle(const char *mangled, char *to, size_t room) {
	reader_t r = {.begin = mangled + 2, .at = mangled + 2, .to = to, .room = room};

	if (strncmp(mangled, "_R", 2) != 0)
		return false;
	path_read(&r);
	if (!r.has_failed && *r.at != '\0' && *r.at != '.') { /* the crate that made the copy */
		r.mute = 1;
		path_read(&r);
	}
	if (r.has_failed || (*r.at != '\0' && *r.at != '.'))
		return false;
	to[r.len] = '\0';
	return true;
}
