/*
 * The user's functions that the profiler calls (experimental.hooks.prof_*): one of each for the
 * whole process, NULL for none; the backtrace hook has a default instead. They are called outside
 * of all locks, with the thread marked as inside the allocator, so what they allocate is not
 * sampled.
 */
#ifndef PROF_HOOK_H
#define PROF_HOOK_H

#include "util/atomic.h"
#include "util/compiler.h"

typedef void (*prof_backtrace_hook_t)(void **vec, unsigned *len, unsigned max_len);
typedef void (*prof_dump_hook_t)(const char *filename);
typedef void (*prof_sample_hook_t)(const void *ptr, size_t size, void **bt, unsigned bt_len,
    size_t usize);
typedef void (*prof_sample_free_hook_t)(const void *ptr, size_t usize);

extern HIDDEN struct prof_hooks_s {
	prof_backtrace_hook_t backtrace; /* NULL: the default */
	prof_dump_hook_t dump;
	prof_sample_hook_t sample;
	prof_sample_free_hook_t sample_free;
} prof_hooks;

prof_backtrace_hook_t prof_backtrace_hook_get(void);
int prof_backtrace_hook_set(prof_backtrace_hook_t hook);	/* 0, or EINVAL for NULL */
prof_dump_hook_t prof_dump_hook_get(void);
void prof_dump_hook_set(prof_dump_hook_t hook);
static inline prof_sample_hook_t
prof_sample_hook_get(void) {
	return __atomic_load_n(&prof_hooks.sample, MO_ACQUIRE);
}
void prof_sample_hook_set(prof_sample_hook_t hook);
static inline prof_sample_free_hook_t
prof_sample_free_hook_get(void) {
	return __atomic_load_n(&prof_hooks.sample_free, MO_ACQUIRE);
}
void prof_sample_free_hook_set(prof_sample_free_hook_t hook);

/* Whether the user has set a backtrace function. */
static inline bool
prof_hook_has_backtrace(void) {
	return __atomic_load_n(&prof_hooks.backtrace, MO_ACQUIRE) != NULL;
}
/* Calls the backtrace hook; *len becomes the number of addresses in vec, at most max. */
void prof_hook_backtrace(void **vec, unsigned *len, unsigned max);
/* Calls the dump hook, if there is one; outside the gate. */
void prof_hook_dump(const char *filename);

#endif /* PROF_HOOK_H */
