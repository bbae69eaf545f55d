/*
 * Writing one profile: copy the books, then format, then write.
 *
 * The lock here only keeps dumps from each other.  It is held while files are written and so outside
 * the fork gate; no allocating thread ever waits for it: an automatic dump that finds it taken is
 * left out (the dump in progress tells the same story).
 */
#ifndef PROF_DUMP_H
#define PROF_DUMP_H

#include "os/mutex.h"
#include "prof_snap.h"
#include "prof_sys.h"

typedef struct {
	prof_kind_t kind;
	const char *path;        /* explicit; NULL: a name of kind */
	prof_sink_t *sink;       /* not to a file but there; NULL: to a file */
	bool may_wait;           /* for another dump to end */
	bool is_confined;        /* path comes from somebody who may replace profiles only */
	bool is_silent;          /* no message about a failure: the caller gets the errno */
	bool in_handler;         /* of a signal: neither the loader nor the program is called */
	const char *metric;      /* what set it off, NULL: nothing to tell */
	uint64_t metric_value;
	uint64_t begin_ns;       /* of the session that ends; 0: now */
	bool wants_leak;         /* the leak summary is to be printed */
	bool found_leak;         /* out: it was not empty */
	char *told;              /* out (PROF_TEXT_SIZE, or NULL): the path that was written, or what failed and why */
} prof_dump_t;

/* 0 or the errno of the call that failed; EBUSY when another dump runs and may_wait is false. */
int prof_dump(prof_dump_t *d);

/* The calling thread is writing a profile: it is in the program's dump hook. */
bool prof_dump_is_mine(void);
/* Of the session that runs, or the last one; 0: none yet.  Set by prof_session, for the metadata. */
extern atomic_u64_t prof_dump_session_id;
extern atomic_u64_t prof_dump_session_begin_ns;

uint64_t prof_dump_nwritten(void);
uint64_t prof_dump_nerrors(void);
/* Copies; an empty text if there is none. */
void prof_dump_last_error(char *buf, size_t size);
void prof_dump_last_path(char *buf, size_t size);
void prof_dump_mutex_read(mutex_prof_data_t *out);
void prof_dump_mutex_reset(void);
void prof_dump_postfork_child(void);

#endif /* PROF_DUMP_H */
