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

static void
backtrace_default(void **vec, unsigned *len, unsigned max) {
	*len = unwind(vec, max);
}

struct prof_hooks_s prof_hooks;

prof_backtrace_hook_t
prof_backtrace_hook_get(void) {
	prof_backtrace_hook_t hook = __atomic_load_n(&prof_hooks.backtrace, MO_ACQUIRE);
	return hook != NULL ? hook : backtrace_default;
}

int
prof_backtrace_hook_set(prof_backtrace_hook_t hook) {
	if (hook == NULL) {
		return EINVAL;
	}
	__atomic_store_n(&prof_hooks.backtrace, hook != backtrace_default ? hook : NULL, MO_RELEASE);
	return 0;
}

prof_dump_hook_t
prof_dump_hook_get(void) {
	return __atomic_load_n(&prof_hooks.dump, MO_ACQUIRE);
}

void
prof_dump_hook_set(prof_dump_hook_t hook) {
	__atomic_store_n(&prof_hooks.dump, hook, MO_RELEASE);
}

void
prof_sample_hook_set(prof_sample_hook_t hook) {
	__atomic_store_n(&prof_hooks.sample, hook, MO_RELEASE);
}

void
prof_sample_free_hook_set(prof_sample_free_hook_t hook) {
	__atomic_store_n(&prof_hooks.sample_free, hook, MO_RELEASE);
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
