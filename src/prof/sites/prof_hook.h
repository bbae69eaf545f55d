/*
 * The user's functions that the profiler calls (experimental.hooks.prof_*): one of each for the
 * whole process, NULL for none; the backtrace hook has a default instead. They are called outside
 * the gate (os/gate.h: fork waits until no thread is inside), with `inside` of the thread raised
 * (os/tls.h), so what they allocate is not sampled. No lock is held, except that the dump hook runs
 * under the lock of dumps (prof_dump.c). Called by prof.c, prof_backtrace.c and prof_dump.c;
 * ctl_experimental.c sets the hooks.
 */
#pragma once

#include "util/atomic.h"
#include "util/compiler.h"

typedef void (*prof_backtrace_hook_t)(void **vec, unsigned *len, unsigned max_len);
typedef void (*prof_dump_hook_t)(const char *filename);
/* size: requested bytes; bt: return addresses, leaf first; usize: usable bytes. */
typedef void (*prof_sample_hook_t)(const void *ptr, size_t size, void **bt, unsigned bt_len,
    size_t usize);
typedef void (*prof_sample_free_hook_t)(const void *ptr, size_t usize);

typedef enum {
	PROF_HOOK_BACKTRACE,   /* a prof_backtrace_hook_t */
	PROF_HOOK_DUMP,        /* a prof_dump_hook_t */
	PROF_HOOK_SAMPLE,      /* a prof_sample_hook_t */
	PROF_HOOK_SAMPLE_FREE, /* a prof_sample_free_hook_t */
	PROF_HOOKS
} prof_hook_t;

/* A hook of any kind; cast it to the type of its kind before the call. */
typedef void (*prof_hook_fn_t)(void);
/* The hooks; NULL: none, or the default for backtraces. Atomic: loaded and stored as a word. */
extern HIDDEN prof_hook_fn_t prof_hooks[PROF_HOOKS];

/* The hook that is set, which for backtraces may be the default. */
prof_hook_fn_t prof_hook_get(prof_hook_t which);
/*
 * Sets a hook. NULL takes it away; to take a backtrace hook away, set the default. Returns 0, or
 * EINVAL for a backtrace hook of NULL.
 */
int prof_hook_set(prof_hook_t which, prof_hook_fn_t hook);

/* prof_hook_get() of these two, with their types. */
static inline prof_sample_hook_t
prof_sample_hook_get(void) {
	return (prof_sample_hook_t)__atomic_load_n(&prof_hooks[PROF_HOOK_SAMPLE], MO_ACQUIRE);
}
static inline prof_sample_free_hook_t
prof_sample_free_hook_get(void) {
	return (prof_sample_free_hook_t)__atomic_load_n(&prof_hooks[PROF_HOOK_SAMPLE_FREE],
	    MO_ACQUIRE);
}

/* Whether the user has set a backtrace function. */
static inline bool
prof_hook_has_backtrace(void) {
	return __atomic_load_n(&prof_hooks[PROF_HOOK_BACKTRACE], MO_ACQUIRE) != NULL;
}
/*
 * Calls the backtrace hook, between gate_step_out() and gate_step_in(); *len
 * becomes the number of addresses in vec, at most max; it stays if the hook does not set it.
 */
void prof_hook_backtrace(void **vec, unsigned *len, unsigned max);
/*
 * Calls the dump hook, if there is one, with the path of the file, or "-" for a profile that was
 * streamed to a client; also after a dump that failed, but not if it was left out. Called outside
 * the gate, with `inside` raised, by prof_dump.c, which holds its lock.
 */
void prof_hook_dump(const char *filename);
