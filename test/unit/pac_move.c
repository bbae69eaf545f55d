/*
 * extent/pac_move.h: the pages of an extent come along, its place is of use again, and nothing is
 * lost, whatever the system answers and whoever maps something in between.
 */
#include "core.h"

#include "extent/pac_life.h"
#include "extent/pac_hot.h"
#include "extent/pac_move.h"
#include "meta/base.h"
#include "os/sys.h"

#include <sys/mman.h>

#define SIZE ((size_t)1 << 20)
#define LONGER (SIZE * 3 / 2)

/* What happens in the moment in which a place belongs to nobody. */
typedef enum { NOTHING, REFUSED, REFUSED_LATE, REFUSED_UNMAPPED, REFUSED_TAKEN } event_t;

static pac_t *pac;
static struct os_hooks_s hooks;
static event_t event;
static char *intruder;

/* Another part of the process gets the address. */
static void
intrude(char *at) {
	intruder = mmap(at, PAGE, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	*intruder = 77;
}

static void *
refuse(void) {
	errno = EFAULT;
	return MAP_FAILED;
}

/* The first step has no address to go to; the second one goes to an extent, or back. */
static void *
move(void *from, size_t size, size_t new_size, int flags, void *to) {
	if (to == NULL) {
		return event == REFUSED ? refuse() : os_hooks_real.mremap(from, size, new_size, flags, to);
	}
	if (event == NOTHING || event == REFUSED) {
		ok(emap_elem_any(to) == 0 && emap_elem_any((char *)to + new_size - 1) == 0,
		    "the page map does not know the place");
		return os_hooks_real.mremap(from, size, new_size, flags, to);
	}
	if (emap_elem_any(to) == 0 && event != REFUSED_LATE) {
		munmap(to, new_size);
	}
	if (emap_elem_any(to) == 0 && event == REFUSED_TAKEN) {
		intrude(to);
	}
	return refuse();
}

static void
start(void) {
	static unsigned ind = 3300;
	base_t *base = base_new();
	pac = base_alloc(base, sizeof(*pac), CACHELINE);
	pac_init(pac, base, ind++, 10000, 0, 1);
}

/* An extent whose every page is written with its number. */
static edata_t *
make(size_t size) {
	edata_t *e = pac_alloc(pac, size, PAGE, false);
	for (size_t i = 0; i < size >> LG_PAGE; i++) {
		memset(e->addr + (i << LG_PAGE), (int)(i & 0x7f) + 1, PAGE);
	}
	return e;
}

static unsigned
nwrong(const edata_t *e, size_t size) {
	unsigned wrong = 0;
	for (size_t i = 0; i < size; i += 64) {
		wrong += e->addr[i] != (char)(((i >> LG_PAGE) & 0x7f) + 1);
	}
	return wrong;
}

static size_t
nactive(void) {
	return atomic_load_zu(&pac->nactive, MO_RELAXED) << LG_PAGE;
}

static size_t
mapped(void) {
	return atomic_load_zu(&pac->mapped, MO_RELAXED);
}

static size_t
retained(void) {
	return ecache_npages(&pac->retained) << LG_PAGE;
}

static bool
is_whole(const edata_t *e, size_t size) {
	return e->size == size && e->state == extent_state_active && emap_edata(e->addr) == e
	    && emap_edata(edata_end(e) - 1) == e;
}

static void
test_moves(void) {
	start();
	event = NOTHING;
	/* Blocks before and behind, so that the place is not joined with what is free there. */
	edata_t *before = make(SIZE), *e = make(SIZE), *guard = make(SIZE);
	char *was = e->addr;
	size_t kept = retained(), nmoved = extent_nmoved();
	edata_t *to = pac_try_move(pac, e, LONGER, PAGE);
	ok(to != NULL && is_whole(to, LONGER) && to->addr != was, "in a longer extent");
	is_uint(nwrong(to, SIZE), 0, "every page came along");
	is_uint(nactive(), LONGER + 2 * SIZE, "its pages are in use");
	is_uint(mapped(), LONGER + 2 * SIZE, "and no others are there");
	ok(retained() + LONGER >= kept + SIZE, "the place is retained");
	is_uint(extent_nmoved(), nmoved + 1, "one extent has pages from elsewhere");
	edata_t *again = ecache_take_at(&pac->src, &pac->retained, was, SIZE);
	ok(again != NULL && again->is_zeroed && *again->addr == 0, "the place is there, as zero");
	ecache_put(&pac->src, &pac->retained, again);
	/* Purged, it is mapped anew. */
	pac_dalloc(pac, to);
	pac_purge(pac, 2, true);
	is_uint(extent_nmoved(), nmoved, "purged pages are nobody's");
	to = pac_alloc_new(pac, LONGER, 0, PAGE);
	ok(to != NULL && to->addr[0] == 0 && to->addr[LONGER - 1] == 0, "what was purged is zero");
	pac_dalloc(pac, to);
	pac_dalloc(pac, before);
	pac_dalloc(pac, guard);
	pac_purge(pac, 3, true);
	is_uint(nactive(), 0, "nothing is in use");
	is_uint(mapped(), 0, "nothing is mapped");
}

static void
test_chain(void) {
	start();
	event = NOTHING;
	size_t size = SIZE, nmoved = extent_nmoved();
	unsigned wrong = 0;
	edata_t *e = make(SIZE);
	for (unsigned i = 0; i < 8; i++) {
		edata_t *to = pac_try_move(pac, e, size + SIZE, PAGE);
		wrong += to == NULL || to->size != size + SIZE || nwrong(to, SIZE) != 0;
		size += SIZE;
		e = to;
	}
	is_uint(wrong, 0, "moved again and again");
	is_uint(extent_nmoved(), nmoved + 1, "only the last place counts");
	is_uint(nactive(), size, "its pages are in use");
	edata_t *tail = extent_split(&pac->src, e, SIZE);
	is_uint(extent_nmoved(), nmoved + 2, "both parts of it count");
	extent_merge(&pac->src, e, tail);
	is_uint(extent_nmoved(), nmoved + 1, "and the whole again once");
	pac_dalloc(pac, e);
	pac_purge(pac, 2, true);
	is_uint(extent_nmoved(), nmoved, "purged: none");
}

/* A block that has grown over another mapping: the pages of the first one move. */
static void
test_part(size_t first, bool goes) {
	start();
	event = NOTHING;
	edata_t *before = make(SIZE), *e = make(2 * SIZE), *behind = make(SIZE);
	char *was = e->addr;
	mprotect(e->addr + first, 2 * SIZE - first, PROT_READ);
	edata_t *to = pac_try_move(pac, e, 2 * LONGER, PAGE);
	is_int(to != NULL, goes, "%zu KiB of 2048 are the first mapping", first >> 10);
	edata_t *now = goes ? to : e;
	is_uint(nwrong(now, 2 * SIZE), 0, "every byte is there");
	is_uint(nactive(), now->size + 2 * SIZE, "its pages are in use");
	is_uint(mapped(), now->size + 2 * SIZE, "and no others are there");
	if (goes) {
		edata_t *place = ecache_take_at(&pac->src, &pac->retained, was, 2 * SIZE);
		ok(place != NULL && !(place->is_zeroed && place->addr[2 * SIZE - 1] != 0),
		    "the place is retained, and not called zero if it is not");
		ecache_put(&pac->src, &pac->retained, place);
	}
	mprotect(was, 2 * SIZE, PROT_READ | PROT_WRITE);
	pac_dalloc(pac, before);
	pac_dalloc(pac, now);
	pac_dalloc(pac, behind);
	pac_purge(pac, 2, true);
}

static void
test_refused(event_t what, const char *said) {
	start();
	event = what;
	intruder = NULL;
	pac_move_again();
	edata_t *e = make(SIZE);
	size_t nmoved = extent_nmoved();
	ok(pac_try_move(pac, e, LONGER, PAGE) == NULL, "%s", said);
	ok(is_whole(e, SIZE) && nwrong(e, SIZE) == 0, "the extent is as it was");
	is_uint(nactive(), SIZE, "no other pages are in use");
	is_uint(mapped(), SIZE, "or mapped");
	is_uint(extent_nmoved(), nmoved, "none has moved");
	ok(intruder == NULL || (*intruder == 77 && emap_elem_any(intruder) == 0),
	    "another's mapping is left alone");
	/* The place may be served again, where it is ours. */
	edata_t *to = pac_alloc_new(pac, LONGER, 0, PAGE);
	ok(to != NULL && memset(to->addr, 5, LONGER) != NULL, "there is room as before");
	ok(intruder == NULL || *intruder == 77, "which is not another's");
	event = NOTHING;
	pac_purge(pac, 2, true);
	edata_t *moved = pac_try_move(pac, e, 2 * LONGER, PAGE);
	ok((moved != NULL) == (what == REFUSED), "after a failure of the second step nothing moves");
	e = moved != NULL ? moved : e;
	pac_dalloc(pac, to);
	pac_dalloc(pac, e);
	pac_purge(pac, 2, true);
	is_uint(mapped(), 0, "nothing is mapped at the end");
}

/* With enough unused pages at hand a copy takes fewer page faults. */
static void
test_not_worth(void) {
	start();
	event = NOTHING;
	edata_t *e = make(SIZE), *gap = make(PAGE), *other = make(2 * LONGER);
	pac_dalloc(pac, other);
	ok(pac_try_move(pac, e, LONGER, PAGE) == NULL, "there are unused pages enough");
	pac_purge(pac, 2, true);
	ok(pac_try_move(pac, e, LONGER, PAGE) != NULL, "there are none");
	pac_dalloc(pac, gap);
}

static void
body(void) {
	opt_populate = false;
	hooks = os_hooks_real;
	hooks.mremap = move;
	os_hooks = &hooks;
	test_moves();
	test_chain();
	test_not_worth();
	test_part(2 * SIZE - 8 * PAGE, true);
	test_part(SIZE / 2, false);
	test_refused(REFUSED, "refused");
	test_refused(REFUSED_LATE, "the second step is refused");
	test_refused(REFUSED_UNMAPPED, "refused, and the new place is unmapped");
	test_refused(REFUSED_TAKEN, "refused, and the new place is another's now");
	os_hooks = &os_hooks_real;
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
