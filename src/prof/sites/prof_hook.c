/*
 * The user's hooks as four atomic pointers (prof_hook.h).
 *
 * Invariant: a hook is called through a pointer that was loaded once and is not NULL. So the hook
 * that is called was set at the load; another thread may have set a new one since. If the program
 * took its backtrace hook away between the caller's test (prof_hook_has_backtrace) and the load,
 * the default is called. Locks: none of its own. Callers hold no lock while a hook runs, except
 * prof_dump.c, which holds its own lock while the dump hook runs. Called by prof.c,
 * prof_backtrace.c and prof_dump.c, and by ctl_experimental.c, which reads and sets the hooks.
 */
#include "prof/sites/prof_hook.h"

#include "os/gate.h"
#include "unwind/unwind.h"

/*
 * The function that the program reads as the backtrace hook if it has set none; the program may
 * call it from its own hook. Without a hook the profiler unwinds by itself. The profiler calls this
 * function only if the program took its hook away between the profiler's test and the load.
 */
static void
backtrace_default(void **vec, unsigned *len, unsigned max) {
	*len = unwind(vec, max);
}

prof_hook_fn_t prof_hooks[PROF_HOOKS];

prof_hook_fn_t
prof_hook_get(prof_hook_t which) {
	prof_hook_fn_t hook = __atomic_load_n(&prof_hooks[which], MO_ACQUIRE);
	return hook != NULL || which != PROF_HOOK_BACKTRACE ? hook : (prof_hook_fn_t)backtrace_default;
}

int
prof_hook_set(prof_hook_t which, prof_hook_fn_t hook) {
	if (hook == NULL && which == PROF_HOOK_BACKTRACE) {
		return EINVAL;
	}
	bool is_default = which == PROF_HOOK_BACKTRACE
	    && hook == (prof_hook_fn_t)backtrace_default;
	__atomic_store_n(&prof_hooks[which], is_default ? NULL : hook, MO_RELEASE);
	return 0;
}

void
prof_hook_backtrace(void **vec, unsigned *len, unsigned max) {
	prof_backtrace_hook_t hook = (prof_backtrace_hook_t)prof_hook_get(PROF_HOOK_BACKTRACE);
	uint32_t depth = gate_step_out();
	hook(vec, len, max);
	gate_step_in(depth);
	if (*len > max) {
		*len = max;
	}
}

void
prof_hook_dump(const char *filename) {
	assert(!gate_is_entered(tls_get()));
	prof_dump_hook_t hook = (prof_dump_hook_t)prof_hook_get(PROF_HOOK_DUMP);
	if (hook != NULL) {
		hook(filename);
	}
}
