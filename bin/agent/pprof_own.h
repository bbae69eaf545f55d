/* What the files pprof_*.c share: a profile as parsed. See pprof.h. */
#pragma once
#include "intern.h"
#include "pprof.h"

/* Sample types, in Go's order. */
enum { ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE, PPROF_TYPES };

#define NO_THREAD UINT32_MAX
#define NO_OBJECT UINT32_MAX

/* What one thread holds at one stack, estimated, in objects and bytes: multiples of 1/1024. */
typedef struct site_s {
	size_t first;      /* of its addresses */
	uint32_t depth;
	uint32_t thread;   /* index into threads, or NO_THREAD */
	double values[PPROF_TYPES];
} site_t;

typedef struct thread_s {
	uint64_t uid;
	uint32_t name;     /* number of a text; that of "": it has none */
} thread_t;

/* A file that was mapped, known by build-id, else by path. */
typedef struct object_s {
	uint32_t id, path; /* numbers of texts; the id in hex, "" if it has none */
	uint64_t start, end;         /* of all its ranges */
	uint64_t map_start, map_end; /* of one line of the memory map; 0: there was none */
	uint64_t dev, inode;         /* as in that line; 0: not known */
} object_t;

/* Addresses that belong to an object. */
typedef struct range_s {
	uint64_t start, end;
	uint64_t bias;     /* address in memory less address in the file */
	uint32_t object;
	bool has_bias;     /* of a module line; else only the line of the memory map is known */
} range_t;

struct pprof_profile {
	intern_t texts;    /* number 0 is "" */
	uint64_t *addresses;         /* of all stacks, leaf first; callers' less one: inside the call */
	size_t naddresses, address_room;
	site_t *sites;
	size_t nsites, site_room;
	thread_t *threads; /* by uid */
	size_t nthreads, thread_room;
	object_t *objects; /* number 0 is the main program, if any is */
	size_t nobjects, object_room;
	range_t *ranges;   /* by start */
	size_t nranges, range_room;
	uint32_t *comments;          /* numbers of texts: KEY=VALUE of the dump */
	size_t ncomments, comment_room;
	uint64_t rate;     /* of the first line, bytes; 0: counts are exact */
	uint64_t period;   /* sampling interval, bytes */
	uint64_t pid;      /* 0: not known */
	int64_t time_ns;   /* since 1970; 0: not known */
	int64_t duration_ns;
	uint32_t exe, library;       /* numbers of texts; 0: not known */
	uint32_t session, start;     /* numbers of the comments that tell them; 0: none does */
	bool is_accumulated;         /* some count of allocations is not 0 */
};

/* Index of a thread, NO_THREAD if it is not known. */
uint32_t thread_of(const struct pprof_profile *p, uint64_t uid);

/* A piece of text that is read line by line. */
typedef struct lines_s {
	const char *at, *end;
} lines_t;

/* The next line without its end, false behind the last. */
bool line_next(lines_t *l, const char **line, size_t *len);

/* Reads the maps and module lines that follow, up to the end: ranges and objects. 0 or ENOMEM. */
int maps_parse(struct pprof_profile *p, lines_t *l);

/* The range of an address, NULL if there is none. */
const range_t *range_of(const struct pprof_profile *p, uint64_t address);

/* Digits in hex, at most 16, from *at on; false if there are none. */
bool hex_read(const char **at, const char *end, uint64_t *value);

/* Decimal digits from *at on, at most 20; what is too large becomes UINT64_MAX. */
bool dec_read(const char **at, const char *end, uint64_t *value);

/* Passes over one text that must stand at *at. */
bool word_read(const char **at, const char *end, const char *word);
