/*
 * The core of malloc and free: the fast path, inline here, and the entries of the slow path.
 *
 * The fast path is the pop or push of one bin of the thread's cache, with the marks of a large
 * object, and canaries in builds with safety checks. Every other case (first call; empty or full
 * bin; end of the bin's countdown of pops, where a sample or the heartbeat, which is periodic work,
 * may be due; a size that is not cached; MALLOCX_* flags; options that change each call) is the
 * slow path, which enters the gate (os/gate.h) and finds the thread's tsd (its data, thread/tsd.h).
 * An allocation then runs imalloc_body(): it chooses the cache and its bin, counts the request, and
 * takes a sampled object, or one from the bin, or one from an arena. A free runs ifree_in_gate().
 * If fork has closed the gate, or a signal handler has interrupted its thread inside it, requests
 * are served by the shelter (a heap without locks), and frees of other blocks than its own are
 * deferred. The fast path takes no lock; the slow path holds none when it enters the gate. Callers:
 * the public functions (jemalloc.c, cxx.c, imalloc_flags.c); irealloc.c, which shares the part
 * marked below; ctl_experimental.c for batch_alloc, ctl_arena.c and ctl_prof.c to complete deferred
 * frees; stats.c and ctl_stats.c read imalloc_zero_reallocs().
 */
#pragma once

#include "arena/cache_bin.h"
#include "arena/canary.h"
#include "arena/large.h"
#include "icheck.h"
#include "meta/emap.h"
#include "meta/sz.h"
#include "os/gate.h"
#include "os/tls.h"
#include "prof/trigger/prof_auto.h"
#include "thread/alloc_hook.h"
#include "thread/tsd_types.h"
#include "unwind/unwind.h"

/* The options. opt_utrace and opt_debug_double_free_max_scan have no effect. */
extern bool opt_abort;         /* warnings at run time end the process */
extern const char *opt_junk;   /* "true", "false", "alloc", "free": sets the next two */
extern bool opt_junk_alloc;    /* new memory is filled with JUNK_ALLOC_BYTE */
extern bool opt_junk_free;     /* freed memory is filled with JUNK_FREE_BYTE (imalloc.c) */
extern bool opt_zero;          /* all new memory is zeroed */
extern bool opt_xmalloc;       /* a failed allocation ends the process */
extern bool opt_utrace;
extern unsigned opt_debug_double_free_max_scan;
extern bool opt_experimental_infallible_new; /* operator new aborts instead of throwing */

struct tcache_s;

/* realloc(p, 0): makes p a block of the least size, frees p, or ends the process. */
typedef enum {
	zero_realloc_alloc,
	zero_realloc_free,
	zero_realloc_abort
} zero_realloc_t;
extern zero_realloc_t opt_zero_realloc;
extern const char *const zero_realloc_names[]; /* by the enum, NULL at the end */

/*
 * Values in imalloc_req_t. `tcache`: the thread's own cache; no cache. `arena`: none is named, so
 * the thread's own, or from arenas_oversize_min bytes up the arena of oversized requests.
 */
#define IMALLOC_TCACHE_AUTO (-1)
#define IMALLOC_TCACHE_NONE (-2)
#define IMALLOC_ARENA_AUTO UINT_MAX

/* A request, filled in by the public functions. */
typedef struct imalloc_req_s {
	size_t size;        /* bytes */
	size_t alignment;   /* bytes, a power of two; 0: natural */
	bool zero;          /* the bytes must be zero */
	int tcache;         /* id of an explicit cache, or IMALLOC_TCACHE_* */
	unsigned arena;     /* index, or IMALLOC_ARENA_AUTO */
	alloc_how_t how;    /* the public function that was called */
	struct unwind_where_s where; /* caller of the public function; set by the functions below */
} imalloc_req_t;

/* Whether a block at ptr has the alignment of the request. */
ALWAYS_INLINE bool
imalloc_is_aligned(const void *ptr, const imalloc_req_t *req) {
	return req->alignment == 0 || is_aligned((uintptr_t)ptr, req->alignment);
}

/* Initializer of a request without flags. */
#define IMALLOC_REQ(sz, al, is_zero, name) \
	{.size = (sz), .alignment = (al), .zero = (is_zero), .tcache = IMALLOC_TCACHE_AUTO, \
	    .arena = IMALLOC_ARENA_AUTO, .how = alloc_how_##name}

/*
 * Allocates. Success keeps errno. Returns NULL, with errno ENOMEM, if the request is too large, or
 * there is no memory or no such arena; with xmalloc the process ends then.
 */
void *imalloc(imalloc_req_t *req);
/* For callers that report failure themselves: returns NULL without a message; may change errno. */
void *imalloc_quiet(imalloc_req_t *req);
/* Resizes ptr, which is not NULL. Returns NULL as imalloc() does; ptr stays valid then. */
void *irealloc(void *ptr, imalloc_req_t *req);
/*
 * Resizes in place, to a larger or smaller size: to at least req->size bytes, and if possible to
 * `extra` bytes more (at most SC_LARGE_MAXCLASS in all). Returns the usable size afterwards, in
 * bytes; it is the old one if nothing was possible.
 */
size_t ixalloc(void *ptr, imalloc_req_t *req, size_t extra);
/* Frees ptr, which may be NULL, and keeps errno. */
void ifree(void *ptr, int tcache, alloc_how_t how);
/*
 * The usable size of an object in bytes; 0 if the page map has none at ptr. A free object has its
 * size as long as the page map has it; but with canaries it is 0 for a small one that is free, and
 * for one that was requested with 0 bytes.
 */
size_t iusize(const void *ptr);

/* malloc(size) after the fast path has failed; errno as for imalloc(). */
void *imalloc_default(size_t size) NOINLINE;
/* calloc(). It takes the arguments unmultiplied, so that the caller has no product to keep. */
void *icalloc_default(size_t num, size_t size) NOINLINE;
/* free(ptr) after the fast path has failed; ptr may be NULL. Keeps errno. */
void ifree_default(void *ptr) NOINLINE;
/* Number of calls realloc(p, 0), p not NULL, so far. */
size_t imalloc_zero_reallocs(void);
/* Counts one. */
void imalloc_count_zero_realloc(void);
/*
 * Completes all deferred frees (thread/deferred.h), and waits for other threads that complete some.
 * No effect if tsd is NULL. The caller is inside the gate.
 */
void imalloc_settle_deferred(tsd_t *tsd);

/*
 * Sets errno to the error; with xmalloc ends the process with a message that names a function and
 * says why. Returns NULL. imalloc_fail(): for want of memory, ENOMEM.
 */
void *imalloc_refuse(const char *who, int error, const char *why) COLD;
void *imalloc_fail(const char *who) COLD;

/* malloc(), fast path too, of a size above IMALLOC_FAST_MAX; errno as for imalloc(). */
void *imalloc_above(size_t size) NOINLINE;
/* The fast path of imalloc_above(); results as of imalloc_try_fast(). */
bool imalloc_above_try_fast(size_t size, void **p);

/* ------------------------------------------------------------------ shared with irealloc.c */

/*
 * Parts of the slow path. All are called inside the gate with no lock held, except imalloc_usize()
 * and imalloc_is_interrupted(). tsd may be NULL: a thread that has none yet, or none any more.
 */

/* The byte with which new memory is filled if the option junk asks for it. */
#define JUNK_ALLOC_BYTE 0xa5

/*
 * The size of the region or of the large object that serves a request; 0: too large. The program
 * may use all of it, but with canaries only the requested size of a small one.
 */
static inline size_t
imalloc_usize(const imalloc_req_t *req) {
	return canary_usize(req->size, req->alignment);
}

/*
 * Whether a signal handler of the user interrupted its own thread inside the gate, where locks may
 * be held and a cache may be half changed, also in a thread that has no tsd yet or none any more.
 * False in extent hooks, and in the C library while the tsd is made: the library itself calls these
 * inside the gate, and they may allocate (t->state).
 */
static inline bool
imalloc_is_interrupted(const struct tls_s *t) {
	assert(t == tls_get());
	return gate_is_entered(t) && t->state != tsd_state_making && t->state != tsd_state_in_hook;
}

/* Asserts the precondition of the slow path's parts: inside the gate, with the thread's own tsd. */
static inline void
imalloc_assert_in_gate(const tsd_t *tsd UNUSED) {
	assert(gate_is_entered(tls_get()));
	assert(tsd == NULL || tsd->tls == tls_get());
}

/*
 * Allocates an object, with sampling and counts. usize: imalloc_usize(req), not 0; an object from a
 * cache has the size of its class, which may be larger. NULL: no memory, or no such arena.
 */
void *imalloc_body(tsd_t *tsd, const imalloc_req_t *req, size_t usize);

/*
 * Counts a request of size bytes, which no cache serves; usize: as imalloc_usize(). Returns 0, or
 * if it is to be a sample the mean distance of samples in bytes, by which it is weighed (1: it was
 * chosen for its size alone).
 */
uint64_t imalloc_draw_sample(tsd_t *tsd, size_t size, size_t usize);

/* After a request of size bytes was served: reports it to the profiler if that waits for such. */
void imalloc_note_large(tsd_t *tsd, size_t size);
/* The part of imalloc_write_gdump() that is not inline: writes, unless the call is nested. */
void imalloc_gdump(struct tls_s *t) COLD;
/*
 * Writes the profile of a new maximum of mapped memory that is due (prof_auto.h), if one is; at the
 * end of a request, inside the gate, when nothing of the thread's cache is in a register any more.
 */
ALWAYS_INLINE void
imalloc_write_gdump(struct tls_s *t) {
	if (config_prof && unlikely(atomic_load_b(&prof_gdump_is_due, MO_RELAXED))) {
		imalloc_gdump(t);
	}
}

/*
 * Counts usize bytes allocated past the cache, checks whether the heartbeat is due, and runs it
 * then. After a check the next few allocations past the cache skip it
 * (thread_event_direct_requests), because large requests may follow in quick succession.
 */
void imalloc_count_direct(tsd_t *tsd, size_t usize);

/*
 * The page-map element of a block in use, of an arena or the shelter. Any other pointer is misuse,
 * which ends the process; returns 0 if a test has set safety_abort_hook. Whether a small object of
 * an arena is in use is known only with canaries. if_freed: the message for a block that is free.
 * Does not touch the memory of a large object.
 */
uint64_t ifree_elem(const void *ptr, const char *if_freed);

/* Frees an object, or a block of the shelter. tcache: an id, IMALLOC_TCACHE_AUTO or _NONE. */
void ifree_in_gate(tsd_t *tsd, void *ptr, int tcache);

/* ------------------------------------------------------------------ the fast path */

/* The bin at an offset (bytes) in the thread's cache, or in the boot block (os/tls.h) if none. */
ALWAYS_INLINE cache_bin_t *
fast_bin(size_t offset) {
	assert(offset % SC_BIN_STRIDE == 0 && offset < TLS_BOOT_CACHE_BYTES);
	char *cache = __atomic_load_n((char **)&tls_get()->cache, __ATOMIC_RELAXED);
	return (cache_bin_t *)(cache + offset);
}

/* The greatest request, in bytes, whose bin is found by the table (sc_bin_offset). */
#define IMALLOC_FAST_MAX (SC_LOOKUP_MAX - CANARY_BYTES)

/*
 * As imalloc_try_fast(), but from the class of a request of of_class bytes, which are at least
 * `size`. True: *b is the object's bin, and (*b)->size the size of its class.
 */
ALWAYS_INLINE bool
imalloc_try_bin(size_t size, size_t of_class, void **p, cache_bin_t **b) {
	return likely(of_class <= IMALLOC_FAST_MAX)
	    && likely(cache_bin_try_pop(*b = fast_bin(sc_bin_offset(of_class + CANARY_BYTES)), p))
	    && canary_did_put(*p, (*b)->size, size);
}

/*
 * Sets *p to an object for a request of size bytes. Returns false if the slow path is needed. The
 * caller must then pass this request on to it, because the bin's countdown may have counted it as
 * its last, and only the slow path starts the next one (cache_bin_try_pop).
 */
ALWAYS_INLINE bool
imalloc_try_fast(size_t size, void **p) {
	cache_bin_t *b;
	return imalloc_try_bin(size, size, p, &b);
}

/*
 * As imalloc_try_fast() for an alignment, a power of two: an object of the class of the size
 * rounded up to the alignment is aligned. Returns false for size 0.
 */
ALWAYS_INLINE bool
imalloc_aligned_try_fast(size_t size, size_t alignment, void **p) {
	assert(is_pow2_zu(alignment));
	cache_bin_t *b;
	return likely(size - 1 < SC_LOOKUP_MAX) && likely(alignment <= SC_LOOKUP_MAX)
	    && imalloc_try_bin(size, align_up(size + CANARY_BYTES, alignment) - CANARY_BYTES, p, &b);
}

/*
 * Counts a cacheable object that realloc leaves in place as freed and allocated again: `popped` is
 * a part of both thread.allocated and thread.deallocated. offset: of its bin, bytes. Returns false
 * if the slow path is needed: bins of the boot block have size 0.
 */
ALWAYS_INLINE bool
irealloc_try_count_fast(size_t offset) {
	assert(offset != 0);
	size_t usize = fast_bin(offset)->size;
	if (unlikely(usize == 0)) {
		return false;
	}
	tls_get()->tsd->popped += usize;
	return true;
}

/* ifree_try_fast() for a pointer whose page-map element has no bin: a large object, or none. */
ALWAYS_INLINE bool
ifree_large_try_fast(void *ptr, uint64_t elem) {
	if ((elem & ELEM_LARGE) == 0) {
		return false;
	}
	edata_t *e = elem_edata_large(elem);
	if (unlikely(ptr != e->u.large_start) || unlikely(!arena_large_try_claim(e))) {
		return false;
	}
	if ((!config_hardening || large_is_marked(e))
	    && likely(cache_bin_try_push(fast_bin(e->u.large_bin), e))) {
		return true;
	}
	arena_large_unclaim(e); /* the slow path finds it as it was */
	return false;
}

/*
 * Frees ptr by a push onto its bin. Returns false, with nothing changed, if the slow path is
 * needed, also for NULL and foreign pointers. Of the page-map element only the bin's offset is read
 * first, because small objects are freed in fewer instructions then. It is 0 for all others (large,
 * sampled, none), and the bin at offset 0 is always full. A signal handler must not allocate or
 * free in the midst of this function (POSIX forbids it): nothing notices that here, and an object
 * could be handed out twice.
 */
ALWAYS_INLINE bool
ifree_try_fast(void *ptr) {
	emap_place_t place;
	if (unlikely(!emap_find(ptr, &place))) {
		return false;
	}
	size_t bin = emap_bin_at(&place);
	cache_bin_t *b = fast_bin(bin);
	if (config_hardening && bin != 0) {
		edata_t *e = elem_edata(emap_elem_at(&place));
		if (b->head == b->full || b->size == 0
		    || unlikely(!canary_is_intact(ptr, b->size, e))) {
			return false;
		}
		canary_end(ptr, b->size);
	}
	if (likely(cache_bin_try_push(b, ptr))) {
		return true;
	}
	OPAQUE(place.at); /* so that the element's address is computed again, not kept */
	return ifree_large_try_fast(ptr, emap_elem_at(&place));
}

/*
 * Frees ptr by a push onto the bin of the size: bytes as requested, rounded up to the alignment if
 * there was one. The size is not checked; builds that check it, or have canaries, have no fast path
 * here (ICHECK_IS_STRICT). Returns false if the slow path is needed, also for NULL, because
 * arena_may_be_sampled(NULL) is true.
 */
ALWAYS_INLINE bool
ifree_sized_try_fast(void *ptr, size_t size) {
	return likely(size <= SC_LOOKUP_MAX) && !ICHECK_IS_STRICT
	    && likely(!arena_may_be_sampled(ptr))
	    && likely(cache_bin_try_push(fast_bin(sc_bin_offset(size)), ptr));
}
