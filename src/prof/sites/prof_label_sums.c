/*
 * Sums by site and label (prof_label_sums.h).
 *
 * While a site has one sample only, and that has a label, its item names the record of the sample.
 * When a second sample is found, the item gets a list of sums instead. A sample with a label is
 * added to the element of that label, if it is among the first LOOKED_AT ones of the list; else it
 * becomes a new first element. A sample without a label is in no element. So adding takes the same
 * time at a site with thousands of labels, whose list then may have a label more than once;
 * prof_label_sums_make(), called outside the fork gate (os/gate.h), sorts the list and adds up
 * equal labels. Invariant: each label in a list has its bit in snap->labels. Locks: none; the
 * snapshot belongs to the thread that dumps. Called by prof_age.c to add, and by prof_dump_label.c
 * to make the sums.
 */
#include "prof/sites/prof_label_sums.h"

#include "prof/sites/prof_label.h"
#include "util/assert.h"

/* Elements of a list, the first ones, that are looked at for the label of a new sample. */
#define LOOKED_AT 8u

cassert(PROF_LABELS_MAX >> (64 - PROF_LABELS_SHIFT) == 0);
cassert(PROF_LABEL_WORDS * 64 == PROF_LABELS_MAX + 1);

/* Sets the label's bit. False: no text has this number, or there is no memory. */
static bool
label_try_note(prof_snap_t *snap, uint32_t label) {
	if (prof_label_is_in(snap, label)) {
		return true;
	}
	if (prof_label_text(label)[0] == '\0') {
		return false;
	}
	if (snap->labels == NULL) {
		snap->labels = prof_snap_piece(snap, PROF_LABEL_WORDS * sizeof(uint64_t));
	}
	if (snap->labels == NULL) {
		snap->lacks_labels = true;
		return false;
	}
	snap->labels[label / 64] |= UINT64_C(1) << label % 64;
	return true;
}

/* The sum of this label among the first LOOKED_AT elements of the list; NULL: it is not there. */
static prof_label_sum_t *
sum_find(const prof_item_t *item, uint32_t label) {
	prof_label_sum_t *s = prof_item_labels(item);
	for (unsigned i = 0; i < LOOKED_AT && s != NULL; i++, s = s->next) {
		if (s->label == label) {
			return s;
		}
	}
	return NULL;
}

/* A zero sum as the new first element of the list; NULL without memory. */
static prof_label_sum_t *
sum_new(prof_snap_t *snap, prof_item_t *item, uint32_t label) {
	prof_label_sum_t *s = prof_snap_piece(snap, sizeof(*s));
	if (s == NULL) {
		snap->lacks_labels = true;
		return NULL;
	}
	s->label = label;
	s->next = prof_item_labels(item);
	item->labels = (uintptr_t)s;
	return s;
}

static void
sum_add(prof_snap_t *snap, prof_item_t *item, uint32_t label, const prof_counts_t *counts) {
	prof_label_sum_t *s = sum_find(item, label);
	if (s == NULL) {
		s = sum_new(snap, item, label);
	}
	if (s != NULL) {
		prof_counts_add(&s->cur, counts);
	}
}

/*
 * Replaces the record of the only sample by a list with its sum, because there is a second sample.
 * If the record has another sample by now, the sum has the size of that one; the label is the one
 * that was found.
 */
static void
only_to_list(prof_snap_t *snap, prof_item_t *item) {
	const uint64_t bits = (UINT64_C(1) << PROF_LABELS_SHIFT) - 1;
	uint32_t label = prof_item_only_label(item);
	const sample_rec_t *rec = (const sample_rec_t *)(uintptr_t)
	    (item->labels & bits & ~PROF_LABELS_ONE);
	uint64_t weight = __atomic_load_n(&rec->weight, MO_RELAXED);
	uint64_t usize = sample_usize(__atomic_load_n(&rec->sized, MO_RELAXED));
	prof_counts_t counts = {1, usize, weight, prof_weighted_bytes(usize, weight)};
	item->labels = 0;
	sum_add(snap, item, label, &counts);
}

void
prof_label_sums_add(prof_snap_t *snap, prof_item_t *item, uint32_t label, const sample_rec_t *rec,
    const prof_counts_t *counts, bool is_first) {
	if (snap->lacks_labels) {
		return;
	}
	bool has_label = label != 0 && label_try_note(snap, label);
	if (is_first && has_label) {
		item->labels = (uintptr_t)rec | PROF_LABELS_ONE | (uint64_t)label << PROF_LABELS_SHIFT;
		return;
	}
	if (prof_item_only_label(item) != 0) {
		only_to_list(snap, item);
	}
	if (has_label) {
		sum_add(snap, item, label, counts);
	}
}

/* Merges two lists of ascending labels, each once, into one; sums of equal labels are added. */
static prof_label_sum_t *
lists_merge(prof_label_sum_t *a, prof_label_sum_t *b) {
	prof_label_sum_t *first = NULL, **end = &first;
	while (a != NULL && b != NULL) {
		if (a->label == b->label) {
			prof_counts_add(&a->cur, &b->cur);
			b = b->next;
			continue;
		}
		prof_label_sum_t **less = a->label < b->label ? &a : &b;
		*end = *less;
		end = &(*less)->next;
		*less = *end;
	}
	*end = a != NULL ? a : b;
	return first;
}

/* Sorts by merging: runs[i] is a list made of 2^i elements, or empty. */
void
prof_label_sums_make(prof_item_t *item) {
	prof_label_sum_t *runs[64] = {NULL};
	unsigned n = 0;
	prof_label_sum_t *list = prof_item_labels(item);
	while (list != NULL) {
		prof_label_sum_t *s = list;
		list = s->next;
		s->next = NULL;
		unsigned i = 0;
		for (; runs[i] != NULL; i++) {
			s = lists_merge(runs[i], s);
			runs[i] = NULL;
		}
		runs[i] = s;
		n = n > i ? n : i;
	}
	for (unsigned i = 0; i <= n; i++) {
		list = lists_merge(list, runs[i]);
	}
	item->labels = (uintptr_t)list;
}
