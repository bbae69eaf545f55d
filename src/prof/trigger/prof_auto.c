/*
 * Dumps at an interval of allocated bytes, at a new maximum of mapped memory, on request, and at
 * the end of the process; and the mark for dumps of growth.
 *
 * Invariant: of the kinds interval and gdump at most one dump each is pending, and further ones
 * that cannot be written meanwhile are merged into it. Pending: it could not be written, because
 * another dump was being written. Each heartbeat of any thread (thread/thread_event.h) tries a
 * pending dump once more, also that at which it became pending; exit does not. Locks: none of its
 * own, state is atomic; prof_dump() and prof_mark() take the lock of dumps (prof_dump.c). Called by
 * prof.c (heartbeat, exit, fork), imalloc.c, by pac through its hook, by prof_signal.c for the
 * final profile, and by ctl_prof.c and prof_request.c for dumps on request and the mark.
 */
#include "prof/trigger/prof_auto.h"

#include "os/gate.h"
#include "os/tls.h"
#include "os/witness.h"
#include "prof/file/prof_dump.h"
#include "prof/file/prof_keep.h"
#include "prof/file/prof_log.h"
#include "prof/sites/prof_mark.h"
#include "prof/sites/prof_switch.h"
#include "prof/trigger/prof_trigger.h"
#include "util/assert.h"

atomic_b_t prof_gdump_is_due;

static struct {
	/*
	 * Bytes allocated since an interval passed last, counted only while prof.active is true. An
	 * interval or more only until the thread that reached it has subtracted it.
	 */
	atomic_u64_t interval_bytes;
	/* A dump of this kind came due while another dump was being written. */
	atomic_b_t interval_pending;
	atomic_b_t gdump_pending;
} autos;

/*
 * Leaves one dump pending for a heartbeat of any thread, and counts it as overlapped. auto_retry()
 * takes that count back, so only dumps that were merged into a pending one stay counted.
 */
static void
auto_keep_pending(atomic_b_t *pending) {
	prof_keep_overlap();
	atomic_store_b(pending, true, MO_RELEASE);
}

/*
 * Writes the dump if the switches and limits allow it. Leaves it pending if another one is being
 * written; after any other error it is dropped.
 */
static void
auto_dump(prof_kind_t kind, atomic_b_t *pending) {
	assert(kind == prof_kind_interval || kind == prof_kind_gdump);
	witness_assert_lockless();
	if (prof_trigger_fire(kind, NULL, 0) == EBUSY) {
		auto_keep_pending(pending);
	}
}

/* Retries the pending dump, if there is one. */
static void
auto_retry(prof_kind_t kind, atomic_b_t *pending) {
	if (unlikely(atomic_load_b(pending, MO_RELAXED))
	    && atomic_exchange_b(pending, false, MO_ACQUIRE)) {
		prof_keep_overlap_retry();
		auto_dump(kind, pending);
	}
}

void
prof_gdump_due(void) {
	atomic_store_b(&prof_gdump_is_due, true, MO_RELAXED);
}

void
prof_gdump_write(void) {
	if (unlikely(atomic_load_b(&prof_gdump_is_due, MO_RELAXED))
	    && atomic_exchange_b(&prof_gdump_is_due, false, MO_RELAXED) && prof_gdump_get()) {
		auto_dump(prof_kind_gdump, &autos.gdump_pending);
	}
}

/*
 * Adds bytes to the count while prof.active is true; true if an interval has passed. Several
 * intervals that pass at once count as one.
 */
static bool
interval_try_pass(uint64_t bytes) {
	uint64_t interval = prof_interval_get();
	if (interval == 0 || !prof_switch_is_active()) {
		return false;
	}
	uint64_t sum = atomic_fetch_add_u64(&autos.interval_bytes, bytes, MO_RELAXED) + bytes;
	while (sum >= interval) {
		if (atomic_cas_weak_u64(&autos.interval_bytes, &sum, sum % interval, MO_RELAXED,
			MO_RELAXED)) {
			return true;
		}
	}
	return false;
}

void
prof_auto_heartbeat(uint64_t bytes) {
	if (interval_try_pass(bytes)) {
		auto_dump(prof_kind_interval, &autos.interval_pending);
	}
	auto_retry(prof_kind_interval, &autos.interval_pending);
	prof_gdump_write();
	auto_retry(prof_kind_gdump, &autos.gdump_pending);
}

void
prof_auto_postfork_child(void) {
	atomic_store_b(&autos.interval_pending, false, MO_RELAXED);
	atomic_store_b(&autos.gdump_pending, false, MO_RELAXED);
	atomic_store_b(&prof_gdump_is_due, false, MO_RELAXED);
}

int
prof_mark(bool is_bounded) {
	struct tls_s *t = tls_get();
	if (!prof_is_booted()) {
		return ENOENT;
	}
	uint32_t depth = gate_leave_all(t);
	t->inside++;
	/* Outside the gate, as a dump may take long. */
	bool is_held = prof_dump_try_hold(is_bounded);
	if (is_held) {
		gate_enter(t);
		prof_mark_set();
		gate_exit(t);
		prof_dump_release();
	}
	t->inside--;
	gate_reenter(t, depth);
	return is_held ? 0 : EBUSY;
}

int
prof_mdump(prof_kind_t kind, const char *path) {
	return prof_mdump_told(kind, path, false, NULL);
}

int
prof_mdump_told(prof_kind_t kind, const char *path, bool is_confined, char *told) {
	assert(kind == prof_kind_manual || kind == prof_kind_delta);
	if (told != NULL) {
		told[0] = '\0';
	}
	if (!prof_is_booted()) {
		return ENOENT;
	}
	if (path == NULL && prof_sys_prefix_is_empty()) {
		return EFAULT;
	}
	prof_dump_t d = {.kind = kind, .path = path, .may_wait = true,
	    .is_bounded = told != NULL && !prof_trigger_has_thread_hook(),
	    .is_confined = is_confined && path != NULL, .told = told};
	int err = prof_dump(&d);
	switch (err) {
	/* From prof_dump() these are errors of the file; a mallctl gives them other meanings. */
	case ENOENT:
	case EPERM:
	case EINVAL:
	case EAGAIN:
		return EFAULT;
	default:
		return err;
	}
}

void
prof_final_dump(int signal, bool in_handler, bool *found_leak) {
	assert(signal >= 0 && (signal != 0 || !in_handler));
	if (!prof_is_booted()) {
		return;
	}
	if (signal != 0 && !in_handler && prof_log_is_running()) {
		prof_log_stop();
	}
	if (signal == 0) {
		prof_gdump_write();
	}
	if (prof_sys_prefix_is_empty() || (signal == 0 && !opt_prof_final)) {
		return;
	}
	prof_dump_t d = {
		.kind = prof_kind_final,
		.may_wait = true,
		.is_bounded = signal != 0 && (in_handler || !prof_trigger_has_thread_hook()),
		.is_hook_bounded = signal != 0,
		.metric = signal != 0 ? "signal" : NULL,
		.metric_value = (uint64_t)signal,
		.wants_leak = opt_prof_leak && !in_handler,
		.in_handler = in_handler,
	};
	prof_dump(&d);
	if (found_leak != NULL) {
		*found_leak = d.found_leak;
	}
}
