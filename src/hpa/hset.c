/*
 * Lists of huge slabs by fullness and longest free run; hset.h has the contract. Invariant: the bit
 * of a class is set exactly if its list has an element. The shard's lock protects the set. Called
 * by hpa.c.
 */
#include "hpa/hset.h"

#include "meta/sz.h"

void
hset_init(hset_t *set) {
	for (unsigned i = 0; i < HSET_LEVELS; i++) {
		set->classes[i] = 0;
		for (unsigned k = 0; k < HSET_CLASSES; k++) {
			ql_init(&set->lists[i][k]);
		}
	}
}

void
hset_insert(hset_t *set, hslab_t *s) {
	assert(s->n_used > 0 && s->longest > 0 && ql_is_empty(&s->place));
	s->level = (uint8_t)(s->n_used * HSET_LEVELS / HSLAB_NPAGES);
	s->pind = (uint8_t)sz_psz_floor((size_t)s->longest << LG_PAGE);
	assert(s->level < HSET_LEVELS && s->pind < HSET_CLASSES);
	ql_push_tail(&set->lists[s->level][s->pind], &s->place);
	set->classes[s->level] |= 1u << s->pind;
}

void
hset_remove(hset_t *set, hslab_t *s) {
	ql_remove(&s->place);
	if (ql_is_empty(&set->lists[s->level][s->pind])) {
		set->classes[s->level] &= ~(1u << s->pind);
	}
}

/*
 * Only the first slab of each list is looked at. n was rounded down to the class `low`, so only in
 * that one it may be too short; then a longer one behind it is passed over.
 */
hslab_t *
hset_fit(const hset_t *set, unsigned n) {
	unsigned low = sz_psz_floor((size_t)n << LG_PAGE);
	for (unsigned i = HSET_LEVELS; i-- > 0;) {
		for (uint32_t some = set->classes[i] >> low << low; some != 0; some &= some - 1) {
			ql_t *l = ql_first(&set->lists[i][ctz64(some)]);
			hslab_t *s = container_of(l, hslab_t, place);
			if (s->longest >= n) {
				return s;
			}
		}
	}
	return NULL;
}
