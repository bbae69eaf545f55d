/*
 * A row of the table of options (conf_table.h), and how a value is stored by the type of its row.
 * Rows are constant. Options are stored in the variables that rows point to only during boot, by
 * one thread, so there is no lock. Called by conf.c and by the parsers of conf_table.c. Rows
 * are read by stats.c, ctl_opt.c and doc/manual.c.
 */
#pragma once

#include "conf/conf_range.h"
#include "util/compiler.h"
#include "util/emitter.h"
#include "util/manual.h"

/*
 * The type of a row's variable, which decides how a value is read and shown. Those up to CONF_TEXT
 * have the numbers of the emitter's types, and so of the types of leaves (ctl/node.h).
 */
typedef enum {
	CONF_BOOL = emitter_type_bool, /* bool; true or false */
	CONF_UNSIGNED = emitter_type_unsigned,
	/* fxp_t: decimal ratio, stored in 16.16 fixed point like its min and max */
	CONF_FXP = emitter_type_uint32,
	CONF_U64 = emitter_type_uint64,
	CONF_SIZE = emitter_type_size,
	CONF_SSIZE = emitter_type_ssize,
	CONF_I64 = emitter_type_int64,
	/* const char *: copied to row->room, at most row->max bytes with the NUL */
	CONF_TEXT = emitter_type_string,
	CONF_WORD,     /* const char *: one of row->words */
	CONF_ENUM,     /* unsigned: index into row->words */
	CONF_LETTERS,  /* char[]: letters of row->words[0], each at most once; later ones are added */
	CONF_CUSTOM    /* row->parse reads it; it is not shown */
} conf_type_t;

/* Flags of a row. */
enum {
	/* an integer below min becomes min; without the flag it is refused as out of range */
	CONF_CLIP_MIN = 1 << 0,
	CONF_CLIP_MAX = 1 << 1, /* the same for an integer above max */
	CONF_NODE = 1 << 2,     /* readable as opt.<key> */
	CONF_PRINT = 1 << 3,    /* shown by malloc_stats_print */
	CONF_PREFIX_KEY = 1 << 4,   /* the key may be abbreviated; the first such row matches */
	CONF_PREFIX_WORD = 1 << 5,  /* the value may be abbreviated */
	CONF_SUFFIX = 1 << 6,   /* K, M, G multiply by powers of 1024 */
	CONF_STRICT = 1 << 7,   /* the message about an out-of-range value says that it is invalid */
	CONF_OCTAL = 1 << 8,    /* a file mode, always octal */
	CONF_RANGES = 1 << 9,   /* custom: lo-hi:n items; errors have a message of their own */
	CONF_RATIO = 1 << 10,   /* custom: a decimal number, limits in 16.16 fixed point */
	CONF_ABSOLUTE = 1 << 11, /* text: an absolute file name, or empty */
	CONF_FILE_PREFIX = 1 << 12, /* text: file names begin with it */
	CONF_NAMES = 1 << 13,   /* custom: names joined by | */
	/*
	 * Each option that jemalloc does not have has one of these two: doc/STABILITY.md says what they
	 * promise, the manual shows them, test/demo/manual.t asks for them. A new row begins as
	 * CONF_EXPERIMENTAL.
	 */
	CONF_STABLE = 1 << 14,
	CONF_EXPERIMENTAL = 1 << 15,
	CONF_PROF_MORE = 1 << 16, /* a given value sets opt_prof_more (prof_opt.h) */
};
#define CONF_CLIP (CONF_CLIP_MIN | CONF_CLIP_MAX)
#define CONF_SHOWN (CONF_NODE | CONF_PRINT)

/* What a row needs: the part of the library without which its key is refused as an unknown one. */
typedef enum {
	CONF_HERE,          /* nothing: always available */
	CONF_NEEDS_FILL,
	CONF_NEEDS_UTRACE,
	CONF_NEEDS_XMALLOC,
	CONF_NEEDS_PROF,
	CONF_NEEDS_PROBES,
	CONF_NEEDS_CXX,
	CONF_NEEDS_UAF,
	CONF_NEEDS_LOG,
	/* a key that jemalloc has removed; reported, but never counted as an error */
	CONF_RETIRED,
	CONF_NFEATURES
} conf_feature_t;

struct conf_row_s;

/*
 * Reads value[0..len), which a NUL or a comma follows. 0; EINVAL (bad, also a ratio out of range)
 * or ERANGE (a number out of range).
 */
typedef int conf_parse_fn_t(const struct conf_row_s *row, const char *value, size_t len);

typedef struct conf_row_s {
	const char *key;
	const char *help;   /* text for hints and the manual */
	void *addr;         /* the variable; NULL: the row has none */
	conf_parse_fn_t *parse; /* NULL: read by type; may call conf_store() itself */
	union { /* one pointer only: a process touches the pages of this table at its start */
		const char *const *words; /* CONF_WORD, CONF_ENUM, CONF_LETTERS: ends with NULL; for
		                             letters one string; a word with a blank is only shown */
		conf_range_set_t *set; /* CONF_RANGES: receives each item */
		char *room;            /* CONF_TEXT: keeps a value that was given */
	};
	const char *live;   /* mallctl node of the present value, where that can change at run time */
	int64_t min;        /* least number, in the unit in which it is written; of ratios 16.16 */
	uint64_t max;       /* greatest value; of a text or letters: bytes, with the NUL */
	uint8_t type;       /* conf_type_t */
	uint8_t feature;    /* conf_feature_t */
	uint32_t flags;     /* CONF_CLIP_MIN and so on */
	MANUAL_MEMBER(initially) /* the default in words, if the variable does not show it */
} conf_row_t;

/*
 * Stores value[0..len) according to the row's type, which is not CONF_CUSTOM. Returns 0; EINVAL or
 * ERANGE, and nothing is changed. A NUL or a comma follows the value.
 */
int conf_store(const conf_row_t *row, const char *value, size_t len);

/*
 * Whether word i of the row exists and can be chosen. Words with a blank describe a result of boot:
 * they are shown, but cannot be chosen.
 */
bool conf_is_choice(const conf_row_t *row, size_t i);
