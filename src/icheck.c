/* The looks at blocks that a program names. */
#include "icheck.h"

#include "arena/arena.h"
#include "arena/safety.h"
#include "os/gate.h"
#include "os/tls.h"
#include "thread/deferred.h"
#include "thread/quarantine.h"
#include "thread/shelter.h"
#include "thread/tcache.h"

/* A block that may be cached has the size of its whole class. */
static bool
size_fits(size_t size, size_t alignment, size_t usize) {
	size_t wanted = alignment == 0 ? sz_s2u(size) : sz_sa2u(size, alignment);
	return wanted == usize || (wanted != 0 && sz_i2s(sz_s2i(wanted)) == usize);
}

void
icheck_size(const void *ptr, size_t size, size_t alignment) {
	uint64_t elem = ptr == NULL ? 0 : emap_elem_any(ptr);
	size_t usize = 0;
	if (elem_state(elem) == extent_state_active) {
		usize = arena_usize(ptr, elem);
	} else if (shelter_owns(elem)) {
		usize = shelter_usize(ptr);
	}
	/* What is no block is found out by the free. */
	if (usize != 0 && unlikely(!size_fits(size, alignment, usize))) {
		safety_fail("size of a sized free is not that of the block");
	}
}

/* A region of e that is taken, as far as the bitmap knows; its owner's bit does not change while others' do. */
static NO_SANITIZE_THREAD bool
region_is_taken(const edata_t *e, const void *ptr) {
	const bin_info_t *info = slab_info(e);
	size_t off = (size_t)((const char *)ptr - e->addr), r = off / info->reg_size;
	return off % info->reg_size == 0 && r < info->nregs
	    && ((__atomic_load_n(&e->bits[r / FB_WORD_BITS], __ATOMIC_RELAXED) >> (r % FB_WORD_BITS)) & 1) == 0;
}

/* It waits in this thread's cache, or in what stands beside it.  Interrupted in the midst of a change, there is no look. */
static bool
is_cached_here(const void *ptr, const edata_t *e) {
	struct tls_s *t = tls_get();
	if (t->tsd == NULL || gate_is_entered(t)) {
		return false;
	}
	const tsd_t *tsd = t->tsd;
	return (tsd->tcache != NULL && tcache_has(tsd->tcache, e->szind + 1u, ptr)) || quarantine_has(tsd, ptr);
}

static bool
is_live(const void *ptr) {
	uint64_t elem = emap_elem_any(ptr);
	const edata_t *e = elem_edata(elem);
	if (elem_state(elem) != extent_state_active) {
		return shelter_owns(elem) && shelter_usize(ptr) != 0;
	}
	if (deferred_has(ptr)) {
		return false;
	}
	if ((elem & ELEM_SLAB) == 0 ? ptr != e->u.large_start : !region_is_taken(e, ptr)) {
		return false;
	}
	const sample_rec_t *rec = arena_sample_rec(ptr, elem);
	return rec != NULL ? rec->req_size != TCACHE_REC_IS_SPARE : !is_cached_here(ptr, e);
}

void
icheck_live(const void *ptr) {
	if (ptr != NULL && unlikely(!is_live(ptr))) {
		safety_fail("size of what is no block in use was asked for");
	}
}
