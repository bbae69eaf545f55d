/*
 * Vacant arenas: those whose last thread has left, by its end or for another arena. Perhaps no
 * thread ever uses or decays their unused pages again, so one bound (vacant_limit) holds for the
 * unused pages of all vacant arenas together. It is enforced at the end of a thread, because in a
 * process that is idle nobody comes later, and at ticks (arenas_try_tick), because other threads
 * free objects of vacant arenas. If all other threads are idle or ending when a thread ends, the
 * bound holds for the unused pages of all arenas (not with more than 64 threads). A thread that had
 * a heartbeat a moment ago is not idle: it probably needs the unused pages of its arena again (it
 * starts threads and waits for them, in a loop). So they are left to decay, even if it then stops
 * for good, because without background threads nobody looks again. Unused pages of vacant arenas
 * are also lent: a thread whose own arena has grown is bound to the vacant arena that has most of
 * them (vacant_try_bind), so that it takes these and not more pages of the system. Arenas that no
 * thread was ever bound to (only requests name them) are not vacant; hidden ones (of samples) are
 * not looked at. Callers: arenas.c, for tsd.c, ticks and thread.arena, inside the gate (os/gate.h:
 * fork waits meanwhile). They hold no lock, except perhaps when they count a thread
 * (vacant_thread_bound, vacant_thread_left). tsd.c asks vacant_may_exceed() itself.
 */
#pragma once

#include "arena/arena.h"

/* Bytes of unused pages that vacant arenas may keep in a process of any size. */
#define VACANT_MIN (ZU(16) << 20)
/*
 * Bytes. A thread whose arena has grown by this much since the thread last looked
 * (tsd_borrow_heartbeat) looks for a vacant arena with at least this much in unused pages, and is
 * bound to it if there is one; not with percpu_arena, nor after the program has read or written
 * thread.arena in this thread.
 */
#define VACANT_LENT (ZU(1) << 20)

/* Unused bytes that vacant arenas may keep together; used: bytes in use in all visible arenas. */
static inline size_t
vacant_limit(size_t used) {
	return max_zu(VACANT_MIN, used / 8);
}

/*
 * Whether the limit may be exceeded. A cheap test without a look at the arenas: all mapped bytes,
 * also those in use, are compared with the least limit.
 */
static inline bool
vacant_may_exceed(void) {
	return pac_mapped_all() > VACANT_MIN;
}

/* Count a thread that is bound to the arena, or no longer is. Any lock may be held. */
void vacant_thread_bound(arena_t *a);
void vacant_thread_left(arena_t *a);

/*
 * Purges unused pages of the vacant arenas until the limit is kept; with is_idle the limit holds
 * for all arenas, and each may be purged. If stocks may hold pages in use, first trims the arenas
 * (arena_trim). The arena that has been vacant longest comes first; arenas that have threads come
 * last. Skips arenas whose decay time is -1 (never) or 0 (nothing stays unused), and one that
 * another thread is purging. n: slots of the table of arenas that are looked at. Called by
 * arenas_keep_limit(), by one thread at a time.
 */
void vacant_keep_limit(unsigned n, bool is_idle);

/*
 * Counts the calling thread, of arena `from`, as bound to the vacant one of the first n arenas that
 * has most unused pages, at least VACANT_LENT bytes, and returns that; the caller unbinds it from
 * `from`. NULL: none, or another thread was faster. Arenas with the user's hooks are neither left
 * nor chosen.
 */
arena_t *vacant_try_bind(const arena_t *from, unsigned n);
