/*
 * Finds out how old the live samples of an image are, and sums them by site and label, from the
 * records of samples (meta/recs.h), as the library's own dump does (prof/sites/prof_age.c).
 *
 * Each record has the address of the count of its sample. A count is an object of the tables: the
 * sums of one thread at one site, a stack. image->counts maps the address of a count to the index
 * of its site. It has only counts with live samples, each proven by its own hash. So a record that
 * was freed, torn or forged is left out, or at worst adds to a wrong site of the profile. Blocks of
 * records that lie outside of the parts (the ranges of the tables) are read from a process or a
 * core; a box (the file of the tables) does not have them.
 * Invariant: walk_t.budget is the number of records and blocks that may still be read, so that
 * forged lists end. It begins at RECORDS_MAX; for a file at the number of records for which its
 * bytes have room, if that is less (of a stream, the bytes that were read so far). No locks. Called
 * by image_tables.c, after the sites and counts were read.
 */
#include "client/image_read.h"

#include <errno.h>
#include <string.h>

enum {
	BATCH_BYTES = 16384,     /* bytes of records that are read together, at most */
	BLOCK_MAX = 4096,        /* bytes of the largest block or record that is read */
	RECORDS_MAX = 16 << 20, /* records and blocks of one image that are read */
	RECORD_FIELDS = image_record_sized + 1, /* fields that a root with records has */
	/* Ages are shown if at least this percentage of the live samples have a record. */
	KNOWN_MIN = 95,
};

typedef struct walk_s {
	jeprof_image_t *image;
	uint64_t budget;   /* records and blocks that may still be read */
	uint64_t now;      /* time of the image by the clock of the records, ns */
	uint64_t taken;    /* samples whose ages were added */
	bool has_labels;   /* the root says where the texts of labels are */
	int error;         /* ENOMEM ends the walk; 0: none */
} walk_t;

/* The columns hold estimated bytes. The pointer is valid until image->columns grows. */
uint64_t *
image_columns_of(jeprof_image_t *image, size_t *number) {
	image_columns_t *c = NULL;
	if (*number == 0) {
		c = image_append(&image->columns, sizeof(*c));
		*number = c == NULL ? 0 : image->columns.n;
	} else {
		c = (image_columns_t *)image->columns.items + *number - 1;
	}
	return c == NULL ? NULL : c->est;
}

/* Whether the root tells the lists of records, and all fields lie in their block or record. */
static bool
has_layout(const jeprof_image_t *image) {
	const image_root_t *r = &image->root;
	if (r->nfields < RECORD_FIELDS || r->nstructs <= image_struct_record
	    || !IMAGE_ROOT_HAS(r, records_elsewhere)) {
		return false;
	}
	for (unsigned i = image_block_next; i < RECORD_FIELDS; i++) {
		const image_field_t *f = &r->fields[i];
		unsigned of = i < image_record_count ? image_struct_block : image_struct_record;
		uint32_t size = r->struct_bytes[of];
		if (f->width != sizeof(uint64_t) || f->offset + f->width > size || size > BLOCK_MAX) {
			return false;
		}
	}
	return true;
}

/* A field of a block or a record; all of them are 64-bit words. */
static uint64_t
word_of(const walk_t *w, const unsigned char *bytes, unsigned field) {
	uint64_t word;
	memcpy(&word, bytes + w->image->root.fields[field].offset, sizeof(word));
	return word;
}

/*
 * Adds a live sample to the site with this index: its estimated bytes to the column of its age, its
 * sums, its label. Sets w->error. The weight is the number of objects that the sample stands for,
 * in 1/65536; usize is the size of one, in bytes.
 */
static void
sample_take(walk_t *w, uint32_t number, const unsigned char *record) {
	image_site_t *site = (image_site_t *)w->image->sites.items + number;
	uint64_t *columns = image_columns_of(w->image, &site->age);
	if (columns == NULL) {
		w->error = ENOMEM;
		return;
	}
	uint64_t sized = word_of(w, record, image_record_sized);
	uint64_t usize = sized & ((UINT64_C(1) << IMAGE_USIZE_BITS) - 1);
	uint64_t weight = word_of(w, record, image_record_weight);
	prof_counts_t counts = {1, usize, weight, prof_weighted_bytes(usize, weight)};
	uint32_t label = (uint32_t)(sized >> IMAGE_USIZE_BITS);
	columns[prof_age_between(word_of(w, record, image_record_time_ns), w->now)] += counts.est;
	prof_counts_add(&site->known, &counts);
	w->taken++;
	if (label != 0 && w->has_labels) {
		w->error = image_label_add(w->image, number, label, &counts);
	}
}

/* Takes n records of `size` bytes; those whose count is not in image->counts are left out. */
static void
batch_take(walk_t *w, const unsigned char *records, size_t n, size_t size) {
	for (size_t i = 0; i < n && w->error == 0; i++) {
		uint64_t count = word_of(w, records + i * size, image_record_count);
		uint32_t number = count == 0 ? IMAGE_UNKNOWN : image_table_find(&w->image->counts, count);
		if (number < w->image->sites.n) {
			sample_take(w, number, records + i * size);
		}
	}
}

/*
 * Takes the n records from `at` on, BATCH_BYTES at a time. Ends at a batch that the image does not
 * have whole; nothing of that one is taken.
 */
static void
records_walk(walk_t *w, uint64_t at, uint64_t n, bool is_in_parts) {
	unsigned char records[BATCH_BYTES];
	size_t size = w->image->root.struct_bytes[image_struct_record], most = BATCH_BYTES / size;
	while (n > 0 && w->budget > 0 && w->error == 0) {
		size_t some = n < most ? (size_t)n : most;
		some = some < w->budget ? some : (size_t)w->budget;
		w->budget -= some;
		if (!image_try_read(w->image, at, records, some * size, is_in_parts)) {
			return;
		}
		batch_take(w, records, some, size);
		at += some * size;
		n -= some;
	}
}

/* Takes the records of all blocks of the list from `at` on, up to one that cannot be read. */
static void
blocks_walk(walk_t *w, uint64_t at, bool is_in_parts) {
	size_t size = w->image->root.struct_bytes[image_struct_block];
	while (at != 0 && w->budget > 0 && w->error == 0) {
		unsigned char block[BLOCK_MAX];
		w->budget--;
		if (!image_try_read(w->image, at, block, size, is_in_parts)) {
			return;
		}
		records_walk(w, word_of(w, block, image_block_records), word_of(w, block, image_block_n),
		    is_in_parts);
		at = word_of(w, block, image_block_next);
	}
}

static void
all_walk(walk_t *w) {
	const jeprof_image_t *image = w->image;
	uint64_t most = image->target != NULL ? RECORDS_MAX
	    : image_file_bytes(image) / image->root.struct_bytes[image_struct_record] + 1;
	bool is_box = image->end != NULL;
	w->budget = most < RECORDS_MAX ? most : RECORDS_MAX;
	blocks_walk(w, image->root.records, true);
	if (!is_box) {
		blocks_walk(w, image->root.records_elsewhere, false);
	}
}

/*
 * The time of the image by the clock of the records, in ns. For a process, running or stopped, and
 * for a box that a living process has mapped, this is the time now, by our own clock. Ages are
 * wrong if the process is in another time namespace, where the monotonic clock differs. For a core,
 * and for any other box or a copy of one, it is when the library last wrote root.figures (its
 * statistics). A sample that was taken later has the age 0.
 */
static uint64_t
now_of(const jeprof_image_t *image) {
	const image_root_t *r = &image->root;
	bool is_realtime = (r->flags & IMAGE_REALTIME) != 0;
	if (image->target != NULL || image->is_live) {
		return client_clock_ns(is_realtime ? CLOCK_REALTIME : CLOCK_MONOTONIC);
	}
	return is_realtime ? r->figures.time_ns : r->figures.monotonic_ns;
}

int
image_read_ages(jeprof_image_t *image) {
	walk_t w = {.image = image, .has_labels = image_has_label_lists(image)};
	if (!has_layout(image)) {
		return 0;
	}
	w.now = now_of(image);
	all_walk(&w);
	uint64_t live = image->cur.objs, taken = w.taken < live ? w.taken : live;
	image->aged = live == 0 ? 100 : (unsigned)((double)taken / (double)live * 100);
	image->has_ages = image->aged >= KNOWN_MIN;
	return w.error;
}
