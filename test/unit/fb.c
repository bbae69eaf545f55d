/* util/fb.h: every operation against an array of bool, over sizes around the word size. */
#include "test.h"

#include "util/fb.h"

#define NBITS_MAX 300

static uint64_t rng = 42;

struct model {
	size_t nbits;
	fb_word_t fb[FB_NWORDS(NBITS_MAX) + 1];
	bool bits[NBITS_MAX];
};

static ssize_t
slow_first(const struct model *m, size_t start) {
	for (size_t i = start; i < m->nbits; i++) {
		if (m->bits[i]) {
			return (ssize_t)i;
		}
	}
	return -1;
}

static unsigned
compare(const struct model *m) {
	unsigned bad = 0;
	size_t ones = 0;
	for (size_t i = 0; i < m->nbits; i++) {
		bad += fb_get(m->fb, m->nbits, i) != m->bits[i];
		ones += m->bits[i];
	}
	for (size_t i = 0; i <= m->nbits; i++) {
		bad += fb_first_set(m->fb, m->nbits, i) != slow_first(m, i);
	}
	bad += fb_is_empty(m->fb, m->nbits) != (ones == 0);
	bad += m->fb[FB_NWORDS(m->nbits)] != 0; /* the word behind is never touched */
	if (m->nbits % FB_WORD_BITS != 0) {
		bad += m->fb[m->nbits / FB_WORD_BITS] >> (m->nbits % FB_WORD_BITS) != 0;
	}
	return bad;
}

/* Sets or clears a row of bits, mostly long ones, so that searches pass whole words. */
static void
step(struct model *m) {
	size_t start = draw_below(&rng, m->nbits);
	size_t len = draw_below(&rng, 3) == 0 ? 1 : draw_below(&rng, m->nbits - start + 1);
	bool value = draw_below(&rng, 2);
	for (size_t i = start; i < start + len; i++) {
		(value ? fb_set : fb_unset)(m->fb, m->nbits, i);
		m->bits[i] = value;
	}
}

static void
test_size(size_t nbits) {
	static struct model m;
	memset(&m, 0, sizeof(m));
	m.nbits = nbits;
	unsigned bad = compare(&m);
	for (int i = 0; i < 60; i++) {
		step(&m);
		bad += compare(&m);
	}
	for (size_t i = 0; i < nbits; i++) {
		fb_set(m.fb, nbits, i);
		m.bits[i] = true;
	}
	bad += compare(&m);
	is_uint(bad, 0, "bitmap of %zu bits", nbits);
}

int
main(void) {
	static const size_t sizes[] = {1, 2, 31, 63, 64, 65, 100, 127, 128, 129, 192, 255, 256, 257,
	    300};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		test_size(sizes[i]);
	}
	return done_testing();
}
