/*
 * The user's allocation hooks: a table of four slots, and the calls (alloc_hook.h).
 *
 * Invariant: a slot is read consistently or not at all: its number is odd while it is written, and
 * a reader discards what it read if the number changed. Locks: `alloc_hook`, for writers, inside
 * the gate: a leaf of the ranked locks; under it recall_all() takes that of the gate's list, which
 * has no rank. Readers take none, so a hook may still be running when it has been removed. Called
 * by imalloc.c and irealloc.c for each allocation, free and resize in place while hooks exist, and
 * by ctl_experimental.c.
 */
#include "thread/alloc_hook.h"

#include "os/mutex.h"
#include "os/witness.h"
#include "thread/recall.h"

/*
 * A handle is a number: the index of the slot in HANDLE_SLOT_BITS low bits, and above them the
 * sequence number of the slot, which is another one after each write of its hooks.
 */
#define HANDLE_SLOT_BITS 2
cassert(ALLOC_HOOKS_MAX == 1 << HANDLE_SLOT_BITS);

typedef struct slot_s {
	atomic_u32_t seq; /* sequence number; odd while the slot is being written */
	bool is_taken;    /* protected by the lock */
	alloc_hooks_t hooks;
} slot_t;

static LARGE_BSS struct {
	mutex_t mtx;
	unsigned n; /* slots in use; protected by the lock */
	slot_t slots[ALLOC_HOOKS_MAX];
} alloc_hooks = {.mtx = MUTEX_INITIALIZER("alloc_hook", WITNESS_RANK_LEAF)};

const char alloc_how_names[][ALLOC_HOW_NAME_MAX] = {
#define ALLOC_HOW_NAME(n, name, says) [n] = #name,
	ALLOC_HOWS(ALLOC_HOW_NAME)
#undef ALLOC_HOW_NAME
};

/* ------------------------------------------------------------------ slots */

static void
slot_write_locked(slot_t *p, const alloc_hooks_t *h) {
	mutex_assert_owner(&alloc_hooks.mtx);
	uint32_t seq = atomic_load_u32(&p->seq, MO_RELAXED);
	assert(seq % 2 == 0);
	atomic_store_u32(&p->seq, seq + 1, MO_RELAXED);
	/* A thread that reads one of these values reads the odd number or a later one afterwards. */
	__atomic_store_n(&p->hooks.alloc, h->alloc, MO_RELEASE);
	__atomic_store_n(&p->hooks.dalloc, h->dalloc, MO_RELEASE);
	__atomic_store_n(&p->hooks.expand, h->expand, MO_RELEASE);
	__atomic_store_n(&p->hooks.extra, h->extra, MO_RELEASE);
	atomic_store_u32(&p->seq, seq + 2, MO_RELEASE);
}

/*
 * Copies the slot, whose functions are NULL if it is empty; false if it is, or was meanwhile,
 * written.
 */
static bool
slot_read(const slot_t *p, alloc_hooks_t *h) {
	uint32_t seq = atomic_load_u32(&p->seq, MO_ACQUIRE);
	h->alloc = __atomic_load_n(&p->hooks.alloc, MO_ACQUIRE);
	h->dalloc = __atomic_load_n(&p->hooks.dalloc, MO_ACQUIRE);
	h->expand = __atomic_load_n(&p->hooks.expand, MO_ACQUIRE);
	h->extra = __atomic_load_n(&p->hooks.extra, MO_ACQUIRE);
	return seq % 2 == 0 && atomic_load_u32(&p->seq, MO_RELAXED) == seq;
}

static void *
handle_make(unsigned i) {
	mutex_assert_owner(&alloc_hooks.mtx);
	assert(i < ALLOC_HOOKS_MAX);
	uint32_t seq = atomic_load_u32(&alloc_hooks.slots[i].seq, MO_RELAXED);
	return (void *)((uintptr_t)seq << HANDLE_SLOT_BITS | i);
}

static int
install_locked(const alloc_hooks_t *hooks, void **handle) {
	mutex_assert_owner(&alloc_hooks.mtx);
	for (unsigned i = 0; i < ALLOC_HOOKS_MAX; i++) {
		slot_t *p = &alloc_hooks.slots[i];
		if (!p->is_taken) {
			p->is_taken = true;
			slot_write_locked(p, hooks);
			*handle = handle_make(i);
			return 0;
		}
	}
	return EAGAIN;
}

int
alloc_hook_install(const alloc_hooks_t *hooks, void **handle) {
	mutex_lock(&alloc_hooks.mtx);
	int err = install_locked(hooks, handle);
	if (err == 0 && alloc_hooks.n++ == 0) {
		atomic_store_b(&tsd_no_fast_path, true, MO_SEQ_CST);
		recall_all(RECALL_SETTINGS);
	}
	mutex_unlock(&alloc_hooks.mtx);
	return err;
}

int
alloc_hook_remove(const void *handle) {
	static const alloc_hooks_t none;
	unsigned i = (unsigned)((uintptr_t)handle % ALLOC_HOOKS_MAX);
	slot_t *p = &alloc_hooks.slots[i];
	mutex_lock(&alloc_hooks.mtx);
	int err = p->is_taken && handle == handle_make(i) ? 0 : EINVAL;
	if (err == 0) {
		slot_write_locked(p, &none);
		p->is_taken = false;
		if (--alloc_hooks.n == 0) {
			atomic_store_b(&tsd_no_fast_path, false, MO_SEQ_CST);
			recall_all(RECALL_SETTINGS);
		}
	}
	mutex_unlock(&alloc_hooks.mtx);
	return err;
}

/* ------------------------------------------------------------------ calls */

typedef enum {
	event_alloc,
	event_dalloc,
	event_expand
} event_kind_t;

/* One operation that is reported; the fields are the arguments of the hooks (alloc_hooks_t). */
typedef struct event_s {
	event_kind_t kind;
	alloc_how_t how;
	void *p;
	size_t old_usable;
	size_t usable;
	uintptr_t result;
	uintptr_t args[ALLOC_HOOK_NARGS];
} event_t;

static void
event_call(const event_t *ev, const alloc_hooks_t *h) {
	switch (ev->kind) {
	case event_alloc:
		if (h->alloc != NULL) {
			h->alloc(h->extra, ev->how, ev->p, ev->result, ev->args);
		}
		break;
	case event_dalloc:
		if (h->dalloc != NULL) {
			h->dalloc(h->extra, ev->how, ev->p, ev->args);
		}
		break;
	case event_expand:
		if (h->expand != NULL) {
			h->expand(h->extra, ev->how, ev->p, ev->old_usable, ev->usable, ev->result, ev->args);
		}
		break;
	}
}

/* Calls the hooks of all slots for one operation. What they allocate or free is not reported. */
static void
event_show(const event_t *ev) {
	assert(ev->p != NULL && ev->how < ARRAY_LEN(alloc_how_names));
	struct tls_s *t = tls_get();
	int saved = errno;
	assert(!gate_is_entered(t) && t->inside == 0 && witness_depth_from(WITNESS_RANK_INIT) == 0);
	t->inside++;
	for (unsigned i = 0; i < ALLOC_HOOKS_MAX; i++) {
		alloc_hooks_t h;
		if (slot_read(&alloc_hooks.slots[i], &h)) {
			event_call(ev, &h);
		}
	}
	t->inside--;
	errno = saved;
}

void
alloc_hook_alloc(alloc_how_t how, void *p, size_t size, size_t alignment, bool zero) {
	event_t ev = {.kind = event_alloc, .how = how, .p = p, .args = {size, alignment, zero}};
	ev.result = how == alloc_how_posix_memalign ? 0 : (uintptr_t)p;
	event_show(&ev);
}

void
alloc_hook_dalloc(alloc_how_t how, void *p, size_t usable) {
	event_t ev = {.kind = event_dalloc, .how = how, .p = p, .args = {usable}};
	event_show(&ev);
}

void
alloc_hook_expand(alloc_how_t how, void *p, size_t old_usable, size_t usable, size_t size,
    size_t alignment, bool zero) {
	event_t ev = {.kind = event_expand, .how = how, .p = p, .old_usable = old_usable,
	    .usable = usable,
	    .args = {size, alignment, zero}};
	ev.result = how == alloc_how_xallocx ? usable : (uintptr_t)p;
	event_show(&ev);
}
