/*
 * Canaries: in builds with --enable-opt-safety-checks (config_hardening) bytes of known contents
 * behind each small object, by which a write outside of it is detected. Other builds write and
 * check none: there sizes pass unchanged, and a function that does not test config_hardening is not
 * called. Callers: imalloc.h, imalloc.c, irealloc.c, icheck.c, jemalloc.c and jemalloc_init.c;
 * arena.h, slab.c, arena.c, large.c, large_marks.h; quarantine.c and shelter.c.
 *
 * A region of C bytes (the size of its class; C >= CANARY_BYTES) serves requests of up to C -
 * CANARY_BYTES bytes. After a request of n bytes, which is then the object's usable size, it has:
 *
 *   [0, n)           the object
 *   [n, n + 16)      canary bytes, as far as they are below C - 8
 *   [C - 16, C - 8)  canary bytes, always
 *   [C - 8, C)       the state: that the region is free, or n
 *
 * The last two words never belong to the user, so that the words in front of an object, which are
 * the last ones of the region before it in the slab, are known too. They are written when the slab
 * is made. The state of a region changes by one store of its owner, so that the owner of the next
 * region may read it at any time. At each instruction a thread cache holds only regions whose state
 * is free: a fork in another thread, or in a signal handler, may copy the cache at any instruction
 * (arena/cache_bin.h), and the child returns the regions of absent threads to their slabs. Locks:
 * none.
 *
 * A small request for which no class has room, or whose alignment no class has, gets a large
 * object, with canary bytes in [n, n + 16). Marks (large_marks.h) are outside of the whole object.
 */
#pragma once

#include "meta/edata.h"
#include "meta/sz.h"

#define CANARY_WORD_BYTES sizeof(uint64_t)
/* Bytes of a region that no request gets. */
#define CANARY_BYTES (config_hardening ? 2 * CANARY_WORD_BYTES : (size_t)0)

/*
 * canary_word: the canary bytes, eight times the same byte, which is not 0. canary_key: the word
 * with which states are xored. Both are random, set at boot.
 */
extern HIDDEN uint64_t canary_word;
extern HIDDEN uint64_t canary_key;

void canary_boot(void);

/* The size, in bytes, by which the class of a request of `size` bytes is found. */
ALWAYS_INLINE size_t
canary_padded(size_t size) {
	return size <= SC_SMALL_MAXCLASS ? size + CANARY_BYTES : size;
}

/* Bytes of the region or of the large object that serves a request; 0: too large. */
static inline size_t
canary_usize(size_t size, size_t alignment) {
	assert(alignment == 0 || is_pow2_zu(alignment));
	size = canary_padded(size);
	return alignment == 0 ? sz_s2u(size) : sz_sa2u(size, alignment);
}

/*
 * The bytes that a request of `size` bytes, served by usize bytes, may use; 0 if usize is 0, and in
 * hardened builds also if size is.
 */
ALWAYS_INLINE size_t
canary_usable(size_t size, size_t usize) {
	return config_hardening && usize != 0 && size <= SC_SMALL_MAXCLASS ? size : usize;
}

/*
 * The greatest request of a class of small objects of reg bytes. A class without room for canaries
 * serves no request in hardened builds, and its regions have no canaries; the result is reg.
 */
ALWAYS_INLINE size_t
canary_room(size_t reg) {
	return reg < CANARY_BYTES ? reg : reg - CANARY_BYTES;
}

ALWAYS_INLINE uint64_t
canary_load(const char *p) {
	uint64_t word;
	memcpy(&word, p, sizeof(word));
	return word;
}

/*
 * The state of the region that ends at `end`: 0: free; else 1 more than the size of the request.
 * The word holds it twice, so that after a change of one byte the result is at least 2^32, which is
 * no state: sizes of small requests are far below.
 */
ALWAYS_INLINE uint64_t
canary_state(const char *end) {
	uint64_t word = __atomic_load_n((const uint64_t *)(const void *)(end - CANARY_WORD_BYTES),
	    MO_RELAXED) ^ canary_key;
	return word ^ word << 32;
}

ALWAYS_INLINE void
canary_set_state(char *end, uint64_t state) {
	uint64_t word = state | state << 32;
	__atomic_store_n((uint64_t *)(void *)(end - CANARY_WORD_BYTES), word ^ canary_key, MO_RELAXED);
}

/* Writes the last words of a region that is free; reg: its bytes. */
ALWAYS_INLINE void
canary_begin(char *ptr, size_t reg) {
	if (config_hardening && reg >= CANARY_BYTES) {
		memcpy(ptr + canary_room(reg), &canary_word, sizeof(canary_word));
		canary_set_state(ptr + reg, 0);
	}
}

/* Makes a region of reg bytes, whose last words are there, an object of n bytes. Returns ptr. */
ALWAYS_INLINE void *
canary_put(void *ptr, size_t reg, size_t n) {
	if (config_hardening) {
		char *p = ptr;
		size_t room = canary_room(reg);
		assert(n <= room);
		__atomic_signal_fence(__ATOMIC_RELEASE); /* first the pop, then these stores */
		memcpy(p + n, &canary_word, sizeof(canary_word));
		memcpy(p + min_zu(n + CANARY_WORD_BYTES, room), &canary_word, sizeof(canary_word));
		canary_set_state(p + reg, n + 1);
	}
	return ptr;
}

/* canary_put() as the last operand of && in a condition: always true. */
ALWAYS_INLINE bool
canary_did_put(void *ptr, size_t reg, size_t n) {
	canary_put(ptr, reg, n);
	return true;
}

/* Makes a large object, which serves a small request, one of n bytes. */
ALWAYS_INLINE void
canary_put_large(edata_t *e, size_t n) {
	assert(n <= SC_SMALL_MAXCLASS && n + CANARY_BYTES <= e->u.large_usize);
	e->large_request = (uint32_t)n + 1;
	memcpy(e->u.large_start + n, &canary_word, sizeof(canary_word));
	memcpy(e->u.large_start + n + CANARY_WORD_BYTES, &canary_word, sizeof(canary_word));
}

/* The bytes of a large object that the program may use. */
ALWAYS_INLINE size_t
canary_large_size(const edata_t *e) {
	return config_hardening && e->large_request != 0 ? e->large_request - 1
	    : e->u.large_usize;
}

/*
 * Whether the canaries of a large object are there, if it has any. Zeros are right too: the program
 * may have discarded its pages by madvise(), which does so up to the end of the last page.
 */
ALWAYS_INLINE bool
canary_is_large_intact(const edata_t *e) {
	if (!config_hardening || e->large_request == 0) {
		return true;
	}
	const char *p = e->u.large_start + canary_large_size(e);
	uint64_t word = canary_load(p);
	return (word == canary_word || word == 0) && canary_load(p + CANARY_WORD_BYTES) == word;
}

/* Notes that an object is free. */
ALWAYS_INLINE void
canary_end(void *ptr, size_t reg) {
	if (config_hardening) {
		canary_set_state((char *)ptr + reg, 0);
		__atomic_signal_fence(__ATOMIC_RELEASE);
	}
}

/*
 * Whether [ptr, ptr + reg) lies in the slab and begins, and so ends, at a multiple of 8 bytes from
 * the slab's start: the words at its end can be read. ptr may be inside a region all the same.
 */
ALWAYS_INLINE bool
canary_may_begin(const void *ptr, size_t reg, const edata_t *slab) {
	size_t off = (size_t)((const char *)ptr - slab->addr);
	return off % CANARY_WORD_BYTES == 0 && off + reg <= slab->size;
}

/*
 * The size of the request that the object of a region of reg bytes serves, which may be 0; 0 also
 * if ptr, any pointer into the slab, is no object in use.
 */
static inline size_t
canary_size(const void *ptr, size_t reg, const edata_t *slab) {
	if (!canary_may_begin(ptr, reg, slab)) {
		return 0;
	}
	uint64_t state = canary_state((const char *)ptr + reg);
	return state - 1 <= canary_room(reg) ? (size_t)(state - 1) : 0;
}

/* Whether the region of reg bytes at p is an object in use whose canaries are there. */
ALWAYS_INLINE bool
canary_is_region_intact(const char *p, size_t reg) {
	size_t n = (size_t)(canary_state(p + reg) - 1), room = canary_room(reg);
	return likely(n <= room) && likely(canary_load(p + room) == canary_word)
	    && likely(canary_load(p + n) == canary_word)
	    && likely(canary_load(p + min_zu(n + CANARY_WORD_BYTES, room)) == canary_word);
}

/*
 * Whether the last two words of the region in front of p, of the same slab, are intact: canary
 * bytes, and a state that a region of reg bytes can have.
 */
ALWAYS_INLINE bool
canary_is_front_intact(const char *p, size_t reg) {
	return canary_load(p - CANARY_BYTES) == canary_word && canary_state(p) <= canary_room(reg) + 1;
}

/*
 * Whether an object in use begins at ptr, a region of reg bytes of this slab, and all canaries of
 * it and in front of it are there. ptr may be any pointer into the slab.
 */
ALWAYS_INLINE bool
canary_is_intact(const void *ptr, size_t reg, const edata_t *slab) {
	return likely(canary_may_begin(ptr, reg, slab)) && canary_is_region_intact(ptr, reg)
	    && (ptr == slab->addr || likely(canary_is_front_intact(ptr, reg)));
}

/*
 * Returns true if canary_is_intact(); else ends the process, or returns false if safety_abort_hook
 * is set and returns. if_freed: the message for a region that is free.
 */
bool canary_check(const void *ptr, size_t reg, const edata_t *slab, const char *if_freed);
/*
 * Ends the process unless each of n regions of reg bytes is free and its last words are there;
 * returns after such a fault only if safety_abort_hook does. For regions that come from slabs to a
 * thread cache, or go back.
 */
void canary_check_free(void *const *ptrs, unsigned n, size_t reg);
