/* meta/emap.h: what is written for an extent is found at its addresses, and nothing else is. */
#include "core.h"

#include "meta/emap.h"
#include "os/sys.h"

#define GRANULE ((size_t)1 << EMAP_LG_GRANULE)

/* Far from everything that is mapped: no memory is touched there, only the map. */
#define FAR ((char *)(uintptr_t)0x123440000000)

static edata_t
extent(char *addr, size_t npages) {
	edata_t e;
	memset(&e, 0, sizeof(e));
	edata_init(&e, addr, npages * PAGE, true, false);
	return e;
}

static ALIGNED(EDATA_ALIGN) edata_t one, two;

/* Number of granules in the range whose element names e. */
static size_t
granules_of(const edata_t *e, const char *from, size_t size) {
	size_t n = 0;
	for (size_t off = 0; off < size; off += GRANULE) {
		n += emap_edata(from + off) == e;
	}
	return n;
}

static void
test_lookup(void) {
	is_uint(emap_elem(FAR), 0, "never mapped: nothing");
	is_uint(emap_elem_any((void *)(uintptr_t)UINT64_C(0xffff800000000000)), 0,
	    "upper half: nothing");
	is_uint(emap_elem_any((void *)(uintptr_t)SIZE_MAX), 0, "last address: nothing");
	is_uint(emap_elem(NULL), 0, "NULL: nothing");
	is_int(emap_reserve(FAR, PAGE), 0, "leaves can be made");
	is_uint(emap_elem(FAR), 0, "a fresh leaf says nothing");
	is_int(emap_reserve((void *)(uintptr_t)UINT64_C(0x1000000000000), PAGE), ENOMEM,
	    "beyond 48 bits");
	is_int(emap_reserve(FAR, SIZE_MAX), ENOMEM, "a range that wraps");
	is_int(emap_reserve(FAR, 0), ENOMEM, "no range");
}

/* The end of the window lies between two leaves that are not adjacent. */
static void
test_window(void) {
	if (emap_window.elems == NULL) {
		skip(5, "no window: the system's address space is limited");
		return;
	}
	int here;
	ok((uintptr_t)emap_window.elems - emap_window.from < EMAP_WINDOW_LEAVES << EMAP_LG_LEAF,
	    "its own mapping is in the window");
	is_uint(emap_elem(&here), 0, "the stack is not ours, there or not");
	char *from = (char *)emap_window.from, *end = from + (EMAP_WINDOW_LEAVES << EMAP_LG_LEAF);
	size_t bad = emap_elem(from) != 0 || emap_elem(from - 1) != 0;
	bad += emap_elem(end) != 0 || emap_elem(end - 1) != 0;
	is_uint(bad, 0, "nothing at its borders");
	one = extent(end - 4 * PAGE, 8);
	one.is_slab = true;
	one.szind = 7;
	is_int(emap_reserve(one.addr, one.size), 0, "room for a slab across its end");
	emap_set_slab(&one);
	is_uint(granules_of(&one, end - 8 * PAGE, 16 * PAGE), 8 * PAGE / GRANULE, "which is found");
	one.state = extent_state_active;
	emap_clear_slab_interior(&one);
	emap_clear_boundary(&one);
}

static const char *enabled;
static unsigned n_nohuge;

static int
fake_open(const char *path, int flags, unsigned mode) {
	if (strstr(path, "transparent_hugepage/enabled") == NULL) {
		return os_hooks_real.open(path, flags, mode);
	}
	int fd = memfd_create("fake", MFD_CLOEXEC);
	size_t n = strlen(enabled);
	if (fd < 0 || write(fd, enabled, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) != 0) {
		bail_out("no file in memory");
	}
	return fd;
}

static int
noted_madvise(void *addr, size_t size, int advice) {
	n_nohuge += advice == MADV_NOHUGEPAGE
	    && size == EMAP_LEAF_ENTRIES * sizeof(*emap_window.elems);
	return os_hooks_real.madvise(addr, size, advice);
}

/* A leaf is as large as a huge page, and mostly little of it is touched. */
static void
test_no_huge_leaf(void) {
	static const char *const modes[] = {"always [madvise] never", "[always] madvise never"};
	struct os_hooks_s hooks = os_hooks_real;
	if (emap_window.elems == NULL) {
		skip(2, "no window: the system's address space is limited");
		return;
	}
	hooks.open = fake_open;
	hooks.madvise = noted_madvise;
	for (unsigned i = 0; i < 2; i++) {
		enabled = modes[i];
		n_nohuge = 0;
		os_hooks = &hooks;
		pages_boot_thp();
		int err = emap_reserve((char *)emap_window.from + ((i + 1) << EMAP_LG_LEAF), PAGE);
		os_hooks = &os_hooks_real;
		ok(err == 0 && n_nohuge == i, "no huge page becomes a leaf: %s", enabled);
	}
	pages_boot_thp();
}

/* Each 4 KiB of elements, those of 2 MiB, count once, however often they are asked for. */
static void
test_bytes(void) {
	static bool is_there[2 << (EMAP_LG_LEAF - 21)];
	char *base = FAR + ((size_t)8 << EMAP_LG_LEAF);
	uint64_t seed = 9;
	size_t want = emap_bytes();
	unsigned bad = 0;
	for (unsigned round = 0; round < 600; round++) {
		size_t from = draw_below(&seed, sizeof(is_there) << 21) & ~PAGE_MASK;
		size_t size = PAGE * (1 + draw_below(&seed, (8 << 20) / PAGE));
		size = min_zu(size, (sizeof(is_there) << 21) - from);
		bad += wrong_if(emap_reserve(base + from, size) != 0);
		for (size_t i = from >> 21; i <= (from + size - 1) >> 21; i++) {
			want += is_there[i] ? 0 : 4096;
			is_there[i] = true;
		}
		bad += wrong_if(emap_bytes() != want);
	}
	is_uint(bad, 0, "bytes of the map in use");
}

static void
test_boundary(void) {
	one = extent(FAR + 16 * PAGE, 8);
	one.szind = SC_NSIZES;
	one.state = extent_state_muzzy;
	is_int(emap_reserve(FAR, 64 * PAGE), 0, "room in the map");
	emap_set_boundary(&one);
	is_uint(granules_of(&one, FAR, 64 * PAGE), PAGE / GRANULE + 1, "first page and last granule");
	ok(emap_edata(one.addr) == &one && emap_edata(edata_end(&one) - 1) == &one, "at both ends");
	is_uint(elem_state(emap_elem(one.addr)), extent_state_muzzy, "with the state");
	is_uint(emap_elem(one.addr) >> ELEM_BIN_SHIFT, 0, "an unused extent has no bin");
	two = extent(FAR + 24 * PAGE, 1);
	two.szind = SC_NSIZES;
	emap_set_boundary(&two);
	is_uint(granules_of(&two, FAR, 64 * PAGE), PAGE / GRANULE, "one page: all its granules");
	ok(emap_edata(two.addr - 1) == &one && emap_edata(two.addr) == &two,
	    "neighbours are told apart");
	emap_clear_boundary(&one);
	emap_clear_boundary(&two);
	is_uint(granules_of(NULL, FAR, 64 * PAGE), 64 * PAGE / GRANULE, "cleared: nothing again");
}

static void
test_slab(void) {
	one = extent(FAR + 3 * PAGE, 5);
	one.is_slab = true;
	one.szind = 7;
	emap_set_slab(&one);
	is_uint(granules_of(&one, FAR, 64 * PAGE), 5 * PAGE / GRANULE, "a slab is found everywhere");
	uint64_t elem = emap_elem(one.addr + 2 * PAGE + 17);
	ok((elem & ELEM_SLAB) != 0 && (elem & ELEM_SAMPLED) == 0, "marked as slab");
	is_uint(elem >> ELEM_BIN_SHIFT, 8 * SC_BIN_STRIDE, "with the offset of its class' bin");
	one.is_sampled = true;
	emap_set_slab(&one);
	elem = emap_elem(one.addr + PAGE);
	ok((elem & ELEM_SAMPLED) != 0 && elem >> ELEM_BIN_SHIFT == 0, "sampled: no bin");
	emap_clear_slab_interior(&one);
	is_uint(granules_of(&one, FAR, 64 * PAGE), PAGE / GRANULE, "the first page stays");
	emap_clear_boundary(&one);
	is_uint(granules_of(NULL, FAR, 64 * PAGE), 64 * PAGE / GRANULE, "nothing is left");
}

static void
test_slab_bins(void) {
	unsigned bad = 0;
	for (szind_t i = 0; i < SC_NBINS; i++) {
		one = extent(FAR, 1);
		one.is_slab = true;
		one.szind = (uint8_t)i;
		emap_set_slab(&one);
		uint64_t elem = emap_elem(FAR), bin = i < emap_ncacheable ? (i + 1) * SC_BIN_STRIDE : 0;
		bad += wrong_if((elem & ELEM_SLAB) == 0) || wrong_if(elem_edata(elem) != &one)
		    || wrong_if(elem_state(elem) != extent_state_active)
		    || wrong_if(elem >> ELEM_BIN_SHIFT != bin);
	}
	emap_clear_boundary(&one);
	is_uint(bad, 0, "a slab's element has its descriptor, its state and the bin of its class");
}

static void
test_large_bins(void) {
	unsigned bad = 0;
	for (szind_t i = SC_NBINS; i <= SC_NSIZES; i++) {
		one = extent(FAR, 4);
		one.szind = (uint8_t)i;
		emap_set_boundary(&one);
		uint64_t elem = emap_elem(FAR);
		bad += ((elem & ELEM_LARGE) != 0) != (i < emap_ncacheable);
		bad += wrong_if(elem >> ELEM_BIN_SHIFT != 0)
		    || wrong_if((elem & (ELEM_SLAB | ELEM_SAMPLED)) != 0);
		one.is_sampled = true;
		emap_set_boundary(&one);
		bad += (emap_elem(FAR) & ELEM_LARGE) != 0;
	}
	emap_clear_boundary(&one);
	is_uint(bad, 0, "large classes: no bin, but a mark if they are cached");
	ok(emap_ncacheable > SC_NBINS || PAGE > 4096, "%u classes are cached", emap_ncacheable);
}

/* Across the border of two leaves. */
static void
test_leaf_border(void) {
	char *border = (char *)(((uintptr_t)FAR >> EMAP_LG_LEAF << EMAP_LG_LEAF)
	    + ((uintptr_t)1 << EMAP_LG_LEAF) * 3);
	size_t before = emap_bytes();
	one = extent(border - 2 * PAGE, 4);
	one.is_slab = true;
	one.szind = 1;
	is_int(emap_reserve(one.addr, one.size), 0, "leaves on both sides");
	size_t after = emap_bytes();
	is_uint(after - before, 2 * 4096, "two pieces of map more");
	is_int(emap_reserve(one.addr, one.size), 0, "again");
	is_uint(emap_bytes(), after, "are counted once");
	emap_set_slab(&one);
	is_uint(granules_of(&one, border - 8 * PAGE, 16 * PAGE), 4 * PAGE / GRANULE,
	    "found on both sides");
	emap_clear_slab_interior(&one);
	emap_clear_boundary(&one);
	is_uint(granules_of(&one, border - 8 * PAGE, 16 * PAGE), 0, "and gone from both");
}

/* Live objects of this process: each address is found in its extent. */
static void
test_live(void) {
	unsigned bad = 0;
	uint64_t seed = 5;
	for (unsigned i = 0; i < 3000; i++) {
		size_t size = 1 + draw_below(&seed, i % 10 == 0 ? 40 * PAGE : 4000);
		char *p = keep(malloc(size));
		uint64_t elem = emap_elem(p);
		const edata_t *e = elem_edata(elem);
		bad += wrong_if(elem_state(elem) != extent_state_active) || wrong_if(e == NULL);
		bad += e != NULL && (wrong_if(p < e->addr) || wrong_if(p + size > edata_end(e)));
		bad += e != NULL && ((elem & ELEM_SLAB) != 0) != e->is_slab;
		if (i % 3 != 0) {
			free(p);
		}
	}
	is_uint(bad, 0, "3000 live objects are found in their extents");
}

static void
body(void) {
	test_lookup();
	test_window();
	test_no_huge_leaf();
	test_bytes();
	test_boundary();
	test_slab();
	test_slab_bins();
	test_large_bins();
	test_leaf_border();
	test_live();
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
