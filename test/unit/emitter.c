/*
 * util/emitter.h: the exact text of a small report in its two shapes, random reports with random
 * bytes in their strings, which a strict reader of JSON (RFC 8259) must accept, and that all text
 * arrives once, in order, in pieces that fill the buffer.
 */
#include "test.h"

#include "util/emitter.h"
#include "util/prng.h"

static char out[1 << 20];
static size_t out_len;
static size_t calls;
static size_t longest;

static void
collect(void *opaque, const char *s) {
	size_t n = strlen(s);
	if (opaque != out || out_len + n >= sizeof(out)) {
		bail_out("the callback got a wrong argument or too much");
	}
	memcpy(out + out_len, s, n + 1);
	out_len += n;
	calls++;
	longest = n > longest ? n : longest;
}

static void
start_with(emitter_t *em, emitter_mode_t mode, char *buf, size_t size) {
	out_len = 0;
	calls = 0;
	longest = 0;
	out[0] = '\0';
	emitter_init(em, mode, collect, out, buf, size);
	emitter_begin(em);
}

static void
start(emitter_t *em, emitter_mode_t mode) {
	start_with(em, mode, NULL, 0);
}

/*
 * ---- a reader of JSON: each function returns the place behind what it read, NULL on an error ----
 */

static const char *json_read(const char *p, int depth);

static const char *
json_blanks(const char *p) {
	while (p != NULL && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) {
		p++;
	}
	return p;
}

static bool
is_hex(char c) {
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static const char *
json_escape_seq(const char *p) {
	if (*p == 'u') {
		return is_hex(p[1]) && is_hex(p[2]) && is_hex(p[3]) && is_hex(p[4]) ? p + 5 : NULL;
	}
	return *p != '\0' && strchr("\"\\/bfnrt", *p) != NULL ? p + 1 : NULL;
}

/* One character of UTF-8, decoded in full so as to see overlong forms and surrogates. */
static const char *
utf8_char(const char *p) {
	unsigned char c = (unsigned char)*p++;
	if (c < 0x80) {
		return p;
	}
	int tail = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
	if (c < 0xc0 || c >= 0xf8) {
		return NULL;
	}
	uint32_t v = c & (0x3fU >> tail);
	for (int i = 0; i < tail; i++) {
		if (((unsigned char)*p & 0xc0) != 0x80) {
			return NULL;
		}
		v = v << 6 | ((unsigned char)*p++ & 0x3f);
	}
	static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
	bool is_valid = v >= least[tail] && v <= 0x10ffff && !(v >= 0xd800 && v <= 0xdfff);
	return is_valid ? p : NULL;
}

static const char *
json_text(const char *p) {
	if (*p++ != '"') {
		return NULL;
	}
	while (p != NULL && *p != '"') {
		if ((unsigned char)*p < 0x20) {
			return NULL;
		}
		p = *p == '\\' ? json_escape_seq(p + 1) : utf8_char(p);
	}
	return p == NULL ? NULL : p + 1;
}

static const char *
json_number(const char *p) {
	p += *p == '-';
	if (*p < '0' || *p > '9' || (*p == '0' && p[1] >= '0' && p[1] <= '9')) {
		return NULL;
	}
	while (*p >= '0' && *p <= '9') {
		p++;
	}
	return p;
}

/* Items up to the closing bracket; p is behind the opening one. */
static const char *
json_items(const char *p, char close, int depth) {
	p = json_blanks(p);
	if (*p == close) {
		return p + 1;
	}
	for (;;) {
		if (close == '}') {
			p = json_blanks(json_text(p));
			p = p != NULL && *p == ':' ? json_blanks(p + 1) : NULL;
		}
		p = p == NULL ? NULL : json_blanks(json_read(p, depth + 1));
		if (p == NULL || *p != ',') {
			return p != NULL && *p == close ? p + 1 : NULL;
		}
		p = json_blanks(p + 1);
	}
}

static const char *
json_read(const char *p, int depth) {
	if (depth > 100) {
		return NULL;
	}
	switch (*p) {
	case '{': return json_items(p + 1, '}', depth);
	case '[': return json_items(p + 1, ']', depth);
	case '"': return json_text(p);
	case 't': return strncmp(p, "true", 4) == 0 ? p + 4 : NULL;
	case 'f': return strncmp(p, "false", 5) == 0 ? p + 5 : NULL;
	default: return json_number(p);
	}
}

static bool
is_json(const char *s) {
	const char *end = *s == '{' ? json_blanks(json_read(s, 0)) : NULL;
	return end != NULL && *end == '\0';
}

/* ---- a small report, compared byte for byte ---- */

static void
emit_values(emitter_t *em) {
	bool yes = true;
	int64_t i64 = INT64_MIN;
	unsigned u = 7;
	uint32_t u32 = UINT32_MAX;
	uint64_t u64 = UINT64_MAX;
	size_t zu = 4096;
	ssize_t zd = -1;
	emitter_kv(em, "b", "opt.b", emitter_type_bool, &yes);
	emitter_kv(em, "i64", "opt.i64", emitter_type_int64, &i64);
	emitter_kv(em, "u", "opt.u", emitter_type_unsigned, &u);
	emitter_kv(em, "u32", "opt.u32", emitter_type_uint32, &u32);
	emitter_kv(em, "u64", "opt.u64", emitter_type_uint64, &u64);
	emitter_kv(em, "zu", "opt.zu", emitter_type_size, &zu);
	emitter_kv_note(em, "zd", "opt.zd", emitter_type_ssize, &zd, "arenas.zd", emitter_type_ssize,
	    &zd);
}

static void
emit_report(emitter_t *em, emitter_mode_t mode) {
	const char *version = "1.0";
	size_t sizes[] = {8, 16};
	start(em, mode);
	emitter_kv(em, "version", "Version", emitter_type_string, &version);
	emitter_dict_begin(em, "opt", "Options");
	emit_values(em);
	emitter_dict_end(em);
	emitter_table_printf(em, "total %d%%\n", 5);
	emitter_json_array_kv_begin(em, "bin");
	for (int i = 0; i < 2; i++) {
		emitter_json_object_begin(em);
		emitter_json_kv(em, "size", emitter_type_size, &sizes[i]);
		emitter_json_object_end(em);
		emitter_json_value(em, emitter_type_size, &sizes[i]);
	}
	emitter_json_array_end(em);
	emitter_json_object_kv_begin(em, "none");
	emitter_json_object_end(em);
	emitter_json_array_kv_begin(em, "empty");
	emitter_json_array_end(em);
	emitter_table_kv(em, "size", emitter_type_size, &sizes[0]);
	emitter_end(em);
}

static void
test_shapes(void) {
	emitter_t em;
	emit_report(&em, emitter_json);
	is_str(out, "{\"version\":\"1.0\",\"opt\":{\"b\":true,\"i64\":-9223372036854775808,"
	    "\"u\":7,\"u32\":4294967295,\"u64\":18446744073709551615,\"zu\":4096,\"zd\":-1},"
	    "\"bin\":[{\"size\":8},8,{\"size\":16},16],\"none\":{},\"empty\":[]}",
	    "JSON");
	ok(is_json(out), "is JSON");
	emit_report(&em, emitter_table);
	is_str(out, "Version: \"1.0\"\nOptions\n  opt.b: true\n"
	    "  opt.i64: -9223372036854775808\n  opt.u: 7\n  opt.u32: 4294967295\n"
	    "  opt.u64: 18446744073709551615\n  opt.zu: 4096\n  opt.zd: -1 (arenas.zd: -1)\n"
	    "total 5%\nsize: 8\n",
	    "table");
}

static void
escapes(const char *s, const char *want) {
	emitter_t em;
	char whole[2048];
	start(&em, emitter_json);
	emitter_json_kv(&em, "k", emitter_type_string, &s);
	emitter_end(&em);
	snprintf(whole, sizeof(whole), "{\"k\":\"%s\"}", want);
	is_str(out, whole, "escape to %.40s", want);
}

static void
test_escapes(void) {
	escapes("", "");
	escapes(NULL, "");
	escapes("a\"b\\c/", "a\\\"b\\\\c/");
	escapes("\b\f\n\r\t", "\\b\\f\\n\\r\\t");
	escapes("\x01\x1f\x7f", "\\u0001\\u001f\\u007f");
	escapes("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
	escapes("\xff\xc3", "\\ufffd\\ufffd");
	escapes("\xc0\xaf", "\\ufffd\\ufffd");
	escapes("\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd");
	escapes("\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd");
	escapes("\xe2\x82", "\\ufffd\\ufffd");
	char text[1001];
	memset(text, 'x', 1000);
	text[1000] = '\0';
	escapes(text, text);
}

/* ---- random reports ---- */

static uint64_t rng = 23;

static const char *
random_string(void) {
	static char s[700];
	size_t n = draw_below(&rng, draw_below(&rng, 20) == 0 ? sizeof(s) : 12);
	bool is_wild = draw_below(&rng, 2);
	for (size_t i = 0; i < n; i++) {
		s[i] = (char)(is_wild ? 1 + draw_below(&rng, 255) : 'a' + draw_below(&rng, 26));
	}
	s[n] = '\0';
	return s;
}

static void
random_scalar(emitter_t *em) {
	uint64_t v = prng_u64(&rng) >> draw_below(&rng, 64);
	bool b = v & 1;
	emitter_type_t type = (emitter_type_t)(1 + draw_below(&rng, emitter_type_string));
	if (type == emitter_type_string) {
		const char *s = random_string();
		emitter_json_value(em, type, &s);
	} else {
		emitter_json_value(em, type, type == emitter_type_bool ? (void *)&b : (void *)&v);
	}
}

static void
random_container(emitter_t *em, bool is_object, int depth) {
	for (uint64_t n = draw_below(&rng, 6); n > 0; n--) {
		if (is_object) {
			emitter_json_key(em, random_string());
		}
		uint64_t kind = draw_below(&rng, depth < 6 ? 4 : 2);
		if (kind == 2) {
			emitter_json_object_begin(em);
			random_container(em, true, depth + 1);
			emitter_json_object_end(em);
		} else if (kind == 3) {
			emitter_json_array_begin(em);
			random_container(em, false, depth + 1);
			emitter_json_array_end(em);
		} else {
			random_scalar(em);
		}
	}
}

static void
test_random_reports(void) {
	unsigned bad = 0;
	unsigned blanks = 0;
	for (int i = 0; i < 5000; i++) {
		emitter_t em;
		start(&em, emitter_json);
		random_container(&em, true, 0);
		emitter_end(&em);
		bad += !is_json(out);
		blanks += strpbrk(out, "\n\t") != NULL;
	}
	is_uint(bad, 0, "5000 random reports are JSON");
	is_uint(blanks, 0, "on one line");
}

static void
test_reader(void) {
	static const char *const broken[] = {"", "{", "{}}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "[1]",
	    "{\"a\":01}", "{\"a\":[1 2]}", "{\"a\":\"\xff\"}", "{\"a\":\"\n\"}", "{a:1}"};
	unsigned accepted = 0;
	for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
		accepted += is_json(broken[i]);
	}
	is_uint(accepted, 0, "the reader of this test refuses what is not JSON");
	ok(is_json("{\"a\": [1, {}, \"\\u00e4\", true]}"), "and accepts what is");
}

static void
test_other_mode_silent(void) {
	emitter_t em;
	unsigned v = 1;
	start(&em, emitter_table);
	emitter_json_array_kv_begin(&em, "a");
	emitter_json_value(&em, emitter_type_unsigned, &v);
	emitter_json_array_end(&em);
	emitter_json_object_kv_begin(&em, "o");
	emitter_json_kv(&em, "k", emitter_type_unsigned, &v);
	emitter_json_object_end(&em);
	emitter_end(&em);
	is_str(out, "", "json_ calls are silent in the table");
	start(&em, emitter_json);
	emitter_table_printf(&em, "x");
	emitter_table_kv(&em, "x", emitter_type_unsigned, &v);
	emitter_end(&em);
	is_str(out, "{}", "table_ calls are silent in JSON");
}

/* size 0: the emitter's own buffer. */
static void
test_pieces(size_t size) {
	static char buf[5000], sent[100000];
	size_t sent_len = 0, room = size == 0 ? EMITTER_OWN_BYTES : size;
	emitter_t em;
	start_with(&em, emitter_table, size == 0 ? NULL : buf, size);
	for (int i = 0; i < 300; i++) {
		char piece[320];
		size_t n = draw_below(&rng, i % 10 == 0 ? 310 : 20);
		for (size_t j = 0; j < n; j++) {
			piece[j] = (char)('a' + draw_below(&rng, 26));
		}
		piece[n] = '\0';
		memcpy(sent + sent_len, piece, n + 1);
		sent_len += n;
		emitter_table_printf(&em, "%s", piece);
	}
	emitter_end(&em);
	is_str(out, sent, "all text in order (buffer %zu)", size);
	is_uint(longest, min_zu(room - 1, sent_len), "pieces fill the buffer");
	is_uint(calls, (sent_len + room - 2) / (room - 1), "no piece too many");
}

static void
test_buffers(void) {
	static const size_t sizes[] = {0, 2, 3, 16, 255, 256, 4096};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		test_pieces(sizes[i]);
	}
	emitter_t em;
	char buf[16];
	start_with(&em, emitter_table, buf, sizeof(buf));
	emitter_table_printf(&em, "held");
	is_uint(calls, 0, "short text waits");
	emitter_end(&em);
	is_str(out, "held", "until the end");
	const char *version = "1.0";
	start_with(&em, emitter_json, buf, 10);
	emitter_kv(&em, "version", "Version", emitter_type_string, &version);
	emitter_end(&em);
	is_str(out, "{\"version\":\"1.0\"}", "JSON through a small buffer");
}

int
main(void) {
	test_reader();
	test_shapes();
	test_escapes();
	test_random_reports();
	test_other_mode_silent();
	test_buffers();
	return done_testing();
}
