/*
 * Subtracts an earlier profile of a process from a later one: the estimates of each stack, thread
 * and label (together a site), found by a hash of these, as `jeprof --base` does. Invariant: the
 * sites of the later profile keep their order. Behind them follow those that only the earlier one
 * has, with live counts of 0 or less and counts of allocations 0. After sites_join() the number of
 * a site's key in the table `known` is the site's index, since intern_t counts from 0 in the order
 * of first use, and new sites are appended in that order. No locks: a profile belongs to one
 * thread. pprof_subtract() is called by scrape.c (?seconds=N, ?since=mark), test/agent/convert.c
 * and a fuzz target.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pprof_own.h"

enum { KEY_MAX = PPROF_DEPTH_MAX + 2 }; /* words of a key: a thread, a label and a stack */

/*
 * Writes the key of a site: its thread's uid, its label's number in `labels` and its addresses.
 * These are the same in both profiles, unlike indexes of threads and numbers of texts. Returns the
 * key's size in bytes; 0: there is no memory.
 */
static size_t
key_of(const struct pprof_profile *p, const site_t *s, intern_t *labels, uint64_t *key) {
	key[0] = s->thread == NO_THREAD ? UINT64_MAX : p->threads[s->thread].uid;
	key[1] = intern_put(labels, intern_text(&p->texts, s->label), intern_len(&p->texts, s->label));
	if (key[1] == INTERN_FAILED) {
		return 0;
	}
	for (uint32_t i = 0; i < s->depth; i++) {
		key[i + 2] = p->addresses[s->first + i];
	}
	return (s->depth + 2) * sizeof(*key);
}

/* The number of a site's key in `known`, which gets it if it is new; INTERN_FAILED: no memory. */
static uint32_t
number_of(const struct pprof_profile *p, const site_t *s, intern_t *labels, intern_t *known,
    uint64_t *key) {
	size_t bytes = key_of(p, s, labels, key);
	return bytes == 0 ? INTERN_FAILED : intern_put(known, key, bytes);
}

/*
 * Joins all sites of one key into the first of them. Afterwards the number of a key in `known` is
 * the index of its site. 0 or ENOMEM.
 */
static int
sites_join(struct pprof_profile *p, intern_t *labels, intern_t *known, uint64_t *key) {
	size_t kept = 0;
	for (size_t i = 0; i < p->nsites; i++) {
		uint32_t at = number_of(p, &p->sites[i], labels, known, key);
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

/*
 * Adds the threads to p that only the earlier profile (from) has, since they have ended meanwhile:
 * what they freed is shown as theirs. The sites of p get the new indexes. 0 or ENOMEM.
 */
static int
threads_merge(struct pprof_profile *p, const struct pprof_profile *from) {
	size_t room = p->nthreads + from->nthreads + 1, count = 0, i = 0;
	thread_t *all = malloc(room * sizeof(*all));
	uint32_t *moved = malloc((p->nthreads + 1) * sizeof(*moved));
	int err = all == NULL || moved == NULL ? ENOMEM : 0;
	for (size_t k = 0; err == 0 && k <= from->nthreads; k++) {
		const thread_t *t = k < from->nthreads ? &from->threads[k] : NULL;
		for (; i < p->nthreads && (t == NULL || p->threads[i].uid <= t->uid); i++) {
			moved[i] = (uint32_t)count;
			all[count++] = p->threads[i];
		}
		if (t != NULL && (count == 0 || all[count - 1].uid != t->uid)) {
			uint32_t name = intern_put(&p->texts, intern_text(&from->texts, t->name),
			    intern_len(&from->texts, t->name));
			err = name == INTERN_FAILED ? ENOMEM : 0;
			all[count++] = (thread_t){t->uid, name};
		}
	}
	for (size_t k = 0; err == 0 && k < p->nsites; k++) {
		uint32_t *thread = &p->sites[k].thread;
		*thread = *thread != NO_THREAD ? moved[*thread] : NO_THREAD;
	}
	if (err == 0) {
		thread_t *old = p->threads;
		p->threads = all;
		p->nthreads = count;
		p->thread_room = room;
		all = old;
	}
	free(all);
	free(moved);
	return err;
}

/* Appends to p a site that only the earlier profile (from) has, with values 0. 0 or ENOMEM. */
static int
site_take_over(struct pprof_profile *p, const struct pprof_profile *from, const site_t *s) {
	site_t site = {p->naddresses, s->depth, NO_THREAD, 0, 0, {0}};
	site.label = intern_put(&p->texts, intern_text(&from->texts, s->label),
	    intern_len(&from->texts, s->label));
	if (site.label == INTERN_FAILED) {
		return ENOMEM;
	}
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

/* Subtracts all sites of `before` from those of `after`. 0, or ENOMEM with `after` half done. */
static int
sites_subtract(struct pprof_profile *after, const struct pprof_profile *before, intern_t *labels,
    intern_t *known, uint64_t *key) {
	int err = sites_join(after, labels, known, key);
	for (size_t i = 0; i < before->nsites && err == 0; i++) {
		const site_t *s = &before->sites[i];
		uint32_t at = number_of(before, s, labels, known, key);
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
 * Raises negative counts of allocations to 0. What was ever allocated cannot shrink, but the
 * estimate can, as that of the objects when their mean size has risen. Profiles that do not tell
 * profiled_ms may also be from before and after a prof.reset.
 */
static void
allocations_clamp(struct pprof_profile *p) {
	for (size_t i = 0; i < p->nsites; i++) {
		double *values = p->sites[i].values;
		values[ALLOC_OBJECTS] = values[ALLOC_OBJECTS] > 0 ? values[ALLOC_OBJECTS] : 0;
		values[ALLOC_SPACE] = values[ALLOC_SPACE] > 0 ? values[ALLOC_SPACE] : 0;
	}
}

/*
 * The sampling interval that the user set, in bytes. A budget (prof_budget) may use another one.
 * That does not matter here: the library then gives each sample the weight of the interval in use.
 */
static uint64_t
period_of(const struct pprof_profile *p) {
	return p->period_set != 0 ? p->period_set : p->period;
}

/*
 * Whether the profiles are of one process and session, with one interval set. Counts begin anew
 * with each session, and when the user sets another interval, a sample stands for another number of
 * objects.
 */
static bool
is_one_session(const struct pprof_profile *a, const struct pprof_profile *b) {
	return a->pid == b->pid && period_of(a) == period_of(b)
	    && strcmp(intern_text(&a->texts, a->session), intern_text(&b->texts, b->session)) == 0
	    && strcmp(intern_text(&a->texts, a->start), intern_text(&b->texts, b->start)) == 0;
}

/*
 * Whether the program has made the library count anew (prof.reset) between the profiles: then the
 * counts of `after` began later. Each of the two times is rounded down to a millisecond, so moments
 * at which the same counts began may differ by 1.
 */
static bool
is_counted_anew(const struct pprof_profile *after, const struct pprof_profile *before) {
	if (after->monotonic_ms == 0 || after->profiled_ms < 0 || before->monotonic_ms == 0
	    || before->profiled_ms < 0) {
		return false;
	}
	return after->monotonic_ms - after->profiled_ms
	    > before->monotonic_ms - before->profiled_ms + 1;
}

/*
 * The difference lasts from the earlier profile to the later one: sets time_ns to its begin and
 * duration_ns to its length. Leaves both if the times are not known or would be negative. Where
 * both profiles tell the monotonic clock, it does not matter if the wall clock was set meanwhile.
 */
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
	if (is_counted_anew(after, before)) {
		return ESTALE;
	}
	uint64_t *key = malloc(KEY_MAX * sizeof(*key));
	intern_t known = {0}, labels = {0};
	int err = key == NULL ? ENOMEM : threads_merge(after, before);
	err = err != 0 ? err : sites_subtract(after, before, &labels, &known, key);
	if (err == 0) {
		after->nages = 0; /* a difference has no ages */
		allocations_clamp(after);
		duration_set(after, before);
	}
	intern_free(&known);
	intern_free(&labels);
	free(key);
	return err;
}
