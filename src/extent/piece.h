/*
 * Huge pieces: 2 MiB of address space each that the system is asked to back by one huge page. An
 * arena that uses opt_thp_min bytes or more (and 1 to 3 MiB or more, see ahead_run()) takes fresh
 * memory for slabs of small objects from such a piece, from its low end upwards; the rest of the
 * piece stays here for the next slabs, and pac_ndirty() counts it as dirty. Invariant: this module
 * marks memory for huge pages (MADV_HUGEPAGE) exactly while the page map says that it is a piece,
 * and muzzy or retained memory is no piece. So large blocks in retained or new memory get no huge
 * pages from here, which would be wasted if only a few places of them were touched. When part of a
 * piece is purged, the piece is broken: it loses the mark, so that the system does not fill it
 * again. Locks: the functions that change the piece's rest take grow_mtx of its extent_src_t;
 * piece_flush_locked() is called with it. piece_break() needs none: the page map's bit is atomic,
 * and the caller owns the memory of the range. Callers are inside the gate (os/gate.h: fork waits
 * meanwhile) and hold no lock of a cache. Called by pac*.c, piece_break() by holes.c and shut.c
 * too, piece_boot() by jemalloc_init.c, piece_state() by ctl_snapshot.c.
 */
#pragma once

#include "extent/ahead.h"
#include "os/nstime.h"

/* The option thp_min: bytes that an arena uses before it takes pieces. */
extern size_t opt_thp_min;

#define PIECE_SIZE (ZU(1) << EMAP_LG_HUGE)

/*
 * The first touch of a piece zeroes 2 MiB, and the system may move other pages to make room. It is
 * slow if it takes longer than PIECE_SLOW_NS and longer than PIECE_SLOW_RATIO times what 2 MiB of
 * small pages took last. (The counter stats.thp.nslow counts by PIECE_SLOW_NS alone.) After
 * PIECE_SLOW_MAX slow ones in a row, or if there is no memory for a piece, no piece is made for
 * PIECE_PAUSE_NS; after another error of the system none is made any more. The ratio matters in a
 * virtual machine whose host has reclaimed memory: there pages of any size are slow.
 */
#define PIECE_SLOW_NS (UINT64_C(5) * NSTIME_PER_MSEC)
#define PIECE_SLOW_RATIO 4u
#define PIECE_SLOW_MAX 3u
#define PIECE_PAUSE_NS (UINT64_C(60) * NSTIME_PER_SEC)

/*
 * Whether pieces may be made now, in the whole process. All zero: no slow touch yet. Updates may
 * race, harmlessly.
 */
typedef struct {
	atomic_u32_t nslow;        /* slow first touches in a row */
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
 * Records that a first touch took `took` nanoseconds, when 2 MiB of small pages took `small` last
 * (0: not known). now: monotonic ns. Returns true if this begins a pause.
 */
bool piece_guard_note(piece_guard_t *g, uint64_t took, uint64_t small, uint64_t now);

/*
 * Asks the system whether pieces can be made. Called at boot, because a program may forbid the
 * system calls that this needs after its start.
 */
void piece_boot(void);
/*
 * Whether pieces are made, and if not, why, in a few words. A constant string; not to be called
 * before piece_boot().
 */
const char *piece_state(void);

/* The piece from which an arena takes memory at present. Zeroed: none. */
typedef struct {
	/*
	 * edata_t * in the state hot (unused, and in no cache): the part that was not taken yet; NULL:
	 * none. Written under grow_mtx, read without.
	 */
	atomic_p_t rest;
	/* Pages of the newest piece below this address were populated; under grow_mtx. */
	char *ready;
	/*
	 * The size of the rest, in pages, that piece_try_idle() saw last, and since when (monotonic
	 * ns); under the dirty decay's mutex, not grow_mtx.
	 */
	size_t idle_size;
	uint64_t idle_since;
} piece_t;

/* Pages of the piece's rest; 0: there is none. May be called without a lock. */
static inline size_t
piece_npages(const piece_t *p) {
	const edata_t *e = atomic_load_p(&p->rest, MO_RELAXED);
	return e == NULL ? 0 : __atomic_load_n(&e->size, __ATOMIC_RELAXED) >> LG_PAGE;
}

/*
 * Takes size bytes for an arena with `use` bytes in use: from the piece's rest if that is long
 * enough, or else from a new piece; the rest of the former piece then becomes dirty. *added: bytes
 * of a new piece, 0 if none was made; a piece that was made stays also if the result is NULL. NULL:
 * there is no memory, or the rest is too short and no new piece may be made. That is so if use is
 * below opt_thp_min, size exceeds AHEAD_REQUEST_PAGES pages, the system makes no huge pages, a
 * pause is on, a limit of memory is near, the arena has hooks of the user, or a retained extent
 * that is shorter than a piece is long enough for the request (such extents are used first).
 */
edata_t *piece_take(extent_src_t *src, piece_t *p, ecache_t *dirty, ecache_t *retained, size_t use,
    size_t size, size_t *added);
/* Takes the piece's rest as a whole, as an active extent; NULL: there is none. */
edata_t *piece_take_rest(extent_src_t *src, piece_t *p);
/* Both make the piece's rest dirty, if there is one; the second for a caller with grow_mtx. */
void piece_flush(extent_src_t *src, piece_t *p, ecache_t *dirty);
void piece_flush_locked(extent_src_t *src, piece_t *p, ecache_t *dirty);
/*
 * Whether there is a rest and nothing was taken from it for ns nanoseconds. Only the sizes of the
 * rest at these calls are compared; updates idle_size and idle_since. Under the dirty decay's
 * mutex.
 */
bool piece_try_idle(piece_t *p, uint64_t now, uint64_t ns);

/*
 * piece_kept(): bytes of dirty memory inside pieces that the decay of an arena with `use` bytes in
 * use does not purge, because that would break pieces: use / 2^PIECE_LG_KEPT (a 256th) if the arena
 * is large enough for pieces and the process has any, else 0. A limit of unused memory, or mallctl,
 * purges these too.
 */
#define PIECE_LG_KEPT 8
size_t piece_kept(size_t use);
/*
 * To be called before memory is purged or unmapped: each piece that lies in it, wholly or in part,
 * loses its mark and is a piece no more.
 */
void piece_break(const char *addr, size_t size);
