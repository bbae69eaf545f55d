/*
 * Circular doubly linked list; one type is both the head and the link embedded in an element.
 * Invariant: an empty head, and a link that is on no list, point to themselves. The owner's lock
 * protects the list. container_of() leads from a link to its element. Used by arena/, hpa/, meta/,
 * extent/, thread/tcache and prof_recent.c.
 */
#pragma once

#include "util/compiler.h"

typedef struct ql_s ql_t;
struct ql_s {
	ql_t *next;
	ql_t *prev;
};

/*
 * Makes q an empty head, or a link that is on no list. If q is on a list now, ql_remove() must come
 * first, because the neighbours would still point to it.
 */
static inline void
ql_init(ql_t *q) {
	q->next = q;
	q->prev = q;
}

/* For a head: the list has no elements. For a link: it is on no list. */
static inline bool
ql_is_empty(const ql_t *q) {
	return q->next == q;
}

/* Inserts e, which is on no list, directly behind pos, which is a head or a link. */
static inline void
ql_insert_after(ql_t *pos, ql_t *e) {
	assert(pos->next->prev == pos);
	e->prev = pos;
	e->next = pos->next;
	pos->next->prev = e;
	pos->next = e;
}

/* Inserts e, which is on no list, as the last. ql_insert_after(head, e) makes it the first. */
static inline void
ql_push_tail(ql_t *head, ql_t *e) {
	ql_insert_after(head->prev, e);
}

/* Removes e from its list. Does nothing if e is on no list; but e must be initialised (ql_init). */
static inline void
ql_remove(ql_t *e) {
	assert(e->next->prev == e && e->prev->next == e);
	e->prev->next = e->next;
	e->next->prev = e->prev;
	ql_init(e);
}

/* The link of the first element, or NULL if the list is empty. */
static inline ql_t *
ql_first(const ql_t *head) {
	return ql_is_empty(head) ? NULL : head->next;
}

/*
 * The link behind e, or NULL if e is the last. A loop that removes e must ask this before it does,
 * because a removed link points to itself.
 */
static inline ql_t *
ql_next(const ql_t *head, const ql_t *e) {
	return e->next == head ? NULL : e->next;
}
