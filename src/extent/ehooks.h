/*
 * The page functions of an arena: the system's (mmap, sbrk, madvise), or the user's extent hooks.
 * The page cache maps, unmaps, commits and purges through these calls. A hook of the user is called
 * inside the gate (os/gate.h: fork waits meanwhile) with no lock held. A hook may itself allocate:
 * a request of the hook that names no arena is served by an arena with the system's functions
 * (arenas_fallback, arena/arenas.h), and not from the thread's cache. ehooks_begin and ehooks_end,
 * called around each hook, begin and end this way of serving. Functions that return an int return 0
 * or an errno value. "custom" in a name means hooks that the user has set. The table of an arena is
 * an atomic pointer; there is no lock. Callers: the files of extent/; arena.c, arena_life.c and
 * pac_life.c set tables; arena_life.c, arenas.c and ctl_arena.c set dss precedences; arenas.c,
 * ctl_arena.c and ctl_snapshot.c read what is set; many ask ehooks_are_custom().
 */
#pragma once

#include "extent/dss.h"
#include "os/pages.h"
#include "util/atomic.h"
#include "util/compiler.h"

/*
 * The extent_hooks_t of the public header under an internal name. The tag of the struct is the
 * same, so that a hook is called by the type with which the user compiled it: C requires compatible
 * types, and clang's -fsanitize=function and control flow integrity compare them at each call. The
 * #ifndef is for tests: one that includes the public header first has the struct from there. A hook
 * that returns true has refused. `alloc` is never NULL (ctl_arena.c checks that); any other hook
 * may be.
 */
typedef struct extent_hooks_s ehooks_table_t;
#ifndef JEMALLOC_H_
struct extent_hooks_s {
	void *(*alloc)(ehooks_table_t *hooks, void *new_addr, size_t size, size_t alignment, bool *zero,
	    bool *commit, unsigned arena_ind);
	bool (*dalloc)(ehooks_table_t *hooks, void *addr, size_t size, bool committed,
	    unsigned arena_ind);
	void (*destroy)(ehooks_table_t *hooks, void *addr, size_t size, bool committed,
	    unsigned arena_ind);
	bool (*commit)(ehooks_table_t *hooks, void *addr, size_t size, size_t offset, size_t length,
	    unsigned arena_ind);
	bool (*decommit)(ehooks_table_t *hooks, void *addr, size_t size, size_t offset, size_t length,
	    unsigned arena_ind);
	bool (*purge_lazy)(ehooks_table_t *hooks, void *addr, size_t size, size_t offset, size_t length,
	    unsigned arena_ind);
	bool (*purge_forced)(ehooks_table_t *hooks, void *addr, size_t size, size_t offset,
	    size_t length, unsigned arena_ind);
	bool (*split)(ehooks_table_t *hooks, void *addr, size_t size, size_t size_a, size_t size_b,
	    bool committed, unsigned arena_ind);
	bool (*merge)(ehooks_table_t *hooks, void *addr_a, size_t size_a, void *addr_b, size_t size_b,
	    bool committed, unsigned arena_ind);
};
#endif

typedef struct ehooks_s {
	atomic_p_t table; /* NULL: the system's functions */
	atomic_u8_t dss;  /* dss_prec_t of pages from the system */
	atomic_b_t refused_split; /* the last call of the user's split hook, by any thread, refused */
	unsigned arena_ind; /* index of the arena; it may be hidden (arena/arena_table.h) */
	unsigned shown_ind; /* passed to hooks: arena_ind, or the visible arena to which it belongs */
} ehooks_t;

/* The option retain: keep unused address space for reuse instead of unmapping it. */
extern bool opt_retain;

/*
 * The system's functions as a table of hooks: the user may read it, and call it from hooks of its
 * own.
 */
extern ehooks_table_t ehooks_system;

/*
 * Called before and after each call of a user's hook, and by background_thread.c around calls of
 * the C library that may allocate; ehooks_end() gets what ehooks_begin() returned. tsd.c sets both;
 * NULL: not set.
 */
extern uint32_t (*ehooks_begin)(void);
extern void (*ehooks_end)(uint32_t token);

/*
 * Whether this thread is in a hook of the user that was called for this (visible) arena or its
 * hidden one. Also true in any hook that was called inside a hook of another arena.
 */
bool ehooks_may_be_calling(unsigned arena_ind);

/* table NULL: the system's. The arena starts with the default dss precedence. */
void ehooks_init(ehooks_t *h, unsigned arena_ind, unsigned shown_ind, ehooks_table_t *table);
/* The user's table, or the system's. */
ehooks_table_t *ehooks_get(const ehooks_t *h);
/*
 * Sets the table, the user's or &ehooks_system, and clears refused_split; returns the previous
 * table. If other threads may use the arena, only pac_hooks_set() may call this.
 */
ehooks_table_t *ehooks_set(ehooks_t *h, ehooks_table_t *table);

/*
 * Whether and when pages come from sbrk. ehooks_dss_set() returns 0, or ENOTSUP if prec is not
 * dss_prec_disabled although sbrk is not built in.
 */
dss_prec_t ehooks_dss_get(const ehooks_t *h);
int ehooks_dss_set(ehooks_t *h, dss_prec_t prec);

/*
 * New pages from the system, by mmap or sbrk as h says; they read as zeros. NULL: no memory. The
 * caller sets *commit if the pages must be accessible; the function sets it to whether they are.
 */
void *ehooks_map(ehooks_t *h, size_t size, size_t alignment, bool *commit);

/* Whether the arena has hooks of the user. */
ALWAYS_INLINE bool
ehooks_are_custom(const ehooks_t *h) {
	return unlikely(atomic_load_p(&h->table, MO_RELAXED) != NULL);
}

/*
 * Each calls one hook of the arena's table. If the user has set the table back to the system's
 * since ehooks_are_custom() was true, it calls the function of ehooks_system. An int is 0, EAGAIN
 * (the hook refused) or EOPNOTSUPP (it is NULL). A NULL `destroy` is not called.
 * ehooks_custom_alloc() gives an address that is not aligned as requested back to `dalloc`, and
 * returns NULL.
 */
void *ehooks_custom_alloc(ehooks_t *h, size_t size, size_t alignment, bool *zero, bool *commit);
int ehooks_custom_dalloc(ehooks_t *h, void *addr, size_t size, bool is_committed);
void ehooks_custom_destroy(ehooks_t *h, void *addr, size_t size, bool is_committed);
int ehooks_custom_commit(ehooks_t *h, void *addr, size_t size);
int ehooks_custom_decommit(ehooks_t *h, void *addr, size_t size);
int ehooks_custom_purge_lazy(ehooks_t *h, void *addr, size_t size);
int ehooks_custom_purge_forced(ehooks_t *h, void *addr, size_t size);
int ehooks_custom_split(ehooks_t *h, void *addr, size_t size, size_t size_a, bool is_committed);
int ehooks_custom_merge(ehooks_t *h, void *addr_a, size_t size_a, void *addr_b, size_t size_b,
    bool is_committed);
/* Whether the arena's hooks can allow splitting, or merging: the hook is not NULL. */
bool ehooks_can_split(const ehooks_t *h);
bool ehooks_can_merge(const ehooks_t *h);
/* Whether the last call of the user's split hook has refused. */
bool ehooks_has_refused_split(const ehooks_t *h);

/*
 * Returns size bytes of new pages at this alignment, or NULL. *zero and *commit are results only:
 * whether the pages read as zero, and whether they are accessible. Where the system accounts for
 * every writable page, pages of the system come without access, and extent_commit() opens those
 * that are used.
 */
static inline void *
ehooks_alloc(ehooks_t *h, size_t size, size_t alignment, bool *zero, bool *commit) {
	*zero = false;
	*commit = ehooks_are_custom(h);
	if (ehooks_are_custom(h)) {
		return ehooks_custom_alloc(h, size, alignment, zero, commit);
	}
	void *p = ehooks_map(h, size, alignment, commit);
	*zero = p != NULL;
	return p;
}

/* Unmaps pages. 0, or an errno value if that is refused; they are still mapped then. */
static inline int
ehooks_dalloc(ehooks_t *h, void *addr, size_t size, bool is_committed) {
	return ehooks_are_custom(h) ? ehooks_custom_dalloc(h, addr, size, is_committed)
	    : pages_unmap(addr, size);
}

/*
 * Unmaps pages at the end of an arena; cannot be refused. If munmap(2) fails, the system's function
 * tries again later (pages_unmap_in_time).
 */
static inline void
ehooks_destroy(ehooks_t *h, void *addr, size_t size, bool is_committed) {
	if (ehooks_are_custom(h)) {
		ehooks_custom_destroy(h, addr, size, is_committed);
	} else {
		pages_unmap_in_time(addr, size);
	}
}

/* Gives access to pages; 0 or an errno value. */
static inline int
ehooks_commit(ehooks_t *h, void *addr, size_t size) {
	return ehooks_are_custom(h) ? ehooks_custom_commit(h, addr, size) : pages_commit(addr, size);
}

/*
 * Lets the system take the pages when it needs memory. Returns 0, and then their contents are
 * undefined, or an errno value.
 */
static inline int
ehooks_purge_lazy(ehooks_t *h, void *addr, size_t size) {
	return ehooks_are_custom(h) ? ehooks_custom_purge_lazy(h, addr, size)
	    : pages_purge_lazy(addr, size);
}

/*
 * Returns the memory of the pages, which stay mapped, to the system. Returns 0, and then they read
 * as zeros, or an errno value.
 */
static inline int
ehooks_purge_forced(ehooks_t *h, void *addr, size_t size) {
	return ehooks_are_custom(h) ? ehooks_custom_purge_forced(h, addr, size)
	    : pages_purge_forced(addr, size);
}

/* Asks whether one extent may become two, of size_a bytes and the rest; 0: yes; else an errno. */
static inline int
ehooks_split(ehooks_t *h, void *addr, size_t size, size_t size_a, bool is_committed) {
	return ehooks_are_custom(h) ? ehooks_custom_split(h, addr, size, size_a, is_committed) : 0;
}

/* Asks whether two neighbours may become one; 0: yes; else an errno value. */
static inline int
ehooks_merge(ehooks_t *h, void *addr_a, size_t size_a, void *addr_b, size_t size_b,
    bool is_committed) {
	return ehooks_are_custom(h)
	    ? ehooks_custom_merge(h, addr_a, size_a, addr_b, size_b, is_committed) : 0;
}
