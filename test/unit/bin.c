/*
 * arena/bin.h: a bin fed with slabs by hand; which slab serves, which one comes back, what is
 * counted; and misuse that ends the process with a sentence.
 */
#include "core.h"

#include "arena/bin.h"
#include "arena/safety.h"

#define FAR ((char *)(uintptr_t)0x123480000000)
#define N_SLABS 12

static bin_t bin;
static const bin_info_t *info;
static szind_t szind;
static ALIGNED(EDATA_ALIGN) struct { edata_t e; } ALIGNED(EDATA_ALIGN) slabs[N_SLABS];
static bool is_in[N_SLABS];
static void *taken[N_SLABS * 600];
static unsigned n_taken;

static void
start(size_t size) {
	szind = sc_index_compute(size);
	info = &bin_infos[szind];
	memset(&bin, 0, sizeof(bin));
	memset(is_in, 0, sizeof(is_in));
	n_taken = 0;
	bin_init(&bin);
	for (unsigned i = 0; i < N_SLABS; i++) {
		edata_t *e = &slabs[i].e;
		memset(e, 0, sizeof(*e));
		edata_init(e, FAR + i * info->slab_size, info->slab_size, true, false);
		if (emap_reserve(e->addr, e->size) != 0 || slab_init(e, szind, 0, false) != 0) {
			bail_out("no slab");
		}
	}
}

static void
finish(void) {
	for (unsigned i = 0; i < N_SLABS; i++) {
		slabs[i].e.is_listed = false;
		slabs[i].e.nfree = info->nregs;
		slab_fini(&slabs[i].e);
		emap_clear_boundary(&slabs[i].e);
	}
}

static unsigned
slab_of(const void *p) {
	return (unsigned)((size_t)((const char *)p - FAR) / info->slab_size);
}

static bool
has_added_slab(void) {
	for (unsigned i = 0; i < N_SLABS; i++) {
		if (!is_in[i]) {
			is_in[i] = true;
			return bin_try_add_slab_locked(&bin, &slabs[i].e);
		}
	}
	return false;
}

static size_t
n_slabs_in(void) {
	size_t n = 0;
	for (unsigned i = 0; i < N_SLABS; i++) {
		n += is_in[i];
	}
	return n;
}

static unsigned
step_take(uint64_t *seed) {
	void *out[40];
	unsigned bad = 0, n = 1 + (unsigned)draw_below(seed, 40);
	unsigned got = bin_take_locked(&bin, info, out, n);
	if (got < n && has_added_slab()) {
		got += bin_take_locked(&bin, info, &out[got], n - got);
		/* One slab more is enough, or is used up. */
		bad += got < n && bin.slabcur->nfree != 0;
	}
	for (unsigned i = 0; i < got; i++) {
		for (unsigned j = 0; j < n_taken && j < 50; j++) {
			bad += taken[n_taken - 1 - j] == out[i];
		}
		bad += !is_in[slab_of(out[i])];
		taken[n_taken++] = out[i];
	}
	return bad;
}

/* Up to four regions go back at once. */
static unsigned
step_put(uint64_t *seed) {
	void *batch[4];
	unsigned n, bad = 0;
	for (n = 0; n < 4 && n_taken > 0; n++) {
		unsigned k = (unsigned)draw_below(seed, n_taken);
		batch[n] = taken[k];
		taken[k] = taken[--n_taken];
	}
	edata_t *empty = NULL;
	bad += bin_put_locked(&bin, info, batch, n, &empty) != n;
	while (empty != NULL) {
		edata_t *e = empty;
		empty = e->heap.next == NULL ? NULL : edata_of_heap(e->heap.next);
		e->heap.next = NULL;
		bad += wrong_if(!is_in[slab_of(e->addr)]) || wrong_if(e->nfree != info->nregs)
		    || wrong_if(e == bin.slabcur) || wrong_if(e->is_listed);
		is_in[slab_of(e->addr)] = false;
	}
	for (unsigned i = 0; i < N_SLABS; i++) {
		const edata_t *e = &slabs[i].e;
		bad += is_in[i] && e->nfree == info->nregs && e != bin.slabcur;
	}
	return bad;
}

static void
put_one(void *p) {
	edata_t *empty = NULL;
	bin_put_locked(&bin, info, &p, 1, &empty);
}

/* What belongs to another arena or shard ends the row. */
static void
test_others(void) {
	void *out[8];
	edata_t *empty = NULL;
	start(1024);
	mutex_lock(&bin.mtx);
	bin_try_add_slab_locked(&bin, &slabs[0].e);
	bin_take_locked(&bin, info, out, 4);
	slab_take(&slabs[1].e, info, &out[4], 2);
	slab_take(&slabs[2].e, info, &out[6], 2);
	slabs[1].e.arena_ind = 1;
	slabs[2].e.bin_shard = 1;
	void *ptrs[] = {out[0], out[1], out[4], out[2], out[6]};
	is_uint(bin_put_locked(&bin, info, ptrs, 5, &empty), 2,
	    "two in a row are this bin's, then comes another arena's");
	is_uint(bin_put_locked(&bin, info, ptrs + 3, 2, &empty), 1, "one, then comes another shard's");
	ok(ptrs[2] == out[4] && ptrs[4] == out[6], "they stay where they are");
	is_uint(bin.stats.curregs, 1, "one region is still in use");
	ok(empty == NULL, "the current slab stays");
	slabs[1].e.arena_ind = 0;
	slabs[2].e.bin_shard = 0;
	mutex_unlock(&bin.mtx);
	finish();
}

static unsigned n_told;

static void
count_told(const char *message) {
	n_told += strstr(message, "double free") != NULL;
}

/* A hook that returns in place of abort: the counts stay those of the regions in use. */
static void
test_double_free(void) {
	void *out[4];
	start(1024);
	safety_abort_hook = count_told;
	mutex_lock(&bin.mtx);
	bin_try_add_slab_locked(&bin, &slabs[0].e);
	bin_take_locked(&bin, info, out, 4);
	put_one(out[0]);
	put_one(out[0]);
	void *ptrs[] = {out[1], out[0], out[1], out[2]};
	edata_t *empty = NULL;
	is_uint(bin_put_locked(&bin, info, ptrs, 4, &empty), 4, "four, of which two are free already");
	is_uint(n_told, 3, "the hook hears of each that is free already");
	is_uint(bin.stats.curregs, 1, "which is not counted");
	is_uint(bin.stats.nmalloc - bin.stats.ndalloc, 1, "nor as freed");
	put_one(out[3]);
	is_uint(bin.stats.curregs, 0, "the last one");
	mutex_unlock(&bin.mtx);
	safety_abort_hook = NULL;
	finish();
}

/* The last region of a slab that has left the bin comes back again: the slab leaves it once. */
static void
test_double_free_of_last(void) {
	void *out[3 * 64];
	unsigned nregs, n_empty = 0;
	start(1024);
	nregs = info->nregs;
	n_told = 0;
	safety_abort_hook = count_told;
	mutex_lock(&bin.mtx);
	for (unsigned i = 0; i < 3; i++) {
		bin_try_add_slab_locked(&bin, &slabs[i].e);
		bin_take_locked(&bin, info, &out[i * nregs], nregs);
	}
	edata_t *empty = NULL;
	bin_put_locked(&bin, info, out, nregs - 1, &empty);
	void *ptrs[] = {out[nregs - 1], out[nregs], out[nregs - 1]};
	bin_put_locked(&bin, info, ptrs, 3, &empty);
	bin_put_locked(&bin, info, ptrs, 1, &empty);
	for (edata_t *e = empty; e != NULL && n_empty < N_SLABS; n_empty++) {
		e = e->heap.next == NULL ? NULL : edata_of_heap(e->heap.next);
	}
	is_uint(n_told, 2, "the hook hears of both frees of a region whose slab has left");
	is_uint(n_empty, 1, "the slab is deleted once");
	is_uint(bin.stats.curslabs, 2, "and counted once");
	is_uint(bin.stats.curregs, 2 * nregs - 1, "as are its regions");
	mutex_unlock(&bin.mtx);
	safety_abort_hook = NULL;
	finish();
}

static void
test_random_use(size_t size) {
	uint64_t seed = size;
	unsigned bad = 0, bad_stats = 0;
	start(size);
	mutex_lock(&bin.mtx);
	for (unsigned i = 0; i < 20000; i++) {
		bool is_filling = (i / 300) % 2 == 0;
		if (n_taken == 0 || draw_below(&seed, 100) < (is_filling ? 10 : 1)) {
			bad += step_take(&seed);
		} else {
			bad += step_put(&seed);
		}
		bad_stats += wrong_if(bin.stats.curregs != n_taken)
		    || wrong_if(bin.stats.curslabs != n_slabs_in());
		bad_stats += bin.stats.nmalloc - bin.stats.ndalloc != n_taken;
	}
	while (n_taken > 0) {
		bad += step_put(&seed);
	}
	mutex_unlock(&bin.mtx);
	is_uint(bad, 0, "random use of a bin of %zu", size);
	is_uint(bad_stats, 0, "its counts are exact all the time");
	ok(n_slabs_in() <= 1, "in the end the current slab is left (%zu)", n_slabs_in());
	bin_stats_t st = {0};
	mutex_prof_data_t mtx = {0};
	bin_stats_merge(&bin, &st, &mtx);
	ok(st.nslabs >= st.curslabs && st.nonfull_slabs == 0 && st.nmalloc > 1000, "statistics");
	finish();
}

/* Of the waiting slabs the lowest one is next. */
static void
test_lowest_first(void) {
	void *out[600];
	start(1024);
	unsigned per_slab = info->nregs, bad = 0;
	mutex_lock(&bin.mtx);
	for (unsigned i = 0; i < N_SLABS; i++) {
		bin_take_locked(&bin, info, out, 1);
		is_in[i] = true;
		bad += !bin_try_add_slab_locked(&bin, &slabs[i].e);
		bad += bin_take_locked(&bin, info, out, per_slab) != per_slab;
	}
	is_uint(bad, 0, "twelve full slabs");
	for (unsigned i = 7; i < 10; i++) {
		put_one(slabs[17 - i - 1].e.addr);
	}
	is_uint(bin.stats.nonfull_slabs, 3, "three wait");
	bin_take_locked(&bin, info, out, 1);
	is_uint(slab_of(out[0]), 7, "the lowest serves");
	is_uint(bin.stats.nreslabs, 1, "counted");
	mutex_unlock(&bin.mtx);
	finish();
}

/* What a pass has taken comes back, as holes or not. */
static void
pages_back(unsigned i, uint32_t pages, bool are_holes, edata_t **empty) {
	bin_put_pages_locked(&bin, info, &slabs[i].e, pages, are_holes, empty);
}

/* A slab with pages that were given back serves after those without, and has none then. */
static void
test_holes(void) {
	void *out[600];
	edata_t *empty = NULL;
	const size_t two = 2 * PAGE;
	start(PAGE / 8 * 7);
	unsigned per_slab = info->nregs;
	mutex_lock(&bin.mtx);
	for (unsigned i = 0; i < 4; i++) {
		bin_take_locked(&bin, info, out, 1);
		bin_try_add_slab_locked(&bin, &slabs[i].e);
		bin_take_locked(&bin, info, out, per_slab);
	}
	for (unsigned i = 0; i < 3; i++) {
		for (size_t at = 0; at < two + info->reg_size; at += info->reg_size) {
			put_one(slabs[i].e.addr + at);
		}
	}
	ok((slab_empty_pages(&slabs[0].e, info) & 3) == 3, "the first two pages hold nothing");
	unsigned nfree = slabs[0].e.nfree;
	bin_take_pages_locked(&bin, info, &slabs[0].e, 3);
	pages_back(0, 3, true, &empty);
	ok(slabs[0].e.nfree == nfree && bin.nholes == 2 && slabs[0].e.holes == 3, "two holes");
	bin_take_pages_locked(&bin, info, &slabs[1].e, 3);
	bin_take_locked(&bin, info, out, 1);
	is_uint(slab_of(out[0]), 1, "a slab without holes serves first");
	pages_back(1, 3, true, &empty);
	ok(bin.nholes == 2 && slabs[1].e.holes == 0,
	    "pages of a slab that serves meanwhile are no holes");
	bin_take_pages_locked(&bin, info, &slabs[2].e, 1);
	pages_back(2, 1, false, &empty);
	ok(slabs[2].e.holes == 0, "nor those that the system kept");
	slabs[0].e.seen_empty = 3;
	unsigned n = bin_take_locked(&bin, info, out, 600);
	is_uint(slab_of(out[n - 1]), 0, "those with holes come last");
	ok(bin.nholes == 0 && slabs[0].e.holes == 0 && slabs[0].e.seen_empty == 0,
	    "and have none then, nor pages that were seen to be empty");
	for (unsigned i = 0; i < per_slab; i++) {
		put_one(slabs[0].e.addr + i * info->reg_size);
	}
	ok(empty == NULL, "no slab has left");
	mutex_unlock(&bin.mtx);
	finish();
}

/* While a pass has the last free regions of a slab, the rest may come back. */
static void
test_holes_of_empty(void) {
	void *out[600];
	edata_t *empty = NULL;
	start(PAGE / 8 * 7);
	unsigned per_slab = info->nregs, k = 0;
	mutex_lock(&bin.mtx);
	for (unsigned i = 0; i < 2; i++) {
		bin_try_add_slab_locked(&bin, &slabs[i].e);
		bin_take_locked(&bin, info, out, per_slab);
	}
	for (; k * info->reg_size < PAGE; k++) {
		put_one(slabs[0].e.addr + k * info->reg_size);
	}
	bin_take_pages_locked(&bin, info, &slabs[0].e, 1);
	ok(!slabs[0].e.is_listed && slabs[0].e.nfree == 0, "nothing else is free");
	for (; k < per_slab; k++) {
		put_one(slabs[0].e.addr + k * info->reg_size);
	}
	is_uint(bin.stats.curslabs, 2, "with the pass' regions the slab stays");
	pages_back(0, 1, true, &empty);
	ok(empty == &slabs[0].e && bin.stats.curslabs == 1 && bin.nholes == 0 && bin.ring == NULL,
	    "without it leaves, and its hole with it");
	mutex_unlock(&bin.mtx);
	finish();
}

/*
 * The current slab when it is empty: it stays for the next request, leaves when told to, and a
 * second one is not taken.
 */
static void
test_current(void) {
	void *out[4];
	edata_t *empty = NULL;
	start(1024);
	mutex_lock(&bin.mtx);
	ok(bin_try_add_slab_locked(&bin, &slabs[0].e) && !bin_try_add_slab_locked(&bin, &slabs[1].e),
	    "a slab that comes while there are regions is not needed");
	is_uint(bin.stats.curslabs + bin.stats.nonfull_slabs, 1, "and not counted");
	bin_take_locked(&bin, info, out, 1);
	ok(!bin_has_empty_current_locked(&bin, info), "a slab with a region in use");
	put_one(out[0]);
	ok(bin_has_empty_current_locked(&bin, info), "and without");
	bin_note_idle(&bin);
	is_int(bin_idle(&bin), bin_idle_found, "is seen by who trims");
	bin_take_locked(&bin, info, out, 1);
	is_int(bin_idle(&bin), bin_idle_not, "until it is used again");
	put_one(out[0]);
	bin_drop_current_locked(&bin, info, &empty);
	ok(empty == &slabs[0].e && bin.slabcur == NULL && bin.stats.curslabs == 0, "it leaves");
	is_uint(bin_take_locked(&bin, info, out, 1), 0, "nothing is there then");
	ok(bin_try_add_slab_locked(&bin, &slabs[1].e) && bin_take_locked(&bin, info, out, 1) == 1,
	    "another one serves");
	mutex_unlock(&bin.mtx);
	finish();
}

static void
double_put(void *arg) {
	void *out[4];
	size_t off = *(size_t *)arg;
	start(96);
	mutex_lock(&bin.mtx);
	bin_try_add_slab_locked(&bin, &slabs[0].e);
	bin_take_locked(&bin, info, out, 4);
	put_one(out[1]);
	put_one((char *)out[off == 0 ? 1 : 2] + off);
}

static void
body(void) {
	static const size_t sizes[] = {8, 48, 512, 3584, 14336};
	core_map(FAR, (size_t)64 << 20);
	for (unsigned i = 0; i < 5; i++) {
		test_random_use(sizes[i]);
	}
	test_lowest_first();
	test_others();
	test_double_free();
	test_double_free_of_last();
	test_current();
	if (!config_hardening) {
		test_holes();
		test_holes_of_empty();
	}
	size_t off = 0;
	dies(SIGABRT, "<jemalloc>: double free or pointer into a block", double_put, &off,
	    "double put");
	off = 16;
	dies(SIGABRT, "<jemalloc>: double free or pointer into a block", double_put, &off,
	    "inner pointer");
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
