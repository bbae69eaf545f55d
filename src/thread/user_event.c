/*
 * The user's thread events: a table of four, and the marks of each thread (user_event.h). A mark is
 * the count of bytes at which the user's function is to be called next; a heartbeat compares the
 * counts of its thread with the marks and calls the function.
 *
 * Invariant: once `count` includes an entry, the entry does not change. Locks: `user_event`, a
 * leaf, for adding; heartbeats read without it. Called by ctl_experimental.c and at heartbeats.
 */
#include "thread/user_event.h"

#include "os/mutex.h"
#include "os/witness.h"
#include "thread/recall.h"
#include "thread/thread_event.h"
#include "thread/tsd.h"

static LARGE_BSS struct {
	mutex_t mtx;
	atomic_u32_t count; /* entries of events */
	user_event_t events[USER_EVENTS_MAX];
} user_events = {.mtx = MUTEX_INITIALIZER("user_event", WITNESS_RANK_LEAF)};

static bool
is_same(const user_event_t *a, const user_event_t *b) {
	return a->callback == b->callback && a->interval == b->interval
	    && a->is_alloc_only == b->is_alloc_only;
}

static int
add_locked(const user_event_t *event) {
	assert(event->callback != NULL && event->interval > 0);
	mutex_assert_owner(&user_events.mtx);
	uint32_t n = atomic_load_u32(&user_events.count, MO_RELAXED);
	for (uint32_t i = 0; i < n; i++) {
		if (is_same(&user_events.events[i], event)) {
			return 0;
		}
	}
	if (n == USER_EVENTS_MAX) {
		return EINVAL;
	}
	user_events.events[n] = *event;
	atomic_store_u32(&user_events.count, n + 1, MO_RELEASE);
	return 0;
}

int
user_event_add(const user_event_t *event) {
	if (event->callback == NULL || event->interval == 0) {
		return EINVAL;
	}
	mutex_lock(&user_events.mtx);
	int err = add_locked(event);
	mutex_unlock(&user_events.mtx);
	if (err == 0 && thread_event_wait_set(THREAD_EVENT_FOR_USER, true)) {
		recall_all(RECALL_SETTINGS);
	}
	return err;
}

/*
 * If the count has reached the mark, sets the mark an interval beyond the count and returns true. A
 * mark of 0 is not set yet: it is only set, and the result is false.
 */
static bool
mark_try_pass(uint64_t *mark, uint64_t count, uint64_t interval) {
	assert(interval > 0);
	bool is_first = *mark == 0;
	if (!is_first && count < *mark) {
		return false;
	}
	*mark = count > UINT64_MAX - interval ? UINT64_MAX : count + interval;
	return !is_first;
}

/*
 * The user's function may do anything, including waiting, so it is called outside the gate. The
 * heartbeat keeps tls_s.inside raised: what the function allocates is counted, but causes no sample
 * and no heartbeat, so calls do not nest.
 */
static void
call(const user_event_t *event, bool is_alloc, uint64_t allocated, uint64_t deallocated) {
	struct tls_s *t = tls_get();
	assert(witness_depth_from(WITNESS_RANK_INIT) == 0);
	uint32_t depth = gate_leave_all(t);
	event->callback(is_alloc, allocated, deallocated);
	gate_reenter(t, depth);
}

void
user_event_heartbeat(tsd_t *tsd, uint64_t bytes UNUSED) {
	uint32_t n = atomic_load_u32(&user_events.count, MO_ACQUIRE);
	tsd_assert_own(tsd);
	assert(n <= USER_EVENTS_MAX);
	if (likely(n == 0)) {
		return;
	}
	uint64_t allocated = tsd_allocated(tsd);
	uint64_t deallocated = tsd_deallocated(tsd);
	for (uint32_t i = 0; i < n; i++) {
		const user_event_t *event = &user_events.events[i];
		user_mark_t *mark = &tsd->user_marks[i];
		if (mark_try_pass(&mark->alloc, allocated, event->interval)) {
			call(event, true, allocated, deallocated);
		}
		if (!event->is_alloc_only && mark_try_pass(&mark->dalloc, deallocated, event->interval)) {
			call(event, false, allocated, deallocated);
		}
	}
}
