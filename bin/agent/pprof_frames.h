/*
 * Places of a profile: each address once, with its object and its frames. Invariant: frames of a
 * place stand together, innermost first; their functions and strings are numbered as in the output,
 * strings from 0 (""), functions from 0 (the output adds one). Used by pprof_encode.c and
 * pprof_names.c.
 */
#pragma once
#include "pprof_own.h"

typedef struct frame_s {
	uint32_t function;
	uint32_t line;     /* 0: not known */
} frame_t;

typedef enum {
	place_other,
	place_library,  /* the allocator's library */
	place_unwinder,
	place_entry,    /* malloc and its like in another object */
} place_kind_t;

typedef struct place_s {
	uint64_t address;
	uint32_t object;   /* or NO_OBJECT */
	uint32_t frame, nframes;
	uint32_t id;       /* in the output, from 1; 0: not told yet */
	place_kind_t kind;
} place_t;

/* What a function is known by: numbers of strings. */
typedef struct function_s {
	uint32_t name, system_name, file;
} function_t;

typedef struct places_s {
	const struct pprof_profile *p;
	place_t *all;      /* in the order of their first use in a stack */
	size_t count, room;
	uint32_t *of;      /* the place of each of the profile's addresses */
	frame_t *frames;
	size_t nframes, frame_room;
	intern_t strings;
	intern_t functions; /* of function_t */
	uint8_t *has;      /* by object: HAS_* of its frames */
} places_t;

enum { HAS_FUNCTIONS = 1, HAS_FILES = 2, HAS_LINES = 4, HAS_INLINED = 8 };

/* Makes the places of a profile and names them; 0 or ENOMEM. */
int places_make(places_t *s, const struct pprof_profile *p, const struct pprof_request *request);
void places_free(places_t *s);

/* Finds the frames of all places, as far as there are names: pprof_names.c. 0 or ENOMEM. */
int places_name(places_t *s, const struct pprof_request *request);

/* Number of a text in the output, without control characters and in valid UTF-8. */
uint32_t string_put(places_t *s, const char *text, size_t len);

/* How many frames at the leaf of a site are the allocator's; at least one frame is left. */
uint32_t places_to_cut(const places_t *s, const site_t *site);
