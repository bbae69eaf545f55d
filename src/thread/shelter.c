/* One region at a time; a new one when the old is half used at the next fork. */
#include "thread/shelter.h"

#include "arena/arena.h"
#include "meta/base.h"
#include "os/gate.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "os/witness.h"

#define SHELTER_BYTES ((size_t)4 << 20)
#define SHELTER_HEADER ((size_t)16)

HIDDEN atomic_p_t shelter_deferred;

static struct {
	mutex_t mtx;
	char *cursor;
	char *end;
} shelter = {.mtx = MUTEX_INITIALIZER("shelter", WITNESS_RANK_OMIT)};

/* A new region, mtx and the gate held; 0 or ENOMEM. */
static int
shelter_make_locked(void) {
	bool commit = true;
	char *p = pages_map(NULL, SHELTER_BYTES, PAGE, &commit);
	edata_t *e = p == NULL ? NULL : base_alloc_edata(base_b0(), sizeof(edata_t), EDATA_ALIGN);
	if (e == NULL || emap_reserve(p, SHELTER_BYTES) != 0) {
		if (p != NULL) {
			pages_unmap(p, SHELTER_BYTES);
		}
		return ENOMEM;
	}
	edata_init(e, p, SHELTER_BYTES, true, true);
	e->state = extent_state_shelter;
	e->is_slab = true; /* every granule of it is to be found */
	emap_set_slab(e);
	arena_mark_slow_sized_free(p, SHELTER_BYTES);
	shelter.cursor = p;
	shelter.end = p + SHELTER_BYTES;
	return 0;
}

void
shelter_prepare(void) {
	struct tls_s *t = tls_get();
	/* A signal handler that forks may have interrupted this thread where it holds a lock. */
	if (gate_is_entered(t)) {
		return;
	}
	gate_enter(t);
	mutex_lock(&shelter.mtx);
	if ((size_t)(shelter.end - shelter.cursor) < SHELTER_BYTES / 2) {
		shelter_make_locked();
	}
	mutex_unlock(&shelter.mtx);
	gate_exit(t);
}

void
shelter_postfork_child(void) {
	mutex_init(&shelter.mtx, "shelter", WITNESS_RANK_OMIT);
	shelter.cursor = NULL;
	shelter.end = NULL;
}

void *
shelter_malloc(size_t size, size_t alignment) {
	if (size > SHELTER_BYTES || alignment > SHELTER_BYTES) {
		return NULL;
	}
	alignment = max_zu(alignment, 16);
	size = align_up(max_zu(size, 16), 16);
	void *p = NULL;
	mutex_lock(&shelter.mtx);
	if (shelter.cursor != NULL) {
		uintptr_t at = align_up((uintptr_t)shelter.cursor + SHELTER_HEADER, alignment);
		if (at + size <= (uintptr_t)shelter.end) {
			p = (void *)at;
			shelter.cursor = (char *)at + size;
		}
	}
	mutex_unlock(&shelter.mtx);
	if (p != NULL) {
		((size_t *)p)[-2] = size;
	}
	return p;
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
	return atomic_exchange_p(&shelter_deferred, NULL, MO_ACQUIRE);
}
