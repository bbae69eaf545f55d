/*
 * The log of calls, in builds with --enable-log: a line when a public function is called and a line
 * when it returns, for the functions that the option `log` names. In other builds call_log() does
 * not exist and CALL_LOG() is nothing.
 *
 * Lines go where messages go (os/malloc_io). They are written in any state of the allocator, also
 * in a signal handler; calls that are made while the thread writes a line are not logged. errno
 * stays. No lock. Called by jemalloc_logged.c, cxx.c (operators) and ctl_experimental.c
 * (batch_alloc); call_log_names_set() by conf_table.c.
 */
#ifndef CALL_LOG_H
#define CALL_LOG_H

#include "util/compiler.h"

/* The functions by the names that they have in the log. */
#define CALL_LOG_FUNCTIONS(X) \
	X(malloc) X(calloc) X(posix_memalign) X(aligned_alloc) X(realloc) X(free) X(free_sized) \
	X(free_aligned_sized) X(memalign) X(valloc) X(pvalloc) X(malloc_usable_size) X(mallocx) \
	X(rallocx) X(xallocx) X(sallocx) X(dallocx) X(sdallocx) X(nallocx) X(mallctl) \
	X(mallctlnametomib) X(mallctlbymib) X(malloc_stats_print) X(batch_alloc) \
	X(operator_new) X(operator_delete)

#define CALL_LOG_ID(name) call_of_##name,
typedef enum { CALL_LOG_FUNCTIONS(CALL_LOG_ID) call_count } call_t;
#undef CALL_LOG_ID

typedef enum { call_entry, call_exit, call_nsides } call_side_t;

#if CONFIG_LOG
/*
 * Chooses what is logged: names joined by '|', each "core", "core.FUNCTION", "core.FUNCTION.entry"
 * or "core.FUNCTION.exit", or "." for all. 0, or EINVAL if one of the names is none of these; then
 * nothing changes. Called while options are read.
 */
int call_log_names_set(const char *names, size_t len);
/* Writes the line "core.FUNCTION.SIDE: " and the text, if it is asked for. */
void call_log(call_t call, call_side_t side, const char *format, ...) PRINTF_FMT(3, 4);
#define CALL_LOG(function, side, ...) call_log(call_of_##function, side, __VA_ARGS__)
#else
static inline int
call_log_names_set(const char *names UNUSED, size_t len UNUSED) {
	return EINVAL;
}
#define CALL_LOG(function, side, ...) ((void)0)
#endif

#endif
