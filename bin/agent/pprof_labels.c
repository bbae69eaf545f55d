/*
 * Divides the sites of a profile by the labels that its threads had (thread.prof.label), from lines
 * behind the memory map: "# label ID TEXT", where \xNN is a byte, and "# labeled STACK
 * ID:OBJECTS:BYTES ...", by the number of the stack in the text. Each label gets its part of the
 * estimates of each of the stack's threads, rounded to 1/1024; what has no label stays.
 * Invariant: sums stay the same; memory is linear in the length of the lines, because they are
 * not trusted. No locks. Called by pprof_parse.c.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pprof_own.h"

enum { LABEL_BYTES_MAX = 255 };

typedef struct label_s {
	uint64_t id;
	uint32_t text; /* its number */
} label_t;

typedef struct divider_s {
	struct pprof_profile *p;
	label_t *labels; /* by id */
	size_t nlabels, room;
	size_t left;     /* sites that may be added yet */
} divider_t;

static int
by_id(const void *a, const void *b) {
	const label_t *x = a, *y = b;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* Reads one byte, which may be escaped, and moves *at; NUL becomes '?'. */
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

/* Moves some of *left, which is of `of`, to the result. */
static double
part_take(double *left, uint64_t some, uint64_t of) {
	double part = some >= of ? *left
	    : floor(*left * ((double)some / (double)of) * 1024 + 0.5) / 1024;
	part = part < *left ? part : *left;
	*left -= part;
	return part;
}

/* Gives a label its part of each site of a stack; what is left of the stack becomes less. */
static int
stack_divide(divider_t *d, size_t first, size_t end, told_t *left, uint32_t text, told_t part) {
	struct pprof_profile *p = d->p;
	for (size_t i = first; i < end && d->left > 0; i++) {
		if (array_grow(&p->sites, &p->site_room, p->nsites, sizeof(*p->sites)) != 0) {
			return ENOMEM;
		}
		site_t site = p->sites[i];
		double *whole = p->sites[i].values;
		memset(site.values, 0, sizeof(site.values));
		site.label = text;
		site.values[INUSE_OBJECTS] = part_take(&whole[INUSE_OBJECTS], part.objects, left->objects);
		site.values[INUSE_SPACE] = part_take(&whole[INUSE_SPACE], part.bytes, left->bytes);
		p->sites[p->nsites++] = site;
		d->left--;
	}
	left->objects -= part.objects < left->objects ? part.objects : left->objects;
	left->bytes -= part.bytes < left->bytes ? part.bytes : left->bytes;
	return 0;
}

/* The text of a label's number; 0: it has none. */
static uint32_t
text_of(const divider_t *d, uint64_t id) {
	label_t key = {id, 0};
	const label_t *found = d->nlabels == 0 ? NULL
	    : bsearch(&key, d->labels, d->nlabels, sizeof(key), by_id);
	return found == NULL ? 0 : found->text;
}

static int
labeled_parse(divider_t *d, const char *at, const char *end, const told_t *stacks,
    size_t nstacks) {
	uint64_t number, id;
	told_t part = {0, 0, 0};
	if (!word_read(&at, end, "# labeled ") || !dec_read(&at, end, &number) || number == 0
	    || number > nstacks) {
		return 0;
	}
	told_t left = stacks[number - 1];
	int err = 0;
	while (err == 0 && word_read(&at, end, " ") && dec_read(&at, end, &id)
	    && word_read(&at, end, ":") && dec_read(&at, end, &part.objects)
	    && word_read(&at, end, ":") && dec_read(&at, end, &part.bytes)) {
		uint32_t text = text_of(d, id);
		if (text != 0) {
			err = stack_divide(d, left.first, stacks[number].first, &left, text, part);
		}
	}
	return err;
}

int
labels_parse(struct pprof_profile *p, lines_t lines, const told_t *stacks, size_t nstacks) {
	divider_t d = {.p = p};
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
		const char *at = line;
		if (word_read(&at, line + len, "# labeled ")) {
			d.left += len;
			err = labeled_parse(&d, line, line + len, stacks, nstacks);
		}
	}
	free(d.labels);
	return err;
}
