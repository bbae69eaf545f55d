/*
 * Numbers byte strings (intern.h): a hash table with open addressing whose slots hold the numbers
 * of entries, plus one; 0: free. It doubles when half of the slots are in use. Invariant: the
 * string of entry i begins at bytes[entries[i].at] and has a NUL behind it. No locks: a table
 * belongs to one thread. Called by pprof_*.c, otlp_encode.c and bin/symbolize/tables.c.
 */
#include "intern.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* Slots of the first hash table; the buffer of all strings stays smaller than so many bytes. */
enum { FIRST_SLOTS = 256, STRINGS_MAX = 1 << 30 };

int
array_grow(void *array, size_t *room, size_t count, size_t element) {
	void *old, *new;
	if (count < *room) {
		return 0;
	}
	size_t wanted = *room + *room / 2 + 64;
	memcpy(&old, array, sizeof(old));
	if (wanted > SIZE_MAX / element || (new = realloc(old, wanted * element)) == NULL) {
		return ENOMEM;
	}
	memcpy(array, &new, sizeof(new));
	*room = wanted;
	return 0;
}

/* Both halves of the product of 128 bits, by exclusive or. */
static uint64_t
mixed(uint64_t a, uint64_t b) {
	unsigned __int128 product = (unsigned __int128)a * b;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint32_t
hash_of(const intern_t *in, const unsigned char *bytes, size_t len) {
	uint64_t hash = in->key ^ len, word;
	for (; len >= 8; bytes += 8, len -= 8) {
		memcpy(&word, bytes, 8);
		hash = mixed(hash ^ word, in->key | 1) + 0x9e3779b97f4a7c15u;
	}
	word = 0;
	memcpy(&word, bytes, len);
	hash = mixed(hash ^ word ^ 0xd6e8feb86659fd93u, in->key | 1);
	return (uint32_t)(hash ^ (hash >> 32));
}

/* The index of the slot of a string, or of the free one where it would be. */
static size_t
slot_of(const intern_t *in, const void *bytes, size_t len, uint32_t hash) {
	size_t slot = hash & (in->nslots - 1);
	for (; in->slots[slot] != 0; slot = (slot + 1) & (in->nslots - 1)) {
		const intern_entry_t *e = &in->entries[in->slots[slot] - 1];
		if (e->hash == hash && e->len == len && memcmp(in->bytes + e->at, bytes, len) == 0) {
			break;
		}
	}
	return slot;
}

/* Doubles the slots; the first call also draws the key at random. 0, or ENOMEM: no change. */
static int
rehash(intern_t *in) {
	size_t nslots = in->nslots == 0 ? FIRST_SLOTS : in->nslots * 2;
	uint32_t *slots = calloc(nslots, sizeof(*slots));
	if (slots == NULL) {
		return ENOMEM;
	}
	if (in->nslots == 0 && getrandom(&in->key, sizeof(in->key), GRND_NONBLOCK) < 0) {
		in->key = (uint64_t)time(NULL) * 0x9e3779b97f4a7c15u ^ (uintptr_t)slots;
	}
	for (size_t i = 0; i < in->count; i++) {
		size_t slot = in->entries[i].hash & (nslots - 1);
		for (; slots[slot] != 0; slot = (slot + 1) & (nslots - 1)) {
		}
		slots[slot] = (uint32_t)i + 1;
	}
	free(in->slots);
	in->slots = slots;
	in->nslots = nslots;
	return 0;
}

/* Appends the string and a NUL to in->bytes. 0; or ENOMEM (also at STRINGS_MAX): no change. */
static int
bytes_add(intern_t *in, const void *bytes, size_t len) {
	if (in->room - in->len <= len) {
		size_t room = in->room * 2 + len + 1024;
		char *more = room < STRINGS_MAX ? realloc(in->bytes, room) : NULL;
		if (more == NULL) {
			return ENOMEM;
		}
		in->bytes = more;
		in->room = room;
	}
	memcpy(in->bytes + in->len, bytes, len);
	in->len += len;
	in->bytes[in->len++] = '\0';
	return 0;
}

uint32_t
intern_put(intern_t *in, const void *bytes, size_t len) {
	if (in->nslots <= in->count * 2 && rehash(in) != 0) {
		return INTERN_FAILED;
	}
	uint32_t hash = hash_of(in, bytes, len);
	size_t slot = slot_of(in, bytes, len, hash), at = in->len;
	if (in->slots[slot] != 0) {
		return in->slots[slot] - 1;
	}
	if (array_grow(&in->entries, &in->entry_room, in->count, sizeof(*in->entries)) != 0
	    || bytes_add(in, bytes, len) != 0) {
		return INTERN_FAILED;
	}
	in->entries[in->count] = (intern_entry_t){at, (uint32_t)len, hash};
	in->slots[slot] = (uint32_t)++in->count;
	return (uint32_t)in->count - 1;
}

const char *
intern_text(const intern_t *in, uint32_t number) {
	return in->bytes + in->entries[number].at;
}

size_t
intern_len(const intern_t *in, uint32_t number) {
	return in->entries[number].len;
}

void
intern_free(intern_t *in) {
	free(in->bytes);
	free(in->entries);
	free(in->slots);
	memset(in, 0, sizeof(*in));
}
