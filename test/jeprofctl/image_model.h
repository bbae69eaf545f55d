/*
 * A model of the profiler's tables for image.c: random sites, counts, samples, threads, loaded
 * objects and labels; the bytes of an image that has them, with a layout of its own; and the
 * profile that a reader must write of it, computed from the model and not from the bytes.
 */
#pragma once
#define _GNU_SOURCE
#include "client/image_read.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	PARTS = 3, PART_BYTES = 1 << 18, BOX_BYTES = PARTS * PART_BYTES,
	SITES = 96, COUNTS = 4, SAMPLES = 4, THREADS = 6, MODULES = 5, LABELS = 6, FRAMES = 20,
	SITE_FIXED = 40, COUNT_PLAIN = 80, COUNT_WHOLE = 192, RECORD = 48, BLOCK = 32, LABEL = 16,
	MODULE_FIXED = 72, BATCH = 16384 / RECORD,
};

#define AT UINT64_C(0x7f0000000000)        /* address of the first part; the others lie apart */
#define APART (UINT64_C(1) << 30)
#define NOW UINT64_C(1700000000123456789)
#define BEGUN UINT64_C(499999999999999)
/* 82 bytes, so that the list of names has no NUL. */
#define TEN "1234567890"
#define LONG_STOP "more-" TEN TEN TEN TEN TEN TEN TEN "1234567"

/* Where the fields of our objects are, in the order of IMAGE_FIELDS. */
static const image_field_t fields[IMAGE_NFIELDS] = {
	{0, 8}, {8, 4}, {12, 4}, {16, 8}, {24, 8}, {32, 4}, {36, 4}, {SITE_FIXED, 1},
	{0, 8}, {8, 4}, {12, 4}, {16, 8}, {24, 8}, {32, 8}, {40, 8}, {48, 8}, {56, 8}, {64, 8}, {72, 8},
	{80, 8}, {88, 8}, {96, 8}, {104, 8},
	{0, 8}, {8, 8}, {16, 1}, {20, 16},
	{0, 8}, {8, 8}, {16, 8}, {24, 8}, {32, 4}, {36, 1}, {40, 20}, {MODULE_FIXED, 1},
	{112, 80},
	{0, 8}, {16, 8}, {24, 8},
	{0, 8}, {8, 8}, {16, 8}, {24, 8},
	{0, 8}, {8, 4}, {12, 4}, {LABEL, 1},
};

typedef struct sample_s {
	uint64_t usize, weight, time_ns;
	uint32_t label;
} sample_t;

typedef struct count_s {
	unsigned thread, nsamples;
	uint64_t rate;
	uint32_t epoch;
	bool has_accum;
	sample_t samples[SAMPLES];
	prof_counts_t freed;
	uint64_t life[PROF_AGES];
	uint64_t at;
	bool is_damaged;
} count_t;

typedef struct site_s {
	unsigned nframes, ncounts;
	uint64_t frames[FRAMES];
	uint32_t stamp, then;
	count_t counts[COUNTS];
	uint64_t at;
	bool is_damaged;
	bool is_elsewhere;       /* the records of its samples lie in no part */
} site_t;

typedef struct thread_s {
	uint64_t uid, at;
	bool is_attached;
	char name[16];
} thread_t;

typedef struct module_s {
	uint64_t start, end, bias, at;
	unsigned number, id_len;
	char path[300];
} module_t;

typedef struct label_s {
	char text[256];
	uint64_t at;
	bool is_elsewhere;
} label_t;

typedef struct model_s {
	image_root_t root;
	unsigned nsites, nthreads, nmodules, nlabels;
	site_t sites[SITES];
	thread_t threads[THREADS];
	module_t modules[MODULES];
	label_t labels[LABELS];
	uint64_t torn;
} model_t;

static unsigned char box[BOX_BYTES];
static model_t model;
static uint64_t state;

static uint64_t
draw(uint64_t below) {
	state += UINT64_C(0x9e3779b97f4a7c15);
	return hash_mix64(state) % below;
}

/* ---- the model ---- */

static sample_t
draw_sample(uint64_t now) {
	static const uint64_t bounds[] = {0, 1, 4, 16, 60, 240, 960, 3600, 14400, 57600};
	uint64_t age = bounds[draw(10)] * 1000000000 + draw(3) - 1;
	return (sample_t){.usize = 16 + draw(100000), .weight = IMAGE_WEIGHT_ONE + draw(1 << 24),
	    .time_ns = now - age, .label = draw(3) != 0 ? 0 : (uint32_t)draw(LABELS + 3)};
}

static void
draw_count(const model_t *m, count_t *c, unsigned thread) {
	uint64_t now = (m->root.flags & IMAGE_REALTIME) != 0 ? m->root.figures.time_ns
	    : m->root.figures.monotonic_ns;
	*c = (count_t){.thread = thread, .rate = m->root.rate + (draw(64) == 0),
	    .epoch = (uint32_t)m->root.epoch + (draw(8) == 0), .has_accum = draw(3) != 0};
	c->rate = draw(40) == 0 ? 0 : c->rate;
	c->nsamples = (unsigned)draw(SAMPLES + 1);
	for (unsigned i = 0; i < c->nsamples; i++) {
		c->samples[i] = draw_sample(now);
	}
	if (c->has_accum && draw(2) == 0) {
		c->freed = (prof_counts_t){1 + draw(9), 5000 + draw(9000),
		    IMAGE_WEIGHT_ONE * (9 + draw(50)),
		    100000 + draw(100000)};
		c->life[draw(PROF_AGES)] = c->freed.est / 3;
		c->life[draw(PROF_AGES)] += c->freed.est - c->freed.est / 3;
	}
}

static void
draw_sites(model_t *m) {
	bool is_split = draw(2) == 0;
	m->nsites = (unsigned)draw(draw(4) == 0 ? SITES + 1 : 25);
	for (unsigned i = 0; i < m->nsites; i++) {
		site_t *s = &m->sites[i];
		*s = (site_t){.nframes = (unsigned)draw(FRAMES + 1), .ncounts = (unsigned)draw(COUNTS + 1),
		    .stamp = (uint32_t)draw(2), .then = (uint32_t)draw(MODULES + 3),
		    .is_elsewhere = is_split && draw(24) == 0};
		for (unsigned k = 0; k < s->nframes; k++) {
			s->frames[k] = draw(9) == 0 ? draw(UINT64_C(1) << 48) : 0x400000 + draw(0x10000);
		}
		for (unsigned k = 0; k < s->ncounts; k++) {
			draw_count(m, &s->counts[k], (unsigned)draw(m->nthreads));
		}
	}
}

static void
draw_root(model_t *m) {
	image_root_t *r = &m->root;
	*r = (image_root_t){.version = IMAGE_VERSION, .byte_order = IMAGE_BYTE_ORDER,
	    .root_bytes = sizeof(*r), .page = 4096, .pid = (uint32_t)draw(2) * 4321, .nparts = PARTS,
	    .flags = (uint32_t)draw(8), .state = draw(2) == 0 ? image_ended : image_replaced,
	    .opened_ns = NOW - 5000000000, .ended_ns = NOW + 1, .nfields = IMAGE_NFIELDS,
	    .nstructs = IMAGE_NSTRUCTS, .library_version = "1.2.3-x\t-y", .ext_version = "7",
	    .struct_bytes = {SITE_FIXED, COUNT_PLAIN, 40, MODULE_FIXED, BLOCK, RECORD, LABEL},
	    .unwinder = "0123456789abcdef", /* 16 bytes, no NUL */ .nstops = (uint32_t)draw(10),
	    .ndepths = (uint32_t)draw(18), .rate = draw(8) == 0 ? 0 : 1 + draw(1 << 20),
	    .box_bytes = BOX_BYTES, .epoch = draw(2) * ((UINT64_C(1) << 32) + 5),
	    .session = draw(2) * 77, .session_start_ns = NOW - 90000000000, .no_room = draw(2) * 9,
	    .without_hdr = 31, .scanned = 29, .start_ticks = 1};
	r->figures = (image_figures_t){.time_ns = NOW, .monotonic_ns = 2 * BEGUN + 1,
	    .instance = draw(2) * 0xabcdef, .allocated = 101, .active = 102, .resident = 103,
	    .retained = 104, .huge = 105, .populated = 106, .rss = 107, .limit = draw(2) * 108,
	    .faults = 109, .truncated_stacks = 110, .suppressed = 111, .overlapped = 112,
	    .dump_errors = 113, .samples = 114, .fallbacks = 115};
	for (unsigned i = 0; i < 16; i++) {
		r->depths[i] = i * i + 1;
		r->stops[i % 8] = i + 40;
	}
	memcpy(r->unwinder_stops, "end full none " LONG_STOP, sizeof(r->unwinder_stops));
	memcpy(r->fields, fields, sizeof(fields));
}

static void
draw_model(model_t *m, uint64_t seed) {
	static const unsigned lens[] = {20, 0, 16, 20, 20};
	memset(m, 0, sizeof(*m));
	state = seed;
	draw_root(m);
	m->root.begun_ns = seed % 4 * BEGUN; /* 0, twice before the figures, and after them */
	m->nthreads = 1 + (unsigned)draw(THREADS);
	for (unsigned i = 0; i < m->nthreads; i++) {
		m->threads[i] = (thread_t){.uid = (i * 5 + 3) % 7, .is_attached = draw(2) == 0};
		if (i % 2 == 0) {
			snprintf(m->threads[i].name, 16, "a\x01\tlong name %u", i);
		}
	}
	m->nmodules = (unsigned)draw(MODULES + 1);
	for (unsigned i = 0; i < m->nmodules; i++) {
		uint64_t start = 0x400000 + 0x2000 * draw(8);
		m->modules[i] = (module_t){.start = start, .end = start + 0x2000 + 0x1000 * draw(3),
		    .bias = start - 0x1000 * draw(2), .number = i + 1 + (i > 1), .id_len = lens[i]};
		memset(m->modules[i].path, 'p', 280);
		snprintf(m->modules[i].path + (i == 2 ? 270 : 0), 30, "/lib/o%u.so\n", i);
	}
	m->nlabels = (unsigned)draw(LABELS + 1);
	for (unsigned i = 0; i < m->nlabels; i++) {
		memset(m->labels[i].text, 'x', 255);
		m->labels[i].is_elsewhere = draw(3) == 0;
		snprintf(m->labels[i].text + (i == 3 ? 230 : 0), i == 4 ? 0 : 25,
		    "ten\\ant %u \x7f~ \xc3\xa9", i);
	}
	m->root.label_last = m->nlabels;
	draw_sites(m);
}

/* ---- its bytes ---- */

/* The byte of the box at this address. */
static unsigned char *
place(uint64_t at) {
	return box + (at - AT) / APART * PART_BYTES + (at - AT) % APART;
}

static void
put_field(uint64_t object, unsigned field, uint64_t value) {
	unsigned char *to = place(object) + fields[field].offset;
	uint8_t u8 = (uint8_t)value;
	uint32_t u32 = (uint32_t)value;
	if (fields[field].width == 1) {
		memcpy(to, &u8, 1);
	} else if (fields[field].width == 4) {
		memcpy(to, &u32, 4);
	} else {
		memcpy(to, &value, 8);
	}
}

static void
copy_text(uint64_t object, unsigned field, const char *text, size_t size) {
	memcpy(place(object) + fields[field].offset, text, size);
}

/* Takes so many bytes of some part. */
static uint64_t
take(model_t *m, uint64_t bytes) {
	image_part_t *p = &m->root.parts[draw(PARTS)];
	uint64_t at = p->address + p->used;
	p->used += (bytes + 63) / 64 * 64;
	if (p->used > PART_BYTES) {
		abort();
	}
	return at;
}

static prof_counts_t
live_of(const count_t *c) {
	prof_counts_t sum = {0, 0, 0, 0};
	for (unsigned i = 0; i < c->nsamples; i++) {
		const sample_t *s = &c->samples[i];
		prof_counts_t one = {1, s->usize, s->weight, prof_weighted_bytes(s->usize, s->weight)};
		prof_counts_add(&sum, &one);
	}
	return sum;
}

static prof_counts_t
accum_of(const count_t *c) {
	prof_counts_t sum = {0, 0, 0, 0};
	if (c->has_accum) {
		sum = live_of(c);
		prof_counts_add(&sum, &c->freed);
	}
	return sum;
}

static void
put_counts4(uint64_t at, unsigned first, prof_counts_t c) {
	put_field(at, first, c.objs);
	put_field(at, first + 1, c.bytes);
	put_field(at, first + 2, c.c16);
	put_field(at, first + 3, c.est);
}

static void
make_count(model_t *m, const site_t *s, count_t *c, uint64_t hash, uint64_t next) {
	uint64_t at = c->at, thread = m->threads[c->thread].at;
	prof_counts_t live = live_of(c);
	live.objs |= draw(2) << IMAGE_LIVE_BITS; /* a pin */
	put_field(at, image_count_next, next);
	put_field(at, image_count_bytes, c->has_accum ? COUNT_WHOLE : COUNT_PLAIN);
	put_field(at, image_count_epoch, c->epoch);
	put_field(at, image_count_site, s->at);
	put_field(at, image_count_thread, thread);
	put_field(at, image_count_rate, c->rate);
	put_counts4(at, image_count_live, live);
	if (c->has_accum) {
		put_counts4(at, image_count_accum_objs, accum_of(c));
		memcpy(place(at) + fields[image_count_life].offset, c->life, sizeof(c->life));
	}
	put_field(at, image_count_hash, image_hash_count(hash, thread, c->epoch, c->rate)
	    + c->is_damaged);
}

static void
make_site(model_t *m, site_t *s, uint64_t next) {
	uint64_t hash = s->nframes;
	for (unsigned i = 0; i < s->nframes; i++) {
		uint32_t low = (uint32_t)s->frames[i];
		uint16_t high = (uint16_t)(s->frames[i] >> 32);
		memcpy(place(s->at) + SITE_FIXED + 6 * i, &low, 4);
		memcpy(place(s->at) + SITE_FIXED + 6 * i + 4, &high, 2);
		hash = image_hash_frame(hash, s->frames[i]);
	}
	hash = hash_mix64(hash) + s->is_damaged;
	put_field(s->at, image_site_next, next);
	put_field(s->at, image_site_bytes, (SITE_FIXED + 6 * s->nframes + 63) / 64 * 64);
	put_field(s->at, image_site_nframes, s->nframes);
	put_field(s->at, image_site_hash, hash);
	put_field(s->at, image_site_stamp, s->stamp);
	put_field(s->at, image_site_then, s->then);
	for (unsigned k = 0; k < s->ncounts; k++) {
		s->counts[k].at = take(m, s->counts[k].has_accum ? COUNT_WHOLE : COUNT_PLAIN);
	}
	put_field(s->at, image_site_counts, s->ncounts == 0 ? 0 : s->counts[0].at);
	for (unsigned k = 0; k < s->ncounts; k++) {
		make_count(m, s, &s->counts[k], hash, k + 1 < s->ncounts ? s->counts[k + 1].at : 0);
	}
}

static void
put_record(uint64_t at, uint64_t count, const sample_t *s) {
	put_field(at, image_record_count, count);
	put_field(at, image_record_weight, s->weight);
	put_field(at, image_record_time_ns, s->time_ns);
	put_field(at, image_record_sized, s->usize | (uint64_t)s->label << IMAGE_USIZE_BITS);
}

/*
 * A block with as many records as the samples of one site, free ones, and ones of no count.
 * is_long: of three batches (image_ages.c), the last of one record.
 */
static void
make_records(model_t *m, const site_t *s, bool is_long) {
	sample_t foreign = {.usize = 4096, .weight = IMAGE_WEIGHT_ONE, .time_ns = 1, .label = 1};
	uint64_t block = take(m, BLOCK), n = 2, at;
	for (unsigned k = 0; k < s->ncounts; k++) {
		n += s->counts[k].nsamples;
	}
	uint64_t more = is_long ? 2 * BATCH + 1 - n : 0;
	n += more;
	uint64_t *list = s->is_elsewhere ? &m->root.records_elsewhere : &m->root.records;
	uint64_t records = at = take(m, n * RECORD);
	put_field(block, image_block_next, *list);
	put_field(block, image_block_n, n);
	put_field(block, image_block_records, records);
	*list = block;
	put_record(at, s->at, &foreign);
	at += (1 + more) * RECORD;
	for (unsigned k = 0; k < s->ncounts; k++) {
		for (unsigned i = 0; i < s->counts[k].nsamples; i++, at += RECORD) {
			put_record(at, s->counts[k].at, &s->counts[k].samples[i]);
		}
	}
}

static void
make_lists(model_t *m) {
	for (unsigned i = 0; i < m->nthreads; i++) {
		m->threads[i].at = take(m, 40);
	}
	for (unsigned i = 0; i < m->nthreads; i++) {
		uint64_t at = m->threads[i].at;
		put_field(at, image_thread_next, i + 1 < m->nthreads ? m->threads[i + 1].at : 0);
		put_field(at, image_thread_uid, m->threads[i].uid);
		put_field(at, image_thread_attached, m->threads[i].is_attached);
		copy_text(at, image_thread_name, m->threads[i].name, 16);
	}
	m->root.threads = m->threads[0].at;
	for (unsigned i = m->nmodules; i-- > 0;) {
		const module_t *o = &m->modules[i];
		uint64_t at = m->modules[i].at = take(m, MODULE_FIXED + strlen(o->path) + 1);
		put_field(at, image_module_next, m->root.modules);
		put_field(at, image_module_start, o->start);
		put_field(at, image_module_end, o->end);
		put_field(at, image_module_bias, o->bias);
		put_field(at, image_module_number, o->number);
		put_field(at, image_module_build_id_len, o->id_len);
		memset(place(at) + fields[image_module_build_id].offset, (int)(0xa0 + i), 20);
		copy_text(at, image_module_path, o->path, strlen(o->path) + 1);
		m->root.modules = at;
	}
	m->root.program = m->nmodules > 1 ? m->modules[1].at : 0;
	for (unsigned i = 0; i < m->nlabels; i++) {
		size_t length = strlen(m->labels[i].text);
		uint64_t at = m->labels[i].at = take(m, LABEL + length + 1);
		uint64_t *list = m->labels[i].is_elsewhere ? &m->root.labels_elsewhere : &m->root.labels;
		put_field(at, image_label_next, *list);
		put_field(at, image_label_bytes, LABEL + length + 1);
		put_field(at, image_label_id, i + 1);
		copy_text(at, image_label_text, m->labels[i].text, length);
		place(at)[LABEL + length] = 'Z'; /* forged: no NUL */
		*list = at;
	}
}

static uint64_t set_back = UINT64_MAX; /* from this line on the clock is two hours earlier */

/* A line a second; the resident memory grows from the fourth on. */
static image_line_t
line_of(uint64_t n) {
	uint64_t back = n >= set_back ? UINT64_C(7200000000000) : 0;
	return (image_line_t){NOW + n * 1000000000 - back, 1000 + n, 2000 + n, 3000 + n,
	    4000000 + (n > 3 ? n * 1000000 : 0), 5000 + n, 6000 + n, 7000 + n};
}

/* Makes the bytes of the model in `box`; the addresses of its objects are set. */
static void
make_box(model_t *m) {
	image_root_t *r = &m->root;
	memset(box, 0, sizeof(box));
	for (unsigned i = 0; i < PARTS; i++) {
		image_head_t head = {IMAGE_MAGIC, AT + i * APART, PART_BYTES, AT};
		uint64_t used = i == 0 ? (sizeof(*r) + 63) / 64 * 64 : 64;
		memcpy(box + i * PART_BYTES, &head, sizeof(head));
		r->parts[i] = (image_part_t){AT + i * APART, PART_BYTES, i * PART_BYTES, used};
	}
	make_lists(m);
	for (unsigned i = 0; i < m->nsites; i++) {
		m->sites[i].at = take(m, SITE_FIXED + 6 * m->sites[i].nframes);
	}
	r->sites = m->nsites == 0 ? 0 : m->sites[0].at;
	for (unsigned i = 0; i < m->nsites; i++) {
		make_site(m, &m->sites[i], i + 1 < m->nsites ? m->sites[i + 1].at : 0);
		make_records(m, &m->sites[i], i == 3);
	}
	r->nlines = draw(2) * 9;
	r->blocks[0] = take(m, 60 * sizeof(image_line_t));
	for (uint64_t n = 0; n < r->nlines; n++) {
		image_line_t line = line_of(n);
		memcpy(place(r->blocks[0]) + n * sizeof(line), &line, sizeof(line));
	}
	memcpy(&r->head, box, sizeof(r->head));
	memcpy(box, r, sizeof(*r));
}

/* ---- the profile of it ---- */

/* What a profile has of the source. */
typedef struct source_s {
	const char *kind;
	const char *end;         /* NULL: no box */
	const char *exe;         /* NULL: that of the program's record */
	const char *map;         /* NULL: made of the records */
	const char *objects;     /* text: what is loaded by the map */
	uint64_t loaded_start, loaded_end;
	bool has_elsewhere;      /* texts that lie in no part are there */
} source_t;

/* Sums by what is printed. */
typedef struct sums_s {
	prof_counts_t cur, accum;
} sums_t;

typedef struct totals_s {
	sums_t all, threads[THREADS];
	uint64_t sites, first_rate;
	unsigned aged;           /* percent of the samples that have a record */
	bool is_mixed, is_raw;
} totals_t;

/* The accum sums of a count, unless they are of an earlier session. */
static prof_counts_t
told_accum_of(const model_t *m, const count_t *c) {
	return (m->root.flags & IMAGE_ACCUM) != 0 ? accum_of(c) : (prof_counts_t){0, 0, 0, 0};
}

static bool
is_told(const model_t *m, const count_t *c) {
	return !c->is_damaged && c->rate != 0 && c->epoch == (uint32_t)m->root.epoch
	    && live_of(c).objs + told_accum_of(m, c).objs != 0;
}

static void
sums_add(const model_t *m, sums_t *to, const count_t *c) {
	prof_counts_t cur = live_of(c), accum = told_accum_of(m, c);
	prof_counts_add(&to->cur, &cur);
	prof_counts_add(&to->accum, &accum);
}

/* Sums of one site, of all threads or, below COUNTS, of that of one count. */
static sums_t
site_sums(const model_t *m, const site_t *s, unsigned thread) {
	sums_t sums = {{0, 0, 0, 0}, {0, 0, 0, 0}};
	for (unsigned k = 0; k < s->ncounts && !s->is_damaged; k++) {
		if (is_told(m, &s->counts[k]) && (thread == THREADS || s->counts[k].thread == thread)) {
			sums_add(m, &sums, &s->counts[k]);
		}
	}
	return sums;
}

static bool
is_site_told(const model_t *m, const site_t *s) {
	sums_t sums = site_sums(m, s, THREADS);
	return sums.cur.objs + sums.accum.objs != 0;
}

/* Whether the source has the records of the samples of a site. */
static bool
is_recorded(const site_t *s, const source_t *from) {
	return !s->is_damaged && (from->has_elsewhere || !s->is_elsewhere);
}

static totals_t
totals_of(const model_t *m, const source_t *from) {
	totals_t t = {.sites = 0};
	uint64_t recorded = 0;
	for (unsigned i = 0; i < m->nsites; i++) {
		const site_t *s = &m->sites[i];
		t.sites += is_site_told(m, s);
		recorded += is_recorded(s, from) ? site_sums(m, s, THREADS).cur.objs : 0;
		for (unsigned k = 0; k < s->ncounts && !s->is_damaged; k++) {
			const count_t *c = &s->counts[k];
			if (!is_told(m, c)) {
				continue;
			}
			sums_add(m, &t.all, c);
			sums_add(m, &t.threads[c->thread], c);
			t.is_mixed |= t.first_rate != 0 && t.first_rate != c->rate;
			t.first_rate = t.first_rate != 0 ? t.first_rate : c->rate;
		}
	}
	t.aged = t.all.cur.objs == 0 ? 100
	    : (unsigned)((double)recorded / (double)t.all.cur.objs * 100);
	t.is_raw = (m->root.flags & IMAGE_RAW) != 0 && !t.is_mixed;
	return t;
}

static uint64_t
rate_of(const model_t *m, const totals_t *t) {
	uint64_t rate = t->is_mixed ? 1 : t->first_rate != 0 ? t->first_rate : m->root.rate;
	return rate == 0 ? 1 : rate;
}

static void
say_counts(FILE *f, const model_t *m, const totals_t *t, const sums_t *s) {
	uint64_t n[4] = {0, 0, 0, 0};
	prof_printed(&s->cur, rate_of(m, t), t->is_raw, &n[0], &n[1]);
	prof_printed(&s->accum, rate_of(m, t), t->is_raw, &n[2], &n[3]);
	fprintf(f, "%" PRIu64 ": %" PRIu64 " [%" PRIu64 ": %" PRIu64 "]", n[0], n[1], n[2], n[3]);
}

static void
say_stamp(FILE *f, const char *key, uint64_t ns) {
	char text[64];
	time_t seconds = (time_t)(ns / 1000000000);
	strftime(text, sizeof(text), "%Y%m%dT%H%M%S", gmtime(&seconds));
	fprintf(f, "# jemalloc.%s=%s.%03uZ\n", key, text, (unsigned)(ns / 1000000 % 1000));
}

static void
say_figures(FILE *f, const model_t *m, const totals_t *t) {
	const image_root_t *r = &m->root;
	jeprof_image_line_t lines[9];
	uint64_t ms = 0, grown;
	fprintf(f, "# jemalloc.sample_interval=%" PRIu64 "\n# jemalloc.mixed_rates=%s\n", r->rate,
	    t->is_mixed ? "true" : "false");
	fprintf(f, "# jemalloc.allocated=101\n# jemalloc.active=102\n# jemalloc.resident=103\n"
	    "# jemalloc.retained=104\n# jemalloc.huge=105\n# jemalloc.populated=106\n"
	    "# jemalloc.rss=107\n%s", r->figures.limit != 0 ? "# jemalloc.limit=108\n" : "");
	for (uint64_t n = 0; n < r->nlines; n++) {
		lines[n] = (jeprof_image_line_t){.time_ns = line_of(n).time_ns, .rss = line_of(n).rss};
	}
	grown = jeprof_course_growth(lines, r->nlines, &ms);
	if (r->nlines != 0) {
		fprintf(f, "# jemalloc.grown=%" PRIu64 "\n# jemalloc.grown_ms=%" PRIu64 "\n", grown, ms);
	}
	fprintf(f, "# jemalloc.samples=%" PRIu64 "\n# jemalloc.sites=%" PRIu64 "\n", t->all.cur.objs,
	    t->sites);
	fprintf(f, "# jemalloc.truncated_stacks=110\n# jemalloc.suppressed=111\n"
	    "# jemalloc.overlapped=112\n# jemalloc.dump_errors=113\n# jemalloc.torn=%" PRIu64
	    "\n# jemalloc.no_room=%" PRIu64 "\n", m->torn, r->no_room);
}

static void
say_metadata(FILE *f, const model_t *m, const totals_t *t, const source_t *from) {
	const image_root_t *r = &m->root;
	const char *const stops[] = {"end", "full", "none", LONG_STOP};
	const char *exe = m->nmodules > 1 ? "/lib/o1.so?" : "";
	fprintf(f, "# jemalloc.version=1.2.3-x?-y\n# jemalloc.prof_ext_version=7\n# jemalloc.pid=%u\n",
	    r->pid);
	if (r->figures.instance != 0) {
		fprintf(f, "# jemalloc.instance=0000000000abcdef\n");
	}
	fprintf(f, "# jemalloc.exe=%s\n", from->exe != NULL ? from->exe : exe);
	fprintf(f, "# jemalloc.session=%" PRIu64 "\n", r->session);
	if (r->session != 0) {
		say_stamp(f, "start_time", r->session_start_ns);
	}
	say_stamp(f, "dump_time", NOW);
	fprintf(f, "# jemalloc.monotonic_ms=999999999\n");
	if (r->begun_ns != 0) {
		fprintf(f, "# jemalloc.profiled_ms=%d\n", r->begun_ns == BEGUN ? 500000000 : 0);
	}
	fprintf(f, "# jemalloc.kind=%s\n", from->kind);
	if (from->end != NULL) {
		say_stamp(f, "opened_time", r->opened_ns);
		fprintf(f, "# jemalloc.end=%s\n", from->end);
	}
	if (from->end != NULL && r->state != image_open) {
		say_stamp(f, "ended_time", r->ended_ns);
	}
	say_figures(f, m, t);
	fprintf(f, "# jemalloc.unwinder=0123456789abcdef\n"
	    "# jemalloc.unwinder_health=samples:114 fallbacks:115");
	for (unsigned i = 0; i < r->nstops && i < 4; i++) {
		fprintf(f, " %s:%" PRIu64, stops[i], r->stops[i]);
	}
	fprintf(f, "\n# jemalloc.unwinder_tables=without_hdr:31 scanned:29\n"
	    "# jemalloc.unwinder_depths=");
	for (unsigned i = 0; i < r->ndepths && i < 16; i++) {
		fprintf(f, "%s%" PRIu64, i == 0 ? "" : " ", r->depths[i]);
	}
	fprintf(f, "\n");
}

/* The number of the first later object that lies over object i; 0: there is none. */
static bool
is_shadowed(const model_t *m, unsigned i) {
	bool is_over = false;
	for (unsigned k = i + 1; k < m->nmodules; k++) {
		is_over |= m->modules[k].start < m->modules[i].end
		    && m->modules[i].start < m->modules[k].end;
	}
	return is_over;
}

static uint64_t
shown_frame(const model_t *m, const site_t *s, unsigned number) {
	uint64_t frame = s->frames[number], shown = frame;
	for (unsigned i = 0; s->stamp != 0 && i < m->nmodules; i++) {
		const module_t *o = &m->modules[i];
		if (o->number <= s->then && frame > o->start && frame <= o->end) {
			shown = is_shadowed(m, i) ? IMAGE_SHADOW_BASE
			    + ((uint64_t)o->number << IMAGE_LG_SHADOW_SPAN) + (frame - o->start) : frame;
		}
	}
	return number == 0 && shown != 0 ? shown - 1 : shown;
}

static void
say_sites(FILE *f, const model_t *m, const totals_t *t) {
	for (unsigned i = 0; i < m->nsites; i++) {
		const site_t *s = &m->sites[i];
		sums_t sums = site_sums(m, s, THREADS);
		bool is_said[THREADS] = {false};
		if (!is_site_told(m, s)) {
			continue;
		}
		fprintf(f, "@%s", s->nframes == 0 ? " 0x0" : "");
		for (unsigned k = 0; k < s->nframes; k++) {
			fprintf(f, " 0x%" PRIx64, shown_frame(m, s, k));
		}
		fprintf(f, "\n  t*: ");
		say_counts(f, m, t, &sums);
		for (unsigned k = 0; k < s->ncounts; k++) {
			unsigned thread = s->counts[k].thread;
			if (!is_told(m, &s->counts[k]) || is_said[thread]) {
				continue;
			}
			is_said[thread] = true;
			sums = site_sums(m, s, thread);
			fprintf(f, "\n  t%" PRIu64 ": ", m->threads[thread].uid);
			say_counts(f, m, t, &sums);
		}
		fprintf(f, "\n");
	}
}

static void
say_threads(FILE *f, const model_t *m, const totals_t *t) {
	for (uint64_t uid = 0; uid < 7; uid++) {
		for (unsigned i = 0; i < m->nthreads; i++) {
			const sums_t *s = &t->threads[i];
			if (m->threads[i].uid != uid
			    || (!m->threads[i].is_attached && s->cur.objs + s->accum.objs == 0)) {
				continue;
			}
			fprintf(f, "  t%" PRIu64 ": ", uid);
			say_counts(f, m, t, s);
			if (i % 2 == 0) {
				fprintf(f, " a?\tlong name %u", i);
			}
			fprintf(f, "\n");
		}
	}
}

static void
say_module(FILE *f, const module_t *o, uint64_t by, unsigned i) {
	fprintf(f, "# module %" PRIx64 "-%" PRIx64 " %" PRIx64 " ", o->start + by, o->end + by,
	    o->bias + by);
	for (unsigned k = 0; k < o->id_len; k++) {
		fprintf(f, "%02x", 0xa0 + i);
	}
	fprintf(f, "%s %.*s?\n", o->id_len == 0 ? "-" : "", (int)strlen(o->path) - 1, o->path);
}

static void
say_modules(FILE *f, const model_t *m, const source_t *from) {
	fprintf(f, "\nMAPPED_LIBRARIES:\n%s", from->map != NULL ? from->map : "");
	for (unsigned i = 0; from->map == NULL && i < m->nmodules; i++) {
		const module_t *o = &m->modules[i];
		if (!is_shadowed(m, i)) {
			fprintf(f, "%" PRIx64 "-%" PRIx64 " r-xp 00000000 00:00 0 %.*s?\n", o->start, o->end,
			    (int)strlen(o->path) - 1, o->path);
		}
	}
	fprintf(f, "%s", from->objects != NULL ? from->objects : "");
	for (unsigned i = 0; i < m->nmodules; i++) {
		const module_t *o = &m->modules[i];
		uint64_t by = IMAGE_SHADOW_BASE + ((uint64_t)o->number << IMAGE_LG_SHADOW_SPAN) - o->start;
		if (is_shadowed(m, i) || o->start >= from->loaded_end || o->end <= from->loaded_start) {
			say_module(f, o, is_shadowed(m, i) ? by : 0, i);
		}
	}
	if (m->root.no_room != 0) {
		fprintf(f, "# module fffffffffeff-ffffffffff01 fffffffffeff - [no room]\n");
	}
}

static void
say_columns(FILE *f, const model_t *m, const totals_t *t, const char *what, unsigned n,
    uint64_t *columns, const prof_counts_t *counts) {
	uint64_t objs, bytes, sum = 0;
	for (unsigned i = 0; i < PROF_AGES; i++) {
		sum += columns[i];
	}
	prof_printed(counts, rate_of(m, t), t->is_raw, &objs, &bytes);
	prof_ages_split(columns, strcmp(what, "age") == 0 ? sum : counts->est, bytes);
	fprintf(f, "# %s %u", what, n);
	for (unsigned i = 0; i < PROF_AGES; i++) {
		if (columns[i] != 0) {
			fprintf(f, " %u:%" PRIu64, i, columns[i]);
		}
	}
	fprintf(f, "\n");
}

static void
say_site_ages(FILE *f, const model_t *m, const totals_t *t, const source_t *from,
    const site_t *s, unsigned n) {
	uint64_t now = (m->root.flags & IMAGE_REALTIME) != 0 ? NOW : m->root.figures.monotonic_ns;
	uint64_t ages[PROF_AGES] = {0}, lives[PROF_AGES] = {0}, any = 0;
	sums_t sums = site_sums(m, s, THREADS);
	for (unsigned k = 0; k < s->ncounts; k++) {
		const count_t *c = &s->counts[k];
		for (unsigned i = 0; is_told(m, c) && i < c->nsamples; i++) {
			ages[prof_age_between(c->samples[i].time_ns, now)] +=
			    prof_weighted_bytes(c->samples[i].usize, c->samples[i].weight);
		}
		for (unsigned i = 0; is_told(m, c) && i < PROF_AGES; i++) {
			lives[i] += c->life[i];
			any |= c->life[i];
		}
	}
	if (sums.cur.objs != 0 && is_recorded(s, from)) {
		say_columns(f, m, t, "age", n, ages, &sums.cur);
	}
	if (any != 0 && (m->root.flags & IMAGE_ACCUM) != 0) {
		say_columns(f, m, t, "life", n, lives, &sums.accum);
	}
}

static void
say_ages(FILE *f, const model_t *m, const totals_t *t, const source_t *from) {
	if (t->aged < 95) {
		fprintf(f, "# age none: the image has the ages of %u %% of the live samples\n", t->aged);
		return;
	}
	fprintf(f, "# age_bounds_s 1 4 16 60 240 960 3600 14400 57600\n");
	for (unsigned i = 0, n = 1; i < m->nsites; i++) {
		if (is_site_told(m, &m->sites[i])) {
			say_site_ages(f, m, t, from, &m->sites[i], n++);
		}
	}
}

/* Whether a profile has it, and its text is known. */
static bool
is_label_told(const model_t *m, const source_t *from, uint32_t label, bool *has_text) {
	bool is_lacking = false;
	for (unsigned i = 0; i < m->nlabels && !from->has_elsewhere; i++) {
		is_lacking |= m->labels[i].is_elsewhere;
	}
	*has_text = label != 0 && label <= m->nlabels
	    && (from->has_elsewhere || !m->labels[label - 1].is_elsewhere);
	return *has_text || (label != 0 && label <= m->nlabels && is_lacking);
}

static prof_counts_t
label_sum(const model_t *m, const source_t *from, const site_t *s, uint32_t label) {
	prof_counts_t sum = {0, 0, 0, 0};
	for (unsigned k = 0; k < s->ncounts && is_recorded(s, from); k++) {
		const count_t *c = &s->counts[k];
		for (unsigned i = 0; is_told(m, c) && i < c->nsamples; i++) {
			const sample_t *x = &c->samples[i];
			prof_counts_t one = {1, x->usize, x->weight, prof_weighted_bytes(x->usize, x->weight)};
			if (x->label == label) {
				prof_counts_add(&sum, &one);
			}
		}
	}
	return sum;
}

static uint64_t
part(uint64_t printed, uint64_t some, uint64_t all) {
	__extension__ unsigned __int128 product = (unsigned __int128)printed * some;
	return some >= all ? printed : (uint64_t)(product / all);
}

static void
say_site_labels(FILE *f, const model_t *m, const totals_t *t, const source_t *from,
    const site_t *s, unsigned n) {
	sums_t sums = site_sums(m, s, THREADS);
	prof_counts_t upto = {0, 0, 0, 0};
	uint64_t objs, bytes, objs_before = 0, bytes_before = 0;
	bool has_text;
	prof_printed(&sums.cur, rate_of(m, t), t->is_raw, &objs, &bytes);
	for (uint32_t label = 1; label < LABELS + 3; label++) {
		prof_counts_t one = label_sum(m, from, s, label);
		if (one.objs == 0 || !is_label_told(m, from, label, &has_text)) {
			continue;
		}
		if (upto.objs == 0) {
			fprintf(f, "# labeled %u", n);
		}
		prof_counts_add(&upto, &one);
		uint64_t o = t->is_raw ? upto.objs : part(objs, upto.c16, sums.cur.c16);
		uint64_t b = t->is_raw ? upto.bytes : part(bytes, upto.est, sums.cur.est);
		fprintf(f, " %" PRIu32 ":%" PRIu64 ":%" PRIu64, label, o - objs_before, b - bytes_before);
		objs_before = o;
		bytes_before = b;
	}
	if (upto.objs != 0) {
		fprintf(f, "\n");
	}
}

static void
say_label(FILE *f, const model_t *m, uint32_t label, bool has_text) {
	const char *text = m->labels[label - 1].text;
	fprintf(f, "# label %" PRIu32 " ", label);
	if (!has_text) {
		fprintf(f, "[label %" PRIu32 ": its text is not in the image]\n", label);
		return;
	}
	for (; *text != '\0'; text++) {
		bool is_plain = strchr("\\\x7f\xc3\xa9", *text) == NULL;
		fprintf(f, is_plain ? "%c" : "\\x%02x", (unsigned char)*text);
	}
	fprintf(f, "\n");
}

static void
say_labels(FILE *f, const model_t *m, const totals_t *t, const source_t *from) {
	bool has_text, has_any = false;
	for (unsigned i = 0; i < m->nsites; i++) {
		for (uint32_t label = 1; label < LABELS + 3; label++) {
			has_any |= label_sum(m, from, &m->sites[i], label).objs != 0;
		}
	}
	if (t->aged < 95) {
		if (has_any) {
			fprintf(f, "# labeled none: the image has the labels of %u %% of the live samples\n",
			    t->aged);
		}
		return;
	}
	for (uint32_t label = 1; label < LABELS + 3; label++) {
		prof_counts_t sum = {0, 0, 0, 0};
		for (unsigned i = 0; i < m->nsites; i++) {
			prof_counts_t one = label_sum(m, from, &m->sites[i], label);
			prof_counts_add(&sum, &one);
		}
		if (sum.objs != 0 && is_label_told(m, from, label, &has_text)) {
			say_label(f, m, label, has_text);
		}
	}
	for (unsigned i = 0, n = 1; i < m->nsites; i++) {
		if (is_site_told(m, &m->sites[i])) {
			say_site_labels(f, m, t, from, &m->sites[i], n++);
		}
	}
}

/* The profile of the model, to be freed. */
static char *
expected(const model_t *m, const source_t *from) {
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	totals_t t = totals_of(m, from);
	fprintf(f, "heap_v2/%" PRIu64 "\n", rate_of(m, &t));
	say_metadata(f, m, &t, from);
	fprintf(f, "  t*: ");
	say_counts(f, m, &t, &t.all);
	fprintf(f, "\n");
	say_threads(f, m, &t);
	say_sites(f, m, &t);
	say_modules(f, m, from);
	say_ages(f, m, &t, from);
	say_labels(f, m, &t, from);
	for (uint64_t n = 0; n < m->root.nlines; n++) {
		image_line_t l = line_of(n);
		fprintf(f, "# second %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
		    " %" PRIu64 " %" PRIu64 "\n", l.time_ns / 1000000, l.allocated, l.active, l.resident,
		    l.rss, l.limit, l.samples, l.faults);
	}
	fflush(f);
	fprintf(f, "# end %zu\n", size);
	fclose(f);
	return text;
}
