/*
 * Allocates the profiler's tables from a few large mappings, the parts, by a cursor; freed pieces
 * are kept in one list for each size class (region.h). Parts are listed in the root, which is at
 * the start of the first one, so that a reader outside finds them.
 *
 * Invariant: a freed piece has 0 in its second word until it is handed out again, and memory that
 * was never handed out is zero. So a reader outside that stands on freed memory sees no object
 * (meta/image.h). Locks: `region`, a leaf. The root's own fields are the callers'; the list of
 * parts changes under the lock.
 */
#include "meta/region.h"

#include "meta/base.h"
#include "meta/meta_class.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "util/assert.h"
#include "util/atomic.h"

/* log2 of the largest class in bytes. */
#define REGION_LG_MAX 26u
#define REGION_NCLASSES META_NCLASSES(REGION_LG_MAX)
/* Bytes of the first part, and of the largest one that is mapped without need. */
#define PART_FIRST ((size_t)512 << 10)
#define PART_MAX ((size_t)32 << 20)
/* The second word of a freed piece is the mark. */
#define PIECE_MIN (2 * sizeof(uint64_t))

cassert(PIECE_MIN <= (size_t)1 << META_LG_MIN);
cassert(sizeof(image_root_t) <= PART_FIRST / 8);
cassert(offsetof(image_root_t, head) == 0);

static struct {
	mutex_t mtx;
	atomic_p_t root;
	char *cursor;  /* first byte of the newest part that was not handed out */
	char *end;     /* of the newest part */
	size_t in_use;
	size_t mapped;
	meta_piece_t *freed[REGION_NCLASSES];
} region = {.mtx = MUTEX_INITIALIZER("region", WITNESS_RANK_LEAF)};

static image_root_t *
root_get(void) {
	return atomic_load_p(&region.root, MO_ACQUIRE);
}

/* ---------------------------------------------------------------- parts */

/* Adds a fresh mapping to the list; its head is complete before the list names it. */
static void
part_add_locked(image_root_t *root, char *at, size_t bytes, size_t head) {
	mutex_assert_owner(&region.mtx);
	assert(root->nparts < IMAGE_PARTS && head >= sizeof(image_head_t));
	image_head_t *h = (image_head_t *)at;
	h->self = (uintptr_t)at;
	h->bytes = bytes;
	h->root = (uintptr_t)root;
	__atomic_store_n(&h->magic, IMAGE_MAGIC, MO_RELEASE);
	image_part_t *p = &root->parts[root->nparts];
	p->offset = root->nparts == 0 ? 0 : p[-1].offset + p[-1].bytes;
	p->address = (uintptr_t)at;
	p->bytes = bytes;
	p->used = head;
	__atomic_store_n(&root->nparts, root->nparts + 1, MO_RELEASE);
	region.cursor = at + head;
	region.end = at + bytes;
	region.mapped += bytes;
}

/* Maps a part with room for a piece of this size; false without memory. */
static bool
part_try_new_locked(size_t size) {
	image_root_t *root = root_get();
	size_t least = size + CACHELINE + (root == NULL ? sizeof(*root) : sizeof(image_head_t));
	size_t wanted = root == NULL ? PART_FIRST : min_zu(region.mapped, PART_MAX);
	size_t bytes = PAGE_CEILING(max_zu(least, wanted));
	bool commit = true;
	if (root != NULL && root->nparts == IMAGE_PARTS) {
		return false;
	}
	char *at = pages_map(NULL, bytes, PAGE, &commit);
	if (at == NULL && bytes > PAGE_CEILING(least)) {
		/* Near the process's limit of memory, a part just large enough may still be there. */
		bytes = PAGE_CEILING(least);
		at = pages_map(NULL, bytes, PAGE, &commit);
	}
	if (at == NULL) {
		return false;
	}
	bool is_first = root == NULL;
	root = is_first ? (image_root_t *)at : root;
	part_add_locked(root, at, bytes, is_first ? sizeof(*root) : sizeof(image_head_t));
	atomic_store_p(&region.root, root, MO_RELEASE);
	return true;
}

/* Hands out bytes of the newest part; NULL if they do not fit. */
static void *
part_carve_locked(size_t bytes) {
	mutex_assert_owner(&region.mtx);
	uintptr_t from = align_up((uintptr_t)region.cursor, bytes >= CACHELINE ? CACHELINE : 16);
	if (region.cursor == NULL || from > (uintptr_t)region.end
	    || bytes > (uintptr_t)region.end - from) {
		return NULL;
	}
	image_root_t *root = root_get();
	image_part_t *p = &root->parts[root->nparts - 1];
	region.cursor = (char *)from + bytes;
	__atomic_store_n(&p->used, (uintptr_t)region.cursor - p->address, MO_RELAXED);
	return (void *)from;
}

image_root_t *
region_root(void) {
	if (root_get() == NULL) {
		mutex_lock(&region.mtx);
		if (root_get() == NULL) {
			part_try_new_locked(0);
		}
		mutex_unlock(&region.mtx);
	}
	return root_get();
}

/* ---------------------------------------------------------------- pieces */

size_t
region_good_size(size_t size) {
	return meta_class_size(meta_class(size));
}

static void *
piece_take_locked(size_t bytes, bool *is_fresh) {
	meta_piece_t **list = &region.freed[meta_class(bytes)];
	void *p = *list;
	*is_fresh = p == NULL;
	if (p != NULL) {
		*list = (*list)->next;
	} else {
		p = part_carve_locked(bytes);
		p = p != NULL || !part_try_new_locked(bytes) ? p : part_carve_locked(bytes);
	}
	region.in_use += p == NULL ? 0 : bytes;
	return p;
}

void *
region_alloc(size_t size) {
	assert(size > 0);
	if (size > (size_t)1 << REGION_LG_MAX || (base_fault_hook != NULL && base_fault_hook())) {
		return NULL;
	}
	size_t bytes = region_good_size(size);
	bool is_fresh;
	mutex_lock(&region.mtx);
	void *p = piece_take_locked(bytes, &is_fresh);
	mutex_unlock(&region.mtx);
	return p == NULL || is_fresh ? p : memset(p, 0, bytes);
}

void
region_free(void *ptr, size_t size) {
	if (ptr == NULL) {
		return;
	}
	size_t bytes = region_good_size(size);
	uint64_t *mark = (uint64_t *)ptr + 1;
	__atomic_store_n(mark, 0, MO_RELAXED);
	mutex_lock(&region.mtx);
	assert(region.in_use >= bytes);
	region.in_use -= bytes;
	meta_piece_t *p = ptr;
	p->next = region.freed[meta_class(bytes)];
	region.freed[meta_class(bytes)] = p;
	mutex_unlock(&region.mtx);
}

/* ---------------------------------------------------------------- statistics */

size_t
region_in_use(void) {
	mutex_lock(&region.mtx);
	size_t n = region.in_use;
	mutex_unlock(&region.mtx);
	return n;
}

size_t
region_resident(void) {
	const image_root_t *root = root_get();
	size_t n = 0;
	for (unsigned i = 0; root != NULL && i < __atomic_load_n(&root->nparts, MO_ACQUIRE); i++) {
		n += PAGE_CEILING(__atomic_load_n(&root->parts[i].used, MO_RELAXED));
	}
	return n;
}

size_t
region_mapped(void) {
	mutex_lock(&region.mtx);
	size_t n = region.mapped;
	mutex_unlock(&region.mtx);
	return n;
}
