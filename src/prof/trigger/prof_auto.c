/*
 * Dumps at an interval of allocated bytes, at a new maximum of mapped memory, on request, and at
 * the end of the process; and the mark for dumps of growth.
 *
 * What cannot be written because another dump is being written stays pending (prof_trigger.h), but
 * exit does not try it again. Locks: none of its own, state is atomic; prof_dump() and prof_mark()
 * take the lock of dumps (prof_dump.c). Called by prof.c (heartbeat, exit, fork), imalloc.c, by pac
 * through its hook, by prof_signal.c for the final profile, and by ctl_prof.c and prof_request.c
 * for dumps on request and the mark.
 */
#include "prof/trigger/prof_auto.h"

#include "os/gate.h"
#include "os/tls.h"
#include "prof/file/prof_dump.h"
#include "prof/file/prof_log.h"
#include "prof/sites/prof_mark.h"
#include "prof/sites/prof_switch.h"
#include "prof/trigger/prof_trigger.h"

atomic_b_t prof_gdump_is_due;

/* Bytes allocated since an interval passed last, counted only while prof.active is true. */
static atomic_u64_t interval_bytes;

void
prof_gdump_due(void) {
	atomic_store_b(&prof_gdump_is_due, true, MO_RELAXED);
}

void
prof_gdump_write(void) {
	if (unlikely(atomic_load_b(&prof_gdump_is_due, MO_RELAXED))
	    && atomic_exchange_b(&prof_gdump_is_due, false, MO_RELAXED) && prof_gdump_get()) {
		prof_trigger_due(prof_kind_gdump, 1);
	}
}

void
prof_auto_heartbeat(uint64_t bytes) {
	uint64_t interval = prof_interval_get();
	if (interval != 0 && prof_switch_is_active()
	    && atomic_sum_try_reach(&interval_bytes, bytes, interval) != 0) {
		prof_trigger_due(prof_kind_interval, 1);
	}
	prof_gdump_write();
}

void
prof_auto_postfork_child(void) {
	atomic_store_b(&prof_gdump_is_due, false, MO_RELAXED);
}

int
prof_mark(bool is_bounded) {
	struct tls_s *t = tls_get();
	if (!prof_is_booted()) {
		return ENOENT;
	}
	uint32_t depth = gate_step_out();
	/* Outside the gate, as a dump may take long. */
	bool is_held = prof_dump_try_hold(is_bounded);
	if (is_held) {
		gate_enter(t);
		prof_mark_set();
		gate_exit(t);
		prof_dump_release();
	}
	gate_step_in(depth);
	return is_held ? 0 : EBUSY;
}

int
prof_mdump(prof_kind_t kind, const char *path, bool is_confined, char *told) {
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
