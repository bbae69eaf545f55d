/*
 * When unused pages are due to go: a curve over time, no clock and no pages of its own.
 *
 * Pages that became unused during one epoch (a 200th of the decay time) stay in full at first and
 * are allowed to remain ever less, along smoothstep, until the decay time is over.  The sum over all
 * epochs is the limit; whoever owns the pages purges what is above it.
 * Everything here is plain arithmetic on the struct, under the struct's lock; the caller brings the
 * time, so a test brings its own.
 */
#ifndef EXTENT_DECAY_H
#define EXTENT_DECAY_H

#include "os/mutex.h"
#include "util/atomic.h"
#include "util/smoothstep.h"

/* Longest decay time that can be set. */
#define DECAY_MS_MAX ((ssize_t)18446744072000)

typedef struct decay_s {
	mutex_t mtx;
	/* -1: never; 0: at once; else milliseconds. Written under mtx, read without. */
	atomic_zu_t ms;
	/* Length of an epoch, start of the current one. Also these are read without the lock: then they
	   may not belong together, and the look that follows under the lock finds nothing due. */
	atomic_u64_t epoch_ns;
	atomic_u64_t epoch_start;
	size_t npages_seen;    /* unused pages at the end of the last look */
	uint32_t backlog[SMOOTHSTEP_NSTEPS]; /* pages that came in each epoch, oldest first */
} decay_t;

static inline bool
decay_ms_is_valid(ssize_t ms) {
	return ms >= -1 && ms <= DECAY_MS_MAX;
}

static inline ssize_t
decay_ms(const decay_t *d) {
	return (ssize_t)atomic_load_zu(&d->ms, MO_RELAXED);
}

void decay_init(decay_t *d, const char *name, unsigned rank, ssize_t ms, uint64_t now);
/* A new decay time; what is unused now starts to decay afresh. */
void decay_set_locked(decay_t *d, ssize_t ms, uint64_t now);

/* An epoch has ended: it is time to call decay_advance_locked. */
static inline bool
decay_is_due(const decay_t *d, uint64_t now) {
	uint64_t start = atomic_load_u64(&d->epoch_start, MO_RELAXED);
	return decay_ms(d) > 0 && now >= start && now - start >= atomic_load_u64(&d->epoch_ns, MO_RELAXED);
}

/* Moves on to the epoch of now, npages being unused. */
void decay_advance_locked(decay_t *d, uint64_t now, size_t npages);
/* How many pages may stay. */
size_t decay_limit_locked(const decay_t *d);
/*
 * Nanoseconds from now until step of the npages unused ones are due (all, if they are fewer), at most
 * the decay time; UINT64_MAX: none ever.  Two epochs if some of them are in no epoch's count yet.
 */
uint64_t decay_ns_until_locked(const decay_t *d, uint64_t now, size_t npages, size_t step);
/* Tells it how many are left after purging; those that came since the last look are still to be counted. */
static inline void
decay_purged_locked(decay_t *d, size_t npages) {
	d->npages_seen = npages < d->npages_seen ? npages : d->npages_seen;
}

#endif
