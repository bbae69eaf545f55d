/*
 * Parses a heap_v2 text: metadata, threads, stacks with their counts; from the memory map on it
 * calls pprof_maps.c, pprof_labels.c and pprof_ages.c. Unknown lines before the memory map are
 * skipped and counted; `jeprof` (bin/jeprof.d/reader.pl) does the same, but knows some more forms.
 * A text from which a line of metadata was kept (meta_add()) must end in the line that counts its
 * bytes, else it was cut off. Sampled counts become estimates as in `jeprof`, rounded to 1/1024, so
 * that a sum of them is the same in whatever order they are added. The estimate of a stack is split
 * among its threads in the ratio of theirs, and each thread's part is a site_t. Invariant: memory
 * is linear in the length of the text, and there are at most SITES_MAX sites, because the text is
 * not trusted. A function that can fail returns 0, ENOMEM or, if it adds sites, EFBIG, unless its
 * comment says something else. No locks: a profile belongs to one thread. pprof_parse() and
 * pprof_free() are called by scrape.c, dead_profile.c, test/agent/convert.c and a fuzz target, the
 * functions of pprof_own.h by pprof_delta.c, pprof_labels.c and pprof_encode.c.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pprof_own.h"

/* Lines of metadata, and bytes of KEY=VALUE in one, at most; others are ignored. */
enum { COMMENTS_MAX = 64, COMMENT_BYTES = 1024 };

/* The sampled counts of one line. */
typedef struct counts_s {
	uint64_t values[PPROF_TYPES];
} counts_t;

/* The estimates of one thread with the stack that is being parsed. */
typedef struct part_s {
	uint32_t thread;
	double values[PPROF_TYPES];
} part_t;

typedef struct parser_s {
	struct pprof_profile *p;
	lines_t lines;     /* the lines that are not parsed yet */
	site_t stack;      /* the current stack; values: estimates of all its threads together */
	bool has_frames;   /* a first stack has begun */
	bool has_counts;   /* the current one has its counts, and its sites are not added yet */
	part_t *parts;     /* the threads of the current stack */
	size_t nparts, part_room;
	/* all stacks so far; once there is one, there is room for one more, which ends the last one */
	printed_t *stacks;
	size_t nstacks, stack_room;
	uint64_t nskipped; /* unknown lines */
	const char *why;   /* the sentence for an error */
} parser_t;

/* ---------------------------------------------------------------- counts */

static bool
is_blank(char c) {
	return c == ' ' || c == '\t' || c == '\r';
}

static void
blanks_pass(const char **at, const char *end) {
	while (*at < end && is_blank(**at)) {
		++*at;
	}
}

/*
 * Moves *at behind the blanks that stand there, a `sign`, and the blanks behind that. False: there
 * is no such sign; *at then stands behind the first blanks.
 */
static bool
sign_read(const char **at, const char *end, char sign) {
	blanks_pass(at, end);
	if (*at == end || **at != sign) {
		return false;
	}
	++*at;
	blanks_pass(at, end);
	return true;
}

/*
 * Reads "LIVE: BYTES [ALL: BYTES]", objects and bytes, live and ever allocated. All four numbers
 * and the brackets must be there.
 */
static bool
counts_read(const char **at, const char *end, counts_t *c) {
	uint64_t *v = c->values;
	return dec_read(at, end, &v[INUSE_OBJECTS]) && sign_read(at, end, ':')
	    && dec_read(at, end, &v[INUSE_SPACE]) && sign_read(at, end, '[')
	    && dec_read(at, end, &v[ALLOC_OBJECTS]) && sign_read(at, end, ':')
	    && dec_read(at, end, &v[ALLOC_SPACE]) && sign_read(at, end, ']');
}

double
round_to_1024th(double value) {
	return floor(value * 1024 + 0.5) / 1024;
}

/*
 * Estimates {objects, bytes} from `pair`, their sampled counts: an object of n bytes is sampled
 * with the probability 1 - exp(-n / rate), and all objects of a stack are assumed to have the mean
 * size. rate: mean bytes between two samples; 0: the counts are exact. Not expm1(), because sums
 * are to equal those of bin/jeprof.d/reader.pl and bin/page/model.js, which lack it.
 */
static void
estimate(uint64_t rate, const uint64_t *pair, double *out) {
	out[0] = (double)pair[0];
	out[1] = (double)pair[1];
	if (pair[0] == 0 || pair[1] == 0 || rate == 0) {
		return;
	}
	double ratio = out[1] / out[0] / (double)rate;
	double covered = ratio > 1e-9 ? 1 - exp(-ratio) : ratio;
	out[0] = round_to_1024th(out[0] / covered);
	out[1] = round_to_1024th(out[1] / covered);
}

static void
estimate_all(uint64_t rate, const counts_t *c, double *out) {
	estimate(rate, &c->values[ALLOC_OBJECTS], &out[ALLOC_OBJECTS]);
	estimate(rate, &c->values[INUSE_OBJECTS], &out[INUSE_OBJECTS]);
}

/* ---------------------------------------------------------------- threads */

static int
by_uid(const void *a, const void *b) {
	const thread_t *x = a, *y = b;
	return x->uid < y->uid ? -1 : x->uid > y->uid;
}

uint32_t
thread_of(const struct pprof_profile *p, uint64_t uid) {
	thread_t key = {uid, 0};
	const thread_t *found = p->nthreads == 0 ? NULL
	    : bsearch(&key, p->threads, p->nthreads, sizeof(key), by_uid);
	return found == NULL ? NO_THREAD : (uint32_t)(found - p->threads);
}

static int
thread_add(struct pprof_profile *p, uint64_t uid, const char *name, size_t len) {
	uint32_t text = intern_put(&p->texts, name, len);
	if (text == INTERN_FAILED
	    || array_grow(&p->threads, &p->thread_room, p->nthreads, sizeof(*p->threads)) != 0) {
		return ENOMEM;
	}
	p->threads[p->nthreads++] = (thread_t){uid, text};
	return 0;
}

/* ---------------------------------------------------------------- stacks */

int
address_append(struct pprof_profile *p, uint64_t address) {
	if (array_grow(&p->addresses, &p->address_room, p->naddresses, sizeof(address)) != 0) {
		return ENOMEM;
	}
	p->addresses[p->naddresses++] = address;
	return 0;
}

/*
 * Adds the addresses "0xHEX 0xHEX ...", *depth of them. Subtracts 1 from each return address, so
 * that it lies in the call instruction; the library already did this for the first. A word that is
 * no address becomes 0. No address, or a single 0, is an unreadable stack: it gets NO_STACK. The
 * library writes no stack above PPROF_DEPTH_MAX (PROF_BT_MAX_LIMIT), so what is cut off is forged.
 */
static int
addresses_parse(struct pprof_profile *p, const char *at, const char *end, uint32_t *depth) {
	int err = 0;
	size_t first = p->naddresses;
	for (*depth = 0; err == 0; ++*depth) {
		blanks_pass(&at, end);
		if (at == end || *depth == PPROF_DEPTH_MAX) {
			break;
		}
		uint64_t address = 0;
		bool is_one = word_read(&at, end, "0x") && hex_read(&at, end, &address)
		    && (at == end || is_blank(*at)) && address != NO_STACK;
		while (at < end && !is_blank(*at)) {
			at++;
		}
		address = is_one ? address : 0;
		err = address_append(p, *depth == 0 || address == 0 ? address : address - 1);
	}
	if (err == 0 && (*depth == 0 || (*depth == 1 && p->addresses[first] == 0))) {
		p->naddresses = first;
		*depth = 1;
		err = address_append(p, NO_STACK);
	}
	return err;
}

int
site_append(struct pprof_profile *p, const site_t *s) {
	if (p->nsites == SITES_MAX) {
		return EFBIG;
	}
	if (array_grow(&p->sites, &p->site_room, p->nsites, sizeof(*s)) != 0) {
		return ENOMEM;
	}
	p->sites[p->nsites++] = *s;
	return 0;
}

/* Splits `whole` among the parts in the ratio of their own values; the last gets the remainder. */
static void
values_split(parser_t *r, const double *whole) {
	for (unsigned type = 0; type < PPROF_TYPES; type++) {
		double sum = 0, left = whole[type];
		for (size_t i = 0; i < r->nparts; i++) {
			sum += r->parts[i].values[type];
		}
		for (size_t i = 0; i < r->nparts; i++) {
			double *value = &r->parts[i].values[type];
			*value = sum > 0 ? round_to_1024th(whole[type] * (*value / sum)) : 0;
			*value = i + 1 == r->nparts || *value > left ? left : *value;
			left -= *value;
		}
	}
}

/* Adds a site for each part of the stack; if it has none, one site without a thread. */
static int
sites_add(parser_t *r, const site_t *whole) {
	if (r->nparts == 0) {
		return site_append(r->p, whole);
	}
	values_split(r, whole->values);
	for (size_t i = 0; i < r->nparts; i++) {
		site_t site = *whole;
		site.thread = r->parts[i].thread;
		memcpy(site.values, r->parts[i].values, sizeof(site.values));
		int err = site_append(r->p, &site);
		if (err != 0) {
			return err;
		}
	}
	return 0;
}

/* ---------------------------------------------------------------- metadata */

/*
 * Whether the text begins with characters that fit the form one by one: a 0 of the form fits any
 * digit, another character only itself. Text may follow.
 */
static bool
has_form(const char *text, const char *form) {
	while (*form != '\0' && (*form == '0' ? *text >= '0' && *text <= '9' : *text == *form)) {
		text++;
		form++;
	}
	return *form == '\0';
}

/*
 * Nanoseconds since 1970 of a time like 20261122T220946.577Z; 0 if the text is no such time, or one
 * before 1970 or after 2261. So neither a result nor the difference of two overflows. A day that
 * the month lacks counts on into the next one.
 */
static int64_t
stamp_ns(const char *text) {
	struct tm tm = {0};
	int ms = 0;
	if (!has_form(text, "00000000T000000.000Z") || sscanf(text, "%4d%2d%2dT%2d%2d%2d.%3d",
		&tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &ms) != 7
	    || tm.tm_year < 1970 || tm.tm_year > 2261 || tm.tm_mon < 1 || tm.tm_mon > 12
	    || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59
	    || tm.tm_sec > 60) {
		return 0;
	}
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	time_t seconds = timegm(&tm);
	return (int64_t)seconds * 1000000000 + (int64_t)ms * 1000000;
}

/* Whether a text KEY=VALUE has this key; `key` ends in '='. */
static bool
has_key(const char *text, const char *end, const char *key) {
	return word_read(&text, end, key);
}

/* Stores KEY=VALUE of a line "# jemalloc.KEY=VALUE" in the profile if the key is a known one. */
static void
meta_note(struct pprof_profile *p, uint32_t text_number) {
	const char *text = intern_text(&p->texts, text_number);
	const char *value = strchr(text, '=') + 1, *end = text + strlen(text), *at = value;
	uint64_t number = 0;
	bool is_number = dec_read(&at, end, &number) && at == end;
	if (has_key(text, end, "pid=")) {
		p->pid = is_number ? number : 0;
	} else if (has_key(text, end, "sample_interval=") && is_number) {
		p->period = number <= INT64_MAX ? number : 0;
	} else if (has_key(text, end, "sample_interval_set=") && is_number) {
		p->period_set = number;
	} else if (has_key(text, end, "dump_time=")) {
		p->time_ns = stamp_ns(value);
	} else if (has_key(text, end, "monotonic_ms=") && is_number) {
		p->monotonic_ms = number <= INT64_MAX / 1000000 ? (int64_t)number : 0;
	} else if (has_key(text, end, "profiled_ms=") && is_number) {
		p->profiled_ms = number <= INT64_MAX / 1000000 ? (int64_t)number : -1;
	} else if (has_key(text, end, "mark_time=")) {
		p->mark_ns = stamp_ns(value);
	} else if (has_key(text, end, "session=")) {
		p->session = text_number;
	} else if (has_key(text, end, "start_time=")) {
		p->start = text_number;
	}
}

/*
 * Adds KEY=VALUE of a line of metadata to the comments, and stores the value of a known key in the
 * profile. A text that is no KEY=VALUE or too long is ignored. 0 or ENOMEM.
 */
static int
meta_add(struct pprof_profile *p, const char *text, size_t len) {
	if (len > COMMENT_BYTES || memchr(text, '=', len) == NULL || memchr(text, '\0', len) != NULL) {
		return 0;
	}
	uint32_t number = intern_put(&p->texts, text, len);
	if (number == INTERN_FAILED
	    || array_grow(&p->comments, &p->comment_room, p->ncomments, sizeof(number)) != 0) {
		return ENOMEM;
	}
	p->comments[p->ncomments++] = number;
	meta_note(p, number);
	const char *end = text + len;
	bool is_exe = word_read(&text, end, "exe=");
	if (is_exe || word_read(&text, end, "library=")) {
		number = intern_put(&p->texts, text, (size_t)(end - text));
		if (number == INTERN_FAILED) {
			return ENOMEM;
		}
		*(is_exe ? &p->exe : &p->library) = number;
	}
	return 0;
}

/* Parses the first line, heap_v2/RATE. 0, or EBADMSG with r->why. */
static int
head_parse(parser_t *r) {
	const char *line, *end;
	size_t len;
	bool is_head = line_next(&r->lines, &line, &len);
	end = is_head ? line + len : NULL;
	if (!is_head || !word_read(&line, end, "heap_v2/") || !dec_read(&line, end, &r->p->rate)
	    || (line != end && !is_blank(*line))) {
		r->why = "the text is no heap profile: its first line is not heap_v2/RATE";
		return EBADMSG;
	}
	r->p->period = r->p->rate <= INT64_MAX ? r->p->rate : 0;
	return 0;
}

/* ---------------------------------------------------------------- lines */

/* Adds the sites of the current stack, if it has counts that are not added yet. */
static int
stack_end(parser_t *r) {
	bool has_counts = r->has_counts;
	r->has_counts = false;
	return has_counts ? sites_add(r, &r->stack) : 0;
}

/* Sorts the threads by uid. The text lists all of them before the first stack. */
static void
threads_sort(struct pprof_profile *p) {
	if (p->nthreads > 1) {
		qsort(p->threads, p->nthreads, sizeof(*p->threads), by_uid);
	}
}

/*
 * Begins the stack whose addresses follow "@": first adds the sites of the stack that ends here,
 * then parses the addresses.
 */
static int
frames_parse(parser_t *r, const char *at, const char *end) {
	struct pprof_profile *p = r->p;
	if (!r->has_frames) {
		threads_sort(p);
	}
	int err = stack_end(r);
	r->has_frames = true;
	r->nparts = 0;
	r->stack = (site_t){.first = p->naddresses, .thread = NO_THREAD};
	if (err == 0
	    && array_grow(&r->stacks, &r->stack_room, r->nstacks + 1, sizeof(*r->stacks)) != 0) {
		return ENOMEM;
	}
	if (err == 0) {
		r->stacks[r->nstacks++] = (printed_t){p->nsites, 0, 0};
		r->stack.stack = (uint32_t)r->nstacks;
	}
	return err != 0 ? err : addresses_parse(p, at, end, &r->stack.depth);
}

/* Takes the counts of the current stack. Ignores those of the whole profile, before any stack. */
static int
total_add(parser_t *r, const counts_t *counts) {
	if (!r->has_frames) {
		return 0;
	}
	int err = stack_end(r);
	estimate_all(r->p->rate, counts, r->stack.values);
	r->stacks[r->nstacks - 1].objects = counts->values[INUSE_OBJECTS];
	r->stacks[r->nstacks - 1].bytes = counts->values[INUSE_SPACE];
	r->p->is_accumulated |= counts->values[ALLOC_OBJECTS] != 0;
	r->has_counts = true;
	r->nparts = 0;
	return err;
}

/* Adds a thread's counts of the current stack. */
static int
part_add(parser_t *r, uint64_t uid, const counts_t *counts) {
	if (array_grow(&r->parts, &r->part_room, r->nparts, sizeof(*r->parts)) != 0) {
		return ENOMEM;
	}
	part_t *part = &r->parts[r->nparts++];
	part->thread = thread_of(r->p, uid);
	estimate_all(r->p->rate, counts, part->values);
	return 0;
}

/*
 * Parses what follows "t". "*: COUNTS" are the counts of all threads together. "UID: COUNTS NAME"
 * lists a thread, before the first stack; later "UID: COUNTS" is a thread's part of the current
 * stack. *is_known: the line is one of these; a thread's part is one only behind the counts of its
 * stack.
 */
static int
counts_parse(parser_t *r, const char *at, const char *end, bool *is_known) {
	counts_t counts;
	uint64_t uid;
	bool is_total = word_read(&at, end, "*");
	*is_known = (is_total || dec_read(&at, end, &uid)) && sign_read(&at, end, ':')
	    && counts_read(&at, end, &counts);
	if (!*is_known) {
		return 0;
	}
	while (end > at && is_blank(end[-1])) {
		end--;
	}
	if (is_total) {
		return total_add(r, &counts);
	}
	if (!r->has_frames) {
		return thread_add(r->p, uid, at, (size_t)(end - at));
	}
	*is_known = at == end && r->has_counts;
	return *is_known ? part_add(r, uid, &counts) : 0;
}

/* Whether the text behind an "@" begins a stack: it is empty, or a blank or an address follows. */
static bool
has_addresses(const char *at, const char *end) {
	return at == end || is_blank(*at) || word_read(&at, end, "0x");
}

/* Parses a line before the memory map. */
static int
line_parse(parser_t *r, const char *at, const char *end) {
	int err = 0;
	blanks_pass(&at, end);
	bool is_known = at == end; /* an empty line is nothing to skip */
	const char *frames = at;
	if (word_read(&frames, end, "@") && has_addresses(frames, end)) {
		is_known = true;
		err = frames_parse(r, frames, end);
	} else if (word_read(&at, end, "t")) {
		err = counts_parse(r, at, end, &is_known);
	} else if (!r->has_frames && word_read(&at, end, "# jemalloc.")) {
		is_known = true;
		err = r->p->ncomments < COMMENTS_MAX ? meta_add(r->p, at, (size_t)(end - at)) : 0;
	}
	r->nskipped += !is_known;
	return err;
}

/* Whether the memory map, or the end of the text, begins at this line. */
static bool
is_map_start(const char *at, const char *end) {
	return word_read(&at, end, "MAPPED_LIBRARIES:") || word_read(&at, end, "# module ")
	    || word_read(&at, end, "# end ");
}

/* Parses all lines before the memory map, at which r->lines then stands. */
static int
records_parse(parser_t *r) {
	const char *line;
	size_t len;
	int err = 0;
	for (lines_t l = r->lines; err == 0 && line_next(&l, &line, &len); r->lines = l) {
		if (is_map_start(line, line + len)) {
			break;
		}
		err = line_parse(r, line, line + len);
	}
	if (!r->has_frames) {
		threads_sort(r->p); /* pprof_subtract() looks for those of the earlier profile */
	}
	return err != 0 ? err : stack_end(r);
}

/*
 * Parses a line "# shrunk OBJECTS BYTES @ ADDRESSES", the loss of a stack since the mark, as a site
 * with negative values; the numbers are estimates already. Another line is passed over.
 */
static int
shrunk_parse(parser_t *r, const char *at, const char *end) {
	uint64_t objects, bytes;
	site_t site = {.first = r->p->naddresses, .thread = NO_THREAD};
	if (!word_read(&at, end, "# shrunk ") || !dec_read(&at, end, &objects)
	    || !word_read(&at, end, " ") || !dec_read(&at, end, &bytes)
	    || !word_read(&at, end, " @")) {
		return 0;
	}
	site.values[INUSE_OBJECTS] = -(double)objects;
	site.values[INUSE_SPACE] = -(double)bytes;
	int err = addresses_parse(r->p, at, end, &site.depth);
	return err != 0 ? err : site_append(r->p, &site);
}

/*
 * If the profile is a difference that the library made (dump-delta), that is, if mark_ns is not 0:
 * adds its lines "# shrunk", and makes the mark its begin.
 */
static int
delta_parse(parser_t *r) {
	struct pprof_profile *p = r->p;
	const char *line;
	size_t len;
	int err = 0;
	if (p->mark_ns == 0) {
		return 0;
	}
	for (lines_t l = r->lines; err == 0 && line_next(&l, &line, &len);) {
		err = shrunk_parse(r, line, line + len);
	}
	if (p->time_ns > p->mark_ns) {
		p->duration_ns = p->time_ns - p->mark_ns;
		p->time_ns = p->mark_ns;
	}
	return err;
}

/* Adds the number of unknown lines, if there are any, as a comment. 0 or ENOMEM. */
static int
skipped_tell(parser_t *r) {
	char text[64];
	if (r->nskipped == 0) {
		return 0;
	}
	int len = snprintf(text, sizeof(text), "unknown_lines=%" PRIu64, r->nskipped);
	return meta_add(r->p, text, (size_t)len);
}

/* ---------------------------------------------------------------- the whole */

/* Whether the last line is "# end BYTES", with the number of bytes before it. */
static bool
has_end(const char *text, size_t len) {
	size_t at = len > 0 ? len - 1 : 0;
	uint64_t bytes;
	while (at > 0 && text[at - 1] != '\n') {
		at--;
	}
	const char *c = text + at, *end = text + len;
	if (!word_read(&c, end, "# end ") || !dec_read(&c, end, &bytes) || bytes != at) {
		return false;
	}
	(void)word_read(&c, end, "\n"); /* a text that lacks only this newline counts as whole */
	return c == end;
}

/* Parses the text. 0, ENOMEM, EFBIG, or EBADMSG with r->why. */
static int
profile_parse(parser_t *r, const char *text, size_t len) {
	int err = head_parse(r);
	err = err != 0 ? err : records_parse(r);
	if (err == 0 && r->p->ncomments > 0 && !has_end(text, len)) {
		r->why = "the profile is cut off: its last line does not count its bytes";
		return EBADMSG;
	}
	if (err == 0 && r->nstacks > 0) {
		r->stacks[r->nstacks] = (printed_t){r->p->nsites, 0, 0};
		err = labels_parse(r->p, r->lines, r->stacks, r->nstacks);
		err = err != 0 ? err : ages_parse(r->p, r->lines, r->nstacks);
	}
	err = err != 0 ? err : delta_parse(r);
	err = err != 0 ? err : maps_parse(r->p, &r->lines);
	return err != 0 ? err : skipped_tell(r);
}

int
pprof_parse(const char *text, size_t len, struct pprof_profile **out, const char **why) {
	*out = NULL;
	*why = "there is not enough memory";
	if (len > PPROF_TEXT_MAX) {
		*why = "the profile is larger than 64 MiB";
		return EFBIG;
	}
	parser_t r = {.p = calloc(1, sizeof(*r.p)), .lines = {text, text + len}, .why = *why};
	if (r.p == NULL) {
		return ENOMEM;
	}
	r.p->profiled_ms = -1;
	int err = intern_put(&r.p->texts, "", 0) == 0 ? profile_parse(&r, text, len) : ENOMEM;
	free(r.parts);
	free(r.stacks);
	if (err != 0) {
		*why = err == EFBIG ? "the profile has more than 4 million pairs of a stack and a thread "
		    "or label" : r.why;
		pprof_free(r.p);
		return err;
	}
	*out = r.p;
	return 0;
}

void
pprof_free(struct pprof_profile *p) {
	if (p == NULL) {
		return;
	}
	intern_free(&p->texts);
	free(p->addresses);
	free(p->sites);
	free(p->threads);
	free(p->objects);
	free(p->ranges);
	free(p->comments);
	free(p->ages);
	free(p);
}
