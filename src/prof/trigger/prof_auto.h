/*
 * The dumps that jemalloc has too: at an interval of allocated bytes, at a new maximum of mapped
 * memory, on request, at exit.
 */
#ifndef PROF_AUTO_H
#define PROF_AUTO_H

#include "prof/file/prof_sys.h"

/* Called at heartbeats, at a point where a dump is safe. */
void prof_auto_heartbeat(uint64_t bytes);
/* Hook for pac, called at a new maximum of mapped memory with no lock of pac's held. */
void prof_gdump_due(void);
/*
 * prof.mark: each site remembers what it holds (prof_mark.h). 0, ENOENT if not booted, EBUSY if
 * called from the dump hook.
 */
int prof_mark(void);
/*
 * prof.dump, and prof.dump_delta with prof_kind_delta, which is ENODATA without a mark. With path
 * NULL the name is made from the prefix and the kind. Returns 0, ENOENT if not
 * booted, EFAULT if there is no name or the file cannot be written, or another errno of
 * prof_dump().
 */
int prof_mdump(prof_kind_t kind, const char *path);
/*
 * Like prof_mdump(), for requests from outside the process; is_confined and told are as in
 * prof_dump_t.
 */
int prof_mdump_told(prof_kind_t kind, const char *path, bool is_confined, char *told);
/*
 * Ends the log and writes the final profile. signal is the signal that ends the process, 0 for
 * exit. in_handler: the call comes from the handler of that signal; the log and everything that
 * calls the loader or the user's code is then left out. *found_leak (may be NULL) becomes true if a
 * leak summary was wanted and was not empty.
 */
void prof_final_dump(int signal, bool in_handler, bool *found_leak);

/* Drops dumps that were pending in the parent: they are not due in the child. */
void prof_auto_postfork_child(void);

#endif /* PROF_AUTO_H */
