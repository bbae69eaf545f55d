/*
 * The slow path of allocation and release; imalloc.h has the contract.
 *
 * A bin is the stack of free objects of one class in a thread cache; its countdown counts pops to
 * the next sample or heartbeat (periodic work). If nothing else is due, shorter variants fill an
 * empty bin (imalloc_refill), handle the end of a countdown (imalloc_ended), make room in a full
 * bin (ifree_try_overflow), or free a large sample (ifree_try_large_sample). When the system has no
 * memory, unused pages are returned to it and the request is tried again (imalloc_relieved). While
 * fork has closed the gate, and in a signal handler that interrupted its thread inside the gate,
 * allocations come from the shelter (a heap without locks) and frees are deferred.
 *
 * Invariant: a function that takes a tsd runs inside the gate with no lock held. Frees, and
 * allocations that succeed, keep errno; but imalloc_quiet() leaves that to its callers. Called by
 * jemalloc.c, cxx.c, imalloc_flags.c, irealloc.c, stats.c and ctl/.
 */
#include "imalloc.h"

#include <stdlib.h>

#include "arena/arenas.h"
#include "arena/safety.h"
#include "arena/shut.h"
#include "malloc_boot.h"
#include "meta/recs.h"
#include "os/malloc_io.h"
#include "os/thread.h"
#include "prof/prof.h"
#include "prof/trigger/prof_trigger.h"
#include "thread/claim.h"
#include "thread/deferred.h"
#include "thread/peak.h"
#include "thread/quarantine.h"
#include "thread/shelter.h"
#include "thread/tcache_set.h"
#include "thread/thread_event.h"

/* imalloc.h describes the options. */
bool opt_abort = CONFIG_DEBUG;
const char *opt_junk = CONFIG_DEBUG ? "true" : "false";
bool opt_junk_alloc = CONFIG_DEBUG;
bool opt_junk_free = CONFIG_DEBUG;
bool opt_zero;
bool opt_xmalloc;
bool opt_utrace;
unsigned opt_debug_double_free_max_scan = CONFIG_DEBUG ? 32 : 0;
bool opt_experimental_infallible_new;
zero_realloc_t opt_zero_realloc = zero_realloc_free;
const char *const zero_realloc_names[] = {"alloc", "free", "abort", NULL};

/* The byte with which freed memory is filled if the option junk asks for it. */
#define JUNK_FREE_BYTE 0x5a

static atomic_zu_t zero_reallocs;

size_t
imalloc_zero_reallocs(void) {
	return atomic_load_zu(&zero_reallocs, MO_RELAXED);
}

void
imalloc_count_zero_realloc(void) {
	atomic_fetch_add_zu(&zero_reallocs, 1, MO_RELAXED);
}

/* ------------------------------------------------------------------ choosing the source */

/*
 * The cache that a request or a free may use; NULL: none. The thread's own cache serves a request
 * that names an arena only if that is the thread's arena. An explicit cache serves any arena; if no
 * cache has the id, the result is NULL. A thread without a cache of its own gets one after a number
 * of operations, and each call here that asks for the own cache counts as one (tsd_cache()).
 */
static tcache_t *
imalloc_cache(tsd_t *tsd, int tcache, unsigned arena) {
	imalloc_assert_in_gate(tsd);
	if (tsd == NULL || tcache == IMALLOC_TCACHE_NONE) {
		return NULL;
	}
	if (tcache >= 0) {
		return tcaches_get((unsigned)tcache);
	}
	bool is_other_arena = arena != IMALLOC_ARENA_AUTO && arena != tsd->arena->ind;
	return is_other_arena ? NULL : tsd_cache(tsd);
}

/*
 * The arena for a request of at least arenas_oversize_min bytes: the one of oversized requests, or
 * the thread's own if the user bound the thread to an explicit arena or there is no memory.
 */
static arena_t *
imalloc_arena_oversize(tsd_t *tsd) {
	arena_t *a = tsd->arena->is_auto ? arenas_oversize() : NULL;
	return a != NULL ? a : tsd->arena;
}

/* The arena that serves a request without a cache; NULL: no such arena, or no memory for it. */
static arena_t *
imalloc_arena(tsd_t *tsd, unsigned arena, size_t usize) {
	assert(usize > 0);
	if (arena != IMALLOC_ARENA_AUTO) {
		return arenas_get_or_init(arena);
	}
	if (unlikely(usize >= arenas_oversize_min) && tsd != NULL) {
		return imalloc_arena_oversize(tsd);
	}
	return tsd != NULL ? tsd->arena : arenas_fallback();
}

/*
 * Sets *slot to the index of the bin for a request, which is its class + 1; false if the cache does
 * not serve it. Cached small objects have the alignment of their class, large ones only that of a
 * cache line. A zeroed object of more than TCACHE_FLUSH_ABOVE bytes comes from an arena, because
 * new pages are zero without being touched.
 */
static bool
imalloc_find_slot(const tcache_t *tc, const imalloc_req_t *req, size_t usize, unsigned *slot) {
	assert(usize > 0 && usize <= SC_LARGE_MAXCLASS);
	*slot = sz_s2i(usize) + 1;
	bool wants_new = usize > TCACHE_FLUSH_ABOVE && (req->zero || opt_zero);
	return *slot < tc->nslots && sz_i2s(*slot - 1) >= usize && !wants_new
	    && req->alignment <= (usize < SC_LARGE_MINCLASS ? PAGE : CACHELINE);
}

/* Whether a request that is due to be a sample becomes one: not if nested, or sampling is off. */
static bool
imalloc_may_sample(tsd_t *tsd) {
	return config_prof && tsd != NULL && tsd->tls->inside == 0 && prof_should_sample(tsd);
}

void
imalloc_count_direct(tsd_t *tsd, size_t usize) {
	if (tsd == NULL) {
		return;
	}
	tsd->direct_alloc += usize;
	if (!thread_event_try_pass(tsd, usize)) {
		thread_event_advance_large(tsd, usize);
	}
	peak_note(tsd);
}

/* ------------------------------------------------------------------ allocation */

static void *imalloc_no_sample(tsd_t *tsd, const imalloc_req_t *req, size_t usize, tcache_t *tc,
    unsigned slot);
static void *imalloc_large_direct(tsd_t *tsd, const imalloc_req_t *req, arena_t *a, size_t usize,
    bool zero);

/* The profiler counts a sample that has a record. interval: mean distance of samples, bytes. */
ALWAYS_INLINE void
imalloc_record(tsd_t *tsd, const imalloc_req_t *req, void *p, size_t usize, sample_rec_t *rec,
    uint64_t interval) {
	arena_guard(p, usize, req->size); /* a hook may ask for its size */
	tsd->tls->inside++;
	prof_sample_alloc(tsd, p, rec, interval, req->size, usize, &req->where);
	tsd->tls->inside--;
}

/*
 * imalloc_sample() for a large object of a class that tc holds. Such a sample is an object like any
 * other, usually from the bin, with a record while it is in use. NULL: the request is uncounted.
 */
static NOINLINE void *
imalloc_sample_large(tsd_t *tsd, const imalloc_req_t *req, size_t usize, tcache_t *tc,
    unsigned slot, uint64_t interval) {
	assert(usize >= SC_LARGE_MINCLASS && slot > 0 && interval > 0 && tsd->tls->inside == 0);
	void *obj = NULL, *p;
	bool zero = req->zero || opt_zero;
	bool is_plain = !config_hardening && req->arena == IMALLOC_ARENA_AUTO && !zero;
	if (likely(is_plain) && likely(cache_bin_try_take(&tc->bins[slot], &obj))) {
		p = arena_large_hand_out(obj);
	} else if ((p = imalloc_no_sample(tsd, req, usize, tc, slot)) != NULL) {
		obj = emap_edata(p);
	} else {
		return NULL;
	}
	sample_rec_t *rec = arena_large_make_sampled(obj, tcache_rec_take(&tc->spares));
	if (likely(rec != NULL)) {
		imalloc_record(tsd, req, p, usize, rec, interval);
	}
	return p;
}

/*
 * Allocates a sampled object that is small, or large of no class that tc holds. A small one is a
 * spare (a freed sample that the cache keeps) or comes from an arena; a large one comes from where
 * it would come from without the sample. NULL: no memory, or no such arena; *rec then means
 * nothing. Otherwise *rec is the record, or NULL if there is no memory for one: the object is no
 * sample. tc, slot: the bin that would serve the request unsampled; tc may be NULL.
 */
static void *
imalloc_sample_object(tsd_t *tsd, const imalloc_req_t *req, size_t usize, tcache_t *tc,
    unsigned slot, sample_rec_t **rec) {
	assert(tsd != NULL && (tc == NULL || (slot > 0 && slot < tc->nslots)));
	bool zero = req->zero || opt_zero;
	/* A request that the thread's own cache may serve is one for the thread's arena. */
	if (tc != NULL && tc->is_auto && tsd->arena->is_auto) {
		void *p = tcache_spare_take(&tc->spares, slot, rec);
		if (likely(p != NULL)) {
			return unlikely(zero) ? memset(p, 0, canary_room(usize)) : p;
		}
	}
	arena_t *a = imalloc_arena(tsd, req->arena, usize);
	if (a == NULL) {
		return NULL;
	}
	if (usize >= SC_LARGE_MINCLASS) {
		void *p = imalloc_large_direct(tsd, req, a, usize, zero);
		*rec = p == NULL ? NULL : arena_large_make_sampled(emap_edata(p), recs_alloc(1));
		return p;
	}
	return arenas_malloc_sampled(a, usize, req->alignment, zero, tc == NULL ? 1 : 0, rec);
}

/* Sets rec->slab: name of the slab that would have served the request unsampled; 0: not known. */
static NOINLINE void
imalloc_set_slab(tsd_t *tsd, const imalloc_req_t *req, size_t usize, tcache_t *tc,
    sample_rec_t *rec) {
	arena_t *a = imalloc_arena(tsd, req->arena, usize);
	uint64_t slab = a == NULL ? 0 : tcache_next_slab(tsd, tc, a, sz_s2i(usize) + 1);
	__atomic_store_n(&rec->slab, slab, MO_RELAXED);
}

/*
 * Allocates a sampled object; if there is a record, the profiler then counts the sample. NULL: no
 * memory or no such arena; the request is then uncounted.
 */
static NOINLINE void *
imalloc_sample(tsd_t *tsd, const imalloc_req_t *req, size_t usize, tcache_t *tc, unsigned slot,
    uint64_t interval) {
	assert(interval > 0 && tsd->tls->inside == 0);
	if (tc != NULL && usize >= SC_LARGE_MINCLASS) {
		return imalloc_sample_large(tsd, req, usize, tc, slot, interval);
	}
	sample_rec_t *rec;
	void *p = imalloc_sample_object(tsd, req, usize, tc, slot, &rec);
	if (p != NULL && tc != NULL) {
		tcache_took_sample(tsd, tc, slot);
	} else if (tc != NULL) {
		tcache_uncount(tsd, tc, slot);
	}
	if (p != NULL && rec != NULL) {
		__atomic_store_n(&rec->slab, 0, MO_RELAXED); /* a dump may read it (prof_age.c) */
		if (interval > 1 && usize < SC_LARGE_MINCLASS) { /* 1: it stands for itself alone */
			imalloc_set_slab(tsd, req, usize, tc, rec);
		}
		imalloc_record(tsd, req, p, usize, rec, interval);
	}
	return p;
}

/*
 * imalloc_take() for a class above TCACHE_GRANT_ABOVE bytes. An oversized request whose bin has the
 * limit 0 is served by the arena of oversized requests.
 */
static NOINLINE void *
imalloc_take_large(tsd_t *tsd, tcache_t *tc, arena_t *from, unsigned slot) {
	if (from == NULL) {
		bool is_oversize = tc->bins[slot].size >= arenas_oversize_min && tc->cold[slot].max == 0;
		from = unlikely(is_oversize) ? imalloc_arena_oversize(tsd) : tc->arena;
	}
	void *p = tcache_take(tsd, tc, from, slot);
	peak_note(tsd);
	return p;
}

/* tcache_take() for any class. from: the arena that the request names, or NULL for its default. */
static void *
imalloc_take(tsd_t *tsd, tcache_t *tc, arena_t *from, unsigned slot) {
	imalloc_assert_in_gate(tsd);
	assert(slot > 0 && slot < tc->nslots);
	if (unlikely(tc->bins[slot].size > TCACHE_GRANT_ABOVE)) {
		return imalloc_take_large(tsd, tc, from, slot);
	}
	return tcache_take(tsd, tc, from != NULL ? from : tc->arena, slot);
}

/* Allocates from a cache. NULL: no memory or no such arena; the request is then uncounted. */
static void *
imalloc_cached(tsd_t *tsd, const imalloc_req_t *req, tcache_t *tc, unsigned slot) {
	assert(slot > 0 && slot < tc->nslots);
	arena_t *from = NULL;
	if (unlikely(req->arena != IMALLOC_ARENA_AUTO)) {
		from = arenas_get_or_init(req->arena);
		if (from == NULL) {
			tcache_uncount(tsd, tc, slot);
			return NULL;
		}
	}
	return imalloc_take(tsd, tc, from, slot);
}

/* Allocates a large object past the cache; NULL: no memory. */
static void *
imalloc_large_direct(tsd_t *tsd, const imalloc_req_t *req, arena_t *a, size_t usize, bool zero) {
	void *obj;
	imalloc_assert_in_gate(tsd);
	assert(a != NULL && usize >= SC_LARGE_MINCLASS);
	if (!zero && req->alignment <= CACHELINE && arena_large_reuse(a, usize, &obj, 1) != 0) {
		arena_large_count_requests(a, sz_s2i(usize), 1, 0, 0);
		return arena_large_hand_out(obj);
	}
	if (usize > TCACHE_FLUSH_ABOVE && tsd != NULL && tsd->tcache != NULL) {
		tcache_make_way(tsd, tsd->tcache, TCACHE_FLUSH_ABOVE, usize);
	}
	return arena_malloc(a, usize, req->alignment, zero, 1);
}

/* As imalloc_cached(), but if tc is NULL, directly from an arena; slot is then not used. */
static void *
imalloc_no_sample(tsd_t *tsd, const imalloc_req_t *req, size_t usize, tcache_t *tc,
    unsigned slot) {
	bool zero = req->zero || opt_zero;
	if (tc != NULL) {
		void *p = imalloc_cached(tsd, req, tc, slot);
		if (p != NULL && zero) {
			memset(p, 0, usize < SC_LARGE_MINCLASS ? canary_room(usize) : usize);
		}
		return p;
	}
	arena_t *a = imalloc_arena(tsd, req->arena, usize);
	if (a == NULL) {
		return NULL;
	}
	return likely(usize < SC_LARGE_MINCLASS) ? arena_malloc(a, usize, req->alignment, zero, 1)
	    : imalloc_large_direct(tsd, req, a, usize, zero);
}

/* Whether the request is sampled and reported for its size alone (prof_trigger_large_bytes). */
ALWAYS_INLINE bool
imalloc_is_noted(tsd_t *tsd, size_t size) {
	return config_prof && unlikely(size >= prof_trigger_large_bytes()) && imalloc_may_sample(tsd);
}

void
imalloc_note_large(tsd_t *tsd, size_t size) {
	assert(size <= SC_LARGE_MAXCLASS);
	if (imalloc_is_noted(tsd, size)) {
		tsd->tls->inside++;
		prof_trigger_large(size);
		tsd->tls->inside--;
	}
}

void
imalloc_gdump(struct tls_s *t) {
	assert(gate_is_entered(t));
	if (t->tsd != NULL && t->inside == 0 && t->gate_depth == 1) {
		t->inside++;
		prof_gdump_write();
		t->inside--;
	}
}

/*
 * imalloc_draw_sample() for a request that a bin of a cache serves (tc, slot), or no cache if tc is
 * NULL. With tc it may run a heartbeat, whose hooks of the user may delete tc.
 */
ALWAYS_INLINE uint64_t
imalloc_draw(tsd_t *tsd, size_t size, size_t usize, tcache_t *tc, unsigned slot) {
	imalloc_assert_in_gate(tsd);
	if (imalloc_is_noted(tsd, size)) {
		if (tc != NULL) {
			tcache_count_apart(tsd, tc, slot);
		}
		return 1;
	}
	bool is_due = tc != NULL ? tcache_count_to_sample(tsd, tc, slot)
	    : tsd != NULL && thread_event_count_to_sample(tsd, usize);
	if (likely(!is_due) || !imalloc_may_sample(tsd)) {
		return 0;
	}
	return tsd->sample_interval; /* 0 if a hook has just ended the sampling of this thread */
}

uint64_t
imalloc_draw_sample(tsd_t *tsd, size_t size, size_t usize) {
	return imalloc_draw(tsd, size, usize, NULL, 0);
}

/* Completes a new object: canaries, junk, and the thread's exact count of bytes. Returns p. */
static void *
imalloc_finish(tsd_t *tsd, const imalloc_req_t *req, void *p, size_t usize) {
	size_t usable = canary_usable(req->size, usize);
	arena_guard(p, usize, req->size);
	assert(iusize(p) == usable);
	if (unlikely(opt_junk_alloc) && config_fill && !req->zero && !opt_zero) {
		memset(p, JUNK_ALLOC_BYTE, usable);
	}
	if (tsd != NULL && unlikely(tsd->is_counted)) {
		tsd->counted_alloc += usize;
	}
	return p;
}

/*
 * Allocates by imalloc_sample() if interval is not 0, otherwise by imalloc_no_sample(). NULL: both
 * have uncounted a request that tc had counted.
 */
ALWAYS_INLINE void *
imalloc_object(tsd_t *tsd, const imalloc_req_t *req, size_t usize, tcache_t *tc, unsigned slot,
    uint64_t interval) {
	return unlikely(interval != 0) ? imalloc_sample(tsd, req, usize, tc, slot, interval)
	    : imalloc_no_sample(tsd, req, usize, tc, slot);
}

/* imalloc_object() once more after a failure, which has uncounted the request. */
static void *
imalloc_again(tsd_t *tsd, const imalloc_req_t *req, size_t usize, tcache_t *tc, unsigned slot,
    uint64_t interval) {
	imalloc_assert_in_gate(tsd);
	if (tc != NULL) {
		tcache_recount(tsd, tc, slot);
	}
	return imalloc_object(tsd, req, usize, tc, slot, interval);
}

/*
 * Tries again after unused pages of all arenas were returned to the system, as many bytes as the
 * request needs; if that fails, after two huge pages more were returned, for metadata.
 */
static void *
imalloc_returned(tsd_t *tsd, const imalloc_req_t *req, size_t usize, tcache_t *tc, unsigned slot,
    uint64_t interval) {
	size_t want = arena_need(usize, req->alignment);
	void *p = NULL;
	bool has_relieved = false;
	for (unsigned i = 0; p == NULL && i < 2 && arenas_try_relieve(want + i * 2 * HUGEPAGE); i++) {
		has_relieved = true;
		p = imalloc_again(tsd, req, usize, tc, slot, interval);
	}
	if (has_relieved) {
		arenas_relieve_end(p != NULL);
	}
	return p;
}

/*
 * Tries again after the system has refused memory. First flushes the shut extents (arena/shut.h),
 * what threads that a fork left behind had cached (tsd_try_end_absent), and this thread's cache; if
 * the flush of this cache has made pages of the arena unused, tries the request. Then returns
 * unused pages of any arena to the system and tries; at last does so with pages that caches of idle
 * threads held (thread/claim.h). NULL: no memory. Does nothing without a tsd, in a nested request
 * (tls_s.inside), or for an arena with the user's extent hooks, which may refuse at will.
 */
static NOINLINE void *
imalloc_relieved(tsd_t *tsd, const imalloc_req_t *req, size_t usize, tcache_t *tc, unsigned slot,
    uint64_t interval) {
	assert(tc == NULL || slot > 0);
	arena_t *a = tsd == NULL || tsd->tls->inside != 0 ? NULL
	    : imalloc_arena(tsd, req->arena, usize);
	if (a == NULL || ehooks_are_custom(&a->pac.src.ehooks)
	    || arena_need(usize, req->alignment) < usize) {
		return NULL;
	}
	shut_flush();
	while (gate_has_absent() && tsd_try_end_absent()) {
	}
	void *p = tcache_try_gather(tsd, a)
	    ? imalloc_again(tsd, req, usize, tc, slot, interval) : NULL;
	if (p == NULL) {
		p = imalloc_returned(tsd, req, usize, tc, slot, interval);
	}
	if (p == NULL && claim_for_refused() != 0) {
		p = imalloc_returned(tsd, req, usize, tc, slot, interval);
	}
	return p;
}

/*
 * Whether a hook of the user, which a heartbeat in imalloc_draw() may call, has made the thread
 * delete a cache, perhaps that of the request; n_ends: tsd->n_cache_ends before imalloc_draw().
 */
ALWAYS_INLINE bool
imalloc_is_orphan(const tsd_t *tsd, const tcache_t *tc, uint32_t n_ends) {
	return tc != NULL && unlikely(tsd->n_cache_ends != n_ends);
}

/*
 * Serves a request past the caches. Its cache has counted the request, and was perhaps deleted
 * since. is_own: that cache was the thread's own. The arena's number of requests contains the
 * request twice afterwards, which is accepted. If the request fails (NULL), its bytes are
 * uncounted.
 */
static COLD void *
imalloc_orphan(tsd_t *tsd, const imalloc_req_t *req, size_t usize, bool is_own,
    uint64_t interval) {
	imalloc_assert_in_gate(tsd);
	void *p = imalloc_object(tsd, req, usize, NULL, 0, interval);
	if (p == NULL) {
		p = imalloc_relieved(tsd, req, usize, NULL, 0, interval);
	}
	tsd->popped -= is_own ? usize : 0;
	tsd->direct_alloc += p != NULL ? usize : 0;
	return p;
}

/*
 * imalloc_body() while tsd->named has a note of the explicit cache tc. An extent hook may call
 * mallctl to flush or delete tc; tcache_set.c refuses that because of the note. A hook of the
 * profiler may delete tc, so tc is not used after the call.
 */
static NOINLINE void *
imalloc_named(tsd_t *tsd, const imalloc_req_t *req, size_t usize, const tcache_t *tc) {
	tcache_note_t note = {tc, tsd->named};
	tsd->named = &note;
	void *p = imalloc_body(tsd, req, usize);
	tsd->named = note.outer;
	return p;
}

void *
imalloc_body(tsd_t *tsd, const imalloc_req_t *req, size_t usize) {
	imalloc_assert_in_gate(tsd);
	assert(usize >= req->size);
	unsigned slot = 0;
	tcache_t *tc = imalloc_cache(tsd, req->tcache, req->arena);
	if (tc != NULL && !imalloc_find_slot(tc, req, usize, &slot)) {
		tc = NULL;
	}
	if (tc != NULL) {
		usize = sz_i2s(slot - 1);
	}
	bool is_own = tc != NULL && tc->is_auto;
	if (unlikely(tc != NULL && !is_own) && (tsd->named == NULL || tsd->named->tc != tc)) {
		return imalloc_named(tsd, req, usize, tc);
	}
	uint32_t n_ends = tsd == NULL ? 0 : tsd->n_cache_ends;
	uint64_t interval = imalloc_draw(tsd, req->size, usize, tc, slot);
	if (imalloc_is_orphan(tsd, tc, n_ends)) {
		void *p = imalloc_orphan(tsd, req, usize, is_own, interval);
		return p == NULL ? NULL : imalloc_finish(tsd, req, p, usize);
	}
	void *p = imalloc_object(tsd, req, usize, tc, slot, interval);
	if (unlikely(p == NULL)) {
		p = imalloc_relieved(tsd, req, usize, tc, slot, interval);
	}
	if (unlikely(p == NULL)) {
		return NULL;
	}
	assert(imalloc_is_aligned(p, req));
	if (tc == NULL) {
		imalloc_count_direct(tsd, usize);
	} else if (!is_own) { /* the hook of a sample may have deleted the cache */
		tsd->direct_alloc += usize;
	}
	return imalloc_finish(tsd, req, p, usize);
}

static void imalloc_drain_deferred(tsd_t *tsd);

/* The slow path of an allocation inside the gate. NULL: no memory, too large, or no such arena. */
static void *
imalloc_in_gate(struct tls_s *t, const imalloc_req_t *req) {
	assert(t == tls_get() && gate_is_entered(t));
	tsd_t *tsd = tsd_fetch_in_gate(t);
	if (unlikely(atomic_load_b(&thread_event_is_wanted, MO_RELAXED)) && tsd != NULL) {
		thread_event_advance(tsd, 0);
	}
	if (deferred_has_any()) {
		imalloc_drain_deferred(tsd);
	}
	size_t usize = imalloc_usize(req);
	if (unlikely(usize == 0)) {
		return NULL;
	}
	void *p = imalloc_body(tsd, req, usize);
	if (likely(p != NULL)) {
		imalloc_note_large(tsd, req->size);
		imalloc_write_gdump(t);
	}
	return p;
}

/*
 * For a request that the thread's cache does not serve. The fast path may have counted it, so that
 * a countdown is at 0; the countdown is then set back to 1, and the next request of the class ends
 * it.
 */
static COLD void
imalloc_uncount_fast(const struct tls_s *t, const imalloc_req_t *req) {
	if (t->tsd != NULL && t->tsd->tcache != NULL) {
		tcache_uncount_fast(t->tsd->tcache, imalloc_usize(req));
	}
}

/*
 * At a closed gate: allocates *p from the shelter and returns false, not inside. If the shelter has
 * no memory for it, waits for the gate and enters: returns true, *p is NULL, and the caller serves
 * the request. In a lost child, whose gate stays closed (gate_is_lost), false with *p NULL.
 */
static COLD bool
imalloc_at_closed_gate(struct tls_s *t, const imalloc_req_t *req, void **p) {
	assert(!gate_is_entered(t));
	imalloc_uncount_fast(t, req);
	*p = shelter_malloc(req->size, req->alignment);
	if (*p != NULL || gate_is_lost()) {
		return false;
	}
	gate_enter(t);
	return true;
}

void *
imalloc_quiet(imalloc_req_t *req) {
	assert(req->tcache >= IMALLOC_TCACHE_NONE);
	struct tls_s *t = tls_get();
	UNWIND_HERE(&req->where);
	if (unlikely(malloc_boot() != 0)) {
		return NULL;
	}
	if (unlikely(imalloc_is_interrupted(t))) {
		imalloc_uncount_fast(t, req);
		return shelter_malloc(req->size, req->alignment);
	}
	void *p;
	if (likely(gate_try_enter(t)) || imalloc_at_closed_gate(t, req, &p)) {
		p = imalloc_in_gate(t, req);
		gate_exit(t);
	}
	if (alloc_hook_is_wanted(t) && p != NULL) {
		alloc_hook_alloc(req->how, p, req->size, req->alignment, req->zero);
	}
	return p;
}

void *
imalloc_refuse(const char *who, int error, const char *why) {
	if (opt_xmalloc && config_xmalloc) {
		malloc_printf("<jemalloc>: Error in %s(): %s\n", who, why);
		abort();
	}
	errno = error;
	return NULL;
}

void *
imalloc_fail(const char *who) {
	return imalloc_refuse(who, ENOMEM, "out of memory");
}

void *
imalloc(imalloc_req_t *req) {
	int saved = errno;
	void *p = imalloc_quiet(req);
	if (unlikely(p == NULL)) {
		return imalloc_fail(alloc_how_names[req->how]);
	}
	errno = saved;
	return p;
}

/*
 * Whether something besides an empty or a full bin needs the slow path: the call comes from inside
 * the gate (a signal handler, a hook of the user), a heartbeat is wanted, or frees are deferred.
 */
ALWAYS_INLINE bool
imalloc_has_work(const struct tls_s *t) {
	return unlikely(gate_is_entered(t))
	    || unlikely(atomic_load_b(&thread_event_is_wanted, MO_RELAXED)) || deferred_has_any();
}

/* The offset in bytes, in a cache, of the bin for a request of this size that caches may hold. */
ALWAYS_INLINE size_t
imalloc_bin_offset(size_t size) {
	size = canary_padded(size);
	assert(size <= tcache_max_default);
	return size <= SC_LOOKUP_MAX ? sc_bin_offset(size) : sc_bin_offset_compute(size);
}

bool
imalloc_above_try_fast(size_t size, void **p) {
	void *obj;
	if (size <= IMALLOC_FAST_MAX) {
		assert_not_reached();
	}
	if (canary_padded(size) > tcache_max_default) {
		return false;
	}
	cache_bin_t *b = fast_bin(imalloc_bin_offset(size));
	if (!cache_bin_try_pop(b, &obj)) {
		return false;
	}
	bool is_large = canary_padded(size) > SC_SMALL_MAXCLASS;
	*p = arena_guard(is_large ? arena_large_hand_out(obj) : obj, b->size, size);
	return true;
}

static NOINLINE void *
imalloc_general(size_t size) {
	imalloc_req_t req = IMALLOC_REQ(size, 0, false, malloc);
	return imalloc(&req);
}

/*
 * Enters the gate for a shorter variant, after the fast path was found open. False, and not inside:
 * the gate is closed, or another thread has recalled this one meanwhile (thread/recall.h), and may
 * be about to take over its cache.
 */
ALWAYS_INLINE bool
imalloc_try_enter(struct tls_s *t) {
	if (unlikely(!gate_try_enter_inline(t))) {
		return false;
	}
	if (unlikely(__atomic_load_n(&t->recall, __ATOMIC_SEQ_CST) != 0)) {
		gate_exit(t);
		return false;
	}
	return true;
}

/* malloc(size) for imalloc_default() from the empty bin at this offset, in bytes. */
static NOINLINE void *
imalloc_refill(size_t size, size_t offset) {
	struct tls_s *t = tls_get();
	assert(offset != 0 && offset % SC_BIN_STRIDE == 0);
	if (unlikely(!imalloc_try_enter(t))) {
		return imalloc_general(size);
	}
	int saved = errno;
	tcache_t *tc = t->tsd->tcache;
	unsigned slot = (unsigned)(offset >> SC_LG_BIN_STRIDE);
	/* At 0 or below a signal handler has allocated since imalloc_default() looked. */
	if (unlikely((int32_t)--tc->bins[slot].countdown <= 0)) {
		gate_exit(t);
		return imalloc_general(size);
	}
	void *p = imalloc_take(t->tsd, tc, NULL, slot);
	gate_exit_inline(t);
	errno = saved;
	/* The cache is still there: no hook but an extent hook has run, and that has no tsd. */
	return likely(p != NULL) ? arena_guard(p, tc->bins[slot].size, size)
	    : imalloc_general(size);
}

/* imalloc_body() for a bin of the thread's own cache. NULL: no memory; the request is uncounted. */
ALWAYS_INLINE void *
imalloc_bin_body(tsd_t *tsd, const imalloc_req_t *req, tcache_t *tc, unsigned slot) {
	size_t usize = tc->bins[slot].size;
	uint32_t n_ends = tsd->n_cache_ends;
	uint64_t interval = imalloc_draw(tsd, req->size, usize, tc, slot);
	if (imalloc_is_orphan(tsd, tc, n_ends)) {
		return imalloc_orphan(tsd, req, usize, true, interval);
	}
	if (interval == 0) {
		return imalloc_take(tsd, tc, NULL, slot);
	}
	void *p = usize >= SC_LARGE_MINCLASS
	    ? imalloc_sample_large(tsd, req, usize, tc, slot, interval)
	    : imalloc_sample(tsd, req, usize, tc, slot, interval);
	/* Here, not in imalloc_general(): that draws anew, and mostly makes no sample of it. */
	return likely(p != NULL) ? p : imalloc_relieved(tsd, req, usize, tc, slot, interval);
}

/* malloc(size) for imalloc_default() from the bin at this offset (bytes), whose countdown ends. */
static NOINLINE void *
imalloc_ended(size_t size, size_t offset) {
	struct tls_s *t = tls_get();
	assert(offset != 0 && offset % SC_BIN_STRIDE == 0);
	imalloc_req_t req = IMALLOC_REQ(size, 0, false, malloc);
	UNWIND_HERE(&req.where);
	if (unlikely(!imalloc_try_enter(t))) {
		return imalloc_general(size);
	}
	int saved = errno;
	tsd_t *tsd = t->tsd;
	unsigned slot = (unsigned)(offset >> SC_LG_BIN_STRIDE);
	void *p = imalloc_bin_body(tsd, &req, tsd->tcache, slot);
	if (likely(p != NULL)) {
		arena_guard(p, sz_i2s(slot - 1), size); /* a hook may have deleted the cache */
		imalloc_note_large(tsd, size);
	}
	/* No imalloc_write_gdump(): the next heartbeat or general request does that. */
	gate_exit_inline(t);
	errno = saved;
	return likely(p != NULL) ? p : imalloc_general(size);
}

/*
 * If the thread's fast path is open (so no junk, zeroing or exact count is due), caches may hold
 * the size and nothing else is due, then imalloc_refill() or imalloc_ended() serves the request,
 * shorter variants of imalloc_general(). If they find a closed gate, a recall or no memory, they
 * call imalloc_general() themselves, which serves the request anew; in all other cases this
 * function calls it.
 */
void *
imalloc_default(size_t size) {
	const struct tls_s *t = tls_get();
	if (unlikely(canary_padded(size) > tcache_max_default) || tls_cache_is_boot(t)
	    || imalloc_has_work(t)) {
		return imalloc_general(size);
	}
	size_t offset = imalloc_bin_offset(size);
	/*
	 * At 1 this request ends the countdown; at 0 the fast path has ended it for this request; one
	 * that has wrapped below zero is negative here.
	 */
	return likely((int32_t)fast_bin(offset)->countdown >= 2) ? imalloc_refill(size, offset)
	    : imalloc_ended(size, offset);
}

void *
imalloc_above(size_t size) {
	void *p;
	return likely(imalloc_above_try_fast(size, &p)) ? p : imalloc_default(size);
}

void *
icalloc_default(size_t num, size_t size) {
	size_t bytes;
	if (unlikely(__builtin_mul_overflow(num, size, &bytes))) {
		return imalloc_fail("calloc");
	}
	imalloc_req_t req = IMALLOC_REQ(bytes, 0, true, calloc);
	return imalloc(&req);
}

/* ------------------------------------------------------------------ release */

/* The index of the bin for an object in use that is freed; 0: the cache does not hold such ones. */
static unsigned
ifree_slot(const tcache_t *tc, uint64_t elem) {
	assert(elem_state(elem) == extent_state_active);
	const edata_t *e = elem_edata(elem);
	if (e->szind + 1u >= tc->nslots) {
		return 0;
	}
	if ((elem & ELEM_SLAB) == 0 && e->u.large_usize != sz_i2s(e->szind)) {
		return 0;
	}
	return e->szind + 1u;
}

/*
 * Ends the process: the program has passed a pointer that is no block in use. elem: its page-map
 * element; if_freed: the message if it is a free block. Returns 0 if safety_abort_hook returns.
 */
static COLD uint64_t
ifree_misused(const void *ptr, uint64_t elem, const char *if_freed) {
	bool is_inside = elem_state(elem) == extent_state_active && (elem & ELEM_SLAB) == 0
	    && ptr != elem_edata(elem)->u.large_start;
	safety_fail(elem_state(elem) == extent_state_none ? "free of a pointer that is no block"
	    : is_inside ? "pointer into a block" : if_freed);
	return 0;
}

uint64_t
ifree_elem(const void *ptr, const char *if_freed) {
	uint64_t elem = emap_elem_any(ptr);
	bool is_live = likely(elem_state(elem) == extent_state_active)
	    ? (elem & ELEM_SLAB) != 0 || arena_large_is_live(ptr, elem_edata(elem))
	    : shelter_owns(elem);
	if (unlikely(!is_live) || (deferred_has_any() && deferred_has(ptr))) {
		return ifree_misused(ptr, elem, if_freed);
	}
	if (config_hardening && !shelter_owns(elem) && (elem & ELEM_SLAB) != 0
	    && !canary_check(ptr, arena_usize(elem), elem_edata(elem), if_freed)) {
		return 0;
	}
	return elem;
}

/*
 * Counts usize bytes that were freed past the thread's cache. Without a tsd the count waits in the
 * TLS (early_bytes) for a tsd that is made later.
 */
static void
ifree_count_direct(tsd_t *tsd, size_t usize) {
	if (tsd == NULL) {
		tls_get()->early_bytes += usize;
		return;
	}
	tsd->direct_dalloc += usize;
}

/* Fills a freed object with JUNK_FREE_BYTE if the option asks for it. */
ALWAYS_INLINE void
ifree_junk(void *ptr, uint64_t elem) {
	if (unlikely(opt_junk_free) && config_fill) {
		memset(ptr, JUNK_FREE_BYTE, (elem & ELEM_SLAB) == 0 ? canary_large_size(elem_edata(elem))
		    : canary_room(arena_usize(elem)));
	}
}

/*
 * Ends the sample of a large object that the caller has claimed (arena_large_try_claim); the object
 * is then one like any other. Returns its record, for tcache_rec_put().
 */
ALWAYS_INLINE sample_rec_t *
ifree_end_large_sample(tsd_t *tsd, void *ptr, edata_t *e, size_t usize) {
	sample_rec_t *rec = e->recs;
	assert(!e->is_slab && rec != NULL);
	prof_sample_free(tsd, ptr, rec, usize);
	return arena_large_end_sampled(e);
}

/* Frees a small sampled object: it becomes a spare of the cache, or returns to its arena. */
static void
ifree_sampled(tsd_t *tsd, void *ptr, uint64_t elem, int tcache, size_t usize) {
	edata_t *e = elem_edata(elem);
	assert(e->is_sampled && e->is_slab && elem_state(elem) == extent_state_active);
	sample_rec_t *rec = arena_sample_rec(ptr, elem);
	if (unlikely(rec == NULL)) {
		arena_dalloc(ptr, elem); /* ends the process: no region begins at this address */
		return;
	}
	if (likely(rec->tctx != NULL)) {
		prof_sample_free(tsd, ptr, rec, usize);
	} else if (unlikely(rec->req_size == TCACHE_REC_IS_SPARE)) {
		safety_fail("double free");
		return;
	}
	canary_end(ptr, usize);
	ifree_junk(ptr, elem);
	tcache_t *tc = imalloc_cache(tsd, tcache, IMALLOC_ARENA_AUTO);
	if (tc == NULL || !tc->is_auto || !tcache_spare_try_put(&tc->spares, e, ptr, rec)) {
		arena_dalloc(ptr, elem);
	}
	ifree_count_direct(tsd, usize);
}

/* Puts an object into an explicit cache, with a note as imalloc_named(); counts it. */
static NOINLINE bool
ifree_try_put_named(tsd_t *tsd, tcache_t *tc, unsigned slot, void *obj, size_t usize) {
	tcache_note_t note = {tc, tsd->named};
	tsd->named = &note;
	bool is_put = tcache_try_put(tsd, tc, slot, obj);
	tsd->named = note.outer;
	tsd->direct_dalloc += is_put ? usize : 0;
	return is_put;
}

/* Puts an object of usize bytes into a cache; false: that has no room. */
ALWAYS_INLINE bool
ifree_try_put(tsd_t *tsd, tcache_t *tc, unsigned slot, void *obj, size_t usize) {
	return likely(tc->is_auto) ? tcache_try_put(tsd, tc, slot, obj)
	    : ifree_try_put_named(tsd, tc, slot, obj, usize);
}

void
ifree_in_gate(tsd_t *tsd, void *ptr, int tcache) {
	imalloc_assert_in_gate(tsd);
	assert(tcache >= IMALLOC_TCACHE_NONE);
	uint64_t elem = ifree_elem(ptr, "double free");
	if (unlikely(elem == 0)) {
		return;
	}
	if (unlikely(shelter_owns(elem))) {
		shelter_free(ptr);
		return;
	}
	edata_t *e = elem_edata(elem);
	bool is_large = (elem & ELEM_SLAB) == 0;
	if (is_large && unlikely(!arena_large_try_claim(e))) {
		safety_fail("double free"); /* another thread was faster */
		return;
	}
	if (config_hardening && is_large) {
		large_marks_check(e);
		large_marks_put(e); /* so that the next free may take the fast path */
	}
	size_t usize = arena_usize(elem);
	if (tsd != NULL && unlikely(tsd->is_counted)) {
		tsd->counted_dalloc += usize;
	}
	if (config_prof && unlikely((elem & ELEM_SAMPLED) != 0)) {
		if (!is_large) {
			ifree_sampled(tsd, ptr, elem, tcache, usize);
			return;
		}
		sample_rec_t *rec = ifree_end_large_sample(tsd, ptr, e, usize);
		tcache_rec_put(tsd == NULL || tsd->tcache == NULL ? NULL : &tsd->tcache->spares, rec);
		elem &= ~ELEM_SAMPLED;
	}
	if (!is_large) {
		canary_end(ptr, usize);
	}
	/* In hardened builds also what a thread without a cache frees: these are few. */
	bool may_quarantine = quarantine_is_on()
	    || (config_hardening && tsd != NULL && tsd->tcache == NULL && !is_large);
	if (may_quarantine && tsd != NULL && tcache == IMALLOC_TCACHE_AUTO
	    && quarantine_try_add(tsd, e, ptr, usize)) {
		ifree_count_direct(tsd, usize);
		return;
	}
	ifree_junk(ptr, elem);
	tcache_t *tc = imalloc_cache(tsd, tcache, IMALLOC_ARENA_AUTO);
	unsigned slot = tc == NULL ? 0 : ifree_slot(tc, elem);
	if (slot != 0 && ifree_try_put(tsd, tc, slot, is_large ? e : ptr, usize)) {
		return;
	}
	if (config_hardening && is_large && shut_try_keep(e)) {
		ifree_count_direct(tsd, usize);
		return;
	}
	arena_dalloc(ptr, elem);
	ifree_count_direct(tsd, usize);
}

/* Called by deferred_take_all() for each block whose free was deferred. */
static void
ifree_taken(void *ptr, void *tsd) {
	ifree_in_gate(tsd, ptr, IMALLOC_TCACHE_NONE);
}

/* Number of threads that are in imalloc_drain_deferred(). */
static atomic_u32_t imalloc_drains;

/*
 * Completes deferred frees, past this thread's cache because the user may destroy the arena of
 * these objects next. In a forked child also returns what one thread of the parent, which does not
 * exist here, had cached (tsd_try_end_absent).
 */
static void
imalloc_drain_deferred(tsd_t *tsd) {
	imalloc_assert_in_gate(tsd);
	atomic_fetch_add_u32(&imalloc_drains, 1, MO_SEQ_CST);
	deferred_take_all(ifree_taken, tsd);
	if (gate_has_absent()) {
		deferred_remind(); /* for the next absent thread */
		if (tsd != NULL) {
			tsd_try_end_absent();
		}
	}
	atomic_fetch_sub_u32(&imalloc_drains, 1, MO_RELEASE);
}

void
imalloc_settle_deferred(tsd_t *tsd) {
	/* Without a tsd the caller is a hook, perhaps inside a deferred free: waiting would not end. */
	if (tsd == NULL) {
		return;
	}
	/* Also if none is deferred: the call synchronizes with threads that took some out before. */
	imalloc_drain_deferred(tsd);
	for (unsigned round = 0; atomic_load_u32(&imalloc_drains, MO_ACQUIRE) != 0; round++) {
		os_pause(round);
	}
}

/*
 * The tsd for a free if the thread has none ready; NULL: the free is done without a tsd. The tsd
 * is made at once if the flags of the free name a cache or "no cache", or if the block is a sample
 * and the profiler records the free under the thread's name. Otherwise it is made only after some
 * frees (tsd_fetch_to_free): the block may be the TLS of another thread, which the C library frees
 * while this thread ends, after the destructor that would free the tsd.
 */
static NOINLINE tsd_t *
ifree_fetch_tsd(struct tls_s *t, const void *ptr, int tcache) {
	assert(gate_is_entered(t));
	bool is_plain = tcache == IMALLOC_TCACHE_AUTO
	    && ((emap_elem_any(ptr) & ELEM_SAMPLED) == 0 || !prof_free_names_thread());
	return is_plain ? tsd_fetch_to_free(t) : tsd_fetch_in_gate(t);
}

/*
 * Frees outside of the gate or in a handler, where locks may be held: a shelter block at once; any
 * other block is deferred, or stays allocated if there is no memory to note it.
 */
static void
ifree_outside(void *ptr) {
	uint64_t elem = ifree_elem(ptr, "double free");
	if (elem != 0 && shelter_owns(elem)) {
		shelter_free(ptr);
	} else if (elem != 0 && deferred_add(ptr) == EEXIST) {
		safety_fail("double free");
	}
}

void
ifree(void *ptr, int tcache, alloc_how_t how) {
	if (ptr == NULL) {
		return;
	}
	struct tls_s *t = tls_get();
	if (unlikely(imalloc_is_interrupted(t))) {
		ifree_outside(ptr);
		return;
	}
	/* Before the gate, and so also for a free that a closed gate defers (thread/alloc_hook.h). */
	if (alloc_hook_is_wanted(t)) {
		alloc_hook_dalloc(how, ptr, iusize(ptr));
	}
	if (unlikely(!gate_try_enter_any(t))) {
		ifree_outside(ptr);
		return;
	}
	int saved = errno;
	tsd_t *tsd = likely(tsd_is_ready(t)) ? t->tsd : ifree_fetch_tsd(t, ptr, tcache);
	if (deferred_has_any()) {
		imalloc_drain_deferred(tsd);
	}
	ifree_in_gate(tsd, ptr, tcache);
	gate_exit_inline(t);
	errno = saved;
}

/*
 * The counterpart of imalloc_refill(): makes room in the full bin at this offset (bytes), if
 * nothing else needs the slow path, and puts obj in: an object, or the descriptor of a large one
 * that the caller has claimed. Returns false if nothing has changed.
 */
static NOINLINE bool
ifree_try_overflow(void *obj, size_t offset) {
	assert(offset != 0);
	struct tls_s *t = tls_get();
	if (tls_cache_is_boot(t) || imalloc_has_work(t) || unlikely(!imalloc_try_enter(t))) {
		return false;
	}
	int saved = errno;
	unsigned slot = (unsigned)(offset >> SC_LG_BIN_STRIDE);
	bool is_done = tcache_try_put(t->tsd, t->tsd->tcache, slot, obj);
	gate_exit_inline(t);
	errno = saved;
	return is_done;
}

/* ifree_try_overflow() for a pointer whose page-map element has no bin: a large object, or none. */
static bool
ifree_large_try_overflow(void *ptr, uint64_t elem) {
	edata_t *e = elem_edata(elem);
	if ((elem & ELEM_LARGE) == 0 || !arena_large_is_live(ptr, e) || !arena_large_try_claim(e)) {
		return false;
	}
	if ((!config_hardening || large_is_marked(e)) && ifree_try_overflow(e, e->u.large_bin)) {
		return true;
	}
	arena_large_unclaim(e);
	return false;
}

/*
 * The counterpart of imalloc_ended(): frees a large sample of a class that caches hold, if nothing
 * else needs the slow path. Returns false if nothing has changed.
 */
static NOINLINE bool
ifree_try_large_sample(void *ptr, uint64_t elem) {
	struct tls_s *t = tls_get();
	edata_t *e = elem_edata(elem);
	if (e->u.large_bin == 0 || tls_cache_is_boot(t) || imalloc_has_work(t)
	    || unlikely(!imalloc_try_enter(t))) {
		return false;
	}
	bool is_claimed = ptr == e->u.large_start && arena_large_try_claim(e);
	if (likely(is_claimed)) {
		int saved = errno;
		size_t usize = e->u.large_usize;
		sample_rec_t *rec = ifree_end_large_sample(t->tsd, ptr, e, usize);
		tcache_t *tc = t->tsd->tcache; /* the user's hook may have ended it */
		tcache_rec_put(tc == NULL ? NULL : &tc->spares, rec);
		unsigned slot = e->u.large_bin >> SC_LG_BIN_STRIDE;
		if (unlikely(tc == NULL) || (unlikely(!cache_bin_try_push(&tc->bins[slot], e))
		    && !tcache_try_put(t->tsd, tc, slot, e))) {
			arena_dalloc(ptr, elem);
			ifree_count_direct(t->tsd, usize);
		}
		errno = saved;
	}
	gate_exit_inline(t);
	return is_claimed;
}

void
ifree_default(void *ptr) {
	uint64_t elem = emap_elem_any(ptr);
	size_t offset = elem >> ELEM_BIN_SHIFT;
	assert(ptr == NULL || offset % SC_BIN_STRIDE == 0);
	bool is_large_sample = config_prof && (elem & (ELEM_SAMPLED | ELEM_SLAB)) == ELEM_SAMPLED;
	bool is_done = offset != 0 ? !config_hardening && ifree_try_overflow(ptr, offset)
	    : unlikely(is_large_sample) ? !config_hardening && ifree_try_large_sample(ptr, elem)
	    : ifree_large_try_fast(ptr, elem) || ifree_large_try_overflow(ptr, elem);
	if (is_done) {
		return;
	}
	ifree(ptr, IMALLOC_TCACHE_AUTO, alloc_how_free);
}

/* A free object has a size too while its element says active; with canaries not a small one. */
size_t
iusize(const void *ptr) {
	uint64_t elem = emap_elem_any(ptr);
	if (unlikely(elem_state(elem) != extent_state_active)) {
		return shelter_owns(elem) ? shelter_usize(ptr) : 0;
	}
	return arena_usable(ptr, elem);
}
