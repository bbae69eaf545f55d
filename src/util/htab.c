/*
 * Probing and growing of the hash table that htab.h describes. Invariant: an element lies in its
 * home slot (the low bits of its hash) or behind it (slot 0 follows the last one), with no free
 * slot in between, so a search may stop at the first free slot. Elements are never removed. The
 * lock of the owner protects the table. The caller is prof_log.c.
 */
#include "util/htab.h"

#include "util/assert.h"
#include "util/bits.h"
#include "util/hash.h"

static size_t
htab_mask(const htab_t *h) {
	return (ZU(1) << h->lg_cap) - 1;
}

static size_t
htab_bytes(unsigned lg_cap) {
	return sizeof(htab_slot_t) << lg_cap;
}

static htab_slot_t *
htab_slots_new(const htab_t *h, unsigned lg_cap) {
	htab_slot_t *slots = h->mem_alloc(h->opaque, htab_bytes(lg_cap));
	if (slots != NULL) {
		memset(slots, 0, htab_bytes(lg_cap));
	}
	return slots;
}

int
htab_init(htab_t *h, unsigned lg_cap, htab_hash_t *hash_fn, htab_eq_t *eq_fn,
    htab_alloc_t *mem_alloc, htab_free_t *mem_free, void *opaque) {
	assert(lg_cap < 48);
	h->count = 0;
	h->lg_cap = lg_cap < 2 ? 2 : lg_cap;
	h->hash_fn = hash_fn;
	h->eq_fn = eq_fn;
	h->mem_alloc = mem_alloc;
	h->mem_free = mem_free;
	h->opaque = opaque;
	h->slots = htab_slots_new(h, h->lg_cap);
	return h->slots == NULL ? ENOMEM : 0;
}

void
htab_destroy(htab_t *h) {
	if (h->slots != NULL) {
		h->mem_free(h->opaque, h->slots, htab_bytes(h->lg_cap));
		h->slots = NULL;
		h->count = 0;
	}
}

/* The index of the slot of an equal key, or of the free slot where the key would be inserted. */
static size_t
htab_probe(const htab_t *h, const void *key, uint64_t hash) {
	size_t mask = htab_mask(h);
	size_t i = hash & mask;
	while (h->slots[i].key != NULL) {
		if (h->slots[i].hash == hash && h->eq_fn(h->slots[i].key, key)) {
			break;
		}
		i = (i + 1) & mask;
	}
	return i;
}

/* Stores a slot's contents, whose key must be absent, in the first free slot from its home on. */
static void
htab_place(htab_t *h, const htab_slot_t *slot) {
	size_t mask = htab_mask(h);
	size_t i = slot->hash & mask;
	while (h->slots[i].key != NULL) {
		i = (i + 1) & mask;
	}
	h->slots[i] = *slot;
}

/*
 * Moves all elements to a table of 2^lg_cap slots. Returns 0, or ENOMEM with the table unchanged.
 */
static int
htab_resize(htab_t *h, unsigned lg_cap) {
	htab_slot_t *fresh = htab_slots_new(h, lg_cap);
	if (fresh == NULL) {
		return ENOMEM;
	}
	htab_slot_t *old = h->slots;
	unsigned old_lg_cap = h->lg_cap;
	h->slots = fresh;
	h->lg_cap = lg_cap;
	for (size_t i = 0; i < ZU(1) << old_lg_cap; i++) {
		if (old[i].key != NULL) {
			htab_place(h, &old[i]);
		}
	}
	h->mem_free(h->opaque, old, htab_bytes(old_lg_cap));
	return 0;
}

void *
htab_find(const htab_t *h, const void *key) {
	return h->slots[htab_probe(h, key, h->hash_fn(key))].value;
}

int
htab_insert(htab_t *h, void *key, void *value) {
	assert(key != NULL && value != NULL);
	assert(htab_find(h, key) == NULL);
	size_t cap = ZU(1) << h->lg_cap;
	if (h->count + 1 > cap - cap / 4) {
		int err = htab_resize(h, h->lg_cap + 1);
		if (err != 0) {
			return err;
		}
	}
	htab_slot_t slot = {.hash = h->hash_fn(key), .key = key, .value = value};
	htab_place(h, &slot);
	h->count++;
	return 0;
}

bool
htab_next(const htab_t *h, size_t *cursor, void **key, void **value) {
	for (size_t i = *cursor; i < ZU(1) << h->lg_cap; i++) {
		if (h->slots[i].key != NULL) {
			*cursor = i + 1;
			*key = h->slots[i].key;
			*value = h->slots[i].value;
			return true;
		}
	}
	*cursor = ZU(1) << h->lg_cap;
	return false;
}

uint64_t
htab_hash_ptr(const void *key) {
	return hash_mix64((uint64_t)(uintptr_t)key);
}

bool
htab_eq_ptr(const void *a, const void *b) {
	return a == b;
}
