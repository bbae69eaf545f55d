/*
 * Writes what profile.proto and OTLP have in common (pprof_parts.h). Invariant: the number of a
 * function in a line is its index in places_t.functions plus one, in both forms. No locks: a
 * profile belongs to one thread. Called by pprof_encode.c and otlp_encode.c.
 */
#include "pprof_parts.h"

#include <errno.h>
#include <string.h>

/* Numbers of fields, counted from 0 for the first one behind the id. */
enum {
	MAPPING_START = 0, MAPPING_LIMIT, MAPPING_FILE = 3,
	LOCATION_MAPPING = 0, LOCATION_ADDRESS, LOCATION_LINE,
	FUNCTION_NAME = 0, FUNCTION_SYSTEM_NAME, FUNCTION_FILE,
	LINE_FUNCTION = 1, LINE_LINE, /* the numbers themselves, because a line has no id */
};

void
stack_put(places_t *s, const site_t *site, proto_t *packed) {
	for (uint32_t i = places_to_cut(s, site); i < site->depth; i++) {
		place_t *place = &s->all[s->of[site->first + i]];
		if (place->id == 0) {
			place->id = ++s->nlocations;
		}
		proto_varint(packed, place->id);
	}
}

/* Adds the id as field 1, if it is not 0 (pprof); returns the number of the next field. */
static unsigned
id_put(proto_t *message, uint32_t id) {
	proto_number(message, 1, id); /* does not write 0 */
	return id == 0 ? 1 : 2;
}

void
mapping_put(places_t *s, uint32_t object, uint32_t id, proto_t *message) {
	unsigned first = id_put(message, id);
	proto_number(message, first + MAPPING_START, s->p->objects[object].start);
	proto_number(message, first + MAPPING_LIMIT, s->p->objects[object].end);
	proto_number(message, first + MAPPING_FILE, string_of_path(s, object));
}

void
location_put(const places_t *s, const place_t *place, uint32_t id, uint32_t mapping,
    proto_t *message, proto_t *line) {
	unsigned first = id_put(message, id);
	proto_number(message, first + LOCATION_MAPPING, mapping);
	proto_number(message, first + LOCATION_ADDRESS, place_address(place));
	for (uint32_t i = 0; i < place->nframes; i++) {
		const frame_t *frame = &s->frames[place->frame + i];
		proto_clear(line);
		proto_number(line, LINE_FUNCTION, frame->function + 1);
		proto_number(line, LINE_LINE, frame->line);
		proto_message(message, first + LOCATION_LINE, line);
	}
}

void
function_put(const places_t *s, uint32_t i, uint32_t id, proto_t *message) {
	function_t f;
	memcpy(&f, intern_text(&s->functions, i), sizeof(f));
	unsigned first = id_put(message, id);
	proto_number(message, first + FUNCTION_NAME, f.name);
	proto_number(message, first + FUNCTION_SYSTEM_NAME, f.system_name);
	proto_number(message, first + FUNCTION_FILE, f.file);
}

const char *
encoding_failure(int error) {
	return error == EFBIG ? "it takes more than 256 MiB" : "there is not enough memory";
}
