/*
 * Encodes a profile as an OTLP ExportProfilesServiceRequest (opentelemetry-proto 1.11, package
 * opentelemetry.proto.collector.profiles.v1development): one resource, the process; one Profile for
 * each sample type, those of allocations only if they were counted; and the dictionary, the tables
 * of strings, stacks and so on to which these refer by number.
 *
 * Invariant: entry 0 of each table of the dictionary is empty and stands for "none"; other entries
 * are distinct, and each one that is referred to is written. Within a Profile no two samples have
 * the same stack and attributes. Values are rounded by carry_next(), as in pprof_encode.c. What
 * fails sets has_failed of the encoder or its places, or the error of a buffer; the rest is made
 * without what is missing, and otlp_encode() tests them at its end (pprof.h has its contract).
 * No locks: a profile belongs to one thread. Called by scrape.c and test/agent/convert.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pprof_parts.h"

/* Numbers of fields. */
enum {
	REQUEST_RESOURCE_PROFILES = 1, REQUEST_DICTIONARY,
	DICTIONARY_MAPPING = 1, DICTIONARY_LOCATION, DICTIONARY_FUNCTION, DICTIONARY_LINK,
	DICTIONARY_STRING, DICTIONARY_ATTRIBUTE, DICTIONARY_STACK,
	RP_RESOURCE = 1, RP_SCOPE_PROFILES,
	RESOURCE_ATTRIBUTE = 1,
	PAIR_KEY = 1, PAIR_VALUE,
	VALUE_STRING = 1, VALUE_INT = 3,
	SP_SCOPE = 1, SP_PROFILE,
	SCOPE_NAME = 1, SCOPE_VERSION,
	PROFILE_TYPE = 1, PROFILE_SAMPLE, PROFILE_TIME, PROFILE_DURATION, PROFILE_PERIOD_TYPE,
	PROFILE_PERIOD, PROFILE_ID,
	TYPE_TYPE = 1, TYPE_UNIT,
	SAMPLE_STACK = 1, SAMPLE_ATTRIBUTE, SAMPLE_VALUE = 4,
	MAPPING_ATTRIBUTE = 5,
	STACK_LOCATION = 1,
};

/* The sample types, in the order of the Profiles. */
static const struct {
	unsigned value; /* index in site_t.values */
	bool is_accumulated; /* it counts allocations: written only if they were counted */
	const char *type, *unit;
} types[PPROF_TYPES] = {
	{INUSE_SPACE, false, "inuse_space", "bytes"},
	{INUSE_OBJECTS, false, "inuse_objects", "count"},
	{ALLOC_SPACE, true, "alloc_space", "bytes"},
	{ALLOC_OBJECTS, true, "alloc_objects", "count"},
};

/* What distinguishes the samples of a Profile. */
typedef struct sample_key_s {
	/* numbers in the dictionary, 0: none: a stack, the attributes thread.name and label */
	uint32_t stack, thread, label;
} sample_key_t;

typedef struct sample_s {
	sample_key_t key;
	double values[PPROF_TYPES]; /* as in site_t */
} sample_t;

/* An attribute of the dictionary: numbers of strings. */
typedef struct pair_s {
	uint32_t key, value;
} pair_t;

typedef struct encoder_s {
	const struct pprof_profile *p;
	places_t places;
	proto_t out;             /* the request */
	proto_t whole, part, inner; /* messages in it, each inside the one before */
	proto_t packed;          /* packed numbers, or the value of an attribute */
	proto_t mappings;        /* of the dictionary; at last the whole dictionary */
	uint32_t *mapping;       /* by object: its mapping's number in the dictionary; 0: not written */
	uint32_t nmappings;      /* numbers used so far */
	/* Each numbers its keys from 0; the dictionary's numbers are one more, as entry 0 is empty. */
	intern_t stacks;         /* key: packed numbers of locations */
	intern_t attributes;     /* key: a pair_t */
	intern_t keys;           /* key: a sample_key_t; its number is its index in samples */
	sample_t *samples;
	size_t nsamples, sample_room;
	const site_t *last;      /* whose stack has the number last_stack; NULL: there is none yet */
	uint32_t last_stack;
	bool has_failed;         /* there was no memory */
} encoder_t;

/* Number of a key in a table whose entry 0 is empty; 0 and has_failed without memory. */
static uint32_t
number_of(encoder_t *e, intern_t *table, const void *key, size_t len) {
	uint32_t number = intern_put(table, key, len);
	e->has_failed |= number == INTERN_FAILED;
	return number == INTERN_FAILED ? 0 : number + 1;
}

/* Number in the dictionary of the attribute with this key; value: number of a string. */
static uint32_t
attribute_of(encoder_t *e, const char *key, uint32_t value) {
	pair_t pair = {string_of_word(&e->places, key), value};
	return number_of(e, &e->attributes, &pair, sizeof(pair));
}

/* ---------------------------------------------------------------- samples */

/*
 * Number in the dictionary of the site's stack, without the allocator's frames; 0: it is empty, or
 * there is no memory. Gives numbers to its locations. Most sites have the stack of the one before.
 */
static uint32_t
stack_of(encoder_t *e, const site_t *s) {
	if (e->last != NULL && e->last->first == s->first && e->last->depth == s->depth) {
		return e->last_stack;
	}
	proto_clear(&e->packed);
	stack_put(&e->places, s, &e->packed);
	e->has_failed |= e->packed.error != 0;
	e->last = s;
	e->last_stack = e->packed.len == 0 ? 0
	    : number_of(e, &e->stacks, e->packed.data, e->packed.len);
	return e->last_stack;
}

/*
 * Adds the values of a site to the sample with its stack, thread's name and label. Must not be
 * called again once has_failed is set, because then a key may have a number but no sample.
 */
static void
site_add(encoder_t *e, const site_t *s) {
	sample_key_t key = {stack_of(e, s), 0, 0};
	const thread_t *t = s->thread == NO_THREAD ? NULL : &e->p->threads[s->thread];
	if (t != NULL && t->name != 0) {
		key.thread = attribute_of(e, "thread.name", string_of_text(&e->places, t->name));
	}
	if (s->label != 0) {
		key.label = attribute_of(e, "label", string_of_text(&e->places, s->label));
	}
	uint32_t number = number_of(e, &e->keys, &key, sizeof(key));
	if (number > e->nsamples) {
		if (array_grow(&e->samples, &e->sample_room, e->nsamples, sizeof(*e->samples)) != 0) {
			e->has_failed = true;
			return;
		}
		e->samples[e->nsamples++] = (sample_t){.key = key};
	}
	for (unsigned type = 0; type < PPROF_TYPES && number != 0; type++) {
		e->samples[number - 1].values[type] += s->values[type];
	}
}

static void
sample_write(encoder_t *e, const sample_t *s, int64_t value) {
	proto_clear(&e->inner);
	proto_number(&e->inner, SAMPLE_STACK, s->key.stack);
	if (s->key.thread != 0 || s->key.label != 0) {
		proto_clear(&e->packed);
		for (unsigned i = 0; i < 2; i++) {
			uint32_t attribute = i == 0 ? s->key.thread : s->key.label;
			if (attribute != 0) {
				proto_varint(&e->packed, attribute);
			}
		}
		proto_message(&e->inner, SAMPLE_ATTRIBUTE, &e->packed);
	}
	proto_clear(&e->packed);
	proto_varint(&e->packed, (uint64_t)value);
	proto_message(&e->inner, SAMPLE_VALUE, &e->packed);
	proto_message(&e->part, PROFILE_SAMPLE, &e->inner);
}

static void
type_write(encoder_t *e, unsigned field, const char *type, const char *unit) {
	proto_clear(&e->inner);
	proto_number(&e->inner, TYPE_TYPE, string_of_word(&e->places, type));
	proto_number(&e->inner, TYPE_UNIT, string_of_word(&e->places, unit));
	proto_message(&e->part, field, &e->inner);
}

/*
 * Writes the identifier of a Profile, 16 bytes, which are never all zero. Two of them differ if the
 * type, the time (by at least 2 ns) or the pid differs. The pid is what the process itself sees, so
 * processes of two containers may have the same.
 */
static void
id_write(encoder_t *e, unsigned type) {
	uint64_t words[2] = {(uint64_t)e->p->time_ns | 1, e->p->pid << 8 | type};
	unsigned char id[16];
	for (unsigned w = 0; w < 2; w++) {
		uint64_t x = (words[w] + w) * UINT64_C(0x9e3779b97f4a7c15);
		x ^= x >> 29;
		for (unsigned i = 0; i < 8; i++) {
			id[8 * w + i] = (unsigned char)(x >> 8 * i);
		}
	}
	proto_bytes(&e->part, PROFILE_ID, id, sizeof(id));
}

/* Writes the Profile of types[type]. */
static void
profile_write(encoder_t *e, unsigned type) {
	carry_t carry = {0};
	proto_clear(&e->part);
	type_write(e, PROFILE_TYPE, types[type].type, types[type].unit);
	for (size_t i = 0; i < e->nsamples; i++) {
		int64_t value = carry_next(&carry, e->samples[i].values[types[type].value]);
		if (value != 0) {
			sample_write(e, &e->samples[i], value);
		}
	}
	proto_fixed64(&e->part, PROFILE_TIME, (uint64_t)e->p->time_ns);
	proto_number(&e->part, PROFILE_DURATION, (uint64_t)e->p->duration_ns);
	type_write(e, PROFILE_PERIOD_TYPE, "space", "bytes");
	proto_number(&e->part, PROFILE_PERIOD, e->p->period);
	id_write(e, type);
	proto_message(&e->whole, SP_PROFILE, &e->part);
}

/* ---------------------------------------------------------------- resource */

/* Writes an attribute of the resource: a KeyValue, whose key is text, not a number of a string. */
static void
pair_write(encoder_t *e, const struct otlp_attribute *a) {
	proto_clear(&e->inner);
	proto_clear(&e->packed);
	if (a->text != NULL) {
		/* Cleaned (string_put), because a string of protobuf must be UTF-8. */
		uint32_t text = string_of_word(&e->places, a->text);
		proto_bytes(&e->packed, VALUE_STRING, intern_text(&e->places.strings, text),
		    intern_len(&e->places.strings, text));
	} else {
		proto_varint(&e->packed, VALUE_INT << 3);
		proto_varint(&e->packed, (uint64_t)a->number);
	}
	uint32_t key = string_of_word(&e->places, a->key);
	proto_bytes(&e->inner, PAIR_KEY, intern_text(&e->places.strings, key),
	    intern_len(&e->places.strings, key));
	proto_message(&e->inner, PAIR_VALUE, &e->packed);
	proto_message(&e->part, RESOURCE_ATTRIBUTE, &e->inner);
}

/* Writes the ResourceProfiles: the resource, and one scope with all Profiles. */
static void
resource_write(encoder_t *e, const struct otlp_resource *resource) {
	proto_t scoped = {0};
	proto_clear(&e->part);
	for (size_t i = 0; i < resource->count; i++) {
		pair_write(e, &resource->attributes[i]);
	}
	proto_message(&scoped, RP_RESOURCE, &e->part);
	proto_clear(&e->whole);
	proto_clear(&e->part);
	proto_bytes(&e->part, SCOPE_NAME, "jeprof", strlen("jeprof"));
	if (resource->version != NULL) {
		proto_bytes(&e->part, SCOPE_VERSION, resource->version, strlen(resource->version));
	}
	proto_message(&e->whole, SP_SCOPE, &e->part);
	for (unsigned type = 0; type < PPROF_TYPES; type++) {
		if (e->p->is_accumulated || !types[type].is_accumulated) {
			profile_write(e, type);
		}
	}
	proto_message(&scoped, RP_SCOPE_PROFILES, &e->whole);
	proto_message(&e->out, REQUEST_RESOURCE_PROFILES, &scoped);
	proto_free(&scoped);
}

/* ---------------------------------------------------------------- dictionary */

/* Number in the dictionary of an object's mapping, which the first call writes; 0: NO_OBJECT. */
static uint32_t
mapping_of(encoder_t *e, uint32_t object) {
	if (object == NO_OBJECT || e->mapping[object] != 0) {
		return object == NO_OBJECT ? 0 : e->mapping[object];
	}
	uint32_t id = e->p->objects[object].id;
	e->mapping[object] = ++e->nmappings;
	proto_clear(&e->part);
	mapping_put(&e->places, object, 0, &e->part);
	if (id != 0) {
		proto_clear(&e->packed);
		proto_varint(&e->packed, attribute_of(e, "process.executable.build_id.gnu",
		    string_of_text(&e->places, id)));
		proto_message(&e->part, MAPPING_ATTRIBUTE, &e->packed);
	}
	proto_message(&e->mappings, DICTIONARY_MAPPING, &e->part);
	return e->nmappings;
}

static void
location_write(encoder_t *e, const place_t *place) {
	uint32_t mapping = mapping_of(e, place->object);
	proto_clear(&e->part);
	location_put(&e->places, place, 0, mapping, &e->part, &e->inner);
	proto_message(&e->whole, DICTIONARY_LOCATION, &e->part);
}

/* Writes the locations in the order of their numbers. */
static void
locations_write(encoder_t *e) {
	uint32_t n = e->places.nlocations;
	const place_t **by_id = calloc(n + 1, sizeof(*by_id));
	if (by_id == NULL) {
		e->has_failed = true;
		return;
	}
	for (size_t i = 0; i < e->places.count; i++) {
		by_id[e->places.all[i].id] = &e->places.all[i];
	}
	proto_bytes(&e->whole, DICTIONARY_LOCATION, "", 0);
	for (uint32_t id = 1; id <= n; id++) {
		location_write(e, by_id[id]);
	}
	free(by_id);
}

static void
functions_write(encoder_t *e) {
	proto_bytes(&e->whole, DICTIONARY_FUNCTION, "", 0);
	for (uint32_t i = 0; i < e->places.functions.count; i++) {
		proto_clear(&e->part);
		function_put(&e->places, i, 0, &e->part);
		proto_message(&e->whole, DICTIONARY_FUNCTION, &e->part);
	}
}

static void
attributes_write(encoder_t *e) {
	proto_bytes(&e->whole, DICTIONARY_ATTRIBUTE, "", 0);
	for (uint32_t i = 0; i < e->attributes.count; i++) {
		pair_t pair;
		memcpy(&pair, intern_text(&e->attributes, i), sizeof(pair));
		proto_clear(&e->part);
		proto_number(&e->part, PAIR_KEY, pair.key);
		proto_clear(&e->inner);
		proto_bytes(&e->inner, VALUE_STRING, intern_text(&e->places.strings, pair.value),
		    intern_len(&e->places.strings, pair.value));
		proto_message(&e->part, PAIR_VALUE, &e->inner);
		proto_message(&e->whole, DICTIONARY_ATTRIBUTE, &e->part);
	}
}

static void
stacks_write(encoder_t *e) {
	proto_bytes(&e->whole, DICTIONARY_STACK, "", 0);
	for (uint32_t i = 0; i < e->stacks.count; i++) {
		proto_clear(&e->part);
		proto_bytes(&e->part, STACK_LOCATION, intern_text(&e->stacks, i),
		    intern_len(&e->stacks, i));
		proto_message(&e->whole, DICTIONARY_STACK, &e->part);
	}
}

/* Writes the strings last, because writing the other tables adds strings. */
static void
dictionary_write(encoder_t *e) {
	proto_clear(&e->whole);
	proto_bytes(&e->mappings, DICTIONARY_MAPPING, "", 0);
	locations_write(e);
	functions_write(e);
	proto_bytes(&e->whole, DICTIONARY_LINK, "", 0);
	attributes_write(e);
	stacks_write(e);
	for (uint32_t i = 0; i < e->places.strings.count; i++) {
		proto_bytes(&e->whole, DICTIONARY_STRING, intern_text(&e->places.strings, i),
		    intern_len(&e->places.strings, i));
	}
	proto_append(&e->mappings, &e->whole);
	proto_message(&e->out, REQUEST_DICTIONARY, &e->mappings);
}

/* ---------------------------------------------------------------- the whole */

static void
encoder_free(encoder_t *e) {
	proto_t *buffers[] = {&e->out, &e->whole, &e->part, &e->inner, &e->packed, &e->mappings};
	for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++) {
		proto_free(buffers[i]);
	}
	places_free(&e->places);
	intern_free(&e->stacks);
	intern_free(&e->attributes);
	intern_free(&e->keys);
	free(e->samples);
	free(e->mapping);
}

int
otlp_encode(const struct pprof_profile *p, const struct pprof_request *request,
    const struct otlp_resource *resource, bool is_packed, unsigned char **out, size_t *len,
    const char **why) {
	encoder_t e = {.p = p, .mapping = calloc(p->nobjects + 1, sizeof(*e.mapping))};
	*out = NULL;
	int err = e.mapping == NULL ? ENOMEM : places_make(&e.places, p, request);
	for (size_t i = 0; i < p->nsites && err == 0 && !e.has_failed; i++) {
		site_add(&e, &p->sites[i]);
	}
	if (err == 0) {
		resource_write(&e, resource);
		dictionary_write(&e);
		err = e.has_failed || e.places.has_failed ? ENOMEM : is_packed
		    ? proto_gzip(&e.out, out, len) : proto_take(&e.out, out, len);
	}
	encoder_free(&e);
	*why = encoding_failure(err);
	return err;
}
