/*
 * Functions of the user that are called in each thread as it allocates:
 * experimental.hooks.thread_event.
 *
 * They are checked at heartbeats (thread/thread_event.h), which are strict from the first event on,
 * so a call is late by the bytes between two heartbeats at most. In each thread the first heartbeat
 * after an event was added only starts its interval; a later one calls the function at most once
 * for bytes allocated and once for bytes freed. An entry stays for ever. The lock is a leaf and is
 * held only while an entry is added; heartbeats read the count first and then entries that no
 * longer change. Called by ctl_experimental.c and at heartbeats.
 */
#pragma once

#include "thread/tsd_types.h"

/* A thread event as the user passes it; the layout is part of the public interface. */
typedef struct user_event_s {
	/* is_alloc: it is due by bytes allocated; the others: all bytes of the thread so far */
	void (*callback)(bool is_alloc, uint64_t allocated, uint64_t deallocated);
	/* least bytes that the thread allocates (and, separately, frees) between two calls; not 0 */
	uint64_t interval;
	bool is_alloc_only; /* no calls for frees */
} user_event_t;

/*
 * Adds an event for all threads. 0, also if the same (all three fields) was added before; EINVAL:
 * no callback, no interval, or there are USER_EVENTS_MAX (4) already. Inside the gate. The first
 * event recalls all threads (thread/recall.h), because it makes heartbeats strict.
 */
int user_event_add(const user_event_t *event);

/* A heartbeat hook: makes the calls that are due; it leaves the gate for each and enters again. */
void user_event_heartbeat(tsd_t *tsd, uint64_t bytes);
