/*
 * Sums by site and label (prof_label_sums.h).
 *
 * A sample with a label is added to the element of that label (prof_snap_try_sum), a sample without
 * one to no element. prof_label_sums_make(), called outside the fork gate (os/gate.h), sorts the
 * list and adds up equal labels. Invariant: each label in a list has its bit in snap->labels.
 * Locks: none; the snapshot belongs to the thread that dumps. Called by prof_age.c to add, and by
 * prof_dump_label.c to make the sums.
 */
#include "prof/sites/prof_label_sums.h"

#include "prof/sites/prof_label.h"

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

void
prof_label_sums_add(prof_snap_t *snap, prof_item_t *item, uint32_t label,
    const prof_counts_t *sample) {
	if (!snap->lacks_labels && label_try_note(snap, label)
	    && !prof_snap_try_sum(snap, &item->labels, label, sample)) {
		snap->lacks_labels = true;
	}
}

/* Merges two lists of ascending labels, each once, into one; sums of equal labels are added. */
static prof_sum_t *
lists_merge(prof_sum_t *a, prof_sum_t *b) {
	prof_sum_t *first = NULL, **end = &first;
	while (a != NULL && b != NULL) {
		if (a->key == b->key) {
			prof_counts_add(&a->cur, &b->cur);
			b = b->next;
			continue;
		}
		prof_sum_t **less = a->key < b->key ? &a : &b;
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
	prof_sum_t *runs[64] = {NULL};
	unsigned n = 0;
	prof_sum_t *list = item->labels;
	while (list != NULL) {
		prof_sum_t *s = list;
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
	item->labels = list;
}
