/*
 * When unused pages are due to be purged: a curve over time. Of the pages that became unused during
 * one epoch (1/200 of the decay time) all may stay at first, then fewer with each epoch, along the
 * smoothstep curve, and none after the decay time. The sum over the last 200 epochs is the limit;
 * the caller purges pages in excess of it. Pages that the program takes again leave the sum,
 * those of the latest epochs first, and count as new when they come back: so pages that are in use
 * in between do not grow old, nor does the sum grow with each return. A purge takes nothing from
 * the sum: it may purge more than is due, since extents go as a whole, and so much less is due
 * later. Everything here is arithmetic on the struct and has neither a clock nor pages: the caller
 * passes the time (monotonic, in ns), so tests pass their own. Functions named _locked need the
 * struct's mutex. Called by pac_purge.c, pac_life.c, pac_serve.c and pac_relieve.c; others read the
 * decay time with decay_ms(), and arenas.c checks default times with decay_ms_is_valid().
 */
#pragma once

#include "os/mutex.h"
#include "util/atomic.h"
#include "util/smoothstep.h"

/* Longest decay time that can be set, in milliseconds. */
#define DECAY_MS_MAX ((ssize_t)18446744072000)

typedef struct decay_s {
	mutex_t mtx;
	/*
	 * -1: never purge; 0: at once; otherwise milliseconds. Written under mtx, read without it.
	 */
	atomic_zu_t ms;
	/*
	 * Length of an epoch in nanoseconds (0 unless ms is above 0), and start of the present one.
	 * Both are also read without the mutex, so the two values may not belong together;
	 * decay_is_due() is called again under the mutex.
	 */
	atomic_u64_t epoch_ns;
	atomic_u64_t epoch_start;
	/* unused pages at the last advance; a purge lowers it to the rest */
	size_t npages_seen;
	/* pages that became unused in each epoch, oldest first */
	uint32_t backlog[SMOOTHSTEP_NSTEPS];
} decay_t;

static inline bool
decay_ms_is_valid(ssize_t ms) {
	return ms >= -1 && ms <= DECAY_MS_MAX;
}

static inline ssize_t
decay_ms(const decay_t *d) {
	return (ssize_t)atomic_load_zu(&d->ms, MO_RELAXED);
}

/* name and rank: of the mutex; the first epoch begins at `now`. */
void decay_init(decay_t *d, const char *name, unsigned rank, ssize_t ms, uint64_t now);
/* Sets a new decay time. Pages that are unused now count as new at the next advance. */
void decay_set_locked(decay_t *d, ssize_t ms, uint64_t now);

/*
 * Whether an epoch has ended, so that decay_advance_locked() is to be called; never with a decay
 * time of 0 or -1.
 */
static inline bool
decay_is_due(const decay_t *d, uint64_t now) {
	uint64_t start = atomic_load_u64(&d->epoch_start, MO_RELAXED);
	return decay_ms(d) > 0 && now >= start && now - start >= atomic_load_u64(&d->epoch_ns,
	    MO_RELAXED);
}

/* Advances to the epoch of `now`; npages: pages that are unused now. decay_is_due() holds. */
void decay_advance_locked(decay_t *d, uint64_t now, size_t npages);
/* Unused pages that may stay, as of the last advance; 0: no advance since the time was set. */
size_t decay_limit_locked(const decay_t *d);
/* Pages that became unused within the decay time, as advances counted; older ones may not stay. */
size_t decay_recent_locked(const decay_t *d);
/*
 * Nanoseconds from now until `step` of the npages unused pages are due (or all, if they are fewer),
 * if none of them is used again and decay_advance_locked() is called then; UINT64_MAX: no page is
 * unused or the decay time is -1; 0 if it is 0, or if that time has passed. It is the end of an
 * epoch, at least of this one. Pages that are not counted yet are as new as the next advance, which
 * is at the end of this epoch, finds them.
 */
uint64_t decay_ns_until_locked(const decay_t *d, uint64_t now, size_t npages, size_t step);
/*
 * Records how many unused pages are left after purging, so that pages which become unused from now
 * on count as new at the next advance.
 */
static inline void
decay_purged_locked(decay_t *d, size_t npages) {
	d->npages_seen = npages < d->npages_seen ? npages : d->npages_seen;
}
