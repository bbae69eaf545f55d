/*
 * The image: the profiler's tables as bytes that another program reads, from the memory of a living
 * process, from a core file, or from a box (a file, or a memfd, that holds the tables of a process
 * and outlives it). This file is the format; the library (prof/, unwind/module_history, meta/recs,
 * meta/region) writes it and bin/client/ reads it. Of the library's headers bin/client/ includes
 * only this one, prof_ages.h, prof_printed.h, prof_mailbox.h and what these include. No lock is
 * needed to read.
 *
 * The tables lie in at most IMAGE_PARTS ranges of addresses, the parts. The root is at the start of
 * the first part; the mailbox has its address (prof_mailbox.h). A box is all parts one behind the
 * other, so its first bytes are the root; all pointers in it are addresses, and part[i].offset says
 * where in the file the bytes of part i are. The memory of each part begins with an image_head_t,
 * by which a reader of a stream finds it.
 *
 * From the root a reader comes to
 *   sites    -> (site.next) all sites; site.counts -> (count.next) what each thread sampled there
 *   threads  -> (thread.next) the threads' records, which counts point to
 *   modules  -> (module.next) objects that were loaded at some time, oldest first
 *   records, records_elsewhere -> (block.next) blocks of the records of samples
 *   labels, labels_elsewhere   -> (label.next) the texts of the labels that samples have
 *   root.blocks -> the ring: a line a second or fewer, the last 3600 (not the blocks of records)
 * The types of these are private to the library. root.fields says where their fields are; the
 * library makes it from IMAGE_FIELDS by offsetof, so it is always right, and a reader does not
 * depend on the version of the library. A reader takes only fields that it knows and the root has:
 * fields are only ever appended to the list. A change that such a reader would misunderstand
 * changes IMAGE_VERSION.
 *
 * Readable at any instant. A process may be stopped, or die, between any two stores.
 * - A list is changed by one store. A new object is complete before a release store makes it the
 *   head of its list; a new module, before one makes it the last of its list. A removed object is
 *   bypassed by one store to its predecessor. So a walk from a head meets complete objects only,
 *   and an object that is on no list is never met.
 * - Only a removed object is freed, and only when no thread of the process can be reading it. A
 *   reader outside does not keep it from being freed. So in a RUNNING process, and only there, a
 *   reader may stand on a removed object, or on what its memory is used for now. Therefore the
 *   second word of an object in use has its size (site.bytes, count.bytes), and the link in its
 *   first word leads on only together with that: before the link of a removed site or count changes
 *   its size becomes one that no object has, and in freed memory the second word is 0. A reader
 *   takes both words from one read. And sites and counts prove themselves: a site by the hash of
 *   its frames (image_hash_frame), a count by the hash of its site, thread, rate and epoch
 *   (image_hash_count). A reader that stands on a site or count without size or proof goes back to
 *   the last one that has both, or to the head.
 * - In a process that was stopped or killed, the stores of a thread are visible up to some point in
 *   the order of its program, and none behind that point. This holds also where processors make
 *   stores visible in another order, because what a processor has carried out becomes visible even
 *   if the thread is stopped behind it. A thread that was recording a sample then may have added to
 *   some of the four sums of a count only (live, live_bytes, c16, est; accum_* likewise). So they
 *   may differ by one sample for each thread.
 * - A line of the ring has time_ns 0 while it is being written.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "util/mix.h"

#define IMAGE_MAGIC UINT64_C(0x656c626174706a6a)      /* "jjptable": a part of the tables */
#define IMAGE_VERSION 1u
#define IMAGE_BYTE_ORDER UINT32_C(0x01020304)         /* as the machine stores it */
#define IMAGE_PARTS 64u                               /* most parts of the tables */
#define IMAGE_FD_NAME "jemalloc-blackbox"             /* of the memfd of a box */

/* Bytes of a stored frame: user addresses have at most 48 bits. Low 32 bits, then high 16. */
#define IMAGE_FRAME_BYTES 6u
/* count.live: sampled objects in so many low bits; the bits above them are for the library only. */
#define IMAGE_LIVE_BITS 40u
/* record.sized: usable bytes in so many low bits, above them the number of the label. */
#define IMAGE_USIZE_BITS 48u
/* Weights (count.c16) are multiples of 1/65536. */
#define IMAGE_WEIGHT_ONE 65536u

/*
 * If a module (loaded object) was loaded at the place of an earlier one, a profile shows the
 * earlier one and its addresses in a substitute range, which no address of a program has. The range
 * of the module with the number n (module.number) begins at
 * IMAGE_SHADOW_BASE + (n << IMAGE_LG_SHADOW_SPAN).
 */
#define IMAGE_SHADOW_BASE (UINT64_C(1) << 52)
#define IMAGE_LG_SHADOW_SPAN 40u

/*
 * The only frame of the site that stands for all stacks for which a full box has no room. No
 * program has this address; a profile names it by a module of its own.
 */
#define IMAGE_NO_ROOM UINT64_C(0xffffffffff00)
#define IMAGE_NO_ROOM_NAME "[no room]"

/* X(struct, type): the types behind the pointers, by their names here and in the library. */
#define IMAGE_STRUCTS(X) \
	X(site, prof_site_t) \
	X(count, prof_cnt_t) \
	X(thread, prof_tdata_t) \
	X(module, module_record_t) \
	X(block, recs_block_t) \
	X(record, sample_rec_t) \
	X(label, prof_label_shown_t)

/*
 * X(struct, field, type, member): the fields that readers use. Appended to only; the width is that
 * of the member.
 *
 * `next`: address of the next object of the list; `bytes`: of the object; `hash`: its proof, see
 * above. site: `stamp` and `then` say which modules the frames are of (unwind/module_history.h);
 * `frames`: nframes return addresses, leaf first. count: `rate` is the sampling interval in bytes;
 * `live` and `live_bytes` are the sampled objects that live and their bytes; `c16` (in 1/65536) and
 * `est` are the estimates for all objects that live, sampled or not, and for their bytes. accum_*:
 * the same four for all objects that were ever allocated; `life`: estimated bytes of what was
 * freed, by age; these only with IMAGE_ACCUM. thread: `uid` is its number in profiles; `attached`:
 * it has not ended. module: its addresses begin at `start` and end before `end`; `bias`: address
 * minus address in the file. record: one sample, of `count` (0: of none); the fields are those of
 * sample_rec_t (meta/edata.h). label: `id` is its number.
 */
#define IMAGE_FIELDS(X) \
	X(site, next, prof_site_t, link.next) \
	X(site, bytes, prof_site_t, link.bytes) \
	X(site, nframes, prof_site_t, link.extra) \
	X(site, hash, prof_site_t, node.hash) \
	X(site, counts, prof_site_t, counts) \
	X(site, stamp, prof_site_t, stamp) \
	X(site, then, prof_site_t, then) \
	X(site, frames, prof_site_t, frames[0]) \
	X(count, next, prof_cnt_t, link.next) \
	X(count, bytes, prof_cnt_t, link.bytes) \
	X(count, epoch, prof_cnt_t, link.extra) \
	X(count, hash, prof_cnt_t, node.hash) \
	X(count, site, prof_cnt_t, site) \
	X(count, thread, prof_cnt_t, tdata) \
	X(count, rate, prof_cnt_t, rate) \
	X(count, live, prof_cnt_t, live) \
	X(count, live_bytes, prof_cnt_t, bytes) \
	X(count, c16, prof_cnt_t, c16) \
	X(count, est, prof_cnt_t, est) \
	X(count, accum_objs, prof_cnt_t, accum[0].objs) \
	X(count, accum_bytes, prof_cnt_t, accum[0].bytes) \
	X(count, accum_c16, prof_cnt_t, accum[0].c16) \
	X(count, accum_est, prof_cnt_t, accum[0].est) \
	X(thread, next, prof_tdata_t, link.next) \
	X(thread, uid, prof_tdata_t, uid) \
	X(thread, attached, prof_tdata_t, attached) \
	X(thread, name, prof_tdata_t, name) \
	X(module, next, module_record_t, next) \
	X(module, start, module_record_t, start) \
	X(module, end, module_record_t, end) \
	X(module, bias, module_record_t, bias) \
	X(module, number, module_record_t, number) \
	X(module, build_id_len, module_record_t, build_id_len) \
	X(module, build_id, module_record_t, build_id) \
	X(module, path, module_record_t, path[0]) \
	X(count, life, prof_cnt_t, accum[0].life) \
	X(block, next, recs_block_t, next) \
	X(block, n, recs_block_t, n) \
	X(block, records, recs_block_t, recs) \
	X(record, count, sample_rec_t, tctx) \
	X(record, weight, sample_rec_t, weight) \
	X(record, time_ns, sample_rec_t, time_ns) \
	X(record, sized, sample_rec_t, sized) \
	X(label, next, prof_label_shown_t, next) \
	X(label, bytes, prof_label_shown_t, bytes) \
	X(label, id, prof_label_shown_t, id) \
	X(label, text, prof_label_shown_t, text[0])

/* image_site_next and so on: the index in root.fields. */
#define IMAGE_FIELD_INDEX(of, field, type, member) image_##of##_##field,
enum { IMAGE_FIELDS(IMAGE_FIELD_INDEX) IMAGE_NFIELDS };
#undef IMAGE_FIELD_INDEX

#define IMAGE_STRUCT_INDEX(of, type) image_struct_##of,
enum { IMAGE_STRUCTS(IMAGE_STRUCT_INDEX) IMAGE_NSTRUCTS };
#undef IMAGE_STRUCT_INDEX

/* Room for fields and structs of later versions. */
#define IMAGE_FIELDS_ROOM 64u
#define IMAGE_STRUCTS_ROOM 16u

/* Where a field is in its struct, and the size of the field itself; in bytes. */
typedef struct image_field_s {
	uint16_t offset;
	uint16_t width;
} image_field_t;

/*
 * Numbers that do not lie in the tables, as they were when prof_course.c last wrote them, about
 * once in a second. This list must stay as it is: it lies in the middle of image_root_t, so one
 * figure more would move the fields behind it. A new number goes to the end of image_root_t, or
 * changes IMAGE_VERSION. Those from `allocated` to `limit` are bytes, those behind them counts
 * since the start of the process.
 */
#define IMAGE_FIGURES(X) \
	X(time_ns) /* when the others were written, UTC */ \
	X(monotonic_ns) /* the same instant by the monotonic clock */ \
	X(instance) /* random number of the process, as in the mailbox */ \
	X(allocated) \
	X(active) \
	X(resident) \
	X(retained) \
	X(huge) /* part of resident in huge pieces */ \
	X(populated) /* made present before the first touch, since the start */ \
	X(rss) /* resident set; 0: not known, as without a thread of the profiler */ \
	X(limit) /* of memory; 0: none, or not known */ \
	X(faults) /* major page faults */ \
	X(truncated_stacks) /* backtraces that were cut at prof_bt_max */ \
	X(suppressed) /* automatic profiles that were left out (prof_keep.h) */ \
	X(overlapped) /* of the suppressed: due while another was written; pending ones too */ \
	X(dump_errors) /* dumps that failed */ \
	X(samples) /* taken since the start */ \
	X(fallbacks) /* samples with a frame whose unwind row cannot be cached */

#define IMAGE_FIGURE_MEMBER(name) uint64_t name;
typedef struct image_figures_s {
	IMAGE_FIGURES(IMAGE_FIGURE_MEMBER)
} image_figures_t;
#undef IMAGE_FIGURE_MEMBER

/* One line of the ring: some of the figures (IMAGE_FIGURES) at one time. */
typedef struct image_line_s {
	uint64_t time_ns;      /* UTC; 0: no line, or it is being written */
	uint64_t allocated;
	uint64_t active;
	uint64_t resident;
	uint64_t rss;          /* 0: not known */
	uint64_t limit;        /* 0: none, or not known */
	uint64_t samples;
	uint64_t faults;
} image_line_t;

/* The ring has so many blocks of so many lines; a block is made when its first line is written. */
#define IMAGE_BLOCKS 60u
#define IMAGE_BLOCK_LINES 60u

/* At the start of each part. */
typedef struct image_head_s {
	uint64_t magic;
	uint64_t self;         /* the address of this head */
	uint64_t bytes;        /* of the part, this head included */
	uint64_t root;         /* the address of the root */
} image_head_t;

/* One part: where it lies in the process and in the box. */
typedef struct image_part_s {
	uint64_t address;
	uint64_t bytes;
	uint64_t offset;       /* in the box, in bytes */
	uint64_t used;         /* bytes from the start of the part that have been handed out */
} image_part_t;

/*
 * Values of root.state: whether a box is still written, and why not. image_ended is stored by the
 * process itself; image_replaced by the library in the program that exec has put in its place, if
 * it finds the file (prof_earlier.c).
 */
enum { image_open, image_ended, image_replaced };

/* Bits of root.flags. */
#define IMAGE_ACCUM 1u     /* counts have sums of all that was allocated (prof_accum) */
#define IMAGE_REALTIME 4u  /* the times of records are UTC, not of the monotonic clock */
#define IMAGE_RAW 2u       /* a profile shows sampled counts, not estimates (prof_unbias:false) */

/* Fields are appended at the end only; a reader uses those that root_bytes covers. */
typedef struct image_root_s {
	image_head_t head;
	uint32_t version;      /* stored last of what does not change; 0: there are no tables yet */
	uint32_t byte_order;
	uint32_t root_bytes;   /* of this struct */
	uint32_t page;         /* bytes of a page */
	uint32_t pid;          /* as the process sees itself; 0: not known, in some forked children */
	uint32_t state;        /* image_open, image_ended or image_replaced */
	uint32_t flags;        /* IMAGE_ACCUM, IMAGE_REALTIME, IMAGE_RAW */
	uint32_t nparts;
	/* clock ticks from boot to the start of the process; 0: not known, or there was no box yet */
	uint64_t start_ticks;
	uint64_t opened_ns;    /* when the last box was opened, UTC; 0: there was none */
	uint64_t ended_ns;     /* when it ended, UTC; 0: not yet */
	uint64_t box_bytes;    /* bytes of the box; 0: the tables are in private memory */
	char library_version[64];
	char ext_version[16];
	char unwinder[16];
	char unwinder_stops[96];   /* names of the numbers in `stops`, separated by blanks */
	uint32_t nfields;
	uint32_t nstructs;
	image_field_t fields[IMAGE_FIELDS_ROOM];      /* by image_STRUCT_FIELD */
	uint32_t struct_bytes[IMAGE_STRUCTS_ROOM];    /* by image_struct_STRUCT */
	image_part_t parts[IMAGE_PARTS];
	/* The addresses of the first elements of the lists; 0: the list is empty. */
	uint64_t sites;
	uint64_t threads;
	uint64_t modules;
	/*
	 * The addresses of the ring's blocks (0: not made), and the number of lines written so far.
	 * Line n is line n % IMAGE_BLOCK_LINES of block n / IMAGE_BLOCK_LINES % IMAGE_BLOCKS.
	 */
	uint64_t blocks[IMAGE_BLOCKS];
	uint64_t nlines;
	/* Written when they change. */
	uint64_t epoch;        /* resets, also of sessions; counts of other epochs are not reported */
	uint64_t rate;         /* sampling interval in bytes */
	uint64_t session;      /* number of the last session (prof_session.c) */
	uint64_t session_start_ns; /* when it started, UTC */
	uint64_t program;      /* address of the module record of the program itself; 0: not known */
	uint64_t no_room;      /* samples that are counted at IMAGE_NO_ROOM, as the box is full */
	/* Written about once in a second, by prof_course.c. */
	image_figures_t figures;
	uint64_t stops[8];     /* walks of the unwinder by the reason for which they stopped */
	uint64_t depths[16];   /* walks by the number of frames (unwind_stats_s) */
	uint32_t nstops;       /* elements of `stops` and of `depths` that are used */
	uint32_t ndepths;
	uint64_t without_hdr;  /* modules without .eh_frame_hdr */
	uint64_t scanned;      /* of these, those whose .eh_frame was found by a scan */
	/* Lists of blocks of samples' records: in the parts, and in memory that is in none of them. */
	uint64_t records;
	uint64_t records_elsewhere;
	/* Lists of labels, newest first, in the same two places; nothing on them goes or changes. */
	uint64_t labels;
	uint64_t labels_elsewhere;
	uint64_t label_last;   /* the greatest number on them */
	/* When counting began (first sampling, or the last reset), by the monotonic clock; 0: never. */
	uint64_t begun_ns;
} image_root_t;

/*
 * One step of the hash of a site's frames. The hash begins as their number; hash_mix64() of the
 * last step's result is site.hash.
 */
static inline uint64_t
image_hash_frame(uint64_t hash, uint64_t frame) {
	hash = (hash ^ frame) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

/*
 * The hash of a count; thread: address of its thread's record, which has at most 48 bits. Only the
 * low 16 bits of epoch enter, so whoever looks for a count compares its epoch too.
 */
static inline uint64_t
image_hash_count(uint64_t site_hash, uint64_t thread, uint32_t epoch, uint64_t rate) {
	uint64_t who = thread + ((uint64_t)epoch << 48);
	return hash_mix64(site_hash ^ hash_mix64(who ^ rate * UINT64_C(0x9e3779b97f4a7c15)));
}
