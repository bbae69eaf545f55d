/*
 * Takes runs of retained or newly mapped memory, populates them, and counts bytes and failures.
 * ahead.h explains why and when. Invariant: after one failure no further call of the system is made
 * (threads may race for the first). A run that is being populated is an active extent, owned by the
 * calling thread. Locks: none of its own, the state is atomics; ahead_fill() takes those of the two
 * caches and of growth, through extent.c. Called by pac.c and piece.c, by bases through
 * base_populate_hook, by jemalloc_init.c (ahead_boot()), and by mallctl and the profiler for the
 * counters.
 */
#include "extent/ahead.h"

#include "os/nstime.h"
#include "os/room.h"
#include "util/atomic.h"

#define LG_MIB 20

bool opt_populate = true;

struct thp_counts_s thp_counts;
static atomic_u64_t ahead_mib_ns; /* ns for 1 MiB of small pages, computed from the last run */

/*
 * The process populates no more after the first failure: the kernel is older than 5.14, a filter
 * forbids the call, or there is no memory.
 */
static bool
ahead_is_on(void) {
	return opt_populate && atomic_load_zu(&thp_counts.nfailures, MO_RELAXED) == 0;
}

/* An active, committed extent of at least `size` and at most `run` bytes; NULL: no memory. */
static edata_t *
ahead_find(extent_src_t *src, ecache_t *retained, size_t size, size_t run) {
	edata_t *e = ecache_take_upto(src, retained, size, run, PAGE, 64);
	if (e == NULL) {
		e = extent_grow(src, retained, run, PAGE);
	}
	if (e != NULL && extent_commit(src, e) != 0) {
		ecache_put(src, retained, e);
		return NULL;
	}
	return e;
}

size_t
ahead_populate_more(char *addr, size_t size) {
	if (!ahead_is_on()) {
		return 0;
	}
	if (pages_advise(addr, size, PAGES_POPULATE) != 0) {
		atomic_fetch_add_zu(&thp_counts.nfailures, 1, MO_RELAXED);
		return 0;
	}
	atomic_fetch_add_zu(&thp_counts.populated, size, MO_RELAXED);
	atomic_fetch_add_zu(&thp_counts.npopulate, 1, MO_RELAXED);
	return size;
}

bool
ahead_try_room(void) {
	bool has_room = room_now() >= AHEAD_ROOM;
	if (unlikely(!has_room)) {
		atomic_fetch_add_zu(&thp_counts.nlimited, 1, MO_RELAXED);
	}
	return has_room;
}

static size_t
ahead_populate_base(char *addr, size_t size) {
	return ahead_try_room() ? ahead_populate_more(addr, size) : 0;
}

COLD void
ahead_boot(void) {
	if (opt_populate) {
		base_populate_hook = ahead_populate_base;
	}
}

uint64_t
ahead_small_ns(size_t size) {
	return atomic_load_u64(&ahead_mib_ns, MO_RELAXED) * size >> LG_MIB;
}

size_t
ahead_fill(extent_src_t *src, ecache_t *dirty, ecache_t *retained, size_t size, size_t run) {
	if (!ahead_is_on() || ehooks_are_custom(&src->ehooks) || !ahead_try_room()) {
		return 0;
	}
	/*
	 * A dirty extent could hold the request, and the caller has left it because it is too long
	 * (opt_lg_extent_max_active_fit). A run that joins it would be left too.
	 */
	if (ecache_is_enough(dirty, size, PAGE)) {
		return 0;
	}
	edata_t *e = ahead_find(src, retained, size, run);
	if (e == NULL) {
		return 0;
	}
	size_t bytes = e->size;
	uint64_t start = nstime_monotonic_ns();
	if (!e->is_zeroed || bytes < BASE_AHEAD_MIN || ahead_populate_more(e->addr, bytes) == 0) {
		ecache_put(src, retained, e);
		return 0;
	}
	uint64_t took = nstime_ns_between(start, nstime_monotonic_ns());
	atomic_store_u64(&ahead_mib_ns, (took << LG_MIB) / bytes, MO_RELAXED);
	/* These pages use memory, and purging must not skip them as it skips zeroed extents. */
	e->is_zeroed = false;
	ecache_put(src, dirty, e);
	return bytes;
}

void
thp_stats_read(thp_stats_t *out) {
#define THP_READ(name, type, says) out->name = atomic_load_zu(&thp_counts.name, MO_RELAXED);
	THP_STATS_FIELDS(THP_READ)
#undef THP_READ
}
