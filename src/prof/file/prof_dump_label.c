/*
 * Writes what a profile says of labels (prof_dump_label.h). The sites' lists are put in order here,
 * outside the gate. Locks: none of its own; the dump's. Called by prof_dump.c.
 */
#include "prof/file/prof_dump_label.h"

#include "prof/sites/prof_label.h"
#include "prof/sites/prof_label_sums.h"
#include "prof/sites/prof_sample.h"

/* Bytes that could be taken for something else, and the backslash, as \xNN. */
static void
write_escaped(prof_writer_t *w, const char *text) {
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;
		if (c >= ' ' && c <= '~' && c != '\\') {
			prof_write_data(w, text, 1);
		} else {
			prof_write_lit(w, "\\x");
			prof_write_text(w, c < 16 ? "0" : "");
			prof_write_hex(w, c);
		}
	}
}

static void
write_texts(prof_writer_t *w, const prof_snap_t *snap) {
	for (uint32_t id = 1; id <= PROF_LABELS_MAX; id++) {
		if (!prof_label_is_in(snap, id)) {
			continue;
		}
		prof_write_lit(w, "# label ");
		prof_write_dec(w, id);
		prof_write_lit(w, " ");
		write_escaped(w, prof_label_text(id));
		prof_write_lit(w, "\n");
	}
}

/* The part of a printed number that belongs to the first `some` of an estimate of `all`. */
static uint64_t
part_of(uint64_t printed, uint64_t some, uint64_t all) {
	__extension__ unsigned __int128 product = (unsigned __int128)printed * some;
	return some >= all ? printed : (uint64_t)(product / all);
}

static void
write_sum(prof_writer_t *w, uint32_t label, uint64_t objs, uint64_t bytes) {
	prof_write_lit(w, " ");
	prof_write_dec(w, label);
	prof_write_lit(w, ":");
	prof_write_dec(w, objs);
	prof_write_lit(w, ":");
	prof_write_dec(w, bytes);
}

/*
 * The numbers of the site are divided as the estimates of its samples are, so that those of all
 * labels sum to them if each sample has one.
 */
static void
write_sums(prof_writer_t *w, const prof_item_t *item, uint64_t rate, bool is_raw) {
	uint64_t objs, bytes, objs_done = 0, bytes_done = 0;
	prof_counts_t sum = {0, 0, 0, 0};
	prof_sample_printed(&item->cur, rate, is_raw, &objs, &bytes);
	for (const prof_label_sum_t *s = item->labels; s != NULL; s = s->next) {
		prof_counts_add(&sum, &s->cur);
		uint64_t o = is_raw ? sum.objs : part_of(objs, sum.c16, item->cur.c16);
		uint64_t b = is_raw ? sum.bytes : part_of(bytes, sum.est, item->cur.est);
		write_sum(w, s->label, o - objs_done, b - bytes_done);
		objs_done = o;
		bytes_done = b;
	}
}

void
prof_dump_labels(prof_writer_t *w, const prof_snap_t *snap, uint64_t rate, bool is_raw) {
	uint64_t number = 0;
	if (snap->lacks_labels) {
		prof_write_lit(w, "# labeled none: no memory\n");
		return;
	}
	if (snap->labels == NULL) {
		return;
	}
	write_texts(w, snap);
	for (const prof_item_t *i = prof_snap_next(snap, NULL); i != NULL;
	    i = prof_snap_next(snap, i)) {
		number += i->kind == prof_item_site;
		if (i->kind != prof_item_site || i->labels == NULL || i->cur.objs == 0) {
			continue;
		}
		prof_label_sums_make((prof_item_t *)(uintptr_t)i);
		prof_write_lit(w, "# labeled ");
		prof_write_dec(w, number);
		write_sums(w, i, rate, is_raw);
		prof_write_lit(w, "\n");
	}
}
