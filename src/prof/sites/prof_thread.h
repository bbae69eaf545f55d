/*
 * The profiler's record of the calling thread, its name, and its own switch.
 */
#ifndef PROF_THREAD_H
#define PROF_THREAD_H

#include "prof/sites/prof_types.h"
#include "thread/tsd.h"

/* Makes the record of a thread that has none; NULL without memory. */
prof_tdata_t *prof_tdata_make(tsd_t *tsd);

/* The record of the thread, made if it has none; NULL without memory or without a tsd. */
static inline prof_tdata_t *
prof_tdata(tsd_t *tsd) {
	if (unlikely(tsd == NULL)) {
		return NULL;
	}
	return likely(tsd->prof != NULL) ? tsd->prof : prof_tdata_make(tsd);
}

/* Called when a thread ends; the record stays as long as a sample of the thread is alive. */
void prof_thread_cleanup(tsd_t *tsd);

bool prof_thread_active_get(tsd_t *tsd);
int prof_thread_active_set(tsd_t *tsd, bool active);	/* 0, ENOENT, or EAGAIN without memory */
const char *prof_thread_name_get(tsd_t *tsd);		/* "" if it has none */
int prof_thread_name_set(tsd_t *tsd, const char *name);	/* 0, EINVAL, ENOENT or ENOMEM */
/* Copies the system's present name of the thread, for prof_sys_thread_name. */
void prof_thread_name_from_system(prof_tdata_t *td);

/*
 * Calls `read` to fill the calling thread's text buffer number `which` (0 or 1) and returns that
 * buffer; "" without memory.
 */
const char *prof_thread_text(unsigned which, void (*read)(char *, size_t));

#endif /* PROF_THREAD_H */
