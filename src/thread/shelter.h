/*
 * Memory for threads that must not wait while another thread forks, and for signal handlers that
 * interrupted their own thread inside the gate.
 *
 * The forking thread may be waiting for a lock (stdio's, say) whose holder wants memory; if that
 * holder waited for the fork, both would wait for ever.  So at a closed gate small requests are
 * served from here under a lock that fork does not care about, and frees of other objects are put on
 * a list that the next thread inside the gate works off.
 * A shelter object has its size in the 16 bytes before it; once free it serves the shelter again, so
 * that a thread which allocates and frees through a long fork needs no more.  The child of a fork
 * never touches the shelter that it inherits: its lock may have been held, its lists half written.
 */
#ifndef THREAD_SHELTER_H
#define THREAD_SHELTER_H

#include "meta/emap.h"
#include "util/compiler.h"

/* By a thread that is about to close the gate; without memory there is just no shelter. */
void shelter_prepare(void);
void shelter_postfork_child(void);

/* NULL: no room (the caller waits for the gate). Zeroed memory. */
void *shelter_malloc(size_t size, size_t alignment);
/*
 * The same for a signal handler: NULL also if it interrupted this thread where a lock is held that this
 * would take.  What a handler frees is deferred.
 */
void *shelter_malloc_interrupted(size_t size, size_t alignment);

static inline bool
shelter_owns(uint64_t elem) {
	return elem_state(elem) == extent_state_shelter;
}

size_t shelter_usize(const void *ptr);
/* At any time, inside the gate or at it. */
void shelter_free(void *ptr);

/* At a closed gate: ptr (any object, at least 8 bytes) is freed later. */
void shelter_defer_free(void *ptr);

extern HIDDEN atomic_p_t shelter_deferred;

static inline bool
shelter_has_deferred(void) {
	return unlikely(atomic_load_p(&shelter_deferred, MO_RELAXED) != NULL);
}

/* Takes the whole list off; walk it with shelter_next before freeing each. */
void *shelter_take_deferred(void);
static inline void *
shelter_next(void *ptr) {
	return *(void **)ptr;
}

#endif
