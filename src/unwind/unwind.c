/*
 * Selects the unwinding method and calls it; unwind.h has the contract. The selected method is one
 * atomic pointer, so a sample that runs during a change uses the old or the new method entirely. No
 * lock. Called by prof_backtrace.c to read stacks and to select a method; by prof_hook.c for the
 * default backtrace hook; by prof_dump.c, prof_course.c and prof_request.c for the method's name
 * and statistics; by prof.c at boot and in a forked child.
 */
#include "unwind/unwind.h"

#include "os/witness.h"
#include "unwind/frame_scan.h"
#include "unwind/objects.h"
#include "unwind/unwind_rows.h"
#include "util/assert.h"

/* The method "none": no frames. */
static unsigned
capture_none(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo) {
	(void)frames;
	(void)max;
	(void)where;
	unwind_memo_forget(memo);
	return 0;
}

static int
boot_none(void) {
	return 0;
}

static const struct unwind_backend_s unwind_none = {"none", boot_none, capture_none};

/* In the order in which unwind_select("auto") tries them. */
static const struct unwind_backend_s *const backends[] = {
#if CONFIG_PROF_FRAMEPTR
	&unwind_auto,
	&unwind_fp,
#endif
#if CONFIG_PROF_LIBUNWIND
	&unwind_libunwind,
#endif
#if CONFIG_PROF_LIBGCC
	&unwind_libgcc,
#endif
	&unwind_none,
};

/* A const struct unwind_backend_s *; NULL before the first selection. */
static atomic_p_t selected;

/* The selected method; before the first selection unwind_none, which finds no frames. */
static const struct unwind_backend_s *
current(void) {
	const struct unwind_backend_s *b = atomic_load_p(&selected, MO_ACQUIRE);
	return b != NULL ? b : &unwind_none;
}

/* Boots and selects a method, which may have been booted before; 0 or ENOTSUP. */
static int
select_backend(const struct unwind_backend_s *b) {
	if (b == current()) {
		return 0;
	}
	int err = b->boot();
	if (err != 0) {
		return ENOTSUP;
	}
	atomic_store_p(&selected, (void *)(uintptr_t)b, MO_RELEASE);
	return 0;
}

int
unwind_select(const char *name) {
	bool is_auto = strcmp(name, "auto") == 0;
	for (size_t i = 0; i < ARRAY_LEN(backends); i++) {
		const struct unwind_backend_s *b = backends[i];
		bool is_wanted = is_auto ? b != &unwind_none : strcmp(b->name, name) == 0;
		if (is_wanted && select_backend(b) == 0) {
			return 0;
		}
	}
	return ENOTSUP;
}

void
unwind_boot(void) {
	objects_boot();
}

bool
unwind_has(const char *name) {
	for (size_t i = 0; i < ARRAY_LEN(backends); i++) {
		if (strcmp(backends[i]->name, name) == 0) {
			return true;
		}
	}
	return false;
}

const char *
unwind_name(void) {
	return current()->name;
}

unsigned
unwind_at(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo) {
	if (config_debug) {
		witness_assert_lockless();
	}
	assert(frames != NULL || max == 0);
	assert(memo->room <= max && memo->known <= memo->room);
	unsigned n = unlikely(max == 0) ? 0 : current()->capture(frames, max, where, memo);
	assert(memo->first + n <= max || n == 0);
	unwind_count_sample(n);
	return n;
}

NOINLINE unsigned
unwind(void **frames, unsigned max) {
	struct unwind_memo_s nothing = {.lo = 0};
	struct unwind_where_s where;
	UNWIND_HERE(&where);
	return unwind_at(frames, max, &where, &nothing);
}

void
unwind_postfork_child(void) {
	objects_postfork_child();
	frame_scan_postfork_child();
}

void
unwind_stats_read(struct unwind_stats_s *dst) {
	unwind_counts_read(dst);
	unwind_rows_stats(dst);
}
