/*
 * The profiler's view of the calling thread: its record in the books, its name and its own switch.
 */
#ifndef PROF_THREAD_H
#define PROF_THREAD_H

#include "prof_types.h"
#include "thread/tsd.h"

prof_tdata_t *prof_tdata_make(tsd_t *tsd);

/* The record of a thread, made if need be; NULL: no memory, or a thread without tsd. */
static inline prof_tdata_t *
prof_tdata(tsd_t *tsd) {
	if (unlikely(tsd == NULL)) {
		return NULL;
	}
	return likely(tsd->prof != NULL) ? tsd->prof : prof_tdata_make(tsd);
}

/* Thread exit: the record stays as long as something it sampled lives. */
void prof_thread_cleanup(tsd_t *tsd);

bool prof_thread_active_get(tsd_t *tsd);
int prof_thread_active_set(tsd_t *tsd, bool active);	/* ENOENT, EAGAIN */
const char *prof_thread_name_get(tsd_t *tsd);		/* "" if none */
int prof_thread_name_set(tsd_t *tsd, const char *name);	/* EINVAL, ENOENT, ENOMEM */
/* prof_sys_thread_name: the name that the system has now. */
void prof_thread_name_from_system(prof_tdata_t *td);

/* Has `read` put a text into memory of the calling thread (which: 0 or 1); "" without memory. */
const char *prof_thread_text(unsigned which, void (*read)(char *, size_t));

#endif /* PROF_THREAD_H */
