/*
 * Where an arena's pages come from and go to: the system, or functions of the program's own.
 *
 * Everything above asks for pages through these calls and never through os/pages directly.  A program's
 * function is called with no lock held (the gate is), and what it allocates itself is served without
 * this arena and the thread's cache: that is what ehooks_begin and ehooks_end arrange for the upper floors.
 * The answer of a call is 0 or an errno; a member that is NULL refuses.
 */
#ifndef EXTENT_EHOOKS_H
#define EXTENT_EHOOKS_H

#include "extent/dss.h"
#include "os/pages.h"
#include "util/atomic.h"
#include "util/compiler.h"

/* The extent_hooks_t of the public header, under a name of its own; true: refused. */
typedef struct ehooks_table_s ehooks_table_t;
struct ehooks_table_s {
	void *(*alloc)(ehooks_table_t *hooks, void *new_addr, size_t size, size_t alignment, bool *zero,
	    bool *commit, unsigned arena_ind);
	bool (*dalloc)(ehooks_table_t *hooks, void *addr, size_t size, bool committed, unsigned arena_ind);
	void (*destroy)(ehooks_table_t *hooks, void *addr, size_t size, bool committed, unsigned arena_ind);
	bool (*commit)(ehooks_table_t *hooks, void *addr, size_t size, size_t offset, size_t length,
	    unsigned arena_ind);
	bool (*decommit)(ehooks_table_t *hooks, void *addr, size_t size, size_t offset, size_t length,
	    unsigned arena_ind);
	bool (*purge_lazy)(ehooks_table_t *hooks, void *addr, size_t size, size_t offset, size_t length,
	    unsigned arena_ind);
	bool (*purge_forced)(ehooks_table_t *hooks, void *addr, size_t size, size_t offset, size_t length,
	    unsigned arena_ind);
	bool (*split)(ehooks_table_t *hooks, void *addr, size_t size, size_t size_a, size_t size_b,
	    bool committed, unsigned arena_ind);
	bool (*merge)(ehooks_table_t *hooks, void *addr_a, size_t size_a, void *addr_b, size_t size_b,
	    bool committed, unsigned arena_ind);
};

typedef struct ehooks_s {
	atomic_p_t table;   /* NULL: the system's */
	atomic_u8_t dss;    /* dss_prec_t, of the system's pages */
	unsigned arena_ind;
	unsigned shown_ind; /* the index that the program knows */
} ehooks_t;

/* Keep unused address space for reuse instead of unmapping it. */
extern bool opt_retain;

/* The system's pages in the form of hooks: what a program reads, and may call in its own. */
extern ehooks_table_t ehooks_system;

/* Around each call of a program's function; NULL: nobody cares. */
extern uint32_t (*ehooks_begin)(void);
extern void (*ehooks_end)(uint32_t token);

void ehooks_init(ehooks_t *h, unsigned arena_ind, unsigned shown_ind, ehooks_table_t *table);
/* The program's table, or the system's. */
ehooks_table_t *ehooks_get(const ehooks_t *h);
/* The one before. */
ehooks_table_t *ehooks_set(ehooks_t *h, ehooks_table_t *table);

/* Whether the system's pages come from sbrk; ENOTSUP: it is not built in. */
dss_prec_t ehooks_dss_get(const ehooks_t *h);
int ehooks_dss_set(ehooks_t *h, dss_prec_t prec);

/* New pages from the system, by way of h's choice; they read as zeros. */
void *ehooks_map(ehooks_t *h, size_t size, size_t alignment, bool *commit);

ALWAYS_INLINE bool
ehooks_are_own(const ehooks_t *h) {
	return unlikely(atomic_load_p(&h->table, MO_RELAXED) != NULL);
}

/* Calls of a program's functions. */
void *ehooks_own_alloc(ehooks_t *h, size_t size, size_t alignment, bool *zero, bool *commit);
int ehooks_own_dalloc(ehooks_t *h, void *addr, size_t size, bool is_committed);
void ehooks_own_destroy(ehooks_t *h, void *addr, size_t size, bool is_committed);
int ehooks_own_commit(ehooks_t *h, void *addr, size_t size);
int ehooks_own_decommit(ehooks_t *h, void *addr, size_t size);
int ehooks_own_purge_lazy(ehooks_t *h, void *addr, size_t size);
int ehooks_own_purge_forced(ehooks_t *h, void *addr, size_t size);
int ehooks_own_split(ehooks_t *h, void *addr, size_t size, size_t size_a, bool is_committed);
int ehooks_own_merge(ehooks_t *h, void *addr_a, size_t size_a, void *addr_b, size_t size_b,
    bool is_committed);
/* Whether asking makes sense at all. */
bool ehooks_can_split(const ehooks_t *h);
bool ehooks_can_merge(const ehooks_t *h);

/*
 * New pages, aligned; *zero and *commit say what they are. NULL: none. Where the system accounts for each page that may be
 * written, its own come without access: who takes a part of them pays for that part.
 */
static inline void *
ehooks_alloc(ehooks_t *h, size_t size, size_t alignment, bool *zero, bool *commit) {
	*zero = false;
	*commit = ehooks_are_own(h);
	if (ehooks_are_own(h)) {
		return ehooks_own_alloc(h, size, alignment, zero, commit);
	}
	void *p = ehooks_map(h, size, alignment, commit);
	*zero = p != NULL;
	return p;
}

/* Gives pages back; refused: they are still there. */
static inline int
ehooks_dalloc(ehooks_t *h, void *addr, size_t size, bool is_committed) {
	return ehooks_are_own(h) ? ehooks_own_dalloc(h, addr, size, is_committed) : pages_unmap(addr, size);
}

/* The same at an arena's end, and no refusal. */
static inline void
ehooks_destroy(ehooks_t *h, void *addr, size_t size, bool is_committed) {
	if (ehooks_are_own(h)) {
		ehooks_own_destroy(h, addr, size, is_committed);
	} else {
		pages_unmap_in_time(addr, size);
	}
}

static inline int
ehooks_commit(ehooks_t *h, void *addr, size_t size) {
	return ehooks_are_own(h) ? ehooks_own_commit(h, addr, size) : pages_commit(addr, size);
}

static inline int
ehooks_purge_lazy(ehooks_t *h, void *addr, size_t size) {
	return ehooks_are_own(h) ? ehooks_own_purge_lazy(h, addr, size) : pages_purge_lazy(addr, size);
}

/* On success the pages read as zeros. */
static inline int
ehooks_purge_forced(ehooks_t *h, void *addr, size_t size) {
	return ehooks_are_own(h) ? ehooks_own_purge_forced(h, addr, size) : pages_purge_forced(addr, size);
}

/* What is one extent becomes two, of size_a and the rest. */
static inline int
ehooks_split(ehooks_t *h, void *addr, size_t size, size_t size_a, bool is_committed) {
	return ehooks_are_own(h) ? ehooks_own_split(h, addr, size, size_a, is_committed) : 0;
}

/* Two neighbours become one. */
static inline int
ehooks_merge(ehooks_t *h, void *addr_a, size_t size_a, void *addr_b, size_t size_b, bool is_committed) {
	return ehooks_are_own(h) ? ehooks_own_merge(h, addr_a, size_a, addr_b, size_b, is_committed) : 0;
}

#endif
