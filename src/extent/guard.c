/*
 * Makes pages inaccessible as guards, and accessible again; counts the extents that have guards.
 * guard.h explains guards. Invariant: guard_n counts the extents with nguards != 0. No lock: the
 * caller owns the extent, and the count is atomic. Called by pac.c, and guard_boot() by
 * jemalloc_init.c.
 */
#include "extent/guard.h"

#include "meta/emap.h"

/* Linux's default for vm.max_map_count, used if it cannot be read. */
#define MAPS_DEFAULT 65530u
/*
 * guard_limit is the system's limit of mappings divided by this. A guarded extent costs up to 4
 * mappings. 8 are counted for each, so that half of the limit remains for the user's program.
 */
#define MAPS_PER_EXTENT 8u

size_t opt_san_guard_small;
size_t opt_san_guard_large;
unsigned guard_limit = MAPS_DEFAULT / MAPS_PER_EXTENT;

static atomic_u32_t guard_n; /* extents that have guards */

int
guard_boot(void) {
	uint64_t maps;
	if (opt_san_guard_small == 0 && opt_san_guard_large == 0) {
		return 0;
	}
	bool is_known = sys_try_read_number("/proc/sys/vm/max_map_count", &maps);
	guard_limit = (unsigned)min_zu(is_known ? (size_t)maps : MAPS_DEFAULT, UINT_MAX)
	    / MAPS_PER_EXTENT;
	return 0;
}

bool
guard_is_allowed(void) {
	return atomic_load_u32(&guard_n, MO_RELAXED) < guard_limit;
}

/*
 * Makes a page of e a guard. The page is purged first, as nobody needs its memory, unless
 * e->is_zeroed says that it holds nothing. If the system refuses to make it a guard, the page stays
 * accessible and unused, which is harmless; it still counts as a guard.
 */
static void
guard_shut(const edata_t *e, char *page) {
	if (!e->is_zeroed) {
		pages_purge_forced(page, PAGE);
	}
	pages_protect(page, PAGE, PAGES_CLOSED);
}

void
guard_on(edata_t *e, size_t bytes) {
	/* The extent of a slab becomes one only after this, and is none any more at guard_off(). */
	assert(e->state == extent_state_active && !e->is_slab && e->recs == NULL && e->nguards == 0);
	assert((bytes == PAGE || bytes == 2 * PAGE) && e->size > bytes);
	size_t before = bytes - PAGE;
	emap_clear_boundary(e);
	if (before != 0) {
		guard_shut(e, e->addr);
	}
	guard_shut(e, edata_end(e) - PAGE);
	e->addr += before;
	edata_set_size(e, e->size - bytes);
	e->nguards = (uint8_t)(bytes >> LG_PAGE);
	atomic_fetch_add_u32(&guard_n, 1, MO_RELAXED);
}

/*
 * Opens a guard. Returns PAGE, or 0 if it cannot be opened (too many mappings, RLIMIT_DATA); then
 * it is unmapped, since a page without access must not lie in a cache.
 */
static size_t
guard_opened(char *page) {
	assert(emap_elem(page) == 0);
	if (pages_protect(page, PAGE, PAGES_OPEN) == 0) {
		return PAGE;
	}
	pages_unmap_in_time(page, PAGE);
	return 0;
}

size_t
guard_off(edata_t *e) {
	assert(e->state == extent_state_active && !e->is_slab && e->recs == NULL);
	assert(e->nguards == 1 || e->nguards == 2);
	assert(atomic_load_u32(&guard_n, MO_RELAXED) > 0);
	size_t before = e->nguards == 2 ? guard_opened(e->addr - PAGE) : 0;
	size_t behind = guard_opened(edata_end(e));
	emap_clear_boundary(e);
	e->addr -= before;
	edata_set_size(e, before + e->size + behind);
	e->nguards = 0;
	atomic_fetch_sub_u32(&guard_n, 1, MO_RELAXED);
	return before + behind;
}
