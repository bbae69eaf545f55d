/*
 * Writes what a profile says of labels (prof_dump_label.h). A site's list of labels, in which a
 * label may stand twice, is sorted and added up here (prof_label_sums_make) and not when the tables
 * are copied, because that is done inside the gate (os/gate.h: fork waits until no thread is
 * inside). Locks: none of its own; the caller, prof_dump.c, holds prof_dump. No state.
 */
#include "prof/file/prof_dump_label.h"

#include "prof/sites/prof_label.h"
#include "prof/sites/prof_label_sums.h"

/* Writes a text; bytes that are not printable ASCII, and the backslash, become \xNN. */
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

/* Writes a line "# label ID TEXT" for each label that a live sample has. */
static void
write_texts(prof_writer_t *w, const prof_snap_t *snap) {
	for (uint32_t id = 1; id <= PROF_LABELS_MAX; id++) {
		if (snap->labels[id / 64] >> id % 64 == 0) {
			id |= 63; /* none of the others of this word */
			continue;
		}
		if (!prof_label_is_in(snap, id)) {
			continue;
		}
		prof_write_num(w, "# label ", id);
		prof_write_lit(w, " ");
		write_escaped(w, prof_label_text(id));
		prof_write_lit(w, "\n");
	}
}

/* The share of a printed number that `some` of `all` has: printed * some / all, rounded down. */
static uint64_t
part_of(uint64_t printed, uint64_t some, uint64_t all) {
	__extension__ unsigned __int128 product = (unsigned __int128)printed * some;
	return some >= all ? printed : (uint64_t)(product / all);
}

/* Writes " ID:OBJECTS:BYTES". */
static void
write_sum(prof_writer_t *w, uint32_t label, uint64_t objs, uint64_t bytes) {
	prof_write_num(w, " ", label);
	prof_write_num(w, ":", objs);
	prof_write_num(w, ":", bytes);
}

bool
prof_dump_label_texts(prof_writer_t *w, const prof_snap_t *snap) {
	if (snap->lacks_labels) {
		prof_write_lit(w, "# labeled none: no memory\n");
		return false;
	}
	if (snap->labels != NULL) {
		write_texts(w, snap);
	}
	return snap->labels != NULL;
}

/*
 * The printed numbers of the site are divided in proportion to the estimates of its samples, and
 * the shares never exceed them. Running totals are rounded, not single shares, so that the shares
 * add up to these numbers if each sample has a label. With is_raw the site's numbers are sums of
 * samples too, so the sums are written as they are; they may exceed the site's, as its records were
 * read later than its counts (prof_age_take).
 */
void
prof_dump_label_sums(prof_writer_t *w, const prof_item_t *item, const prof_pair_t *pair,
    bool is_raw) {
	uint64_t objs_done = 0, bytes_done = 0;
	prof_counts_t sum = {0, 0, 0, 0};
	/* The cast drops const: the snapshot belongs to the thread that dumps. */
	prof_label_sums_make((prof_item_t *)(uintptr_t)item);
	for (const prof_sum_t *s = item->labels; s != NULL; s = s->next) {
		prof_counts_add(&sum, &s->cur);
		uint64_t o = is_raw ? sum.objs : part_of(pair->objs, sum.c16, item->cur.c16);
		uint64_t b = is_raw ? sum.bytes : part_of(pair->bytes, sum.est, item->cur.est);
		write_sum(w, s->key, o - objs_done, b - bytes_done);
		objs_done = o;
		bytes_done = b;
	}
	prof_write_lit(w, "\n");
}
