/*
 * Dumps of the old kinds: each so many allocated bytes, at a new maximum of mapped memory, by hand,
 * at the end.
 */
#ifndef PROF_AUTO_H
#define PROF_AUTO_H

#include "util/compiler.h"

/* At heartbeats, in a place that is safe for a dump. */
void prof_auto_heartbeat(uint64_t bytes);
/* pac's hook: no lock is held, and the memory for the dump does not come from there. */
void prof_gdump_due(void);
/* prof.dump: path NULL makes a name of kind m.  0, ENOENT if not booted, else as section "Writing". */
int prof_mdump(const char *path);
/* The same for who asks from outside; is_confined, told: as in prof_dump_t. */
int prof_mdump_told(const char *path, bool is_confined, char *told);
/*
 * At the end of the process: the log, and the final profile.  signal: what ends it, 0: exit.  in_handler:
 * right in the handler of that signal; then without the log and whatever calls the loader or the
 * program.  *found_leak (may be NULL): the leak summary was wanted and was not empty.
 */
void prof_final_dump(int signal, bool in_handler, bool *found_leak);

/* What was due in the parent is not due in the child. */
void prof_auto_postfork_child(void);

#endif /* PROF_AUTO_H */
