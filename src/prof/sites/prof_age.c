/*
 * The ages and labels of live samples in a snapshot, and what they pin (prof_age.h).
 *
 * Threads sample and free meanwhile. A record is read without a lock: its count first and, after
 * the rest, again; what was freed in between, or replaced by a sample of another count, is left
 * out. (A sample of the same count that replaced it meanwhile is not noticed; the fields may then
 * be of both.) A count that a record names during the pass cannot be freed before its end, because
 * only the holder of `pass` removes counts. A count has the number of its site's item
 * (snap_number). If this snapshot has not copied the count, the number may be any; so the item's
 * `who` is compared with the count's site. Invariant: only sites of the snapshot get ages, labels
 * and charges. Locks: none; the caller has the pass open. prof_age_take() runs inside the fork gate
 * (os/gate.h), and leaves it for a moment after a block if a thread waits to fork. Called by
 * prof_dump.c; prof_age_read() and prof_life_read() outside the gate.
 */
#include "prof/sites/prof_age.h"

#include "meta/recs.h"
#include "os/gate.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_label_sums.h"
#include "prof/sites/prof_sample.h"

/* One walk through all records. */
typedef struct {
	prof_snap_t *snap;
	uint64_t now;       /* time of prof_log_clock(), in ns, to which samples are so old */
	bool has_failed;    /* no memory for an age; the walk ends with this block */
	prof_frag_t *frag;
} walk_t;

/*
 * Adds a sample to a column of an item. The first column lies in the item itself; most items have
 * no other.
 */
static void
age_add(walk_t *w, prof_item_t *item, unsigned column, const prof_counts_t *sample) {
	if (item->age.est == 0 || item->age_column == column) {
		item->age_column = (uint8_t)column;
		item->age.est += sample->est;
	} else if (!prof_snap_try_sum(w->snap, &item->age.next, column, sample)) {
		w->has_failed = true;
	}
}

/* Adds a sample to the item of its site, unless its record has another count by now, or none. */
static void
record_take(walk_t *w, const sample_rec_t *rec) {
	const prof_cnt_t *count = recs_count(rec);
	prof_item_t *item = count == NULL || !prof_data_is_current(count) ? NULL
	    : prof_snap_item(w->snap, count->snap_number);
	if (item == NULL || item->who != count->site) {
		return;
	}
	uint64_t weight = __atomic_load_n(&rec->weight, MO_RELAXED);
	uint64_t time_ns = __atomic_load_n(&rec->time_ns, MO_RELAXED);
	uint64_t sized = __atomic_load_n(&rec->sized, MO_RELAXED);
	uint64_t slab = __atomic_load_n(&rec->slab, MO_RELAXED);
	atomic_fence(MO_ACQUIRE);
	if (unlikely(recs_count(rec) != count)) {
		return;
	}
	uint64_t usize = sample_usize(sized);
	prof_counts_t sample = {1, usize, weight, prof_weighted_bytes(usize, weight)};
	prof_frag_take(w->frag, item, slab, weight);
	age_add(w, item, prof_age_between(time_ns, w->now), &sample);
	if (unlikely(sample_label(sized) != 0)) {
		prof_label_sums_add(w->snap, item, sample_label(sized), &sample);
	}
}

static void
blocks_walk(walk_t *w, const recs_block_t *b) {
	struct tls_s *t = tls_get();
	for (; b != NULL && !w->has_failed; b = b->next) {
		for (uint64_t i = 0; i < b->n; i++) {
			record_take(w, &b->recs[i]);
		}
		if (unlikely(gate_is_closed())) {
			/* Blocks are never freed (recs.h), so `next` stays valid meanwhile. */
			gate_exit(t);
			gate_enter(t);
		}
	}
}

int
prof_age_take(prof_snap_t *snap, uint64_t now, prof_frag_t *frag) {
	walk_t w = {.snap = snap, .now = now, .frag = frag};
	assert(tls_get()->gate_depth == 1);
	/* First the records in the memory of the tables, then those elsewhere. */
	blocks_walk(&w, recs_blocks(true));
	blocks_walk(&w, recs_blocks(false));
	snap->has_ages = !w.has_failed;
	return w.has_failed ? ENOMEM : 0;
}

bool
prof_age_read(const prof_item_t *item, uint64_t columns[PROF_AGES]) {
	memset(columns, 0, PROF_AGES * sizeof(columns[0]));
	if (item->age.est == 0) {
		return false;
	}
	columns[item->age_column] = item->age.est;
	for (const prof_sum_t *a = item->age.next; a != NULL; a = a->next) {
		columns[a->key] = a->cur.est;
	}
	return true;
}

bool
prof_life_read(const prof_site_t *site, uint64_t columns[PROF_AGES]) {
	uint64_t all = 0;
	memset(columns, 0, PROF_AGES * sizeof(columns[0]));
	const prof_link_t *link = atomic_load_p(&site->counts, MO_ACQUIRE);
	for (; link != NULL; link = link->next) {
		const prof_cnt_t *c = container_of(link, const prof_cnt_t, link);
		for (unsigned i = 0; i < PROF_AGES && prof_cnt_has_accum(c) && prof_data_is_current(c);
		    i++) {
			uint64_t bytes = atomic_load_u64(&c->accum->life[i], MO_RELAXED);
			columns[i] += bytes;
			all |= bytes;
		}
	}
	return all != 0;
}
