/*
 * The user's hooks as four atomic pointers (prof_hook.h).
 *
 * Invariant: a pointer is loaded once per call, so a hook that is replaced meanwhile is called or
 * not, but never mixed. Locks: none, and none is held while a hook runs. Called by prof.c,
 * prof_backtrace.c and prof_dump.c, and by ctl_experimental.c to set them.
 */
#include "prof/sites/prof_hook.h"

#include "os/gate.h"
#include "unwind/unwind.h"
#include "util/assert.h"
#include "util/atomic.h"

static void
backtrace_default(void **vec, unsigned *len, unsigned max) {
	*len = unwind(vec, max);
}

static struct {
	prof_backtrace_hook_t backtrace;
	prof_dump_hook_t dump;
	prof_sample_hook_t sample;
	prof_sample_free_hook_t sample_free;
} hooks = {.backtrace = backtrace_default};

prof_backtrace_hook_t
prof_backtrace_hook_get(void) {
	return __atomic_load_n(&hooks.backtrace, MO_ACQUIRE);
}

int
prof_backtrace_hook_set(prof_backtrace_hook_t hook) {
	if (hook == NULL) {
		return EINVAL;
	}
	__atomic_store_n(&hooks.backtrace, hook, MO_RELEASE);
	return 0;
}

prof_dump_hook_t
prof_dump_hook_get(void) {
	return __atomic_load_n(&hooks.dump, MO_ACQUIRE);
}

void
prof_dump_hook_set(prof_dump_hook_t hook) {
	__atomic_store_n(&hooks.dump, hook, MO_RELEASE);
}

prof_sample_hook_t
prof_sample_hook_get(void) {
	return __atomic_load_n(&hooks.sample, MO_ACQUIRE);
}

void
prof_sample_hook_set(prof_sample_hook_t hook) {
	__atomic_store_n(&hooks.sample, hook, MO_RELEASE);
}

prof_sample_free_hook_t
prof_sample_free_hook_get(void) {
	return __atomic_load_n(&hooks.sample_free, MO_ACQUIRE);
}

void
prof_sample_free_hook_set(prof_sample_free_hook_t hook) {
	__atomic_store_n(&hooks.sample_free, hook, MO_RELEASE);
}

bool
prof_hook_has_backtrace(void) {
	return prof_backtrace_hook_get() != backtrace_default;
}

/* The user's function may wait for something, so it runs outside the fork gate. */
void
prof_hook_backtrace(void **vec, unsigned *len, unsigned max) {
	prof_backtrace_hook_t hook = prof_backtrace_hook_get();
	struct tls_s *t = tls_get();
	uint32_t depth = gate_leave_all(t);
	t->inside++;
	hook(vec, len, max);
	assert(t == tls_get() && t->inside > 0);
	t->inside--;
	gate_reenter(t, depth);
	if (*len > max) {
		*len = max;
	}
}

void
prof_hook_dump(const char *filename) {
	assert(!gate_is_entered(tls_get()));
	prof_dump_hook_t hook = prof_dump_hook_get();
	if (hook != NULL) {
		hook(filename);
	}
}
