/*
 * extent/ahead.h: how long a run is, by counts alone; then what a page cache asks of the system and
 * holds in memory while a program fetches slabs, with hooks that count the calls.
 */
#include "core.h"

#include "extent/ahead.h"
#include "extent/pac_life.h"
#include "meta/base.h"
#include "os/sys.h"

#include <sys/mman.h>

#define POPULATE 23 /* MADV_POPULATE_WRITE, which the headers may not have */
#define MIB (ZU(1) << 20)

static pac_t *pac;
static struct os_hooks_s hooks;
static struct {
	size_t calls;
	size_t bytes;
	size_t longest;
	int fail_with;
} sys;

static int
count_madvise(void *addr, size_t size, int advice) {
	if (advice != POPULATE) {
		return os_hooks_real.madvise(addr, size, advice);
	}
	sys.calls++;
	sys.bytes += size;
	sys.longest = max_zu(sys.longest, size);
	if (sys.fail_with != 0) {
		errno = sys.fail_with;
		return -1;
	}
	/* What the call does, also where the kernel is too old for it. */
	for (size_t i = 0; i < size; i += PAGE) {
		((volatile char *)addr)[i] = 0;
	}
	return 0;
}

static void
start(ssize_t dirty_ms) {
	static unsigned ind = 3500;
	base_t *base = base_new();
	memset(&sys, 0, sizeof(sys));
	pac = base_alloc(base, sizeof(*pac), CACHELINE);
	pac_init(pac, base, ind++, dirty_ms, 0, 1);
}

/* Fetches extents of npages until the cache has `use` bytes in use. */
static void
grow(size_t use, size_t npages) {
	while (atomic_load_zu(&pac->nactive, MO_RELAXED) << LG_PAGE < use) {
		edata_t *e = pac_alloc_dense(pac, npages << LG_PAGE);
		if (e == NULL) {
			ok(false, "there is memory");
			return;
		}
		e->addr[0] = 1;
	}
}

static size_t
use(void) {
	return atomic_load_zu(&pac->nactive, MO_RELAXED) << LG_PAGE;
}

static void
test_run(void) {
	size_t least = max_zu(BASE_AHEAD_MIN, PAGE), begin = least << BASE_LG_AHEAD;
	bool has_runs = PAGE < BASE_AHEAD_MAX;
	is_uint(ahead_run(0, PAGE), 0, "nothing in use: no run");
	is_uint(ahead_run(MIB - 1, PAGE), 0, "below 1 MiB none");
	is_uint(ahead_run(2 * begin, PAGE), has_runs ? 2 * least : 0, "then a 64th");
	is_uint(ahead_run(3 * begin - 1, PAGE), has_runs ? 2 * least : 0, "in whole steps");
	is_uint(ahead_run(SIZE_MAX, PAGE), BASE_AHEAD_MAX, "never more than the greatest");
	is_uint(ahead_run(SIZE_MAX, (AHEAD_REQUEST_PAGES + 1) * PAGE), 0, "none for a large request");
	unsigned bad = 0;
	for (size_t n = 0; n < 64 * MIB; n += 12345) {
		for (size_t size = PAGE; size <= 16 * PAGE; size += PAGE) {
			size_t run = ahead_run(n, size);
			bad += run != 0 && (wrong_if(run <= size) || wrong_if(run > n >> BASE_LG_AHEAD)
			    || wrong_if(run > BASE_AHEAD_MAX) || wrong_if((run & PAGE_MASK) != 0));
		}
	}
	is_uint(bad, 0, "a run is whole pages, longer than the request, and at most a 64th of what is "
	    "in use");
}

static void
test_growth(void) {
	size_t least = max_zu(BASE_AHEAD_MIN, PAGE) << BASE_LG_AHEAD;
	thp_stats_t before, after;
	thp_stats_read(&before);
	start(10000);
	grow(least - PAGE, 1);
	is_uint(sys.calls, 0, "a small arena populates nothing");
	grow(64 * MIB, 1);
	size_t mapped = atomic_load_zu(&pac->mapped, MO_RELAXED);
	ok(sys.calls > 0 && sys.bytes > 32 * MIB, "a larger one does: %zu bytes", sys.bytes);
	ok(sys.longest <= BASE_AHEAD_MAX, "at most %zu at once: %zu", BASE_AHEAD_MAX, sys.longest);
	ok(mapped - use() <= use() >> BASE_LG_AHEAD, "at most a 64th is there too early: %zu",
	    mapped - use());
	is_uint(mapped - use(), pac_ndirty(pac) << LG_PAGE, "and that is dirty");
	ok(sys.calls < (sys.bytes >> LG_PAGE) / 2 || PAGE > BASE_AHEAD_MAX / 4,
	    "fewer calls than faults: %zu", sys.calls);
	size_t calls = sys.calls;
	pac_purge(pac, 1, true);
	is_uint(pac_ndirty(pac), 0, "what is not used goes back");
	is_uint(atomic_load_zu(&pac->mapped, MO_RELAXED), use(), "all of it");
	grow(use() + PAGE, 1);
	is_uint(sys.calls, calls + 1, "and is fresh again afterwards");
	thp_stats_read(&after);
	is_uint(after.npopulate - before.npopulate, sys.calls, "the calls are counted");
	is_uint(after.populated - before.populated, sys.bytes, "and their bytes");
	is_uint(after.nlimited, before.nlimited, "there was room each time");
}

/* Slabs of different lengths: what one run leaves is used with the next. */
static void
test_lengths(void) {
	start(10000);
	grow(16 * MIB, 1);
	for (unsigned i = 0; use() < 64 * MIB; i++) {
		pac_alloc_dense(pac, (1 + 2 * (i % 4)) << LG_PAGE)->addr[0] = 1;
	}
	size_t mapped = atomic_load_zu(&pac->mapped, MO_RELAXED);
	ok(mapped - use() <= use() >> BASE_LG_AHEAD, "runs of several lengths leave no holes: %zu",
	    mapped - use());
}

static void
test_not(void) {
	start(10000);
	grow(16 * MIB, AHEAD_REQUEST_PAGES + 1);
	is_uint(sys.calls, 0, "not for large blocks");
	start(10000);
	while (use() < 16 * MIB) {
		pac_alloc(pac, PAGE, PAGE, false)->addr[0] = 1;
	}
	is_uint(sys.calls, 0, "nor where the program may touch a part only");
	start(0);
	grow(16 * MIB, 1);
	is_uint(sys.calls, 0, "not where unused pages go at once");
	start(10000);
	pac_bound(pac, MIB);
	grow(16 * MIB, 1);
	is_uint(sys.calls, 0, "not where unused pages are bounded");
	start(10000);
	opt_populate = false;
	grow(16 * MIB, 1);
	is_uint(sys.calls, 0, "not with populate:false");
	opt_populate = true;
}

/*
 * A long dirty extent is kept for long requests; a run that joined it would be lost to short ones.
 */
static void
test_long_dirty(void) {
	start(10000);
	grow(16 * MIB, 1);
	edata_t *e = pac_alloc(pac, MIB, PAGE, false);
	pac_dalloc(pac, e);
	pac_hot_flush(pac);
	size_t dirty = pac_ndirty(pac), calls = sys.calls;
	ok(MIB >> LG_PAGE < 128 || dirty >= MIB >> LG_PAGE, "there is a long extent");
	grow(use() + 16 * PAGE, 1);
	ok(sys.calls <= calls + (MIB >> LG_PAGE < 128), "no run beside it");
}

static void
test_refused(void) {
	thp_stats_t before, after;
	start(10000);
	thp_stats_read(&before);
	sys.fail_with = EINVAL;
	grow(32 * MIB, 1);
	thp_stats_read(&after);
	is_uint(sys.calls, 1, "refused: not asked again");
	is_uint(atomic_load_zu(&pac->mapped, MO_RELAXED), use(), "only what is used counts as mapped");
	is_uint(after.nfailures, before.nfailures + 1, "it is counted");
	is_uint(after.populated, before.populated, "and nothing else");
	sys.fail_with = 0;
	start(10000);
	grow(32 * MIB, 1);
	is_uint(sys.calls, 0, "nor for another arena");
}

static void
body(void) {
	hooks = os_hooks_real;
	hooks.madvise = count_madvise;
	os_hooks = &hooks;
	/* Without huge pieces, which are populated too (extent/piece.h). */
	opt_thp = thp_mode_never;
	test_run();
	test_growth();
	test_lengths();
	test_not();
	test_long_dirty();
	test_refused();
	os_hooks = &os_hooks_real;
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
