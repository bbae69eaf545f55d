/*
 * Memory that is got ready before it is touched: how much at a time, and what came of it. A page
 * fault costs more than the page; a run of pages that is populated in one call costs about half as
 * much a page (test/stress/bench_fault.c prints it). So where an arena takes address space without
 * pages for a slab of objects up to half a page, it takes a run of a 64th of what it uses, which
 * waits in its dirty cache for this request and the next ones. The decisions are functions of
 * counts only. No lock; called by pac.
 */
#ifndef EXTENT_AHEAD_H
#define EXTENT_AHEAD_H

#include "extent/extent.h"

/* The option populate. */
extern bool opt_populate;

/*
 * A run is at most 1 / 2^AHEAD_LG_PART of what the arena uses, so at most that part of its memory
 * is there too early; and between these two sizes. An arena that uses less than 1 MiB has none.
 */
#define AHEAD_LG_PART 6
#define AHEAD_MIN (ZU(16) << 10)
#define AHEAD_MAX (ZU(256) << 10)
/*
 * Greatest request, in pages, that begins a run: slabs are no longer, and of a larger block the
 * program may touch only a part.
 */
#define AHEAD_REQUEST_PAGES 8u

/*
 * Limits of memory (os/room.h) are looked at when this many bytes have been populated, and again
 * when this many more, or a quarter of the room that there was. Near a limit nothing is
 * populated; each AHEAD_LOOK_TRIES-th run looks again.
 */
#define AHEAD_LOOK_FIRST (ZU(4) << 20)
#define AHEAD_LOOK_STEP (ZU(64) << 20)
#define AHEAD_LOOK_TRIES 64u

/* Counters of the process since its start, stats.thp.*: X(name, type, text for the manual). */
#define AHEAD_STATS_FIELDS(X) \
	X(populated, size_t, "bytes that were populated before their first touch, since the start") \
	X(npopulate, size_t, "calls that this took") \
	X(nfailures, size_t, "such calls that the system refused; after the first one none is made") \
	X(nlimited, size_t, "times that nothing was populated because a limit of memory was near")

typedef struct {
#define AHEAD_STATS_FIELD(name, type, says) type name;
	AHEAD_STATS_FIELDS(AHEAD_STATS_FIELD)
#undef AHEAD_STATS_FIELD
} ahead_stats_t;

/*
 * Bytes that an arena with `use` bytes in use takes at once for a request of size bytes; 0: only
 * the request. A multiple of PAGE, greater than size.
 */
static inline size_t
ahead_run(size_t use, size_t size) {
	size_t run = min_zu(use >> AHEAD_LG_PART, AHEAD_MAX) & ~(max_zu(AHEAD_MIN, PAGE) - 1);
	return size <= (size_t)AHEAD_REQUEST_PAGES << LG_PAGE && run > size ? run : 0;
}

/* Bytes that may be populated before the next look, with so much room; 0: none. */
static inline size_t
ahead_step(size_t room) {
	return room < AHEAD_LOOK_FIRST ? 0 : min_zu(room / 4, AHEAD_LOOK_STEP);
}

/*
 * Takes size to `run` bytes that have no pages, populates them, and puts them into the dirty cache,
 * where they join what is left of the run before: so nothing between two runs is too short to be
 * used. Returns how many bytes came into memory. 0: nothing is left, populating has failed before,
 * a limit of memory is near, the arena has hooks of the program, or a long extent is dirty, with
 * which the run might join and be kept for long requests like it.
 */
size_t ahead_fill(extent_src_t *src, ecache_t *dirty, ecache_t *retained, size_t size, size_t run);
/* Populates pages of a huge piece. Returns size; 0: not done, because it is off or has failed. */
size_t ahead_populate_more(char *addr, size_t size);
/* From now on bases populate ahead too (meta/base.h), if it is on. */
void ahead_boot(void);
/* Whether no limit of memory is near, as far as the last look says. */
bool ahead_try_room(void);
void ahead_stats_read(ahead_stats_t *out);

#endif
