/*
 * Hash tables of the addresses of deferred frees; deferred.h has the contract. Each table is eight
 * times as large as the one before; all but the first are mapped when needed, and stay mapped.
 *
 * The hash of an address selects 16 neighbouring slots in each table; the address is stored in the
 * first table where one of them is empty. Slots change atomically: from NULL to an address by the
 * freeing thread, back to NULL by the thread that takes it out. Invariant: a thread that put an
 * address in then sets is_used of the table and deferred_may_be; a thread that takes addresses
 * out clears these flags first. So an address is found by the walk that cleared the flags, or the
 * flags are set after that and cause the next walk. Locks: none. Called by imalloc.c, icheck.c and
 * tsd.c.
 */
#include "thread/deferred.h"

#include "os/pages.h"
#include "util/hash.h"

/*
 * Number of tables; log2 of the slots of the first one; log2 of the growth from one to the next;
 * slots that are looked at for one hash.
 */
#define N_TABLES 7u
#define LG_FIRST 9u
#define LG_STEP 3u
#define N_PROBES 16u

HIDDEN atomic_b_t deferred_may_be;

static LARGE_BSS struct {
	atomic_p_t slots[N_TABLES]; /* NULL: not mapped; [0] is not used */
	atomic_b_t is_used[N_TABLES]; /* addresses may be in the table */
	atomic_p_t first[(size_t)1 << LG_FIRST]; /* for a process that gets no more memory */
} deferred;

static size_t
table_nslots(unsigned k) {
	assert(k < N_TABLES);
	return (size_t)1 << (LG_FIRST + k * LG_STEP);
}

static atomic_p_t *
table_slots(unsigned k) {
	return k == 0 ? deferred.first : atomic_load_p(&deferred.slots[k], MO_ACQUIRE);
}

/* Returns the slots of table k, mapped if necessary; NULL without memory. */
static atomic_p_t *
table_get(unsigned k) {
	atomic_p_t *slots = table_slots(k);
	if (slots != NULL) {
		return slots;
	}
	size_t bytes = PAGE_CEILING(table_nslots(k) * sizeof(atomic_p_t));
	void *seen = NULL, *p = pages_map(NULL, bytes, PAGE, NULL);
	if (p != NULL && !atomic_cas_strong_p(&deferred.slots[k], &seen, p, MO_ACQ_REL, MO_ACQUIRE)) {
		pages_unmap_in_time(p, bytes); /* another thread was faster */
		return seen;
	}
	return p;
}

/* Puts ptr in a slot; EEXIST if it is there already, EAGAIN if no slot is empty. */
static int
table_add(unsigned k, atomic_p_t *slots, uint64_t hash, void *ptr) {
	assert(ptr != NULL && slots == table_slots(k));
	for (unsigned i = 0; i < N_PROBES; i++) {
		atomic_p_t *slot = &slots[(hash + i) & (table_nslots(k) - 1)];
		void *seen = atomic_load_p(slot, MO_RELAXED);
		if (seen == NULL && atomic_cas_strong_p(slot, &seen, ptr, MO_SEQ_CST, MO_RELAXED)) {
			atomic_store_b(&deferred.is_used[k], true, MO_SEQ_CST);
			deferred_remind();
			return 0;
		}
		if (seen == ptr) {
			return EEXIST;
		}
	}
	return EAGAIN;
}

int
deferred_add(void *ptr) {
	assert(ptr != NULL);
	uint64_t hash = hash_mix64((uintptr_t)ptr);
	int err = EAGAIN;
	for (unsigned k = 0; err == EAGAIN && k < N_TABLES; k++) {
		atomic_p_t *slots = table_get(k);
		err = slots == NULL ? ENOMEM : table_add(k, slots, hash, ptr);
	}
	return err == EAGAIN ? ENOMEM : err;
}

bool
deferred_has(const void *ptr) {
	uint64_t hash = hash_mix64((uintptr_t)ptr);
	for (unsigned k = 0; deferred_has_any() && k < N_TABLES; k++) {
		atomic_p_t *slots = table_slots(k);
		for (unsigned i = 0; slots != NULL && i < N_PROBES; i++) {
			if (atomic_load_p(&slots[(hash + i) & (table_nslots(k) - 1)], MO_RELAXED) == ptr) {
				return true;
			}
		}
	}
	return false;
}

void
deferred_take_all(void (*fn)(void *ptr, void *ctx), void *ctx) {
	atomic_exchange_b(&deferred_may_be, false, MO_SEQ_CST);
	for (unsigned k = 0; k < N_TABLES; k++) {
		/*
		 * An exchange, even if the flag is false already: so this thread sees what another one,
		 * which took addresses out earlier, stored before that (its count in imalloc.c).
		 */
		size_t n = atomic_exchange_b(&deferred.is_used[k], false, MO_SEQ_CST) ? table_nslots(k) : 0;
		for (atomic_p_t *slot = table_slots(k); n > 0; slot++, n--) {
			void *p = atomic_load_p(slot, MO_SEQ_CST);
			p = p == NULL ? NULL : atomic_exchange_p(slot, NULL, MO_SEQ_CST);
			if (p != NULL) {
				fn(p, ctx);
			}
		}
	}
}
