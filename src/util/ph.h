/*
 * Pairing heap over embedded links; the least element by the caller's order is at the root.
 * A node's children form a list through next; the prev of the first child is the parent, the prev of
 * any other child its left sibling, the prev of the root NULL.  Insertion costs one comparison, so the
 * minimum is always known; removal pairs the orphaned children, amortised O(log n).
 * The comparator is passed to each call and inlined there.  The owner's lock protects the heap.
 */
#ifndef UTIL_PH_H
#define UTIL_PH_H

#include "util/assert.h"
#include "util/compiler.h"

typedef struct ph_link_s ph_link_t;
struct ph_link_s {
	ph_link_t *prev;
	ph_link_t *next;
	ph_link_t *lchild;
};

typedef struct {
	ph_link_t *root;
} ph_t;

/* Negative, zero or positive as a is before, equal to or behind b. */
typedef int ph_cmp_t(const ph_link_t *a, const ph_link_t *b);

static inline void
ph_init(ph_t *ph) {
	ph->root = NULL;
}

static inline bool
ph_is_empty(const ph_t *ph) {
	return ph->root == NULL;
}

/* Some element, the cheapest one to get; NULL when empty. */
static inline ph_link_t *
ph_any(const ph_t *ph) {
	return ph->root;
}

/* Least element, or NULL. */
ALWAYS_INLINE ph_link_t *
ph_first(const ph_t *ph, ph_cmp_t *cmp UNUSED) {
	return ph->root;
}

/* Joins two detached trees: the later root becomes the first child of the earlier one. */
ALWAYS_INLINE ph_link_t *
ph_meld(ph_link_t *a, ph_link_t *b, ph_cmp_t *cmp) {
	if (cmp(b, a) < 0) {
		ph_link_t *t = a;
		a = b;
		b = t;
	}
	b->prev = a;
	b->next = a->lchild;
	if (b->next != NULL) {
		b->next->prev = b;
	}
	a->lchild = b;
	return a;
}

/* Melds neighbours two by two; the results come back as a stack through next. */
ALWAYS_INLINE ph_link_t *
ph_pair_siblings(ph_link_t *first, ph_cmp_t *cmp) {
	ph_link_t *done = NULL;
	while (first != NULL) {
		ph_link_t *a = first;
		ph_link_t *b = a->next;
		first = b != NULL ? b->next : NULL;
		ph_link_t *tree = b != NULL ? ph_meld(a, b, cmp) : a;
		tree->next = done;
		done = tree;
	}
	return done;
}

/* Makes one tree of a list of siblings (may be NULL). */
ALWAYS_INLINE ph_link_t *
ph_meld_siblings(ph_link_t *first, ph_cmp_t *cmp) {
	ph_link_t *stack = ph_pair_siblings(first, cmp);
	if (stack == NULL) {
		return NULL;
	}
	ph_link_t *tree = stack;
	stack = stack->next;
	while (stack != NULL) {
		ph_link_t *below = stack->next;
		tree = ph_meld(tree, stack, cmp);
		stack = below;
	}
	tree->prev = NULL;
	tree->next = NULL;
	return tree;
}

ALWAYS_INLINE void
ph_insert(ph_t *ph, ph_link_t *e, ph_cmp_t *cmp) {
	e->prev = NULL;
	e->next = NULL;
	e->lchild = NULL;
	ph_link_t *root = ph->root;
	ph->root = root == NULL ? e : ph_meld(root, e, cmp);
	ph->root->prev = NULL;
	ph->root->next = NULL;
}

/* Cuts the tree under e (not the root) out of its parent's list of children. */
static inline void
ph_detach(ph_link_t *e) {
	ph_link_t *prev = e->prev;
	assert(prev != NULL && (prev->lchild == e || prev->next == e));
	if (prev->lchild == e) {
		prev->lchild = e->next;
	} else {
		prev->next = e->next;
	}
	if (e->next != NULL) {
		e->next->prev = prev;
	}
}

/* Removes e, which must be in the heap. */
ALWAYS_INLINE void
ph_remove(ph_t *ph, ph_link_t *e, ph_cmp_t *cmp) {
	ph_link_t *orphans = ph_meld_siblings(e->lchild, cmp);
	if (e == ph->root) {
		ph->root = orphans;
	} else {
		ph_detach(e);
		if (orphans != NULL) {
			ph->root = ph_meld(ph->root, orphans, cmp);
			ph->root->prev = NULL;
			ph->root->next = NULL;
		}
	}
	e->lchild = NULL;
	e->prev = NULL;
	e->next = NULL;
}

/* Removes and returns the least element, or NULL. */
ALWAYS_INLINE ph_link_t *
ph_remove_first(ph_t *ph, ph_cmp_t *cmp) {
	ph_link_t *e = ph->root;
	if (e != NULL) {
		ph_remove(ph, e, cmp);
	}
	return e;
}

#endif /* UTIL_PH_H */
