/*
 * Circular doubly linked list.  One type serves as the head and as the link embedded in an element:
 * an empty head and an element on no list both point to themselves.  The owner's lock protects it.
 * Use container_of() to get from a link to its element.
 */
#ifndef UTIL_QL_H
#define UTIL_QL_H

#include "util/assert.h"
#include "util/compiler.h"

typedef struct ql_s ql_t;
struct ql_s {
	ql_t *next;
	ql_t *prev;
};

#define QL_HEAD_INITIALIZER(name) {&(name), &(name)}

static inline void
ql_init(ql_t *q) {
	q->next = q;
	q->prev = q;
}

/* For a head: no elements.  For a link: on no list. */
static inline bool
ql_is_empty(const ql_t *q) {
	return q->next == q;
}

/* Links e in directly behind pos. */
static inline void
ql_insert_after(ql_t *pos, ql_t *e) {
	assert(pos->next->prev == pos);
	e->prev = pos;
	e->next = pos->next;
	pos->next->prev = e;
	pos->next = e;
}

static inline void
ql_push_head(ql_t *head, ql_t *e) {
	ql_insert_after(head, e);
}

static inline void
ql_push_tail(ql_t *head, ql_t *e) {
	ql_insert_after(head->prev, e);
}

/* Takes e off its list and leaves it on none; harmless when it is on none. */
static inline void
ql_remove(ql_t *e) {
	assert(e->next->prev == e && e->prev->next == e);
	e->prev->next = e->next;
	e->next->prev = e->prev;
	ql_init(e);
}

static inline ql_t *
ql_first(const ql_t *head) {
	return ql_is_empty(head) ? NULL : head->next;
}

static inline ql_t *
ql_last(const ql_t *head) {
	return ql_is_empty(head) ? NULL : head->prev;
}

static inline ql_t *
ql_next(const ql_t *head, const ql_t *e) {
	return e->next == head ? NULL : e->next;
}

static inline ql_t *
ql_prev(const ql_t *head, const ql_t *e) {
	return e->prev == head ? NULL : e->prev;
}

static inline ql_t *
ql_pop_head(ql_t *head) {
	ql_t *e = ql_first(head);
	if (e != NULL) {
		ql_remove(e);
	}
	return e;
}

/* The first element becomes the last. */
static inline void
ql_rotate(ql_t *head) {
	ql_t *e = ql_pop_head(head);
	if (e != NULL) {
		ql_push_tail(head, e);
	}
}

/* Moves all elements of src behind those of dst; src ends empty. */
static inline void
ql_concat(ql_t *dst, ql_t *src) {
	if (ql_is_empty(src)) {
		return;
	}
	src->next->prev = dst->prev;
	dst->prev->next = src->next;
	src->prev->next = dst;
	dst->prev = src->prev;
	ql_init(src);
}

#endif /* UTIL_QL_H */
