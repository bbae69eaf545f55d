/*
 * What profile.proto and OTLP write alike: the locations of a stack, and the messages of mappings,
 * locations and functions. Both number the fields in the same order, but in profile.proto these
 * messages begin with an id, so that their other fields have a number that is higher by one.
 * Without memory the has_failed of the message or of the places is set. Called by pprof_encode.c
 * and otlp_encode.c.
 */
#pragma once
#include "pprof_frames.h"
#include "proto.h"

/*
 * Adds the numbers of a site's locations to a packed field, leaf first and without the allocator's
 * frames. A place gets its number, which is its id, at the first use.
 */
void stack_put(places_t *s, const site_t *site, proto_t *packed);

/* The following add fields to `message`; id 0: the message is of OTLP, which has no id. */

/* Lowest and highest address and path of an object; object: its index in the profile. */
void mapping_put(places_t *s, uint32_t object, uint32_t id, proto_t *message);

/*
 * The address of a place and its frames. mapping: the number in the output of its object's mapping,
 * 0: none. line: scratch, a buffer that is overwritten.
 */
void location_put(const places_t *s, const place_t *place, uint32_t id, uint32_t mapping,
    proto_t *message, proto_t *line);

/* The names of function i of the places. */
void function_put(const places_t *s, uint32_t i, uint32_t id, proto_t *message);
