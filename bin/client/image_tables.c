/*
 * Reads the root of an image and walks through its lists (image_read.h; the format is
 * meta/image.h).
 *
 * A running process changes its tables meanwhile. So a site or count is used only with proof: the
 * hash in a site is that of its frames, the hash in a count that of its site's hash, its thread,
 * rate and epoch. At a site without proof the walk goes back to the last site that still has it,
 * and goes on from there; at a count without proof the counts of its site are read again. In an
 * image that does not change, an object without proof is damaged: it is left out, and the walk goes
 * on after it, but ends if not even its size is right (is_broken). image->torn counts each such
 * site, and each site with such counts once. A damaged thread or module ends its list; of an image
 * that does not change, torn counts the module.
 *
 * Invariant: image->budget is the number of sites, counts, threads and modules that may still be
 * read, at first one for each 64 bytes of the parts, four if the process may run, at most what the
 * caller wants (objects_most); so every walk ends. No locks. The root and the tables are read for
 * image_file.c; the smaller functions are called by most image_*.c.
 */
#include "client/image_read.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	OBJECT_MAX = 4096,       /* bytes of the largest struct */
	FRAMES_MAX = 4096,       /* frames of a site */
	OBJECTS_MAX = 4 << 20,  /* objects: the largest budget; if the process may run, 4 times that */
	MODULES_MAX = 4096,     /* records of loaded objects; later ones are left out */
	RESUMES_MAX = 1000,     /* times that a walk through a running process goes back */
	RESTARTS_MAX = 16,      /* times that it forgets all sites and begins anew */
	FRAMES_PER_OBJECT = 4,   /* frames of all sites, at most, for each of objects_most */
	CHAIN_TRIES = 8,         /* times that the counts of a site are read, in a running process */
	PIECE_BYTES = 64,        /* alignment of sites and counts, and least size of an object */
	/* What each root has; later fields, structs and bytes are used only if the root has them. */
	FIELDS_MIN = image_count_life,
	STRUCTS_MIN = image_struct_block,
	ROOT_MIN = offsetof(image_root_t, records),
};

/* In place of the next site on the list: the object is no site, so none follows. */
static const uint64_t NOWHERE = UINT64_MAX;

int
image_fail(jeprof_image_t *image, int error, const char *format, ...) {
	va_list args;
	va_start(args, format);
	vsnprintf(image->why, JEPROF_WHY, format, args);
	va_end(args);
	return error;
}

void *
image_append(image_array_t *a, size_t size) {
	if (a->n == a->room) {
		size_t room = a->room * 2 + 16;
		void *more = realloc(a->items, room * size);
		if (more == NULL) {
			return NULL;
		}
		a->items = more;
		a->room = room;
	}
	return memset((char *)a->items + a->n++ * size, 0, size);
}

/* ---- tables of addresses ---- */

/* The index of a key's place, or of the free place where it belongs. room is not 0. */
static size_t
table_place(const image_table_t *t, uint64_t key) {
	size_t at = (size_t)hash_mix64(key) & (t->room - 1);
	while (t->keys[at] != 0 && t->keys[at] != key) {
		at = (at + 1) & (t->room - 1);
	}
	return at;
}

uint32_t
image_table_find(const image_table_t *t, uint64_t key) {
	size_t at = t->room == 0 ? 0 : table_place(t, key);
	return t->room == 0 || t->keys[at] == 0 ? IMAGE_UNKNOWN : t->values[at];
}

static bool
is_in_table(const image_table_t *t, uint64_t key) {
	return t->room != 0 && t->keys[table_place(t, key)] != 0;
}

static bool
table_try_grow(image_table_t *t) {
	image_table_t more = {.n = t->n, .room = t->room == 0 ? 256 : t->room * 2};
	more.keys = calloc(more.room, sizeof(*more.keys));
	more.values = calloc(more.room, sizeof(*more.values));
	if (more.keys == NULL || more.values == NULL) {
		free(more.keys);
		free(more.values);
		return false;
	}
	for (size_t i = 0; i < t->room; i++) {
		if (t->keys[i] != 0) {
			size_t at = table_place(&more, t->keys[i]);
			more.keys[at] = t->keys[i];
			more.values[at] = t->values[i];
		}
	}
	free(t->keys);
	free(t->values);
	*t = more;
	return true;
}

bool
image_table_try_put(image_table_t *t, uint64_t key, uint32_t value) {
	if (2 * t->n >= t->room && !table_try_grow(t)) {
		return false;
	}
	size_t at = table_place(t, key);
	t->n += t->keys[at] == 0;
	t->keys[at] = key;
	t->values[at] = value;
	return true;
}

/* ---- the root ---- */

/* How many bytes in use a part has from this address on; 0: it lies in no part. */
static uint64_t
bytes_behind(const jeprof_image_t *image, uint64_t at) {
	for (unsigned i = 0; i < image->root.nparts; i++) {
		const image_part_t *p = &image->root.parts[i];
		if (at >= p->address && at - p->address < p->used) {
			return p->used - (at - p->address);
		}
	}
	return 0;
}

/* Whether all of these bytes lie in one part of the tables, in what is used of it. */
static bool
lies_in_part(const jeprof_image_t *image, uint64_t at, uint64_t size) {
	uint64_t there = bytes_behind(image, at);
	return there != 0 && size <= there;
}

bool
image_try_read(jeprof_image_t *image, uint64_t at, void *buf, size_t size, bool is_in_parts) {
	return (!is_in_parts || lies_in_part(image, at, size)) && image_read(image, at, buf, size);
}

/* Bytes of the root that are both there and known. */
static size_t
root_bytes(const image_root_t *r) {
	return r->root_bytes < sizeof(*r) ? r->root_bytes : sizeof(*r);
}

void
image_read_parts(jeprof_image_t *image) {
	image_root_t before = {.version = 0}, now = {.version = 0};
	image_root_t *r = &image->root;
	size_t bytes = root_bytes(r); /* an older library has no records or labels behind them */
	if (!image_read(image, image->at, &before, bytes)
	    || !image_read(image, image->at, &now, bytes) || now.nparts < r->nparts
	    || now.nparts > IMAGE_PARTS) {
		return;
	}
	if (image->target == NULL) {
		(void)image_box_try_add_parts(image, &now);
	}
	memcpy(r->parts, now.parts, sizeof(now.parts));
	r->nparts = now.nparts;
	r->sites = now.sites;
	/* From the earlier read: their objects lie in the parts of the later one. */
	r->records = before.records;
	r->records_elsewhere = before.records_elsewhere;
	r->labels = before.labels;
	r->labels_elsewhere = before.labels_elsewhere;
	r->label_last = now.label_last;
}

/* Checks the parts, and sets budget and frames_most. 0, or EINVAL with its sentence. */
static int
parts_check(jeprof_image_t *image) {
	image_root_t *r = &image->root;
	uint64_t bytes = 0;
	if (r->nparts == 0 || r->nparts > IMAGE_PARTS || r->parts[0].address != image->at) {
		return image_fail(image, EINVAL, "the tables are damaged: their parts make no sense");
	}
	for (unsigned i = 0; i < r->nparts; i++) {
		const image_part_t *p = &r->parts[i];
		if (p->used > p->bytes || p->bytes > UINT64_C(1) << 40
		    || p->address + p->bytes < p->address) {
			return image_fail(image, EINVAL, "the tables are damaged: a part makes no sense");
		}
		bytes += p->used;
	}
	/* A file may claim more bytes than it has; a process may get more while it is read. */
	uint64_t there = image->target != NULL ? 4 * bytes : image_file_bytes(image);
	bytes = bytes < there ? bytes : there;
	uint64_t budget = bytes / PIECE_BYTES + 1;
	image->budget = budget < OBJECTS_MAX ? budget : OBJECTS_MAX;
	image->budget *= image->is_live ? 4 : 1; /* some objects are read more than once */
	uint64_t objects = image->objects_most;
	image->budget = image->budget < objects ? image->budget : objects;
	uint64_t frames = there / IMAGE_FRAME_BYTES; /* objects do not overlap */
	image->frames_most = frames / FRAMES_PER_OBJECT < objects ? frames
	    : objects * FRAMES_PER_OBJECT;
	return 0;
}

/* Checks that the fields that each root has are there, and all fit OBJECT_MAX. 0 or an errno. */
static int
layout_check(jeprof_image_t *image) {
	const image_root_t *r = &image->root;
	if (r->nfields < FIELDS_MIN || r->nstructs < STRUCTS_MIN) {
		return image_fail(image, EPROTO, "its library is older than this program, which needs %u "
		    "fields of its tables; it has %u", (unsigned)FIELDS_MIN, r->nfields);
	}
	for (unsigned i = 0; i < IMAGE_NFIELDS && i < r->nfields; i++) {
		const image_field_t *f = &r->fields[i];
		if (f->width == 0 || f->offset + f->width > OBJECT_MAX) {
			return image_fail(image, EINVAL, "the tables are damaged: field %u makes no sense", i);
		}
	}
	for (unsigned i = 0; i < STRUCTS_MIN; i++) {
		if (r->struct_bytes[i] == 0 || r->struct_bytes[i] > OBJECT_MAX) {
			return image_fail(image, EINVAL, "the tables are damaged: a size makes no sense");
		}
	}
	return 0;
}

int
image_check_version(jeprof_image_t *image, const image_root_t *r) {
	if (r->head.magic != IMAGE_MAGIC || (r->byte_order != IMAGE_BYTE_ORDER && r->version != 0)) {
		return image_fail(image, EPROTO, "it is of a machine with another byte order; read it on "
		    "such a machine");
	}
	if (r->version == 0) {
		return image_fail(image, ENOENT, "nothing has started the profiler yet");
	}
	if (r->version != IMAGE_VERSION) {
		return image_fail(image, EPROTO, "its tables are of version %u, this program reads %u; use "
		    "the jeprofctl of that library", r->version, IMAGE_VERSION);
	}
	return 0;
}

int
image_read_root(jeprof_image_t *image) {
	image_root_t *r = &image->root;
	if (!image_read(image, image->at, r, offsetof(image_root_t, page))
	    || r->head.magic != IMAGE_MAGIC) {
		return image_fail(image, EINVAL, "there are no tables of the profiler");
	}
	int error = image_check_version(image, r);
	if (error != 0) {
		return error;
	}
	size_t bytes = root_bytes(r);
	if (bytes < ROOT_MIN || r->head.self != image->at
	    || !image_read(image, image->at, r, bytes)) {
		return image_fail(image, EINVAL, "the tables are damaged: the root is not whole");
	}
	error = parts_check(image);
	if (error == 0 && image->is_live && image->target == NULL
	    && !image_box_try_add_parts(image, r)) {
		return image_fail(image, ENOMEM, "no memory");
	}
	return error != 0 ? error : layout_check(image);
}

/* ---- objects ---- */

uint64_t
image_field(const jeprof_image_t *image, const unsigned char *bytes, unsigned field) {
	const image_field_t *f = &image->root.fields[field];
	uint8_t u8;
	uint32_t u32;
	uint64_t u64;
	switch (f->width) {
	case sizeof(u8):
		memcpy(&u8, bytes + f->offset, sizeof(u8));
		return u8;
	case sizeof(u32):
		memcpy(&u32, bytes + f->offset, sizeof(u32));
		return u32;
	case sizeof(u64):
		memcpy(&u64, bytes + f->offset, sizeof(u64));
		return u64;
	default:
		return 0;
	}
}

/*
 * Reads the fixed part of an object into `bytes`, which has OBJECT_MAX zeroed; false if it cannot
 * be one, or the budget is used up (is_spent).
 */
static bool
try_read_object(jeprof_image_t *image, unsigned of, uint64_t at, unsigned char *bytes) {
	uint32_t size = image->root.struct_bytes[of];
	if (image->budget == 0) {
		image->is_spent = true;
		return false;
	}
	image->budget--;
	return at % 8 == 0 && lies_in_part(image, at, size) && image_read(image, at, bytes, size);
}

/* ---- threads ---- */

static void
name_take(image_thread_t *t, const unsigned char *name, size_t width) {
	size_t n = width < sizeof(t->name) ? width : sizeof(t->name);
	memcpy(t->name, name, n);
	t->name[sizeof(t->name) - 1] = '\0';
	for (char *c = t->name; *c != '\0'; c++) {
		*c = (unsigned char)*c < 0x20 && *c != '\t' ? '?' : *c;
	}
}

/*
 * Sets *number to the index in image->threads of the thread with its record at this address, which
 * is read if it is not known; IMAGE_UNKNOWN if there is no record, or the budget is used up. *next
 * is the address of the next record, 0 if this one was known. 0 or ENOMEM.
 */
static int
thread_get(jeprof_image_t *image, uint64_t at, uint32_t *number, uint64_t *next) {
	unsigned char bytes[OBJECT_MAX] = {0};
	*next = 0;
	*number = image_table_find(&image->known, at);
	if (*number != IMAGE_UNKNOWN || !try_read_object(image, image_struct_thread, at, bytes)) {
		return 0;
	}
	*number = (uint32_t)image->threads.n;
	image_thread_t *t = image_append(&image->threads, sizeof(*t));
	if (t == NULL || !image_table_try_put(&image->known, at, *number)) {
		return ENOMEM;
	}
	const image_field_t *name = &image->root.fields[image_thread_name];
	t->address = at;
	t->uid = image_field(image, bytes, image_thread_uid);
	t->is_attached = image_field(image, bytes, image_thread_attached) == 1;
	name_take(t, bytes + name->offset, name->width);
	*next = image_field(image, bytes, image_thread_next);
	return 0;
}

static int
threads_walk(jeprof_image_t *image) {
	uint32_t number = 0;
	int error = 0;
	for (uint64_t at = image->root.threads; at != 0 && error == 0 && number != IMAGE_UNKNOWN;) {
		error = thread_get(image, at, &number, &at);
	}
	return error;
}

/* ---- counts ---- */

/* The four sums objs, bytes, c16 and est of a count; `first` is the field of the first one. */
static prof_counts_t
counts_of(const jeprof_image_t *image, const unsigned char *bytes, unsigned first) {
	return (prof_counts_t){image_field(image, bytes, first), image_field(image, bytes, first + 1),
	    image_field(image, bytes, first + 2), image_field(image, bytes, first + 3)};
}

/* Whether counts have the bytes that were freed, by age (image_count_life). */
static bool
has_life(const jeprof_image_t *image) {
	return image->root.nfields > image_count_life
	    && image->root.fields[image_count_life].width == PROF_AGES * sizeof(uint64_t);
}

/* Reads a count, with its accum sums if it has them. False: it is no count, or the budget is 0. */
static bool
try_read_count(jeprof_image_t *image, uint64_t at, unsigned char *bytes) {
	uint32_t plain = image->root.struct_bytes[image_struct_count];
	const image_field_t *last = &image->root.fields[has_life(image) ? image_count_life
	    : image_count_accum_est];
	uint32_t whole = (uint32_t)last->offset + last->width;
	if (at % PIECE_BYTES != 0 || !try_read_object(image, image_struct_count, at, bytes)) {
		return false;
	}
	uint64_t size = image_field(image, bytes, image_count_bytes);
	/* The second read fetches the link again, which is a count's only if the size is the same. */
	return size == plain || (size >= whole && size < 2 * OBJECT_MAX
	    && lies_in_part(image, at, whole) && image_read(image, at, bytes, whole)
	    && image_field(image, bytes, image_count_bytes) == size);
}

/* Whether the bytes are a count of this site. */
static bool
is_count_of(const jeprof_image_t *image, const unsigned char *bytes, const image_site_t *site) {
	return image_field(image, bytes, image_count_site) == site->address
	    && image_field(image, bytes, image_count_hash) == image_hash_count(site->hash,
	    image_field(image, bytes, image_count_thread),
	    (uint32_t)image_field(image, bytes, image_count_epoch),
	    image_field(image, bytes, image_count_rate));
}

/* Notes the sampling interval of a count that is reported. */
static void
rate_note(jeprof_image_t *image, uint64_t rate) {
	image->is_mixed = image->is_mixed || (image->first_rate != 0 && image->first_rate != rate);
	image->first_rate = image->first_rate != 0 ? image->first_rate : rate;
}

/* The share of a thread in the site that is being read, new if it had none. NULL: no memory. */
static image_share_t *
share_get(jeprof_image_t *image, const image_site_t *site, uint32_t number) {
	image_thread_t *t = (image_thread_t *)image->threads.items + number;
	image_share_t *shares = image->shares.items;
	size_t which = image->sites.n;
	if (t->site == which && t->share >= site->shares && t->share < image->shares.n
	    && shares[t->share].thread == number) {
		return &shares[t->share];
	}
	t->site = which;
	t->share = image->shares.n;
	image_share_t *share = image_append(&image->shares, sizeof(*share));
	if (share != NULL) {
		share->thread = number;
	}
	return share;
}

/* Adds estimated bytes that were freed, by the age that they had, to site->life. 0 or ENOMEM. */
static int
life_take(jeprof_image_t *image, image_site_t *site, const unsigned char *bytes) {
	uint64_t life[PROF_AGES], all = 0;
	memcpy(life, bytes + image->root.fields[image_count_life].offset, sizeof(life));
	for (unsigned i = 0; i < PROF_AGES; i++) {
		all |= life[i];
	}
	uint64_t *columns = all == 0 ? NULL : image_columns_of(image, &site->life);
	for (unsigned i = 0; i < PROF_AGES && columns != NULL; i++) {
		columns[i] += life[i];
	}
	return all != 0 && columns == NULL ? ENOMEM : 0;
}

/*
 * Adds a count, which is at this address, to the share of its thread. Its accum sums count only
 * while the library adds to them (IMAGE_ACCUM). Leaves it out if it has no samples or no rate, is
 * of another epoch (before a prof.reset), or its thread's record cannot be read. 0 or ENOMEM.
 */
static int
count_take(jeprof_image_t *image, image_site_t *site, uint64_t at, const unsigned char *bytes) {
	uint64_t size = image_field(image, bytes, image_count_bytes);
	bool has_accum = size > image->root.struct_bytes[image_struct_count]
	    && (image->root.flags & IMAGE_ACCUM) != 0;
	prof_counts_t cur = counts_of(image, bytes, image_count_live), accum = {0, 0, 0, 0};
	uint64_t rate = image_field(image, bytes, image_count_rate), next;
	uint32_t number;
	cur.objs &= (UINT64_C(1) << IMAGE_LIVE_BITS) - 1;
	if (has_accum) {
		accum = counts_of(image, bytes, image_count_accum_objs);
	}
	if ((cur.objs == 0 && accum.objs == 0) || rate == 0
	    || image_field(image, bytes, image_count_epoch) != (uint32_t)image->root.epoch) {
		return 0;
	}
	int error = thread_get(image, image_field(image, bytes, image_count_thread), &number, &next);
	if (error != 0 || number == IMAGE_UNKNOWN) {
		return error;
	}
	image_share_t *share = share_get(image, site, number);
	if (share == NULL) {
		return ENOMEM;
	}
	rate_note(image, rate);
	prof_counts_add(&share->cur, &cur);
	prof_counts_add(&share->accum, &accum);
	/* The place of the site is there already, as the last one. */
	if (cur.objs != 0 && !image_table_try_put(&image->counts, at,
	    (uint32_t)(image->sites.n - 1))) {
		return ENOMEM;
	}
	return has_accum && has_life(image) ? life_take(image, site, bytes) : 0;
}

/*
 * Reads the list of a site's counts once, from `at` on. *is_broken: a count without proof was met,
 * which ends the walk if the process may run, and else is left out; or what is at an address is no
 * count, which ends the walk; or the list is a circle, whose counts may be added more than once. 0
 * or ENOMEM.
 */
static int
chain_read(jeprof_image_t *image, image_site_t *site, uint64_t at, bool *is_broken) {
	uint64_t mark = 0;
	*is_broken = false;
	for (uint64_t n = 1; at != 0 && at != mark; n++) {
		unsigned char bytes[OBJECT_MAX] = {0};
		if (!try_read_count(image, at, bytes)) {
			*is_broken = true;
			return 0;
		}
		if (is_count_of(image, bytes, site)) {
			int error = count_take(image, site, at, bytes);
			if (error != 0) {
				return error;
			}
		} else {
			*is_broken = true;
		}
		if (*is_broken && image->is_live) {
			return 0;
		}
		/* A chain that comes back to the mark, which moves on ever more rarely, is a circle. */
		mark = (n & (n - 1)) == 0 ? at : mark;
		at = image_field(image, bytes, image_count_next);
	}
	*is_broken = *is_broken || at != 0;
	return 0;
}

/* ---- sites ---- */

/* Copies a site's frames to image->frames, if its hash is theirs and they fit. 0 or ENOMEM. */
static int
frames_take(jeprof_image_t *image, image_site_t *site, bool *is_proven) {
	unsigned char packed[FRAMES_MAX * IMAGE_FRAME_BYTES];
	uint64_t at = site->address + image->root.fields[image_site_frames].offset;
	uint64_t hash = site->nframes;
	size_t bytes = (size_t)site->nframes * IMAGE_FRAME_BYTES;
	*is_proven = false;
	if (!lies_in_part(image, at, bytes) || image->frames.n + site->nframes > image->frames_most
	    || !image_read(image, at, packed, bytes)) {
		return 0;
	}
	site->frames = image->frames.n;
	for (unsigned i = 0; i < site->nframes; i++) {
		uint32_t low;
		uint16_t high;
		memcpy(&low, packed + i * IMAGE_FRAME_BYTES, sizeof(low));
		memcpy(&high, packed + i * IMAGE_FRAME_BYTES + sizeof(low), sizeof(high));
		uint64_t frame = (uint64_t)high << 32 | low;
		uint64_t *place = image_append(&image->frames, sizeof(*place));
		if (place == NULL) {
			return ENOMEM;
		}
		*place = frame;
		hash = image_hash_frame(hash, frame);
	}
	*is_proven = hash_mix64(hash) == site->hash;
	image->frames.n = *is_proven ? image->frames.n : site->frames;
	return 0;
}

/* Whether the size of the object fits its number of frames. */
static bool
is_size_of_site(const jeprof_image_t *image, const unsigned char *bytes) {
	uint64_t nframes = image_field(image, bytes, image_site_nframes);
	uint64_t size = image_field(image, bytes, image_site_bytes);
	uint64_t frames = image->root.fields[image_site_frames].offset + nframes * IMAGE_FRAME_BYTES;
	return nframes <= FRAMES_MAX && size >= frames && size < frames + PIECE_BYTES;
}

/*
 * Whether the site is still there; if so, *counts is the first of its counts now, and *next the
 * next site on the list.
 */
static bool
is_still_site(jeprof_image_t *image, const image_site_t *site, uint64_t *counts, uint64_t *next) {
	unsigned char bytes[OBJECT_MAX] = {0};
	if (!try_read_object(image, image_struct_site, site->address, bytes)
	    || !is_size_of_site(image, bytes)
	    || image_field(image, bytes, image_site_hash) != site->hash) {
		return false;
	}
	*counts = image_field(image, bytes, image_site_counts);
	*next = image_field(image, bytes, image_site_next);
	return true;
}

/*
 * Reads the counts of a site, the first of which is at `first`; if the list is broken because the
 * process changes it, reads it again, CHAIN_TRIES times in all; of a last try that is broken, what
 * was read stays, and torn counts one. A site that was removed meanwhile has none. Sets
 * site->shares and nshares. 0 or ENOMEM.
 */
static int
counts_walk(jeprof_image_t *image, image_site_t *site, uint64_t first) {
	bool is_broken = true;
	uint64_t next;
	int error = 0;
	site->shares = image->shares.n;
	for (unsigned i = 0; i < (image->is_live ? CHAIN_TRIES : 1) && is_broken && error == 0; i++) {
		image->shares.n = site->shares;
		if (site->life != 0) {
			memset(image_columns_of(image, &site->life), 0, sizeof(image_columns_t));
		}
		if (i > 0) {
			image_read_parts(image); /* the count may lie in memory that was handed out since */
		}
		if (i > 0 && !is_still_site(image, site, &first, &next)) {
			return 0;
		}
		error = chain_read(image, site, first, &is_broken);
	}
	image->torn += is_broken;
	site->nshares = image->shares.n - site->shares;
	return error;
}

/* Sums up the shares of a complete site, for the site, its threads and the image. */
static void
site_sum(jeprof_image_t *image, image_site_t *site) {
	for (size_t i = 0; i < site->nshares; i++) {
		const image_share_t *s = (image_share_t *)image->shares.items + site->shares + i;
		image_thread_t *t = (image_thread_t *)image->threads.items + s->thread;
		prof_counts_add(&site->cur, &s->cur);
		prof_counts_add(&site->accum, &s->accum);
		prof_counts_add(&t->cur, &s->cur);
		prof_counts_add(&t->accum, &s->accum);
	}
	prof_counts_add(&image->cur, &site->cur);
	prof_counts_add(&image->accum, &site->accum);
	image->nsites += site->nshares != 0;
}

/*
 * Reads the site at this address. *is_proven: it is one, and was not read before. *next is the next
 * one on the list, also of a site without proof if its size fits a site, else NOWHERE. 0 or ENOMEM.
 */
static int
site_read(jeprof_image_t *image, uint64_t at, bool *is_proven, uint64_t *next) {
	unsigned char bytes[OBJECT_MAX] = {0};
	*is_proven = false;
	*next = NOWHERE;
	if (at % PIECE_BYTES != 0 || is_in_table(&image->visited, at)
	    || !try_read_object(image, image_struct_site, at, bytes)
	    || !is_size_of_site(image, bytes)) {
		return 0;
	}
	*next = image_field(image, bytes, image_site_next);
	image_site_t site = {.address = at, .hash = image_field(image, bytes, image_site_hash),
	    .nframes = (unsigned)image_field(image, bytes, image_site_nframes),
	    .stamp = (uint32_t)image_field(image, bytes, image_site_stamp),
	    .then = (uint32_t)image_field(image, bytes, image_site_then)};
	int error = frames_take(image, &site, is_proven);
	if (error != 0 || !image_table_try_put(&image->visited, at, IMAGE_UNKNOWN)) {
		return ENOMEM;
	}
	if (!*is_proven) {
		return 0;
	}
	image_site_t *place = image_append(&image->sites, sizeof(*place));
	error = place == NULL ? ENOMEM
	    : counts_walk(image, &site, image_field(image, bytes, image_site_counts));
	if (error == 0) {
		site_sum(image, &site);
		*place = site;
	}
	return error;
}

/*
 * The address at which the walk through a running process goes on, after the object that it came to
 * had been freed: the site after the last one that is unchanged and whose next site was not read
 * yet, or the head of the list if there is none. 0: all was read, or the budget is used up.
 * *is_lost: the head was read already too, so that the caller must begin anew.
 */
static uint64_t
sites_resume(jeprof_image_t *image, bool *is_lost) {
	*is_lost = false;
	for (size_t i = image->sites.n; i > 0 && image->budget != 0; i--) {
		const image_site_t *site = (image_site_t *)image->sites.items + i - 1;
		uint64_t counts, next;
		if (is_still_site(image, site, &counts, &next)
		    && (next == 0 || !is_in_table(&image->visited, next))) {
			return next;
		}
	}
	if (image->budget == 0) {
		image->is_spent = true;
		return 0;
	}
	image_read_parts(image);
	*is_lost = is_in_table(&image->visited, image->root.sites);
	return *is_lost ? 0 : image->root.sites;
}

static void
table_clear(image_table_t *t) {
	if (t->room != 0) {
		memset(t->keys, 0, t->room * sizeof(*t->keys));
	}
	t->n = 0;
}

/* Drops all sites that were read, so that the walk can begin anew; torn and is_mixed stay. */
static void
sites_forget(jeprof_image_t *image) {
	image_thread_t *threads = image->threads.items;
	const prof_counts_t none = {0, 0, 0, 0};
	image->sites.n = image->shares.n = image->frames.n = image->nsites = 0;
	image->cur = image->accum = none;
	image->columns.n = 0;
	table_clear(&image->visited);
	table_clear(&image->counts);
	for (size_t i = 0; i < image->threads.n; i++) {
		threads[i].cur = threads[i].accum = none;
		threads[i].site = threads[i].share = 0;
	}
}

/* Reads all sites. A walk that must be given up adds to image->torn. 0 or ENOMEM. */
static int
sites_walk(jeprof_image_t *image) {
	uint64_t at = image->root.sites, next;
	unsigned resumes = 0, restarts = 0;
	while (at != 0) {
		bool is_proven, is_lost = false;
		int error = site_read(image, at, &is_proven, &next);
		if (error != 0) {
			return error;
		}
		if (!is_proven && image->is_live) {
			if (++resumes > RESUMES_MAX) {
				image->torn++;
				image->is_broken = true;
				return 0;
			}
			image_read_parts(image);
			next = sites_resume(image, &is_lost);
		} else {
			image->torn += !is_proven;
			image->is_broken = image->is_broken || next == NOWHERE;
			next = next == NOWHERE ? 0 : next;
		}
		if (is_lost && ++restarts <= RESTARTS_MAX) {
			sites_forget(image);
			next = image->root.sites;
		}
		image->torn += restarts > RESTARTS_MAX;
		image->is_broken = image->is_broken || restarts > RESTARTS_MAX;
		at = next;
	}
	image->torn += image->is_live && image->is_spent; /* what was not read, once */
	image->is_broken = image->is_broken || image->is_spent;
	return 0;
}

/* ---- loaded objects ---- */

/* Copies a record's path, cut to 3840 bytes, control characters as '?'; NULL without memory. */
static char *
path_read(jeprof_image_t *image, uint64_t at) {
	enum { PIECE = 256 };
	char text[PATH_MAX] = "";
	for (size_t n = 0; n + PIECE < sizeof(text) && strlen(text) == n; n += PIECE) {
		uint64_t there = bytes_behind(image, at + n);
		if (there == 0 || !image_read(image, at + n, text + n, there < PIECE ? there : PIECE)) {
			break;
		}
	}
	for (char *c = text; *c != '\0'; c++) {
		*c = (unsigned char)*c < 0x20 ? '?' : *c;
	}
	return strdup(text);
}

/* Reads the records of loaded objects, up to a damaged one or MODULES_MAX. 0 or ENOMEM. */
static int
modules_walk(jeprof_image_t *image) {
	uint32_t last = 0;
	for (uint64_t at = image->root.modules; at != 0 && image->modules.n < MODULES_MAX;) {
		unsigned char bytes[OBJECT_MAX] = {0};
		bool is_read = try_read_object(image, image_struct_module, at, bytes);
		uint32_t number = (uint32_t)image_field(image, bytes, image_module_number);
		if (!is_read || number <= last) { /* the numbers rise */
			image->torn += !image->is_live; /* else it may lie in memory that is new */
			break;
		}
		last = number;
		image_module_t *m = image_append(&image->modules, sizeof(*m));
		if (m == NULL) {
			return ENOMEM;
		}
		const image_field_t *id = &image->root.fields[image_module_build_id];
		m->address = at;
		m->start = image_field(image, bytes, image_module_start);
		m->end = image_field(image, bytes, image_module_end);
		m->bias = image_field(image, bytes, image_module_bias);
		m->number = number;
		m->build_id_len = (unsigned)image_field(image, bytes, image_module_build_id_len);
		m->build_id_len = m->build_id_len <= id->width && m->build_id_len <= sizeof(m->build_id)
		    ? m->build_id_len : 0;
		memcpy(m->build_id, bytes + id->offset, m->build_id_len);
		m->path = path_read(image, at + image->root.fields[image_module_path].offset);
		if (m->path == NULL) {
			return ENOMEM;
		}
		at = image_field(image, bytes, image_module_next);
	}
	return 0;
}

/* Sets is_shadowed of the records in whose range another object was loaded later. */
static void
shadows_find(jeprof_image_t *image) {
	image_module_t *m = image->modules.items;
	for (size_t i = 0; i < image->modules.n; i++) {
		for (size_t k = i + 1; k < image->modules.n && !m[i].is_shadowed; k++) {
			m[i].is_shadowed = m[k].start < m[i].end && m[i].start < m[k].end;
		}
		image->has_shadows = image->has_shadows || m[i].is_shadowed;
	}
}

int
image_read_tables(jeprof_image_t *image) {
	int error = modules_walk(image);
	shadows_find(image);
	error = error != 0 ? error : threads_walk(image);
	error = error != 0 ? error : sites_walk(image);
	if (image->is_live) {
		image_read_parts(image); /* blocks of records may be new */
	}
	error = error != 0 ? error : image_read_ages(image);
	if (image->is_live) {
		image_read_parts(image); /* labels of samples that were read may be new */
	}
	error = error != 0 ? error : image_read_labels(image);
	return error != 0 ? image_fail(image, error, "no memory for the profile") : 0;
}
