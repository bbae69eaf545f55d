/*
 * The bound for unused pages of vacant arenas, and the loan of these pages; vacant.h has the
 * contract.
 *
 * Invariant: an arena is vacant if it has no threads and its number `left` is not 0; a smaller
 * number was drawn earlier. A thread that leaves writes the number before it subtracts itself from
 * nthreads, and one that ends looks at all arenas after that, both in sequentially consistent
 * order. So of two threads that end at the same time at least one sees that both arenas are vacant.
 * No lock; trims and the page cache take their own. Called by arenas.c.
 */
#include "arena/vacant.h"

#include "extent/pac_hpa.h"

static struct {
	atomic_u64_t nleft; /* numbers that were drawn so far */
} vacant;

/* Above every number that a leaving thread draws. */
#define NUMBER_MAX (UINT64_C(1) << 62)

/* What a look at all arenas has found; sizes are in bytes. */
typedef struct {
	size_t used;     /* in use, in all arenas */
	size_t stocked;  /* in use in limited arenas with something to trim, as stocks may hold part */
	size_t unused;   /* unused in limited arenas */
	arena_t *first;  /* limited, with unused pages, of the least number above `after`; or NULL */
	uint64_t number; /* the number of `first` (vacant_number) */
} vacant_look_t;

static bool
vacant_is(const arena_t *a) {
	return atomic_load_u32(&a->nthreads, MO_SEQ_CST) == 0
	    && atomic_load_u64(&a->left, MO_SEQ_CST) != 0;
}

/* Whether the limit applies to the arena: to a vacant one, with is_idle to any, if it decays. */
static bool
vacant_is_limited(const arena_t *a, bool is_idle) {
	return (is_idle || vacant_is(a)) && arena_decay_ms_get(a, true) > 0;
}

static size_t
vacant_used(const arena_t *a) {
	return pac_nactive(&a->pac) << LG_PAGE;
}

static size_t
vacant_unused(const arena_t *a) {
	return pac_nidle(&a->pac) << LG_PAGE;
}

/*
 * The order in which arenas are purged, the smallest first: vacant ones by the time when the last
 * thread left, then the others by index.
 */
static uint64_t
vacant_number(const arena_t *a) {
	return vacant_is(a) ? atomic_load_u64(&a->left, MO_RELAXED) : NUMBER_MAX + a->ind;
}

static void
vacant_look_at(vacant_look_t *look, arena_t *a, uint64_t after) {
	size_t unused = vacant_unused(a);
	uint64_t number = vacant_number(a);
	look->unused += unused;
	look->stocked += atomic_load_b(&a->has_spare, MO_RELAXED) ? vacant_used(a) : 0;
	if (unused > 0 && number > after && number < look->number) {
		look->first = a;
		look->number = number;
	}
}

static vacant_look_t
vacant_look(unsigned n, bool is_idle, uint64_t after) {
	vacant_look_t look = {.number = UINT64_MAX};
	for (unsigned i = 0; i < n; i++) {
		arena_t *a = arena_table_get(i);
		look.used += a == NULL ? 0 : vacant_used(a);
		if (a != NULL && vacant_is_limited(a, is_idle)) {
			vacant_look_at(&look, a, after);
		}
	}
	return look;
}

void
vacant_thread_bound(arena_t *a) {
	atomic_fetch_add_u32(&a->nthreads, 1, MO_SEQ_CST);
}

void
vacant_thread_left(arena_t *a) {
	assert(atomic_load_u32(&a->nthreads, MO_RELAXED) > 0 && !arena_ind_is_hidden(a->ind));
	uint64_t number = atomic_fetch_add_u64(&vacant.nleft, 1, MO_RELAXED) + 1;
	atomic_store_u64(&a->left, number, MO_SEQ_CST);
	atomic_fetch_sub_u32(&a->nthreads, 1, MO_SEQ_CST);
}

/* Objects in stocks keep pages in use, and no thread may ever take them from there. */
static void
vacant_trim(unsigned n, bool is_idle) {
	for (unsigned i = 0; i < n; i++) {
		arena_t *a = arena_table_get(i);
		if (a != NULL && vacant_is_limited(a, is_idle)) {
			arena_trim(a, true);
		}
	}
}

void
vacant_keep_limit(unsigned n, bool is_idle) {
	vacant_look_t look = vacant_look(n, is_idle, 0);
	size_t limit = vacant_limit(look.used);
	if (look.unused + look.stocked > limit && look.stocked > 0) {
		vacant_trim(n, is_idle);
		look = vacant_look(n, is_idle, 0);
	}
	while (look.unused > (limit = vacant_limit(look.used)) && look.first != NULL) {
		size_t excess = look.unused - limit, unused = vacant_unused(look.first);
		pac_purge_oldest(&look.first->pac, (unused > excess ? unused - excess : 0) >> LG_PAGE);
		/* Another arena may have become vacant meanwhile. */
		look = vacant_look(n, is_idle, look.number);
	}
}

/* ------------------------------------------------------------------ the loan */

/* The vacant arena with most unused pages, as vacant_try_bind() wants it; NULL: there is none. */
static arena_t *
vacant_fullest(const arena_t *from, unsigned n) {
	arena_t *fullest = NULL;
	size_t most = VACANT_LENT - 1;
	for (unsigned i = 0; i < n; i++) {
		arena_t *a = arena_table_get(i);
		if (a != NULL && a != from && vacant_is(a) && vacant_unused(a) > most
		    && !ehooks_are_custom(&a->pac.src.ehooks)) {
			fullest = a;
			most = vacant_unused(a);
		}
	}
	return fullest;
}

/* An arena that another thread binds to meanwhile is not taken, so that no two threads share it. */
arena_t *
vacant_try_bind(const arena_t *from, unsigned n) {
	if (ehooks_are_custom(&from->pac.src.ehooks)) {
		return NULL;
	}
	arena_t *a = vacant_fullest(from, n);
	uint32_t none = 0;
	bool is_bound = a != NULL
	    && atomic_cas_strong_u32(&a->nthreads, &none, 1, MO_SEQ_CST, MO_RELAXED);
	return is_bound ? a : NULL;
}
