/*
 * Moves the break (sbrk) for arenas that take pages from the data segment. dss.h has the contract.
 * Whole pages between the old break and the aligned start of a range are unmapped at once. Lock:
 * dss.mtx keeps our threads from moving the break at the same time. Invariant: other code may still
 * move it, so a range is returned only if it begins at the break that this try read before. Called
 * by ehooks.c, arena_life.c, jemalloc_init.c (dss_boot), options and mallctl.
 */
#include "extent/dss.h"

#include "os/mutex.h"
#include "os/pages.h"
#include "os/sys.h"
#include "os/witness.h"
#include "util/atomic.h"

/* Tries of dss_alloc(); others may move the break between reading and extending it. */
#define DSS_TRIES 8u
#define DSS_NONE ((char *)-1)

unsigned opt_dss = CONFIG_DSS ? dss_prec_secondary : dss_prec_disabled;
const char *const dss_prec_names[] = {"disabled", "primary", "secondary", NULL};
cassert(ARRAY_LEN(dss_prec_names) == dss_prec_count + 1);

static struct {
	mutex_t mtx;
	atomic_u8_t prec; /* dss_prec_t of new arenas: dss_default_get() */
} dss;

void
dss_boot(void) {
	assert(opt_dss < dss_prec_count && (config_dss || opt_dss == dss_prec_disabled));
	mutex_init(&dss.mtx, "dss", WITNESS_RANK_LEAF);
	atomic_store_u8(&dss.prec, (uint8_t)opt_dss, MO_RELAXED);
}

dss_prec_t
dss_default_get(void) {
	return (dss_prec_t)atomic_load_u8(&dss.prec, MO_RELAXED);
}

int
dss_default_set(dss_prec_t prec) {
	assert(prec < dss_prec_count);
	if (!config_dss && prec != dss_prec_disabled) {
		return ENOTSUP;
	}
	atomic_store_u8(&dss.prec, (uint8_t)prec, MO_RELAXED);
	return 0;
}

/* Unmaps the whole pages of [start, end), which were added and are not used. */
static void
dss_give_back(char *start, char *end) {
	char *first = (char *)align_up((uintptr_t)start, PAGE);
	char *last = (char *)PAGE_FLOOR((uintptr_t)end);
	if (first < last) {
		pages_unmap_in_time(first, (size_t)(last - first));
	}
}

/* Tries once. NULL: no memory; or *retry is true: others have moved the break meanwhile. */
static char *
dss_extend_locked(size_t size, size_t alignment, bool *retry) {
	mutex_assert_owner(&dss.mtx);
	*retry = false;
	char *end = os_hooks->sbrk(0);
	if (end == DSS_NONE || (uintptr_t)end > UINTPTR_MAX - alignment) {
		return NULL;
	}
	char *start = (char *)align_up((uintptr_t)end, alignment);
	size_t bytes = (size_t)(start - end) + size;
	if (bytes < size || bytes > INTPTR_MAX) {
		return NULL;
	}
	char *before = os_hooks->sbrk((intptr_t)bytes);
	if (before == DSS_NONE) {
		return NULL;
	}
	if (before == end) {
		dss_give_back(end, start);
		return start;
	}
	/*
	 * The range begins elsewhere and may not be aligned. The break is not moved back: another
	 * thread may move it just before, and would lose what it has got.
	 */
	dss_give_back(before, before + bytes);
	*retry = true;
	return NULL;
}

void *
dss_alloc(size_t size, size_t alignment) {
	assert(config_dss && size > 0 && (size & PAGE_MASK) == 0 && is_pow2_zu(alignment));
	int saved = errno;
	char *p = NULL;
	bool retry = true;
	mutex_lock(&dss.mtx);
	for (unsigned i = 0; retry && i < DSS_TRIES; i++) {
		p = dss_extend_locked(size, max_zu(alignment, PAGE), &retry);
	}
	mutex_unlock(&dss.mtx);
	errno = saved;
	return p;
}
