/* util/fb.h: every operation against an array of bool, over sizes around the word size. */
#include "test.h"

#include "util/fb.h"
#include "util/prng.h"

#define NBITS_MAX 300

static uint64_t rng = 42;

struct model {
	size_t nbits;
	fb_word_t fb[FB_NWORDS(NBITS_MAX) + 1];
	bool bits[NBITS_MAX];
};

static ssize_t
slow_first(const struct model *m, size_t start, bool want) {
	for (size_t i = start; i < m->nbits; i++) {
		if (m->bits[i] == want) {
			return (ssize_t)i;
		}
	}
	return -1;
}

static ssize_t
slow_last(const struct model *m, size_t before, bool want) {
	for (size_t i = before; i-- > 0;) {
		if (m->bits[i] == want) {
			return (ssize_t)i;
		}
	}
	return -1;
}

static size_t
slow_run(const struct model *m, size_t begin, bool want) {
	size_t n = 0;
	while (begin + n < m->nbits && m->bits[begin + n] == want) {
		n++;
	}
	return n;
}

static unsigned
compare_at(const struct model *m, size_t i) {
	size_t begin = 0;
	size_t len = 0;
	unsigned bad = 0;
	bad += fb_first_set(m->fb, m->nbits, i) != slow_first(m, i, true);
	bad += fb_first_unset(m->fb, m->nbits, i) != slow_first(m, i, false);
	bad += fb_last_set_before(m->fb, m->nbits, i) != slow_last(m, i, true);
	bad += fb_last_unset_before(m->fb, m->nbits, i) != slow_last(m, i, false);
	bool has = fb_has_srange(m->fb, m->nbits, i, &begin, &len);
	bad += has != (slow_first(m, i, true) >= 0);
	bad += has && ((ssize_t)begin != slow_first(m, i, true) || len != slow_run(m, begin, true));
	has = fb_has_urange(m->fb, m->nbits, i, &begin, &len);
	bad += has != (slow_first(m, i, false) >= 0);
	bad += has && ((ssize_t)begin != slow_first(m, i, false) || len != slow_run(m, begin, false));
	return bad;
}

static unsigned
compare(const struct model *m) {
	unsigned bad = 0;
	size_t longest[2] = {0, 0};
	size_t ones = 0;
	for (size_t i = 0; i < m->nbits; i++) {
		bad += fb_get(m->fb, m->nbits, i) != m->bits[i];
		ones += m->bits[i];
		bool kind = m->bits[i];
		longest[kind] = max_zu(longest[kind], slow_run(m, i, kind));
	}
	for (size_t i = 0; i <= m->nbits; i++) {
		bad += compare_at(m, i);
	}
	bad += fb_scount(m->fb, m->nbits, 0, m->nbits) != ones;
	bad += fb_srange_longest(m->fb, m->nbits) != longest[1];
	bad += fb_urange_longest(m->fb, m->nbits) != longest[0];
	bad += fb_is_empty(m->fb, m->nbits) != (ones == 0);
	bad += fb_is_full(m->fb, m->nbits) != (ones == m->nbits);
	bad += m->fb[FB_NWORDS(m->nbits)] != 0; /* the word behind is never touched */
	if (m->nbits % FB_WORD_BITS != 0) {
		bad += m->fb[m->nbits / FB_WORD_BITS] >> (m->nbits % FB_WORD_BITS) != 0;
	}
	return bad;
}

static unsigned
step(struct model *m) {
	size_t start = prng_range(&rng, m->nbits);
	size_t len = prng_range(&rng, m->nbits - start + 1);
	bool value = prng_range(&rng, 2);
	if (prng_range(&rng, 3) == 0) {
		len = 1;
		(value ? fb_set : fb_unset)(m->fb, m->nbits, start);
	} else {
		(value ? fb_set_range : fb_unset_range)(m->fb, m->nbits, start, len);
	}
	memset(&m->bits[start], value, len);
	size_t ones = 0;
	size_t from = prng_range(&rng, m->nbits + 1);
	size_t n = prng_range(&rng, m->nbits - from + 1);
	for (size_t i = from; i < from + n; i++) {
		ones += m->bits[i];
	}
	return (fb_scount(m->fb, m->nbits, from, n) != ones)
	    + (fb_ucount(m->fb, m->nbits, from, n) != n - ones);
}

static void
test_size(size_t nbits) {
	static struct model m;
	memset(&m, 0, sizeof(m));
	m.nbits = nbits;
	memset(m.fb, 0xff, FB_NWORDS(nbits) * sizeof(fb_word_t));
	fb_init(m.fb, nbits);
	unsigned bad = compare(&m);
	for (int i = 0; i < 60; i++) {
		bad += step(&m);
		bad += compare(&m);
	}
	fb_set_range(m.fb, nbits, 0, nbits);
	memset(m.bits, true, nbits);
	bad += compare(&m);
	is_uint(bad, 0, "bitmap of %zu bits", nbits);
}

int
main(void) {
	static const size_t sizes[] = {1, 2, 31, 63, 64, 65, 100, 127, 128, 129, 192, 255, 256, 257, 300};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		test_size(sizes[i]);
	}
	return done_testing();
}
