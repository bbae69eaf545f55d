/*
 * extent/piece.h: when an arena takes memory from huge pieces, when pieces are given back and
 * broken, and when none are made; with hooks that count the calls and answer for the system's
 * files, and with a clock of the test's own. What cannot be undone in a process is tested in
 * children.
 */
#include "core.h"

#include "extent/pac_life.h"
#include "extent/pac_serve.h"
#include "meta/base.h"
#include "os/gate.h"
#include "os/nstime.h"
#include "os/sys.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#define POPULATE 23 /* MADV_POPULATE_WRITE, which the headers may not have */
#define MIB (ZU(1) << 20)
#define MSEC NSTIME_PER_MSEC
#define SEC NSTIME_PER_SEC
#define MIN (8 * MIB)
#define N_MAX 20000

static pac_t *pac;
static struct os_hooks_s hooks;
static edata_t *got[N_MAX];
static unsigned n_got;
static uint64_t now;
static struct {
	size_t huge;      /* calls of MADV_HUGEPAGE */
	size_t bad;       /* of them not for a piece */
	size_t nohuge;    /* bytes of MADV_NOHUGEPAGE */
	int fail_with;
	uint64_t slow_ns; /* what a call of MADV_POPULATE_WRITE takes in a piece */
	uint64_t small_ns; /* and elsewhere */
	const char *enabled, *size;
} sys;

static uint64_t
fake_now(void) {
	return now;
}

static int
fake_madvise(void *addr, size_t size, int advice) {
	if (advice == MADV_HUGEPAGE) {
		sys.huge++;
		sys.bad += wrong_if(size != PIECE_SIZE)
		    || wrong_if(!is_aligned((uintptr_t)addr, PIECE_SIZE));
	} else if (advice == MADV_NOHUGEPAGE) {
		sys.nohuge += size;
		return 0;
	} else if (advice == POPULATE) {
		now += emap_is_huge(addr) ? sys.slow_ns : sys.small_ns;
		return 0;
	} else {
		return os_hooks_real.madvise(addr, size, advice);
	}
	errno = sys.fail_with;
	return sys.fail_with == 0 ? 0 : -1;
}

/* A file with this text. */
static int
file_of(const char *text) {
	int fd = memfd_create("fake", MFD_CLOEXEC);
	size_t n = strlen(text);
	if (fd < 0 || write(fd, text, n) != (ssize_t)n || lseek(fd, 0, SEEK_SET) != 0) {
		abort();
	}
	return fd;
}

static int
fake_open(const char *path, int flags, unsigned mode) {
	if (strstr(path, "transparent_hugepage/enabled") != NULL) {
		return file_of(sys.enabled);
	}
	if (strstr(path, "hpage_pmd_size") != NULL) {
		return file_of(sys.size);
	}
	return os_hooks_real.open(path, flags, mode);
}

static void
start(ssize_t dirty_ms) {
	static unsigned ind = 3600;
	base_t *base = base_new();
	sys.huge = sys.bad = sys.nohuge = 0;
	sys.fail_with = 0;
	sys.slow_ns = 0;
	n_got = 0;
	pac = base_alloc(base, sizeof(*pac), CACHELINE);
	pac_init(pac, base, ind++, dirty_ms, 0, now);
}

static size_t
use(void) {
	return atomic_load_zu(&pac->nactive, MO_RELAXED) << LG_PAGE;
}

/* Fetches pages one by one until so many bytes are in use. */
static void
grow(size_t bytes) {
	while (use() < bytes && n_got < N_MAX) {
		edata_t *e = pac_alloc_dense(pac, PAGE);
		if (e == NULL) {
			ok(false, "there is memory");
			return;
		}
		got[n_got++] = e;
	}
}

static size_t
npieces(void) {
	thp_stats_t s;
	thp_stats_read(&s);
	return s.pieces;
}

static size_t
nbroken(void) {
	thp_stats_t s;
	thp_stats_read(&s);
	return s.nbroken;
}

static void
test_guard(void) {
	piece_guard_t g;
	memset(&g, 0, sizeof(g));
	uint64_t t = SEC, slow = PIECE_SLOW_NS + 1;
	ok(piece_guard_is_open(&g, 0), "at first pieces are taken");
	ok(!piece_guard_note(&g, slow, 1, t) && !piece_guard_note(&g, slow, 2, t),
	    "two slow ones are borne");
	ok(!piece_guard_note(&g, PIECE_SLOW_NS, 2, t), "a quick one");
	ok(!piece_guard_note(&g, slow, 3, t) && !piece_guard_note(&g, slow, 4, t),
	    "begins the count anew");
	ok(piece_guard_is_open(&g, t), "still open");
	ok(piece_guard_note(&g, slow, slow / PIECE_SLOW_RATIO - 1, t), "the third in a row is not");
	ok(!piece_guard_is_open(&g, t) && !piece_guard_is_open(&g, t + 60 * SEC - 1), "for a minute");
	ok(piece_guard_is_open(&g, t + 60 * SEC), "no longer");
	bool has_paused = false;
	for (unsigned i = 0; i < 10; i++) {
		has_paused = has_paused || piece_guard_note(&g, slow, slow / PIECE_SLOW_RATIO, t);
	}
	ok(!has_paused, "slow, but so are small pages: does not count");
	has_paused = false;
	for (unsigned i = 0; i < PIECE_SLOW_MAX; i++) {
		has_paused = piece_guard_note(&g, slow, 0, t);
	}
	ok(has_paused, "if that is not known, slow is slow");
}

static edata_t
range(char *addr, size_t size) {
	edata_t e;
	memset(&e, 0, sizeof(e));
	e.addr = addr;
	e.size = size;
	return e;
}

static void
test_spare(void) {
	/* Addresses that nothing else uses; none is touched. */
	char *base = (char *)(ZU(0x123) << 32);
	size_t lead;
	is_uint(emap_reserve(base, 16 * MIB), 0, "the page map can describe the range");
	ok(!emap_set_huge(base + 2 * MIB, true) && !emap_set_huge(base + 4 * MIB, true), "two pieces");
	ok(emap_set_huge(base + 4 * MIB, true) && emap_is_huge(base + 6 * MIB - 1), "are remembered");
	ok(!emap_is_huge(base + 2 * MIB - 1) && !emap_is_huge(base + 6 * MIB),
	    "and nothing beside them");
	edata_t e = range(base, 2 * MIB);
	is_uint(eset_spare(&e, &lead), 2 * MIB, "plain memory can go");
	e = range(base + 2 * MIB, 2 * MIB);
	is_uint(eset_spare(&e, &lead), 2 * MIB, "so can a whole piece");
	e = range(base + 2 * MIB + PAGE, 2 * MIB - PAGE);
	is_uint(eset_spare(&e, &lead), 0, "not the end of one");
	e = range(base + 2 * MIB, 2 * MIB - PAGE);
	is_uint(eset_spare(&e, &lead), 0, "nor the beginning");
	e = range(base + 3 * MIB, 2 * MIB);
	is_uint(eset_spare(&e, &lead), 0, "nor the parts of two");
	e = range(base + MIB, 2 * MIB);
	is_uint(eset_spare(&e, &lead), MIB, "of plain memory and a part: the plain memory");
	is_uint(lead, 0, "from its begin");
	e = range(base + 3 * MIB, 6 * MIB);
	is_uint(eset_spare(&e, &lead), 5 * MIB, "of a part, a piece and plain memory: the rest");
	is_uint(lead, MIB, "behind the part");
	ok(emap_set_huge(base + 2 * MIB, false) && emap_set_huge(base + 4 * MIB, false), "they end");
	e = range(base + 2 * MIB + PAGE, 2 * MIB - PAGE);
	is_uint(eset_spare(&e, &lead), 2 * MIB - PAGE, "and are plain memory");
}

static void
test_growth(void) {
	start(10000);
	grow(MIN);
	is_uint(sys.huge, 0, "below thp_min there is no piece");
	grow(48 * MIB);
	size_t mapped = atomic_load_zu(&pac->mapped, MO_RELAXED);
	ok(sys.huge >= 17 && sys.huge <= 20, "then nearly all is pieces: %zu", sys.huge);
	is_uint(sys.bad, 0, "each 2 MiB, and aligned");
	const edata_t *rest = atomic_load_p(&pac->piece.rest, MO_RELAXED);
	ok(rest == NULL || elem_state(emap_elem(rest->addr)) == extent_state_hot,
	    "what waits is not in use");
	is_uint(npieces(), sys.huge, "counted");
	ok(mapped - use() < PIECE_SIZE + BASE_AHEAD_MAX, "at most one piece is there too early: %zu",
	    mapped - use());
	is_uint(mapped - use(), pac_ndirty(pac) << LG_PAGE, "and that is dirty");
	pac_purge(pac, now, true);
	is_uint(pac_ndirty(pac), 0, "a purge of all takes the rest of the last piece");
	is_uint(atomic_load_zu(&pac->mapped, MO_RELAXED), use(), "all of it");
	is_uint(sys.nohuge, mapped == use() ? 0 : PIECE_SIZE, "which is one no more");
}

/* Frees the pages of one piece from `from` to `to` bytes on. */
static size_t
free_in_piece(const char *piece, size_t from, size_t to) {
	size_t n = 0;
	for (unsigned i = 0; i < n_got; i++) {
		edata_t *e = got[i];
		if (e != NULL && e->addr >= piece + from && e->addr < piece + to) {
			pac_dalloc(pac, e);
			got[i] = NULL;
			n++;
		}
	}
	return n;
}

/* The k-th piece in use, from the first page on that was fetched. */
static const char *
nth_piece(unsigned k) {
	for (unsigned i = 0; i < n_got; i++) {
		if (is_aligned((uintptr_t)got[i]->addr, PIECE_SIZE) && emap_is_huge(got[i]->addr)
		    && k-- == 0) {
			return got[i]->addr;
		}
	}
	ok(false, "there is such a piece");
	return NULL;
}

static void
test_give_back(void) {
	start(10000);
	grow(64 * MIB);
	pac_tick(pac, now);
	const char *part = nth_piece(3), *whole = nth_piece(5), *few = nth_piece(7);
	size_t before = nbroken(), has_rest = piece_npages(&pac->piece) > 0, all = npieces();
	free_in_piece(part, MIB / 2, 3 * MIB / 2);
	free_in_piece(whole, 0, 2 * MIB);
	pac_hot_flush(pac);
	free_in_piece(few, 0, PAGE);
	for (unsigned i = 0; i < 160; i++) {
		now += 50 * MSEC;
		pac_tick(pac, now);
	}
	ok(!emap_is_huge(whole), "after 8 s the whole piece is given back");
	is_uint(nbroken() - before, 0, "and none is broken");
	is_uint(npieces(), all - 1, "one is there no more");
	ok(emap_is_huge(part) && pac_ndirty(pac) >= MIB >> LG_PAGE, "the part waits");
	for (unsigned i = 0; i < 60; i++) {
		now += 50 * MSEC;
		pac_tick(pac, now);
	}
	ok(!emap_is_huge(part), "after the decay time it is given back");
	is_uint(nbroken() - before, 1 + has_rest, "which breaks its piece; and so is a rest that "
	    "nobody used");
	is_uint(npieces(), all - 2 - has_rest, "as many are there less");
	ok(emap_is_huge(few), "a single page is not worth a piece");
	ok(pac_ndirty(pac) << LG_PAGE <= max_zu(use() >> PIECE_LG_KEPT, PAGE),
	    "little stays: %zu pages", pac_ndirty(pac));
	is_uint(sys.nohuge, (2 + has_rest) * PIECE_SIZE, "these pieces lose the mark, and no others");
	pac_purge(pac, now, true);
	is_uint(pac_ndirty(pac), 0, "a purge of all does not ask");
	ok(!emap_is_huge(few), "and breaks it");
}

/* Frees the pages got[from] to got[to - 1]; the fetched ones mostly lie side by side. */
static void
free_run(size_t from, size_t to) {
	for (size_t i = from; i < to; i++) {
		if (got[i] != NULL) {
			pac_dalloc(pac, got[i]);
			got[i] = NULL;
		}
	}
}

/*
 * Runs over parts of pieces and whole ones are freed at random, and become due in parts: each page
 * that is mapped is in use, dirty or muzzy, so none is lost where an extent is cut.
 */
static void
test_none_is_lost(ssize_t muzzy_ms) {
	uint64_t seed = 31;
	unsigned bad = 0;
	start(1000);
	pac_decay_ms_set(pac, &pac->decay_muzzy, muzzy_ms, now);
	grow(48 * MIB);
	for (unsigned i = 0; i < 300; i++) {
		size_t from = draw_below(&seed, n_got);
		free_run(from, min_zu(n_got, from + draw_below(&seed, 6 * MIB >> LG_PAGE)));
		for (unsigned k = 0; k < n_got && i % 8 == 7; k++) {
			got[k] = got[k] == NULL ? pac_alloc_dense(pac, PAGE) : got[k];
		}
		now += draw_below(&seed, 300 * MSEC);
		pac_tick(pac, now);
		size_t npages = pac_ndirty(pac) + ecache_npages(&pac->muzzy);
		bad += wrong_if(atomic_load_zu(&pac->mapped, MO_RELAXED) != use() + (npages << LG_PAGE));
	}
	is_uint(bad, 0, "with %zd ms for muzzy pages, none is lost", muzzy_ms);
	free_run(0, n_got);
	pac_purge(pac, now, true);
	is_uint(atomic_load_zu(&pac->mapped, MO_RELAXED), 0, "and all of them go");
}

/*
 * Scattered pages that become muzzy: they are in no piece any more, and all go after their decay
 * time, although some dirty ones stay because they would break pieces.
 */
static void
test_muzzy(void) {
	start(1000);
	pac_decay_ms_set(pac, &pac->decay_muzzy, 1000, now);
	grow(64 * MIB);
	unsigned n = n_got;
	for (unsigned i = n / 4; i < n / 2; i += 2) {
		pac_dalloc(pac, got[i]);
	}
	pac_hot_flush(pac);
	for (unsigned i = 0; i < 2000 && ecache_npages(&pac->muzzy) == 0; i++) {
		now += MSEC;
		pac_tick(pac, now);
	}
	ok(ecache_npages(&pac->muzzy) > 0, "pages become muzzy");
	size_t most = 0;
	for (unsigned i = 0; i < 6000 / 50; i++) {
		now += 50 * MSEC;
		pac_tick(pac, now);
		most = max_zu(most, ecache_npages(&pac->muzzy));
	}
	ok(most > 2 * pac_npages_kept(pac), "%zu of them", most);
	is_uint(ecache_npages(&pac->muzzy), 0, "all of them go");
	is_uint(pac_serve(pac, now), UINT64_MAX, "and no thread has to come again (%zu dirty)",
	    pac_ndirty(pac));
	pac_purge(pac, now, true);
}

/* Holes that are shorter than a piece are filled before a new piece is made. */
static void
test_holes(void) {
	start(10000);
	grow(64 * MIB);
	const char *part = nth_piece(3);
	free_in_piece(part, MIB / 2, 3 * MIB / 2);
	pac_purge(pac, now, true);
	size_t huge = sys.huge;
	grow(64 * MIB - PIECE_SIZE / 4);
	is_uint(sys.huge, huge, "what was given back is used again");
	grow(72 * MIB);
	ok(sys.huge > huge, "before a new piece");
	ok(!emap_is_huge(part), "and stays plain");
}

static void
test_not(void) {
	start(10000);
	while (use() < 4 * MIN) {
		pac_alloc(pac, PAGE, PAGE, false);
	}
	is_uint(sys.huge, 0, "not where the program may touch a part only");
	start(0);
	grow(4 * MIN);
	is_uint(sys.huge, 0, "not where unused pages go at once");
	start(10000);
	pac_bound(pac, MIB);
	grow(4 * MIN);
	is_uint(sys.huge, 0, "not where unused pages are bounded");
	start(10000);
	grow(4 * MIN);
	pac_decay_ms_set(pac, &pac->decay_dirty, 0, now);
	is_uint(pac_ndirty(pac), 0, "no rest stays where they have to go at once from now on");
}

static unsigned nwakes;

static void
count_wake(unsigned ind) {
	nwakes += ind == pac->src.ehooks.arena_ind;
}

/* What is left of a piece does not add to what may become unused before the server is woken. */
static void
test_wake(void) {
	const unsigned step = (unsigned)(MIB >> LG_PAGE);
	pac_wake_hook = count_wake;
	start(10000);
	grow(2 * MIN);
	while (piece_npages(&pac->piece) << LG_PAGE < 3 * MIB / 2 && n_got < N_MAX) {
		grow(use() + PAGE);
	}
	is_uint(ecache_npages(&pac->dirty), 0, "a piece has just begun, and nothing else is unused");
	is_uint(pac_serve(pac, now), 10000 * MSEC, "the server looks again when it may be idle");
	nwakes = 0;
	for (unsigned i = 0; i < step; i++) {
		pac_dalloc(pac, got[i]);
	}
	is_uint(nwakes, 0, "a megabyte that becomes unused does not wake it");
	pac_dalloc(pac, got[step]);
	is_uint(nwakes, 1, "a page more does");
	pac_purge(pac, now, true);
	size_t huge = sys.huge;
	while ((sys.huge == huge || piece_npages(&pac->piece) > 0) && n_got < N_MAX) {
		grow(use() + PAGE);
	}
	is_uint(pac_serve(pac, now), UINT64_MAX, "nothing is unused, nor left of a piece: for ever");
	huge = sys.huge;
	nwakes = 0;
	grow(use() + PAGE);
	ok(sys.huge == huge + 1 && nwakes == 1, "a new piece wakes it");
	is_uint(pac_serve(pac, now), 10000 * MSEC, "it looks again when that may be idle");
	nwakes = 0;
	while (sys.huge == huge + 1 && n_got < N_MAX) {
		grow(use() + PAGE);
	}
	is_uint(nwakes, 0, "the next piece does not wake it");
	pac_wake_hook = NULL;
}

/* What is left of a piece is idle when it kept its size for that time, from the first look on. */
static void
test_idle(void) {
	start(10000);
	piece_t *p = &pac->piece;
	ok(!piece_try_idle(p, now + 5, 0), "nothing is left where no piece is");
	grow(2 * MIN);
	while (piece_npages(p) << LG_PAGE < 3 * MIB / 2 && n_got < N_MAX) {
		grow(use() + PAGE);
	}
	for (unsigned i = 0; i < 3; i++) {
		uint64_t first = now + 1000 * (i + 1);
		ok(!piece_try_idle(p, first, 50), "a look at another size begins the time");
		ok(!piece_try_idle(p, first + 49, 50), "which is not over");
		ok(piece_try_idle(p, first + 50, 50) && piece_try_idle(p, first + 90, 50), "it is");
		ok(!piece_try_idle(p, first + 90, 91), "for a longer one it is not");
		grow(use() + PAGE);
	}
	ok(piece_try_idle(p, now + 9000, 0), "for a time of 0 at once");
}

static unsigned n_own, n_held;

/* Whether a lock is held that a hook of the user may need itself. */
static void
note_own(void) {
	n_own++;
	n_held += mutex_is_owner(&pac->decay_dirty.decay.mtx)
	    || mutex_is_owner(&pac->decay_muzzy.decay.mtx) || mutex_is_owner(&pac->src.grow_mtx);
}

static bool
own_dalloc(ehooks_table_t *own UNUSED, void *addr UNUSED, size_t size UNUSED, bool committed UNUSED,
    unsigned ind UNUSED) {
	note_own();
	return true;
}

static bool
own_merge(ehooks_table_t *own UNUSED, void *addr_a UNUSED, size_t size_a UNUSED,
    void *addr_b UNUSED, size_t size_b UNUSED, bool committed UNUSED, unsigned ind UNUSED) {
	note_own();
	return false;
}

/* An arena that has a piece gets hooks of the user: they learn of its rest without a lock. */
static void
test_own_hooks(void) {
	static ehooks_table_t own;
	own = ehooks_system;
	own.dalloc = own_dalloc;
	own.merge = own_merge;
	start(10000);
	gate_enter(tls_get());
	grow(2 * MIN);
	while (piece_npages(&pac->piece) == 0 && n_got < N_MAX) {
		grow(use() + PAGE);
	}
	size_t rest = piece_npages(&pac->piece);
	ok(rest > 0, "%zu pages of a piece are left", rest);
	ok(pac_hooks_set(pac, &own) == &ehooks_system, "hooks of the user");
	is_uint(piece_npages(&pac->piece), 0, "nothing is left of the piece");
	ok(ecache_npages(&pac->dirty) >= rest && n_own == 0, "it is dirty, and no hook was asked");
	now += 20 * SEC;
	pac_tick(pac, now);
	pac_purge(pac, now, true);
	is_uint(ecache_npages(&pac->dirty), 0, "purged");
	ok(n_own > 0, "by the hooks");
	is_uint(n_held, 0, "without a lock");
	grow(use() + 2 * PIECE_SIZE);
	is_uint(piece_npages(&pac->piece), 0, "no new piece");
	gate_exit(tls_get());
}

static void
test_slow(void) {
	thp_stats_t before, after;
	thp_stats_read(&before);
	opt_thp_min = 2 * MIN; /* so that runs of small pages come before, with large pages too */
	start(10000);
	sys.slow_ns = PIECE_SLOW_NS + 1;
	sys.small_ns = MSEC;
	grow(5 * MIN);
	thp_stats_read(&after);
	ok(sys.huge > 10, "slow first touches, but small pages are slow too: pieces go on");
	ok(after.nslow - before.nslow == sys.huge && after.npauses == before.npauses,
	    "they are counted");
	is_uint(after.npieces - before.npieces, sys.huge, "as are all pieces");
	start(10000);
	sys.slow_ns = PIECE_SLOW_NS + 1;
	sys.small_ns = 1000;
	grow(5 * MIN);
	is_uint(sys.huge, PIECE_SLOW_MAX, "three in a row that are slower than small pages: no more");
	thp_stats_read(&after);
	is_uint(after.npauses, before.npauses + 1, "that is counted");
	ok(strncmp(piece_state(), "paused", 6) == 0, "and said: %s", piece_state());
	sys.slow_ns = 0;
	now += 59 * SEC;
	grow(6 * MIN);
	is_uint(sys.huge, PIECE_SLOW_MAX, "for a minute");
	now += 2 * SEC;
	grow(7 * MIN);
	ok(sys.huge > PIECE_SLOW_MAX, "then again");
	is_str(piece_state(), "on", "the state");
	opt_thp_min = MIN;
}

static void
test_no_memory(void) {
	thp_stats_t before, after;
	thp_stats_read(&before);
	start(10000);
	sys.fail_with = ENOMEM;
	grow(4 * MIN);
	is_uint(sys.huge, 1, "a refusal for want of memory is one call");
	thp_stats_read(&after);
	ok(after.npauses == before.npauses + 1 && after.npieces == before.npieces, "and a pause");
	now += 61 * SEC;
	sys.fail_with = 0;
	grow(5 * MIN);
	ok(sys.huge > 1, "a minute later it is tried again");
}

static bool
fault(void) {
	return true;
}

/* A piece that is made but cannot be cut, for want of descriptors, is counted too. */
static void
test_no_descriptors(void) {
	for (unsigned left = 0; left < 4; left++) {
		edata_t *some[4];
		now += 61 * SEC; /* a refusal has made a pause */
		start(10000);
		grow(2 * MIN);
		while (piece_npages(&pac->piece) > 0 && n_got < N_MAX) {
			grow(use() + PAGE);
		}
		for (unsigned i = 0; i < left; i++) {
			some[i] = edata_cache_get(&pac->src.edata_cache);
		}
		base_fault_hook = fault;
		while (edata_cache_get(&pac->src.edata_cache) != NULL) {}
		for (unsigned i = 0; i < left; i++) {
			edata_cache_put(&pac->src.edata_cache, some[i]);
		}
		pac_alloc_dense(pac, PAGE);
		base_fault_hook = NULL;
		is_uint(atomic_load_zu(&pac->mapped, MO_RELAXED) - use(), pac_ndirty(pac) << LG_PAGE,
		    "with %u descriptors what is unused is counted", left);
	}
}

static void
setup(void) {
	hooks = os_hooks_real;
	hooks.madvise = fake_madvise;
	hooks.open = fake_open;
	os_hooks = &hooks;
	nstime_now_hook = fake_now;
	now = SEC;
	sys.enabled = "always [madvise] never\n";
	sys.size = "2097152\n";
	opt_thp = thp_mode_default;
	opt_thp_min = MIN;
}

/*
 * What the start of a process asks, with these answers: a system of these pages, from which the
 * size of its huge pages follows on some machines; on others a file says it.
 */
static void
ask_with(size_t system_page) {
	size_t true_page = os_page_size;
	os_page_size = system_page;
	pages_boot_thp();
	piece_boot();
	os_page_size = true_page;
}

/* A system with huge pages of 2 MiB, whatever this one has. */
static void
ask(void) {
	ask_with(4096);
}

/* How often a piece is asked for under these circumstances, and what is said about it. */
static int
child_off(void) {
	start(10000);
	grow(4 * MIN);
	printf("calls=%zu state=%s\n", sys.huge, piece_state());
	return 0;
}

static int
child_size(void) {
	setup();
	sys.size = "536870912\n";
	ask_with(16384);
	return child_off();
}

static int
child_refused(void) {
	setup();
	ask();
	start(10000);
	sys.fail_with = EINVAL;
	grow(4 * MIN);
	printf("calls=%zu state=%s\n", sys.huge, piece_state());
	return 0;
}

#define OFF_CHILD(name, change) \
static int \
child_##name(void) { \
	setup(); \
	change; \
	ask(); \
	return child_off(); \
}
OFF_CHILD(always, sys.enabled = "[always] madvise never\n")
OFF_CHILD(never, sys.enabled = "always madvise [never]\n")
OFF_CHILD(none, sys.enabled = "")
OFF_CHILD(process, prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
OFF_CHILD(option, opt_thp = thp_mode_never)
OFF_CHILD(retain, opt_retain = false)
OFF_CHILD(large, opt_thp_min = SIZE_MAX)

static const struct {
	const char *child;
	const char *out;
} offs[] = {
	{"always", "calls=0 state=off: the system's setting is not madvise"},
	{"never", "calls=0 state=off: the system's setting is not madvise"},
	{"none", "calls=0 state=off: the system's setting is not madvise"},
	{"size", "calls=0 state=off: huge pages are not of 2 MiB"},
	{"process", "calls=0 state=off: disabled for the process"},
	{"option", "calls=0 state=off: thp is not default"},
	{"retain", "calls=0 state=off: retain is false"},
	{"large", "calls=0 state=on"},
	{"refused", "calls=1 state=off: the system refused"},
};

static void
body(void) {
	setup();
	ask();
	test_guard();
	test_spare();
	test_growth();
	test_give_back();
	test_none_is_lost(0);
	test_none_is_lost(1000);
	test_muzzy();
	test_holes();
	test_not();
	test_wake();
	test_idle();
	test_own_hooks();
	test_slow();
	test_no_memory();
	test_no_descriptors();
	os_hooks = &os_hooks_real;
}

int
main(int argc, char **argv) {
	static const struct test_child children[] = {{"always", child_always}, {"never", child_never},
		{"none", child_none}, {"size", child_size}, {"process", child_process},
		    {"option", child_option},
		{"retain", child_retain}, {"large", child_large}, {"refused", child_refused}, {NULL, NULL}};
	static struct test_result r;
	bool is_body = argc > 1 && strcmp(argv[1], "--child=body") == 0;
	if (!is_body) {
		test_children(argc, argv, children);
	}
	for (unsigned i = 0; i < ARRAY_LEN(offs) && !is_body; i++) {
		run_child_conf(&r, offs[i].child, NULL);
		child_exits(&r, 0, "child %s", offs[i].child);
		ok(strstr(r.out, offs[i].out) != NULL, "%s: %s", offs[i].child, offs[i].out);
	}
	return core_run_all_pages(argc, argv, body);
}
