/*
 * Probing and growing of the hash table that htab.h describes. Invariant: an element lies in its
 * home slot (the low bits of the key's hash) or behind it (slot 0 follows the last one), with no
 * free slot in between, so a search may stop at the first free slot. Elements are never removed.
 * The lock of the owner protects the table. The caller is prof_log.c.
 */
#include "util/htab.h"

#include "util/assert.h"
#include "util/bits.h"
#include "util/hash.h"

static size_t
htab_bytes(unsigned lg_cap) {
	return sizeof(htab_slot_t) << lg_cap;
}

static htab_slot_t *
htab_slots_new(const htab_t *h, unsigned lg_cap) {
	htab_slot_t *slots = h->mem_alloc(htab_bytes(lg_cap));
	if (slots != NULL) {
		memset(slots, 0, htab_bytes(lg_cap));
	}
	return slots;
}

int
htab_init(htab_t *h, unsigned lg_cap, htab_alloc_t *mem_alloc, htab_free_t *mem_free) {
	assert(lg_cap < 48);
	h->count = 0;
	h->lg_cap = lg_cap < 2 ? 2 : lg_cap;
	h->mem_alloc = mem_alloc;
	h->mem_free = mem_free;
	h->slots = htab_slots_new(h, h->lg_cap);
	return h->slots == NULL ? ENOMEM : 0;
}

void
htab_destroy(htab_t *h) {
	if (h->slots != NULL) {
		h->mem_free(h->slots, htab_bytes(h->lg_cap));
		h->slots = NULL;
		h->count = 0;
	}
}

/* The slot of the key, or the free slot where it would be inserted. */
static htab_slot_t *
htab_probe(const htab_t *h, const void *key) {
	size_t mask = (ZU(1) << h->lg_cap) - 1;
	size_t i = hash_mix64((uintptr_t)key) & mask;
	while (h->slots[i].key != NULL && h->slots[i].key != key) {
		i = (i + 1) & mask;
	}
	return &h->slots[i];
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
			*htab_probe(h, old[i].key) = old[i];
		}
	}
	h->mem_free(old, htab_bytes(old_lg_cap));
	return 0;
}

void *
htab_find(const htab_t *h, const void *key) {
	return htab_probe(h, key)->value;
}

int
htab_insert(htab_t *h, const void *key, void *value) {
	assert(key != NULL && value != NULL);
	assert(htab_find(h, key) == NULL);
	size_t cap = ZU(1) << h->lg_cap;
	if (h->count + 1 > cap - cap / 4) {
		int err = htab_resize(h, h->lg_cap + 1);
		if (err != 0) {
			return err;
		}
	}
	*htab_probe(h, key) = (htab_slot_t){.key = key, .value = value};
	h->count++;
	return 0;
}

bool
htab_next(const htab_t *h, size_t *cursor, const void **key, void **value) {
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
