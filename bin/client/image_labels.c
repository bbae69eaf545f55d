/*
 * The labels of an image's live samples: sums by site and label, which the walk through the records
 * (image_ages.c) adds to, and the texts of the numbers from the lists of the root, as the library's
 * own dump has them (prof/sites/prof_label_sums.c).
 *
 * Invariant: image->labeled has each pair of site and label once. Texts that lie outside of the
 * parts of the tables are read from a process or a core; a box does not have them. The walk through
 * a list ends after as many objects as there are numbers of labels. No locks. Called by
 * image_ages.c, image_tables.c and image_write.c.
 */
#include "client/image_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	LABEL_FIELDS = image_label_text + 1, /* fields that a root with labels has */
	LABEL_MAX = 64,          /* most bytes of an object before its text */
	TEXT_MAX = 255,          /* bytes of a text without its NUL; a longer one is left out */
};

bool
image_has_label_lists(const jeprof_image_t *image) {
	const image_root_t *r = &image->root;
	if (r->nfields < LABEL_FIELDS || r->nstructs <= image_struct_label
	    || !IMAGE_ROOT_HAS(r, label_last)
	    || r->struct_bytes[image_struct_label] > LABEL_MAX) {
		return false;
	}
	for (unsigned i = image_label_next; i < image_label_text; i++) {
		const image_field_t *f = &r->fields[i];
		if (f->offset + f->width > r->struct_bytes[image_struct_label]) {
			return false;
		}
	}
	return true;
}

int
image_label_add(jeprof_image_t *image, uint32_t site, uint32_t label,
    const prof_counts_t *counts) {
	uint64_t key = (uint64_t)(site + 1) << 16 | label;
	uint32_t at = image_table_find(&image->labeled_at, key);
	if (at == IMAGE_UNKNOWN && image->labeled.n >= image->objects_most) {
		return ENOMEM; /* no more than the caller has set aside */
	}
	if (at == IMAGE_UNKNOWN) {
		at = (uint32_t)image->labeled.n;
		image_labeled_t *made = image_append(&image->labeled, sizeof(*made));
		if (made == NULL || !image_table_try_put(&image->labeled_at, key, at)) {
			return ENOMEM;
		}
		made->site = site;
		made->label = label;
	}
	prof_counts_add(&((image_labeled_t *)image->labeled.items)[at].cur, counts);
	return 0;
}

/* ---- texts ---- */

/* Keeps the text of the object at `at`, if it is valid and its number has none. 0 or ENOMEM. */
static int
text_take(jeprof_image_t *image, uint64_t at, const unsigned char *object, bool is_in_parts) {
	char text[TEXT_MAX + 1];
	uint64_t id = image_field(image, object, image_label_id);
	uint64_t bytes = image_field(image, object, image_label_bytes);
	uint64_t begin = image->root.fields[image_label_text].offset;
	if (id == 0 || id >= IMAGE_LABELS || image->labels[id].text != NULL || bytes <= begin
	    || bytes - begin > sizeof(text)
	    || !image_try_read(image, at + begin, text, (size_t)(bytes - begin), is_in_parts)) {
		return 0;
	}
	text[bytes - begin - 1] = '\0';
	image->labels[id].text = text[0] == '\0' ? NULL : strdup(text);
	return text[0] != '\0' && image->labels[id].text == NULL ? ENOMEM : 0;
}

/* Keeps the texts of a list; an unreadable object ends it and sets lacks_texts. 0 or ENOMEM. */
static int
list_walk(jeprof_image_t *image, uint64_t at, bool is_in_parts) {
	int error = 0;
	for (unsigned n = 0; at != 0 && n < IMAGE_LABELS && error == 0; n++) {
		unsigned char object[LABEL_MAX] = {0};
		if (!image_try_read(image, at, object, image->root.struct_bytes[image_struct_label],
		    is_in_parts)) {
			image->lacks_texts = true;
			return 0;
		}
		error = text_take(image, at, object, is_in_parts);
		at = image_field(image, object, image_label_next);
	}
	return error;
}

/* Sets is_used of the labels that live samples have. */
static void
labels_mark(jeprof_image_t *image) {
	const image_labeled_t *l = image->labeled.items;
	for (size_t i = 0; i < image->labeled.n; i++) {
		image->labels[l[i].label].is_used = true;
	}
}

static int
compare_labeled(const void *a, const void *b) {
	const image_labeled_t *x = a, *y = b;
	return x->site != y->site ? (x->site < y->site ? -1 : 1)
	    : x->label < y->label ? -1 : x->label > y->label;
}

int
image_read_labels(jeprof_image_t *image) {
	const image_root_t *r = &image->root;
	if (image->labeled.n == 0) {
		return 0;
	}
	image->labels = calloc(IMAGE_LABELS, sizeof(*image->labels));
	if (image->labels == NULL) {
		return ENOMEM;
	}
	labels_mark(image);
	qsort(image->labeled.items, image->labeled.n, sizeof(image_labeled_t), compare_labeled);
	int error = list_walk(image, r->labels, true);
	bool is_box = image->end != NULL;
	image->lacks_texts |= is_box && r->labels_elsewhere != 0;
	return error != 0 || is_box ? error : list_walk(image, r->labels_elsewhere, false);
}

bool
image_label_is_shown(const jeprof_image_t *image, uint32_t label) {
	return image->labels[label].text != NULL
	    || (image->lacks_texts && label <= image->root.label_last);
}
