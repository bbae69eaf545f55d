/*
 * When unused pages are due to be purged: advances the epochs, and computes limits and waiting
 * times. decay.h explains the model. Invariant: while time passes and no page becomes unused, the
 * limit falls or stays; the binary search in decay_epochs_until() relies on that. The caller holds
 * the struct's mutex, except for decay_init(). Called by pac_purge.c, pac_life.c, pac_serve.c and
 * pac_relieve.c.
 */
#include "extent/decay.h"

#include "os/nstime.h"

void
decay_set_locked(decay_t *d, ssize_t ms, uint64_t now) {
	assert(decay_ms_is_valid(ms));
	atomic_store_zu(&d->ms, (size_t)ms, MO_RELAXED);
	atomic_store_u64(&d->epoch_ns, ms > 0 ? (uint64_t)ms * 1000000 / SMOOTHSTEP_NSTEPS : 0,
	    MO_RELAXED);
	atomic_store_u64(&d->epoch_start, now, MO_RELAXED);
	d->npages_seen = 0;
	memset(d->backlog, 0, sizeof(d->backlog));
}

void
decay_init(decay_t *d, const char *name, unsigned rank, ssize_t ms, uint64_t now) {
	mutex_init(&d->mtx, name, rank);
	decay_set_locked(d, ms, now);
}

/* Forgets the n oldest epochs, and appends n in which no page became unused. */
static void
decay_shift(decay_t *d, uint64_t n) {
	if (n >= SMOOTHSTEP_NSTEPS) {
		memset(d->backlog, 0, sizeof(d->backlog));
		return;
	}
	memmove(d->backlog, &d->backlog[n], (SMOOTHSTEP_NSTEPS - n) * sizeof(d->backlog[0]));
	memset(&d->backlog[SMOOTHSTEP_NSTEPS - n], 0, n * sizeof(d->backlog[0]));
}

/* The limit after n more epochs in which no page becomes unused. */
static size_t
decay_limit_after(const decay_t *d, unsigned n) {
	uint64_t sum = 0;
	assert(n <= SMOOTHSTEP_NSTEPS);
	for (unsigned i = n; i < SMOOTHSTEP_NSTEPS; i++) {
		sum += d->backlog[i] * smoothstep_tab[i - n];
	}
	assert(sum >> SMOOTHSTEP_BFP <= (uint64_t)SMOOTHSTEP_NSTEPS * UINT32_MAX);
	return (size_t)(sum >> SMOOTHSTEP_BFP);
}

/* n pages are in use again: of those that may stay, the latest ones count no more. */
static void
decay_drop_latest(decay_t *d, size_t n) {
	uint64_t left = (uint64_t)n << SMOOTHSTEP_BFP;
	for (unsigned i = SMOOTHSTEP_NSTEPS; i-- > 0 && left > 0;) {
		uint64_t gone = min_zu(d->backlog[i] * smoothstep_tab[i], left);
		d->backlog[i] -= (uint32_t)(gone / smoothstep_tab[i]);
		left -= gone;
	}
}

/* Counts npages unused pages at the end of the n-th epoch from the present one on. */
static void
decay_count(decay_t *d, uint64_t n, size_t npages) {
	decay_shift(d, n);
	size_t seen = d->npages_seen, fresh = npages > seen ? npages - seen : 0;
	/* Pages in excess of the limit are taken first: what it allows may all be there still. */
	size_t most = min_zu(seen, decay_limit_after(d, 0));
	decay_drop_latest(d, npages < most ? most - npages : 0);
	d->backlog[SMOOTHSTEP_NSTEPS - 1] = (uint32_t)min_zu(fresh, UINT32_MAX);
	d->npages_seen = npages;
}

void
decay_advance_locked(decay_t *d, uint64_t now, size_t npages) {
	assert(decay_is_due(d, now));
	uint64_t start = atomic_load_u64(&d->epoch_start, MO_RELAXED);
	uint64_t epoch_ns = atomic_load_u64(&d->epoch_ns, MO_RELAXED);
	uint64_t n = (now - start) / epoch_ns;
	start += n * epoch_ns;
	atomic_store_u64(&d->epoch_start, start, MO_RELAXED);
	assert(start <= now && now - start < epoch_ns);
	decay_count(d, n, npages);
}

size_t
decay_limit_locked(const decay_t *d) {
	return decay_limit_after(d, 0);
}

size_t
decay_recent_locked(const decay_t *d) {
	size_t sum = 0;
	for (unsigned i = 0; i < SMOOTHSTEP_NSTEPS; i++) {
		sum += d->backlog[i];
	}
	return sum;
}

/* The smallest number of epochs after which at most npages may stay. */
static unsigned
decay_epochs_until(const decay_t *d, size_t npages) {
	unsigned low = 0, high = SMOOTHSTEP_NSTEPS;
	while (low < high) {
		unsigned mid = (low + high) / 2;
		if (decay_limit_after(d, mid) <= npages) {
			high = mid;
		} else {
			low = mid + 1;
		}
	}
	assert(decay_limit_after(d, low) <= npages);
	return low;
}

uint64_t
decay_ns_until_locked(const decay_t *d, uint64_t now, size_t npages, size_t step) {
	assert(step > 0);
	if (npages == 0 || decay_ms(d) < 0) {
		return UINT64_MAX;
	}
	if (decay_ms(d) == 0) {
		return 0;
	}
	uint64_t epoch_ns = atomic_load_u64(&d->epoch_ns, MO_RELAXED);
	uint64_t passed = nstime_ns_between(atomic_load_u64(&d->epoch_start, MO_RELAXED), now);
	uint64_t n = passed < epoch_ns ? 1 : passed / epoch_ns; /* until the next advance */
	decay_t next; /* what decay_count() uses: not the mutex, which others write */
	next.npages_seen = d->npages_seen;
	memcpy(next.backlog, d->backlog, sizeof(next.backlog));
	decay_count(&next, n, npages);
	n += decay_epochs_until(&next, npages > step ? npages - step : 0);
	n = min_zu(n, UINT64_MAX / epoch_ns); /* with DECAY_MS_MAX one epoch more would wrap */
	return n * epoch_ns > passed ? n * epoch_ns - passed : 0;
}
