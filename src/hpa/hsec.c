/*
 * Lists of small extents by kind and length, with a lock for each group of threads; hsec.h has the
 * contract. Invariant: the bytes of a cache are the sum of its lists, and s->bytes the sum of all
 * caches. Functions named _locked need the lock of their cache, under which no other is taken.
 * Called by pac_hpa.c and hpa.c.
 */
#include "hpa/hsec.h"

#include "os/nstime.h"
#include "os/witness.h"

int
hsec_init(hsec_t *s, base_t *base) {
	size_t n = min_zu(opt_hpa_sec_nshards, HSEC_MAX);
	if (n == 0) {
		return 0;
	}
	s->caches = base_alloc(base, n * sizeof(hsec_cache_t), CACHELINE);
	if (s->caches == NULL) {
		return ENOMEM;
	}
	for (size_t i = 0; i < n; i++) {
		mutex_init(&s->caches[i].mtx, "hpa_sec", WITNESS_RANK_HPA_SEC);
		for (unsigned k = 0; k < ARRAY_LEN(s->caches[i].lists); k++) {
			ql_init(&s->caches[i].lists[k]);
		}
	}
	s->n = (unsigned)n;
	return 0;
}

/*
 * Locks the cache of this thread. Threads have consecutive numbers, so they spread over the caches.
 */
static hsec_cache_t *
hsec_lock(hsec_t *s) {
	hsec_cache_t *c = &s->caches[mutex_self() % s->n];
	mutex_lock(&c->mtx);
	return c;
}

static ql_t *
hsec_list(hsec_cache_t *c, size_t size, bool is_dense) {
	size_t npages = size >> LG_PAGE;
	assert(npages > 0 && npages <= HSEC_LENGTHS);
	return &c->lists[(is_dense ? HSEC_LENGTHS : 0) + npages - 1];
}

static void
hsec_enter_locked(hsec_t *s, hsec_cache_t *c, edata_t *e, bool is_dense) {
	mutex_assert_owner(&c->mtx);
	assert(e->state == extent_state_hot && e->is_hpa);
	ql_insert_after(hsec_list(c, e->size, is_dense), &e->link);
	c->stats.bytes += e->size;
	atomic_fetch_add_zu(&s->bytes, e->size, MO_RELAXED);
}

static void
hsec_leave_locked(hsec_t *s, hsec_cache_t *c, edata_t *e) {
	mutex_assert_owner(&c->mtx);
	assert(e->state == extent_state_hot && c->stats.bytes >= e->size);
	ql_remove(&e->link);
	c->stats.bytes -= e->size;
	atomic_fetch_sub_zu(&s->bytes, e->size, MO_RELAXED);
}

/*
 * Moves extents to the list out until at most `bytes` bytes are left in the cache: in turn from
 * each list, the one that was put in first.
 */
static void
hsec_trim_locked(hsec_t *s, hsec_cache_t *c, size_t bytes, ql_t *out) {
	for (unsigned k = 0; c->stats.bytes > bytes; k = (k + 1) % ARRAY_LEN(c->lists)) {
		if (!ql_is_empty(&c->lists[k])) {
			edata_t *e = edata_of_link(c->lists[k].prev);
			hsec_leave_locked(s, c, e);
			ql_push_tail(out, &e->link);
		}
	}
}

edata_t *
hsec_take(hsec_t *s, size_t size, bool is_dense) {
	hsec_cache_t *c = hsec_lock(s);
	ql_t *l = ql_first(hsec_list(c, size, is_dense));
	edata_t *e = l == NULL ? NULL : edata_of_link(l);
	if (e != NULL) {
		hsec_leave_locked(s, c, e);
		c->stats.hits++;
	} else {
		c->stats.misses++;
	}
	mutex_unlock(&c->mtx);
	return e;
}

void
hsec_put(hsec_t *s, ql_t *from, bool is_dense, bool are_freed, ql_t *out) {
	hsec_cache_t *c = hsec_lock(s);
	ql_t *l;
	while ((l = ql_first(from)) != NULL) {
		ql_remove(l);
		hsec_enter_locked(s, c, edata_of_link(l), is_dense);
	}
	if (c->stats.bytes > opt_hpa_sec_max_bytes) {
		hsec_trim_locked(s, c, hsec_kept(opt_hpa_sec_max_bytes), out);
		*(are_freed ? &c->stats.dalloc_flush : &c->stats.overfills) += 1;
	} else {
		c->stats.dalloc_noflush += are_freed;
	}
	mutex_unlock(&c->mtx);
}

void
hsec_drain(hsec_t *s, ql_t *out) {
	for (unsigned i = 0; i < s->n && atomic_load_zu(&s->bytes, MO_RELAXED) != 0; i++) {
		mutex_lock(&s->caches[i].mtx);
		hsec_trim_locked(s, &s->caches[i], 0, out);
		mutex_unlock(&s->caches[i].mtx);
	}
}

void
hsec_stats_read(hsec_t *s, hsec_stats_t *out) {
	for (unsigned i = 0; i < s->n; i++) {
		mutex_lock(&s->caches[i].mtx);
		const hsec_stats_t *one = &s->caches[i].stats;
		out->bytes += one->bytes;
#define HSEC_ADD(name, says) out->name += one->name;
		HSEC_STATS_FIELDS(HSEC_ADD)
#undef HSEC_ADD
		mutex_unlock(&s->caches[i].mtx);
	}
}

void
hsec_stats_zero(hsec_t *s) {
	for (unsigned i = 0; i < s->n; i++) {
		mutex_lock(&s->caches[i].mtx);
		assert(s->caches[i].stats.bytes == 0);
		memset(&s->caches[i].stats, 0, sizeof(s->caches[i].stats));
		mutex_unlock(&s->caches[i].mtx);
	}
}

bool
hsec_try_idle(hsec_t *s, uint64_t now, uint64_t ns) {
	hsec_stats_t stats = {0};
	if (atomic_load_zu(&s->bytes, MO_RELAXED) == 0) {
		return false;
	}
	hsec_stats_read(s, &stats);
	size_t uses = stats.hits + stats.misses + stats.dalloc_noflush + stats.dalloc_flush;
	if (uses != s->seen) {
		s->seen = uses;
		s->idle_since = now;
	}
	return nstime_ns_between(s->idle_since, now) >= ns;
}
