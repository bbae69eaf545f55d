/*
 * A heap profile (heap_v2, as the library writes it) becomes a profile.proto of pprof, gzipped.
 * What is read comes from a process that may lie in each byte: all is bounded, nothing is believed.
 * Names come from tables that another process makes (names/names.h). Invariant: a profile belongs
 * to one thread at a time; different profiles may be worked on at the same time. Callers: the
 * handlers of /debug/pprof/, test/agent/convert.c, the fuzz targets.
 */
#pragma once
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	PPROF_TEXT_MAX = 64 << 20, /* bytes of a heap_v2 text */
	PPROF_DEPTH_MAX = 4096,    /* frames of a stack; what is deeper is cut */
};

/* Options of one conversion; what is 0 or NULL has its default. */
struct pprof_request {
	const char *default_type; /* a sample type; NULL: "inuse_space" */
	const char *cache_dir;    /* of tables of names; NULL: they are kept in memory */
	pid_t pid;                /* whose root (/proc/PID/root) is searched for objects; 0: no names */
	/* path of jeprof-symbolize; NULL: beside this program, else $PATH's */
	const char *symbolizer;
	uint64_t cache_bytes;     /* that all tables may take; 0: 256 MiB on disk, 64 MiB in memory */
	bool use_debuginfod;      /* asks the servers of $DEBUGINFOD_URLS for what is not found here */
};

/* One parsed heap_v2 text. */
struct pprof_profile;

/*
 * Parses a heap_v2 dump of `len` bytes. 0, or an errno: EFBIG, ENOMEM, EBADMSG (not one, or cut
 * off); then *why is a sentence that stays.
 */
int pprof_parse(const char *text, size_t len, struct pprof_profile **out, const char **why);

/*
 * Takes `before` from `after`, stack by stack. Live counts may become negative. EINVAL if they are
 * not of one process, one session of its profiler and one sampling interval; ENOMEM.
 */
int pprof_subtract(struct pprof_profile *after, const struct pprof_profile *before);

/* Finds names and encodes; *out is freed by the caller. 0 or an errno with its sentence. */
int pprof_encode(struct pprof_profile *, const struct pprof_request *, unsigned char **out,
    size_t *len, const char **why);

void pprof_free(struct pprof_profile *);
