/*
 * An image as it was read: from the memory of a process, a core file or a box (a file that has the
 * profiler's tables and outlives the process). Shared by the files image_*.c of bin/client/; the
 * format is in meta/image.h, the interface in jeprof_client.h.
 *
 * The tables lie in ranges of addresses, the parts; their root, at the start of the first part, has
 * the heads of all lists. A site is a stack at which objects were sampled; a count has the sums of
 * one thread at one site; a share is what was read of a thread's counts at a site.
 *
 * A source (image_process.c, image_core.c, image_box.c) finds the root and the memory that
 * image_read() reads, and, but for a box, the memory map. All that comes from it may be forged. So
 * addresses of objects are checked against the parts of the tables. Not checked are those of three
 * lists whose objects may lie outside of the parts: root.records_elsewhere, root.labels_elsewhere,
 * and the ring of lines, the last hour or more (image_course.c). Sites and counts prove themselves:
 * each has a hash, a site of its frames, a count of its site's hash, thread, rate and epoch. The
 * numbers of sites, counts, threads and frames that are read are bounded by the bytes of the parts
 * or of the file, those of modules, records and labels by constants of image_tables.c, image_ages.c
 * and image_labels.c. No locks: an image belongs to one thread at a time.
 */
#pragma once
#include "client/target.h"
#include "meta/image.h"
#include "prof/sites/prof_ages.h"
#include "prof/sites/prof_printed.h"

/* A loaded object of the memory map. */
typedef struct image_object_s {
	client_object_t elf;
	char *path;
} image_object_t;

/* A range of memory whose bytes are in a file, or in `bytes` if that is not NULL. */
typedef struct image_range_s {
	uint64_t address;
	uint64_t size;
	/* of its first byte in the file; while a stream is being read: the room of `bytes` in bytes */
	uint64_t offset;
	unsigned char *bytes;    /* by malloc; NULL: the bytes are in the file */
	char flags[5];           /* access as in a memory map, such as "rw-p" */
} image_range_t;

/*
 * The record of a thread. Here and below, cur has the sums over live samples, accum those over all
 * samples, also the freed ones; accum is zero if the library does not count these (prof_accum).
 * prof_counts_t: number and bytes of the sampled objects (objs, bytes); estimates for all objects,
 * of their number in 1/65536 (c16) and of their bytes (est).
 */
typedef struct image_thread_s {
	uint64_t address;        /* of the record */
	uint64_t uid;            /* the number of the thread in dumps */
	bool is_attached;        /* the thread has not ended */
	char name[16];
	prof_counts_t cur;
	prof_counts_t accum;
	size_t site;             /* index + 1 of the last site in which it has a share; 0: none yet */
	size_t share;            /* index in image.shares of its share in that site */
} image_thread_t;

/* What one thread has of a site. */
typedef struct image_share_s {
	uint32_t thread;         /* index in image.threads */
	prof_counts_t cur;
	prof_counts_t accum;
} image_share_t;

/* Estimated bytes of a site by their age (prof_ages.h). */
typedef struct image_columns_s {
	uint64_t est[PROF_AGES];
} image_columns_t;

/* A site: a stack at which objects were sampled. */
typedef struct image_site_s {
	uint64_t address;        /* of the object in the tables */
	uint64_t hash;           /* of its frames */
	size_t frames;           /* index in image.frames */
	unsigned nframes;
	uint32_t stamp;          /* 0: its frames are in objects that are never unloaded */
	uint32_t then;           /* if stamp is not 0: last module record's number when it was made */
	size_t shares;           /* index of its first share in image.shares; they are adjacent */
	size_t nshares;          /* 0: there is nothing to report */
	prof_counts_t cur;
	prof_counts_t accum;
	size_t age;              /* index + 1 in image.columns: ages of live samples; 0: none */
	size_t life;             /* the same for freed samples: their ages when they were freed */
	prof_counts_t known;     /* sums over its live samples with a record */
} image_site_t;

/* The sums over the live samples of one site that have one label. */
typedef struct image_labeled_s {
	uint32_t site;           /* index in image.sites */
	uint32_t label;
	prof_counts_t cur;
} image_labeled_t;

/* How many numbers of labels there are, including 0, which means no label. */
enum { IMAGE_LABELS = 1 << (64 - IMAGE_USIZE_BITS) };

typedef struct image_label_s {
	char *text;              /* NULL: there is none */
	bool is_used;            /* a live sample has it */
} image_label_t;

/* The record of an object that was loaded at some time (unwind/module_history.h). */
typedef struct image_module_s {
	uint64_t address;        /* of the record */
	uint64_t start;          /* first address of the object; `end` is the one after its last */
	uint64_t end;
	uint64_t bias;           /* address in memory minus address in the file (p_vaddr) */
	uint32_t number;         /* of the record, from 1 on; they rise */
	bool is_shadowed;        /* an object was loaded later where this one lay */
	unsigned build_id_len;
	unsigned char build_id[CLIENT_BUILD_ID_MAX];
	char *path;
} image_module_t;

/* An array that grows; `items` has n elements of the size that its user gives each time. */
typedef struct image_array_s {
	void *items;
	size_t n;
	size_t room;             /* elements that there is memory for */
} image_array_t;

/* A hash table from addresses, or other keys that are not 0, to numbers; linear probing. */
typedef struct image_table_s {
	uint64_t *keys;          /* 0: free */
	uint32_t *values;
	size_t n;                /* keys in the table */
	size_t room;             /* places; a power of two, or 0 */
} image_table_t;

enum { IMAGE_UNKNOWN = UINT32_MAX }; /* not in a table */

struct jeprof_image_s {
	/* The source. */
	jeprof_target_t *target;     /* a process; NULL: a file */
	int fd;                      /* of a file; -1: a process */
	bool is_stream;              /* it can be read only once, from the front */
	uint64_t stream_at;          /* bytes of the stream that were read */
	uint64_t cut;                /* bytes that are missing at the end of the file */
	/* a process, or the box of one that runs: objects may be freed while they are read */
	bool is_live;
	const char *kind;            /* for the metadata: "outside", "core" or "blackbox" */
	const char *end;             /* of a box: how the process ended, or why not; NULL: no box */
	image_array_t ranges;        /* image_range_t: what a file has of the memory, ascending */
	char *maps;                  /* text of the memory map, as in /proc/PID/maps; NULL: none */
	size_t maps_bytes;
	image_array_t objects;       /* image_object_t: what is loaded, by the map */
	bool lacks_files;            /* a core does not tell all files that were mapped */
	uint64_t lacking;            /* files mapped as code that were not read whole as ELF objects */
	char exe[PATH_MAX];          /* path of the program; "": not known */
	/* The tables. */
	uint64_t at;                 /* address of the root */
	image_root_t root;
	uint64_t budget;             /* objects that may still be read; records have one of their own */
	/* the largest budget, and the most sums by label, that the caller wants; UINT64_MAX: any */
	uint64_t objects_most;
	bool is_spent;               /* an object was not read, as the budget was used up */
	uint64_t frames_most;        /* frames that all sites together may have */
	image_array_t sites;
	image_array_t shares;
	image_array_t frames;        /* uint64_t */
	image_array_t threads;       /* in the order of their list */
	image_array_t modules;
	image_table_t visited;       /* addresses of sites that were read, proven or not; no values */
	image_table_t known;         /* index of a thread by the address of its record */
	/* index of a site by the addresses of its counts that have live samples */
	image_table_t counts;
	image_array_t columns;
	image_array_t labeled;       /* image_labeled_t: by site and label, when all was read */
	image_table_t labeled_at;    /* index in `labeled` by site and label, until that is sorted */
	image_label_t *labels;       /* IMAGE_LABELS; NULL: no live sample has one */
	bool lacks_texts;            /* there may be labels whose texts the image does not have */
	bool has_ages;               /* `aged` is enough; else the profile shows no ages and labels */
	unsigned aged;               /* percent of the live samples whose ages are known */
	bool has_shadows;            /* one of the modules is shadowed */
	prof_counts_t cur;
	prof_counts_t accum;
	size_t nsites;               /* with something to report */
	uint64_t first_rate;         /* sampling interval of the first count reported; 0: none yet */
	bool is_mixed;               /* counts of different sampling intervals are reported */
	uint64_t torn;               /* objects left out as damaged, and walks that were given up */
	bool is_broken;              /* the list of sites was not followed to its end */
	char *why;                   /* JEPROF_WHY bytes of the caller */
};

/* ---- image_tables.c: helpers ---- */

/* Puts the sentence into image->why, and returns error. */
__attribute__((format(printf, 3, 4))) int image_fail(jeprof_image_t *image, int error,
    const char *format, ...);

/* Appends a zeroed element; the array may move. NULL, and nothing is changed, without memory. */
void *image_append(image_array_t *a, size_t size);

/* The number that a key, such as an address, has in the table; or IMAGE_UNKNOWN. */
uint32_t image_table_find(const image_table_t *t, uint64_t key);
/* Sets the number of a key that is not 0; false without memory. */
bool image_table_try_put(image_table_t *t, uint64_t key, uint32_t value);

/* ---- image_box.c: reading from any source ---- */

/* Reads memory of the process that the image is of; false if not all is there. */
bool image_read(jeprof_image_t *image, uint64_t at, void *buf, size_t size);
/*
 * Reads bytes of its file; of a stream, `offset` may not lie before what was read already. False:
 * not all are there.
 */
bool image_read_file(jeprof_image_t *image, uint64_t offset, void *buf, size_t size);
/* Bytes of the file; of a stream, those that were read. */
uint64_t image_file_bytes(const jeprof_image_t *image);
/* Appends a range of memory that the file has. NULL without memory. */
image_range_t *image_add_range(jeprof_image_t *image, const image_range_t *range);
/* Sorts ranges by their addresses: those of an image for image_read(). */
void image_sort_ranges(image_array_t *ranges);
/* The last of the sorted ranges that begins at or before the address; NULL: it lacks that byte. */
const image_range_t *image_find_range(const image_array_t *sorted, uint64_t at);
/*
 * Of a box: adds a range for each part of this root, which has at most IMAGE_PARTS, that has none
 * yet; sorts the ranges. False without memory.
 */
bool image_box_try_add_parts(jeprof_image_t *image, const image_root_t *root);

/* ---- image_process.c, image_core.c, image_box.c: set image->at, and read what is mapped ---- */

/* The sources: 0, or an errno with its sentence in image->why. A box has no memory map. */

int image_of_process(jeprof_image_t *image);
int image_of_core(jeprof_image_t *image);
int image_of_box(jeprof_image_t *image);

/* ---- image_maps.c ---- */

/*
 * Appends `length` bytes, more than 0, to the text of the memory map. 0 or ENOMEM; 0 also for a
 * piece that would make it larger than 64 MiB, which is left out.
 */
int image_add_text(jeprof_image_t *image, const char *text, size_t length);
/*
 * Finds the loaded objects by the text of the memory map; counts those that cannot be read
 * (lacking). *block is the address of the mailbox of the first library that has one, 0 if none is
 * found. 0 or ENOMEM, without a sentence.
 */
int image_find_objects(jeprof_image_t *image, uint64_t *block);

/* ---- image_tables.c ---- */

/* Whether the root, of an older library maybe, has all bytes of this field. */
#define IMAGE_ROOT_HAS(r, field) \
	((r)->root_bytes >= offsetof(image_root_t, field) + sizeof((r)->field))

/*
 * Checks the version and the byte order in a root. 0, EPROTO, or ENOENT: the profiler was never
 * started in the process.
 */
int image_check_version(jeprof_image_t *image, const image_root_t *r);
/* Reads the root at image->at, checks it, sets budget and frames_most. 0 or an errno. */
int image_read_root(jeprof_image_t *image);
/* Reads all lists; what is damaged is left out. 0 or ENOMEM, with its sentence. */
int image_read_tables(jeprof_image_t *image);
/*
 * The number in a field of an object that was read into `bytes`, which has room for the field; 0 if
 * the field has not the width of a number (1, 4 or 8 bytes).
 */
uint64_t image_field(const jeprof_image_t *image, const unsigned char *bytes, unsigned field);
/*
 * Reads the list of parts again, to which a process only adds, and the heads of the lists of sites,
 * records and labels. The heads of records and labels are read first, the parts after them: so each
 * object of these lists lies in a part that is known. Changes nothing if the root cannot be read,
 * has fewer parts than before, or more than IMAGE_PARTS. Without memory for the range of a new
 * part, what lies in that part is left out.
 */
void image_read_parts(jeprof_image_t *image);
/* As image_read(); if is_in_parts, false for bytes that do not lie in one part. */
bool image_try_read(jeprof_image_t *image, uint64_t at, void *buf, size_t size, bool is_in_parts);

/* ---- image_ages.c ---- */

/*
 * The columns of this number (index + 1), valid until others are added; if it is 0, sets it to that
 * of new ones. NULL without memory.
 */
uint64_t *image_columns_of(jeprof_image_t *image, size_t *number);
/*
 * Reads the records of samples, when all sites are read: sets has_ages, aged, the ages of sites,
 * and labeled. Nothing is set if the root, of an older library, has no such lists. 0 or ENOMEM.
 */
int image_read_ages(jeprof_image_t *image);

/* ---- image_labels.c ---- */

/* Whether the root tells the lists of labels' texts, and the fields of a label lie in it. */
bool image_has_label_lists(const jeprof_image_t *image);
/*
 * Adds live samples to the sums of the site with this index and the label. 0; ENOMEM also if there
 * would be more than objects_most sums.
 */
int image_label_add(jeprof_image_t *image, uint32_t site, uint32_t label,
    const prof_counts_t *counts);
/* When all records are read: reads the texts of the labels, and sorts the sums. 0 or ENOMEM. */
int image_read_labels(jeprof_image_t *image);
/*
 * Whether a profile shows the label: it has a text, or it may have one that the image lacks. Above
 * root.label_last no number was ever given to a text, so such a label is of a damaged record. To be
 * called only if image->labels is not NULL.
 */
bool image_label_is_shown(const jeprof_image_t *image, uint32_t label);
