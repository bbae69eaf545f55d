/*
 * Checks of the size at a sized free, and of whether a pointer is a block in use (icheck.h). A
 * block counts as free if the page map, the bitmap of its slab, the descriptor of a large one, the
 * table of deferred frees, its record as a spare (tcache_spare.h), or this thread's cache or
 * quarantine says so. In hardened builds canaries replace record, cache and quarantine.
 *
 * Invariant: a check changes nothing; an error ends the process (safety_fail()). Locks: none are
 * taken, so a check may miss an error, but does not report a correct call. Called by
 * irealloc.c, imalloc_flags.c and jemalloc.c.
 */
#include "icheck.h"

#include "arena/arena.h"
#include "arena/large.h"
#include "arena/safety.h"
#include "os/gate.h"
#include "os/tls.h"
#include "thread/claim.h"
#include "thread/deferred.h"
#include "thread/quarantine.h"
#include "thread/shelter.h"
#include "thread/tcache.h"

/*
 * Whether a request of this size and alignment gets a block of `usable` usable bytes: its own
 * usable size, or that of its class if the block passed through a cache. With canaries the usable
 * size of a small request is the requested size itself.
 */
static bool
size_fits(size_t size, size_t alignment, size_t usable) {
	assert(usable > 0);
	if (config_hardening && usable <= SC_SMALL_MAXCLASS) {
		return usable == size;
	}
	size_t wanted = canary_usize(size, alignment);
	return wanted == usable || (wanted != 0 && sz_i2s(sz_s2i(wanted)) == usable);
}

void
icheck_size(const void *ptr, size_t size, size_t alignment) {
	uint64_t elem = ptr == NULL ? 0 : emap_elem_any(ptr);
	size_t usize = 0;
	if (elem_state(elem) == extent_state_active) {
		usize = arena_usable(ptr, elem);
	} else if (shelter_owns(elem)) {
		usize = shelter_usize(ptr);
	}
	/* If ptr is not a block the free itself reports it. */
	if (usize != 0 && unlikely(!size_fits(size, alignment, usize))) {
		safety_fail("size of a sized free is not that of the block");
	}
}

/*
 * Whether the object is in this thread's cache or quarantine. False without a check inside the
 * gate (a signal handler or a hook), where the cache may be half changed; and while another thread
 * takes over the cache, as what it has taken may be in use again.
 */
static bool
is_cached_here(const void *ptr, const edata_t *e) {
	struct tls_s *t = tls_get();
	if (t->tsd == NULL || gate_is_entered(t)) {
		return false;
	}
	const tsd_t *tsd = t->tsd;
	bool has_cache = tsd->tcache != NULL && !claim_is_taking(tsd);
	return (has_cache && tcache_has(tsd->tcache, e->szind + 1u, ptr)) || quarantine_has(tsd, ptr);
}

/* Whether the region of an active slab is in use, as far as this thread can see. */
static bool
small_is_live(const void *ptr, uint64_t elem) {
	const edata_t *e = elem_edata(elem);
	if (!slab_is_taken(e, ptr)) {
		return false;
	}
	if (config_hardening) {
		return canary_is_intact(ptr, arena_usize(elem), e);
	}
	const sample_rec_t *rec = arena_sample_rec(ptr, elem);
	return rec != NULL ? rec->req_size != TCACHE_REC_IS_SPARE : !is_cached_here(ptr, e);
}

/*
 * Whether the large object is in use. A hook of the user (tls_s.inside) is told of the end of a
 * sample when the object is already marked as freed, and may still ask for its size then.
 */
static bool
large_is_live(const void *ptr, const edata_t *e) {
	return arena_large_is_live(ptr, e) || (tls_get()->inside > 0 && ptr == e->u.large_start);
}

/* Whether ptr is a block in use, as far as icheck_live() looks. */
static bool
is_live(const void *ptr) {
	uint64_t elem = emap_elem_any(ptr);
	if (elem_state(elem) != extent_state_active) {
		bool is_foreign = elem_state(elem) == extent_state_none;
		return is_foreign ? !ICHECK_IS_STRICT : shelter_owns(elem) && shelter_is_live(ptr);
	}
	if (deferred_has_any() && deferred_has(ptr)) {
		return false;
	}
	return (elem & ELEM_SLAB) == 0 ? large_is_live(ptr, elem_edata(elem))
	    : !ICHECK_IS_STRICT || small_is_live(ptr, elem);
}

void
icheck_live(const void *ptr) {
	if (ptr != NULL && unlikely(!is_live(ptr))) {
		safety_fail("size of what is no block in use was asked for");
	}
}
