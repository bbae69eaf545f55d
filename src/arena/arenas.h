/*
 * All arenas: the table, how many, which one a thread gets.
 *
 * Slots 0 .. narenas_auto-1 are automatic and filled when a thread first needs one.  The next is that of
 * oversized requests, if there is a threshold for them: of the threads' own choice none is bound to it, and
 * what lies unused in it is limited by bytes (extent/pac.h, pac_bound).  Later slots are made by hand.  One made by hand may be destroyed; its struct stays and serves the next that is made,
 * so what was once read from a slot can be looked at for ever.  The lock covers changes of the table
 * and the binding of threads; reading a slot needs none.
 */
#ifndef ARENA_ARENAS_H
#define ARENA_ARENAS_H

#include "arena/arena.h"
#include "arena/arena_life.h"
#include "util/fxp.h"

extern unsigned opt_narenas;       /* 0: from the number of CPUs */
extern fxp_t opt_narenas_ratio;    /* arenas per CPU */
extern bool opt_huge_arena_pac_thp; /* huge pages for the arena of oversized requests, where that is for us to ask */
extern size_t opt_oversize_threshold; /* 0: none */

/* Makes arena 0. 0 or ENOMEM. */
int arenas_boot(void);

/* Requests of at least so many bytes go to arenas_oversize(); SIZE_MAX: none do. */
extern HIDDEN size_t arenas_oversize_min;
/* Requests up to so many bytes may be served by the hot extents of the thread's arena. */
extern HIDDEN size_t arenas_hot_max;
/* The arena of oversized requests, where there is a threshold for them; NULL: no memory. */
arena_t *arenas_oversize(void);
/* The same without a lock or the gate; NULL also as long as it is not made. */
arena_t *arenas_oversize_seen(void);
bool arenas_is_oversize(unsigned ind);

/*
 * Bounds what lies unused in the arena by a threshold of its own; one that is no large size: no longer.
 * Requests go where they went before.
 */
void arenas_oversize_threshold_set(arena_t *a, size_t threshold);

typedef enum {
	percpu_arena_percpu,
	percpu_arena_phycpu,  /* CPU i and i + n/2 of n share one: the two threads of a core, as they are numbered mostly */
	percpu_arena_disabled
} percpu_arena_t;

extern unsigned opt_percpu_arena;
extern const char *const percpu_arena_names[]; /* by the enum, NULL at the end */
/* Arenas chosen by CPU: those below it; 0: none are. */
unsigned arenas_percpu_limit(void);
/* The arena of the CPU that the caller runs on, made if need be; NULL: no memory.  Only if there are such. */
arena_t *arenas_of_cpu(void);

/* NULL: no such arena (yet). */
arena_t *arenas_get(unsigned ind);
/* Makes an automatic one if it is not there; NULL: not automatic and not there, or no memory. */
arena_t *arenas_get_or_init(unsigned ind);
/* Slots in use: automatic ones (made or not), the oversized requests', and those made by hand. */
unsigned arenas_narenas_total(void);
/* Those that threads are bound to. */
unsigned arenas_narenas_auto(void);

/* A new arena by hand, hooks NULL: the system's pages; EAGAIN: all slots used or no memory. */
int arenas_create(unsigned *ind, ehooks_table_t *hooks);

/*
 * Ends all objects of an arena made by hand.  EFAULT: there is none, it is an automatic one, or it is
 * being ended by another thread or in a hook of its own.
 */
int arenas_reset(unsigned ind, arena_sample_fn_t *on_sample);
/*
 * The same, and the arena ceases to be; EFAULT also if a thread or a thread cache is bound to it.
 * on_gone sees the counters of the two arenas that it was (the second may be NULL), for the last time.
 */
int arenas_destroy(unsigned ind, arena_sample_fn_t *on_sample, void (*on_gone)(arena_t *a, arena_t *hidden));

/*
 * The hooks of an arena, as they were; table NULL: no change.  An automatic one that is not there yet is
 * made if there is a change.  EFAULT: no such arena, or no memory.
 */
int arenas_hooks(unsigned ind, ehooks_table_t *table, ehooks_table_t **old);

/* Where allocations go that are made in a hook, or by a thread without a tsd; NULL: no memory. */
arena_t *arenas_fallback(void);

/* Called under the table's lock when an arena was made; NULL: nobody cares. */
extern void (*arenas_made_hook)(unsigned ind);

/* The least used automatic arena, with one thread more; never NULL once booted. */
arena_t *arenas_bind_least(void);
void arenas_bind(arena_t *a);
void arenas_unbind(arena_t *a);

/* The hidden arena of a's sampled objects, made at first use; NULL: no memory. */
arena_t *arenas_sampled(const arena_t *a);
/* The one that arena ind answers for (statistics, purging); NULL: none. */
arena_t *arenas_sampled_get(unsigned ind);

/*
 * A sampled object and its record, *rec NULL if there is no memory for that: small ones lie in the
 * hidden arena, large ones in a.  nrequests: as in arena_malloc.
 */
void *arenas_malloc_sampled(arena_t *a, size_t usize, size_t alignment, bool zero,
    unsigned nrequests, sample_rec_t **rec);

/* Decay of all arenas that no thread of their own serves, at most every few milliseconds whoever calls. now: coarse monotonic. */
void arenas_tick(uint64_t now);

/*
 * The system has refused memory: of what lies unused in any arena, that in arenas with hooks of the program's excepted,
 * want bytes go back to it.  false: none did: there are none, or what there is would not do, or it has not helped before
 * and no more has become unused since.  No lock from the table's on may be held.  After true, who asked says whether he
 * has got what he needs.
 */
bool arenas_try_relieve(size_t want);
void arenas_relieve_end(bool has_helped);

/* Decay times of arenas to come; EINVAL. */
int arenas_decay_ms_default_set(bool is_dirty, ssize_t ms);
ssize_t arenas_decay_ms_default_get(bool is_dirty);

#endif
