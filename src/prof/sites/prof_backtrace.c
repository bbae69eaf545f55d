/*
 * Takes backtraces for samples: calls the unwinder (or the user's backtrace hook), drops the frames
 * of the allocator, and checks in the first stacks that the unwinder works.
 *
 * Invariant: td->busy is set from a successful prof_backtrace() to prof_backtrace_done(). So a free
 * in a hook of the user, which may run in between outside the gate, does not overwrite td->frames.
 * (No sample is taken there, as tls_s.inside is raised.) Locks: none of its own; a compare-and-swap
 * chooses the thread that boots. Booting and looking for loaded objects take the loader's lock,
 * outside the gate (os/gate.h): a thread that holds it may fork, and then waits for all that are
 * inside. Called by prof.c for samples, frees, heartbeats, the constructor, in a forked child; by
 * prof_session.c and prof_listen.c to prepare, and by prof_dump.c and prof_course.c for
 * prof_backtrace_ncut().
 */
#include "prof/sites/prof_backtrace.h"

#include <elf.h>
#include <sys/auxv.h>

#include "meta/freepool.h"
#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/nstime.h"
#include "os/sys.h"
#include "prof/sites/prof_hook.h"
#include "prof/sites/prof_root.h"
#include "unwind/frame_scan.h"
#include "unwind/module_history.h"
#include "unwind/unwind.h"

/* Frames of the allocator that may be read in addition to opt_prof_bt_max frames of the user. */
#define OWN_FRAMES_MAX 31

/* Bounds of the section with our code; the linker defines them in static archives only. */
extern const char __start_jemalloc_text[] WEAK HIDDEN;
extern const char __stop_jemalloc_text[] WEAK HIDDEN;
/* Start and end of the object that this code was linked into. */
extern const char __ehdr_start[] WEAK HIDDEN;
extern const char etext[] WEAK HIDDEN;

/* Marks (one per frame) that a thread's memo has room for at first; deeper stacks double it. */
#define MEMO_ROOM_FIRST 32

/*
 * Number of stacks, the first of the process, that the self-test examines; one of them must have
 * more than SELF_TEST_DEPTH frames without those of the allocator.
 */
#define SELF_TEST_STACKS 64
#define SELF_TEST_DEPTH 2
/* Type of the ELF note, owner "Go", that Go's linker puts into each program. */
#define GO_NOTE_BUILD_ID 4u
/* Time in ns between two looks for loaded and unloaded objects, if heartbeats come as often. */
#define REFRESH_NS NSTIME_PER_SEC

typedef enum {
	boot_not_yet,
	boot_running,
	boot_done
} boot_state_t;

cassert(boot_not_yet == 0);
cassert(SELF_TEST_DEPTH < OWN_FRAMES_MAX && MEMO_ROOM_FIRST <= OWN_FRAMES_MAX + 1);

static struct {
	uintptr_t own_start;   /* range of the allocator's code; empty: not known */
	uintptr_t own_end;
	atomic_u32_t boot;     /* a boot_state_t */
	uint32_t booter;       /* mutex_self() of the thread that boots or has booted; 0: none yet */
	atomic_u64_t ncut;     /* backtraces that were cut off at prof_bt_max */
	atomic_u32_t ntested;  /* number of stacks in the self-test; it ends at SELF_TEST_STACKS */
	atomic_b_t is_deep;    /* one of these stacks was deep enough */
	atomic_b_t is_judged;  /* the self-test was evaluated */
	atomic_u64_t refreshed_ns; /* coarse monotonic time of the last refresh; 0: none */
} backtrace;

bool prof_backtrace_is_constructed;

/* Whether the allocator is linked into the executable, whose text then is not only ours. */
static bool
is_in_program(uintptr_t ehdr) {
	return sys_auxval(AT_PHDR) - ehdr == sizeof(Elf64_Ehdr);
}

/* Finds the range of the allocator's code, as prof_backtrace.h describes. */
static void
learn_own_text(void) {
	if (__start_jemalloc_text != NULL) {
		backtrace.own_start = (uintptr_t)__start_jemalloc_text;
		backtrace.own_end = (uintptr_t)__stop_jemalloc_text;
	} else if (__ehdr_start != NULL && !is_in_program((uintptr_t)__ehdr_start)) {
		backtrace.own_start = (uintptr_t)__ehdr_start;
		backtrace.own_end = (uintptr_t)etext;
	}
}

/* Sets opt.prof_unwind to the method in use, unless that is "none", and tells the root its name. */
static void
method_note(void) {
	prof_root_unwinder_set(unwind_name());
	for (unsigned i = 0; prof_unwind_names[i] != NULL; i++) {
		if (strcmp(prof_unwind_names[i], unwind_name()) == 0) {
			opt_prof_unwind = (prof_unwind_t)i;
		}
	}
}

/* Finds the range of our own code, and selects the method that prof_unwind names. */
static void
backtrace_boot(void) {
	learn_own_text();
	int err = unwind_select(prof_unwind_names[opt_prof_unwind]);
	if (err != 0 && opt_prof_unwind != prof_unwind_auto) {
		malloc_printf("<jemalloc>: prof_unwind:%s is not available, using auto\n",
		    prof_unwind_names[opt_prof_unwind]);
		err = unwind_select("auto");
	}
	assert(backtrace.own_start <= backtrace.own_end);
	if (err != 0) {
		malloc_write("<jemalloc>: no way to take backtraces, profiles will have no stacks\n");
	}
	method_note();
}

unsigned
prof_backtrace_nown(void *const *vec, unsigned len, uintptr_t start, uintptr_t end) {
	assert(start <= end);
	unsigned own = 0;
	while (own < len && (uintptr_t)vec[own] - start < end - start) {
		own++;
	}
	return own == len && len > 0 ? len - 1 : own;
}

/*
 * A static program allocates before it can be unwound, because its unwind tables are registered by
 * its constructors. With a dynamic loader they are in place from the first call; AT_BASE is set
 * then, unless the command names the loader.
 */
static bool
can_unwind(void) {
	return prof_backtrace_is_constructed || sys_auxval(AT_BASE) != 0
	    || sys_is_run_by_loader();
}

/*
 * Boots unless that is done; false if it is not possible yet or another thread is doing it. A first
 * backtrace that comes before prof_backtrace_prepare() leaves the gate for it; a nested one, which
 * is more than one level deep in the gate, cannot.
 */
static bool
try_boot(void) {
	uint32_t state = atomic_load_u32(&backtrace.boot, MO_ACQUIRE);
	if (state == boot_done) {
		return true;
	}
	state = boot_not_yet;
	struct tls_s *t = tls_get();
	if (!can_unwind() || t->gate_depth > 1
	    || !atomic_cas_strong_u32(&backtrace.boot, &state, boot_running, MO_ACQUIRE, MO_RELAXED)) {
		return false;
	}
	uint32_t depth = gate_leave_all(t);
	backtrace.booter = mutex_self();
	backtrace_boot();
	assert(atomic_load_u32(&backtrace.boot, MO_RELAXED) == boot_running);
	gate_reenter(t, depth);
	atomic_store_u32(&backtrace.boot, boot_done, MO_RELEASE);
	return true;
}

void
prof_backtrace_prepare(void) {
	assert(tls_get()->gate_depth == 0 && tls_get()->inside > 0);
	(void)try_boot();
}

bool
prof_backtrace_has_begun(void) {
	return atomic_load_u32(&backtrace.boot, MO_ACQUIRE) != boot_not_yet;
}

/* The thread that boots may not exist in the child; then the child's first sample boots again. */
void
prof_backtrace_postfork_child(void) {
	if (atomic_load_u32(&backtrace.boot, MO_ACQUIRE) == boot_running
	    && backtrace.booter != mutex_self()) {
		atomic_store_u32(&backtrace.boot, boot_not_yet, MO_RELAXED);
	}
}

/* Makes room in the memo for deeper stacks. Without memory the memo stays as it is. */
static COLD void
memo_grow(prof_tdata_t *td, unsigned room) {
	void *marks = meta_alloc(unwind_memo_bytes(room));
	if (marks != NULL) {
		meta_free(td->memo.marks, unwind_memo_bytes(td->memo.room));
		unwind_memo_set_room(&td->memo, marks, room);
	}
}

/* Allocates td->frames, and room for its memo if there is memory; false: none for the frames. */
static bool
frames_make(prof_tdata_t *td) {
	assert(opt_prof_bt_max >= 1 && opt_prof_bt_max <= PROF_BT_MAX_LIMIT);
	unsigned max = opt_prof_bt_max + OWN_FRAMES_MAX + 1;
	td->frames = meta_alloc(max * sizeof(void *));
	td->frames_max = max;
	if (td->frames != NULL) {
		memo_grow(td, MEMO_ROOM_FIRST);
	}
	return td->frames != NULL;
}

/* Makes what the first backtrace of a thread needs; false if it is not possible yet. */
static COLD bool
can_begin(prof_tdata_t *td) {
	return try_boot() && frames_make(td);
}

/* Counts a stack for the self-test; depth: its frames without those of the allocator. */
static COLD void
self_test_note(unsigned depth) {
	if (depth > SELF_TEST_DEPTH) {
		atomic_store_b(&backtrace.is_deep, true, MO_RELAXED);
	}
	atomic_fetch_add_u32(&backtrace.ntested, 1, MO_RELEASE);
}

#define ADVICE "compile the program with -fasynchronous-unwind-tables.\n"

/*
 * If all of the first stacks are short, reports it with a hint. The method "auto" then gives way to
 * libunwind (libgcc in a build without it), if that works. A Go program is exempt: a call from Go
 * into C runs on a stack of its own that ends at runtime.asmcgocall, and no method reads beyond
 * that.
 */
static void
self_test_judge(void) {
	if (atomic_exchange_b(&backtrace.is_judged, true, MO_ACQ_REL)
	    || atomic_load_b(&backtrace.is_deep, MO_RELAXED)) {
		return;
	}
	if (sys_program_has_note("Go", GO_NOTE_BUILD_ID)) {
		return;
	}
	malloc_printf("<jemalloc>: all of the first %u backtraces are at most %u deep "
	    "(prof_unwind:%s)\n", SELF_TEST_STACKS, SELF_TEST_DEPTH, unwind_name());
	const char *other = unwind_has("libunwind") ? "libunwind" : "libgcc";
	if (!unwind_has(other) || strcmp(unwind_name(), other) == 0) {
		malloc_write("<jemalloc>: Hint: " ADVICE);
	} else if (opt_prof_unwind == prof_unwind_auto) {
		struct tls_s *t = tls_get();
		uint32_t depth = gate_leave_all(t); /* it may take the loader's lock */
		unwind_select(other);
		gate_reenter(t, depth);
		method_note();
		malloc_printf("<jemalloc>: Hint: stacks are read from now on by %s. If stacks stay short, "
		    ADVICE, unwind_name());
	} else {
		malloc_write("<jemalloc>: Hint: prof_unwind:auto changes the method by itself. If stacks "
		    "stay short, " ADVICE);
	}
}

/*
 * Updates the lists of loaded objects of the unwinder and of module_history, at most once in
 * REFRESH_NS unless the unwinder wants it at once. This takes the loader's lock, so it leaves the
 * gate for it.
 */
static void
refresh_sometimes(void) {
	uint64_t now = nstime_monotonic_coarse_ns();
	uint64_t last = atomic_load_u64(&backtrace.refreshed_ns, MO_RELAXED);
	if (likely(now - last < REFRESH_NS && !frame_scan_is_wanted())
	    || !atomic_cas_strong_u64(&backtrace.refreshed_ns, &last, now, MO_RELAXED, MO_RELAXED)) {
		return;
	}
	struct tls_s *t = tls_get();
	uint32_t depth = gate_leave_all(t);
	if (!module_history_try_look()) {
		/* So the next upkeep tries again. */
		atomic_store_u64(&backtrace.refreshed_ns, last, MO_RELAXED);
	}
	gate_reenter(t, depth);
}

void
prof_backtrace_upkeep(void) {
	if (unlikely(atomic_load_u32(&backtrace.boot, MO_ACQUIRE) != boot_done)) {
		return;
	}
	refresh_sometimes();
	if (unlikely(!atomic_load_b(&backtrace.is_judged, MO_RELAXED))
	    && atomic_load_u32(&backtrace.ntested, MO_ACQUIRE) >= SELF_TEST_STACKS) {
		self_test_judge();
	}
}

/*
 * Sets td->bt to the `depth` frames in td->frames from index `first` on, without the leading ones
 * of the allocator; of the others at most prof_bt_max stay. bt->stack becomes a new number.
 */
static NOINLINE void
bt_set(prof_tdata_t *td, unsigned first, unsigned depth) {
	assert(first + depth <= td->frames_max);
	unsigned own = prof_backtrace_nown(td->frames + first, depth, backtrace.own_start,
	    backtrace.own_end);
	prof_bt_t *bt = &td->bt;
	td->depth = depth;
	bt->vec = td->frames + first + own;
	bt->is_cut = depth - own > opt_prof_bt_max;
	bt->len = bt->is_cut ? opt_prof_bt_max : depth - own;
	bt->stack++;
}

static COLD void
bt_take_by_hook(prof_tdata_t *td) {
	unsigned len = 0;
	unwind_memo_forget(&td->memo);
	prof_hook_backtrace(td->frames, &len, td->frames_max);
	bt_set(td, 0, len);
}

/*
 * Takes a backtrace by the unwinder. If that found the same stack as last time, td->bt stays as it
 * is, with its number.
 */
static void
bt_take(prof_tdata_t *td, const struct unwind_where_s *where) {
	unsigned depth = unwind_at(td->frames, td->frames_max, where, &td->memo);
	if (!td->memo.is_same) {
		bt_set(td, td->memo.first, depth);
	}
	/* The self-test does not judge stacks of the user's hook. */
	if (unlikely(atomic_load_u32(&backtrace.ntested, MO_RELAXED) < SELF_TEST_STACKS)) {
		self_test_note((unsigned)(td->frames + td->memo.first + depth - td->bt.vec));
	}
}

const prof_bt_t *
prof_backtrace(prof_tdata_t *td, const struct unwind_where_s *where) {
	if (unlikely(td->busy) || (unlikely(td->frames == NULL) && !can_begin(td))) {
		return NULL;
	}
	td->busy = true;
	if (unlikely(prof_hook_has_backtrace())) {
		bt_take_by_hook(td);
	} else {
		bt_take(td, where);
	}
	if (unlikely(td->bt.is_cut)) {
		atomic_fetch_add_u64(&backtrace.ncut, 1, MO_RELAXED);
	}
	return &td->bt;
}

const prof_bt_t *
prof_backtrace_here(prof_tdata_t *td) {
	struct unwind_where_s here;
	UNWIND_HERE(&here);
	return prof_backtrace(td, &here);
}

/* The room is 0 if there was no memory when the thread's frames were made. */
void
prof_backtrace_make_room(prof_tdata_t *td) {
	if (td->memo.room < td->frames_max) {
		memo_grow(td, (unsigned)min_zu(max_zu(2 * td->memo.room, MEMO_ROOM_FIRST), td->frames_max));
	}
}

uint64_t
prof_backtrace_ncut(void) {
	return atomic_load_u64(&backtrace.ncut, MO_RELAXED);
}
