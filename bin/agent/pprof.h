/*
 * Converts a heap profile (heap_v2, as the library writes it) to pprof's profile.proto, gzipped, or
 * to OTLP: pprof_parse(), optionally pprof_subtract(), then pprof_encode() or otlp_encode(). The
 * input comes from a process that may have forged any byte of it: all sizes are bounded and all
 * values checked. Names of functions come from jeprof-symbolize, another process, so that a forged
 * object harms only that (names/names.h). Invariant: a profile belongs to one thread at a time;
 * threads may work on different profiles at the same time. Called by scrape.c, dead_profile.c,
 * test/agent/convert.c and a fuzz target.
 */
#pragma once
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	PPROF_TEXT_MAX = 64 << 20, /* bytes of a heap_v2 text */
	PPROF_DEPTH_MAX = 4096,    /* addresses of a stack; those behind them are cut off */
};

/* Options of one conversion; 0 and NULL stand for the defaults. */
struct pprof_request {
	/* sample type that tools show at first (pprof only); NULL or unknown: "inuse_space" */
	const char *default_type;
	const char *cache_dir;    /* of tables of names; NULL: they are kept in memory */
	/* id of the process, or of a thread, whose root (/proc/PID/root) is searched for objects */
	pid_t pid;
	const char *root;   /* with pid 0: the directory that is searched; NULL then: no names */
	/* path of jeprof-symbolize; NULL: beside this program, else $PATH's */
	const char *symbolizer;
	uint64_t cache_bytes;     /* all tables together; 0: 256 MiB in cache_dir, 64 MiB in memory */
	bool has_ages;            /* live bytes are told by age, if the text tells ages (pprof only) */
	bool use_debuginfod;      /* debug files may come from the servers of $DEBUGINFOD_URLS */
};

/* One parsed heap_v2 text. */
struct pprof_profile;

/*
 * Parses a heap_v2 dump of `len` bytes into *out, which pprof_free() frees; the text may be freed
 * before that. 0, or an errno: EFBIG, ENOMEM, EBADMSG (not such a dump, or an incomplete one); then
 * *out is NULL, and *why, a constant, is the reason. After success *why means nothing.
 */
int pprof_parse(const char *text, size_t len, struct pprof_profile **out, const char **why);

/*
 * Subtracts `before` from `after`, by stack, thread and label. Live counts may become negative,
 * those of allocations become 0 instead; the ages are dropped. 0; EINVAL, without a change, if the
 * profiles differ in process, session or the sampling interval that the user set (not that of a
 * budget); ESTALE, without a change, if the program has made the library count anew in between
 * (prof.reset), so that what was live before is in `before` alone; or ENOMEM, or EFBIG (both
 * together are too large), with `after` fit to be freed only.
 */
int pprof_subtract(struct pprof_profile *after, const struct pprof_profile *before);

/*
 * Finds the names, for which it runs jeprof-symbolize for at most about 23 s, and encodes the
 * profile, which it does not change, into *out, which the caller frees. 0, or ENOMEM or EFBIG (it
 * would take more than 256 MiB before gzip) with *why as above.
 * Missing names are no failure.
 */
int pprof_encode(const struct pprof_profile *, const struct pprof_request *, unsigned char **out,
    size_t *len, const char **why);

/* An attribute of the process: a text, or with text NULL a number. */
struct otlp_attribute {
	const char *key, *text;
	int64_t number;
};

/* The process that a profile is of, as OTLP describes it. */
struct otlp_resource {
	const struct otlp_attribute *attributes;
	size_t count;
	const char *version; /* of the program that encodes; NULL: not told */
};

/*
 * The same as pprof_encode(), but as an ExportProfilesServiceRequest of OTLP, gzipped if is_packed
 * (otlp_encode.c).
 */
int otlp_encode(const struct pprof_profile *, const struct pprof_request *,
    const struct otlp_resource *, bool is_packed, unsigned char **out, size_t *len,
    const char **why);

void pprof_free(struct pprof_profile *); /* does nothing with NULL */
