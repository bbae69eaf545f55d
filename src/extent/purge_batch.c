/*
 * Collects extents in a chain and purges them with one system call, process_madvise(2).
 * purge_batch.h has the contract. Invariant: an extent of the chain is active, and its is_zeroed is
 * false; the flush puts it into the retained cache, purged or not. Arenas with hooks of the user
 * use no batch, because the system call would bypass the hooks. No lock of its own: the caller
 * holds the mutex of the decay. Called by pac_purge.c and pac_step.c.
 */
#include "extent/purge_batch.h"

#include <sys/uio.h>

void
purge_batch_init(purge_batch_t *b, extent_src_t *src, ecache_t *retained) {
	assert(opt_process_madvise_max_batch <= PAGES_BATCH_MAX);
	*b = (purge_batch_t){.src = src, .retained = retained};
}

bool
purge_batch_try_add(purge_batch_t *b, edata_t *e) {
	if (opt_process_madvise_max_batch == 0) {
		return false;
	}
	assert(e->state == extent_state_active && !e->is_slab && b->n < opt_process_madvise_max_batch);
	e->heap.next = b->first == NULL ? NULL : &b->first->heap;
	b->first = e;
	b->ntaken++;
	if (++b->n == opt_process_madvise_max_batch) {
		purge_batch_flush(b);
	}
	return true;
}

/*
 * Purges the chain with one system call, whose array of ranges is made here. Returns 0 if all pages
 * were purged, else an errno value.
 */
static int
purge_together(const purge_batch_t *b) {
	struct iovec ranges[PAGES_BATCH_MAX];
	unsigned n = 0;
	for (edata_t *e = b->first; e != NULL; e = e->heap.next == NULL ? NULL
	    : edata_of_heap(e->heap.next)) {
		ranges[n++] = (struct iovec){e->addr, e->size};
	}
	assert(n == b->n);
	return pages_purge_forced_many(ranges, n);
}

void
purge_batch_flush(purge_batch_t *b) {
	/* A single extent is purged by madvise(2), as without a batch. */
	bool is_done = b->n > 1 && purge_together(b) == 0;
	b->ncalls += is_done ? 1 : b->n; /* a joint call that was refused is not counted */
	while (b->first != NULL) {
		edata_t *e = b->first;
		b->first = e->heap.next == NULL ? NULL : edata_of_heap(e->heap.next);
		if (is_done || ehooks_purge_forced(&b->src->ehooks, e->addr, e->size) == 0) {
			e->is_zeroed = true;
		}
		ecache_put(b->src, b->retained, e);
	}
	b->n = 0;
}
