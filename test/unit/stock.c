/*
 * arena/stock.h: what goes in comes out, the latest first; what is of another home, or of none,
 * stays outside. And the stocks of an arena: exact counts, trimming, misuse that is noticed at the
 * end of the stay.
 */
#include "core.h"

#include "arena/arenas.h"
#include "arena/inspect.h"
#include "meta/freepool.h"
#include "os/gate.h"
#include "os/nstime.h"

#define N 500
#define IND 5u

static arena_t *arena, *other;
static arena_stats_t stats;
static void *ptrs[4 * N], *back[4 * N];

static const bin_stats_t *
bin_stats(arena_t *a) {
	memset(&stats, 0, sizeof(stats));
	arena_stats_merge(a, &stats);
	return &stats.bins[IND];
}

static unsigned
fill(arena_t *a, void **out, unsigned n) {
	unsigned got = 0, more = 1;
	while (got < n && more > 0) {
		more = arena_small_fill(a, IND, 0, out + got, n - got, 0, 1);
		got += more;
	}
	return n - got;
}

/* Of the arena's slabs; as if their elements did not tell them, if so wanted. */
static stock_home_t
home_of_arena(bool by_elem) {
	stock_home_t home = stock_home_of_bin(arena->ind, IND, 0);
	home.elem = by_elem ? home.elem : 0;
	return home;
}

/* Room grows to its limit and no further; nothing is lost on the way. */
static void
test_room(void) {
	stock_t s = {0};
	unsigned bad = 0, old_room, room = 0;
	for (unsigned n = 1; n < 3000; n += 7) {
		unsigned next = stock_room_for(&s, n, 1000);
		bad += wrong_if(next < room) || wrong_if(next > 1000)
		    || wrong_if(next < n && next != 1000);
		room = next;
	}
	is_uint(bad, 0, "as much room as is needed, up to the limit");
	void *place[64], *more[128];
	stock_set_room(&s, place, 64, &old_room);
	bad = old_room != 0 || fill(arena, ptrs, 60) != 0;
	bad += wrong_if(stock_put(&s, home_of_arena(true), ptrs, 60) != 0) || wrong_if(s.n != 60);
	bad += wrong_if(stock_set_room(&s, more, 128, &old_room) != place)
	    || wrong_if(old_room != 64);
	bad += wrong_if(stock_room_for(&s, 1, 1000) != 128)
	    || wrong_if(stock_room_for(&s, 69, 1000) != 256);
	bad += wrong_if(stock_take(&s, back, 100) != 60)
	    || wrong_if(memcmp(ptrs, back, 60 * sizeof(void *)) != 0);
	is_uint(bad, 0, "a larger array has what the small one had");
	arena_small_flush(IND, ptrs, 60);
}

static unsigned
step_put(stock_t *s, stock_home_t home, void **model, unsigned *n_model, uint64_t *seed) {
	static unsigned at[2];
	void *batch[100];
	unsigned n = 1 + (unsigned)core_below(seed, 100), n_other = 0, bad = 0;
	bool is_mixed = core_below(seed, 3) == 0;
	unsigned room = s->room - s->n, expected = 0;
	bool is_first_other = is_mixed && core_below(seed, 5) == 0;
	for (unsigned i = 0; i < n; i++) {
		bool is_first = i == (n > room ? n - room : 0);
		bool is_other = is_first ? is_first_other : is_mixed && core_below(seed, 5) == 0;
		batch[i] = is_other ? ptrs[N + at[1]++ % N] : ptrs[at[0]++ % N];
		if (n - i <= room) {
			n_other += is_other;
			if (!is_first_other && !is_other) {
				model[*n_model + expected++] = batch[i];
			}
		}
	}
	*n_model += expected;
	unsigned left = stock_put(s, home, batch, n);
	bad += wrong_if(left != n - expected) || wrong_if(s->n != *n_model)
	    || wrong_if(memcmp(s->ptrs, model, *n_model * sizeof(void *)) != 0);
	for (unsigned i = left > n_other ? left - n_other : 0; !is_first_other && i < left; i++) {
		bad += emap_edata(batch[i])->arena_ind != other->ind;
	}
	return bad;
}

static void
test_random_use(bool by_elem) {
	static void *model[1000], *place[333];
	stock_t s = {0};
	uint64_t seed = 5;
	unsigned n_model = 0, bad = 0, old_room;
	stock_set_room(&s, place, 333, &old_room);
	bad += fill(arena, ptrs, N) + fill(other, ptrs + N, N);
	for (unsigned i = 0; i < 20000; i++) {
		unsigned n = (unsigned)core_below(&seed, 100), low = s.low;
		switch (core_below(&seed, 5)) {
		case 0:
			n = (unsigned)min_zu(n, s.n);
			stock_drop_oldest(&s, n);
			memmove(model, model + n, (n_model -= n) * sizeof(void *));
			bad += s.low != n_model;
			break;
		case 1:
		case 2:
			bad += step_put(&s, home_of_arena(by_elem), model, &n_model, &seed);
			bad += s.low != low;
			break;
		default:
			n = stock_take(&s, back, n);
			bad += memcmp(back, model + n_model - n, n * sizeof(void *)) != 0;
			n_model -= n;
			bad += s.low != min_zu(low, n_model);
		}
		bad += s.n != n_model;
	}
	is_uint(bad, 0, "random use, told by %s: what is there, in which order, and the least there "
	    "was", by_elem ? "elements" : "descriptors");
	arena_small_flush(IND, ptrs, 2 * N);
}

/* Pointers to no slab stay outside, whatever they look like. */
static void
test_strangers(void) {
	static const uint64_t strange[] = {0, 1, 0x5000, 0x7fffffffe000, 0x800000000000,
	    0xfffffffffffff000, 0x0123456789abcdef};
	void *place[64], *batch[9];
	unsigned old_room, bad = 0;
	stock_t s = {0};
	stock_set_room(&s, place, 64, &old_room);
	bad += fill(arena, ptrs, 8);
	char *large = arena_malloc(arena, 4 * SC_LARGE_MINCLASS, 0, false, 1);
	for (unsigned i = 0; i <= ARRAY_LEN(strange); i++) {
		void *p = i < ARRAY_LEN(strange) ? (void *)(uintptr_t)strange[i] : large;
		for (unsigned at = 0; at < 9; at++) {
			unsigned k = 0;
			for (unsigned j = 0; j < 9; j++) {
				batch[j] = j == at ? p : ptrs[k++];
			}
			unsigned left = at == 0 ? 9 : 1;
			bad += wrong_if(stock_put(&s, home_of_arena(i % 2 == 0), batch, 9) != left)
			    || wrong_if(batch[0] != p);
			bad += stock_take(&s, back, 9) != 9 - left;
		}
	}
	is_uint(bad, 0, "pointers to no slab are not taken in");
	arena_small_flush(IND, ptrs, 8);
	arena_dalloc(large, emap_elem(large));
}

/*
 * Of n objects, all of an arena's and some of another one's, each goes home; the counts say so at
 * once.
 */
static void
test_counts(void) {
	unsigned bad = fill(arena, ptrs, N) + fill(other, ptrs + N, N / 2);
	const bin_stats_t *b = bin_stats(arena);
	uint64_t ndalloc = b->ndalloc, nflushes = b->nflushes, nrequests = b->nrequests;
	is_uint(b->curregs, N, "objects out");
	arena_small_stow(arena, IND, 0, ptrs, N + N / 2, 1234);
	b = bin_stats(arena);
	bad += wrong_if(b->curregs != 0) || wrong_if(b->ndalloc != ndalloc + N)
	    || wrong_if(b->nflushes != nflushes + 1);
	bad += wrong_if(b->nrequests != nrequests + 1234) || wrong_if(b->nmalloc != b->ndalloc);
	is_uint(bad, 0, "what is in the stock counts as returned");
	uint64_t nslabs = b->nslabs;
	is_uint(bin_stats(other)->curregs, 0, "also that of the other arena");
	is_uint(arena_bin(arena, IND, 0)->stock.n, N, "the stock holds them");
	is_uint(arena_bin(other, IND, 0)->stock.n, N / 2, "and the other one the rest");
	is_uint(fill(arena, back, N), 0, "they are given out again");
	b = bin_stats(arena);
	ok(b->curregs == N && b->nslabs == nslabs, "without new slabs");
	is_uint(arena_bin(arena, IND, 0)->stock.n, 0, "the stock is empty");
	arena_small_flush(IND, back, N);
	arena_trim(other, true);
}

static uint64_t
n_locked(arena_t *a) {
	return arena_bin(a, IND, 0)->mtx.n_lock_ops;
}

/*
 * Objects of many arenas in turn: each arena's bin is locked once for all of its objects in a
 * batch, if they go to the stock or to slabs, and not once for each look at an object of another.
 */
static void
test_many_arenas(void) {
	enum { MANY = 12, BATCH = 120 };
	static arena_t *many[MANY];
	unsigned bad = 0;
	for (unsigned i = 0; i < MANY; i++) {
		unsigned ind;
		bad += arenas_create(&ind, NULL) != 0;
		many[i] = arenas_get(ind);
	}
	for (unsigned is_stowed = 0; is_stowed < 2; is_stowed++) {
		uint64_t before[MANY], most = 0;
		for (unsigned i = 0; i < BATCH; i++) {
			bad += fill(many[i % MANY], &ptrs[i], 1);
		}
		for (unsigned i = 0; i < MANY; i++) {
			before[i] = n_locked(many[i]);
		}
		if (is_stowed) {
			arena_small_stow(arena, IND, 0, ptrs, BATCH, 0);
		} else {
			arena_small_flush(IND, ptrs, BATCH);
		}
		for (unsigned i = 0; i < MANY; i++) {
			uint64_t n = n_locked(many[i]) - before[i];
			most = n > most ? n : most;
			bad += bin_stats(many[i])->curregs != 0;
			bad += arena_bin(many[i], IND, 0)->stock.n != (is_stowed ? BATCH / MANY : 0);
		}
		/*
		 * Once more: where the stock gets its array, for the first one's row, and where two numbers
		 * collide.
		 */
		ok(most <= 1 + BATCH / MANY / 2, "%s: a bin was locked %u times at most for %u objects",
		    is_stowed ? "stock" : "slabs", (unsigned)most, BATCH / MANY);
	}
	is_uint(bad, 0, "all are back, each in its arena");
	for (unsigned i = 0; i < MANY; i++) {
		arena_trim(many[i], true);
	}
}

static void
test_trim(void) {
	bin_t *bin = arena_bin(arena, IND, 0);
	unsigned bad = fill(arena, ptrs, 3 * N);
	uint32_t max = bin_infos[IND].stock_max;
	arena_small_stow(arena, IND, 0, ptrs, 3 * N, 0);
	is_uint(bin->stock.n, min_zu(max, 3 * N), "the stock has its limit, the rest is in slabs");
	is_uint(bin_stats(arena)->curregs, 0, "all is returned");
	arena_trim(arena, false);
	is_uint(bin->stock.n, min_zu(max, 3 * N), "what has just come stays");
	bad += fill(arena, ptrs, 300);
	arena_small_stow(arena, IND, 0, ptrs, 100, 0);
	arena_trim(arena, false);
	is_uint(bin->stock.n, 100, "what was not used since goes");
	bad += fill(arena, ptrs, 100);
	arena_small_flush(IND, ptrs, 300);
	arena_trim(arena, true);
	is_uint(bad + bin->stock.n + bin_stats(arena)->curregs, 0, "everything is back");
	ok(bin_stats(arena)->curslabs <= 1, "the slabs too (%zu)", bin_stats(arena)->curslabs);
	fill(arena, ptrs, N);
	arena_small_stow(arena, IND, 0, ptrs, N, 0);
	arena_decay(arena, true);
	is_uint(bin->stock.n, 0, "purging empties it");
}

/* By time, whoever looks: what is not used leaves, and then there is nothing to look for. */
static void
test_tick(void) {
	bin_t *bin = arena_bin(arena, IND, 0);
	uint64_t now = nstime_monotonic_ns() + 60 * NSTIME_PER_SEC, quarter = NSTIME_PER_SEC / 4;
	arena_trim_tick(arena, now);
	is_uint(arena_trim_tick(arena, now + quarter), UINT64_MAX, "no stock, no next look");
	now += 2 * quarter;
	fill(arena, ptrs, N);
	arena_small_stow(arena, IND, 0, ptrs, N, 0);
	is_uint(arena_trim_tick(arena, now), quarter, "the next look is due in a quarter of a second");
	is_uint(arena_trim_tick(arena, now + quarter - 1), 1, "and not earlier");
	is_uint(bin->stock.n, N, "what has just come stays");
	arena_trim_tick(arena, now + quarter);
	is_uint(bin->stock.n, 0, "what was not used goes");
	arena_trim_tick(arena, now + 2 * quarter);
	is_uint(arena_trim_tick(arena, now + 2 * quarter), UINT64_MAX, "and nothing is due any more");
}

/* Where unused pages go at once nothing is kept. */
static void
test_no_decay(void) {
	fill(arena, ptrs, N);
	arena_decay_ms_set(arena, true, 0);
	arena_small_stow(arena, IND, 0, ptrs, N, 0);
	is_uint(arena_bin(arena, IND, 0)->stock.n, 0, "without a decay time there is no stock");
	arena_decay_ms_set(arena, true, 10000);
}

/*
 * An object twice, or a place inside of one: by builds with checks at once, by others when they
 * leave.
 */
static void
bad_stow(void *arg) {
	gate_enter(tls_get());
	fill(arena, ptrs, 8);
	if (*(int *)arg == 0) {
		arena_small_flush(IND, &ptrs[3], 1);
	} else {
		ptrs[3] = (char *)ptrs[3] + 8;
	}
	arena_small_stow(arena, IND, 0, ptrs, 8, 0);
	arena_trim(arena, true);
}

static void
body(void) {
	unsigned inds[2];
	if (arenas_create(&inds[0], NULL) != 0 || arenas_create(&inds[1], NULL) != 0) {
		bail_out("no arena");
	}
	arena = arenas_get(inds[0]);
	other = arenas_get(inds[1]);
	gate_enter(tls_get());
	test_room();
	test_random_use(true);
	test_random_use(false);
	test_strangers();
	test_counts();
	test_many_arenas();
	test_trim();
	test_tick();
	test_no_decay();
	gate_exit(tls_get());
	int what = 0;
	dies(SIGABRT, "<jemalloc>: double free or pointer into a block", bad_stow, &what,
	    "an object that is free");
	what = 1;
	dies(SIGABRT, "<jemalloc>: double free or pointer into a block", bad_stow, &what,
	    "a pointer into an object");
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
