/*
 * The parsed command line: the verb, the process that is meant, the options. main() calls
 * read_words() once; afterwards only "start -d" changes `words`: it may make the default time
 * of --wait as long as its own, and sets the verb to STOP when that is over. No locks: jeprofctl
 * has one thread.
 */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* The verbs, one bit each. */
enum { START = 1, STOP = 2, DUMP = 4, STATUS = 8, SET = 16, WATCH = 32, LIST = 64, REARM = 128,
    MARK = 256 };

/* Options, as indexes of words_t.values; o_free: of all whose value only pairs[] holds. */
enum { o_pid, o_json, o_idempotent, o_wait, o_dir, o_session, o_duration, o_output, o_tick, o_count,
    o_quiet, o_max, o_prefix, o_outside, o_core, o_since_mark, o_free };

typedef struct value_s {
	bool is_given;
	/* bytes, ms, seconds or a count, by the kind of the option; o_wait: 5000 if not given */
	uint64_t number;
	const char *text;    /* as it was typed; "" for an option without a value */
} value_t;

/* An option that goes into the request as KEY:VALUE. */
typedef struct pair_s {
	const char *key;
	char value[PATH_MAX];
} pair_t;

typedef struct words_s {
	int verb;            /* one bit of START ... MARK */
	const char *who;     /* pid or name of a program; NULL: not given */
	const char *file;    /* of dump; NULL: not given */
	value_t values[o_free + 1];
	pair_t pairs[32];
	int npairs;
	const char *raw[32]; /* words key:value, passed on unchanged */
	int nraw;
} words_t;

extern words_t words;

/* Whether the option with this index was given. */
bool is_on(int place);

/* Reads a size (64M, 1.5G; a number alone: bytes) into *bytes; false: it is none. */
bool try_size(const char *text, uint64_t *bytes);

/*
 * What the request will ask for as this key: of the words key:value, which come after the options,
 * else of the option; the last counts. NULL: it has no such key.
 */
const char *asked_value(const char *key);
/* The name of the option that asks for it, without hyphens; NULL: a word KEY:VALUE does. */
const char *asked_as(const char *key);

/* Fills in `words`; a wrong word ends the program with EXIT_USAGE and the reason. */
void read_words(int argc, char **argv);
