/*
 * Selects the unwinding method and calls it; unwind.h has the contract. The selected method is one
 * atomic pointer, so a sample that runs during a change uses the old or the new method entirely. No
 * lock. Called by prof_backtrace.c to read stacks and to select a method; by prof_hook.c for the
 * default backtrace hook; by prof_dump.c, prof_course.c and prof_request.c for the method's name.
 */
#include "unwind/unwind.h"

#include "os/witness.h"

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
	NULL
};

/* A const struct unwind_backend_s *; NULL before the first selection. */
static atomic_p_t selected;

static const struct unwind_backend_s *
current(void) {
	return atomic_load_p(&selected, MO_ACQUIRE);
}

int
unwind_select(const char *name) {
	for (size_t i = 0; backends[i] != NULL; i++) {
		const struct unwind_backend_s *b = backends[i];
		bool is_wanted = strcmp(name, "auto") == 0 || strcmp(b->name, name) == 0;
		if (is_wanted && (b == current() || b->boot() == 0)) {
			atomic_store_p(&selected, (void *)(uintptr_t)b, MO_RELEASE);
			return 0;
		}
	}
	return ENOTSUP;
}

bool
unwind_has(const char *name) {
	size_t i = 0;
	while (backends[i] != NULL && strcmp(backends[i]->name, name) != 0) {
		i++;
	}
	return backends[i] != NULL;
}

const char *
unwind_name(void) {
	const struct unwind_backend_s *b = current();
	return b == NULL ? "none" : b->name;
}

unsigned
unwind_at(void **frames, unsigned max, const struct unwind_where_s *where,
    struct unwind_memo_s *memo) {
	if (config_debug) {
		witness_assert_lockless();
	}
	assert(frames != NULL || max == 0);
	assert(memo->room <= max && memo->known <= memo->room);
	const struct unwind_backend_s *b = current();
	unsigned n = unlikely(max == 0 || b == NULL) ? 0 : b->capture(frames, max, where, memo);
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
