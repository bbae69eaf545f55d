/*
 * extent/purge_batch.h by way of a page cache: how many calls a purge takes, and that nothing is
 * lost when they fail.
 */
#include "core.h"

#include "extent/pac_life.h"
#include "extent/purge_batch.h"
#include "meta/base.h"
#include "os/sys.h"

#include <sys/mman.h>

/*
 * every other one is freed: the last one of its size stays hot for a moment, all go in the end
 */
#define N_PIECES 40u

static struct os_hooks_s hooks;
static struct {
	unsigned singles;
	unsigned batches;
	unsigned ranges;
	int fail_with; /* errno of the batches; 0: they are carried out */
	bool is_cut;   /* the last range is left out */
} sys;

static int
count_madvise(void *addr, size_t size, int advice) {
	sys.singles += advice == MADV_DONTNEED;
	return os_hooks_real.madvise(addr, size, advice);
}

static ssize_t
fake_madvise_many(const struct iovec *ranges, size_t n, int advice) {
	ssize_t bytes = 0;
	sys.batches++;
	sys.ranges += (unsigned)n;
	if (sys.fail_with != 0) {
		errno = sys.fail_with;
		return -1;
	}
	for (size_t i = 0; i + sys.is_cut < n; i++) {
		os_hooks_real.madvise(ranges[i].iov_base, ranges[i].iov_len, advice);
		bytes += (ssize_t)ranges[i].iov_len;
	}
	return bytes;
}

/*
 * Purges half of N_PIECES written pieces that are no neighbours; how many of the calls were
 * counted.
 */
static uint64_t
purge_pieces(size_t max_batch) {
	static unsigned ind = 3300;
	base_t *base = base_new();
	pac_t *pac = base_alloc(base, sizeof(*pac), CACHELINE);
	edata_t *pieces[N_PIECES];
	pac_init(pac, base, ind++, 10000, 0, 1);
	for (unsigned i = 0; i < N_PIECES; i++) {
		pieces[i] = pac_alloc(pac, 4 * PAGE, PAGE, false);
		memset(pieces[i]->addr, 0x77, 4 * PAGE);
	}
	for (unsigned i = 0; i < N_PIECES; i += 2) {
		pac_dalloc(pac, pieces[i]);
	}
	opt_process_madvise_max_batch = max_batch;
	sys.singles = sys.batches = sys.ranges = 0;
	errno = 55;
	pac_purge(pac, 2, true);
	ok(errno == 55, "errno is kept");
	is_uint(pac_ndirty(pac), 0, "nothing is dirty any more");
	unsigned nzero = 0, nold = 0;
	for (unsigned i = 0; i < N_PIECES; i += 2) {
		edata_t *e = pac_alloc(pac, 4 * PAGE, PAGE, true);
		nzero += e->addr[0] == 0 && e->addr[4 * PAGE - 1] == 0;
		nold += pieces[i + 1]->addr[5] == 0x77;
	}
	ok(nzero == N_PIECES / 2 && nold == N_PIECES / 2,
	    "what was purged reads as zero, its neighbours are as they were");
	return atomic_load_u64(&pac->decay_dirty.nmadvise, MO_RELAXED);
}

static void
body(void) {
	free(keep(malloc(100)));
	if (!pages_can_purge_forced()) {
		skip(1, "the system does not give zeros");
		return;
	}
	hooks = os_hooks_real;
	hooks.madvise = count_madvise;
	hooks.madvise_many = fake_madvise_many;
	os_hooks = &hooks;
	is_uint(purge_pieces(0), N_PIECES / 2, "off: a call for each");
	ok(sys.singles == N_PIECES / 2 && sys.batches == 0, "none together");
	is_uint(purge_pieces(8), 3, "8 at once: 3 calls");
	ok(sys.singles == 0 && sys.batches == 3 && sys.ranges == N_PIECES / 2,
	    "each extent in one of them");
	is_uint(purge_pieces(PAGES_BATCH_MAX), 1, "the most at once: one call");
	is_uint(purge_pieces(1), N_PIECES / 2, "one at once is as ever");
	is_uint(sys.batches, 0, "without the other call");
	sys.is_cut = true;
	is_uint(purge_pieces(PAGES_BATCH_MAX), N_PIECES / 2, "a part only: all again, one by one");
	ok(sys.batches == 1 && sys.singles == N_PIECES / 2, "after one try");
	sys.is_cut = false;
	sys.fail_with = ENOMEM;
	is_uint(purge_pieces(8), N_PIECES / 2, "no memory: one by one");
	ok(sys.batches == 3, "each batch was tried");
	sys.fail_with = 0;
	is_uint(purge_pieces(8), 3, "and the next time together");
	hooks.madvise_many = os_hooks_real.madvise_many;
	purge_pieces(8);
	ok(sys.singles == 0 || sys.singles == N_PIECES / 2,
	    "the kernel here does all, or nothing of the kind (%u)", sys.singles);
	hooks.madvise_many = fake_madvise_many;
	sys.fail_with = ENOSYS;
	is_uint(purge_pieces(8), N_PIECES / 2, "a kernel without: one by one");
	ok(sys.batches <= 1, "asked once at most");
	purge_pieces(8);
	is_uint(sys.batches, 0, "and never again");
	os_hooks = &os_hooks_real;
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
