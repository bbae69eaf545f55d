/*
 * The tail mark: a fixed pattern behind a large object, where its extent has room, by which free()
 * detects a write past the end.
 *
 * With cache_oblivious an object begins at a cache line of its first page other than the first
 * line, and so ends inside a page of its extent; the mark follows it there. Objects that end at a
 * page boundary have no mark: so with other options, and in memory of extent hooks. The mark is
 * written when the object is made or resized, and stays while the extent is hot or the object in a
 * thread cache. It is not written to fresh pages of objects below LARGE_TAIL_FRESH, to save
 * touching them: there the bytes are zero, as they are after the user has discarded the page, and
 * zero is accepted. The owner of the object calls these functions; no lock is needed.
 */
#ifndef ARENA_LARGE_TAIL_H
#define ARENA_LARGE_TAIL_H

#include "meta/edata.h"
#include "os/pages.h"

/* The mark is this word, repeated. */
#define LARGE_TAIL_WORD UINT32_C(0xb3d9a7c5)
#define LARGE_TAIL_WORDS 4u
/* From this size (128 KiB) up the mark of a fresh object is written too: one page of 32. */
#define LARGE_TAIL_FRESH ((size_t)128 << 10)

/* The address behind the object, where the mark is. */
ALWAYS_INLINE uint32_t *
large_tail(const edata_t *e) {
	return (uint32_t *)(void *)(e->u.large_start + e->u.large_usize);
}

ALWAYS_INLINE bool
large_has_tail(const edata_t *e) {
	return ((uintptr_t)large_tail(e) & PAGE_MASK) != 0;
}

/*
 * Whether the first word of the mark is right, or there is no mark. ptr: where the object of e
 * begins; its size is whole pages. If false, large_tail_check() decides.
 */
ALWAYS_INLINE bool
large_tail_is_marked(const edata_t *e, const void *ptr) {
	assert(ptr == e->u.large_start && (e->u.large_usize & PAGE_MASK) == 0);
	const void *tail = (const char *)ptr + e->u.large_usize;
	return ((uintptr_t)ptr & PAGE_MASK) == 0 || likely(*(const uint32_t *)tail == LARGE_TAIL_WORD);
}

ALWAYS_INLINE void
large_tail_put(uint32_t *tail) {
	for (unsigned i = 0; i < LARGE_TAIL_WORDS; i++) {
		tail[i] = LARGE_TAIL_WORD;
	}
}

/* Whether all words of the mark are this word. */
static inline bool
large_tail_is(const uint32_t *tail, uint32_t word) {
	return tail[0] == word && tail[1] == word && tail[2] == word && tail[3] == word;
}

ALWAYS_INLINE void
large_tail_mark(const edata_t *e) {
	if (large_has_tail(e)) {
		large_tail_put(large_tail(e));
	}
}

/* The message with which the process ends after such a write. */
#define LARGE_TAIL_IS_LOST "write behind the end of a block"

/* Ends the process if the bytes behind the object are neither the mark nor zero. */
void large_tail_check(const edata_t *e);

#endif
