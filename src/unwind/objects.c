/*
 * Finds the object at an address by the C library's look-up (_dl_find_object), or by a linear
 * search in a table of our own, which is listed again when objects were loaded or unloaded. The
 * table exists in two copies: readers use the current one while the other is filled. A copy's
 * counter of changes is odd while it is written, so a reader can tell that it read a mixture (a
 * seqlock). No lock: module_history.c, which lists, lets one thread at a time do so. The chain of
 * the objects of the start is read without the loader's lock. objects.h names the callers.
 */
#include "unwind/objects.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

#include "os/sys.h"
#include "util/atomic.h"

/* Objects in the table; further ones are not found. */
#define N_MODULES 512

/* One object: its range of addresses and its .eh_frame_hdr. */
struct module_s {
	atomic_zu_t start;
	atomic_zu_t end; /* behind its last address */
	atomic_p_t hdr;  /* NULL: it has none */
};

/* One copy of the table. changes is odd while the copy is written, and differs afterwards. */
struct modules_s {
	atomic_u64_t changes;
	atomic_u32_t n; /* objects in it */
	struct module_s at[N_MODULES];
};

static LARGE_BSS struct {
	/* The copies; `now` is the index of the current one. */
	struct modules_s modules[2];
	atomic_u32_t now;
} objects;

/*
 * The last of the objects that the loader placed when the process started; NULL: not known. They
 * are at the front of its chain, which gets later ones at its end. They are never unloaded, so
 * their descriptions and the pointers between these stay. Set at boot.
 */
static const struct link_map *first_end;

#ifdef DLFO_STRUCT_HAS_EH_DBASE
/* Weak: a program may be linked with an older C library than the one it was compiled with. */
extern int _dl_find_object(void *pc, struct dl_find_object *result) WEAK;

/* Whether the C library has a look-up that takes no lock, and this library was compiled for it. */
static bool
have_lookup(void) {
	return _dl_find_object != NULL;
}

bool
objects_place(uintptr_t pc, struct object_place_s *place) {
	struct dl_find_object o;
	if (!have_lookup() || _dl_find_object((void *)pc, &o) != 0) {
		return false;
	}
	*place = (struct object_place_s){(uintptr_t)o.dlfo_map_start,
	    (uintptr_t)o.dlfo_map_end, o.dlfo_link_map, o.dlfo_eh_frame};
	return true;
}

bool
objects_describe(const struct object_place_s *place, struct sys_module_s *m,
    unsigned char *build_id) {
	struct link_map l;
	if (!sys_copy_memory(&l, place->entry, sizeof(l))) {
		return false;
	}
	*m = (struct sys_module_s){.bias = l.l_addr, .path = l.l_name};
	return sys_module_of_image(m, place->start, place->end, build_id);
}
#else
static bool
have_lookup(void) {
	return false;
}

bool
objects_place(uintptr_t pc UNUSED, struct object_place_s *place UNUSED) {
	return false;
}

bool
objects_describe(const struct object_place_s *place UNUSED, struct sys_module_s *m UNUSED,
    unsigned char *build_id UNUSED) {
	return false;
}
#endif

/* Where the dynamic section of this library is, or of the program that it is linked into. */
extern ElfW(Dyn) _DYNAMIC[] WEAK HIDDEN;

/*
 * The loader itself is one of the first objects. If this library comes before it in the chain, it
 * is one of them too. Then no object was opened before boot, because that allocates; and they are
 * all that there are.
 */
void
objects_boot(void) {
	const struct link_map *l = sys_module_chain();
	uintptr_t loader = (uintptr_t)sys_auxval(AT_BASE);
	if (l == NULL || loader == 0) {
		return;
	}
	while (l->l_next != NULL && l->l_ld != _DYNAMIC && l->l_addr != loader) {
		l = l->l_next;
	}
	bool is_whole = l->l_ld == _DYNAMIC;
	while (is_whole && l->l_next != NULL) {
		l = l->l_next;
	}
	first_end = is_whole || l->l_addr == loader ? l : NULL;
}

bool
objects_is_of_start(const struct object_place_s *place) {
	const struct link_map *l = first_end == NULL ? NULL : sys_module_chain();
	while (l != NULL && l != place->entry) {
		l = l == first_end ? NULL : l->l_next;
	}
	return l != NULL;
}

/*
 * Finds the object in one copy of the table. Returns false also if the copy changed during the
 * search (*is_torn).
 */
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

/*
 * A reader may be suspended for so long that the copy it reads is written again; then it searches
 * the current copy, up to 4 times in all.
 */
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
	struct object_place_s place = {.hdr = NULL};
	if (!have_lookup()) {
		return look_up_module(pc, hdr);
	}
	bool is_found = objects_place(pc, &place);
	*hdr = place.hdr;
	return is_found;
}

/* The copy that is not current, or is being written. */
static struct modules_s *
other_copy(void) {
	return &objects.modules[1 - atomic_load_u32(&objects.now, MO_RELAXED)];
}

void
objects_list_begin(void) {
	struct modules_s *t = other_copy();
	if (!have_lookup()) {
		/* In a forked child it may be odd already, as a thread that is not there was here. */
		atomic_store_u64(&t->changes, atomic_load_u64(&t->changes, MO_RELAXED) | 1, MO_RELAXED);
		atomic_fence(MO_RELEASE);
		atomic_store_u32(&t->n, 0, MO_RELAXED);
	}
}

void
objects_list_add(const struct sys_module_s *m) {
	struct modules_s *t = other_copy();
	unsigned i = atomic_load_u32(&t->n, MO_RELAXED);
	if (have_lookup() || i == N_MODULES) {
		return;
	}
	assert(m->start < m->end && (atomic_load_u64(&t->changes, MO_RELAXED) & 1) != 0);
	atomic_store_zu(&t->at[i].start, m->start, MO_RELAXED);
	atomic_store_zu(&t->at[i].end, m->end, MO_RELAXED);
	atomic_store_p(&t->at[i].hdr, (void *)(uintptr_t)m->eh_frame_hdr, MO_RELAXED);
	atomic_store_u32(&t->n, i + 1, MO_RELAXED);
}

void
objects_list_end(bool is_whole) {
	if (have_lookup()) {
		return;
	}
	atomic_fetch_add_u64(&other_copy()->changes, 1, MO_RELEASE);
	if (is_whole) {
		atomic_store_u32(&objects.now, 1 - atomic_load_u32(&objects.now, MO_RELAXED), MO_RELEASE);
	}
}
