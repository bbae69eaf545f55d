/* The backlog of epochs and the curve over it. */
#include "extent/decay.h"

#include "util/assert.h"

static void
decay_restart(decay_t *d, ssize_t ms, uint64_t now) {
	assert(decay_ms_is_valid(ms));
	atomic_store_zu(&d->ms, (size_t)ms, MO_RELAXED);
	d->epoch_ns = ms > 0 ? (uint64_t)ms * 1000000 / SMOOTHSTEP_NSTEPS : 0;
	d->epoch_start = now;
	d->npages_seen = 0;
	memset(d->backlog, 0, sizeof(d->backlog));
}

void
decay_init(decay_t *d, const char *name, unsigned rank, ssize_t ms, uint64_t now) {
	mutex_init(&d->mtx, name, rank);
	decay_restart(d, ms, now);
}

void
decay_set_locked(decay_t *d, ssize_t ms, uint64_t now) {
	decay_restart(d, ms, now);
}

/* Drops the n oldest epochs. */
static void
decay_shift(decay_t *d, uint64_t n) {
	if (n >= SMOOTHSTEP_NSTEPS) {
		memset(d->backlog, 0, sizeof(d->backlog));
		return;
	}
	memmove(d->backlog, &d->backlog[n], (SMOOTHSTEP_NSTEPS - n) * sizeof(d->backlog[0]));
	memset(&d->backlog[SMOOTHSTEP_NSTEPS - n], 0, n * sizeof(d->backlog[0]));
}

void
decay_advance_locked(decay_t *d, uint64_t now, size_t npages) {
	assert(decay_is_due(d, now));
	uint64_t n = (now - d->epoch_start) / d->epoch_ns;
	decay_shift(d, n);
	d->epoch_start += n * d->epoch_ns;
	assert(d->epoch_start <= now && now - d->epoch_start < d->epoch_ns);
	size_t fresh = npages > d->npages_seen ? npages - d->npages_seen : 0;
	d->backlog[SMOOTHSTEP_NSTEPS - 1] = (uint32_t)min_zu(fresh, UINT32_MAX);
	d->npages_seen = npages;
}

size_t
decay_limit_locked(const decay_t *d) {
	uint64_t sum = 0;
	for (unsigned i = 0; i < SMOOTHSTEP_NSTEPS; i++) {
		sum += d->backlog[i] * smoothstep_tab[i];
	}
	assert(sum >> SMOOTHSTEP_BFP <= (uint64_t)SMOOTHSTEP_NSTEPS * UINT32_MAX);
	return (size_t)(sum >> SMOOTHSTEP_BFP);
}
