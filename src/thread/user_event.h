/*
 * Functions of the program that are called in each thread as it allocates: experimental.hooks.thread_event.
 *
 * They are looked at on heartbeats, so the intervals are as fine as those (at most 64 KiB allocated).  An entry, once
 * made, stays.  The lock is a leaf and held for making one only; heartbeats read the count and then entries
 * that no longer change.
 */
#ifndef THREAD_USER_EVENT_H
#define THREAD_USER_EVENT_H

#include "thread/tsd_types.h"

/* What the program passes: its layout is part of the interface. */
typedef struct user_event_s {
	void (*callback)(bool is_alloc, uint64_t allocated, uint64_t deallocated);
	uint64_t interval;  /* bytes that the thread allocates (and, apart, frees) between two calls */
	bool is_alloc_only; /* no calls for what was freed */
} user_event_t;

/* EINVAL: no callback, no interval, or all places taken.  The same once more is no error. */
int user_event_add(const user_event_t *event);

/* A heartbeat hook: calls what is due, outside the gate. */
void user_event_heartbeat(tsd_t *tsd, uint64_t bytes);

#endif
