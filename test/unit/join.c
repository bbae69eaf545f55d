/*
 * extent/join.h: a row of dirty, muzzy and retained pieces becomes one extent, at its left or right
 * end as the room is; what is too short or of no use stays as it was.
 */
#include "core.h"

#include "extent/join.h"
#include "meta/base.h"
#include "os/witness.h"

#define ARENA_IND 3050
#define UNIT ((size_t)1 << 18)
#define N_UNITS 64
#define MAP_SIZE (N_UNITS * UNIT)

static extent_src_t src;
static ecache_t dirty, muzzy, retained;
static eset_class_t dirty_classes[SC_NPSIZES_MAX], muzzy_classes[SC_NPSIZES_MAX],
    retained_classes[SC_NPSIZES_MAX];
static ecache_t *const caches[JOIN_NCACHES] = {&dirty, &muzzy, &retained};
static char *region;

static void
start(void) {
	base_t *base = base_new();
	memset(&src, 0, sizeof(src));
	memset(&dirty, 0, sizeof(dirty));
	memset(&muzzy, 0, sizeof(muzzy));
	memset(&retained, 0, sizeof(retained));
	memset(dirty_classes, 0, sizeof(dirty_classes));
	memset(muzzy_classes, 0, sizeof(muzzy_classes));
	memset(retained_classes, 0, sizeof(retained_classes));
	extent_src_init(&src, base, ARENA_IND);
	ecache_init(&dirty, dirty_classes, extent_state_dirty, "extents_dirty",
	    WITNESS_RANK_EXTENT_DIRTY);
	ecache_init(&muzzy, muzzy_classes, extent_state_muzzy, "extents_muzzy",
	    WITNESS_RANK_EXTENT_MUZZY);
	ecache_init(&retained, retained_classes, extent_state_retained, "extents_retained",
	    WITNESS_RANK_EXTENT_RETAINED);
}

/* A letter for each unit: d, m, r lie in that cache, x is in use. */
static void
make(const char *map) {
	/* the largest alignment asked for here */
	edata_t *e = extent_grow(&src, &retained, MAP_SIZE, 4 * UNIT);
	region = e->addr;
	for (size_t i = 0; i < N_UNITS && e != NULL; i++) {
		char c = i < strlen(map) ? map[i] : 'x';
		edata_t *rest = i + 1 < N_UNITS ? extent_split(&src, e, UNIT) : NULL;
		if (c != 'x') {
			ecache_put(&src, c == 'd' ? &dirty : c == 'm' ? &muzzy : &retained, e);
		}
		e = rest;
	}
}

static size_t
npages(void) {
	return ecache_npages(&dirty) + ecache_npages(&muzzy) + ecache_npages(&retained);
}

/* want: first unit of what is found, or -1. */
static void
finds(const char *map, size_t nunits, size_t alignment, int want, size_t want_added) {
	size_t added = 99;
	start();
	make(map);
	size_t before = npages();
	edata_t *e = join_take(&src, caches, nunits * UNIT, alignment, &added);
	int at = e == NULL ? -1 : (int)((size_t)(e->addr - region) / UNIT);
	is_int(at, want, "%s: %zu units, alignment %zu", map, nunits, alignment);
	is_uint(added, want_added * UNIT, "%zu units are new", want_added);
	is_uint(npages(), before - (e == NULL ? 0 : e->size >> LG_PAGE), "nothing is lost");
	if (e != NULL) {
		ok(e->size == nunits * UNIT && e->state == extent_state_active && emap_edata(e->addr) == e
		    && emap_edata(edata_end(e) - 1) == e, "one extent");
	}
}

static void
test_rows(void) {
	finds("xxddddrrrrxx", 6, PAGE, 2, 2);
	finds("xxrrrrddddxx", 6, PAGE, 4, 2);
	finds("xxrrddddrrxx", 8, PAGE, 2, 4);
	finds("xxrrddddrrxx", 7, PAGE, 3, 3);
	finds("xxddmmddrrxx", 6, PAGE, 2, 0);
	finds("xxddmmrrddmmxx", 9, PAGE, 2, 2);
	finds("xxddddrrxxdddrrrrrxx", 7, PAGE, 10, 4);
	finds("xxddddrrxxdddddrrxx", 6, PAGE, 10, 1);
}

static void
test_none(void) {
	finds("xxddddxx", 6, PAGE, -1, 0);
	finds("xxrrrrrrrrxx", 6, PAGE, -1, 0);
	finds("xxddddxrrrrxx", 6, PAGE, -1, 0);
	finds("xxdrxx", 2, PAGE, -1, 0); /* less than JOIN_MIN */
	finds("xxdrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrxx", 32, PAGE, -1, 0); /* one in 32 saves nothing */
	finds("", 8, PAGE, -1, 0);
}

static void
test_alignment(void) {
	finds("xrdddddrrrxx", 6, 4 * UNIT, -1, 0);
	finds("xrrrddddrrxx", 5, 4 * UNIT, 4, 1);
	finds("xxxxrrddrrrrxx", 6, 4 * UNIT, 4, 4);
}

/* Of another arena, or of two mappings with different ends. */
static void
test_strangers(void) {
	size_t added;
	start();
	make("xxddddxx");
	edata_t *e = ecache_take_at(&src, &dirty, region + 2 * UNIT, 4 * UNIT);
	edata_t *tail = extent_split(&src, e, 3 * UNIT);
	ecache_put(&src, &dirty, e);
	tail->arena_ind = ARENA_IND + 1;
	tail->state = extent_state_retained;
	emap_set_boundary(tail);
	ok(join_take(&src, caches, 4 * UNIT, PAGE, &added) == NULL,
	    "a neighbour of another arena stays there");
	is_uint(ecache_npages(&dirty), (3 * UNIT) >> LG_PAGE, "the piece is back");
}

static void
body(void) {
	test_rows();
	test_none();
	test_alignment();
	test_strangers();
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
