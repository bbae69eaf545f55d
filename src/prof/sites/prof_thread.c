/*
 * The profiler's record of the calling thread: creation, end, thread.prof.active, thread.prof.name,
 * and the texts of prof.last_error and prof.last_dump.
 *
 * Invariant: tsd->prof is the only pointer to the record that is used here, and only the thread
 * itself follows it; so the fields `active` and `busy` need no atomics. Locks: none of
 * its own; prof_data.c and meta_alloc() take those of metadata. Called by prof.c and prof.h,
 * ctl_thread.c and, at the end of a thread, tsd; inside the fork gate (os/gate.h).
 */
#include "prof/sites/prof_thread.h"

#include "meta/freepool.h"
#include "os/thread.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_opt.h"
#include "prof/sites/prof_switch.h"

cassert(OS_THREAD_NAME_SIZE <= PROF_THREAD_NAME_MAX);

prof_tdata_t *
prof_tdata_make(tsd_t *tsd) {
	assert(tsd->prof == NULL);
	tsd->prof = prof_data_tdata_new(prof_thread_active_init_get());
	return tsd->prof;
}

void
prof_thread_cleanup(tsd_t *tsd) {
	prof_tdata_t *td = tsd->prof;
	if (td != NULL) {
		assert(!td->busy && atomic_load_b(&td->attached, MO_RELAXED));
		tsd->prof = NULL;
		prof_data_tdata_exit(td);
	}
}

bool
prof_thread_active_get(tsd_t *tsd) {
	prof_tdata_t *td = prof_is_booted() ? prof_tdata(tsd) : NULL;
	return td != NULL && td->active;
}

int
prof_thread_active_set(tsd_t *tsd, bool active) {
	if (!prof_is_booted()) {
		return ENOENT;
	}
	prof_tdata_t *td = prof_tdata(tsd);
	if (td == NULL) {
		return EAGAIN;
	}
	td->active = active;
	return 0;
}

const char *
prof_thread_name_get(tsd_t *tsd) {
	prof_tdata_t *td = prof_is_booted() ? prof_tdata(tsd) : NULL;
	return td == NULL ? "" : td->name.text;
}

static bool
is_name_char(char c) {
	return (c >= ' ' && c <= '~') || c == '\t';
}

int
prof_thread_name_set(tsd_t *tsd, const char *name) {
	if (!prof_is_booted() || opt_prof_sys_thread_name) {
		return ENOENT;
	}
	if (name == NULL) {
		return EINVAL;
	}
	for (const char *c = name; *c != '\0'; c++) {
		if (!is_name_char(*c)) {
			return EINVAL;
		}
	}
	prof_tdata_t *td = prof_tdata(tsd);
	if (td == NULL) {
		return ENOMEM;
	}
	prof_tdata_name_write(td, name);
	return 0;
}

void
prof_thread_name_from_system(prof_tdata_t *td) {
	char name[OS_THREAD_NAME_SIZE];
	os_thread_name_get(name, sizeof(name));
	for (char *c = name; *c != '\0'; c++) {
		if (!is_name_char(*c)) {
			*c = '?'; /* a line break would break the lines of the profile */
		}
	}
	prof_tdata_name_write(td, name);
}

const char *
prof_thread_text(unsigned which, void (*read)(char *, size_t)) {
	prof_tdata_t *td = prof_is_booted() ? prof_tdata(tls_get()->tsd) : NULL;
	if (td == NULL) {
		return "";
	}
	assert(which < ARRAY_LEN(td->texts));
	if (td->texts[which] == NULL) {
		td->texts[which] = meta_alloc(PROF_TEXT_SIZE);
	}
	if (td->texts[which] == NULL) {
		return "";
	}
	read(td->texts[which], PROF_TEXT_SIZE);
	return td->texts[which];
}
