/*
 * The writing side of the page map. A leaf is installed by compare-and-swap and elements are atomic
 * stores. There is no lock, because the shelter (thread/shelter.h: the fork fallback heap) writes
 * too while another thread forks. Two threads may make the same leaf: the one whose exchange fails
 * unmaps its own and uses the other's. No leaf is ever removed. The window is made at boot, before
 * there is an address to look up; two threads may make the same leaf of it writable. Readers load
 * the root and the element with relaxed order. That is enough for an address that the allocator
 * handed out: it reached the reader from a thread that saw the leaf and the element, and the
 * element's address is computed from the loaded entry of the root, so the processor does not
 * reorder these two loads. For any other address a reader may see an old NULL or 0, which is a
 * correct answer too. Called by arena/, extent/ and thread/shelter for extents that they own or
 * whose cache's lock they hold; emap_boot() by jemalloc_init.c, emap_bytes() by inspect.c.
 */
#include "meta/emap.h"

#include "os/pages.h"
#include "os/room.h"

LARGE_BSS atomic_p_t emap_root[EMAP_ROOT_ENTRIES];
szind_t emap_ncacheable;
emap_window_t emap_window = {.from = (uintptr_t)1 << 63};
LARGE_BSS emap_bits_t emap_window_bits[EMAP_WINDOW_LEAVES];

/* Words about huge slabs for the address space of a leaf. */
#define EMAP_LEAF_WORDS ((size_t)1 << (EMAP_LG_LEAF - EMAP_LG_HUGE))
static LARGE_BSS atomic_p_t emap_window_words[EMAP_WINDOW_LEAVES * EMAP_LEAF_WORDS];

/* A leaf outside of the window: elements of 1 GiB of address space, then what is known of it. */
typedef struct {
	atomic_u64_t elems[EMAP_LEAF_ENTRIES];
	emap_bits_t bits;
	atomic_p_t words[EMAP_LEAF_WORDS]; /* see emap_huge_word() */
} emap_leaf_t;

static struct {
	atomic_zu_t touched;  /* 4 KiB pieces of leaves for which emap_reserve() was called */
	atomic_u32_t writable; /* a bit for each leaf of the window: it may be written */
} emap;

/* Bytes by which the address of a leaf is above the root's entry for it. */
#define EMAP_LEAF_BIAS(root_ind) ((uintptr_t)(root_ind) * EMAP_LEAF_ENTRIES * sizeof(uint64_t))

/*
 * log2 of the address space in bytes that a piece of a leaf covers: a piece of 4 KiB has 2^9
 * elements, one for each granule. (A granule has 4 KiB too; emap_bytes() makes use of that.)
 */
#define EMAP_LG_PIECE (EMAP_LG_GRANULE + 9)

/*
 * Maps the elements of the window, readable only: a leaf becomes writable when it is first needed,
 * so a program that locks its memory, or a system that does not overcommit, counts no more than
 * that. The window lies around its own mapping, since the system places later mappings mostly
 * below earlier ones. Without memory there is none.
 */
static void
emap_window_make(void) {
	const size_t bytes = EMAP_WINDOW_ENTRIES * sizeof(uint64_t);
	bool commit = false;
	void *elems = pages_map(NULL, bytes, PAGE, &commit);
	if (elems == NULL || pages_protect(elems, bytes, PAGES_READABLE) != 0) {
		if (elems != NULL) {
			pages_unmap_in_time(elems, bytes);
		}
		return;
	}
	size_t own = (uintptr_t)elems >> EMAP_LG_LEAF;
	emap_window.elems = elems;
	emap_window.size = EMAP_WINDOW_ENTRIES;
	__atomic_store_n(&emap_window.from, (own - min_zu(own, EMAP_WINDOW_BELOW)) << EMAP_LG_LEAF,
	    MO_RELEASE);
}

void
emap_boot(szind_t ncacheable) {
	emap_ncacheable = ncacheable;
	/* Not after a boot that failed: a leaf in the root would lie in it. */
	bool is_first = emap_window.elems == NULL && atomic_load_zu(&emap.touched, MO_RELAXED) == 0;
	if (is_first && !room_space_is_limited()) {
		emap_window_make();
	}
	/* The largest offset of a bin fits into an element. */
	cassert(((SC_NSIZES + 1) << SC_LG_BIN_STRIDE) < (1 << (64 - ELEM_BIN_SHIFT)));
}

/*
 * Makes a leaf of the window writable; 0 or an errno value. A leaf may be an aligned huge page, of
 * which few programs use much: where the system makes huge pages unasked, it is told not to.
 */
static int
emap_window_open(size_t ind) {
	const size_t bytes = EMAP_LEAF_ENTRIES * sizeof(*emap_window.elems);
	uint32_t bit = UINT32_C(1) << ind;
	cassert(EMAP_WINDOW_LEAVES <= 32);
	if ((atomic_load_u32(&emap.writable, MO_ACQUIRE) & bit) != 0) {
		return 0;
	}
	void *leaf = emap_window.elems + ind * EMAP_LEAF_ENTRIES;
	int err = pages_protect(leaf, bytes, PAGES_OPEN);
	if (err == 0) {
		if (pages_system_thp_mode() == thp_mode_always) {
			(void)pages_advise(leaf, bytes, PAGES_NO_HUGE);
		}
		atomic_fetch_or_u32(&emap.writable, bit, MO_RELEASE);
	}
	return err;
}

/*
 * Maps a leaf and installs it; 0 also if another thread installed one. ENOMEM also if the leaf's
 * address equals its bias: the entry would be 0, which means that there is no leaf. The leaf stays
 * mapped then, so that the next call gets another address.
 */
static int
emap_leaf_create(size_t root_ind) {
	size_t bytes = PAGE_CEILING(sizeof(emap_leaf_t));
	void *seen = NULL, *leaf = pages_map(NULL, bytes, PAGE, NULL);
	void *origin = (void *)((uintptr_t)leaf - EMAP_LEAF_BIAS(root_ind));
	cassert(offsetof(emap_leaf_t, elems) == 0);
	if (leaf == NULL || origin == NULL) {
		return ENOMEM;
	}
	if (!atomic_cas_strong_p(&emap_root[root_ind], &seen, origin, MO_ACQ_REL, MO_ACQUIRE)) {
		pages_unmap_in_time(leaf, bytes); /* another thread was faster */
	}
	return 0;
}

emap_bits_t *
emap_bits_outside(const void *ptr) {
	size_t root_ind = (uintptr_t)ptr >> EMAP_LG_LEAF;
	uintptr_t origin = ((uintptr_t)ptr >> 48) != 0 ? 0 : emap_origin(ptr);
	return origin == 0 ? NULL : &((emap_leaf_t *)(origin + EMAP_LEAF_BIAS(root_ind)))->bits;
}

/* For statistics: counts the pieces of leaves with the elements of the addresses from..last. */
static void
emap_count_pieces(uintptr_t from, uintptr_t last) {
	for (uintptr_t piece = from >> EMAP_LG_PIECE; piece <= last >> EMAP_LG_PIECE; piece++) {
		emap_bits_t *bits = emap_bits((const void *)(piece << EMAP_LG_PIECE));
		size_t i = piece & (((size_t)1 << (EMAP_LG_LEAF - EMAP_LG_PIECE)) - 1);
		uint64_t bit = (uint64_t)1 << (i & 63);
		if ((atomic_load_u64(&bits->pieces[i >> 6], MO_RELAXED) & bit) == 0
		    && (atomic_fetch_or_u64(&bits->pieces[i >> 6], bit, MO_RELAXED) & bit) == 0) {
			atomic_fetch_add_zu(&emap.touched, 1, MO_RELAXED);
		}
	}
}

int
emap_reserve(const void *addr, size_t size) {
	uintptr_t a = (uintptr_t)addr;
	if (size == 0 || (a >> 48) != 0 || size > ((uintptr_t)1 << 48) - a) {
		return ENOMEM;
	}
	for (size_t i = a >> EMAP_LG_LEAF; i <= (a + size - 1) >> EMAP_LG_LEAF; i++) {
		size_t ind = i - (emap_window.from >> EMAP_LG_LEAF);
		int err = ind < EMAP_WINDOW_LEAVES ? emap_window_open(ind)
		    : atomic_load_p(&emap_root[i], MO_ACQUIRE) == NULL ? emap_leaf_create(i) : 0;
		if (err != 0) {
			return ENOMEM;
		}
	}
	emap_count_pieces(a, a + size - 1);
	return 0;
}

/*
 * The element of an extent in its present state. That of a sample has neither a bin nor ELEM_LARGE,
 * so that its free takes the slow path.
 */
static uint64_t
elem_make(const edata_t *e) {
	assert(((uintptr_t)e & (EDATA_ALIGN - 1)) == 0);
	uint64_t elem = (uint64_t)(uintptr_t)e;
	assert((elem & ~ELEM_EDATA_MASK) == 0);
	elem |= (uint64_t)e->state << ELEM_STATE_SHIFT;
	if (e->state != extent_state_active) {
		return elem;
	}
	return elem | elem_use(e, e->is_slab);
}

/* Writes the elements of [from, to). */
static void
emap_write_range(const char *from, const char *to, uint64_t elem) {
	for (; from < to; from += (size_t)1 << EMAP_LG_GRANULE) {
		emap_write(from, elem);
	}
}

void
emap_set_boundary(const edata_t *e) {
	edata_check(e);
	assert((e->size & PAGE_MASK) == 0 && ((uintptr_t)e->addr & PAGE_MASK) == 0);
	uint64_t elem = elem_make(e);
	emap_write_page(e->addr, elem);
	emap_write(edata_end(e) - ((size_t)1 << EMAP_LG_GRANULE), elem);
}

void
emap_move_end(const edata_t *e, const char *from) {
	edata_check(e);
	assert(from > e->addr && (e->size & PAGE_MASK) == 0 && from < edata_end(e));
	if (from - e->addr > (ptrdiff_t)PAGE) {
		emap_write(from - ((size_t)1 << EMAP_LG_GRANULE), 0);
	}
	emap_write(edata_end(e) - ((size_t)1 << EMAP_LG_GRANULE), emap_elem(e->addr));
}

void
emap_move_start(const edata_t *e, char *from) {
	edata_check(e);
	assert(from < e->addr && ((uintptr_t)from & PAGE_MASK) == 0);
	uint64_t elem = emap_elem(from);
	emap_write_page(from, 0);
	emap_write_page(e->addr, elem);
}

void
emap_set_slab(const edata_t *e) {
	edata_check(e);
	assert(e->is_slab && (e->size & PAGE_MASK) == 0);
	emap_write_range(e->addr, edata_end(e), elem_make(e));
}

void
emap_clear_slab_interior(const edata_t *e) {
	assert(e->is_slab && e->state == extent_state_active);
	emap_write_range(e->addr + PAGE, edata_end(e), 0);
}

void
emap_clear_boundary(const edata_t *e) {
	emap_write_page(e->addr, 0);
	emap_write(edata_end(e) - ((size_t)1 << EMAP_LG_GRANULE), 0);
}

bool
emap_set_huge(const void *ptr, bool is_huge) {
	uintptr_t a = (uintptr_t)ptr;
	size_t i = (a >> EMAP_LG_HUGE) & (((size_t)1 << (EMAP_LG_LEAF - EMAP_LG_HUGE)) - 1);
	uint64_t bit = (uint64_t)1 << (i & 63);
	atomic_u64_t *word = &emap_bits(ptr)->huge[i >> 6];
	uint64_t old = is_huge ? atomic_fetch_or_u64(word, bit, MO_RELAXED)
	    : atomic_fetch_and_u64(word, ~bit, MO_RELAXED);
	return (old & bit) != 0;
}

atomic_p_t *
emap_huge_word(const void *ptr) {
	size_t i = ((uintptr_t)ptr - emap_window.from) >> EMAP_LG_HUGE;
	if (likely(i < ARRAY_LEN(emap_window_words))) {
		return &emap_window_words[i];
	}
	emap_bits_t *bits = emap_bits_outside(ptr);
	return bits == NULL ? NULL
	    : &container_of(bits, emap_leaf_t, bits)->words[i % EMAP_LEAF_WORDS];
}

size_t
emap_bytes(void) {
	return atomic_load_zu(&emap.touched, MO_RELAXED) << EMAP_LG_GRANULE;
}
