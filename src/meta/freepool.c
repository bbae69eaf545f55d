/*
 * Allocates from free lists by size class, whose links are stored in the free pieces, then from the
 * base of the process (b0); larger pieces are mapped directly. freepool.h has the contract.
 * meta.mtx protects the lists and counters. It is held while base hands out a new piece, but not
 * while pages of large pieces are mapped or unmapped. Called by the arena, extent and thread
 * modules, recs, the profiler and the statistics.
 */
#include "meta/freepool.h"

#include "meta/base.h"
#include "meta/meta_class.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "os/witness.h"

/* log2 of the largest class in bytes. */
#define META_LG_MAX 15u

static struct {
	mutex_t mtx;
	meta_piece_t *freed[META_NCLASSES(META_LG_MAX)];
	atomic_zu_t in_use; /* bytes, see meta_in_use(); written under mtx, as mapped */
	atomic_zu_t mapped; /* bytes, see meta_mapped() */
} meta;

void
meta_boot(void) {
	mutex_init(&meta.mtx, "freepool", WITNESS_RANK_FREEPOOL);
}

size_t
meta_good_size(size_t size) {
	return size > ((size_t)1 << META_LG_MAX) ? PAGE_CEILING(size)
	    : meta_class_size(meta_class(size));
}

static void *
meta_alloc_pages(size_t bytes) {
	void *p = pages_map(NULL, bytes, PAGE, NULL);
	if (p != NULL) {
		mutex_lock(&meta.mtx);
		atomic_add_nonatomic_zu(&meta.in_use, bytes);
		atomic_add_nonatomic_zu(&meta.mapped, bytes);
		mutex_unlock(&meta.mtx);
	}
	return p;
}

void *
meta_alloc(size_t size) {
	assert(size > 0);
	size_t bytes = meta_good_size(size);
	if (bytes < size || (base_fault_hook != NULL && base_fault_hook())) {
		return NULL;
	}
	if (bytes > ((size_t)1 << META_LG_MAX)) {
		return meta_alloc_pages(bytes);
	}
	unsigned c = meta_class(size);
	assert(c < META_NCLASSES(META_LG_MAX) && meta_class_size(c) == bytes);
	mutex_lock(&meta.mtx);
	meta_piece_t *p = meta.freed[c];
	if (p != NULL) {
		meta.freed[c] = p->next;
		atomic_add_nonatomic_zu(&meta.in_use, bytes);
		mutex_unlock(&meta.mtx);
		memset(p, 0, bytes);
		return p;
	}
	void *fresh = base_alloc(base_b0(), bytes, bytes >= CACHELINE ? CACHELINE : 16);
	if (fresh != NULL) {
		atomic_add_nonatomic_zu(&meta.in_use, bytes);
	}
	mutex_unlock(&meta.mtx);
	return fresh;
}

void
meta_free(void *ptr, size_t size) {
	if (ptr == NULL) {
		return;
	}
	size_t bytes = meta_good_size(size);
	mutex_lock(&meta.mtx);
	assert(meta_in_use() >= bytes);
	atomic_add_nonatomic_zu(&meta.in_use, 0 - bytes);
	if (bytes <= ((size_t)1 << META_LG_MAX)) {
		meta_piece_t *p = ptr;
		unsigned c = meta_class(size);
		p->next = meta.freed[c];
		meta.freed[c] = p;
		ptr = NULL;
	} else {
		atomic_add_nonatomic_zu(&meta.mapped, 0 - bytes);
	}
	mutex_unlock(&meta.mtx);
	if (ptr != NULL) {
		pages_unmap_in_time(ptr, bytes);
	}
}

size_t
meta_in_use(void) {
	return atomic_load_zu(&meta.in_use, MO_RELAXED);
}

size_t
meta_mapped(void) {
	return atomic_load_zu(&meta.mapped, MO_RELAXED);
}
