/*
 * From the place that allocates to a backtrace whose first frame is the caller of malloc.
 *
 * Frames of the allocator itself are cut by address.  In the shared library that is the object's
 * whole text.  A static archive puts its code in a section of its own name (the build renames it),
 * so that the linker marks both ends; without that section nothing is cut.
 *
 * One frame more than prof_bt_max is asked for, to know whether a stack was cut short.
 */
#ifndef PROF_BACKTRACE_H
#define PROF_BACKTRACE_H

#include "prof_types.h"

/*
 * The first backtrace selects the unwinder and learns where our own code lies: not earlier, because
 * that may take the loader's lock and boot holds a lock.  Meanwhile other threads get none.
 */
/*
 * Into td->frames (made at first use); false: no memory, or td is busy (a signal came in between).
 * where: the way in from the program (frames of our own that are left are cut); NULL: from here.
 */
bool prof_backtrace(prof_tdata_t *td, prof_bt_t *bt, const struct unwind_where_s *where);
/* Does now what the first backtrace would do: outside the gate, for who begins a session, and before main. */
void prof_backtrace_prepare(void);
/* Set by our constructor: the constructors run, from now on a static program can be unwound too. */
extern HIDDEN bool prof_backtrace_is_constructed;
/* To be called when bt is used up. */
void prof_backtrace_done(prof_tdata_t *td);

/* How many leading frames lie inside [start, end); the last one does not count if nothing else is there. */
unsigned prof_backtrace_nown(void *const *vec, unsigned len, uintptr_t start, uintptr_t end);
uint64_t prof_backtrace_ncut(void);
/*
 * Now and then, with no lock held: objects loaded meanwhile, and the self-test: when the first stacks
 * all are too short to be true it says so, once, and "auto" goes on with another method.
 */
void prof_backtrace_upkeep(void);

#endif /* PROF_BACKTRACE_H */
