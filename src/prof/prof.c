/*
 * The profiler's entry points: boot, recording and forgetting a sampled object, the heartbeat, the
 * final dump at exit, fork, and lock statistics.
 *
 * Invariant: rec->tctx is set after the object was added to the count in the site tables, and
 * cleared before it is subtracted; so while it is non-NULL, that count exists and contains the
 * object. Locks: none of its own; the modules below (site tables, names and files, dumps, log,
 * recent list) have theirs, and none of them is held while this file calls a hook of the user.
 * Called by imalloc and irealloc (samples), thread_event (heartbeats, by a hook that jemalloc_init
 * sets), jemalloc_init (boot), the C library at exit (prof_fdump), jemalloc_fork, ctl_arena
 * (samples of an arena that is reset), ctl_prof (texts) and ctl_snapshot (lock statistics).
 */
#include "prof/prof.h"

#include <stdlib.h>
#include <unistd.h>

#include "arena/slab.h"
#include "meta/recs.h"
#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/nstime.h"
#include "os/probe.h"
#include "os/room_group.h"
#include "os/sys.h"
#include "os/witness.h"
#include "prof/control/prof_control.h"
#include "prof/control/prof_ctl_dir.h"
#include "prof/control/prof_listen.h"
#include "prof/control/prof_session.h"
#include "prof/file/prof_box.h"
#include "prof/file/prof_course.h"
#include "prof/file/prof_dump.h"
#include "prof/file/prof_earlier.h"
#include "prof/file/prof_keep.h"
#include "prof/sites/prof_backtrace.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_label.h"
#include "prof/sites/prof_root.h"
#include "prof/sites/prof_sample.h"
#include "prof/trigger/prof_budget.h"
#include "prof/trigger/prof_signal.h"
#include "thread/tsd.h"
#include "unwind/module_history.h"
#include "unwind/objects.h"

/* ---------------------------------------------------------------- boot */

/* The name of an option that was given and has no effect before something is sampled, or NULL. */
static const char *
boot_idle_option(void) {
	bool is_any = opt_prof_highwater_percent[0] != 0;
	for (unsigned i = 0; i < prof_threshold_n; i++) {
		is_any |= opt_prof_thresholds[i] != 0;
	}
	return opt_prof_final ? "prof_final" : opt_prof_prefix_given ? "prof_prefix"
	    : is_any ? "a threshold" : opt_prof_final_signals ? "prof_final_signals"
	    : opt_prof_blackbox != prof_box_false ? "prof_blackbox" : NULL;
}

/*
 * Prints one line each if prof_leak has no effect without prof_final, if an option has none because
 * nothing will be sampled, and if the directory of prof_prefix does not exist. These are no
 * complaints for abort_conf.
 */
static void
boot_notice(void) {
	if (opt_prof_leak && !opt_prof_leak_error && !opt_prof_final) {
		malloc_write("<jemalloc>: prof_leak is set w/o prof_final: no leaks are reported.\n");
	}
	/* If control from outside is configured, waiting for a session is the normal case. */
	bool is_prepared = opt_prof || opt_prof_ctl_fd || opt_prof_ctl_dir[0] != '\0';
	const char *idle = boot_idle_option();
	if (!is_prepared && idle != NULL) {
		malloc_printf("<jemalloc>: %s without prof:true: nothing is sampled until a session is "
		    "started (jeprofctl start).\n", idle);
	}
	if (opt_prof_prefix_given
	    && !prof_sys_prefix_has_dir(opt_prof_prefix, strlen(opt_prof_prefix))) {
		malloc_printf("<jemalloc>: prof_prefix:%.*s: there is no such directory, so no profile "
		    "can be written.\n", 900, opt_prof_prefix);
	}
}

int
prof_boot_conf(void) {
	int complaints = 0;
	opt_prof_leak |= opt_prof_leak_error;
	if (opt_prof_leak && !opt_prof) {
		opt_prof = true;
		opt_prof_gdump = false;
		opt_lg_prof_interval = -1;
	}
	if (opt_prof_leak_error && !opt_prof_final) {
		malloc_write("<jemalloc>: prof_leak_error is set w/o prof_final.\n");
		complaints++;
	}
	boot_notice();
	if (opt_prof) {
		int err = prof_sys_prefix_set(opt_prof_prefix);
		assert(err == 0); /* conf refuses a prefix that is too long */
		(void)err;
		prof_sys_exe_boot();
	}
	objects_boot();
	prof_budget_boot();
	if (opt_prof_more || opt_lg_prof_interval >= 0) {
		prof_keep_boot();
		prof_trigger_boot();
	}
	prof_control_boot();
	return complaints;
}

void
prof_boot_exit(void) {
	struct tls_s *t = tls_get();
	t->inside++;
	bool writes = opt_prof_final || opt_prof_final_signals || opt_prof_gdump;
	if (writes && atexit(prof_fdump) != 0) {
		malloc_write("<jemalloc>: Error in atexit()\n");
		if (prof_abort) {
			abort();
		}
	}
	t->inside--;
}

void
prof_boot_box(void) {
	struct tls_s *t = tls_get();
	char name[16];
	if (opt_prof_blackbox == prof_box_false || !prof_is_booted()) {
		return;
	}
	t->inside++;
	prof_earlier_end();
	int err = prof_box_open(opt_prof_blackbox, opt_prof_blackbox_size, false);
	if (prof_box_should_report(err)) {
		malloc_printf("<jemalloc>: prof_blackbox: no box could be opened: %s\n",
		    prof_errno_name(err, name));
	}
	t->inside--;
}

void
prof_boot_constructed(void) {
	if (prof_is_booted()) {
		struct tls_s *t = tls_get();
		t->inside++;
		prof_backtrace_prepare();
		prof_box_record_objects();
		t->inside--;
	}
}

/* ---------------------------------------------------------------- sampled objects */

/* Frames of a stack that the probe shows to tracers; the kernel reads no more. */
#define PROBE_FRAMES 127u

/*
 * Fires the probe `alloc` with the stack as a chain of frames. req: requested bytes of the object;
 * bytes: the estimated bytes that the sample stands for.
 */
static NOINLINE COLD void
sample_tell_tracer(const prof_bt_t *bt, const void *ptr, size_t req, uint64_t bytes) {
	struct probe_frame_s frames[PROBE_FRAMES + 1];
	unsigned n = bt->len < PROBE_FRAMES ? bt->len : PROBE_FRAMES;
	frames[n] = (struct probe_frame_s){NULL, NULL};
	for (unsigned i = n; i > 0; i--) {
		frames[i - 1] = (struct probe_frame_s){&frames[i], bt->vec[i - 1]};
	}
	probe_alloc_fire(ptr, req, bytes, frames);
}

/*
 * Adds the sample to its count and completes its record; then tells those who follow samples:
 * prof.stats, the recent list, tracers and the user's hook. Without memory for the count nothing is
 * done.
 */
ALWAYS_INLINE void
sample_record(prof_tdata_t *td, const prof_bt_t *bt, uint64_t rate, const void *ptr,
    sample_rec_t *rec, size_t req, size_t usize) {
	assert(req <= usize && rate > 0 && prof_is_booted());
	uint64_t weight = prof_weight(usize, rate);
	prof_cnt_t *c = prof_data_add(td, bt, rate, usize, weight);
	if (c == NULL) {
		return;
	}
	uint32_t label = tls_get()->label;
	if (unlikely(label != 0)) {
		prof_label_show(label);
	}
	rec->req_size = req;
	recs_begin(rec, c, weight, prof_log_clock(), sample_sized(usize, label));
	if (unlikely(opt_prof_stats)) {
		prof_stats_inc(sz_s2i(usize), req);
	}
	if (unlikely(prof_recent_is_on())) {
		prof_recent_alloc(rec, c, usize);
	}
	if (probe_alloc_is_attached()) {
		sample_tell_tracer(bt, ptr, req, prof_weighted_bytes(usize, weight));
	}
	prof_sample_hook_t hook = prof_sample_hook_get();
	if (unlikely(hook != NULL)) {
		uint32_t depth = gate_step_out();
		hook(ptr, req, bt->vec, bt->len, usize);
		gate_step_in(depth);
	}
}

/*
 * Takes the stack of a sample and records it. False: there is no stack, or no memory for it or for
 * the thread's record. True also if there was no memory for the count, so that nothing is recorded.
 */
ALWAYS_INLINE bool
sample_alloc(tsd_t *tsd, void *ptr, sample_rec_t *rec, uint64_t rate, size_t req, size_t usize,
    const struct unwind_where_s *where) {
	prof_tdata_t *td = prof_tdata(tsd);
	const prof_bt_t *bt = unlikely(td == NULL) ? NULL : prof_backtrace(td, where);
	if (unlikely(bt == NULL)) {
		return false;
	}
	if (unlikely(opt_prof_sys_thread_name)) {
		prof_thread_name_from_system(td);
	}
	sample_record(td, bt, rate, ptr, rec, req, usize);
	prof_backtrace_done(td);
	return true;
}

/* sample_alloc(), whose time the budget is told. */
static NOINLINE void
sample_alloc_charged(tsd_t *tsd, void *ptr, sample_rec_t *rec, uint64_t rate, size_t req,
    size_t usize, const struct unwind_where_s *where) {
	uint64_t begun = prof_budget_sample_begin();
	if (sample_alloc(tsd, ptr, rec, rate, req, usize, where)) {
		prof_budget_sample_end(begun);
	}
}

void
prof_sample_alloc(tsd_t *tsd, void *ptr, sample_rec_t *rec, uint64_t rate, size_t req, size_t usize,
    const struct unwind_where_s *where) {
	assert(rec->tctx == NULL);
	/* What only a tracer wants is no part of the budget. */
	if (unlikely(prof_budget_is_on()) && prof_switch_is_active()) {
		sample_alloc_charged(tsd, ptr, rec, rate, req, usize, where);
	} else {
		sample_alloc(tsd, ptr, rec, rate, req, usize, where);
	}
}

bool
prof_free_names_thread(void) {
	return prof_log_is_running() || prof_recent_is_on();
}

/* Whether sample_free_tell() has something to do. */
static bool
sample_free_is_told(const sample_rec_t *rec) {
	return prof_log_is_running() || __atomic_load_n(&rec->link, MO_ACQUIRE) != NULL
	    || opt_prof_stats;
}

/* Adds the sample to the lifetimes of its site; its count keeps them. */
static NOINLINE void
sample_life(prof_cnt_t *c, const sample_rec_t *rec, size_t usize) {
	prof_data_add_life(c, usize, rec->weight, rec->time_ns, prof_log_clock());
}

/* The count of the place where the thread of td frees, with a pin; NULL: it is not known. */
static prof_cnt_t *
free_note(prof_tdata_t *td) {
	const prof_bt_t *bt = td == NULL ? NULL : prof_backtrace_here(td);
	prof_cnt_t *freed = bt == NULL ? NULL : prof_data_note(td, bt);
	if (bt != NULL) {
		prof_backtrace_done(td);
	}
	return freed;
}

/* Tells the log, the recent list and the statistics of the free of a sample of count c. */
static NOINLINE void
sample_free_tell(tsd_t *tsd, prof_cnt_t *c, sample_rec_t *rec, size_t usize) {
	bool is_recent = __atomic_load_n(&rec->link, MO_ACQUIRE) != NULL;
	bool is_logged = prof_log_is_running();
	prof_cnt_t *freed = is_recent || is_logged ? free_note(prof_tdata(tsd)) : NULL;
	if (is_logged && freed != NULL) {
		prof_log_free(c, freed, rec->time_ns, usize);
	}
	if (is_recent) {
		prof_recent_free(rec, freed);
	}
	if (freed != NULL) {
		prof_data_unpin(freed);
	}
	if (opt_prof_stats) {
		prof_stats_dec(sz_s2i(usize), rec->req_size);
	}
}

void
prof_sample_free(tsd_t *tsd, const void *ptr, sample_rec_t *rec, size_t usize) {
	prof_cnt_t *c = rec->tctx;
	if (c == NULL) {
		return;
	}
	if (unlikely(sample_free_is_told(rec))) {
		sample_free_tell(tsd, c, rec, usize);
	}
	assert(rec->link == NULL && rec->weight >= PROF_WEIGHT_ONE);
	if (unlikely(prof_cnt_has_accum(c))) {
		sample_life(c, rec, usize);
	}
	recs_end(rec);
	prof_data_sub(c, usize, rec->weight);
	if (probe_free_is_attached()) {
		probe_free_fire(ptr);
	}
	/*
	 * Last, because it leaves the gate: a child forked in the hook sees the site tables without
	 * this object.
	 */
	prof_sample_free_hook_t hook = prof_sample_free_hook_get();
	if (unlikely(hook != NULL)) {
		uint32_t depth = gate_step_out();
		hook(ptr, usize);
		gate_step_in(depth);
	}
}

/* ---------------------------------------------------------------- dumps */

/*
 * Tells the budget how long the thread has worked since its last heartbeat. A thread without a
 * record has had no sample, and its work does not count.
 */
static COLD void
budget_heartbeat(const tsd_t *tsd) {
	prof_tdata_t *td = tsd->prof;
	if (td != NULL && prof_switch_is_active()) {
		uint64_t last = td->beat_ns;
		td->beat_ns = tsd->beat_ns;
		prof_budget_heartbeat(last == 0 ? 0 : nstime_ns_between(last, tsd->beat_ns));
	}
}

void
prof_heartbeat(tsd_t *tsd, uint64_t bytes) {
	assert(tls_get()->inside == 1 && tls_get()->gate_depth == 1);
	if (!prof_switch_is_ready()) {
		return;
	}
	prof_auto_heartbeat(bytes);
	prof_trigger_heartbeat(bytes);
	if (prof_budget_is_on()) {
		budget_heartbeat(tsd);
	}
	if (!prof_control_has_thread()) {
		prof_course_tick(tsd->beat_ns, false);
	}
	prof_backtrace_upkeep();
}

void
prof_fdump(void) {
	bool found_leak = false;
	if (gate_is_lost()) {
		return;
	}
	prof_signal_exit_begin();
	prof_final_dump(0, false, &found_leak);
	prof_signal_exit_end();
	if (found_leak && opt_prof_leak_error) {
		malloc_write("<jemalloc>: Exiting with error code because memory leaks were detected\n");
		sys_exit_from_handler(1);
	}
}

const char *
prof_last_error(void) {
	return prof_thread_text(0, prof_dump_last_error);
}

const char *
prof_last_dump(void) {
	return prof_thread_text(1, prof_dump_last_path);
}

/* ---------------------------------------------------------------- fork, locks */

/*
 * In a forked child: puts right what another thread may have been doing outside the gate even
 * before there were site tables, as for the start of a first session or for a tracer. Nothing is
 * written without need, so that pages stay shared with the parent.
 */
static void
start_postfork_child(void) {
	sys_modules_postfork_child();
	if (prof_is_booted() || prof_backtrace_has_begun()) {
		prof_backtrace_postfork_child();
		module_history_postfork_child();
	}
	prof_listen_postfork_child();
	room_group_postfork_child();
}

/* The handlers of a forked child for what exists only with the site tables. */
static void
tables_postfork_child(void) {
	struct tls_s *t = tls_get();
	prof_dump_postfork_child();
	prof_recent_postfork_child();
	prof_log_postfork_child(opt_prof_fork != prof_fork_idle);
	prof_root_postfork_child();
	prof_course_postfork_child();
	prof_data_postfork_child(t->tsd != NULL ? t->tsd->prof : NULL);
	prof_sys_postfork_child();
	prof_keep_postfork_child();
	prof_trigger_postfork_child();
	prof_auto_postfork_child();
}

/* Short locks are free in the child because the gate was closed; the long ones are made new. */
void
prof_postfork_child(void) {
	prof_control_postfork_begin();
	start_postfork_child();
	if (prof_is_booted()) {
		tables_postfork_child();
	}
	prof_session_postfork_child();
	if (prof_is_booted()) {
		prof_box_postfork_child(prof_switch_is_active());
	}
	prof_control_postfork_child();
}

/* ---------------------------------------------------------------- lock statistics */

static void
mutex_add(mutex_t *m, mutex_prof_data_t *to) {
	mutex_prof_data_t one;
	mutex_prof_read(&one, m);
	mutex_prof_merge(to, &one);
}

static void
mutex_clear(mutex_t *m, mutex_prof_data_t *of UNUSED) {
	mutex_prof_reset(m);
}

/* Until then the locks of the site tables may not have been initialised. */
static void
mutexes_visit_if_booted(mutex_visit_t *visit, prof_mutexes_t *of) {
	if (prof_is_booted()) {
		prof_data_visit_mutexes(visit, &of->sites, &of->thds_data);
		prof_dump_visit_mutex(visit, &of->dump);
		prof_recent_visit_mutexes(visit, &of->recent_alloc, &of->recent_dump);
	}
}

void
prof_mutex_stats_read(prof_mutexes_t *out) {
	memset(out, 0, sizeof(*out));
	mutexes_visit_if_booted(mutex_add, out);
}

void
prof_mutex_stats_reset(void) {
	prof_mutexes_t none;
	mutexes_visit_if_booted(mutex_clear, &none);
}
