/*
 * All arenas: the table, their number, and which one a thread gets.
 *
 * Slots 0 .. narenas_auto-1 are automatic. A new thread gets an automatic arena without threads, a
 * new one as long as a slot is free, and then the one with the fewest threads; or that of its CPU
 * (option percpu_arena). The next slot is that of oversized requests, if they have a threshold: the
 * library binds no thread to it, and its unused memory is limited (pac_bound, extent/pac_purge.h).
 * Later slots are explicit (arenas.create); only these may be reset or destroyed. Invariant: the
 * struct of a destroyed arena stays and is used again by the next explicit arena, so a pointer that
 * was read from a slot stays valid for ever. The lock "arenas" covers additions to the table and
 * the choice of the arena with the fewest threads; reading a slot needs no lock. Callers: boot,
 * thread/tsd (start, end and rebinding of a thread), imalloc.c, irealloc.c, tcache.c, quarantine.c,
 * shut.c, heartbeats (upkeep that each thread does as it allocates: thread/thread_event.h),
 * background threads, inspect.c, mallctl, stats.c, and the profiler, which counts over all arenas
 * and calls arenas_try_relieve() for a dump.
 */
#pragma once

#include "arena/arena.h"
#include "arena/arena_life.h"
#include "util/fxp.h"

extern unsigned opt_narenas;       /* 0: from the number of CPUs; after boot the number wanted */
extern fxp_t opt_narenas_ratio;    /* arenas per CPU, with 16 fractional bits */
extern bool opt_huge_arena_pac_thp; /* ask for huge pages for oversized requests */
extern size_t opt_oversize_threshold; /* bytes; 0: none */

/* At each attempt to boot, after the options: computes the slots, makes arena 0. 0 or ENOMEM. */
int arenas_boot(void);

/*
 * Requests of at least this usable size, in bytes, that name no arena and are of no class that the
 * thread's cache may hold go to arenas_oversize(), unless the thread is bound to an explicit arena
 * or has no tsd; SIZE_MAX: none.
 */
extern HIDDEN size_t arenas_oversize_min;
/*
 * The arena of oversized requests, made if necessary; NULL: no memory. Only if arenas_oversize_min
 * is not SIZE_MAX.
 */
arena_t *arenas_oversize(void);

/*
 * Limits the unused memory of an arena by a threshold of its own, in bytes (pac_bound), without a
 * change of where requests go. A threshold that is no large size removes the limit.
 */
void arenas_oversize_threshold_set(arena_t *a, size_t threshold);

typedef enum {
	percpu_arena_percpu,
	percpu_arena_phycpu,  /* CPU i and i + n/2 of n share one: usually two threads of a core */
	percpu_arena_disabled
} percpu_arena_t;

extern unsigned opt_percpu_arena;
extern const char *const percpu_arena_names[]; /* by the enum, NULL at the end */
/* Arenas below this index are chosen by CPU; 0: none. */
unsigned arenas_percpu_limit(void);
/*
 * The arena of the CPU that the caller runs on, made if necessary; NULL: no memory. Only if
 * arenas_percpu_limit() is not 0.
 */
arena_t *arenas_of_cpu(void);

/* Returns NULL if there is no such visible arena (yet, or any more). */
arena_t *arenas_get(unsigned ind);
/*
 * As arenas_get(), but makes an automatic arena, or that of oversized requests, that does not
 * exist; NULL also without memory.
 */
arena_t *arenas_get_or_init(unsigned ind);
/* Slots in use: automatic (made or not), of oversized requests, explicit (destroyed or not). */
unsigned arenas_narenas_total(void);
/* Number of automatic slots, to which threads are bound. */
unsigned arenas_narenas_auto(void);

/* Makes an explicit arena; hooks NULL: pages of the system. EAGAIN: no slot left or no memory. */
int arenas_create(unsigned *ind, ehooks_table_t *hooks);

/*
 * Frees all objects of an explicit arena; on_sample is called for each sampled one before. 0 or
 * EFAULT: there is no such arena, it is not explicit, it is being reset or destroyed already, or
 * this thread is in an extent hook of the arena, or in hooks of several arenas.
 */
int arenas_reset(unsigned ind, arena_sample_fn_t *on_sample);
/*
 * As arenas_reset(), and removes the arena; EFAULT also if a thread or a thread cache is bound to
 * it. On success on_gone is called once, with the arena and its hidden one (may be NULL), to read
 * their counters.
 */
int arenas_destroy(unsigned ind, arena_sample_fn_t *on_sample,
    void (*on_gone)(arena_t *a, arena_t *hidden));

/*
 * Reads the hooks of an arena into *old and then sets them, for an explicit arena also those of its
 * hidden arena; table NULL: no change. An automatic arena that does not exist yet is made if there
 * is a change, and its *old is the system's table. 0, or EFAULT: no such arena, or no memory.
 */
int arenas_hooks(unsigned ind, ehooks_table_t *table, ehooks_table_t **old);

/*
 * The arena for allocations made in a user's hook, or by a thread without a tsd: arena 0, or if
 * that has hooks of the user, its hidden arena, which has the system's. NULL: no memory.
 */
arena_t *arenas_fallback(void);

/*
 * Called under the lock "arenas" when arena ind, or its hidden arena, was made or revived; may be
 * NULL.
 */
extern void (*arenas_made_hook)(unsigned ind);

/* Chooses an automatic arena for one more thread and binds it; never NULL after arenas_boot(). */
arena_t *arenas_bind_least(void);
/*
 * Called at the end of a thread, after vacant_thread_left(), and at ticks: bounds the unused pages
 * of vacant arenas (vacant.h); is_idle: all other threads are idle, so those of any arenas. If
 * another thread is in this call, it does the work.
 */
void arenas_keep_limit(bool is_idle);

/*
 * The hidden arena for samples of a: its own, or for all automatic arenas that of arena 0. Made at
 * first use with the decay times and dss precedence of its visible arena, and with its hooks if
 * that is explicit. NULL: no memory.
 */
arena_t *arenas_sampled(const arena_t *a);
/* The hidden arena that arena ind reports and purges; NULL: none. */
arena_t *arenas_sampled_get(unsigned ind);
/*
 * The same, after waiting for one that is being made. NULL: a later one will have the settings that
 * the visible arena has now.
 */
arena_t *arenas_sampled_wait(unsigned ind);

/*
 * Allocates a sampled object and its record; NULL: no memory. Small ones lie in the hidden arena,
 * large ones in a. *rec is NULL if the object has no record and so is no sample: no memory for a
 * record, or the hidden arena could not serve a small one (no memory, or `a` is explicit and its
 * hooks cannot split an extent). nrequests: as for arena_malloc().
 */
void *arenas_malloc_sampled(arena_t *a, size_t usize, size_t alignment, bool zero,
    unsigned nrequests, sample_rec_t **rec);

/*
 * Trims all arenas (each at most once in 250 ms), runs the decay of those that no background thread
 * serves and makes holes in them (holes.h), and bounds what vacant ones keep; at most once in 10 ms
 * in the process, further calls do nothing. Returns whether it did so. now: coarse monotonic, ns.
 */
bool arenas_try_tick(uint64_t now);
/*
 * Trims an arena, makes holes in it and returns unused pages: what is due, or all. Waits for other
 * threads' passes.
 */
void arenas_decay(arena_t *a, bool all);
/* Unused bytes of the arenas with a dirty decay time above 0 that no background thread serves. */
size_t arenas_decaying(void);
/*
 * When this many bytes more have become unused, all threads are made to have their next heartbeat
 * soon (recalled: thread/thread_event.h). Each arena reports an increase in steps of pac_rise_step
 * bytes. arenas_boot() makes the step so small that one step of each automatic arena is at most
 * this together (with 4 KiB pages up to 255 arenas).
 */
#define ARENAS_RISE ((size_t)16 << 20)

/*
 * To be called when the system has refused memory: returns unused memory to it, `want` bytes if
 * there are as many (all where the system accounts for writable pages), from any arenas except
 * those with the user's hooks. Returns false if nothing was returned: nothing is unused, it would
 * not suffice, or it did not help the last time and no more has become unused since. No lock of the
 * rank "arenas" or later may be held. After true, the caller reports by arenas_relieve_end()
 * whether its request succeeded.
 */
bool arenas_try_relieve(size_t want);
void arenas_relieve_end(bool has_helped);

/* Default decay times (ms) of arenas that are made later. 0, or EINVAL for an invalid time. */
int arenas_decay_ms_default_set(bool is_dirty, ssize_t ms);
ssize_t arenas_decay_ms_default_get(bool is_dirty);
