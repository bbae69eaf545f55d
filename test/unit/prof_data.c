/*
 * The profiler's site tables: counts are exact, sites come and go, threads do not disturb each
 * other.
 */
#include "test.h"

#include <pthread.h>

#include "meta/region.h"
#include "os/gate.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_sample.h"
#include "prof/sites/prof_snap.h"

#define DEPTH 20

/* Not inlined: gcc 12 takes the address of a TLS variable for null where it checks pointers. */
static NOINLINE void
enter(void) {
	gate_enter(tls_get());
}

static NOINLINE void
leave(void) {
	gate_exit(tls_get());
}

static void
stack_make(void **vec, uint64_t n) {
	for (unsigned i = 0; i < DEPTH; i++)
		vec[i] = (void *)(uintptr_t)(0x7f0000001000 + n * 4096 + i * 16);
	vec[DEPTH - 1] = (void *)(uintptr_t)0x555555550000;
}

static prof_cnt_t *
add_at(prof_tdata_t *td, uint64_t stack, uint64_t rate, size_t usize) {
	void *vec[DEPTH];
	prof_bt_t bt = {.vec = vec, .len = DEPTH};

	stack_make(vec, stack);
	return prof_data_add(td, &bt, rate, usize, prof_weight(usize, rate));
}

static void
sub(prof_cnt_t *c, size_t usize) {
	prof_data_sub(c, usize, prof_weight(usize, c->rate));
}

static void
test_one_site(void) {
	prof_tdata_t *a = prof_data_tdata_new(true);
	prof_tdata_t *b = prof_data_tdata_new(true);
	prof_cnt_t *c1 = add_at(a, 1, 1, 100);
	prof_cnt_t *c2 = add_at(a, 1, 1, 50);
	prof_cnt_t *c3 = add_at(b, 1, 1, 7);
	prof_snap_t snap;
	unsigned nthreads = 0;

	ok(c1 != NULL && c1 == c2, "one thread and stack: one count");
	ok(c3 != NULL && c3 != c1 && c3->site == c1->site, "another thread: its own, same site");
	is_uint(prof_site_nframes(c1->site), DEPTH, "depth");
	is_uint(prof_site_frame(c1->site, 3), 0x7f0000001000 + 4096 + 48, "a frame comes back");
	is_int(prof_snap_take(&snap), 0, "snapshot");
	is_uint(snap.nsites, 1, "one site");
	is_uint(snap.cur.objs, 3, "objects");
	is_uint(snap.cur.bytes, 157, "bytes");
	is_uint(snap.cur.est, 157, "with rate 1 the estimate is the sum");
	is_uint(snap.cur.c16, 3 * PROF_WEIGHT_ONE, "and the weights are one");
	for (const prof_item_t *i = prof_snap_next(&snap, NULL); i != NULL;
	    i = prof_snap_next(&snap, i)) {
		ok(i->sole == NULL, "no thread is the only one");
		if (i->kind == prof_item_thread) {
			nthreads++;
			is_uint(i->cur.bytes, i->who == a ? 150 : 7, "bytes of a thread");
		}
	}
	is_uint(nthreads, 2, "two threads have a share");
	prof_snap_drop(&snap);

	sub(c1, 100);
	sub(c3, 7);
	sub(c2, 50);
	prof_snap_take(&snap);
	is_uint(snap.nsites, 0, "nothing lives: nothing to report");
	is_uint(snap.cur.bytes, 0, "no bytes left");
	prof_snap_drop(&snap);
	prof_data_tdata_exit(a);
	prof_data_tdata_exit(b);
}

static void
test_mixed_rates(void) {
	prof_tdata_t *td = prof_data_tdata_new(true);
	prof_cnt_t *c1 = add_at(td, 2, 524288, 64);
	prof_cnt_t *c2 = add_at(td, 2, 4096, 64);
	prof_snap_t snap;
	unsigned items = 0, soles = 0;
	uint64_t objs, bytes;

	ok(c1 != c2 && c1->site == c2->site, "rates are kept apart");
	prof_snap_take(&snap);
	ok(snap.is_mixed, "mixed");
	for (const prof_item_t *i = prof_snap_next(&snap, NULL); i != NULL;
	    i = prof_snap_next(&snap, i)) {
		items += i->kind == prof_item_thread;
		soles += i->kind == prof_item_site && i->sole == td;
	}
	is_uint(soles, 1, "but a thread has one line for a site");
	is_uint(items, 0, "which needs no item of its own");
	prof_printed(&snap.cur, 1, false, &objs, &bytes);
	ok(bytes > 524288 + 4096 - 100 && bytes < 524288 + 4096 + 200, "estimates add up: %llu",
	    (unsigned long long)bytes);
	is_uint(objs, (bytes + 32) / 64, "objects of 64 bytes");
	prof_snap_drop(&snap);
	prof_data_reset();
	prof_snap_take(&snap);
	is_uint(snap.nsites, 0, "after a reset nothing is reported");
	prof_snap_drop(&snap);
	sub(c1, 64);
	sub(c2, 64);
	prof_data_tdata_exit(td);
}

/* Threads come to a site by turns, each with two rates: what the first one had before stays. */
static void
test_shares(void) {
	enum { N = 4 };
	prof_tdata_t *td[N];
	prof_cnt_t *c[N][2];
	uint64_t bytes[N] = {0}, accum[N] = {0};
	prof_snap_t snap;
	unsigned n = 0, items = 0;

	prof_data_accum_set(true);
	for (unsigned i = 0; i < N; i++) {
		td[i] = prof_data_tdata_new(true);
		c[i][0] = add_at(td[i], 3, 1, 100 << i);
		c[i][1] = add_at(td[i], 3, 2, 1000 << i);
	}
	sub(add_at(td[1], 3, 1, 16), 16);
	prof_snap_take(&snap);
	for (const prof_item_t *i = prof_snap_next(&snap, NULL); i != NULL;
	    i = prof_snap_next(&snap, i), items++)
		for (n = 0; n < N; n++)
			if (i->kind == prof_item_thread && i->who == td[n]) {
				bytes[n] += i->cur.bytes;
				accum[n] += i->accum->bytes;
			}
	is_uint(items, 1 + N, "a site and its threads");
	for (n = 0; n < N; n++) {
		is_uint(bytes[n], 1100 << n, "what lives of thread %u", n);
		is_uint(accum[n], (1100 << n) + (n == 1 ? 16 : 0), "and what it allocated in all");
	}
	is_uint(snap.cur.bytes, 1100 * 15, "the sum of all");
	prof_snap_drop(&snap);
	for (n = 0; n < N; n++) {
		sub(c[n][0], 100 << n);
		sub(c[n][1], 1000 << n);
		prof_data_tdata_exit(td[n]);
	}
	prof_data_accum_set(false);
}

/*
 * Of a session with accum remain counts without live samples, of two threads at one site and of
 * another rate. Later snapshots, without accum, leave them out.
 */
static void
test_after_accum(void) {
	prof_tdata_t *td[2];
	prof_cnt_t *live[2];
	prof_snap_t snap;
	unsigned items = 0, sites = 0;

	prof_data_accum_set(true);
	for (unsigned i = 0; i < 2; i++) {
		td[i] = prof_data_tdata_new(true);
		sub(add_at(td[i], 4, 1, 100), 100);
		sub(add_at(td[i], 5, 1, 100), 100);
	}
	prof_data_accum_set(false);
	prof_snap_take(&snap);
	for (const prof_item_t *i = prof_snap_next(&snap, NULL); i != NULL;
	    i = prof_snap_next(&snap, i))
		items += i->kind == prof_item_thread;
	is_uint(snap.nsites, 0, "nothing lives");
	is_uint(items, 0, "so no thread has a line");
	is_uint(snap.rate, 0, "and no sample a rate");
	prof_snap_drop(&snap);

	for (unsigned i = 0; i < 2; i++)
		live[i] = add_at(td[i], 5 + i, 4096, 8192);
	prof_snap_take(&snap);
	for (const prof_item_t *i = prof_snap_next(&snap, NULL); i != NULL;
	    i = prof_snap_next(&snap, i)) {
		items += i->kind == prof_item_thread;
		sites += i->kind == prof_item_site && i->sole != NULL;
	}
	is_uint(sites, 2, "two sites, each with the only thread that has anything there");
	is_uint(items, 0, "without lines of zeros");
	is_uint(snap.rate, 4096, "the rate of what lives");
	ok(!snap.is_mixed, "is the only one");
	prof_snap_drop(&snap);
	for (unsigned i = 0; i < 2; i++) {
		sub(live[i], 8192);
		prof_data_tdata_exit(td[i]);
	}
}

static long
faults(void) {
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_minflt;
}

/* Sites in the list; each is in the table too, but for a moment. */
static size_t
nsites(void) {
	size_t n = 0;

	prof_data_pass_begin();
	for (const prof_link_t *l = (const prof_link_t *)prof_data_sites(); l != NULL; l = l->next)
		n++;
	prof_data_pass_end();
	return n;
}

static void
test_many_sites(void) {
	enum { N = 100000 };
	static prof_cnt_t *c[N];
	prof_tdata_t *td = prof_data_tdata_new(true);
	size_t before = region_in_use();
	prof_snap_t snap;

	for (unsigned i = 0; i < N; i++)
		c[i] = add_at(td, 1000 + i, 1, 32);
	size_t each = (region_in_use() - before) / N;
	ok(each <= 400, "%zu bytes for a site of depth %u", each, DEPTH);
	ok(nsites() >= N, "all are there");
	long faulted = faults();
	prof_snap_take(&snap);
	faulted = faults() - faulted;
	/* Pages are taken in advance, at most 64 of them, which count as faults. */
	/* The thread sanitizer's own memory faults too, and that of an emulator. */
	bool is_counted = getenv("TSAN_OPTIONS") == NULL && getenv("TEST_EMULATOR") == NULL;
	ok(!is_counted || faulted <= (long)(N * snap.item_bytes / 4096) + 32 + 64,
	    "%ld page faults: one for each page of the sites' items", faulted);
	is_uint(snap.nsites, N, "and in the snapshot");
	is_uint(snap.cur.bytes, 32 * N, "with their bytes");
	prof_snap_drop(&snap);
	for (unsigned i = 0; i < N; i++)
		sub(c[i], 32);
	/* One that lives goes by while the dead ones are swept. */
	for (unsigned i = 0; i < N; i++)
		sub(add_at(td, 1000000 + i, 1, 32), 32);
	ok(nsites() < N, "dead sites are swept: %zu left", nsites());
	for (unsigned i = 0; i < N; i++)
		sub(add_at(td, 2000000 + i, 1, 32), 32);
	ok(nsites() < N / 2, "and more: %zu left", nsites());
	prof_data_tdata_exit(td);
}

/* Sites in turn, each freed at once: the tables know them the next time, and beyond that forget. */
static void
test_transient(void) {
	enum { HOT = 200, ROUNDS = 50 };
	static prof_cnt_t *c[HOT];
	prof_tdata_t *td = prof_data_tdata_new(true);
	unsigned changed = 0;

	for (unsigned r = 0; r < ROUNDS; r++) {
		for (unsigned i = 0; i < HOT; i++) {
			prof_cnt_t *got = add_at(td, 5000000 + i, 1, 32);
			changed += r > 1 && got != c[i];
			c[i] = got;
			sub(got, 32);
		}
	}
	is_uint(changed, 0, "a site whose objects die at once is not made again each time");
	prof_data_tdata_exit(td);
	td = prof_data_tdata_new(true);
	for (unsigned i = 0; i < 20000; i++)
		sub(add_at(td, 6000000 + i, 1, 32), 32);
	ok(nsites() < 2000, "but of 20000 few are remembered: %zu", nsites());
	prof_data_tdata_exit(td);
}

/* The same stack again and again: its count is kept, and let go when another stack comes. */
static void
test_last(void) {
	prof_tdata_t *td = prof_data_tdata_new(true);
	void *vec[DEPTH], *other[DEPTH];
	prof_bt_t bt = {.vec = vec, .len = DEPTH, .stack = 7};
	prof_bt_t next = {.vec = other, .len = DEPTH, .stack = 8};
	uint64_t w = prof_weight(32, 1);

	stack_make(vec, 7000000);
	stack_make(other, 7000001);
	prof_cnt_t *a = prof_data_add(td, &bt, 1, 32, w);
	ok(td->last == NULL, "seen once: nothing is kept");
	ok(prof_data_add(td, &bt, 1, 32, w) == a && td->last == a, "seen twice: its count is kept");
	ok(prof_data_add(td, &bt, 1, 32, w) == a, "and found");
	is_uint(atomic_load_u64(&a->live, MO_RELAXED) & PROF_LIVE_MASK, 3, "three objects");
	prof_cnt_t *b = prof_data_add(td, &bt, 2, 32, prof_weight(32, 2));
	ok(b != a && b->site == a->site && td->last == b, "another rate: another count");
	prof_data_reset();
	prof_cnt_t *c = prof_data_add(td, &bt, 2, 32, prof_weight(32, 2));
	ok(c != b && c->site == b->site, "after a reset: another count");
	prof_cnt_t *d = prof_data_add(td, &next, 2, 32, prof_weight(32, 2));
	ok(d->site != c->site && td->last == NULL, "another stack: let go");
	is_uint(atomic_load_u64(&c->live, MO_RELAXED), 1, "with its pin");
	for (unsigned i = 0; i < 3; i++)
		prof_data_sub(a, 32, w);
	prof_data_sub(b, 32, prof_weight(32, 2));
	prof_data_sub(c, 32, prof_weight(32, 2));
	prof_data_add(td, &next, 2, 32, prof_weight(32, 2));
	ok(td->last == d, "kept again");
	prof_data_tdata_exit(td);
	is_uint(atomic_load_u64(&d->live, MO_RELAXED), 2, "the end of the thread lets go too");
	prof_data_sub(d, 32, prof_weight(32, 2));
	prof_data_sub(d, 32, prof_weight(32, 2));
}

static void
test_notes(void) {
	prof_tdata_t *td = prof_data_tdata_new(true);
	prof_tdata_t *other = prof_data_tdata_new(true);
	void *vec[DEPTH];
	prof_bt_t bt = {.vec = vec, .len = DEPTH};

	stack_make(vec, 77);
	prof_cnt_t *note = prof_data_note(td, &bt);
	prof_cnt_t *c = add_at(td, 78, 1, 16);
	prof_data_pin(c);
	sub(c, 16);
	/* Others make and drop enough to sweep everything that may go. */
	for (unsigned i = 0; i < 400000; i++)
		sub(add_at(other, 5000000 + i, 1, 16), 16);
	is_uint(prof_site_frame(note->site, 1), 0x7f0000001000 + 77 * 4096 + 16, "a noted stack stays");
	is_uint(prof_site_frame(c->site, 1), 0x7f0000001000 + 78 * 4096 + 16, "and a pinned one");
	prof_data_unpin(note);
	prof_data_unpin(c);
	prof_data_tdata_exit(td);
	prof_data_tdata_exit(other);
}

/* Adds and frees at other sites until the sweeper has removed what has this word. */
static bool
is_swept(prof_tdata_t *td, const atomic_u64_t *users) {
	for (unsigned i = 0; i < 400000 && (atomic_load_u64(users, MO_RELAXED) & PROF_DEAD) == 0; i++)
		sub(add_at(td, 8000001 + i, 1, 16), 16);
	return (atomic_load_u64(users, MO_RELAXED) & PROF_DEAD) != 0;
}

/*
 * A reader outside stands on a count and on a site when these are removed: each leads it to where
 * it did before, or has no size of an object.
 */
static void
test_retired(void) {
	prof_tdata_t *a = prof_data_tdata_new(true), *b = prof_data_tdata_new(true);
	prof_tdata_t *other = prof_data_tdata_new(true);
	prof_cnt_t *older = add_at(a, 8000000, 1, 16), *c = add_at(b, 8000000, 1, 16);
	prof_site_t *s = c->site;
	prof_link_t *next = s->link.next;
	uint32_t bytes = c->link.bytes, site_bytes = s->link.bytes;

	ok(c->link.next == &older->link && next != NULL, "a count and a site lead to older ones");
	atomic_store_u64(&b->pinned, 1, MO_RELAXED); /* so nothing is freed */
	sub(c, 16);
	ok(is_swept(other, &c->live), "the count is removed");
	ok(c->link.next == &older->link || c->link.bytes != bytes, "nobody is led astray by it");
	sub(older, 16);
	ok(is_swept(other, &s->refs), "the site is removed");
	ok(s->link.next == next || s->link.bytes != site_bytes, "nor by that");
	atomic_store_u64(&b->pinned, 0, MO_RELAXED);
	prof_data_tdata_exit(a);
	prof_data_tdata_exit(b);
	prof_data_tdata_exit(other);
}

/* A thread that has ended uses its empty count no more, so that is no spare. */
static void
test_orphans(void) {
	enum { NKEPT = 3000 };
	static prof_cnt_t *kept[NKEPT];
	prof_tdata_t *gone = prof_data_tdata_new(true), *other = prof_data_tdata_new(true);
	prof_tdata_t *reader = prof_data_tdata_new(true);
	prof_cnt_t *c = NULL, *spare = NULL;
	bool is_gone = false, is_spare_gone = false;

	/* What is kept is more than what is empty, so the sweeper takes no spares. */
	for (unsigned i = 0; i < NKEPT; i++) {
		kept[i] = add_at(other, 30000000 + i, 1, 16);
		if (i == NKEPT / 2) {
			c = add_at(gone, 40000000, 1, 16);
			spare = add_at(other, 40000001, 1, 16);
			atomic_store_u64(&reader->pinned, 1, MO_RELAXED); /* so nothing is freed */
			prof_data_tdata_exit(gone);
			sub(c, 16);
			sub(spare, 16);
		} else if (i > NKEPT / 2) {
			is_gone = is_gone || (atomic_load_u64(&c->live, MO_RELAXED) & PROF_DEAD) != 0;
			is_spare_gone = is_spare_gone
			    || (atomic_load_u64(&spare->live, MO_RELAXED) & PROF_DEAD) != 0;
		}
	}
	ok(is_gone, "the empty count of a thread that has ended is removed");
	ok(!is_spare_gone, "that of a thread that runs is a spare");
	atomic_store_u64(&reader->pinned, 0, MO_RELAXED);
	for (unsigned i = 0; i < NKEPT; i++)
		sub(kept[i], 16);
	prof_data_tdata_exit(other);
	prof_data_tdata_exit(reader);
}

/* Threads add; each hands half of what it has to its neighbour, who frees it. */
enum { NTHREADS = 4, SLOTS = 512, ROUNDS = 60000, STACKS = 300 };
static prof_cnt_t *slots[SLOTS];

static void *
churn(void *arg) {
	uint64_t rnd = (uintptr_t)arg;
	prof_tdata_t *td = prof_data_tdata_new(true);

	enter();
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t r = test_random(&rnd);
		uint64_t stack = (r & 7) == 0 ? 10000000 + (uintptr_t)arg * ROUNDS + i : r % STACKS;
		prof_cnt_t *c = add_at(td, stack, 1, 48);

		if (c == NULL)
			continue;
		c = __atomic_exchange_n(&slots[(r >> 20) % SLOTS], c, __ATOMIC_ACQ_REL);
		if (c != NULL)
			sub(c, 48);
	}
	prof_data_tdata_exit(td);
	leave();
	return NULL;
}

static void
test_threads(void) {
	pthread_t t[NTHREADS];
	prof_snap_t snap;
	uint64_t held = 0;

	for (uintptr_t i = 0; i < NTHREADS; i++)
		pthread_create(&t[i], NULL, churn, (void *)(i + 1));
	for (unsigned i = 0; i < 20; i++) {
		enter();
		prof_snap_take(&snap);
		prof_snap_drop(&snap);
		leave();
		usleep(2000);
	}
	for (unsigned i = 0; i < NTHREADS; i++)
		pthread_join(t[i], NULL);
	enter();
	for (unsigned i = 0; i < SLOTS; i++)
		held += slots[i] != NULL;
	prof_snap_take(&snap);
	is_uint(snap.cur.objs, held, "live objects are those in the slots");
	is_uint(snap.cur.bytes, held * 48, "and their bytes");
	is_uint(snap.cur.est, held * 48, "and estimates");
	prof_snap_drop(&snap);
	for (unsigned i = 0; i < SLOTS; i++) {
		if (slots[i] != NULL)
			sub(slots[i], 48);
	}
	prof_snap_take(&snap);
	is_uint(snap.cur.objs, 0, "nothing left");
	is_uint(snap.nsites, 0, "no site to report");
	prof_snap_drop(&snap);
	leave();
}

static atomic_u64_t forks;
static atomic_b_t forks_end;

static void *
fork_all_the_time(void *arg) {
	while (!atomic_load_b(&forks_end, MO_RELAXED)) {
		gate_prefork();
		atomic_fetch_add_u64(&forks, 1, MO_SEQ_CST);
		gate_postfork_parent();
		usleep(50);
	}
	return arg;
}

/* A fork goes ahead in the middle of a long snapshot: inside the gate it could not. */
static void
test_fork_meanwhile(void) {
	enum { SITES = 20000, TRIES = 1000 };
	static prof_cnt_t *c[SITES];
	prof_snap_t snap;
	pthread_t t;
	uint64_t meanwhile = 0;
	size_t nsites = SITES;

	enter();
	prof_tdata_t *td = prof_data_tdata_new(true);
	for (unsigned i = 0; i < SITES; i++)
		c[i] = add_at(td, 20000000 + i, 1, 64);
	leave();
	pthread_create(&t, NULL, fork_all_the_time, NULL);
	for (unsigned i = 0; i < TRIES && meanwhile == 0; i++) {
		enter();
		uint64_t before = atomic_load_u64(&forks, MO_SEQ_CST);
		prof_snap_take(&snap);
		meanwhile = atomic_load_u64(&forks, MO_SEQ_CST) - before;
		nsites = snap.nsites < nsites ? snap.nsites : nsites;
		prof_snap_drop(&snap);
		leave();
	}
	atomic_store_b(&forks_end, true, MO_RELAXED);
	pthread_join(t, NULL);
	ok(meanwhile > 0, "%llu forks in the middle of a snapshot", (unsigned long long)meanwhile);
	is_uint(nsites, SITES, "which has every site");
	enter();
	for (unsigned i = 0; i < SITES; i++)
		sub(c[i], 64);
	prof_data_tdata_exit(td);
	leave();
}

static void
test_names(void) {
	prof_tdata_t *td = prof_data_tdata_new(true);
	char name[PROF_THREAD_NAME_MAX];

	prof_tdata_name_write(td, "worker");
	prof_tdata_name_read(td, name);
	is_str(name, "worker", "name of a thread");
	prof_tdata_name_write(td, "a name that is too long");
	prof_tdata_name_read(td, name);
	is_str(name, "a name that is ", "cut to 15 bytes");
	prof_tdata_name_write(td, "");
	prof_tdata_name_read(td, name);
	is_str(name, "", "cleared");
	prof_data_tdata_exit(td);
}

int
main(void) {
	free(keep(malloc(1)));
	enter();
	if (prof_data_boot() != 0)
		bail_out("boot");
	test_one_site();
	test_mixed_rates();
	test_shares();
	test_after_accum();
	test_many_sites();
	test_transient();
	test_last();
	test_notes();
	test_retired();
	test_orphans();
	leave();
	test_threads();
	test_fork_meanwhile();
	enter();
	test_names();
	leave();
	return done_testing();
}
