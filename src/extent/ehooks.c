/*
 * The system's page functions as a table of hooks, and the calls of the user's hooks. ehooks.h has
 * the contract. Invariant: a user's hook is called with no lock held and inside the gate, between
 * ehooks_begin() and ehooks_end(). The table and the dss precedence of an arena are atomics; there
 * is no lock. Called by extent.c, pac*.c and purge_batch.c for pages; arena.c, arena_life.c and
 * pac_life.c set tables; arena_life.c, arenas.c and ctl_arena.c set dss precedences. Programs can
 * read ehooks_system by mallctl, so hooks of the user may call the functions in it.
 */
#include "extent/ehooks.h"

#include "os/tls.h"
#include "os/witness.h"

bool opt_retain = true;
uint32_t (*ehooks_begin)(void);
void (*ehooks_end)(uint32_t token);

/* ------------------------------------------------------------------ the system's */

/* New pages from mmap, with the option thp applied. */
static void *
system_pages(void *new_addr, size_t size, size_t alignment, bool *commit) {
	void *p = pages_map(new_addr, size, alignment, commit);
	if (p != NULL) {
		pages_set_thp_state(p, size);
	}
	return p;
}

static void *
system_alloc(ehooks_table_t *hooks UNUSED, void *new_addr, size_t size, size_t alignment,
    bool *zero, bool *commit, unsigned arena_ind UNUSED) {
	void *p = system_pages(new_addr, size, max_zu(alignment, PAGE), commit);
	/* New pages from the system are zero, even if *zero did not ask for that. */
	*zero = *zero || p != NULL;
	return p;
}

/* A hook that returns true has refused. */
static bool
system_dalloc(ehooks_table_t *hooks UNUSED, void *addr, size_t size, bool committed UNUSED,
    unsigned arena_ind UNUSED) {
	return opt_retain || pages_unmap(addr, size) != 0;
}

/* If munmap(2) refuses now, later calls that map or unmap pages try again. */
static void
system_destroy(ehooks_table_t *hooks UNUSED, void *addr, size_t size, bool committed UNUSED,
    unsigned arena_ind UNUSED) {
	pages_unmap_in_time(addr, size);
}

#define RANGE_PARAMS ehooks_table_t *hooks UNUSED, void *addr, size_t size UNUSED, size_t offset, \
	size_t length, unsigned arena_ind UNUSED

#define SYSTEM_RANGE(fn, call) \
static bool \
fn(RANGE_PARAMS) { \
	assert(offset <= size && length <= size - offset); \
	return call((char *)addr + offset, length) != 0; \
}
SYSTEM_RANGE(system_commit, pages_commit)
SYSTEM_RANGE(system_decommit, pages_decommit)
SYSTEM_RANGE(system_purge_lazy, pages_purge_lazy)
SYSTEM_RANGE(system_purge_forced, pages_purge_forced)

static bool
system_split(ehooks_table_t *hooks UNUSED, void *addr UNUSED, size_t size UNUSED,
    size_t size_a UNUSED, size_t size_b UNUSED, bool committed UNUSED, unsigned arena_ind UNUSED) {
	assert(size == size_a + size_b);
	return false;
}

static bool
system_merge(ehooks_table_t *hooks UNUSED, void *addr_a UNUSED, size_t size_a UNUSED,
    void *addr_b UNUSED, size_t size_b UNUSED, bool committed UNUSED, unsigned arena_ind UNUSED) {
	assert((char *)addr_a + size_a == addr_b);
	return false;
}

ehooks_table_t ehooks_system = {system_alloc, system_dalloc, system_destroy, system_commit,
	system_decommit, system_purge_lazy, system_purge_forced, system_split, system_merge};

/* ------------------------------------------------------------------ the table of an arena */

ehooks_table_t *
ehooks_get(const ehooks_t *h) {
	ehooks_table_t *table = atomic_load_p(&h->table, MO_ACQUIRE);
	return table != NULL ? table : &ehooks_system;
}

ehooks_table_t *
ehooks_set(ehooks_t *h, ehooks_table_t *table) {
	assert(table != NULL && table->alloc != NULL);
	ehooks_table_t *old = atomic_exchange_p(&h->table, table == &ehooks_system ? NULL : table,
	    MO_ACQ_REL);
	atomic_store_b(&h->refused_split, false, MO_RELAXED);
	return old != NULL ? old : &ehooks_system;
}

dss_prec_t
ehooks_dss_get(const ehooks_t *h) {
	return (dss_prec_t)atomic_load_u8(&h->dss, MO_RELAXED);
}

int
ehooks_dss_set(ehooks_t *h, dss_prec_t prec) {
	assert(prec < dss_prec_count);
	if (!config_dss && prec != dss_prec_disabled) {
		return ENOTSUP;
	}
	atomic_store_u8(&h->dss, (uint8_t)prec, MO_RELAXED);
	return 0;
}

void *
ehooks_map(ehooks_t *h, size_t size, size_t alignment, bool *commit) {
	dss_prec_t prec = ehooks_dss_get(h);
	void *p = config_dss && prec == dss_prec_primary ? dss_alloc(size, alignment) : NULL;
	if (p == NULL) {
		p = system_pages(NULL, size, alignment, commit);
		if (p != NULL || !config_dss || prec != dss_prec_secondary) {
			return p;
		}
		p = dss_alloc(size, alignment);
	}
	*commit = true;
	return p;
}

void
ehooks_init(ehooks_t *h, unsigned arena_ind, unsigned shown_ind, ehooks_table_t *table) {
	ehooks_dss_set(h, dss_default_get());
	h->arena_ind = arena_ind;
	h->shown_ind = shown_ind;
	ehooks_set(h, table != NULL ? table : &ehooks_system);
}

bool
ehooks_can_split(const ehooks_t *h) {
	return ehooks_get(h)->split != NULL;
}

bool
ehooks_can_merge(const ehooks_t *h) {
	return ehooks_get(h)->merge != NULL;
}

bool
ehooks_has_refused_split(const ehooks_t *h) {
	return atomic_load_b(&h->refused_split, MO_RELAXED);
}

/* ------------------------------------------------------------------ the user's */

/*
 * tls_s.hook_arena is 0 if this thread is in no hook, 1 + shown_ind of the arena whose hook it is
 * in, or this value: a hook of one arena has made the library call a hook of another arena.
 */
#define HOOKS_OF_SEVERAL UINT32_MAX

/* What call_end() sets again: the token of ehooks_begin(), and hook_arena before the call. */
typedef struct {
	uint32_t token;
	uint32_t hook_arena;
} call_t;

/*
 * Called before each call of a user's hook; the result is for call_end(), after the hook. Hooks see
 * the index shown_ind: that of a hidden arena (of samples) is not known to the user.
 */
static call_t
call_begin(const ehooks_t *h) {
	struct tls_s *t = tls_get();
	/* A user's hook may do anything, so no lock that has a rank (os/witness.h) may be held. */
	assert(witness_depth_from(WITNESS_RANK_OMIT) == 0);
	assert(t->gate_depth > 0);
	call_t call = {ehooks_begin != NULL ? ehooks_begin() : 0, t->hook_arena};
	bool is_only = t->hook_arena == 0 || t->hook_arena == h->shown_ind + 1;
	t->hook_arena = is_only ? h->shown_ind + 1 : HOOKS_OF_SEVERAL;
	return call;
}

static void
call_end(call_t call) {
	assert(witness_depth_from(WITNESS_RANK_OMIT) == 0);
	tls_get()->hook_arena = call.hook_arena;
	if (ehooks_end != NULL) {
		ehooks_end(call.token);
	}
}

bool
ehooks_may_be_calling(unsigned arena_ind) {
	uint32_t of = tls_get()->hook_arena;
	return of == HOOKS_OF_SEVERAL || of == arena_ind + 1;
}

/*
 * Calls a hook that answers whether it refuses: err becomes 0, EAGAIN: it refused, or EOPNOTSUPP:
 * it is NULL. The table is read once, as another thread may set one meanwhile.
 */
#define CALL_HOOK(h, err, member, ...) do { \
	ehooks_table_t *table_ = ehooks_get(h); \
	(err) = EOPNOTSUPP; \
	if (table_->member != NULL) { \
		call_t call_ = call_begin(h); \
		(err) = table_->member(table_, __VA_ARGS__, (h)->shown_ind) ? EAGAIN : 0; \
		call_end(call_); \
	} \
} while (0)

void *
ehooks_custom_alloc(ehooks_t *h, size_t size, size_t alignment, bool *zero, bool *commit) {
	ehooks_table_t *table = ehooks_get(h);
	call_t call = call_begin(h);
	void *p = table->alloc(table, NULL, size, alignment, zero, commit, h->shown_ind);
	call_end(call);
	if (((uintptr_t)p & (max_zu(alignment, PAGE) - 1)) != 0) {
		/* The address is misaligned. It is lost if the dalloc hook is NULL or refuses. */
		ehooks_custom_dalloc(h, p, size, *commit);
		return NULL;
	}
	return p;
}

int
ehooks_custom_dalloc(ehooks_t *h, void *addr, size_t size, bool is_committed) {
	int err;
	CALL_HOOK(h, err, dalloc, addr, size, is_committed);
	return err;
}

void
ehooks_custom_destroy(ehooks_t *h, void *addr, size_t size, bool is_committed) {
	ehooks_table_t *table = ehooks_get(h);
	if (table->destroy != NULL) {
		call_t call = call_begin(h);
		table->destroy(table, addr, size, is_committed, h->shown_ind);
		call_end(call);
	}
}

/* The four hooks that act on the contents of a range are called for a whole extent. */
#define CUSTOM_RANGE(member) \
int \
ehooks_custom_##member(ehooks_t *h, void *addr, size_t size) { \
	int err; \
	CALL_HOOK(h, err, member, addr, size, 0, size); \
	return err; \
}
CUSTOM_RANGE(commit)
CUSTOM_RANGE(decommit)
CUSTOM_RANGE(purge_lazy)
CUSTOM_RANGE(purge_forced)

int
ehooks_custom_split(ehooks_t *h, void *addr, size_t size, size_t size_a, bool is_committed) {
	int err;
	assert(size_a > 0 && size_a < size);
	CALL_HOOK(h, err, split, addr, size, size_a, size - size_a, is_committed);
	if (err != EOPNOTSUPP) {
		atomic_store_b(&h->refused_split, err != 0, MO_RELAXED);
	}
	return err;
}

int
ehooks_custom_merge(ehooks_t *h, void *addr_a, size_t size_a, void *addr_b, size_t size_b,
    bool is_committed) {
	int err;
	assert((char *)addr_a + size_a == addr_b);
	CALL_HOOK(h, err, merge, addr_a, size_a, addr_b, size_b, is_committed);
	return err;
}
