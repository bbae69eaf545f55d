/*
 * The places of a profile: its distinct addresses, each with its object and its frames (one for a
 * function and for each call inlined in it). Invariant: the frames of a place are consecutive,
 * innermost first; strings have the numbers of the output, from 0 (""); functions are numbered from
 * 0 here and from 1 in the output. No locks: a places_t belongs to one thread. Used by
 * pprof_encode.c, otlp_encode.c, pprof_parts.c and pprof_names.c.
 */
#pragma once
#include "pprof_own.h"

typedef struct frame_s {
	uint32_t function; /* number in places_t.functions */
	uint32_t line;     /* 0: not known */
} frame_t;

typedef enum {
	place_other,
	place_library,  /* in the allocator's library */
	place_unwinder, /* in a library that walks stacks */
	place_entry,    /* in malloc or its like, in an object that is not the allocator's library */
} place_kind_t;

typedef struct place_s {
	uint64_t address;
	uint32_t object;   /* index in the profile, or NO_OBJECT */
	/* index in places_t.frames of its first frame, and their number, which is 0 without a name */
	uint32_t frame, nframes;
	uint32_t id;       /* number of the location in the output, from 1; 0: no sample uses it yet */
	place_kind_t kind;
} place_t;

/* The address as it is written: 0 for the place of stacks that could not be read. */
static inline uint64_t
place_address(const place_t *place) {
	return place->address == NO_STACK ? 0 : place->address;
}

/* A function: numbers in places_t.strings; system_name: the linker's; 0 (""): not known. */
typedef struct function_s {
	uint32_t name, system_name, file;
} function_t;

typedef struct places_s {
	const struct pprof_profile *p;
	/* of the profile's process, as jeprofd sees it; 0: that has ended, or is not known */
	pid_t pid;
	bool has_failed;   /* string_of*() had no memory, so something is missing */
	place_t *all;      /* in the order of their first use in a stack */
	size_t count, room;
	uint32_t nlocations; /* ids of places used so far */
	uint32_t *of;      /* by index in the profile's addresses: index of its place in `all` */
	frame_t *frames;
	size_t nframes, frame_room;
	intern_t strings;
	intern_t functions; /* its strings are function_t */
	uint8_t *has;      /* by object: HAS_* */
} places_t;

/* Facts about the frames of an object: the flags has_* of a mapping in profile.proto. */
enum { HAS_FUNCTIONS = 1, HAS_FILES = 2, HAS_LINES = 4, HAS_INLINED = 8 };

/*
 * Makes the places of a profile, with frames and kinds. Finding the names may take about 23 s; a
 * name that is not found is no failure. 0 or ENOMEM; places_free() in any case.
 */
int places_make(places_t *s, const struct pprof_profile *p, const struct pprof_request *request);
void places_free(places_t *s);

/* Sets the frames of all places whose names can be found (pprof_names.c). 0 or ENOMEM. */
int places_name(places_t *s, const struct pprof_request *request);

/*
 * Number of a string in the output. Each byte of invalid UTF-8, and of characters that control a
 * terminal or set a direction of writing, becomes '?'. INTERN_FAILED without memory.
 */
uint32_t string_put(places_t *s, const char *text, size_t len);

/*
 * The same of bytes, of a word that ends in NUL, of p->texts number `text`. Without memory they
 * return 0 and set has_failed, which the caller tests at the end.
 */
uint32_t string_of(places_t *s, const char *text, size_t len);
uint32_t string_of_word(places_t *s, const char *word);
uint32_t string_of_text(places_t *s, uint32_t text);
/*
 * The same of the path of an object. The profile may lack the path of the program, as in a chroot
 * without /proc; then the path is read from /proc/PID/exe.
 */
uint32_t string_of_path(places_t *s, uint32_t object);

/*
 * Rounds a row of estimates to whole numbers, one with each call, in order. After each call the sum
 * of the returned numbers is the sum of the estimates so far, truncated. Both begin at 0; that of
 * the estimates is held between -(2^53 - 1) and 2^53 - 1.
 */
typedef struct carry_s {
	double exact, whole; /* sums so far: of the estimates, of the returned numbers */
} carry_t;
int64_t carry_next(carry_t *c, double estimate);

/*
 * How many addresses at the leaf of a site are the allocator's own and are to be left out: never
 * the last one, so that no stack becomes empty.
 */
uint32_t places_to_cut(const places_t *s, const site_t *site);
