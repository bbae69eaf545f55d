/*
 * arena/stock.h: what goes in comes out, the latest first, while there is room. And the stocks of
 * an arena: exact counts, trimming, misuse that is noticed at the end of the stay.
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
	bad += wrong_if(stock_put(&s, ptrs, 60) != 60) || wrong_if(s.n != 60);
	bad += wrong_if(stock_set_room(&s, more, 128, &old_room) != place)
	    || wrong_if(old_room != 64);
	bad += wrong_if(stock_room_for(&s, 1, 1000) != 128)
	    || wrong_if(stock_room_for(&s, 69, 1000) != 256);
	bad += wrong_if(stock_take(&s, back, 100) != 60)
	    || wrong_if(memcmp(ptrs, back, 60 * sizeof(void *)) != 0);
	is_uint(bad, 0, "a larger array has what the small one had");
	arena_small_return(IND, ptrs, 60, NULL);
}

static void
test_random_use(void) {
	static void *model[333], *place[333];
	stock_t s = {0};
	uint64_t seed = 5;
	unsigned n_model = 0, bad = 0, old_room;
	stock_set_room(&s, place, 333, &old_room);
	for (unsigned i = 0; i < 20000; i++) {
		unsigned n = (unsigned)draw_below(&seed, 100), low = s.low, room = 333 - n_model;
		switch (draw_below(&seed, 5)) {
		case 0:
			n = (unsigned)min_zu(n, s.n);
			stock_drop_oldest(&s, n);
			memmove(model, model + n, (n_model -= n) * sizeof(void *));
			bad += s.low != n_model;
			break;
		case 1:
		case 2:
			for (unsigned k = 0; k < n; k++) {
				ptrs[k] = &back[draw_below(&seed, N)];
			}
			bad += wrong_if(stock_put(&s, ptrs, n) != min_zu(n, room)) || wrong_if(s.low != low);
			n = (unsigned)min_zu(n, room);
			memcpy(model + n_model, ptrs, n * sizeof(void *));
			n_model += n;
			break;
		default:
			n = stock_take(&s, back, n);
			bad += memcmp(back, model + n_model - n, n * sizeof(void *)) != 0;
			n_model -= n;
			bad += s.low != min_zu(low, n_model);
		}
		bad += s.n != n_model;
	}
	is_uint(bad, 0, "random use: what is there, in which order, and the least there was");
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
	arena_small_count_requests(arena, IND, 0, 1234, 1);
	arena_small_return(IND, ptrs, N + N / 2, arena);
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
	arena_small_return(IND, back, N, NULL);
	arena_trim(other, true);
}

/* How many of 100 objects that leave a cache of the arena `from` stay in the stock. */
static unsigned
n_stocked(const arena_t *from) {
	if (fill(arena, ptrs, 100) != 0) {
		return UINT_MAX;
	}
	arena_small_return(IND, ptrs, 100, from);
	unsigned n = arena_bin(arena, IND, 0)->stock.n;
	arena_trim(arena, true);
	return n;
}

/* A stock serves other threads: the only thread of an arena puts nothing into those of its bins. */
static void
test_only_thread(void) {
	atomic_store_u32(&arena->nthreads, 1, MO_RELAXED);
	is_uint(n_stocked(arena), 0, "surplus of the arena's only thread goes to slabs");
	is_uint(n_stocked(other), 100, "that of a thread of another arena to the stock");
	is_uint(n_stocked(NULL), 0, "and what is no surplus to slabs");
	atomic_store_u32(&arena->nthreads, 2, MO_RELAXED);
	is_uint(n_stocked(arena), 100, "one of two threads puts its surplus into the stock");
	atomic_store_u32(&arena->nthreads, 0, MO_RELAXED);
	is_uint(n_stocked(arena), 100, "as explicit caches do");
}

static uint64_t
n_locked(arena_t *a) {
	return arena_bin(a, IND, 0)->mtx.counts.n_lock_ops;
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
	for (unsigned to_stock = 0; to_stock < 2; to_stock++) {
		uint64_t before[MANY], most = 0;
		for (unsigned i = 0; i < BATCH; i++) {
			bad += fill(many[i % MANY], &ptrs[i], 1);
		}
		for (unsigned i = 0; i < MANY; i++) {
			before[i] = n_locked(many[i]);
		}
		if (to_stock) {
			arena_small_return(IND, ptrs, BATCH, arena);
		} else {
			arena_small_return(IND, ptrs, BATCH, NULL);
		}
		for (unsigned i = 0; i < MANY; i++) {
			uint64_t n = n_locked(many[i]) - before[i];
			most = n > most ? n : most;
			bad += bin_stats(many[i])->curregs != 0;
			bad += arena_bin(many[i], IND, 0)->stock.n != (to_stock ? BATCH / MANY : 0);
		}
		/*
		 * Once more: where the stock gets its array, for the first one's row, and where two numbers
		 * collide.
		 */
		ok(most <= 1 + BATCH / MANY / 2, "%s: a bin was locked %u times at most for %u objects",
		    to_stock ? "stock" : "slabs", (unsigned)most, BATCH / MANY);
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
	arena_small_return(IND, ptrs, 3 * N, arena);
	is_uint(bin->stock.n, min_zu(max, 3 * N), "the stock has its limit, the rest is in slabs");
	is_uint(bin_stats(arena)->curregs, 0, "all is returned");
	arena_trim(arena, false);
	is_uint(bin->stock.n, min_zu(max, 3 * N), "what has just come stays");
	bad += fill(arena, ptrs, 300);
	arena_small_return(IND, ptrs, 100, arena);
	arena_trim(arena, false);
	is_uint(bin->stock.n, 100, "what was not used since goes");
	bad += fill(arena, ptrs, 100);
	arena_small_return(IND, ptrs, 300, NULL);
	arena_trim(arena, true);
	is_uint(bad + bin->stock.n + bin_stats(arena)->curregs, 0, "everything is back");
	ok(bin_stats(arena)->curslabs <= 1, "the slabs too (%zu)", bin_stats(arena)->curslabs);
	fill(arena, ptrs, 1);
	arena_small_return(IND, ptrs, 1, NULL);
	arena_trim(arena, false);
	is_uint(bin_stats(arena)->curslabs, 1, "a slab that has just become empty stays");
	arena_trim(arena, false);
	is_uint(bin_stats(arena)->curslabs, 0, "one that was empty at the last trim goes");
	fill(arena, ptrs, N);
	arena_small_return(IND, ptrs, N, arena);
	arenas_decay(arena, true);
	is_uint(bin->stock.n, 0, "purging empties it");
	fill(arena, ptrs, N);
	arena_small_return(IND, ptrs, N, arena);
	atomic_store_b(&arena->has_spare, false, MO_RELAXED); /* as another thread's trim begins */
	arena_trim(arena, false);
	is_uint(bin->stock.n, N, "while another thread trims, nothing is done");
	arena_trim(arena, true);
	is_uint(bin->stock.n, 0, "but everything goes when it is asked for");
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
	arena_small_return(IND, ptrs, N, arena);
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
	arena_small_return(IND, ptrs, N, arena);
	is_uint(arena_bin(arena, IND, 0)->stock.n, 0, "without a decay time there is no stock");
	arena_decay_ms_set(arena, true, 10000);
}

static void
trim_at_once(unsigned arena_ind) {
	if (arena_ind == arena->ind) {
		arena_trim(arena, true);
	}
}

/* A thread that trims as soon as it hears of a stock finds what is in it, or the next trim does. */
static void
test_trim_at_once(void) {
	void (*wake)(unsigned) = pac_wake_hook;
	arena_trim(arena, true);
	unsigned bad = fill(arena, ptrs, N);
	pac_wake_hook = trim_at_once;
	arena_small_return(IND, ptrs, N, arena);
	pac_wake_hook = wake;
	arena_trim(arena, true);
	is_uint(bad + arena_bin(arena, IND, 0)->stock.n, 0, "a trim at once leaves nothing for good");
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
		arena_small_return(IND, &ptrs[3], 1, NULL);
	} else {
		ptrs[3] = (char *)ptrs[3] + 8;
	}
	arena_small_return(IND, ptrs, 8, arena);
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
	test_random_use();
	test_counts();
	test_only_thread();
	test_many_arenas();
	test_trim();
	test_tick();
	test_no_decay();
	test_trim_at_once();
	gate_exit(tls_get());
	int what = 0;
	dies(SIGABRT, "<jemalloc>: double free or pointer into a block", bad_stow, &what,
	    "an object that is free");
	what = 1;
	dies(SIGABRT, config_hardening ? "<jemalloc>: write to a freed block"
	    : "<jemalloc>: double free or pointer into a block", bad_stow, &what,
	    "a pointer into an object");
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
