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

static void
write_sum(prof_writer_t *w, const prof_label_sum_t *s, uint64_t rate, bool is_raw) {
	uint64_t objs, bytes;
	prof_sample_printed(&s->cur, rate, is_raw, &objs, &bytes);
	prof_write_lit(w, " ");
	prof_write_dec(w, s->label);
	prof_write_lit(w, ":");
	prof_write_dec(w, objs);
	prof_write_lit(w, ":");
	prof_write_dec(w, bytes);
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
		for (const prof_label_sum_t *s = i->labels; s != NULL; s = s->next) {
			write_sum(w, s, rate, is_raw);
		}
		prof_write_lit(w, "\n");
	}
}
