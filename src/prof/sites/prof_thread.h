/*
 * The profiler's record of the calling thread: its name (thread.prof.name), its own switch
 * (thread.prof.active), and the texts that were returned to it. The tsd is that of the calling
 * thread, or NULL. Called inside the gate (os/gate.h: fork waits until no thread is inside), by
 * prof.c and prof.h for samples, frees and texts, by ctl_thread.c and, at the end of a thread, by
 * tsd. No locks of its own; to make and end a record takes locks of metadata (meta/region.h,
 * meta/freepool.h), and only tries `pass` (prof_data.h).
 */
#pragma once

#include "prof/sites/prof_types.h"
#include "thread/tsd.h"

/* Makes the record of a thread that has none; NULL without memory. For prof_tdata(). */
prof_tdata_t *prof_tdata_make(tsd_t *tsd);

/* The record of the thread, made if it has none; NULL without memory or without a tsd. */
static inline prof_tdata_t *
prof_tdata(tsd_t *tsd) {
	if (unlikely(tsd == NULL)) {
		return NULL;
	}
	return likely(tsd->prof != NULL) ? tsd->prof : prof_tdata_make(tsd);
}

/*
 * Called when a thread ends, through tsd_cleanups (thread/tsd.h), which jemalloc_init.c sets. The
 * record stays as long as a prof_cnt_t (the count of one site in one thread) refers to it.
 */
void prof_thread_cleanup(tsd_t *tsd);

/*
 * thread.prof.active and thread.prof.name. Until the profiler is booted, reads return false or ""
 * and writes ENOENT. Without memory for the record, or without a tsd, reads return the same, a
 * write of `active` EAGAIN and of the name ENOMEM. A name may have printable ASCII characters and
 * tabs; any other character is EINVAL, and so is NULL. A name longer than PROF_THREAD_NAME_MAX - 1
 * bytes is cut. With prof_sys_thread_name a write of a name is ENOENT. prof_thread_name_get()
 * returns no copy but the text in the record, which a later write changes and which may be freed
 * when the thread has ended.
 */
bool prof_thread_active_get(tsd_t *tsd);
int prof_thread_active_set(tsd_t *tsd, bool active);	/* 0, ENOENT or EAGAIN */
const char *prof_thread_name_get(tsd_t *tsd);		/* "" if it has none */
int prof_thread_name_set(tsd_t *tsd, const char *name);	/* 0, EINVAL, ENOENT or ENOMEM */
/* Copies the system's present name of the calling thread; '?' for what a name may not have. */
void prof_thread_name_from_system(prof_tdata_t *td);

/*
 * Calls `read` to fill the calling thread's text buffer number `which` (0 or 1), of PROF_TEXT_SIZE
 * bytes, and returns that buffer, which is valid until the next such call and the end of the
 * thread; "" without memory or a tsd, and until the profiler is booted.
 */
const char *prof_thread_text(unsigned which, void (*read)(char *, size_t));
