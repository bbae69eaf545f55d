/*
 * The log of calls, in builds with --enable-log: a line when a public function is called and a line
 * when it returns, for the functions that the option `log` names. In other builds call_log() does
 * not exist, CALL_LOG() does not evaluate its arguments, and call_log_names_set() always returns
 * EINVAL.
 *
 * Lines go where messages go (os/malloc_io). They are written in any state of the allocator, also
 * in a signal handler. While a thread writes a line, calls by the same thread are not logged. errno
 * is preserved. No lock. Called by jemalloc_logged.c, cxx.c (operators) and ctl_experimental.c
 * (batch_alloc); call_log_names_set() by conf_table.c.
 */
#pragma once

#include "util/compiler.h"

/* The functions by the names that they have in the log; call_nfunctions is their number. */
#define CALL_LOG_FUNCTIONS(X) \
	X(malloc) X(calloc) X(posix_memalign) X(aligned_alloc) X(realloc) X(free) X(free_sized) \
	X(free_aligned_sized) X(memalign) X(valloc) X(pvalloc) X(malloc_usable_size) X(mallocx) \
	X(rallocx) X(xallocx) X(sallocx) X(dallocx) X(sdallocx) X(nallocx) X(mallctl) \
	X(mallctlnametomib) X(mallctlbymib) X(malloc_stats_print) X(batch_alloc) \
	X(operator_new) X(operator_delete)

#define CALL_LOG_ID(name) call_of_##name,
typedef enum { CALL_LOG_FUNCTIONS(CALL_LOG_ID) call_nfunctions } call_t;
#undef CALL_LOG_ID

typedef enum { call_entry, call_exit, call_nsides } call_side_t;

#if CONFIG_LOG
/*
 * Chooses what is logged, in place of the choice before. `names` has len bytes and needs no NUL; it
 * has names joined by '|' (a '|' at the end is ignored), or none: then nothing is logged.
 * "core.FUNCTION.entry" and "core.FUNCTION.exit" each name one line, "core.FUNCTION" both lines
 * of a function, "core" and "." all lines. EINVAL if one of the names is none of these; then
 * nothing changes. Otherwise 0. Called while options are read, by one thread.
 */
int call_log_names_set(const char *names, size_t len);
/*
 * If the option names this line: writes "core.FUNCTION.SIDE: ", the text and a line end, 255 bytes
 * at most; a longer text is cut. The format is one of fmt_snprintf() (util/fmt.h).
 */
void call_log(call_t call, call_side_t side, const char *format, ...) PRINTF_FMT(3, 4);
/* function: as in CALL_LOG_FUNCTIONS. side: call_entry or call_exit. */
#define CALL_LOG(function, side, ...) call_log(call_of_##function, side, __VA_ARGS__)
#else
static inline int
call_log_names_set(const char *names UNUSED, size_t len UNUSED) {
	return EINVAL;
}
#define CALL_LOG(function, side, ...) ((void)0)
#endif
