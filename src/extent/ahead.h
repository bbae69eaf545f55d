/*
 * Populates runs of pages before their first touch: sizes, limits and counters. A page fault costs
 * more than zeroing the page; a run of pages populated in one system call costs about half as much
 * per page (test/stress/bench_fault.c prints it). So when an arena needs address space without
 * pages for a slab of objects up to half a page, and no huge piece (piece.h) serves it, it takes a
 * run of a 64th of the bytes it uses (16 KiB, or a page if that is more, to 256 KiB) and puts it
 * into its dirty cache, for this request and the next ones. Near a limit of memory (os/room.h) no
 * run is taken; after a first failure nothing is populated any more. No lock of its own:
 * ahead_fill() takes those of the two caches, and that of growth, under which the retained cache's
 * is taken again; the other functions take none, and piece.c and bases call them under their locks.
 * Called by pac.c, by piece.c (which has counters here), by bases (meta/base.h) through a hook, and
 * by jemalloc_init.c; thp_stats_read() by ctl_snapshot.c, prof_frag.c and prof_figures.c.
 */
#pragma once

#include "extent/extent.h"

/* The option populate. */
extern bool opt_populate;

/*
 * Greatest request, in pages, for which a run is taken. By default no slab of objects up to half a
 * page is longer; the option slab_sizes can make longer ones, which then get no run.
 */
#define AHEAD_REQUEST_PAGES 8u

/*
 * With fewer bytes than this until a limit of memory is near (room_now(), os/room.h), no run is
 * taken, no huge piece is made, and no base populates. The rest of a piece is populated even then.
 */
#define AHEAD_ROOM (ZU(4) << 20)

/*
 * Counters of the process, stats.thp.*, all but `pieces` since its start: X(name, type, text for
 * the manual). The first four are of this file, the others of the huge pieces (piece.c).
 */
#define THP_STATS_FIELDS(X) \
	X(populated, size_t, "bytes that were populated before their first touch, since the start") \
	X(npopulate, size_t, "calls that this took") \
	X(nfailures, size_t, "such calls that the system refused; after the first one none is made") \
	X(nlimited, size_t, "times that nothing was populated because a limit of memory was near") \
	X(pieces, size_t, "huge pieces of 2 MiB that there are now, in use or dirty") \
	X(npieces, size_t, "huge pieces that were made since the start") \
	X(nbroken, size_t, "huge pieces of which a part was given back, which ended them") \
	X(nslow, size_t, "huge pieces whose first touch took more than 5 ms") \
	X(npauses, size_t, \
	    "times that no more were made for a minute: three slow ones in a row, or no memory for one")

extern HIDDEN struct thp_counts_s {
#define THP_COUNTER(name, type, says) atomic_zu_t name;
	THP_STATS_FIELDS(THP_COUNTER)
#undef THP_COUNTER
} thp_counts;

typedef struct {
#define THP_STATS_FIELD(name, type, says) type name;
	THP_STATS_FIELDS(THP_STATS_FIELD)
#undef THP_STATS_FIELD
	const char *state; /* piece_state(), set by ctl; thp_stats_read() does not set it */
} thp_stats_t;

/* Fills in the counters. */
void thp_stats_read(thp_stats_t *out);

/*
 * Length in bytes of the run that an arena with `use` bytes in use takes for a request of size
 * bytes: that of base_ahead(), a multiple of PAGE, greater than size; 0: no run is taken.
 */
static inline size_t
ahead_run(size_t use, size_t size) {
	size_t run = base_ahead(use);
	return size <= (size_t)AHEAD_REQUEST_PAGES << LG_PAGE && run > size ? run : 0;
}

/*
 * Takes address space without pages, from `size` (or BASE_AHEAD_MIN, if that is more) up to `run`
 * bytes of it, populates it, and puts it into the dirty cache, where it joins the rest of the run
 * before, so that no gap remains between runs. Returns the bytes populated, by which the caller
 * raises pac_t.mapped. 0: no memory, populating is off, fails or has failed before, a limit of
 * memory is near, the arena has hooks of the user, or the retained memory that fits is shorter or
 * not known to be zero. 0 also if a dirty extent could hold the request: the caller has left it
 * because it is too long for that (opt_lg_extent_max_active_fit), and a run that joins it would be
 * left too. The caller holds no lock.
 */
size_t ahead_fill(extent_src_t *src, ecache_t *dirty, ecache_t *retained, size_t size, size_t run);
/*
 * Populates just these pages, of a huge piece or a base, without asking ahead_try_room(). Returns
 * size; 0: populating is off, fails or has failed before.
 */
size_t ahead_populate_more(char *addr, size_t size);
/* Nanoseconds for populating size bytes (no huge pages), by the last ahead_fill(); 0: not known. */
uint64_t ahead_small_ns(size_t size);
/* Called once at boot: from now on bases populate their memory too, if the option is on. */
void ahead_boot(void);
/* Whether no limit of memory is near (AHEAD_ROOM); if one is, counts that (nlimited). */
bool ahead_try_room(void);
