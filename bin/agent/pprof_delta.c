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

/*
 * The tables of one subtraction. Each numbers from 0 what is the same in both profiles, unlike the
 * indexes of threads, the numbers of texts and the places of stacks.
 */
typedef struct tables_s {
	intern_t labels; /* texts */
	intern_t stacks; /* all addresses of a stack */
	intern_t known;  /* keys of sites: a thread, a label and a stack */
} tables_t;

/*
 * The sites of a stack follow one another, in the order of the text and then once more those with
 * labels. So what is known of the last stack is kept, and not each site reads or copies all its
 * addresses: memory and time stay linear in the texts.
 */
typedef struct numberer_s {
	const struct pprof_profile *p;
	tables_t *tables;
	size_t first;      /* index in p->addresses of the last stack */
	uint32_t depth;    /* its addresses; 0: there is none yet */
	uint32_t stack;    /* its number in tables->stacks */
	bool is_copied;    /* its addresses stand in the other profile, from index `copy` on */
	size_t copy;
} numberer_t;

/* The number of a site's key in `known`, which gets it if it is new; INTERN_FAILED: no memory. */
static uint32_t
number_of(numberer_t *n, const site_t *s) {
	const intern_t *texts = &n->p->texts;
	if (n->depth != s->depth || n->first != s->first) {
		n->first = s->first;
		n->depth = s->depth;
		n->is_copied = false;
		n->stack = intern_put(&n->tables->stacks, n->p->addresses + s->first,
		    s->depth * sizeof(*n->p->addresses));
	}
	uint32_t label = intern_put(&n->tables->labels, intern_text(texts, s->label),
	    intern_len(texts, s->label));
	if (n->stack == INTERN_FAILED || label == INTERN_FAILED) {
		return INTERN_FAILED;
	}
	bool has_thread = s->thread != NO_THREAD;
	uint64_t key[] = {has_thread ? n->p->threads[s->thread].uid : 0,
	    (uint64_t)label << 1 | has_thread, n->stack};
	return intern_put(&n->tables->known, key, sizeof(key));
}

/*
 * Joins all sites of one key into the first of them. Afterwards the number of a key in `known` is
 * the index of its site. 0 or ENOMEM.
 */
static int
sites_join(struct pprof_profile *p, tables_t *tables) {
	numberer_t n = {.p = p, .tables = tables};
	size_t kept = 0;
	for (size_t i = 0; i < p->nsites; i++) {
		uint32_t at = number_of(&n, &p->sites[i]);
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

/*
 * Appends to p the site that n has numbered last, with values 0, because only the earlier profile
 * (n->p) has it. 0, ENOMEM or EFBIG.
 */
static int
site_take_over(struct pprof_profile *p, numberer_t *n, const site_t *s) {
	const struct pprof_profile *from = n->p;
	site_t site = {.depth = s->depth, .thread = NO_THREAD};
	int err = 0;
	if (!n->is_copied) {
		n->copy = p->naddresses;
		n->is_copied = true;
		for (uint32_t i = 0; i < s->depth && err == 0; i++) {
			err = address_append(p, from->addresses[s->first + i]);
		}
	}
	site.first = n->copy;
	site.label = intern_put(&p->texts, intern_text(&from->texts, s->label),
	    intern_len(&from->texts, s->label));
	if (site.label == INTERN_FAILED) {
		return ENOMEM;
	}
	if (s->thread != NO_THREAD) {
		site.thread = thread_of(p, from->threads[s->thread].uid);
	}
	return err != 0 ? err : site_append(p, &site);
}

/* Subtracts all sites of `before` from those of `after`. 0, or ENOMEM or EFBIG half done. */
static int
sites_subtract(struct pprof_profile *after, const struct pprof_profile *before, tables_t *tables) {
	numberer_t n = {.p = before, .tables = tables};
	int err = sites_join(after, tables);
	for (size_t i = 0; i < before->nsites && err == 0; i++) {
		const site_t *s = &before->sites[i];
		uint32_t at = number_of(&n, s);
		if (at == INTERN_FAILED) {
			return ENOMEM;
		}
		if (at == after->nsites) {
			err = site_take_over(after, &n, s);
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
	tables_t tables = {0};
	int err = threads_merge(after, before);
	err = err != 0 ? err : sites_subtract(after, before, &tables);
	if (err == 0) {
		after->nages = 0; /* a difference has no ages */
		allocations_clamp(after);
		duration_set(after, before);
	}
	intern_free(&tables.labels);
	intern_free(&tables.stacks);
	intern_free(&tables.known);
	return err;
}
