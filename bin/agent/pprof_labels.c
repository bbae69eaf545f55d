/*
 * Splits the sites of a profile, one for each stack and thread, among the labels that the threads
 * had when they allocated (thread.prof.label). The labels stand in lines of the text that follow
 * the records of the stacks: "# label ID TEXT", where \xNN is a byte, and "# labeled STACK
 * ID:OBJECTS:BYTES ...". STACK is the stack's number in the text, from 1. OBJECTS and BYTES are the
 * sums of its live samples with the label, as printed, that is, before estimates. Each label gets,
 * in new sites, its part of the live estimates of each of the stack's threads, rounded to 1/1024
 * as all estimates are, so that sums stay exact; what has no label stays in the old sites.
 * Invariant: the sums of each stack and of each thread stay the same.
 *
 * The text is not trusted: memory and time are linear in the sites and the length of the lines, but
 * for the sort and the search of labels. That needs two rules. Only one line divides a stack. And
 * there are two ways to divide it: threads_divide() gives the label a part of each thread, which
 * adds a site for each, as long as sites_left, counted for the whole profile, allows that:
 * SITES_EACH for each old one, up to SITES_MAX. From the first label of a stack on for which it
 * does not, threads_use_up() takes all threads of this stack for one row of estimates, from which
 * one label after the other is cut. A function that can fail returns 0, ENOMEM or, if it adds
 * sites, EFBIG. No locks: a profile belongs to one thread. Called by pprof_parse.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pprof_own.h"

enum { LABEL_BYTES_MAX = 255 }; /* of a text, unescaped; longer ones are cut off */

/* threads_divide() may add this many times as many sites as the profile has before. */
enum { SITES_EACH = 16 };

typedef struct label_s {
	uint64_t id;
	uint32_t text; /* its number in p->texts; 0: the label is "" */
} label_t;

typedef struct divider_s {
	struct pprof_profile *p;
	label_t *labels; /* by id */
	size_t nlabels, room;
	size_t sites_left; /* that threads_divide() may still add */
	uint64_t last;     /* number of the last stack whose line was read */
} divider_t;

/* What of a stack has no label yet, while its line is read. */
typedef struct undivided_s {
	size_t first, end; /* indexes of its sites, one for each thread */
	printed_t rest;    /* live objects and bytes without a label, as printed */
	/*
	 * For threads_use_up(), which takes from one site after the other: those before at_objects have
	 * no objects left to take, those before at_bytes no bytes.
	 */
	size_t at_objects, at_bytes;
	bool is_summed;        /* it has begun with this stack: the sums below are set */
	double objects, bytes; /* sums of the estimates that no label has taken yet */
} undivided_t;

static int
by_id(const void *a, const void *b) {
	const label_t *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* Reads one byte, which may be escaped as \xNN, and moves *at; \x00 becomes '?'. */
static char
byte_read(const char **at, const char *end) {
	const char *c = *at;
	uint64_t value;
	if (end - c >= 4 && word_read(&c, end, "\\x") && hex_read(&c, *at + 4, &value)
	    && c == *at + 4) {
		*at = c;
		return value == 0 ? '?' : (char)value;
	}
	return *(*at)++;
}

/* Adds the label of a line "# label ID TEXT"; passes over another line. 0 or ENOMEM. */
static int
label_parse(divider_t *d, const char *at, const char *end) {
	char text[LABEL_BYTES_MAX];
	size_t len = 0;
	label_t label;
	if (!word_read(&at, end, "# label ") || !dec_read(&at, end, &label.id)
	    || !word_read(&at, end, " ")) {
		return 0;
	}
	while (at < end && len < sizeof(text)) {
		text[len++] = byte_read(&at, end);
	}
	label.text = intern_put(&d->p->texts, text, len);
	if (label.text == INTERN_FAILED
	    || array_grow(&d->labels, &d->room, d->nlabels, sizeof(label)) != 0) {
		return ENOMEM;
	}
	d->labels[d->nlabels++] = label;
	return 0;
}

/* The part some/of of a value, rounded to 1/1024; all of it if some >= of, also if that is 0. */
static double
part_of(double value, uint64_t some, uint64_t of) {
	return some >= of ? value : round_to_1024th(value * ((double)some / (double)of));
}

/* Takes `part`, but at most what there is, out of *left and returns it. */
static double
part_take(double *left, double part) {
	part = part < *left ? part : *left;
	*left -= part;
	return part;
}

/* Adds a site like site i, but with this label and these live objects and bytes. */
static int
site_add(divider_t *d, size_t i, uint32_t text, double objects, double bytes) {
	site_t site = d->p->sites[i];
	memset(site.values, 0, sizeof(site.values));
	site.label = text;
	site.values[INUSE_OBJECTS] = objects;
	site.values[INUSE_SPACE] = bytes;
	return site_append(d->p, &site);
}

/*
 * Gives a label its part of the estimates of each thread of the stack. Takes one off
 * sites_left for each thread, even where the part is 0 and no site is added: so sites_left bounds
 * the time too.
 */
static int
threads_divide(divider_t *d, const undivided_t *u, uint32_t text, printed_t part) {
	int err = 0;
	d->sites_left -= u->end - u->first;
	for (size_t i = u->first; i < u->end && err == 0; i++) {
		double *whole = d->p->sites[i].values;
		double objects = part_of(whole[INUSE_OBJECTS], part.objects, u->rest.objects);
		double bytes = part_of(whole[INUSE_SPACE], part.bytes, u->rest.bytes);
		objects = part_take(&whole[INUSE_OBJECTS], objects);
		bytes = part_take(&whole[INUSE_SPACE], bytes);
		err = objects > 0 || bytes > 0 ? site_add(d, i, text, objects, bytes) : 0;
	}
	return err;
}

/*
 * Takes `part`, but at most what there is, out of the value `which` (INUSE_OBJECTS or INUSE_SPACE)
 * of site *at and returns it. If nothing is left there, moves *at on to the next site.
 */
static double
site_use_up(divider_t *d, int which, double part, size_t *at) {
	double *left = &d->p->sites[*at].values[which];
	part = part_take(left, part);
	*at += *left <= 0;
	return part;
}

/*
 * Gives a label its part of the stack's estimates from the first threads that have some left.
 * Objects and bytes are used up independently. Each step of the loop adds at most one site;
 * it ends the objects or bytes of a thread, or those of the label. So all labels of one line take
 * at most two steps for each thread and two for each label.
 */
static int
threads_use_up(divider_t *d, undivided_t *u, uint32_t text, printed_t part) {
	for (size_t i = u->first; i < u->end && !u->is_summed; i++) {
		u->objects += d->p->sites[i].values[INUSE_OBJECTS];
		u->bytes += d->p->sites[i].values[INUSE_SPACE];
	}
	u->is_summed = true;
	double objects = part_of(u->objects, part.objects, u->rest.objects);
	double bytes = part_of(u->bytes, part.bytes, u->rest.bytes);
	u->objects -= objects;
	u->bytes -= bytes;
	int err = 0;
	while (err == 0) {
		bool has_objects = objects > 0 && u->at_objects < u->end;
		bool has_bytes = bytes > 0 && u->at_bytes < u->end;
		if (!has_objects && !has_bytes) {
			break;
		}
		size_t i = has_objects && (!has_bytes || u->at_objects <= u->at_bytes) ? u->at_objects
		    : u->at_bytes;
		double some = has_objects && i == u->at_objects
		    ? site_use_up(d, INUSE_OBJECTS, objects, &u->at_objects) : 0;
		double more = has_bytes && i == u->at_bytes
		    ? site_use_up(d, INUSE_SPACE, bytes, &u->at_bytes) : 0;
		objects -= some;
		bytes -= more;
		err = some > 0 || more > 0 ? site_add(d, i, text, some, more) : 0;
	}
	return err;
}

/*
 * Gives a label its part of what has no label yet: part.objects and part.bytes (as printed) of
 * those of u->rest. Takes it from all threads as long as sites_left allows that; from the first
 * label on for which it does not, threads_use_up() serves this stack.
 */
static int
stack_divide(divider_t *d, undivided_t *u, uint32_t text, printed_t part) {
	int err = !u->is_summed && u->end - u->first <= d->sites_left
	    ? threads_divide(d, u, text, part) : threads_use_up(d, u, text, part);
	u->rest.objects -= part.objects < u->rest.objects ? part.objects : u->rest.objects;
	u->rest.bytes -= part.bytes < u->rest.bytes ? part.bytes : u->rest.bytes;
	return err;
}

/* Number in p->texts of the label with this id; 0: there is none, or it is "". */
static uint32_t
text_of(const divider_t *d, uint64_t id) {
	label_t key = {id, 0};
	const label_t *found = d->nlabels == 0 ? NULL
	    : bsearch(&key, d->labels, d->nlabels, sizeof(key), by_id);
	return found == NULL ? 0 : found->text;
}

/*
 * Divides a stack as its line says. Passes over another line, one with the number of no stack, and
 * one whose number is not above that of the last line: a line walks all sites of its stack, so each
 * stack has one line at most.
 */
static int
labeled_parse(divider_t *d, const char *at, const char *end, const printed_t *stacks,
    size_t nstacks) {
	uint64_t number, id;
	printed_t part = {0, 0, 0};
	if (!word_read(&at, end, "# labeled ") || !dec_read(&at, end, &number)
	    || number <= d->last || number > nstacks) {
		return 0;
	}
	d->last = number;
	size_t first = stacks[number - 1].first;
	undivided_t u = {.first = first, .end = stacks[number].first, .rest = stacks[number - 1],
	    .at_objects = first, .at_bytes = first};
	int err = 0;
	while (err == 0 && word_read(&at, end, " ") && dec_read(&at, end, &id)
	    && word_read(&at, end, ":") && dec_read(&at, end, &part.objects)
	    && word_read(&at, end, ":") && dec_read(&at, end, &part.bytes)) {
		uint32_t text = text_of(d, id);
		err = text != 0 ? stack_divide(d, &u, text, part) : 0;
	}
	return err;
}

int
labels_parse(struct pprof_profile *p, lines_t lines, const printed_t *stacks, size_t nstacks) {
	divider_t d = {.p = p, .sites_left = SITES_EACH * p->nsites};
	if (d.sites_left > SITES_MAX - p->nsites) {
		d.sites_left = SITES_MAX - p->nsites;
	}
	const char *line;
	size_t len;
	int err = 0;
	for (lines_t l = lines; err == 0 && line_next(&l, &line, &len);) {
		err = label_parse(&d, line, line + len);
	}
	if (d.nlabels > 1) {
		qsort(d.labels, d.nlabels, sizeof(*d.labels), by_id);
	}
	for (lines_t l = lines; err == 0 && d.nlabels > 0 && line_next(&l, &line, &len);) {
		err = labeled_parse(&d, line, line + len, stacks, nstacks);
	}
	free(d.labels);
	return err;
}
