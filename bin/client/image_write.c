/*
 * Writes an image as a profile, in the grammar of the library's own dumps (prof/file/prof_dump.c),
 * so that what reads those can read it: heap_v2 with metadata, threads, stacks, the memory map, the
 * loaded objects, ages and labels; after them the lines of the ring, which no dump has. Invariant:
 * if a process does not change, its threads, stacks and counts are in the text as in its own dump,
 * with ages and labels (those of the dump stand together for each site). The metadata are others,
 * and the lines # frag are missing. No locks. jeprof_image_write() is called by jeprofctl
 * (bin/ctl/dump.c), jeprof_image_text() by jeprofd (bin/agent/scrape.c, dead_profile.c). After a
 * failed write nothing more is written; it is told at the end.
 */
#include "client/image_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* log2 of the remembered places: most frames of a profile are in many stacks. */
#define LG_PLACES 10

/* The profile that is being written. */
typedef struct writer_s {
	jeprof_image_t *image;
	jeprof_image_line_t *lines; /* the lines of the ring (image_course.c) */
	size_t nlines;
	FILE *to;
	uint64_t bytes;             /* of the text so far; the last line has those before it */
	uint64_t bytes_max;         /* of the whole text */
	int error;                  /* errno of the first write that failed; 0: none */
	struct {
		uint64_t frame, place;
		uint32_t then;
	} places[1 << LG_PLACES]; /* results of place_find(), a cache by a hash of the frame */
} writer_t;

__attribute__((format(printf, 2, 3))) static void
put(writer_t *w, const char *format, ...) {
	va_list args;
	if (w->error != 0) {
		return;
	}
	va_start(args, format);
	int n = vfprintf(w->to, format, args);
	va_end(args);
	w->bytes += n > 0 ? (uint64_t)n : 0;
	w->error = n < 0 ? errno : w->bytes > w->bytes_max ? EFBIG : 0;
}

/* ---- metadata ---- */

static void
meta_number(writer_t *w, const char *key, uint64_t value) {
	put(w, "# jemalloc.%s=%" PRIu64 "\n", key, value);
}

/* A text of at most `size` bytes, which may have no NUL; control characters are replaced. */
static void
meta_text(writer_t *w, const char *key, const char *text, size_t size) {
	put(w, "# jemalloc.%s=", key);
	for (size_t i = 0; i < size && text[i] != '\0'; i++) {
		put(w, "%c", (unsigned char)text[i] < 0x20 ? '?' : text[i]);
	}
	put(w, "\n");
}

/* A time in ns since 1970. */
static void
meta_stamp(writer_t *w, const char *key, uint64_t ns) {
	char stamp[32];
	put(w, "# jemalloc.%s=%s\n", key, client_stamp(ns, stamp));
}

static void
write_unwinder(writer_t *w) {
	const image_root_t *r = &w->image->root;
	char names[sizeof(r->unwinder_stops) + 1] = "";
	memcpy(names, r->unwinder_stops, sizeof(r->unwinder_stops));
	meta_text(w, "unwinder", r->unwinder, sizeof(r->unwinder));
	put(w, "# jemalloc.unwinder_health=samples:%" PRIu64 " fallbacks:%" PRIu64, r->figures.samples,
	    r->figures.fallbacks);
	char *rest = NULL, *name = strtok_r(names, " ", &rest);
	for (unsigned i = 0; i < r->nstops && i < sizeof(r->stops) / sizeof(r->stops[0])
	    && name != NULL; i++) {
		put(w, " %s:%" PRIu64, name, r->stops[i]);
		name = strtok_r(NULL, " ", &rest);
	}
	put(w, "\n# jemalloc.unwinder_tables=without_hdr:%" PRIu64 " scanned:%" PRIu64, r->without_hdr,
	    r->scanned);
	put(w, "\n# jemalloc.unwinder_depths=");
	for (unsigned i = 0; i < r->ndepths && i < sizeof(r->depths) / sizeof(r->depths[0]); i++) {
		put(w, "%s%" PRIu64, i == 0 ? "" : " ", r->depths[i]);
	}
	put(w, "\n");
}

static void
write_times(writer_t *w) {
	const jeprof_image_t *image = w->image;
	const image_root_t *r = &image->root;
	bool is_live = image->target != NULL; /* not of a file, as image->is_live may be */
	meta_number(w, "session", r->session);
	if (r->session != 0) {
		meta_stamp(w, "start_time", r->session_start_ns);
	}
	/* Of a file: the time of the last figures that the process wrote into its tables. */
	meta_stamp(w, "dump_time", is_live ? client_clock_ns(CLOCK_REALTIME) : r->figures.time_ns);
	uint64_t now = is_live ? client_clock_ns(CLOCK_MONOTONIC) : r->figures.monotonic_ns;
	meta_number(w, "monotonic_ms", now / 1000000);
	/* It is after `now` if the last figures were written before a reset. */
	if (IMAGE_ROOT_HAS(r, begun_ns) && r->begun_ns != 0) {
		meta_number(w, "profiled_ms", now > r->begun_ns ? (now - r->begun_ns) / 1000000 : 0);
	}
	meta_text(w, "kind", image->kind, SIZE_MAX);
	if (image->end != NULL) {
		meta_stamp(w, "opened_time", r->opened_ns);
		meta_text(w, "end", image->end, SIZE_MAX);
	}
	if (image->end != NULL && r->state != image_open) {
		meta_stamp(w, "ended_time", r->ended_ns);
	}
}

/* The last rise of the resident memory in bytes and how long it took in ms, if there was one. */
static void
write_growth(writer_t *w) {
	uint64_t ms, grown = jeprof_course_growth(w->lines, w->nlines, &ms);
	if (grown != 0) {
		meta_number(w, "grown", grown);
		meta_number(w, "grown_ms", ms);
	}
}

/* The path of the program; if the source does not say it, that of the program's record, or "". */
static const char *
exe_of(const jeprof_image_t *image) {
	const image_module_t *m = image->modules.items;
	for (size_t i = 0; i < image->modules.n && image->exe[0] == '\0'; i++) {
		if (m[i].address == image->root.program) {
			return m[i].path;
		}
	}
	return image->exe;
}

static void
write_metadata(writer_t *w) {
	const jeprof_image_t *image = w->image;
	const image_root_t *r = &image->root;
	const image_figures_t *f = &r->figures;
	meta_text(w, "version", r->library_version, sizeof(r->library_version));
	meta_text(w, "prof_ext_version", r->ext_version, sizeof(r->ext_version));
	meta_number(w, "pid", r->pid);
	if (f->instance != 0) {
		put(w, "# jemalloc.instance=%016" PRIx64 "\n", f->instance);
	}
	meta_text(w, "exe", exe_of(image), PATH_MAX);
	write_times(w);
	meta_number(w, "sample_interval", r->rate);
	meta_text(w, "mixed_rates", image->is_mixed ? "true" : "false", SIZE_MAX);
	meta_number(w, "allocated", f->allocated);
	meta_number(w, "active", f->active);
	meta_number(w, "resident", f->resident);
	meta_number(w, "retained", f->retained);
	meta_number(w, "huge", f->huge);
	meta_number(w, "populated", f->populated);
	meta_number(w, "rss", image->target != NULL ? client_rss(image->target) : f->rss);
	if (f->limit != 0) {
		meta_number(w, "limit", f->limit);
	}
	write_growth(w);
	meta_number(w, "samples", image->cur.objs);
	meta_number(w, "sites", image->nsites);
	meta_number(w, "truncated_stacks", f->truncated_stacks);
	meta_number(w, "suppressed", f->suppressed);
	meta_number(w, "overlapped", f->overlapped);
	meta_number(w, "dump_errors", f->dump_errors);
	meta_number(w, "torn", image->torn);
	if (image->is_broken) {
		meta_text(w, "torn_list", "true", SIZE_MAX);
	}
	/* Not of a core: one that is cut off often has all that the profile is made of. */
	if (image->cut != 0 && strcmp(image->kind, "blackbox") == 0) {
		meta_number(w, "cut", image->cut);
	}
	if (r->box_bytes != 0) {
		meta_number(w, "no_room", r->no_room);
	}
	write_unwinder(w);
}

/* ---- counts and stacks ---- */

/*
 * The sampling interval in bytes in the first line, with which readers scale the counts. 1 if the
 * counts have several: then estimates are printed, which an interval of 1 leaves as they are.
 */
static uint64_t
header_rate(const jeprof_image_t *image) {
	uint64_t rate = image->is_mixed ? 1 : image->first_rate != 0 ? image->first_rate
	    : image->root.rate;
	return rate != 0 ? rate : 1;
}

/* Whether the sums of the samples are printed as they are, not as estimates. */
static bool
is_printed_raw(const jeprof_image_t *image) {
	return (image->root.flags & IMAGE_RAW) != 0 && !image->is_mixed;
}

/* "LIVE: BYTES [ALL: BYTES]": readers who scale by header_rate() get the estimates (not if raw). */
static void
put_counts(writer_t *w, const prof_counts_t *cur, const prof_counts_t *accum) {
	const jeprof_image_t *image = w->image;
	uint64_t objs[2] = {0, 0}, bytes[2] = {0, 0}, rate = header_rate(image);
	bool is_raw = is_printed_raw(image);
	prof_printed(cur, rate, is_raw, &objs[0], &bytes[0]);
	prof_printed(accum, rate, is_raw, &objs[1], &bytes[1]);
	put(w, "%" PRIu64 ": %" PRIu64 " [%" PRIu64 ": %" PRIu64 "]", objs[0], bytes[0], objs[1],
	    bytes[1]);
}

static void
put_total(writer_t *w, const prof_counts_t *cur, const prof_counts_t *accum) {
	put(w, "  t*: ");
	put_counts(w, cur, accum);
	put(w, "\n");
}

static int
compare_threads(const void *a, const void *b) {
	const image_thread_t *const *x = a, *const *y = b;
	return (*x)->uid < (*y)->uid ? -1 : (*x)->uid > (*y)->uid;
}

/* Ascending by number, as in a dump; without ended threads whose sums are 0. 0 or ENOMEM. */
static int
write_threads(writer_t *w) {
	image_array_t *threads = &w->image->threads;
	const image_thread_t **order = malloc((threads->n + 1) * sizeof(*order));
	if (order == NULL) {
		return ENOMEM;
	}
	for (size_t i = 0; i < threads->n; i++) {
		order[i] = (image_thread_t *)threads->items + i;
	}
	qsort(order, threads->n, sizeof(*order), compare_threads);
	for (size_t i = 0; i < threads->n; i++) {
		const image_thread_t *t = order[i];
		if (!t->is_attached && t->cur.objs == 0 && t->accum.objs == 0) {
			continue;
		}
		put(w, "  t%" PRIu64 ": ", t->uid);
		put_counts(w, &t->cur, &t->accum);
		put(w, "%s%s\n", t->name[0] != '\0' ? " " : "", t->name);
	}
	free(order);
	return 0;
}

/* The substitute address at which a profile shows an object whose place another one took later. */
static uint64_t
shadow_of(const image_module_t *m) {
	return IMAGE_SHADOW_BASE + ((uint64_t)m->number << IMAGE_LG_SHADOW_SPAN);
}

/*
 * The address that a profile shows for a return address that was sampled when the record number
 * `then` of the loaded objects was the last one: the address itself, or if its object is shadowed,
 * one in the substitute range (unwind/module_history.h).
 */
static uint64_t
place_find(const jeprof_image_t *image, uint64_t frame, uint32_t then) {
	const image_module_t *m = image->modules.items;
	size_t at = SIZE_MAX;
	for (size_t i = 0; i < image->modules.n && m[i].number <= then; i++) {
		at = frame - 1 - m[i].start < m[i].end - m[i].start ? i : at;
	}
	return at != SIZE_MAX && m[at].is_shadowed ? shadow_of(&m[at]) + (frame - m[at].start)
	    : frame;
}

/* As place_find(), which takes time for each module, but remembers results (w->places). */
static uint64_t
place_of(writer_t *w, uint64_t frame, uint32_t then) {
	size_t i = (size_t)(frame * UINT64_C(0x9e3779b97f4a7c15) >> (64 - LG_PLACES));
	if (!w->image->has_shadows) {
		return frame;
	}
	if (w->places[i].frame != frame || w->places[i].then != then) {
		w->places[i].frame = frame;
		w->places[i].then = then;
		w->places[i].place = place_find(w->image, frame, then);
	}
	return w->places[i].place;
}

/* Leaf first, less 1: readers subtract 1 from the other addresses themselves. */
static void
write_stack(writer_t *w, const image_site_t *site) {
	const uint64_t *frames = w->image->frames.items;
	put(w, "@");
	for (unsigned i = 0; i < site->nframes; i++) {
		uint64_t frame = frames[site->frames + i];
		uint64_t at = site->stamp != 0 ? place_of(w, frame, site->then) : frame;
		put(w, " 0x%" PRIx64, at - (i == 0 && at != 0));
	}
	put(w, "%s\n", site->nframes == 0 ? " 0x0" : "");
}

static void
write_sites(writer_t *w) {
	const image_site_t *sites = w->image->sites.items;
	for (size_t i = 0; i < w->image->sites.n; i++) {
		if (sites[i].nshares == 0) {
			continue;
		}
		const image_share_t *shares = (image_share_t *)w->image->shares.items + sites[i].shares;
		write_stack(w, &sites[i]);
		put_total(w, &sites[i].cur, &sites[i].accum);
		for (size_t k = 0; k < sites[i].nshares; k++) {
			const image_thread_t *t = (image_thread_t *)w->image->threads.items + shares[k].thread;
			put(w, "  t%" PRIu64 ": ", t->uid);
			put_counts(w, &shares[k].cur, &shares[k].accum);
			put(w, "\n");
		}
	}
}

/* ---- the memory map and the loaded objects ---- */

static void
put_module(writer_t *w, uint64_t start, uint64_t end, uint64_t bias, const unsigned char *id,
    unsigned id_len, const char *path) {
	put(w, "# module %" PRIx64 "-%" PRIx64 " %" PRIx64 " ", start, end, bias);
	for (unsigned i = 0; i < id_len; i++) {
		put(w, "%02x", id[i]);
	}
	put(w, "%s %s\n", id_len == 0 ? "-" : "", path);
}

/* Whether an object of the memory map overlaps the range of this record. */
static bool
is_covered(const jeprof_image_t *image, const image_module_t *m) {
	const image_object_t *o = image->objects.items;
	for (size_t i = 0; i < image->objects.n; i++) {
		if (o[i].elf.start < m->end && m->start < o[i].elf.end) {
			return true;
		}
	}
	return false;
}

/*
 * The recorded objects that the memory map does not show where they were: shadowed ones, at their
 * substitute addresses, and those where no object of the map lies, as they were unloaded or the map
 * does not name them.
 */
static void
write_records(writer_t *w) {
	const image_module_t *m = w->image->modules.items;
	for (size_t i = 0; i < w->image->modules.n; i++) {
		bool is_elsewhere = m[i].is_shadowed;
		uint64_t by = is_elsewhere ? shadow_of(&m[i]) - m[i].start : 0;
		if (is_elsewhere || !is_covered(w->image, &m[i])) {
			put_module(w, m[i].start + by, m[i].end + by, m[i].bias + by, m[i].build_id,
			    m[i].build_id_len, m[i].path);
		}
	}
}

/* The text of the memory map; without one, a line for each recorded object not shadowed. */
static void
write_map(writer_t *w) {
	const jeprof_image_t *image = w->image;
	const image_module_t *m = image->modules.items;
	put(w, "\nMAPPED_LIBRARIES:\n");
	if (image->maps != NULL) {
		w->bytes += image->maps_bytes;
		w->error = w->error == 0 && w->bytes > w->bytes_max ? EFBIG : w->error;
		bool is_all = w->error != 0
		    || fwrite(image->maps, 1, image->maps_bytes, w->to) == image->maps_bytes;
		w->error = is_all ? w->error : errno;
		return;
	}
	for (size_t i = 0; i < image->modules.n; i++) {
		if (!m[i].is_shadowed) {
			put(w, "%" PRIx64 "-%" PRIx64 " r-xp 00000000 00:00 0 %s\n", m[i].start, m[i].end,
			    m[i].path);
		}
	}
}

static void
write_objects(writer_t *w) {
	const image_object_t *o = w->image->objects.items;
	for (size_t i = 0; i < w->image->objects.n; i++) {
		put_module(w, o[i].elf.start, o[i].elf.end, o[i].elf.bias, o[i].elf.build_id,
		    o[i].elf.build_id_len, o[i].path);
	}
	write_records(w);
	if (w->image->root.no_room != 0) {
		put_module(w, IMAGE_NO_ROOM - 1, IMAGE_NO_ROOM + 1, IMAGE_NO_ROOM - 1, NULL, 0,
		    IMAGE_NO_ROOM_NAME);
	}
}

static const image_columns_t *
columns_get(const writer_t *w, size_t number) {
	return (const image_columns_t *)w->image->columns.items + number - 1;
}

/*
 * Writes the columns with this number (index + 1) for the n-th site that is written, from 1 on:
 * each as its part of the bytes that are printed for `counts`. est: the estimated bytes of which
 * the columns are parts.
 */
static void
write_columns(writer_t *w, const char *what, size_t n, size_t number, const prof_counts_t *counts,
    uint64_t est) {
	image_columns_t c = *columns_get(w, number);
	uint64_t objs, bytes;
	prof_printed(counts, header_rate(w->image), is_printed_raw(w->image), &objs, &bytes);
	prof_ages_split(c.est, est, bytes);
	put(w, "# %s %zu", what, n);
	for (unsigned i = 0; i < PROF_AGES; i++) {
		if (c.est[i] != 0) {
			put(w, " %u:%" PRIu64, i, c.est[i]);
		}
	}
	put(w, "\n");
}

/*
 * The sum of the columns with this number. Ages are parts of that, not of the site's estimate: not
 * all live samples have a record.
 */
static uint64_t
columns_sum(const writer_t *w, size_t number) {
	const image_columns_t *c = columns_get(w, number);
	uint64_t sum = 0;
	for (unsigned i = 0; i < PROF_AGES; i++) {
		sum += c->est[i];
	}
	return sum;
}

static void
write_ages(writer_t *w) {
	jeprof_image_t *image = w->image;
	const image_site_t *sites = image->sites.items;
	if (!image->has_ages) {
		put(w, "# age none: the image has the ages of %u %% of the live samples\n", image->aged);
		return;
	}
	put(w, "# age_bounds_s" PROF_AGE_BOUNDS_TEXT "\n");
	for (size_t i = 0, n = 0; i < image->sites.n; i++) {
		if (sites[i].nshares == 0) {
			continue; /* has no lines above either */
		}
		n++;
		if (sites[i].age != 0 && sites[i].cur.objs != 0) {
			write_columns(w, "age", n, sites[i].age, &sites[i].cur, columns_sum(w, sites[i].age));
		}
		if (sites[i].life != 0) {
			write_columns(w, "life", n, sites[i].life, &sites[i].accum, sites[i].accum.est);
		}
	}
}

/* ---- labels ---- */

/* Writes a text; bytes that are not printable ASCII, and the backslash, as \xNN. */
static void
put_escaped(writer_t *w, const char *text) {
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;
		put(w, c >= ' ' && c <= '~' && c != '\\' ? "%c" : "\\x%02x", c);
	}
}

static void
write_texts(writer_t *w) {
	const image_label_t *labels = w->image->labels;
	for (uint32_t id = 1; id < IMAGE_LABELS; id++) {
		if (!labels[id].is_used || !image_label_is_shown(w->image, id)) {
			continue;
		}
		put(w, "# label %" PRIu32 " ", id);
		if (labels[id].text == NULL) {
			put(w, "[label %" PRIu32 ": its text is not in the image]", id);
		} else {
			put_escaped(w, labels[id].text);
		}
		put(w, "\n");
	}
}

/* printed * some / all, rounded down; all of `printed` if some >= all. */
static uint64_t
part_of(uint64_t printed, uint64_t some, uint64_t all) {
	__extension__ unsigned __int128 product = (unsigned __int128)printed * some;
	return some >= all ? printed : (uint64_t)(product / all);
}

/*
 * Writes the labels l[0..nlabels) of a site, the n-th that is written: "LABEL:OBJECTS:BYTES" each.
 * The site's printed numbers are divided among them as in prof_dump_label.c: each gets the
 * difference of two rounded sums, so that the parts add up.
 */
static void
write_labeled(writer_t *w, const image_site_t *site, size_t n, const image_labeled_t *l,
    size_t nlabels) {
	bool is_raw = is_printed_raw(w->image);
	uint64_t objs, bytes, objs_done = 0, bytes_done = 0;
	prof_counts_t sum = {0, 0, 0, 0};
	prof_printed(&site->cur, header_rate(w->image), is_raw, &objs, &bytes);
	for (size_t i = 0; i < nlabels; i++) {
		if (!image_label_is_shown(w->image, l[i].label)) {
			continue;
		}
		if (sum.objs == 0) {
			put(w, "# labeled %zu", n);
		}
		prof_counts_add(&sum, &l[i].cur);
		uint64_t o = is_raw ? sum.objs : part_of(objs, sum.c16, site->known.c16);
		uint64_t b = is_raw ? sum.bytes : part_of(bytes, sum.est, site->known.est);
		put(w, " %" PRIu32 ":%" PRIu64 ":%" PRIu64, l[i].label, o - objs_done, b - bytes_done);
		objs_done = o;
		bytes_done = b;
	}
	if (sum.objs != 0) {
		put(w, "\n");
	}
}

static void
write_labels(writer_t *w) {
	const jeprof_image_t *image = w->image;
	const image_site_t *sites = image->sites.items;
	const image_labeled_t *l = image->labeled.items;
	if (image->labels == NULL) {
		return;
	}
	if (!image->has_ages) {
		put(w, "# labeled none: the image has the labels of %u %% of the live samples\n",
		    image->aged);
		return;
	}
	write_texts(w);
	for (size_t i = 0, n = 1, at = 0; i < image->sites.n; i++) {
		size_t begin = at;
		while (at < image->labeled.n && l[at].site == i) {
			at++;
		}
		if (at > begin && sites[i].cur.objs != 0) {
			write_labeled(w, &sites[i], n, &l[begin], at - begin);
		}
		n += sites[i].nshares != 0;
	}
}

/*
 * "# second MS ALLOCATED ACTIVE RESIDENT RSS LIMIT SAMPLES FAULTS": ms since 1970, UTC; sizes in
 * bytes; the last two are counts since the start.
 */
static void
write_course(writer_t *w) {
	for (size_t i = 0; i < w->nlines; i++) {
		const jeprof_image_line_t *l = &w->lines[i];
		put(w, "# second %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
		    " %" PRIu64 " %" PRIu64 "\n", l->time_ns / 1000000, l->allocated, l->active,
		    l->resident, l->rss, l->limit, l->samples, l->faults);
	}
}

/* Writes all of it. 0 or ENOMEM. */
static int
write_all(writer_t *w) {
	const jeprof_image_t *image = w->image;
	put(w, "heap_v2/%" PRIu64 "\n", header_rate(image));
	write_metadata(w);
	put_total(w, &image->cur, &image->accum);
	int error = write_threads(w);
	write_sites(w);
	write_map(w);
	write_objects(w);
	write_ages(w);
	write_labels(w);
	write_course(w);
	put(w, "# end %" PRIu64 "\n", w->bytes);
	return error;
}

/* jeprof_image_write() that ends with EFBIG soon after it has written more than bytes_max bytes. */
static int
write_bounded(jeprof_image_t *image, FILE *to, uint64_t bytes_max) {
	writer_t w = {.image = image, .to = to, .bytes_max = bytes_max};
	w.lines = malloc(JEPROF_COURSE_MAX * sizeof(*w.lines));
	w.nlines = w.lines == NULL ? 0 : jeprof_image_course(image, w.lines, JEPROF_COURSE_MAX);
	int error = w.lines == NULL ? ENOMEM : write_all(&w);
	free(w.lines);
	if (error != 0) {
		return image_fail(image, error, "no memory for the profile");
	}
	if (w.bytes > bytes_max) {
		return image_fail(image, EFBIG, "the profile has more than the %" PRIu64 " bytes allowed",
		    bytes_max);
	}
	w.error = w.error == 0 && fflush(to) != 0 ? errno : w.error;
	return w.error == 0 ? 0 : image_fail(image, w.error, "cannot write the profile: %s",
	    strerror(w.error));
}

int
jeprof_image_write(jeprof_image_t *image, FILE *to) {
	return write_bounded(image, to, UINT64_MAX);
}

int
jeprof_image_text(jeprof_image_t *image, uint64_t bytes_max, char **text, size_t *bytes) {
	*text = NULL;
	FILE *to = open_memstream(text, bytes);
	int error = to != NULL ? write_bounded(image, to, bytes_max) : ENOMEM;
	if (to != NULL && fclose(to) != 0 && error == 0) {
		error = ENOMEM;
	}
	if (error != 0) {
		free(*text);
		*text = NULL;
	}
	return error == ENOMEM ? image_fail(image, ENOMEM, "no memory for the profile") : error;
}
