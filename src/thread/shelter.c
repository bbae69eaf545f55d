/*
 * Regions of 4 MiB with a cursor, and free pieces by power of two.  The first region is made before
 * the gate closes; more are made at the closed gate, with descriptors put aside for that, because
 * then no lock may be taken that a child would inherit held.
 */
#include "thread/shelter.h"

#include "arena/arena.h"
#include "meta/base.h"
#include "os/gate.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "os/witness.h"

#define SHELTER_BYTES ((size_t)4 << 20)
#define SHELTER_HEADER ((size_t)16)
#define SHELTER_LARGE_MAX ((size_t)1 << 40)

HIDDEN atomic_p_t shelter_deferred;

#define SHELTER_LG_MIN 4u
#define SHELTER_NCLASSES 18u       /* 16 bytes .. 2 MiB */
#define SHELTER_NSPARES 32u

typedef struct shelter_piece_s {
	struct shelter_piece_s *next;
} shelter_piece_t;

static struct {
	/* A signal handler that interrupted its holder sees that it is the owner, and does without it. */
	mutex_t mtx;
	char *cursor;
	char *end;
	shelter_piece_t *pieces[SHELTER_NCLASSES];
	edata_t *spares[SHELTER_NSPARES]; /* filled inside the gate, used at the closed one */
	unsigned n_spares;
} shelter = {.mtx = MUTEX_INITIALIZER("shelter", WITNESS_RANK_OMIT)};

/* A new region of whole pages. */
static char *
shelter_region_locked(size_t bytes) {
	edata_t *e = shelter.n_spares == 0 ? NULL : shelter.spares[shelter.n_spares - 1];
	bool commit = true;
	char *p = e == NULL ? NULL : pages_map(NULL, bytes, PAGE, &commit);
	if (p == NULL) {
		return NULL;
	}
	if (emap_reserve(p, bytes) != 0) {
		pages_unmap_in_time(p, bytes);
		return NULL;
	}
	shelter.n_spares--;
	edata_init(e, p, bytes, true, true);
	e->state = extent_state_shelter;
	e->is_slab = true; /* every granule of it is to be found */
	emap_set_slab(e);
	arena_mark_slow_sized_free(p, bytes);
	return p;
}

/* 0 or ENOMEM. */
static int
shelter_make_locked(void) {
	char *p = shelter_region_locked(SHELTER_BYTES);
	if (p == NULL) {
		return ENOMEM;
	}
	shelter.cursor = p;
	shelter.end = p + SHELTER_BYTES;
	return 0;
}

static void
shelter_spares_fill_locked(void) {
	while (shelter.n_spares < SHELTER_NSPARES) {
		edata_t *e = base_alloc_edata(base_b0(), sizeof(edata_t), EDATA_ALIGN);
		if (e == NULL) {
			return;
		}
		shelter.spares[shelter.n_spares++] = e;
	}
}

void
shelter_prepare(void) {
	struct tls_s *t = tls_get();
	/* A signal handler that forks may have interrupted this thread where it holds a lock, perhaps this one. */
	if (gate_is_entered(t) || mutex_is_owner(&shelter.mtx)) {
		return;
	}
	gate_enter(t);
	mutex_lock(&shelter.mtx);
	shelter_spares_fill_locked();
	if ((size_t)(shelter.end - shelter.cursor) < SHELTER_BYTES / 2) {
		shelter_make_locked();
	}
	mutex_unlock(&shelter.mtx);
	gate_exit(t);
}

void
shelter_postfork_child(void) {
	mutex_renew_in_child(&shelter.mtx, "shelter", WITNESS_RANK_OMIT);
	shelter.cursor = NULL;
	shelter.end = NULL;
	shelter.n_spares = 0;
	memset(shelter.pieces, 0, sizeof(shelter.pieces));
}

/* The gate is open to this thread, which is inside: no fork begins, locks may be taken that it does not hold. */
void *
shelter_malloc_interrupted(size_t size, size_t alignment) {
	assert(gate_is_entered(tls_get()));
	if (shelter.n_spares == 0 && !mutex_is_owner(&shelter.mtx) && !mutex_is_owner(&base_b0()->mtx)) {
		mutex_lock(&shelter.mtx);
		shelter_spares_fill_locked();
		mutex_unlock(&shelter.mtx);
	}
	return shelter_malloc(size, alignment);
}

static unsigned
shelter_class(size_t size) {
	unsigned lg = lg_ceil_zu(size);
	return lg <= SHELTER_LG_MIN ? 0 : lg - SHELTER_LG_MIN;
}

/* From the cursor, the header before it. */
static void *
shelter_carve_locked(size_t size, size_t alignment) {
	uintptr_t at = align_up((uintptr_t)shelter.cursor + SHELTER_HEADER, alignment);
	if (shelter.cursor == NULL || at + size > (uintptr_t)shelter.end) {
		return NULL;
	}
	shelter.cursor = (char *)at + size;
	((size_t *)at)[-2] = size;
	return (void *)at;
}

static void *
shelter_reuse_locked(unsigned c, size_t size) {
	shelter_piece_t *p = shelter.pieces[c];
	if (p == NULL) {
		return NULL;
	}
	shelter.pieces[c] = p->next;
	return memset(p, 0, size);
}

/* A region for one object. */
static void *
shelter_malloc_large(size_t size, size_t alignment) {
	if (size > SHELTER_LARGE_MAX || alignment > SHELTER_LARGE_MAX || unlikely(mutex_is_owner(&shelter.mtx))) {
		return NULL;
	}
	mutex_lock(&shelter.mtx);
	char *p = shelter_region_locked(PAGE_CEILING(size + alignment + SHELTER_HEADER));
	mutex_unlock(&shelter.mtx);
	if (p == NULL) {
		return NULL;
	}
	uintptr_t at = align_up((uintptr_t)p + SHELTER_HEADER, alignment);
	((size_t *)at)[-2] = size;
	return (void *)at;
}

void *
shelter_malloc(size_t size, size_t alignment) {
	unsigned c = shelter_class(max_zu(size, 1));
	if (size > SHELTER_BYTES / 2 || alignment > SHELTER_BYTES / 4) {
		return shelter_malloc_large(size, max_zu(alignment, 16));
	}
	assert(c < SHELTER_NCLASSES);
	size = (size_t)1 << (c + SHELTER_LG_MIN);
	if (unlikely(mutex_is_owner(&shelter.mtx))) {
		return NULL;
	}
	mutex_lock(&shelter.mtx);
	void *p = alignment <= 16 ? shelter_reuse_locked(c, size) : NULL;
	if (p == NULL) {
		p = shelter_carve_locked(size, max_zu(alignment, 16));
	}
	if (p == NULL && shelter_make_locked() == 0) {
		p = shelter_carve_locked(size, max_zu(alignment, 16));
	}
	mutex_unlock(&shelter.mtx);
	return p;
}

/* A large object's region goes back to the system, its descriptor to the spares. */
static void
shelter_free_large(const char *ptr) {
	edata_t *e = emap_edata(ptr);
	e->state = extent_state_active;
	emap_clear_slab_interior(e);
	emap_clear_boundary(e);
	pages_unmap_in_time(e->addr, e->size);
	mutex_lock(&shelter.mtx);
	if (shelter.n_spares < SHELTER_NSPARES) {
		shelter.spares[shelter.n_spares++] = e;
	}
	mutex_unlock(&shelter.mtx);
}

void
shelter_free(void *ptr) {
	size_t size = shelter_usize(ptr);
	unsigned c = shelter_class(max_zu(size, 1));
	if (unlikely(mutex_is_owner(&shelter.mtx))) {
		shelter_defer_free(ptr);
		return;
	}
	if (c >= SHELTER_NCLASSES || size != (size_t)1 << (c + SHELTER_LG_MIN)) {
		shelter_free_large(ptr);
		return;
	}
	shelter_piece_t *p = ptr;
	mutex_lock(&shelter.mtx);
	p->next = shelter.pieces[c];
	shelter.pieces[c] = p;
	mutex_unlock(&shelter.mtx);
}

size_t
shelter_usize(const void *ptr) {
	return ((const size_t *)ptr)[-2];
}

void
shelter_defer_free(void *ptr) {
	void *head = atomic_load_p(&shelter_deferred, MO_RELAXED);
	do {
		*(void **)ptr = head;
	} while (!atomic_cas_weak_p(&shelter_deferred, &head, ptr, MO_RELEASE, MO_RELAXED));
}

void *
shelter_take_deferred(void) {
	/* Released too: who finds the list empty sees what its taker did before (imalloc_settle_deferred). */
	return atomic_exchange_p(&shelter_deferred, NULL, MO_ACQ_REL);
}
