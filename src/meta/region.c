/*
 * Allocates the profiler's tables from a few large mappings, the parts, by a cursor; freed pieces
 * are kept in one list for each size class (region.h). Parts are listed in the root, which is at
 * the start of the first one, so that a reader outside finds them. The box is a file, or memory
 * file, that is mapped in place of the parts, so that it outlives the process; without it they are
 * private memory.
 *
 * Invariant: a freed piece has 0 in its second word until it is handed out again, and memory that
 * was never handed out is zero. So a reader outside that stands on freed memory sees no object
 * (meta/image.h). Locks: `region`, under which no other lock is taken; a move between private
 * memory and the box takes none, because the gate is closed then (os/gate.h: a thread closes it, as
 * fork does, and waits until no other one is inside). The root's other fields are the callers'; the
 * list of parts changes under the lock. Called by the profiler, meta/recs, unwind/module_history,
 * jemalloc_fork.c and arena/inspect.
 */
#include "meta/region.h"

#include <stdlib.h>

#include "meta/base.h"
#include "meta/meta_class.h"
#include "os/gate.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "util/atomic.h"

/* log2 of the largest class in bytes. */
#define REGION_LG_MAX 26u
#define REGION_NCLASSES META_NCLASSES(REGION_LG_MAX)
/* Bytes of the first part, and of the largest one, unless a single piece needs more. */
#define PART_FIRST ((size_t)512 << 10)
#define PART_MAX ((size_t)32 << 20)
/* Bytes at the end of a box that only region_alloc_last() hands out. */
#define BOX_LAST ((size_t)64 << 10)
/* Two words: the link of a freed piece, and the mark 0, which the invariant is about. */
#define PIECE_MIN (2 * sizeof(uint64_t))

cassert(PIECE_MIN <= (size_t)1 << META_LG_MIN);
cassert(sizeof(image_root_t) <= PART_FIRST / 8);
cassert(offsetof(image_root_t, head) == 0);

static struct {
	mutex_t mtx;
	atomic_p_t root; /* an image_root_t; NULL: there is no part yet */
	char *cursor;  /* first byte of the newest part that was not handed out */
	char *end;     /* the first address behind the newest part */
	atomic_zu_t in_use; /* bytes handed out and not freed; written under mtx, as mapped */
	atomic_zu_t mapped; /* bytes of all parts */
	size_t box_bytes;  /* 0: the parts are private memory */
	char *tail;        /* the mapped rest of the box, which is no part yet; NULL: none */
	size_t tail_bytes;
	/* private memory as large as the box: copies go here for a forked child, and to move back */
	char *spare;
	/* what was mapped for a move and is not used: of the file, and private memory; NULL: none */
	char *ahead;
	size_t ahead_bytes;
	char *ahead_spare;
	size_t ahead_spare_bytes;
	/* A page that reads as zero in a child (gate_watch()); NULL: there is none, or none yet. */
	uint64_t *own;
	meta_piece_t *freed[REGION_NCLASSES];
} region = {.mtx = MUTEX_INITIALIZER("region", WITNESS_RANK_LEAF)};

static image_root_t *
root_get(void) {
	return atomic_load_p(&region.root, MO_ACQUIRE);
}

/* ---------------------------------------------------------------- parts */

/*
 * Adds a fresh mapping of so many bytes to the list of parts, as the newest one; its head (`head`
 * bytes, which are not handed out) is complete before the list names it.
 */
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
	atomic_add_nonatomic_zu(&region.mapped, bytes);
}

/* Makes the rest of the box a part, if it has room for `least` bytes besides BOX_LAST. */
static bool
part_try_tail_locked(size_t least) {
	char *at = region.tail;
	if (at == NULL || region.tail_bytes < least + BOX_LAST) {
		return false;
	}
	region.tail = NULL;
	part_add_locked(root_get(), at, region.tail_bytes, sizeof(image_head_t));
	return true;
}

/* Maps a part with room for a piece of this size, or makes the rest of the box one; or false. */
static bool
part_try_new_locked(size_t size) {
	image_root_t *root = root_get();
	if (region.box_bytes != 0) {
		return part_try_tail_locked(size + CACHELINE + sizeof(image_head_t));
	}
	size_t least = size + CACHELINE + (root == NULL ? sizeof(*root) : sizeof(image_head_t));
	size_t wanted = root == NULL ? PART_FIRST : min_zu(region_mapped(), PART_MAX);
	size_t bytes = PAGE_CEILING(max_zu(least, wanted));
	if (root != NULL && root->nparts == IMAGE_PARTS) {
		return false;
	}
	char *at = pages_map(NULL, bytes, PAGE, NULL);
	if (at == NULL && bytes > PAGE_CEILING(least)) {
		/* Near the process's limit of memory, a part just large enough may still be there. */
		bytes = PAGE_CEILING(least);
		at = pages_map(NULL, bytes, PAGE, NULL);
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

/*
 * Hands out bytes of the newest part; NULL if they do not fit. If that is the last part that a box
 * can have, its last BOX_LAST bytes are for region_alloc_last().
 */
static void *
part_carve_locked(size_t bytes, bool is_last) {
	mutex_assert_owner(&region.mtx);
	uintptr_t from = align_up((uintptr_t)region.cursor, bytes >= CACHELINE ? CACHELINE : 16);
	bool is_kept = region.box_bytes != 0 && region.tail == NULL && !is_last;
	uintptr_t end = (uintptr_t)region.end - (is_kept ? BOX_LAST : 0);
	if (region.cursor == NULL || from > end || bytes > end - from) {
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

/*
 * A piece of so many bytes, a class's: a freed one, or a fresh one (*is_fresh) of the newest part
 * or of a new part. NULL: there is no room.
 */
static void *
piece_take_locked(size_t bytes, bool is_last, bool *is_fresh) {
	meta_piece_t **list = &region.freed[meta_class(bytes)];
	void *p = *list;
	*is_fresh = p == NULL;
	if (p != NULL) {
		*list = (*list)->next;
	} else {
		p = part_carve_locked(bytes, is_last);
		p = p != NULL || !part_try_new_locked(bytes) ? p : part_carve_locked(bytes, is_last);
	}
	atomic_add_nonatomic_zu(&region.in_use, p == NULL ? 0 : bytes);
	return p;
}

static void *
piece_alloc(size_t size, bool is_last) {
	assert(size > 0);
	if (size > (size_t)1 << REGION_LG_MAX || (base_fault_hook != NULL && base_fault_hook())) {
		return NULL;
	}
	size_t bytes = region_good_size(size);
	bool is_fresh;
	mutex_lock(&region.mtx);
	void *p = piece_take_locked(bytes, is_last, &is_fresh);
	mutex_unlock(&region.mtx);
	return p == NULL || is_fresh ? p : memset(p, 0, bytes);
}

void *
region_alloc(size_t size) {
	return piece_alloc(size, false);
}

void *
region_alloc_last(size_t size) {
	return piece_alloc(size, true);
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
	assert(region_in_use() >= bytes);
	atomic_add_nonatomic_zu(&region.in_use, 0 - bytes);
	meta_piece_t *p = ptr;
	__atomic_store_n(&p->next, region.freed[meta_class(bytes)], MO_RELEASE); /* after the mark */
	region.freed[meta_class(bytes)] = p;
	mutex_unlock(&region.mtx);
}

void
region_list_push(uint64_t *list, void *object) {
	uint64_t first = __atomic_load_n(list, MO_RELAXED);
	do {
		memcpy(object, &first, sizeof(first));
	} while (!__atomic_compare_exchange_n(list, &first, (uintptr_t)object, true, MO_RELEASE,
	    MO_RELAXED));
}

/* ---------------------------------------------------------------- the box */

/*
 * Makes the pages of a mapping to which parts_copy() will copy: by one call each instead of a page
 * fault for each page while others wait. Only a help: the tables may grow meanwhile.
 */
static void
parts_populate(const image_root_t *root, char *box, size_t bytes) {
	unsigned n = root == NULL ? 0 : __atomic_load_n(&root->nparts, MO_ACQUIRE);
	for (unsigned i = 0; i < n; i++) {
		const image_part_t *p = &root->parts[i];
		size_t used = PAGE_CEILING(__atomic_load_n(&p->used, MO_RELAXED));
		if (p->offset < bytes && used <= bytes - p->offset) {
			(void)pages_advise(box + p->offset, used, PAGES_POPULATE);
		}
	}
}

/* Copies what was handed out of each part to its place in a mapping of the box. */
static void
parts_copy(const image_root_t *root, char *box) {
	for (unsigned i = 0; i < root->nparts; i++) {
		const image_part_t *p = &root->parts[i];
		memcpy(box + p->offset, (const void *)(uintptr_t)p->address, p->used);
	}
}

/* How bytes come from a mapping to the place of a part. */
typedef enum {
	by_copy,
	by_move,        /* from private memory, which stays mapped and then reads as zero */
	by_last_move    /* the same in a forked child, where it may also be unmapped then */
} parts_way_t;

/*
 * Puts private memory in place of each of the first n parts, with the bytes of it in the mapping
 * `box`. No other thread reads the tables meanwhile: none is inside the gate, and the caller holds
 * the lock of dumps, which read sites outside of it; or this is a forked child. Only single words
 * of the root (its session, epoch) may be read, as 0 where the kernel cannot move pages that stay
 * mapped. An errno value: the failed part and those behind it are as they were (pages_map_anew).
 */
static int
parts_to_private(const image_root_t *copy, char *box, parts_way_t way, unsigned n) {
	for (unsigned i = 0; i < n; i++) {
		const image_part_t *p = &copy->parts[i];
		void *part = (void *)(uintptr_t)p->address;
		if (p->bytes == 0) { /* lost child (os/gate.h): copied while a thread added the part */
			continue;
		}
		if (way != by_copy
		    && pages_move_bytes(box + p->offset, p->bytes, part, way == by_last_move) == 0) {
			continue;
		}
		int err = pages_map_anew(part, p->bytes);
		if (err != 0) {
			return err;
		}
		memcpy(part, box + p->offset, p->used);
	}
	return 0;
}

/* Maps the box in place of the parts; on failure private memory with the same bytes again. */
static int
parts_to_file(const image_root_t *copy, int fd, char *box) {
	for (unsigned i = 0; i < copy->nparts; i++) {
		const image_part_t *p = &copy->parts[i];
		void *part = (void *)(uintptr_t)p->address;
		int err = pages_map_over(part, p->bytes, fd, p->offset);
		/* The part is as it was, unless the kernel had no memory for its own records. */
		unsigned n = err != 0 && !sys_is_readable(part, PAGE) ? i + 1 : i;
		if (err != 0 && parts_to_private(copy, box, by_copy, n) != 0) {
			abort(); /* there was memory a moment ago; without any the process cannot go on */
		}
		if (err != 0) {
			return err;
		}
	}
	return 0;
}

/*
 * Unmaps what the newest part has beyond the end of a box of this size, if no piece uses it, so
 * that boxes of one session after the other need no further parts. Returns the bytes of all parts.
 */
static uint64_t
parts_trim(image_root_t *root, size_t box_bytes) {
	image_part_t *last = &root->parts[root->nparts - 1];
	char *part = (char *)(uintptr_t)last->address;
	uint64_t room = last->offset < box_bytes ? box_bytes - last->offset : 0;
	if (last->bytes > room && last->used + BOX_LAST <= room
	    && pages_unmap(part + room, last->bytes - room) == 0) {
		atomic_add_nonatomic_zu(&region.mapped, room - last->bytes);
		last->bytes = room;
		((image_head_t *)part)->bytes = room;
		region.end = part + room;
	}
	return last->offset + last->bytes;
}

/*
 * Maps region.own, for good, if there is none, and has the gate look for silent children (made by
 * _Fork() or clone(), so that no handler of fork() runs in them; os/gate.h). Called before the
 * move, because one that is made during the move finds the gate closed, and nobody opens it.
 */
static void
own_try_watch(void) {
	uint64_t *page = region.own == NULL ? pages_map(NULL, PAGE, PAGE, NULL) : NULL;
	if (page != NULL && pages_advise(page, PAGE, PAGES_WIPE_IN_CHILD) == 0) {
		region.own = page;
	} else if (page != NULL) {
		pages_unmap(page, PAGE);
	}
	if (region.own != NULL) {
		__atomic_store_n(region.own, 1, MO_RELAXED);
		gate_watch(region.own, region_prefork, region_postfork_child);
	}
}

int
region_ahead_box(int fd, size_t bytes) {
	assert(region.box_bytes == 0 && region.ahead == NULL && bytes % PAGE == 0);
	region.ahead_bytes = bytes;
	region.ahead_spare_bytes = bytes;
	region.ahead = pages_map_file(fd, bytes);
	region.ahead_spare = pages_map(NULL, bytes, PAGE, NULL);
	if (region.ahead == NULL || region.ahead_spare == NULL) {
		region_ahead_end();
		return ENOMEM;
	}
	parts_populate(root_get(), region.ahead, bytes);
	own_try_watch();
	return 0;
}

void
region_ahead_private(void) {
	parts_populate(root_get(), region.spare, region.box_bytes);
}

void
region_ahead_end(void) {
	char *ahead = region.ahead, *spare = region.ahead_spare;
	/* First, because another thread may fork: the child must not unmap what is new there. */
	region.ahead = NULL;
	region.ahead_spare = NULL;
	if (ahead != NULL) {
		pages_unmap_in_time(ahead, region.ahead_bytes);
	}
	if (spare != NULL) {
		pages_unmap_in_time(spare, region.ahead_spare_bytes);
	}
	if (region.box_bytes == 0) {
		gate_unwatch();
	}
}

/*
 * Whether the box of so many bytes has room behind the parts, which use `used` of them, for a part
 * of its own.
 */
static bool
has_room_for_tail(const image_root_t *root, uint64_t used, size_t bytes) {
	return used + 2 * BOX_LAST <= bytes && root->nparts < IMAGE_PARTS;
}

/* Whether region_alloc_last() can have its bytes in the newest part. */
static bool
has_room_for_last(const image_root_t *root) {
	const image_part_t *newest = &root->parts[root->nparts - 1];
	return newest->used + BOX_LAST <= newest->bytes;
}

int
region_to_box(int fd) {
	image_root_t *root = root_get();
	char *box = region.ahead;
	size_t bytes = region.ahead_bytes;
	assert(root != NULL && region.box_bytes == 0 && box != NULL);
	uint64_t used = parts_trim(root, bytes);
	bool has_tail = has_room_for_tail(root, used, bytes);
	if (used > bytes || (!has_tail && !has_room_for_last(root))) {
		return ENOSPC;
	}
	image_root_t copy = *root;
	parts_copy(root, box);
	/* Before the first part is the file's: a silent child that is made meanwhile leaves it. */
	region.spare = region.ahead_spare;
	region.ahead_spare = NULL;
	region.box_bytes = bytes;
	int err = parts_to_file(&copy, fd, box);
	if (err != 0) {
		region.box_bytes = 0;
		region.ahead_spare = region.spare;
		region.spare = NULL;
		return err;
	}
	region.tail = has_tail ? box + used : NULL;
	region.tail_bytes = bytes - used;
	region.ahead_bytes = has_tail ? used : bytes; /* region_ahead_end() leaves the tail mapped */
	root->box_bytes = bytes;
	return 0;
}

/*
 * Forgets the box: the parts are private memory. What is left of its mappings is for
 * region_ahead_end(), because unmapping the last one frees all pages of the file, which takes
 * milliseconds. A silent child that is made in the midst moves the parts once more, from
 * region.spare, if box_bytes is not 0; if it is 0, nothing but the spare may be left.
 */
static void
box_forget(image_root_t *root) {
	assert(region.ahead == NULL && region.ahead_spare == NULL);
	region.ahead_bytes = region.tail_bytes;
	region.ahead = region.tail;
	region.tail = NULL;
	region.ahead_spare_bytes = region.box_bytes;
	root->box_bytes = 0;
	__atomic_store_n(&region.box_bytes, 0, MO_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	region.ahead_spare = region.spare;
	region.spare = NULL;
}

int
region_to_private(void) {
	image_root_t *root = root_get();
	assert(region.box_bytes != 0);
	image_root_t copy = *root;
	parts_copy(root, region.spare);
	int err = parts_to_private(&copy, region.spare, by_move, copy.nparts);
	if (err == 0) {
		box_forget(root);
	}
	return err;
}

size_t
region_box_bytes(void) {
	return region.box_bytes;
}

void
region_prefork(void) {
	const image_root_t *root = root_get();
	if (region.box_bytes != 0) {
		parts_copy(root, region.spare);
	}
}

void
region_postfork_parent(void) {
	if (region.box_bytes != 0) {
		pages_purge_forced(region.spare, region.box_bytes);
	}
}

void
region_postfork_child(void) {
	region_ahead_end(); /* another thread may have been about to move */
	if (region.box_bytes == 0) {
		return;
	}
	/* The parent changes the box already; the copy is of the time when the gate was closed. */
	image_root_t copy = *(const image_root_t *)region.spare;
	if (parts_to_private(&copy, region.spare, by_last_move, copy.nparts) != 0) {
		abort(); /* the two processes would destroy each other's tables */
	}
	box_forget(root_get());
	region_ahead_end();
}

/* ---------------------------------------------------------------- statistics */

size_t
region_in_use(void) {
	return atomic_load_zu(&region.in_use, MO_RELAXED);
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
	return atomic_load_zu(&region.mapped, MO_RELAXED);
}
