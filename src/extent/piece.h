/*
 * Huge pieces: 2 MiB of address space each that the system is asked to back by one huge page. An
 * arena that uses opt_thp_min bytes or more takes fresh memory for slabs of small objects from such
 * a piece, from its low end upwards; what is left of the piece waits here for the next slab and
 * counts as dirty. Invariant: memory is marked for huge pages (MADV_HUGEPAGE) exactly while the
 * page map says that it is a piece, so retained memory never is: a block that a program touches in
 * a few places only does not get huge pages. A piece of which a part is given back is broken: it
 * loses the mark, and so the system does not fill it again. The piece's rest is protected by
 * grow_mtx of its extent_src_t. The decisions are functions of counts and of a time. Called by pac,
 * eset and ctl.
 */
#ifndef EXTENT_PIECE_H
#define EXTENT_PIECE_H

#include "extent/ahead.h"
#include "os/nstime.h"

/* The option thp_min: bytes that an arena uses before it takes pieces. */
extern size_t opt_thp_min;

#define PIECE_SIZE (ZU(1) << EMAP_LG_HUGE)

/*
 * The first touch of a piece zeroes 2 MiB, and the system may move other pages to make room. If it
 * takes longer than PIECE_SLOW_NS PIECE_SLOW_MAX times in a row because of that, or if a piece
 * cannot be had, no pieces are taken for PIECE_PAUSE_NS. A virtual machine whose host has taken
 * free memory back needs longer than that for 2 MiB in pages of any size; this does not count.
 */
#define PIECE_SLOW_NS (UINT64_C(5) * NSTIME_PER_MSEC)
#define PIECE_SLOW_MAX 3u
#define PIECE_PAUSE_NS (UINT64_C(60) * NSTIME_PER_SEC)

/* Whether pieces are taken now. All zero: nothing was slow yet. Threads may race for it. */
typedef struct {
	atomic_u32_t nslow;        /* slow first touches in a row */
	atomic_u64_t stalls;       /* the system's count of stalls at the last of them */
	atomic_u64_t paused_until; /* monotonic time in nanoseconds; 0: not paused */
} piece_guard_t;

static inline bool
piece_guard_is_open(const piece_guard_t *g, uint64_t now) {
	return now >= atomic_load_u64(&g->paused_until, MO_RELAXED);
}

static inline void
piece_guard_pause(piece_guard_t *g, uint64_t now) {
	atomic_store_u64(&g->paused_until, now + PIECE_PAUSE_NS, MO_RELAXED);
	atomic_store_u32(&g->nslow, 0, MO_RELAXED);
}

/*
 * Notes that a first touch took this many nanoseconds. stalls: the system's count of stalls (see
 * pages_stalls()), which is not looked at if it was fast. Returns true if this begins a pause.
 */
bool piece_guard_note(piece_guard_t *g, uint64_t took, uint64_t stalls, uint64_t now);

/* Counters of the process, stats.thp.*: X(name, type, text for the manual). */
#define PIECE_STATS_FIELDS(X) \
	X(pieces, size_t, "huge pieces of 2 MiB that there are now, in use or dirty") \
	X(npieces, size_t, "huge pieces that were made since the start") \
	X(nbroken, size_t, "huge pieces of which a part was given back, which ended them") \
	X(nslow, size_t, "huge pieces whose first touch took more than 5 ms") \
	X(npauses, size_t, \
	    "times that no more were made for a minute: three slow ones in a row, or a refusal")

/* All of stats.thp.*: these and those of populating. */
#define THP_STATS_FIELDS(X) AHEAD_STATS_FIELDS(X) PIECE_STATS_FIELDS(X)

typedef struct {
#define THP_STATS_FIELD(name, type, says) type name;
	THP_STATS_FIELDS(THP_STATS_FIELD)
#undef THP_STATS_FIELD
	const char *state; /* piece_state() of the moment that ctl took; the counters do not set it */
} thp_stats_t;

/* Fills in the counters. */
void thp_stats_read(thp_stats_t *out);
/* Why pieces are made or not, in a few words. */
const char *piece_state(void);

/* The piece from which an arena takes memory at present. Zeroed: none. */
typedef struct {
	/* edata_t *, marked as hot: the part that was not taken yet. */
	atomic_p_t rest;
	/* Pages below this were populated. */
	char *ready;
	/* What piece_try_idle() saw last, and since when; of the decay's mutex, not of grow_mtx. */
	size_t idle_size;
	uint64_t idle_since;
} piece_t;

/* Pages that wait in the piece. May be called without a lock. */
static inline size_t
piece_npages(const piece_t *p) {
	const edata_t *e = atomic_load_p(&p->rest, MO_RELAXED);
	return e == NULL ? 0 : __atomic_load_n(&e->size, __ATOMIC_RELAXED) >> LG_PAGE;
}

/*
 * Takes size bytes, at most AHEAD_REQUEST_PAGES pages, for an arena with `use` bytes in use: from
 * the piece's rest, or from a new piece. *added: bytes of a new piece. NULL: the arena is small,
 * the system makes no huge pages, a limit of memory is near, a shorter retained extent fits, which
 * is to be used first, or there is no memory.
 */
edata_t *piece_take(extent_src_t *src, piece_t *p, ecache_t *dirty, ecache_t *retained, size_t use,
    size_t size, size_t *added);
/* Takes the piece's rest as a whole; NULL: there is none. */
edata_t *piece_take_rest(extent_src_t *src, piece_t *p);
/* Makes the piece's rest dirty. */
void piece_flush(extent_src_t *src, piece_t *p, ecache_t *dirty);
/* Whether nothing was taken from a piece's rest for this many nanoseconds. One thread at a time. */
bool piece_try_idle(piece_t *p, uint64_t now, uint64_t ns);

/*
 * Bytes of dirty memory that an arena with `use` bytes in use keeps for good rather than break
 * pieces: a 256th, if there are pieces.
 */
#define PIECE_LG_KEPT 8
size_t piece_kept(size_t use);
/* To be called before the memory is given back: the pieces in it, also in part, end. */
void piece_break(const char *addr, size_t size);

#endif
