/* The look-up of the C library where it has one, else a table of our own, in two states. */
#include "os/objects.h"

#include <dlfcn.h>

#include "os/sys.h"
#include "util/assert.h"
#include "util/atomic.h"

#define N_MODULES 512

struct module_s {
	atomic_zu_t start;
	atomic_zu_t end;
	atomic_p_t hdr;
};

/* One state of the table of objects; `changes` is odd while it is written, and moves on with that. */
struct modules_s {
	atomic_u64_t changes;
	atomic_u32_t n;
	struct module_s at[N_MODULES];
};

static LARGE_BSS struct {
	/* The objects at the last refresh, and before. */
	struct modules_s modules[2];
	atomic_u32_t now;
	atomic_b_t is_refreshing;
} objects;

#ifdef DLFO_STRUCT_HAS_EH_DBASE
extern int _dl_find_object(void *pc, struct dl_find_object *result) WEAK;

bool
objects_have_lookup(void) {
	return _dl_find_object != NULL;
}

static bool
look_up_object(uintptr_t pc, const void **hdr) {
	struct dl_find_object o;
	if (_dl_find_object((void *)pc, &o) != 0) {
		return false;
	}
	*hdr = o.dlfo_eh_frame;
	return true;
}
#else
bool
objects_have_lookup(void) {
	return false;
}

static bool
look_up_object(uintptr_t pc, const void **hdr) {
	(void)pc;
	(void)hdr;
	return false;
}
#endif

/* The object in one state of the table; false also if the state changed meanwhile (*is_torn). */
static bool
look_up_module_in(const struct modules_s *t, uintptr_t pc, const void **hdr, bool *is_torn) {
	uint64_t changes = atomic_load_u64(&t->changes, MO_ACQUIRE);
	unsigned n = atomic_load_u32(&t->n, MO_RELAXED);
	bool is_found = false;
	for (unsigned i = 0; i < n && i < N_MODULES && !is_found; i++) {
		uintptr_t start = atomic_load_zu(&t->at[i].start, MO_RELAXED);
		is_found = pc - start < atomic_load_zu(&t->at[i].end, MO_RELAXED) - start;
		*hdr = atomic_load_p(&t->at[i].hdr, MO_RELAXED);
	}
	atomic_fence(MO_ACQUIRE);
	*is_torn = (changes & 1) != 0 || atomic_load_u64(&t->changes, MO_RELAXED) != changes;
	return is_found && !*is_torn;
}

/* A reader may sleep so long that the state it reads is written anew: then it reads the present one. */
static bool
look_up_module(uintptr_t pc, const void **hdr) {
	bool is_found, is_torn = true;
	for (unsigned tries = 0; tries < 4; tries++) {
		unsigned now = atomic_load_u32(&objects.now, MO_ACQUIRE);
		is_found = look_up_module_in(&objects.modules[now], pc, hdr, &is_torn);
		if (!is_torn) {
			return is_found;
		}
	}
	return false;
}

bool
objects_find(uintptr_t pc, const void **hdr) {
	return objects_have_lookup() ? look_up_object(pc, hdr) : look_up_module(pc, hdr);
}

static int
on_module(void *opaque, const struct sys_module_s *m) {
	struct modules_s *t = opaque;
	unsigned i = atomic_load_u32(&t->n, MO_RELAXED);
	/* The half that nobody is sent to while it is filled. */
	assert(t != &objects.modules[atomic_load_u32(&objects.now, MO_RELAXED)]);
	assert(m->start < m->end && (atomic_load_u64(&t->changes, MO_RELAXED) & 1) != 0);
	if (i == N_MODULES) {
		return 1;
	}
	atomic_store_zu(&t->at[i].start, m->start, MO_RELAXED);
	atomic_store_zu(&t->at[i].end, m->end, MO_RELAXED);
	atomic_store_p(&t->at[i].hdr, (void *)(uintptr_t)m->eh_frame_hdr, MO_RELAXED);
	atomic_store_u32(&t->n, i + 1, MO_RELAXED);
	return 0;
}

static void
modules_read(void) {
	unsigned next = 1 - atomic_load_u32(&objects.now, MO_RELAXED);
	struct modules_s *t = &objects.modules[next];
	assert((atomic_load_u64(&t->changes, MO_RELAXED) & 1) == 0);
	atomic_fetch_add_u64(&t->changes, 1, MO_RELAXED);
	atomic_fence(MO_RELEASE);
	atomic_store_u32(&t->n, 0, MO_RELAXED);
	bool is_listed = sys_modules(on_module, t, NULL, 0) >= 0;
	atomic_fetch_add_u64(&t->changes, 1, MO_RELEASE);
	if (is_listed) {
		atomic_store_u32(&objects.now, next, MO_RELEASE);
	}
}

void
objects_refresh(void) {
	if (!objects_have_lookup() && !atomic_exchange_b(&objects.is_refreshing, true, MO_ACQUIRE)) {
		modules_read();
		atomic_store_b(&objects.is_refreshing, false, MO_RELEASE);
	}
}
