/*
 * Encodes a profile as profile.proto, gzipped. It has a sample for each site; with ages, for each
 * range of ages (column) that the site has live bytes in. A sample has no frames of the allocator,
 * and is left out if its four values, in Go's order, are all 0. It has a location for each place
 * (distinct address, pprof_frames.h) that a sample uses, and a mapping for each object (mapped
 * file) that a location uses, and for object 0, the main program. Invariant: ids of locations,
 * mappings and functions begin at 1, and each one that is referred to is written. Values are
 * rounded as `jeprof export` does: by error diffusion, so that the sum of the written values is
 * that of the estimates, truncated. Functions that return nothing set has_failed of the places, or
 * the error of a buffer; that of a message becomes that of the one it is put into, so e.out has it
 * at the end. No locks: a profile belongs to one thread. Called by scrape.c,
 * dead_profile.c, test/agent/convert.c and a fuzz target.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pprof_parts.h"

/* Numbers of fields of profile.proto. */
enum {
	PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLE, PROFILE_MAPPING, PROFILE_LOCATION, PROFILE_FUNCTION,
	PROFILE_STRING, PROFILE_TIME = 9, PROFILE_DURATION, PROFILE_PERIOD_TYPE, PROFILE_PERIOD,
	PROFILE_COMMENT, PROFILE_DEFAULT_TYPE,
	TYPE_TYPE = 1, TYPE_UNIT,
	SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL,
	LABEL_KEY = 1, LABEL_STRING, LABEL_NUMBER, LABEL_UNIT,
	MAPPING_BUILD_ID = 6, MAPPING_HAS, /* has_functions; then three more has_* */
};

static const char *const types[PPROF_TYPES][2] = {{"alloc_objects", "count"},
    {"alloc_space", "bytes"}, {"inuse_objects", "count"}, {"inuse_space", "bytes"}};

typedef struct encoder_s {
	const struct pprof_profile *p;
	places_t places;
	/* Buffers: the profile; a message in it; a message in that; packed numbers. */
	proto_t out, part, inner, packed;
	carry_t carry[PPROF_TYPES];       /* sums over all samples so far, for the rounding */
	uint32_t *mapping;                /* by object: the id of its mapping; 0: not written */
	uint32_t nmappings;               /* ids used so far */
} encoder_t;

/* ---------------------------------------------------------------- samples */

static void
type_write(encoder_t *e, unsigned field, const char *type, const char *unit) {
	proto_clear(&e->part);
	proto_number(&e->part, TYPE_TYPE, string_of_word(&e->places, type));
	proto_number(&e->part, TYPE_UNIT, string_of_word(&e->places, unit));
	proto_message(&e->out, field, &e->part);
}

/*
 * Adds the site's estimates to the sums of all so far, and sets the values to the growth of the
 * truncated sums (carry_next). Returns false if all four are 0; then no sample is written.
 */
static bool
try_round(encoder_t *e, const site_t *s, int64_t *values) {
	bool is_some = false;
	for (unsigned type = 0; type < PPROF_TYPES; type++) {
		values[type] = carry_next(&e->carry[type], s->values[type]);
		is_some |= values[type] != 0;
	}
	return is_some;
}

static void
label_write(encoder_t *e, const char *key, uint32_t text) {
	proto_clear(&e->inner);
	proto_number(&e->inner, LABEL_KEY, string_of_word(&e->places, key));
	proto_number(&e->inner, LABEL_STRING, string_of_text(&e->places, text));
	proto_message(&e->part, SAMPLE_LABEL, &e->inner);
}

static void
thread_write(encoder_t *e, const thread_t *t) {
	if (t->name != 0) {
		label_write(e, "thread", t->name);
	}
	if (t->uid != 0) {
		proto_clear(&e->inner);
		proto_number(&e->inner, LABEL_KEY, string_of_word(&e->places, "thread_id"));
		proto_number(&e->inner, LABEL_NUMBER, t->uid);
		proto_message(&e->part, SAMPLE_LABEL, &e->inner);
	}
}

/* Adds the label "age": the least age of the column in seconds, as `jeprof export` has it. */
static void
age_write(encoder_t *e, int column) {
#define BOUND(seconds) seconds,
	static const unsigned bounds[] = {0, PROF_AGE_BOUNDS(BOUND)};
#undef BOUND
	proto_clear(&e->inner);
	proto_number(&e->inner, LABEL_KEY, string_of_word(&e->places, "age"));
	proto_number(&e->inner, LABEL_NUMBER, bounds[column]);
	proto_number(&e->inner, LABEL_UNIT, string_of_word(&e->places, "seconds"));
	proto_message(&e->part, SAMPLE_LABEL, &e->inner);
}

/* Writes one sample, unless all its values are 0. column: of its age; -1: no label "age". */
static void
sample_write(encoder_t *e, const site_t *s, int column) {
	int64_t values[PPROF_TYPES];
	if (!try_round(e, s, values)) {
		return;
	}
	proto_clear(&e->part);
	proto_clear(&e->packed);
	stack_put(&e->places, s, &e->packed);
	proto_message(&e->part, SAMPLE_LOCATION, &e->packed);
	proto_clear(&e->packed);
	for (unsigned type = 0; type < PPROF_TYPES; type++) {
		proto_varint(&e->packed, (uint64_t)values[type]);
	}
	proto_message(&e->part, SAMPLE_VALUE, &e->packed);
	if (s->label != 0) {
		label_write(e, "label", s->label);
	}
	if (column >= 0) {
		age_write(e, column);
	}
	if (s->thread != NO_THREAD) {
		thread_write(e, &e->p->threads[s->thread]);
	}
	proto_message(&e->out, PROFILE_SAMPLE, &e->part);
}

/*
 * Moves a share of what is live in *from to *to: rounded to 1/1024 of an object or byte; with a
 * share of 1 all of it.
 */
static void
share_move(site_t *from, site_t *to, double share_of_rest) {
	for (unsigned type = INUSE_OBJECTS; type <= INUSE_SPACE; type++) {
		double *left = &from->values[type];
		to->values[type] = share_of_rest >= 1 ? *left : round_to_1024th(*left * share_of_rest);
		*left -= to->values[type];
	}
}

/*
 * Writes the samples of a site: one, or one for each column of ages that has a share of its live
 * bytes. Of these the first has what was allocated, the last what rounding left of what is live.
 */
static void
site_write(encoder_t *e, const site_t *s, bool has_ages) {
	double shares[PROF_AGES], rest = 1;
	if (!has_ages || !ages_of(e->p, s, shares)) {
		sample_write(e, s, -1);
		return;
	}
	site_t left = *s, part = *s;
	int last = PROF_AGES - 1;
	while (last > 0 && shares[last] <= 0) {
		last--;
	}
	for (int i = 0; i <= last; i++) {
		if (shares[i] > 0) {
			share_move(&left, &part, i == last ? 1 : shares[i] / rest);
			rest -= shares[i];
			sample_write(e, &part, i);
			part.values[ALLOC_OBJECTS] = part.values[ALLOC_SPACE] = 0;
		}
	}
}

/* --------------------------------------------------------------- mappings, locations, functions */

/* Id of the mapping of an object by its number, which the first call writes; 0 for NO_OBJECT. */
static uint32_t
mapping_of(encoder_t *e, uint32_t object) {
	if (object == NO_OBJECT || e->mapping[object] != 0) {
		return object == NO_OBJECT ? 0 : e->mapping[object];
	}
	e->mapping[object] = ++e->nmappings;
	proto_clear(&e->part);
	mapping_put(&e->places, object, e->nmappings, &e->part);
	proto_number(&e->part, MAPPING_BUILD_ID, string_of_text(&e->places, e->p->objects[object].id));
	for (unsigned i = 0; i < 4; i++) {
		proto_number(&e->part, MAPPING_HAS + i, (e->places.has[object] & 1u << i) != 0);
	}
	proto_message(&e->out, PROFILE_MAPPING, &e->part);
	return e->nmappings;
}

static void
location_write(encoder_t *e, const place_t *place) {
	uint32_t mapping = mapping_of(e, place->object);
	proto_clear(&e->part);
	location_put(&e->places, place, place->id, mapping, &e->part, &e->inner);
	proto_message(&e->out, PROFILE_LOCATION, &e->part);
}

static void
functions_write(encoder_t *e) {
	for (uint32_t i = 0; i < e->places.functions.count; i++) {
		proto_clear(&e->part);
		function_put(&e->places, i, i + 1, &e->part);
		proto_message(&e->out, PROFILE_FUNCTION, &e->part);
	}
}

/* ---------------------------------------------------------------- the whole */

static bool
is_type(const char *name) {
	for (unsigned type = 0; type < PPROF_TYPES; type++) {
		if (strcmp(name, types[type][0]) == 0) {
			return true;
		}
	}
	return false;
}

/* Writes the dump's metadata, and a warning if allocations were not counted, as comments. */
static void
comments_write(encoder_t *e) {
	static const char none[] = "allocations were not counted: alloc_objects and alloc_space are 0";
	for (size_t i = 0; i < e->p->ncomments; i++) {
		proto_number(&e->out, PROFILE_COMMENT, string_of_text(&e->places, e->p->comments[i]));
	}
	if (!e->p->is_accumulated && e->p->nsites > 0) {
		proto_number(&e->out, PROFILE_COMMENT, string_of_word(&e->places, none));
	}
}

static void
metadata_write(encoder_t *e, const struct pprof_request *request) {
	const char *type = request->default_type;
	type = type != NULL && is_type(type) ? type : types[INUSE_SPACE][0];
	proto_number(&e->out, PROFILE_TIME, (uint64_t)e->p->time_ns);
	proto_number(&e->out, PROFILE_DURATION, (uint64_t)e->p->duration_ns);
	type_write(e, PROFILE_PERIOD_TYPE, "space", "bytes");
	proto_number(&e->out, PROFILE_PERIOD, e->p->period);
	comments_write(e);
	proto_number(&e->out, PROFILE_DEFAULT_TYPE, string_of_word(&e->places, type));
}

static void
profile_write(encoder_t *e, const struct pprof_request *request) {
	for (unsigned type = 0; type < PPROF_TYPES; type++) {
		type_write(e, PROFILE_SAMPLE_TYPE, types[type][0], types[type][1]);
	}
	if (e->p->nobjects > 0) {
		(void)mapping_of(e, 0); /* pprof takes the first mapping for the main program */
	}
	for (size_t i = 0; i < e->p->nsites && e->out.error == 0; i++) {
		site_write(e, &e->p->sites[i], request->has_ages);
	}
	for (size_t i = 0; i < e->places.count; i++) {
		if (e->places.all[i].id != 0) {
			location_write(e, &e->places.all[i]);
		}
	}
	functions_write(e);
	metadata_write(e, request);
	const intern_t *strings = &e->places.strings;
	for (uint32_t i = 0; i < strings->count; i++) {
		proto_bytes(&e->out, PROFILE_STRING, intern_text(strings, i), intern_len(strings, i));
	}
}

static void
encoder_free(encoder_t *e) {
	places_free(&e->places);
	free(e->mapping);
	proto_free(&e->out);
	proto_free(&e->part);
	proto_free(&e->inner);
	proto_free(&e->packed);
}

int
pprof_encode(const struct pprof_profile *p, const struct pprof_request *request,
    unsigned char **out, size_t *len, const char **why) {
	encoder_t e = {.p = p, .mapping = calloc(p->nobjects + 1, sizeof(*e.mapping))};
	*out = NULL;
	int err = e.mapping == NULL ? ENOMEM : places_make(&e.places, p, request);
	if (err == 0) {
		profile_write(&e, request);
		err = e.places.has_failed ? ENOMEM : proto_gzip(&e.out, out, len);
	}
	encoder_free(&e);
	*why = encoding_failure(err);
	return err;
}
