/* util/buf_writer.h: all text arrives once, in order, in pieces of the right size. */
#include "test.h"

#include "util/buf_writer.h"

static char got[100000];
static size_t got_len;
static size_t calls;
static size_t longest;

static void
sink(void *opaque, const char *s) {
	size_t n = strlen(s);
	if (opaque != &calls || got_len + n >= sizeof(got)) {
		bail_out("the callback got a wrong argument or too much");
	}
	memcpy(got + got_len, s, n + 1);
	got_len += n;
	calls++;
	longest = n > longest ? n : longest;
}

static void
reset(void) {
	got_len = 0;
	got[0] = '\0';
	calls = 0;
	longest = 0;
}

static void
check_random(size_t buf_len) {
	static char buf[5000];
	static char sent[100000];
	uint64_t rng = buf_len;
	size_t sent_len = 0;
	buf_writer_t bw;
	reset();
	buf_writer_init(&bw, sink, &calls, buf, buf_len);
	for (int i = 0; i < 300; i++) {
		char piece[320];
		size_t n = draw_below(&rng, i % 10 == 0 ? 310 : 20);
		for (size_t j = 0; j < n; j++) {
			piece[j] = (char)('a' + draw_below(&rng, 26));
		}
		piece[n] = '\0';
		memcpy(sent + sent_len, piece, n + 1);
		sent_len += n;
		buf_writer_cb(&bw, piece);
	}
	buf_writer_flush(&bw);
	size_t calls_then = calls;
	buf_writer_flush(&bw);
	is_uint(calls, calls_then, "a second flush is silent (buffer %zu)", buf_len);
	is_str(got, sent, "all text in order (buffer %zu)", buf_len);
	if (buf_len >= 2) {
		is_uint(longest, min_zu(buf_len - 1, sent_len), "pieces fill the buffer");
		is_uint(calls, (sent_len + buf_len - 2) / (buf_len - 1), "no piece too many");
	}
}

int
main(void) {
	static const size_t sizes[] = {0, 1, 2, 3, 16, 255, 256, 4096};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		check_random(sizes[i]);
	}
	reset();
	buf_writer_t bw;
	char buf[16];
	buf_writer_init(&bw, sink, &calls, buf, sizeof(buf));
	buf_writer_cb(&bw, "held");
	is_uint(calls, 0, "short text waits");
	buf_writer_flush(&bw);
	is_str(got, "held", "until flushed");
	return done_testing();
}
