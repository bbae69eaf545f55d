/*
 * Pairing heap over links embedded in the elements; the least element is at the root.
 * The children of a node form a list through next, from its lchild on. The prev of the first child
 * is its parent, the prev of any other child its left sibling, the prev of the root is NULL. An
 * insertion costs one comparison and the minimum is always at hand; a removal pairs the children of
 * the removed node, amortised O(log n). The comparator is an argument of each call and is inlined
 * there. The owner's lock protects the heap. Slabs with free regions (arena/bin) and unused extents
 * (extent/eset) are ordered by it; extent/join walks along its links.
 */
#pragma once

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

/* Negative if a comes before b, 0 if they are equal, positive if a comes after b. */
typedef int ph_cmp_t(const ph_link_t *a, const ph_link_t *b);

static inline void
ph_init(ph_t *ph) {
	ph->root = NULL;
}

static inline bool
ph_is_empty(const ph_t *ph) {
	return ph->root == NULL;
}

/*
 * Returns an element, without a comparator: the root, at which a walk along the links begins. NULL
 * if the heap is empty.
 */
static inline ph_link_t *
ph_any(const ph_t *ph) {
	return ph->root;
}

/*
 * Returns the least element, or NULL if the heap is empty. The comparator only tells the reader by
 * what order it is the least.
 */
ALWAYS_INLINE ph_link_t *
ph_first(const ph_t *ph, ph_cmp_t *cmp UNUSED) {
	return ph->root;
}

/*
 * Joins two trees; the root that compares later (b if they are equal) becomes the first child of
 * the other. Returns the new root, whose prev and next stay as they were: the caller sets them.
 */
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

/*
 * First pass of a removal: melds siblings two by two. The results are returned as a stack linked
 * through next, the last pair on top.
 */
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

/* Makes one tree of a list of siblings. The list may be NULL; then the result is NULL. */
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

/* Inserts e; its link may hold anything before. */
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

/* Removes the tree under e from the list of its parent's children. e must not be the root. */
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

/* Removes e, which must be in this heap. Afterwards its link is zeroed. */
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
