/*
 * Stacks of calls: reads the return addresses of the calling thread. One interface over several
 * methods, each with a table of functions (unwind_backend.h) in a file of its own, "auto" and "fp"
 * together in unwind_fp.c; configure chooses which are built. "auto" steps by the unwind row of
 * each return address, which says where the caller's registers are, often by the frame pointer. A
 * row is read once from the object's tables and then cached. If an address has a description that
 * cannot be used, libgcc (where it is built in and needs no lock) reads the stack instead, for one
 * sample. A walk takes no lock of the allocator, does not allocate and may run on any thread. Walks
 * are begun by prof_backtrace.c, and by prof_hook.c in the default hook. They hold no lock of the
 * allocator, and the busy flag of the thread's record, which prof_backtrace() sets, keeps the
 * thread from recording a sample meanwhile. Also called by prof_dump.c, prof_course.c and
 * prof_request.c (unwind.c says for what).
 */
#pragma once

#include "unwind/unwind_backend.h"

/*
 * Selects and boots a method: "auto", "fp", "libgcc" or "libunwind". Returns 0; ENOTSUP: it
 * is not built in or does not work here, and the selected one stays. "auto" is the first method
 * that works here. To be called by one thread at a time, with no lock held; in a
 * static program not before its constructors run, because until then its unwind tables are not
 * known.
 */
int unwind_select(const char *name);
/* Name of the selected method; "none" before the first selection. */
const char *unwind_name(void);
/* Whether a method of this name is built in. */
bool unwind_has(const char *name);

/*
 * Reads the stack of the caller, innermost frame first, at most max frames: frames[0] is an address
 * in the caller of unwind(). Returns the number of frames, 0 if there are none or max is 0.
 */
unsigned unwind(void **frames, unsigned max);
/*
 * Reads the stack from `where` on into frames[memo->first] and the elements behind it; the first
 * one is where->pc. frames has room for max in all, and memo->room is at most max. Returns the
 * number of frames; with max 0 it is 0, and *memo is not touched. Preserves errno.
 */
unsigned unwind_at(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo);
