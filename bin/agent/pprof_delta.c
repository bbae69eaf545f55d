/*
 * Subtracts an earlier profile of a process from a later one: the estimates of each stack and
 * thread, found by a hash of both, as `jeprof --base` does. Invariant: the sites of the later
 * profile keep their order; those that only the earlier one has follow, with negative live counts.
 * No locks: a profile belongs to one thread. Called by scrape.c (?seconds=N, ?since=mark).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pprof_own.h"

enum { KEY_MAX = PPROF_DEPTH_MAX + 1 }; /* words of a key: a thread and a stack */

/*
 * Writes the key of a site, its thread's uid and its addresses, and returns the key's size in
 * bytes. The uid, because index numbers of threads differ between two profiles.
 */
static size_t
key_of(const struct pprof_profile *p, const site_t *s, uint64_t *key) {
	key[0] = s->thread == NO_THREAD ? UINT64_MAX : p->threads[s->thread].uid;
	/* without a stack in the whole profile there is no array */
	for (uint32_t i = 0; i < s->depth; i++) {
		key[i + 1] = p->addresses[s->first + i];
	}
	return (s->depth + 1) * sizeof(*key);
}

/*
 * Joins all sites of one key into the first of them. Afterwards `known` gives for a key the index
 * of its site. 0 or ENOMEM.
 */
static int
sites_join(struct pprof_profile *p, intern_t *known, uint64_t *key) {
	size_t kept = 0;
	for (size_t i = 0; i < p->nsites; i++) {
		uint32_t at = intern_put(known, key, key_of(p, &p->sites[i], key));
		if (at == INTERN_FAILED) {
			return ENOMEM;
		}
		if (at == kept) {
			p->sites[kept++] = p->sites[i];
			continue;
		}
		for (unsigned type = 0; type < PPROF_TYPES; type++) {
			p->sites[at].values[type] += p->sites[i].values[type];
		}
	}
	p->nsites = kept;
	return 0;
}

/* Appends a site that only the earlier profile has, with values 0. 0 or ENOMEM. */
static int
site_take_over(struct pprof_profile *p, const struct pprof_profile *from, const site_t *s) {
	site_t site = {p->naddresses, s->depth, NO_THREAD, {0}};
	if (s->thread != NO_THREAD) {
		site.thread = thread_of(p, from->threads[s->thread].uid);
	}
	for (uint32_t i = 0; i < s->depth; i++) {
		if (array_grow(&p->addresses, &p->address_room, p->naddresses, sizeof(uint64_t)) != 0) {
			return ENOMEM;
		}
		p->addresses[p->naddresses++] = from->addresses[s->first + i];
	}
	if (array_grow(&p->sites, &p->site_room, p->nsites, sizeof(site)) != 0) {
		return ENOMEM;
	}
	p->sites[p->nsites++] = site;
	return 0;
}

static int
sites_subtract(struct pprof_profile *after, const struct pprof_profile *before, intern_t *known,
    uint64_t *key) {
	int err = sites_join(after, known, key);
	for (size_t i = 0; i < before->nsites && err == 0; i++) {
		const site_t *s = &before->sites[i];
		uint32_t at = intern_put(known, key, key_of(before, s, key));
		if (at == INTERN_FAILED) {
			return ENOMEM;
		}
		if (at == after->nsites) {
			err = site_take_over(after, before, s);
		}
		for (unsigned type = 0; err == 0 && type < PPROF_TYPES; type++) {
			after->sites[at].values[type] -= s->values[type];
		}
	}
	return err;
}

/*
 * Raises negative counts of allocations to 0: they cannot shrink, so a smaller count means that the
 * library has begun to count anew.
 */
static void
allocations_clamp(struct pprof_profile *p) {
	for (size_t i = 0; i < p->nsites; i++) {
		double *values = p->sites[i].values;
		values[ALLOC_OBJECTS] = values[ALLOC_OBJECTS] > 0 ? values[ALLOC_OBJECTS] : 0;
		values[ALLOC_SPACE] = values[ALLOC_SPACE] > 0 ? values[ALLOC_SPACE] : 0;
	}
}

/* The interval that somebody set: one that a budget makes of it (prof_budget) is weighed in. */
static uint64_t
period_set(const struct pprof_profile *p) {
	return p->period_set != 0 ? p->period_set : p->period;
}

/*
 * Counts begin anew with each session, and a change of the interval changes what a sample stands
 * for.
 */
static bool
is_one_session(const struct pprof_profile *a, const struct pprof_profile *b) {
	return a->pid == b->pid && period_set(a) == period_set(b)
	    && strcmp(intern_text(&a->texts, a->session), intern_text(&b->texts, b->session)) == 0
	    && strcmp(intern_text(&a->texts, a->start), intern_text(&b->texts, b->start)) == 0;
}

/* The difference lasts from the earlier profile to the later one, however the clock was set. */
static void
duration_set(struct pprof_profile *after, const struct pprof_profile *before) {
	int64_t ns = after->time_ns - before->time_ns;
	if (before->monotonic_ms != 0 && after->monotonic_ms != 0) {
		ns = (after->monotonic_ms - before->monotonic_ms) * 1000000;
	} else if (before->time_ns == 0) {
		return;
	}
	if (ns >= 0 && after->time_ns >= ns) {
		after->duration_ns = ns;
		after->time_ns -= ns;
	}
}

int
pprof_subtract(struct pprof_profile *after, const struct pprof_profile *before) {
	if (!is_one_session(after, before)) {
		return EINVAL;
	}
	uint64_t *key = malloc(KEY_MAX * sizeof(*key));
	intern_t known = {0};
	int err = key == NULL ? ENOMEM : sites_subtract(after, before, &known, key);
	if (err == 0) {
		allocations_clamp(after);
		duration_set(after, before);
	}
	intern_free(&known);
	free(key);
	return err;
}
