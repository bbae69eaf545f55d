/*
 * What profile.proto and OTLP write alike: the locations of a stack, and the messages of mappings,
 * locations and functions. In both forms these have numbers from 1, and 0 stands for "none". In
 * profile.proto the number is field 1 of the message, its id; in OTLP it is the index in a table,
 * whose entry 0 is empty. So the other fields are in the same order, but without the id each has a
 * number that is lower by one. What fails sets the error of the message, of `packed` for
 * stack_put(), and mapping_put() may set has_failed of the places too. The callers test all of them
 * at their end. Called by pprof_encode.c and otlp_encode.c.
 */
#pragma once
#include "pprof_frames.h"
#include "proto.h"

/*
 * Adds the numbers of a site's locations to a packed field, leaf first and without the allocator's
 * frames. A place that is used for the first time gets the next number, place_t.id.
 */
void stack_put(places_t *s, const site_t *site, proto_t *packed);

/* The following add fields to `message`; id 0: the message is of OTLP, and has no id. */

/*
 * Lowest and highest address and path of an object; object: its index in the profile. The path
 * becomes a string of the output.
 */
void mapping_put(places_t *s, uint32_t object, uint32_t id, proto_t *message);

/*
 * The address of a place and its frames, innermost first. mapping: the number of the mapping of its
 * object; 0: none. line: scratch, a buffer that is overwritten.
 */
void location_put(const places_t *s, const place_t *place, uint32_t id, uint32_t mapping,
    proto_t *message, proto_t *line);

/* The names of function i of the places. */
void function_put(const places_t *s, uint32_t i, uint32_t id, proto_t *message);

/* The sentence for the error, ENOMEM or EFBIG, with which an encoding ends. */
const char *encoding_failure(int error);
