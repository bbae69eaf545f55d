/*
 * The quarantine of a thread: a ring of pointers, made when the thread first needs it
 * (quarantine.h).
 *
 * Invariant: every object in the ring was filled with STAMP, and no other structure refers to it;
 * for its slab it is in use. Locks: none; only the owner uses its ring, inside the gate (but for
 * quarantine_has); a forked child deletes those of absent threads. Called by imalloc.c, tcache.c,
 * tsd.c, icheck.c (quarantine_has), and jemalloc_init.c at exit.
 */
#include "thread/quarantine.h"

#include "arena/arenas.h"
#include "arena/safety.h"
#include "meta/freepool.h"

/*
 * The byte that objects are filled with. In hardened builds it is 0: so nothing can be read in an
 * object while it waits, and nothing remains when it is used again.
 */
#define STAMP (config_hardening ? 0 : 0xdb)

ssize_t opt_lg_san_uaf_align = -1;

struct quarantine_s {
	size_t bytes;   /* of the objects in the ring, without their canaries */
	unsigned first; /* place of the oldest object */
	unsigned n;     /* objects in the ring */
	void *ptrs[QUARANTINE_MAX];
};

cassert((QUARANTINE_MAX & (QUARANTINE_MAX - 1)) == 0);

/* The index in ptrs of the object that is the i-th oldest (0: the oldest). */
static unsigned
place_of(const quarantine_t *q, unsigned i) {
	return (q->first + i) % QUARANTINE_MAX;
}

/* Whether one of the object's addresses is a multiple of 2^opt_lg_san_uaf_align. */
static bool
is_touching(const void *ptr, size_t usize) {
	uintptr_t first = (uintptr_t)ptr, last = first + usize - 1;
	return (first - 1) >> opt_lg_san_uaf_align != last >> opt_lg_san_uaf_align;
}

static bool
is_stamped(const void *ptr, size_t usize) {
	const unsigned char *p = ptr;
	assert(usize > 0);
	return p[0] == STAMP && memcmp(p, p + 1, usize - 1) == 0;
}

bool
quarantine_has(const tsd_t *tsd, const void *ptr) {
	const quarantine_t *q = tsd->quarantine;
	for (unsigned i = 0; q != NULL && i < q->n; i++) {
		if (q->ptrs[place_of(q, i)] == ptr) {
			return true;
		}
	}
	return false;
}

/* Counts an object of the extent in the statistics of its arena, which lasts: it is automatic. */
static void
count_stashed(const edata_t *e, bool enters) {
	size_t usize = sz_i2s(e->szind);
	atomic_fetch_add_zu(&arenas_get(e->arena_ind)->stashed, enters ? usize : 0 - usize, MO_RELAXED);
}

/* The oldest object leaves: it is checked, and freed to its slab. */
static void
quarantine_drop_first(quarantine_t *q) {
	assert(q->n > 0 && tls_get()->gate_depth > 0);
	void *ptr = q->ptrs[q->first];
	uint64_t elem = emap_elem_any(ptr);
	assert(elem_state(elem) == extent_state_active && (elem & ELEM_SLAB) != 0);
	size_t usize = canary_room(arena_usize(elem));
	assert(usize <= q->bytes);
	if (unlikely(!is_stamped(ptr, usize))) {
		safety_fail("write to a freed block");
	}
	q->first = place_of(q, 1);
	q->n--;
	q->bytes -= usize;
	count_stashed(elem_edata(elem), false);
	arena_dalloc(ptr, elem);
}

bool
quarantine_try_add(tsd_t *tsd, const edata_t *e, void *ptr, size_t usize) {
	tsd_assert_own(tsd);
	usize = canary_room(usize);
	bool is_wanted = usize != 0 && (opt_lg_san_uaf_align < 0 || is_touching(ptr, usize));
	if (!e->is_slab || e->arena_ind >= arenas_narenas_auto() || !is_wanted) {
		return false;
	}
	if (tsd->quarantine == NULL && (tsd->quarantine = meta_alloc(sizeof(quarantine_t))) == NULL) {
		return false;
	}
	quarantine_t *q = tsd->quarantine;
	/*
	 * An object of the user may consist of this byte too, so the ring is searched. A double free is
	 * missed here if the object was written to after the first one.
	 */
	if (unlikely(is_stamped(ptr, usize)) && quarantine_has(tsd, ptr)) {
		safety_fail("double free");
		return true;
	}
	memset(ptr, STAMP, usize);
	while (q->n == QUARANTINE_MAX || (q->n > 0 && q->bytes + usize > QUARANTINE_BYTES)) {
		quarantine_drop_first(q);
	}
	q->ptrs[place_of(q, q->n++)] = ptr;
	q->bytes += usize;
	count_stashed(e, true);
	return true;
}

void
quarantine_flush(tsd_t *tsd) {
	assert(tsd->tls == tls_get());
	quarantine_t *q = tsd->quarantine;
	while (q != NULL && q->n > 0) {
		quarantine_drop_first(q);
	}
	assert(q == NULL || q->bytes == 0);
}

void
quarantine_delete(tsd_t *tsd) {
	quarantine_flush(tsd);
	if (tsd->quarantine != NULL) {
		meta_free(tsd->quarantine, sizeof(quarantine_t));
		tsd->quarantine = NULL;
	}
}
