/*
 * Takes a backtrace at an allocation; its first frame is the caller of malloc.
 *
 * Frames of the allocator itself are recognised by address. In the shared library that range is the
 * whole text of the object. A static archive has its code in a section of its own (the build
 * renames it), and the linker defines both ends; without that section no frame is dropped.
 *
 * One frame more than prof_bt_max is read, to know whether the stack was cut off.
 *
 * A backtrace lies in its thread's record, and only that thread uses it; so there are no locks.
 * Called by prof.c for samples, frees, heartbeats and fork, by prof_session.c and prof_listen.c to
 * prepare, and by prof_dump.c and prof_course.c for prof_backtrace_ncut().
 */
#pragma once

#include "prof/sites/prof_types.h"

/*
 * Reads a backtrace into td->frames, which is allocated at first use, and returns td->bt, valid
 * until prof_backtrace_done(), which the caller then owes. It has no frames if no method works
 * here. Returns NULL if there is no memory, if td is busy (the caller is a free in a hook of the
 * user that runs while td->bt is in use), or in a static program before the constructors. The first
 * call, unless prof_backtrace_prepare() came before, selects the unwinder and finds the range of
 * our own code; it leaves the gate (os/gate.h: fork waits until no thread is inside) for that.
 * Other threads get NULL meanwhile, and so does a first call that is more than one level deep in
 * the gate. malloc_boot() does not select: that may take the loader's lock, and it holds a lock.
 * where is the point at which the user's code entered the allocator; remaining frames of ours are
 * dropped. A backtrace hook of the user (prof_hook.h), if set, is called instead of the unwinder,
 * each time, outside the gate. Called by the thread of td, inside the gate, with no lock held.
 */
const prof_bt_t *prof_backtrace(prof_tdata_t *td, const struct unwind_where_s *where);
/* As prof_backtrace(), from the present frame. */
const prof_bt_t *prof_backtrace_here(prof_tdata_t *td) NOINLINE;
/*
 * Selects the unwinder and finds our own code now, instead of in the first backtrace; nothing if
 * that is done or not possible yet. Called outside the gate, with `inside` (os/tls.h) raised: by
 * the constructor with prof:true, at the start of a session, and when a tracer comes.
 */
void prof_backtrace_prepare(void);
/* Whether the unwinder was selected, or a thread is doing that. */
bool prof_backtrace_has_begun(void);
/*
 * In a forked child, before its first backtrace: if a thread that does not exist here was selecting
 * the unwinder, the child selects it anew.
 */
void prof_backtrace_postfork_child(void);
/* Set by the library's constructor: from then on a static program can be unwound too. */
extern HIDDEN bool prof_backtrace_is_constructed;
/* Doubles the room of td->memo (marks, one per frame), up to td->frames_max, if there is memory. */
void prof_backtrace_make_room(prof_tdata_t *td) COLD;
/*
 * Called when the backtrace of prof_backtrace() is no longer used. May allocate: if the memo has no
 * room for this stack and a quarter more, its room is doubled, for the next walk.
 */
static inline void
prof_backtrace_done(prof_tdata_t *td) {
	assert(td->busy);
	/* A stack that is the same as the last one (is_same) needs no more room than that. */
	if (!td->memo.is_same && unlikely(td->depth + td->depth / 4 > td->memo.room)) {
		prof_backtrace_make_room(td);
	}
	td->busy = false;
}

/* Number of leading frames inside [start, end). If all are inside, the last one is not counted. */
unsigned prof_backtrace_nown(void *const *vec, unsigned len, uintptr_t start, uintptr_t end);
/* Number of backtraces, since the start, that were cut off at prof_bt_max. */
uint64_t prof_backtrace_ncut(void);
/*
 * Called at heartbeats (thread/thread_event.h), inside the gate, with no lock held: looks for
 * objects that were loaded or unloaded, at most once a second unless the unwinder asks, and leaves
 * the gate for that; evaluates the self-test once. If all of the first stacks are implausibly short
 * that is reported, and "auto" may change the method. Nothing before the unwinder was selected.
 */
void prof_backtrace_upkeep(void);
