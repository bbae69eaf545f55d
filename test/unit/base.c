/* meta/base.h over system calls of our own: placement, counts, what happens without memory. */
#include "core.h"

#include "meta/base.h"
#include "util/bits.h"

#include <sys/mman.h>

static struct {
	size_t mapped;
	unsigned nmaps;
	unsigned nunmaps;
	unsigned fail_from; /* from this map on there is nothing; 0: never */
	size_t most; /* larger maps are refused; 0: none */
	size_t largest;
} source;

/* Begins at a multiple of PAGE, also where the library's pages are longer than the system's. */
static void *
source_map(void *addr, size_t size, int prot, int flags, int fd, off_t offset) {
	source.nmaps++;
	if ((source.fail_from != 0 && source.nmaps >= source.fail_from)
	    || (source.most != 0 && size > source.most)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	source.mapped += size;
	source.largest = max_zu(source.largest, size);
	char *p = os_hooks_real.mmap(addr, size + PAGE, prot, flags, fd, offset);
	size_t lead = p == MAP_FAILED ? 0 : align_up((uintptr_t)p, PAGE) - (uintptr_t)p;
	if (lead != 0) {
		os_hooks_real.munmap(p, lead);
	}
	if (p != MAP_FAILED && lead != PAGE) {
		os_hooks_real.munmap(p + lead + size, PAGE - lead);
	}
	return p == MAP_FAILED ? p : p + lead;
}

static int
source_unmap(void *addr, size_t size) {
	source.mapped -= size;
	source.nunmaps++;
	return os_hooks_real.munmap(addr, size);
}

/* From now on the library's pages come from here. */
static void
source_begin(void) {
	static struct os_hooks_s hooks;
	memset(&source, 0, sizeof(source));
	hooks = os_hooks_real;
	hooks.mmap = source_map;
	hooks.munmap = source_unmap;
	os_hooks = &hooks;
}

static void
source_end(void) {
	os_hooks = &os_hooks_real;
}

#define N_PIECES 4000

static struct {
	char *p;
	size_t size;
	unsigned char fill;
} pieces[N_PIECES];

/* Every piece is zeroed, aligned, and keeps its content while the others are written. */
static void
test_pieces(void) {
	uint64_t seed = 9;
	unsigned bad = 0;
	size_t asked = 0;
	base_stats_t st;
	source_begin();
	base_t *base = base_new();
	ok(base != NULL && source.nmaps == 1, "a base lives in its first block");
	base_stats_read(base, &st);
	size_t at_first = st.allocated;
	for (unsigned i = 0; i < N_PIECES; i++) {
		size_t size = 1 + draw_below(&seed, i % 50 == 0 ? 20000 : 300);
		size_t alignment = (size_t)1 << draw_below(&seed, 9);
		char *p = base_alloc(base, size, alignment);
		bad += wrong_if(p == NULL)
		    || wrong_if(((uintptr_t)p & (max_zu(alignment, 16) - 1)) != 0);
		bad += !is_filled(p, 0, size);
		pieces[i].p = p;
		pieces[i].size = size;
		pieces[i].fill = (unsigned char)test_random(&seed);
		memset(p, pieces[i].fill, size);
		asked += align_up(size, 16);
	}
	is_uint(bad, 0, "pieces are aligned and zeroed");
	for (unsigned i = 0; i < N_PIECES; i++) {
		bad += !is_filled(pieces[i].p, pieces[i].fill, pieces[i].size);
	}
	is_uint(bad, 0, "and do not overlap");
	base_stats_read(base, &st);
	is_uint(st.allocated - at_first, asked, "allocated: what was handed out");
	is_uint(st.mapped, source.mapped, "mapped: what came from the source");
	ok(st.resident <= st.mapped && st.resident >= st.allocated,
	    "resident %zu between allocated %zu and mapped %zu", st.resident, st.allocated, st.mapped);
	ok(st.mapped <= 3 * st.allocated + ((size_t)256 << 10), "no great waste");
	is_uint(st.edata, 0, "no descriptors yet");
	ok(base_alloc_edata(base, 128, 128) != NULL, "a descriptor");
	base_stats_read(base, &st);
	is_uint(st.edata, 128, "is counted apart");
	unsigned nmaps = source.nmaps;
	base_delete(base);
	is_uint(source.nunmaps, nmaps, "all blocks go back");
	is_uint(source.mapped, 0, "to the last byte");
	source_end();
}

/* Blocks double up to 2 MiB; an odd large piece gets a block that fits. */
static void
test_growth(void) {
	source_begin();
	base_t *base = base_new();
	for (size_t total = 0; total < (size_t)24 << 20; total += 4096) {
		if (base_alloc(base, 4096, 16) == NULL) {
			fail("out of memory");
			break;
		}
	}
	ok(source.nmaps <= 6 + 13, "24 MiB in %u blocks", source.nmaps);
	is_uint(source.largest, (size_t)2 << 20, "of at most 2 MiB");
	char *p = base_alloc(base, (size_t)5 << 20, (size_t)1 << 20);
	is_ptr_aligned(p, (size_t)1 << 20, "5 MiB aligned to 1 MiB");
	memset(p, 1, (size_t)5 << 20);
	base_delete(base);
	is_uint(source.mapped, 0, "all given back");
	source_end();
}

static struct {
	unsigned ncalls;
	size_t bytes;
	bool is_refused;
} ahead;

static size_t
fake_populate(char *addr UNUSED, size_t size) {
	ahead.ncalls++;
	ahead.bytes += ahead.is_refused ? 0 : size;
	return ahead.is_refused ? 0 : size;
}

/* A base from the system has a 64th of what it handed out populated, and not before 1 MiB. */
static void
test_ahead(void) {
	base_stats_t st;
	size_t total = 0, least = max_zu(BASE_AHEAD_MIN, PAGE) << BASE_LG_AHEAD;
	unsigned bad = 0;

	ok(base_ahead(least - 1) == 0 && base_ahead(least) == least >> BASE_LG_AHEAD
	    && base_ahead(SIZE_MAX) == BASE_AHEAD_MAX, "from a size on, a 64th, 256 KiB at most");
	base_t *base = base_new();
	base_populate_hook = fake_populate;
	for (; total < (size_t)32 << 20; total += 128) {
		bad += wrong_if(base_alloc(base, 128, 128) == NULL);
		bad += wrong_if(total < least / 2 && ahead.ncalls > 0);
	}
	base_stats_read(base, &st);
	ok(bad == 0 && ahead.ncalls > 0, "%u calls for 32 MiB", ahead.ncalls);
	ok(ahead.bytes >= total / 2 && ahead.bytes <= total + BASE_AHEAD_MAX, "%zu bytes", ahead.bytes);
	ok(st.resident >= st.allocated && st.resident <= st.allocated + (st.allocated >> BASE_LG_AHEAD)
	    + BASE_AHEAD_MAX, "resident %zu of allocated %zu", st.resident, st.allocated);
	ahead.is_refused = true;
	ok(base_alloc(base, (size_t)1 << 20, 16) != NULL, "a refusal changes nothing else");
	base_stats_read(base, &st);
	ok(st.resident >= st.allocated, "and pages are counted when they are used");
	base_populate_hook = NULL;
	base_delete(base);
}

static void
test_no_memory(void) {
	source_begin();
	source.fail_from = 1;
	ok(base_new() == NULL, "no pages, no base");
	source.fail_from = source.nmaps + 2;
	base_t *base = base_new();
	ok(base != NULL, "a base from the next map");
	unsigned n = 0;
	while (base_alloc(base, 1000, 16) != NULL) {
		n++;
	}
	ok(n >= 60, "the first block still serves (%u)", n);
	base_stats_t before, after;
	base_stats_read(base, &before);
	ok(base_alloc(base, 1000, 16) == NULL && base_alloc(base, 100000, 16) == NULL, "then NULL");
	ok(base_alloc(base, SIZE_MAX, 16) == NULL, "NULL for the largest number");
	ok(base_alloc(base, SIZE_MAX - 4096, 4096) == NULL, "and for one near it");
	base_stats_read(base, &after);
	ok(memcmp(&before, &after, sizeof(before)) == 0, "failures count for nothing");
	source.fail_from = 0;
	ok(base_alloc(base, 1000, 16) != NULL, "and when there are pages again it goes on");
	source.most = 2 * PAGE;
	for (n = 0; n < 1000 && base_alloc(base, 1000, 16) != NULL; n++) {
	}
	is_uint(n, 1000, "near a limit it goes on in small blocks");
	base_delete(base);
	is_uint(source.mapped, 0, "nothing leaks");
	source_end();
}

/* With "auto" a base has huge pages only when it has, or is asked for, some MiB of metadata. */
static void
test_auto_thp(void) {
	unsigned before = opt_metadata_thp;
	base_stats_t st;
	opt_metadata_thp = metadata_thp_auto;
	base_t *base = base_new();
	for (unsigned i = 0; i < 16; i++) {
		base_alloc(base, 32768, 64);
	}
	base_stats_read(base, &st);
	ok(st.n_thp == 0 && st.resident < (size_t)1 << 20, "none with 512 KiB: %zu", st.resident);
	for (unsigned i = 0; i < 128; i++) {
		base_alloc(base, 32768, 64);
	}
	base_stats_read(base, &st);
	thp_mode_t mode = pages_system_thp_mode();
	bool has_huge = HUGEPAGE != PAGE && (mode == thp_mode_default || mode == thp_mode_always);
	ok(!has_huge || st.n_thp > 0, "but some with 4 MiB");
	base_delete(base);
	base = base_new();
	base_alloc(base, (size_t)3 << 20, 64);
	base_stats_read(base, &st);
	ok(!has_huge || st.n_thp > 0, "a first request of 3 MiB has a block of huge pages");
	base_delete(base);
	opt_metadata_thp = before;
}

/* Without huge pages none is counted, however many bytes are touched at once. */
static void
test_no_thp(void) {
	base_stats_t st;
	base_t *base = base_new();
	ok(base_alloc(base, (size_t)9 << 20, 64) != NULL, "9 MiB in pages of the usual size");
	base_stats_read(base, &st);
	ok(st.resident >= (size_t)9 << 20, "all of them are counted");
	is_uint(st.n_thp, 0, "and no huge page");
	base_delete(base);
}

static void
body(void) {
	test_pieces();
	test_growth();
	test_ahead();
	test_no_memory();
	test_auto_thp();
	test_no_thp();
	ok(base_b0() != NULL, "the process has its own");
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
