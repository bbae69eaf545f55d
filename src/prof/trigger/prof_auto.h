/*
 * The dumps that jemalloc has too: at an interval of allocated bytes (lg_prof_interval), at a new
 * maximum of mapped memory (prof.gdump), on request, at exit. And the mark, which a dump of growth
 * (prof.dump_delta) needs. No lock of its own; dumps and the mark take the lock of dumps
 * (prof_dump.c). Called by prof.c, prof_signal.c, ctl_prof.c, prof_request.c and, for a due gdump,
 * imalloc.c; by pac (extent/pac.h) through a hook.
 */
#pragma once

#include "prof/file/prof_sys.h"
#include "util/atomic.h"

/*
 * Called at heartbeats (thread/thread_event.h), where a dump is safe, with the bytes that the
 * thread has allocated since its last one. Writes what is due of the kinds interval and gdump
 * (prof_trigger_due()). prof_trigger_heartbeat() follows, which writes what is pending.
 */
void prof_auto_heartbeat(uint64_t bytes);
/*
 * Hook for pac, called at a new maximum of mapped memory; prof_start.c passes it to
 * prof_switch_set_ready(). Writes nothing: the thread may be filling its cache, and a dump runs the
 * user's hook, which may change the cache. The dump follows at the next heartbeat of any thread, at
 * the end of a request that takes none of the shorter ways of malloc, or at exit if
 * prof_final_dump() is called there (prof_boot_exit()); several maxima until then are one.
 */
void prof_gdump_due(void);
extern HIDDEN atomic_b_t prof_gdump_is_due; /* set until prof_gdump_write() takes the dump up */
/*
 * Writes the dump of gdump if one is due and prof.gdump is still on (prof_trigger_due()); at
 * heartbeats, other ends of a request, and at exit. While another dump is written it becomes
 * pending: the next heartbeat writes it, exit does not.
 */
void prof_gdump_write(void);
/*
 * prof.mark: each site remembers what it holds (prof_mark.h). Waits for a dump in progress, outside
 * the gate (os/gate.h: fork waits until no thread is inside), which it leaves meanwhile; the caller
 * holds no lock. is_bounded as in prof_dump_t. 0, ENOENT if not booted, EBUSY if that wait is over
 * or if called from the dump hook.
 */
int prof_mark(bool is_bounded);
/*
 * prof.dump with prof_kind_manual, prof.dump_delta with prof_kind_delta. With path NULL the name is
 * made from the prefix and the kind. Waits for a dump in progress. Returns 0, ENOENT if not booted,
 * ENODATA for a delta without a mark, or another errno of prof_dump(); EFAULT stands for "the
 * prefix is empty, so there is no name", and for ENOENT, EPERM, EINVAL and EAGAIN of prof_dump(),
 * which mean something else as the result of a mallctl. is_confined and told, for requests from
 * outside the process, are as in prof_dump_t. With told, unless the profiler's thread runs, the
 * wait ends after 2 s with EBUSY.
 */
int prof_mdump(prof_kind_t kind, const char *path, bool is_confined, char *told);
/*
 * For a signal ends the log (for exit prof_dump.c does that), at exit writes the dump of gdump that
 * is due, and writes the final profile unless the prefix is empty. signal is the signal that ends
 * the process; 0 for exit, when a final profile is written with prof_final only. in_handler: the
 * call comes from the handler of that signal; then the log is left as it is, and what calls the
 * loader or the user's code is left out. *found_leak (may be NULL) becomes whether a leak summary
 * was wanted and was not empty; if no profile is due it stays. Waits for a dump in progress: at
 * exit without limit, for a signal 2 s at most; but with the profiler's thread and without
 * in_handler until one dump hook has run for 10 s. Does nothing until booted.
 */
void prof_final_dump(int signal, bool in_handler, bool *found_leak);

/* Forgets that a dump of gdump was due in the parent. */
void prof_auto_postfork_child(void);
