/*
 * The records of loaded objects: a linked list that only grows, in the region, so that other
 * programs can read it (meta/image.h). Readers need no lock. Invariant: a record is complete before
 * its address is stored with release order. Writers take turns through the flag history.is_looking,
 * and a writer that finds it set does not wait. Locks: to list the objects takes the loader's, and
 * a new record that of the region. A forked child clears the flag, because the thread that had set
 * it may not exist there, and completes what that thread had begun. module_history.h explains the
 * use and names the callers.
 */
#include "unwind/module_history.h"

#include <sys/auxv.h>

#include "meta/region.h"
#include "os/gate.h"
#include "unwind/frame_scan.h"
#include "unwind/objects.h"
#include "unwind/unwind_rows.h"
#include "util/atomic.h"
#include "util/hash.h"

/* For an object without a build id: only a path shorter than this (bytes) is part of its stamp. */
#define STAMP_PATH_MAX 512

typedef module_record_t record_t;

static LARGE_BSS struct {
	atomic_p_t first; /* first record of the list */
	/*
	 * Set by the thread that may write `first`, the fields from `last` to `loaded`, and records
	 * (all but is_covered, which module_history_gone() writes).
	 */
	atomic_b_t is_looking;
	record_t *last; /* last record of the list */
	atomic_u32_t n; /* number of records, which is the number of the last one; read by all */
	/* The loader's counts of objects loaded and unloaded so far, at the last look. */
	uint64_t adds;
	uint64_t subs;
	bool has_missed; /* the next look must list: a record was not made (gate closed, no memory) */
	bool has_looked; /* the last listing was complete, so `adds` and `subs` count */
	char loaded[4096]; /* scratch: a copy of a path as the loader has it */
} history;

/* The record after r; the first one for NULL. */
static record_t *
record_next(const record_t *r) {
	return atomic_load_p(r == NULL ? &history.first : &r->next, MO_ACQUIRE);
}

/* Bytes of the object's build id that a record keeps: all of them, or 0. */
static uint8_t
kept_build_id(const struct sys_module_s *m) {
	return m->build_id_len <= MODULE_BUILD_ID_MAX ? (uint8_t)m->build_id_len : 0;
}

/*
 * Whether the record is of this object: it has the same range, load bias and path, and as much of
 * the build id as a record keeps.
 */
static bool
is_record_of(const record_t *r, const struct sys_module_s *m) {
	return r->start == m->start && r->end == m->end && r->bias == m->bias
	    && strcmp(r->path, m->path) == 0 && r->build_id_len == kept_build_id(m)
	    && (r->build_id_len == 0 || memcmp(r->build_id, m->build_id, r->build_id_len) == 0);
}

/*
 * Memory for a record with a path of path_len bytes (without the NUL). NULL if there are
 * MODULE_HISTORY_MAX records; NULL, and has_missed is set, if the gate is closed or the region has
 * no memory. The caller has set is_looking. It may hold the loader's lock, for which a thread that
 * forks may wait; so this function does not wait for the gate.
 */
static record_t *
record_new(size_t path_len) {
	struct tls_s *t = tls_get();
	if (atomic_load_u32(&history.n, MO_RELAXED) == MODULE_HISTORY_MAX) {
		return NULL;
	}
	record_t *r = NULL;
	if (gate_try_enter(t)) {
		r = region_alloc(sizeof(record_t) + path_len + 1);
		gate_exit(t);
	}
	history.has_missed = history.has_missed || r == NULL;
	return r;
}

/*
 * Whether the kernel has placed the object that starts here: the loader or the vdso. They stay as
 * long as the process; so what lies in their range lies in a hole between their segments. The vdso
 * itself does so where the loader has a hole of 64 KiB (aarch64).
 */
static bool
is_of_kernel(uintptr_t start) {
	return start == sys_auxval(AT_BASE) || start == sys_auxval(AT_SYSINFO_EHDR);
}

/* Whether an object in this range cannot have been there together with the record's. */
static bool
overlaps(const record_t *r, uintptr_t start, uintptr_t end) {
	return r->start < end && start < r->end
	    && (r->start == start || (!is_of_kernel(r->start) && !is_of_kernel(start)));
}

/*
 * The record that serves for m; NULL: m needs a new one. The last record that overlaps the range of
 * m serves if it is of the same object. From MODULE_HISTORY_ENOUGH records on, an earlier record of
 * the same object serves too. As no new record then says that m is there again, a profile may take
 * frames of m for those of the object between, or the reverse, and the rows of that object stay
 * cached until a look sees that it was unloaded. *is_taken: there is a record that
 * overlaps the range of m.
 */
static const record_t *
record_find(const struct sys_module_s *m, bool *is_taken) {
	const record_t *last = NULL, *same = NULL;
	for (const record_t *r = record_next(NULL); r != NULL; r = record_next(r)) {
		last = overlaps(r, m->start, m->end) ? r : last;
		same = is_record_of(r, m) ? r : same;
	}
	*is_taken = last != NULL;
	bool is_enough = atomic_load_u32(&history.n, MO_RELAXED) >= MODULE_HISTORY_ENOUGH;
	return last == same || is_enough ? same : NULL;
}

/*
 * Records an object that has no record yet. The caller has set is_looking. An object with an empty
 * path is the program, which is never unloaded and so not recorded: sys_modules() reports it by the
 * path that its caller passes, which is "" except in module_history_look_program(). Returns 0, so
 * that a listing goes on.
 */
static int
note_module(void *ctx UNUSED, const struct sys_module_s *m) {
	bool is_taken;
	assert(m->start < m->end);
	if (m->path[0] == '\0' || record_find(m, &is_taken) != NULL) {
		return 0;
	}
	if (is_taken) {
		unwind_rows_forget(); /* cached rows describe the object that was there before */
	}
	record_t *r = record_new(strlen(m->path));
	if (r == NULL) {
		return 0;
	}
	r->start = m->start;
	r->end = m->end;
	r->bias = m->bias;
	r->build_id_len = kept_build_id(m);
	if (r->build_id_len > 0) {
		memcpy(r->build_id, m->build_id, r->build_id_len);
	}
	strcpy(r->path, m->path);
	r->number = atomic_load_u32(&history.n, MO_RELAXED) + 1;
	atomic_store_p(history.last == NULL ? &history.first : &history.last->next, r, MO_RELEASE);
	if (history.last == NULL) {
		__atomic_store_n(&region_root()->modules, (uintptr_t)r, MO_RELEASE);
	}
	history.last = r;
	atomic_store_u32(&history.n, r->number, MO_RELEASE);
	return 0;
}

bool
module_history_try_hold(void) {
	return !atomic_exchange_b(&history.is_looking, true, MO_ACQUIRE);
}

void
module_history_release(void) {
	atomic_store_b(&history.is_looking, false, MO_RELEASE);
}

/*
 * The thread that had set is_looking may have linked a record and not yet have set `last` and n:
 * this is completed here. It may not have come to all objects of its look: those that are missing
 * are recorded at the next look, which has_missed asks for.
 */
void
module_history_postfork_child(void) {
	if (!atomic_load_b(&history.is_looking, MO_RELAXED)) {
		return;
	}
	for (record_t *r = record_next(history.last); r != NULL; r = record_next(r)) {
		if (history.last == NULL) {
			__atomic_store_n(&region_root()->modules, (uintptr_t)r, MO_RELEASE);
		}
		history.last = r;
	}
	if (history.last != NULL) {
		atomic_store_u32(&history.n, history.last->number, MO_RELEASE);
	}
	history.has_missed = true;
	unwind_rows_forget();
	module_history_release();
}

/* Shows an object to all who keep lists; sets *must_forget if frame_scan_look() scanned it. */
static int
look_at(void *must_forget, const struct sys_module_s *m) {
	objects_list_add(m);
	*(bool *)must_forget |= frame_scan_look(m);
	return note_module(NULL, m);
}

bool
module_history_try_look(void) {
	uint64_t adds, subs;
	bool is_known = sys_module_changes(&adds, &subs);
	if (!module_history_try_hold()) {
		return false;
	}
	frame_scan_begin();
	bool must_forget = !is_known || subs != history.subs;
	if (must_forget || !history.has_looked || history.has_missed || adds != history.adds) {
		history.has_missed = false;
		objects_list_begin();
		history.has_looked = sys_modules(look_at, &must_forget, "") >= 0;
		objects_list_end(history.has_looked);
		history.adds = adds;
		history.subs = subs;
	}
	if (must_forget) {
		unwind_rows_forget();
	}
	module_history_release();
	return true;
}

const module_record_t *
module_history_look_program(const char *exe) {
	const record_t *program = NULL;
	uintptr_t at = (uintptr_t)sys_auxval(AT_PHDR);
	assert(atomic_load_b(&history.is_looking, MO_RELAXED));
	sys_modules(note_module, NULL, exe);
	for (const record_t *r = record_next(NULL); r != NULL; r = record_next(r)) {
		program = at - r->start < r->end - r->start ? r : program;
	}
	return program;
}

/* Marks the records of places where an object is loaded now. */
static int
cover_module(void *ctx UNUSED, const struct sys_module_s *m) {
	for (record_t *r = record_next(NULL); r != NULL; r = record_next(r)) {
		r->is_covered = r->is_covered || overlaps(r, m->start, m->end);
	}
	return 0;
}

/* Whether a later record, up to number `now`, overlaps this one. */
static bool
is_shadowed(const record_t *r, uint32_t now) {
	for (const record_t *later = record_next(r); later != NULL && later->number <= now;
	    later = record_next(later)) {
		if (overlaps(later, r->start, r->end)) {
			return true;
		}
	}
	return false;
}

/*
 * Start of the range that a profile shows in place of the true one of r, if a later object was
 * loaded there (meta/image.h).
 */
static uint64_t
shadow_of(const record_t *r) {
	return IMAGE_SHADOW_BASE + ((uint64_t)r->number << IMAGE_LG_SHADOW_SPAN);
}

int
module_history_gone(int (*cb)(void *ctx, const struct sys_module_s *m), void *ctx, uint32_t now) {
	for (record_t *r = record_next(NULL); r != NULL; r = record_next(r)) {
		r->is_covered = false;
	}
	sys_modules(cover_module, NULL, "");
	int ret = 0;
	for (record_t *r = record_next(NULL); r != NULL && ret == 0; r = record_next(r)) {
		struct sys_module_s m = {.start = r->start, .end = r->end, .bias = r->bias,
			.build_id = r->build_id, .build_id_len = r->build_id_len, .path = r->path};
		bool is_elsewhere = is_shadowed(r, now);
		if (is_elsewhere) {
			m.start = (uintptr_t)shadow_of(r);
			m.end = m.start + (r->end - r->start);
			m.bias = m.start + (r->bias - r->start);
		}
		if (!r->is_covered || is_elsewhere) {
			ret = cb(ctx, &m);
		}
	}
	return ret;
}

/* ---- the object at an address ---- */

uint32_t
module_history_last(void) {
	return atomic_load_u32(&history.n, MO_ACQUIRE);
}

bool
module_history_has_shadows(uint32_t now) {
	for (const record_t *r = record_next(NULL); r != NULL && r->number < now; r = record_next(r)) {
		if (is_shadowed(r, now)) {
			return true;
		}
	}
	return false;
}

uint64_t
module_history_place(uintptr_t addr, uint32_t then, uint32_t now) {
	const record_t *at = NULL;
	uintptr_t call = addr - 1; /* a return address may be behind the end of its object */
	for (const record_t *r = record_next(NULL); r != NULL && r->number <= then;
	    r = record_next(r)) {
		at = call - r->start < r->end - r->start ? r : at;
	}
	return at != NULL && is_shadowed(at, now) ? shadow_of(at) + (addr - at->start) : addr;
}

/*
 * Whether an object is never unloaded: the program, this library, the C library, and others that
 * were there at the start, which is not known of a program that was run by the loader (ld.so FILE).
 */
static bool
stays(const struct object_place_s *o) {
	const uintptr_t places[] = {(uintptr_t)sys_auxval(AT_PHDR), (uintptr_t)&history,
		(uintptr_t)&getauxval};
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		if (places[i] - o->start < o->end - o->start) {
			return true;
		}
	}
	return objects_is_of_start(o);
}

/*
 * Calls fn for each object that may be unloaded and in which frames lie: once for each run of
 * adjacent frames in the same object.
 */
static void
for_each_unloadable(void *const *frames, unsigned n,
    void (*fn)(void *ctx, const struct sys_module_s *m), void *ctx) {
	struct object_place_s o = {.start = 0};
	struct sys_module_s m;
	unsigned char build_id[SYS_BUILD_ID_MAX];
	for (unsigned i = 0; i < n; i++) {
		uintptr_t pc = (uintptr_t)frames[i] - 1;
		if (pc - o.start >= o.end - o.start && objects_place(pc, &o) && !stays(&o)
		    && objects_describe(&o, &m, build_id)) {
			fn(ctx, &m);
		}
	}
}

/* Mixes what identifies an object, its range and its build id or path, into the hash *ctx. */
static void
add_identity(void *ctx, const struct sys_module_s *m) {
	uint64_t *h = ctx;
	uint64_t one = hash_mix64(m->start ^ m->end << 20);
	char path[STAMP_PATH_MAX];
	if (m->build_id_len > 0) {
		one = hash64(m->build_id, m->build_id_len, one);
	} else if (sys_copy_text(path, m->path, sizeof(path))) {
		one = hash64(path, strlen(path), one);
	}
	*h = hash_mix64(*h ^ one);
}

uint32_t
module_history_stamp(void *const *frames, unsigned n) {
	uint64_t h = 0;
	for_each_unloadable(frames, n, add_identity, &h);
	return h == 0 ? 0 : (uint32_t)h | 1;
}

/* Records an object; its path, the loader's text, is copied first because it may disappear. */
static void
note_unloadable(void *ctx UNUSED, const struct sys_module_s *m) {
	struct sys_module_s named = *m;
	named.path = history.loaded;
	if (sys_copy_text(history.loaded, m->path, sizeof(history.loaded))) {
		note_module(NULL, &named);
	}
}

uint32_t
module_history_note(void *const *frames, unsigned n) {
	/*
	 * Another thread holds is_looking, for a short time or, to move the records (prof_box.c),
	 * until nobody is in the gate; as this thread is in it, it does not wait. If all tries fail,
	 * these objects are recorded at the next look, if they are still loaded: without a record
	 * they were loaded after the last look, so the loader's count of loaded objects has changed
	 * since (or there is no room for more records).
	 */
	for (unsigned tries = 0; tries < 100; tries++) {
		if (module_history_try_hold()) {
			for_each_unloadable(frames, n, note_unloadable, NULL);
			module_history_release();
			break;
		}
	}
	return module_history_last();
}
