/*
 * Stacks of calls: reads the return addresses of the calling thread.
 * One interface over several methods, each in a file of its own with a table of functions
 * (unwind_backend.h); configure chooses which are built. "auto" uses frame pointers where the
 * unwind table of the return address says that they are valid, the cached unwind row of that table
 * otherwise, and libgcc for a single sample when a chain breaks (unwind_fp.c). A walk takes no
 * lock, does not allocate and may run on any thread. The caller (prof_backtrace.c) holds no lock of
 * the allocator and has marked the thread as inside.
 */
#ifndef UNWIND_UNWIND_H
#define UNWIND_UNWIND_H

#include "unwind/unwind_backend.h"

/*
 * Selects and boots a method: "auto", "fp", "libgcc", "libunwind" or "none"; NULL means "auto".
 * EINVAL: there is no such method; ENOTSUP: it is not built in or does not work here, and the
 * selected one stays. To be called with no lock held, during or after the program's constructors.
 */
int unwind_select(const char *name);
/* Name of the selected method; "none" before the first selection. */
const char *unwind_name(void);
/* Whether a method of this name is built in. */
bool unwind_has(const char *name);

/*
 * Reads the stack of the caller: frames[0] is an address in the caller of unwind(). Returns the
 * number of frames.
 */
unsigned unwind(void **frames, unsigned max);
/*
 * Reads the stack from `where` on; frames[memo->first] is where->pc. Returns the number of frames.
 */
unsigned unwind_at(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo);

/* Makes all cached rows invalid, because other code may lie at their addresses. */
void unwind_forget_rows(void);
/*
 * Learns which objects were loaded and unloaded. To be called from time to time with no lock held.
 */
void unwind_refresh(void);
/* Whether that is due at once, because a walk came to an object of which too little is known. */
bool unwind_is_refresh_wanted(void);
/* In a forked child: the thread that was learning that does not exist. */
void unwind_postfork_child(void);
/* Copies all counters of walks and rows. */
void unwind_stats_read(struct unwind_stats_s *dst);

#endif /* UNWIND_UNWIND_H */
