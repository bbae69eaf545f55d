/*
 * Internal to pprof_*.c and otlp_encode.c: the parsed profile, and the functions that parse it. A
 * profile belongs to one thread; nothing here has a lock. See pprof.h. "Text": the profile in
 * heap_v2 as it was given, and in "number of a text" a string of pprof_profile.texts.
 */
#pragma once
#include "intern.h"
#include "pprof.h"
#include "prof/sites/prof_ages.h"

/* Indexes of the values of a site: ever allocated, and live; in the order of Go's profiles. */
enum { ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE, PPROF_TYPES };

/*
 * Sites of a profile, at most: 224 MiB of them. The lines that the library writes for threads have
 * more than 16 bytes, so a text of PPROF_TEXT_MAX with more is forged.
 */
enum { SITES_MAX = 1 << 22 };

#define NO_THREAD UINT32_MAX /* in place of an index into threads */
#define NO_OBJECT UINT32_MAX /* in place of an index into objects */
#define NO_STACK UINT64_MAX /* the only address of a stack that could not be read */

/* The estimated allocations of one thread with one stack and label. */
typedef struct site_s {
	size_t first;      /* index in `addresses` of its first address, the leaf */
	uint32_t depth;    /* addresses */
	uint32_t thread;   /* index into threads, or NO_THREAD */
	uint32_t label;    /* number of a text; 0 (""): it has none */
	uint32_t stack;    /* number of its stack in the text, from 1; 0: it has none */
	double values[PPROF_TYPES]; /* estimated objects or bytes, rounded to 1/1024 */
} site_t;

typedef struct thread_s {
	uint64_t uid;      /* the library's number of the thread */
	uint32_t name;     /* number of a text; 0 (""): it has none */
} thread_t;

/* A mapped file, identified by its build-id or, without one, by its path. */
typedef struct object_s {
	uint32_t id, path; /* numbers of texts; id: the build-id in hex; "" if it has none */
	uint64_t start, end;         /* lowest start and highest end of its ranges */
	uint64_t map_start, map_end; /* of one line of the memory map; 0: there was none */
	uint64_t dev, inode;         /* as in that line; 0: not known */
} object_t;

/* A range of addresses, without `end` itself, that belong to an object. */
typedef struct range_s {
	uint64_t start, end;
	uint64_t bias;     /* address in memory minus address in the ELF file, if has_bias */
	uint32_t object;   /* index into objects */
	bool has_bias;     /* from a module line; false: from a line of the memory map */
} range_t;

/* Live bytes of a stack with ages in one range, as printed, that is, before estimates. */
typedef struct age_s {
	uint32_t stack;    /* its number, from 1 */
	uint32_t column;   /* which range, from 0 (youngest) to PROF_AGES - 1 (prof_ages.h) */
	double bytes;
} age_t;

/* A parsed profile. Of each array so many elements are used (n...) and allocated (..._room). */
struct pprof_profile {
	intern_t texts;    /* number 0 is "" */
	/* of all stacks, leaf first; return addresses are one less, so that they lie in the call */
	uint64_t *addresses;
	size_t naddresses, address_room;
	/*
	 * in the order of the text; behind these the parts that have labels, and in a difference the
	 * stacks that shrank (dump-delta) or that only the earlier profile has, with live values <= 0
	 */
	site_t *sites;
	size_t nsites, site_room;
	thread_t *threads; /* by uid */
	size_t nthreads, thread_room;
	object_t *objects; /* number 0 is the main program, if that is known */
	size_t nobjects, object_room;
	range_t *ranges;   /* by start */
	size_t nranges, range_room;
	age_t *ages;       /* by stack */
	size_t nages, age_room;
	uint32_t *comments;          /* numbers of texts: KEY=VALUE of the dump */
	size_t ncomments, comment_room;
	uint64_t rate;     /* bytes, of the first line; 0: counts are exact */
	/* bytes, the sampling interval by the metadata (sample_interval); without that the rate */
	uint64_t period;
	/* the interval that was set, where a budget (prof_budget) has changed it; 0: none has */
	uint64_t period_set;
	uint64_t pid;      /* as the process sees itself; 0: not known */
	/* since 1970, when the dump was made; of a difference, when it begins; 0: not known */
	int64_t time_ns;
	int64_t monotonic_ms;        /* of the dump, on a clock that nobody sets; 0: not known */
	int64_t profiled_ms;         /* of that clock, since the counts began; -1: not known */
	int64_t duration_ns;         /* between the moments of a difference; 0: none, or not known */
	uint32_t exe, library;       /* numbers of texts; 0: not known */
	uint32_t session, start;     /* texts of the comments with session number and start; 0: none */
	/* of a difference that the library made (dump-delta): its mark, since 1970; 0: it is none */
	int64_t mark_ns;
	bool is_accumulated;         /* some count of allocations is not 0: they were counted */
};

/* Index of the thread with this uid, NO_THREAD if it is not known. */
uint32_t thread_of(const struct pprof_profile *p, uint64_t uid);

/* A value rounded to 1/1024: doubles below 2^43 hold these exactly, so sums of them are exact. */
double round_to_1024th(double value);

/* Appends a copy of the site. 0, ENOMEM, or EFBIG: there are SITES_MAX sites. */
int site_append(struct pprof_profile *p, const site_t *s);

/* Appends an address to those of all stacks. 0 or ENOMEM. */
int address_append(struct pprof_profile *p, uint64_t address);

/* The part of a text that is not read yet. */
typedef struct lines_s {
	const char *at, *end;
} lines_t;

/* Reads the next line, without its line break; false if there is none. */
bool line_next(lines_t *l, const char **line, size_t *len);

/*
 * Parses the remaining lines, which are those of the memory map and of modules, into ranges and
 * objects. 0 or ENOMEM.
 */
int maps_parse(struct pprof_profile *p, lines_t *l);

/* The range of an address, NULL if there is none. Of ranges that overlap one may be missed. */
const range_t *range_of(const struct pprof_profile *p, uint64_t address);

/* A stack of the text. Later lines of the text name it by its number (pprof_labels.c). */
typedef struct printed_s {
	size_t first;      /* index of its first site; those of a stack follow one another */
	uint64_t objects, bytes; /* live, as printed, that is, before estimates */
} printed_t;

/*
 * Splits sites whose live objects have labels: each label gets a site with its part of the live
 * objects and bytes, as the lines "# label" and "# labeled" among those that remain say. Adds sites
 * behind the others, in number linear in the sites and the bytes of these lines. stacks[n - 1] is
 * stack n; stacks[nstacks] ends the last. 0, ENOMEM or EFBIG.
 */
int labels_parse(struct pprof_profile *p, lines_t l, const printed_t *stacks, size_t nstacks);

/* Reads the ages of the stacks from the lines that remain. 0 or ENOMEM. */
int ages_parse(struct pprof_profile *p, lines_t l, size_t nstacks);

/*
 * Sets the share (0 to 1) of each column in the live bytes of the site's stack; false: not told,
 * and all are 0.
 */
bool ages_of(const struct pprof_profile *p, const site_t *s, double shares[PROF_AGES]);

/* Parses at most 16 hexadecimal digits at *at, moves *at behind them; false if there are none. */
bool hex_read(const char **at, const char *end, uint64_t *value);

/*
 * Parses at most 20 decimal digits at *at and moves *at behind them; false if there are none. A
 * number that 64 bits cannot hold becomes UINT64_MAX.
 */
bool dec_read(const char **at, const char *end, uint64_t *value);

/* If `word` stands at *at, moves *at behind it; otherwise returns false. */
bool word_read(const char **at, const char *end, const char *word);
