/*
 * Resizing: realloc, rallocx and xallocx.
 * A block stays where it is if its address has the alignment asked for, and its usable size is
 * already right, or it is large and its extent can grow or shrink. Otherwise, but not in xallocx,
 * its pages, if it is a large one that grows, or its contents move to a new block. Invariant: if a
 * call fails, the old block is unchanged. No lock is held here. A call enters the gate (os/gate.h)
 * once, and after a long copy, which is made outside, again to free the old block. If the gate is
 * closed, or in a signal handler that interrupted its thread inside it, a call is a separate
 * allocation, copy and free (irealloc_in_steps), and xallocx changes nothing. With allocation hooks
 * a block that moves is served by these steps too. A tsd may be NULL. Called by jemalloc.c.
 */
#include "imalloc.h"

#include "arena/arenas.h"
#include "meta/recs.h"
#include "prof/prof.h"
#include "thread/shelter.h"
#include "thread/tsd.h"

/* Most bytes that are copied inside the gate, because a fork waits for those who are inside. */
#define COPY_INSIDE_MAX ((size_t)1 << 20)

/*
 * The page-map element of a block to be resized; 0: it is no block in use, and safety_abort_hook is
 * set (without it the process ends). In hardened builds the marks of a large one are checked too.
 */
static uint64_t
irealloc_elem(const void *ptr) {
	uint64_t elem = ifree_elem(ptr, "resize of a freed block");
	if (config_hardening && elem_state(elem) == extent_state_active && (elem & ELEM_SLAB) == 0) {
		large_marks_check(elem_edata(elem));
	}
	return elem;
}

/*
 * Reports a large object, e, that was resized in place, or moved with its pages from `was`, to the
 * profiler as one that was freed and allocated: the sample of the old object ends, and whether
 * the new object is a sample is drawn independently. This keeps estimates unbiased over any chain
 * of resizes: an object of z bytes is a sample with probability p = 1 - exp(-z/R), where R is the
 * mean distance of samples in bytes, and it is weighed by 1/p.
 * Cumulative counts contain every size of the chain as an allocation. rec: record of the old
 * object, NULL: it was no sample; old: its usable size in bytes; size: bytes of the request as the
 * profiler counts them. Without memory for a record the new object is no sample.
 */
static void
irealloc_sample_in_place(tsd_t *tsd, const imalloc_req_t *req, const void *was, edata_t *e,
    sample_rec_t *rec, size_t old, size_t size) {
	imalloc_assert_in_gate(tsd);
	void *ptr = e->u.large_start;
	size_t usize = canary_large_size(e);
	assert(e == emap_edata(ptr) && usize == iusize(ptr));
	if (rec != NULL) {
		prof_sample_free(tsd, was, rec, old);
	}
	uint64_t interval = imalloc_draw_sample(tsd, size, usize);
	if (interval == 0) {
		if (rec != NULL) {
			recs_free(arena_large_end_sampled(e), 1);
		}
		return;
	}
	if (rec == NULL) {
		rec = arena_large_make_sampled(e, recs_alloc(1));
	}
	if (rec != NULL) {
		tsd->tls->inside++;
		prof_sample_alloc(tsd, ptr, rec, interval, size, usize, &req->where);
		tsd->tls->inside--;
	}
}

/* Counts a resize without a copy, from old to usize usable bytes, as a free and an allocation. */
static void
irealloc_count(tsd_t *tsd, size_t old, size_t usize) {
	assert(old != usize);
	if (tsd != NULL) {
		tsd->direct_dalloc += old;
		tsd->counted_dalloc += old;
		tsd->counted_alloc += usize;
		imalloc_count_direct(tsd, usize);
	}
}

/* Counts a resize to the same usable size; thread.allocated and .deallocated contain `popped`. */
static void
irealloc_count_same(tsd_t *tsd, size_t usize) {
	if (tsd != NULL) {
		tsd->popped += usize;
		tsd->counted_alloc += usize;
		tsd->counted_dalloc += usize;
	}
}

/*
 * Resizes a large object in place to usize_max usable bytes, or else to usize_min; an object that
 * cannot grow but has usize_min or more stays as it is (true). Returns false, with nothing changed,
 * if that is not possible. For the profiler the object has the size of the request, or its usable
 * size if that exceeds usize_min.
 */
static bool
irealloc_try_in_place(tsd_t *tsd, void *ptr, uint64_t elem, const imalloc_req_t *req,
    size_t usize_min, size_t usize_max) {
	assert(usize_min > 0 && usize_min <= usize_max);
	if ((elem & ELEM_SLAB) != 0 || usize_min < SC_LARGE_MINCLASS) {
		return false;
	}
	edata_t *e = elem_edata(elem);
	size_t old = e->u.large_usize, old_usable = canary_large_size(e);
	if (arena_large_resize(e, usize_min, usize_max, req->zero || opt_zero,
	    req->how == alloc_how_xallocx) != 0) {
		return false;
	}
	size_t usize = e->u.large_usize;
	if (usize > old && opt_junk_alloc && config_fill && !req->zero && !opt_zero) {
		memset((char *)ptr + old_usable, JUNK_ALLOC_BYTE, usize - old_usable);
	}
	if (usize != old) {
		sample_rec_t *rec = config_prof ? e->recs : NULL;
		size_t size = usize > usize_min ? usize : req->size;
		irealloc_sample_in_place(tsd, req, ptr, e, rec, old, size);
		irealloc_count(tsd, old, usize);
	}
	return true;
}

/*
 * Lets a large object grow by moving its pages, without a copy, in its arena. NULL: that is not
 * possible or not worth it; nothing has changed.
 */
static void *
irealloc_try_move(tsd_t *tsd, void *ptr, uint64_t elem, const imalloc_req_t *req, size_t usize) {
	if ((elem & ELEM_SLAB) != 0 || usize < SC_LARGE_MINCLASS
	    || req->arena != IMALLOC_ARENA_AUTO || req->alignment > CACHELINE) {
		return NULL;
	}
	edata_t *e = elem_edata(elem);
	size_t old = e->u.large_usize;
	sample_rec_t *rec = config_prof ? e->recs : NULL;
	usize = PAGE_CEILING(usize);
	bool zero = req->zero || opt_zero;
	void *p = usize > old ? arena_large_try_move(e, usize, zero) : NULL;
	if (p == NULL) {
		return NULL;
	}
	if (opt_junk_alloc && config_fill && !zero) {
		memset((char *)p + old, JUNK_ALLOC_BYTE, usize - old);
	}
	irealloc_sample_in_place(tsd, req, ptr, emap_edata(p), rec, old, req->size);
	irealloc_count(tsd, old, usize);
	imalloc_note_large(tsd, req->size);
	return p;
}

/*
 * Copies a block of `old` usable bytes to a new one, and frees it. If that is much to copy, *later
 * is set to the number of bytes, and the caller calls irealloc_copy() outside the gate. Where it
 * cannot leave the gate (a nested call, as in an extent hook) all is done here. NULL: as
 * imalloc_body().
 */
static void *
irealloc_by_moving(tsd_t *tsd, void *ptr, size_t old, const imalloc_req_t *req, size_t usize,
    size_t *later) {
	imalloc_req_t fresh = *req;
	size_t copied = min_zu(old, req->size);
	assert(usize >= req->size && copied <= usize);
	/*
	 * A larger block is requested as zero: new pages are zero already. Otherwise only the bytes
	 * behind the copied ones are zeroed, up to the usable size.
	 */
	fresh.zero = req->zero && sz_i2s(sz_s2i(usize)) > old;
	void *p = imalloc_body(tsd, &fresh, usize);
	if (p == NULL) {
		return NULL;
	}
	if (req->zero && !fresh.zero) {
		memset((char *)p + copied, 0, iusize(p) - copied);
	}
	if (unlikely(copied > COPY_INSIDE_MAX) && tls_get()->gate_depth == 1) {
		*later = copied;
	} else {
		memcpy(p, ptr, copied);
		ifree_in_gate(tsd, ptr, req->tcache);
	}
	imalloc_note_large(tsd, req->size);
	return p;
}

/*
 * With canaries: makes an object in use, of usize bytes, one that serves a request of size bytes.
 * Bytes that become usable are zeroed or filled with junk as the request and the options say.
 */
ALWAYS_INLINE void
irealloc_guarded(char *ptr, uint64_t elem, size_t usize, size_t size, bool zero) {
	if (!config_hardening) {
		return;
	}
	size_t old = arena_usable(ptr, elem), n = canary_usable(size, usize);
	if (n > old && (zero || opt_zero)) {
		memset(ptr + old, 0, n - old);
	} else if (n > old && opt_junk_alloc && config_fill) {
		memset(ptr + old, JUNK_ALLOC_BYTE, n - old);
	}
	if ((elem & ELEM_SLAB) == 0) {
		elem_edata(elem)->large_request = 0;
	}
	arena_guard(ptr, usize, size);
}

/*
 * With canaries: makes the usable size of an object, which may shrink, `most` bytes or what its
 * place allows, if a request of that size has the object's class and is not below req->size. For a
 * small request it is req->size, without the extra, because a sized free may name that size, and is
 * checked against the usable size exactly (icheck.c).
 */
static void
irealloc_guarded_most(void *ptr, uint64_t elem, const imalloc_req_t *req, size_t most) {
	size_t usize = arena_usize(elem);
	size_t n = req->size <= SC_SMALL_MAXCLASS ? req->size : min_zu(most, usize);
	if (n >= req->size && canary_usize(n, req->alignment) == usize) {
		irealloc_guarded(ptr, elem, usize, n, req->zero);
	}
}

/*
 * Resizes an arena's block without moving it; usize: imalloc_usize() of the request. Returns false
 * if it has to move; nothing changed then.
 */
ALWAYS_INLINE bool
irealloc_try_stay(tsd_t *tsd, void *ptr, uint64_t elem, const imalloc_req_t *req, size_t usize) {
	imalloc_assert_in_gate(tsd);
	assert(usize >= req->size);
	size_t old = arena_usize(elem);
	/* The arena of the request is ignored if the block stays, but it must exist. */
	bool has_arena = likely(req->arena == IMALLOC_ARENA_AUTO)
	    || arenas_get_or_init(req->arena) != NULL;
	if (!imalloc_is_aligned(ptr, req) || !has_arena || (usize != old
	    && !irealloc_try_in_place(tsd, ptr, elem, req, usize, usize))) {
		return false;
	}
	irealloc_guarded(ptr, elem, usize, req->size, req->zero);
	if (usize == old) {
		irealloc_count_same(tsd, old);
	} else if (usize > old) {
		imalloc_note_large(tsd, req->size);
	}
	return true;
}

/*
 * Resizes inside the gate, but see irealloc_by_moving() for *later. NULL: no memory, no such arena,
 * too large, or no block; ptr stays.
 */
static void *
irealloc_in_gate(struct tls_s *t, void *ptr, const imalloc_req_t *req, size_t *later) {
	assert(t == tls_get() && gate_is_entered(t));
	tsd_t *tsd = tsd_fetch_in_gate(t);
	uint64_t elem = irealloc_elem(ptr);
	size_t usize = imalloc_usize(req);
	if (usize == 0 || elem == 0) {
		return NULL;
	}
	if (shelter_owns(elem)) {
		return irealloc_by_moving(tsd, ptr, shelter_usize(ptr), req, usize, later);
	}
	size_t old = arena_usize(elem);
	void *p = irealloc_try_stay(tsd, ptr, elem, req, usize) ? ptr
	    : irealloc_try_move(tsd, ptr, elem, req, usize);
	if (p != NULL) {
		return p;
	}
	p = irealloc_by_moving(tsd, ptr, arena_usable(ptr, elem), req, usize, later);
	if (p != NULL && usize > old && usize >= SC_LARGE_MINCLASS) {
		arena_large_note_grown(p, usize);
	}
	return p;
}

/* Copies so many bytes to the new block p, and frees ptr. */
static void
irealloc_copy(void *p, void *ptr, size_t bytes, const imalloc_req_t *req) {
	memcpy(p, ptr, bytes);
	ifree(ptr, req->tcache, req->how);
}

/*
 * Resizes a block of `old` usable bytes by an allocation and a free, each a complete operation of
 * its own: at a closed gate, in a signal handler that interrupted its thread inside the gate, and
 * with allocation hooks. NULL: as imalloc(); ptr stays as it was.
 */
static void *
irealloc_in_steps(void *ptr, size_t old, imalloc_req_t *req) {
	void *p = imalloc(req);
	if (p != NULL) {
		irealloc_copy(p, ptr, min_zu(old, req->size), req);
	}
	return p;
}

/*
 * Resizes where allocation hooks (thread/alloc_hook.h) are installed: a block that moves is
 * reported as freed before another thread can get its address. NULL: as imalloc().
 */
static NOINLINE void *
irealloc_shown(struct tls_s *t, void *ptr, imalloc_req_t *req) {
	assert(!gate_is_entered(t));
	bool stays = false;
	size_t old = iusize(ptr), usize = imalloc_usize(req);
	if (usize != 0 && gate_try_enter(t)) {
		tsd_t *tsd = tsd_fetch_in_gate(t);
		uint64_t elem = irealloc_elem(ptr);
		stays = elem != 0 && !shelter_owns(elem)
		    && irealloc_try_stay(tsd, ptr, elem, req, usize);
		imalloc_write_gdump(t);
		gate_exit(t);
	}
	if (!stays) {
		return irealloc_in_steps(ptr, old, req);
	}
	usize = canary_usable(req->size, usize);
	if (usize != old) {
		alloc_hook_expand(req->how, ptr, old, usize, req->size, req->alignment, req->zero);
	}
	return ptr;
}

void *
irealloc(void *ptr, imalloc_req_t *req) {
	struct tls_s *t = tls_get();
	int saved = errno;
	UNWIND_HERE(&req->where);
	if (alloc_hook_is_wanted(t) && emap_elem_any(ptr) != 0) {
		void *p = irealloc_shown(t, ptr, req);
		errno = p != NULL ? saved : errno;
		return p;
	}
	if (unlikely(imalloc_is_interrupted(t)) || unlikely(!gate_try_enter(t))) {
		return irealloc_in_steps(ptr, iusize(ptr), req);
	}
	size_t later = 0;
	void *p = irealloc_in_gate(t, ptr, req, &later);
	imalloc_write_gdump(t);
	gate_exit(t);
	if (p == NULL) {
		return imalloc_fail(alloc_how_names[req->how]);
	}
	if (unlikely(later != 0)) {
		irealloc_copy(p, ptr, later, req);
	}
	errno = saved;
	return p;
}

size_t
ixalloc(void *ptr, imalloc_req_t *req, size_t extra) {
	struct tls_s *t = tls_get();
	int saved = errno;
	UNWIND_HERE(&req->where);
	if (unlikely(imalloc_is_interrupted(t)) || unlikely(!gate_try_enter(t))) {
		icheck_live(ptr);
		return iusize(ptr); /* unchanged: growing could have to wait for the fork */
	}
	tsd_t *tsd = tsd_fetch_in_gate(t);
	uint64_t elem = irealloc_elem(ptr);
	if (elem == 0 || shelter_owns(elem)) {
		gate_exit(t);
		return elem == 0 ? 0 : shelter_usize(ptr);
	}
	size_t old = iusize(ptr);
	size_t most = extra > SC_LARGE_MAXCLASS - min_zu(req->size, SC_LARGE_MAXCLASS)
	    ? SC_LARGE_MAXCLASS : req->size + extra;
	imalloc_req_t upper = *req;
	upper.size = most;
	size_t usize_min = imalloc_usize(req);
	size_t usize_max = imalloc_usize(&upper);
	bool may_resize = imalloc_is_aligned(ptr, req);
	assert(most >= req->size || req->size > SC_LARGE_MAXCLASS);
	if (may_resize && usize_min != 0 && usize_max >= usize_min) {
		irealloc_try_in_place(tsd, ptr, elem, req, usize_min, usize_max);
	}
	if (config_hardening && may_resize) {
		irealloc_guarded_most(ptr, elem, req, most);
	}
	size_t usize = iusize(ptr);
	assert(usize >= old || usize >= req->size);
	if (usize > old) {
		imalloc_note_large(tsd, usize > usize_min ? usize : req->size);
	}
	imalloc_write_gdump(t);
	gate_exit(t);
	if (usize != old && alloc_hook_is_wanted(t)) {
		alloc_hook_expand(req->how, ptr, old, usize, req->size, req->alignment, req->zero);
	}
	errno = saved;
	return usize;
}
