/*
 * Bitmaps of a huge slab, and the way from addresses to slabs; hslab.h has the contract.
 * The page map has a word for each 2 MiB of address space. Invariant: it is not NULL exactly while
 * the slab is entered, from before its first extent until after its last. No lock for these words,
 * which are atomic; the shard's lock protects the slab. Called by hpa.c; hslab_of() also by
 * pac_hpa.c.
 */
#include "hpa/hslab.h"

#include "meta/emap.h"

cassert(HSLAB_NPAGES_MAX <= UINT16_MAX);

hslab_t *
hslab_of(const void *addr) {
	atomic_p_t *word = emap_huge_word(addr);
	return word == NULL ? NULL : atomic_load_p(word, MO_ACQUIRE);
}

void
hslab_enter(const void *addr, hslab_t *s) {
	atomic_store_p(emap_huge_word(addr), s, MO_RELEASE);
}

/* ------------------------------------------------------------------ bitmaps */

void
hslab_init(hslab_t *s, char *addr, void *home) {
	memset(s, 0, sizeof(*s));
	s->addr = addr;
	s->home = home;
	s->longest = (uint16_t)HSLAB_NPAGES;
	ql_init(&s->all);
	ql_init(&s->place);
	ql_init(&s->dirty);
	ql_init(&s->ripe);
}

/* The bits of the bitmaps' word with this index that belong to pages first to end - 1. */
static fb_word_t
word_mask(unsigned word, unsigned first, unsigned end) {
	unsigned from = word * FB_WORD_BITS, to = from + FB_WORD_BITS;
	fb_word_t mask = ~(fb_word_t)0;
	if (first >= to || end <= from) {
		return 0;
	}
	mask = first > from ? mask << (first - from) : mask;
	return end < to ? mask & (~(fb_word_t)0 >> (to - end)) : mask;
}

/* A word with bits set for free pages (want_dirty: dirty ones), none for pages past the end. */
static fb_word_t
word_of(const hslab_t *s, unsigned word, bool want_dirty) {
	fb_word_t all = word_mask(word, 0, HSLAB_NPAGES);
	return all & ~s->used[word] & (want_dirty ? s->touched[word] : ~(fb_word_t)0);
}

/*
 * The next run of free or (want_dirty) of dirty pages at or behind page *first: returns its length
 * in pages and sets *first to its first page; 0: there is none.
 */
static unsigned
next_run(const hslab_t *s, unsigned *first, bool want_dirty) {
	unsigned nwords = (unsigned)FB_NWORDS(HSLAB_NPAGES), word = *first / FB_WORD_BITS;
	fb_word_t bits = word < nwords ? word_of(s, word, want_dirty) & word_mask(word, *first,
	    UINT_MAX) : 0;
	while (bits == 0 && ++word < nwords) {
		bits = word_of(s, word, want_dirty);
	}
	if (word >= nwords) {
		return 0;
	}
	*first = word * FB_WORD_BITS + ctz64(bits);
	/* The first page behind it that is not of the kind. */
	fb_word_t others = ~word_of(s, word, want_dirty) & word_mask(word, *first, UINT_MAX);
	while (others == 0 && ++word < nwords) {
		others = ~word_of(s, word, want_dirty);
	}
	unsigned end = word < nwords ? word * FB_WORD_BITS + ctz64(others) : HSLAB_NPAGES;
	return (end < HSLAB_NPAGES ? end : HSLAB_NPAGES) - *first;
}

static void
find_longest(hslab_t *s) {
	unsigned longest = 0, first = 0, n;
	for (; (n = next_run(s, &first, false)) != 0; first += n) {
		longest = n > longest ? n : longest;
	}
	s->longest = (uint16_t)longest;
}

unsigned
hslab_find(const hslab_t *s, unsigned n) {
	unsigned first = 0, len;
	assert(n > 0 && n <= s->longest);
	while ((len = next_run(s, &first, false)) < n) {
		assert(len > 0);
		first += len;
	}
	return first;
}

bool
hslab_is_free(const hslab_t *s, unsigned first, unsigned n) {
	unsigned at = first;
	return first + n <= HSLAB_NPAGES && next_run(s, &at, false) >= n && at == first;
}

bool
hslab_take(hslab_t *s, unsigned first, unsigned n) {
	unsigned n_old = 0;
	assert(n > 0 && hslab_is_free(s, first, n));
	for (unsigned w = first / FB_WORD_BITS; w <= (first + n - 1) / FB_WORD_BITS; w++) {
		fb_word_t mask = word_mask(w, first, first + n);
		n_old += popcount_zu(s->touched[w] & mask);
		s->used[w] |= mask;
		s->touched[w] |= mask;
	}
	s->n_used = (uint16_t)(s->n_used + n);
	s->n_touched = (uint16_t)(s->n_touched + n - n_old);
	find_longest(s);
	return n_old == 0;
}

void
hslab_put(hslab_t *s, unsigned first, unsigned n) {
	assert(n > 0 && first + n <= HSLAB_NPAGES && s->n_used >= n);
	for (unsigned w = first / FB_WORD_BITS; w <= (first + n - 1) / FB_WORD_BITS; w++) {
		fb_word_t mask = word_mask(w, first, first + n);
		assert((s->used[w] & mask) == mask);
		s->used[w] &= ~mask;
	}
	s->n_used = (uint16_t)(s->n_used - n);
	find_longest(s);
}

unsigned
hslab_dirty_run(const hslab_t *s, unsigned *first) {
	return next_run(s, first, true);
}

void
hslab_clean(hslab_t *s, unsigned first, unsigned n) {
	for (unsigned w = first / FB_WORD_BITS; w <= (first + n - 1) / FB_WORD_BITS; w++) {
		fb_word_t mask = word_mask(w, first, first + n);
		assert((s->used[w] & mask) == 0);
		s->n_touched = (uint16_t)(s->n_touched - popcount_zu(s->touched[w] & mask));
		s->touched[w] &= ~mask;
	}
}
