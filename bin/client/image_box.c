/*
 * Reads the memory of the process that an image is of. It comes from the process itself, or from a
 * file that has ranges of it. Also opens the simplest of such files, a box, which holds the
 * profiler's tables of one process and outlives it. The first bytes of a box are the root of the
 * tables (image_read.h). Invariant: image->ranges is sorted when image_read() is called. No locks
 * of its own; the library holds one on a box that it has mapped (use_of()). image_of_box() is
 * called by image_file.c, image_box_try_add_parts() by image_tables.c, reading by most image_*.c.
 */
#include "client/image_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SKIP_BYTES = 65536 }; /* bytes of a stream that are skipped by one read */

/* Reads the next bytes of a stream; false if it ends before `size` bytes, or at an error. */
static bool
try_read_next(jeprof_image_t *image, void *buf, size_t size) {
	for (size_t done = 0; done < size;) {
		ssize_t n = read(image->fd, (char *)buf + done, size - done);
		if (n <= 0 && !(n < 0 && errno == EINTR)) {
			return false;
		}
		done += n > 0 ? (size_t)n : 0;
	}
	image->stream_at += size;
	return true;
}

/* Skips bytes of a stream up to this offset; false if it ends earlier, or is past it already. */
static bool
try_skip_to(jeprof_image_t *image, uint64_t offset) {
	static __thread char skipped[SKIP_BYTES];
	while (image->stream_at < offset) {
		uint64_t left = offset - image->stream_at;
		if (!try_read_next(image, skipped, left < SKIP_BYTES ? (size_t)left : SKIP_BYTES)) {
			return false;
		}
	}
	return image->stream_at == offset;
}

bool
image_read_file(jeprof_image_t *image, uint64_t offset, void *buf, size_t size) {
	if (image->is_stream) {
		return try_skip_to(image, offset) && try_read_next(image, buf, size);
	}
	for (size_t done = 0; done < size;) {
		ssize_t n = pread(image->fd, (char *)buf + done, size - done, (off_t)(offset + done));
		if (n <= 0 && !(n < 0 && errno == EINTR)) {
			return false;
		}
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

uint64_t
image_file_bytes(const jeprof_image_t *image) {
	struct stat st;
	return image->is_stream ? image->stream_at
	    : fstat(image->fd, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

image_range_t *
image_add_range(jeprof_image_t *image, const image_range_t *range) {
	image_range_t *place = image_append(&image->ranges, sizeof(*place));
	if (place != NULL) {
		*place = *range;
	}
	return place;
}

static int
compare_ranges(const void *a, const void *b) {
	uint64_t x = ((const image_range_t *)a)->address, y = ((const image_range_t *)b)->address;
	return x < y ? -1 : x > y;
}

void
image_sort_ranges(image_array_t *ranges) {
	if (ranges->n > 0) {
		qsort(ranges->items, ranges->n, sizeof(image_range_t), compare_ranges);
	}
}

const image_range_t *
image_find_range(const image_array_t *sorted, uint64_t at) {
	const image_range_t *ranges = sorted->items;
	size_t low = 0, high = sorted->n;
	while (low < high) { /* the last one that begins at or below `at` */
		size_t middle = (low + high) / 2;
		low = ranges[middle].address <= at ? middle + 1 : low;
		high = ranges[middle].address <= at ? high : middle;
	}
	return low > 0 && at - ranges[low - 1].address < ranges[low - 1].size ? &ranges[low - 1] : NULL;
}

bool
image_read(jeprof_image_t *image, uint64_t at, void *buf, size_t size) {
	if (image->target != NULL) {
		return client_read_memory(image->target, at, buf, size);
	}
	for (size_t done = 0; done < size;) {
		const image_range_t *r = image_find_range(&image->ranges, at + done);
		if (r == NULL) {
			return false;
		}
		uint64_t from = at + done - r->address, left = r->size - from;
		size_t n = left < size - done ? (size_t)left : size - done;
		if (r->bytes != NULL) {
			memcpy((char *)buf + done, r->bytes + from, n);
		} else if (image->is_stream
		    || !image_read_file(image, r->offset + from, (char *)buf + done, n)) {
			return false;
		}
		done += n;
	}
	return true;
}

bool
image_box_try_add_parts(jeprof_image_t *image, const image_root_t *root) {
	/* A box has no ranges but those of its first parts. */
	for (size_t i = image->ranges.n; i < root->nparts; i++) {
		const image_part_t *p = &root->parts[i];
		image_range_t range = {p->address, p->bytes, p->offset, NULL, "rw-p"};
		if (image_add_range(image, &range) == NULL) {
			return false;
		}
	}
	image_sort_ranges(&image->ranges);
	return true;
}

/*
 * How many bytes a box lacks at its end, as an unfinished copy does. The profile lacks what lay
 * there. image->torn, the number of damaged objects and broken lists, may be 0 all the same: often
 * no object is left that points to what is missing.
 */
static uint64_t
box_cut(const jeprof_image_t *image, const image_root_t *root) {
	uint64_t end = 0, there = image_file_bytes(image);
	for (size_t i = 0; i < root->nparts; i++) {
		const image_part_t *p = &root->parts[i];
		uint64_t part_end = p->offset + p->bytes; /* wraps where the root is damaged */
		end = part_end > end && part_end >= p->offset ? part_end : end;
	}
	return end > there ? end - there : 0;
}

static const char running[] = "running";
static const char replaced[] = "replaced by exec";
static const char copied[] = "copied before its end";

/* The result of the search for the process that made the box. */
typedef struct owner_s {
	const image_root_t *root; /* of the box */
	bool is_there;           /* the process was found, and has the tables still */
	/* the process was found, but not the tables: it is taken to run another program now (exec) */
	bool is_replaced;
} owner_t;

/*
 * If t is the process that made the box, by pid and start time, notes in the owner_t arg whether it
 * still has the tables at their addresses; after an exec it does not. If its memory may not be
 * read, it is taken to have them. Any other process is passed over and not opened.
 */
static void
look_at(jeprof_target_t *t, void *arg) {
	owner_t *o = arg;
	image_root_t now;
	if (o->is_there || t->start != o->root->start_ticks || t->own_pid != o->root->pid) {
		return;
	}
	int error = jeprof_probe(t);
	o->is_there = error == EACCES || (error == 0
	    && client_read_memory(t, o->root->head.self, &now, sizeof(now))
	    && now.head.magic == IMAGE_MAGIC && now.opened_ns == o->root->opened_ns);
	o->is_replaced = !o->is_there;
	jeprof_close(t);
}

/* Whether a process has the file of a box mapped. */
typedef enum use_e { use_none, use_mapped, use_unknown } use_t;

/*
 * The library holds a lock (flock) on the file for as long as it has it mapped, so this also tells
 * of a process that our /proc does not show. use_unknown: the file system has no such locks.
 */
static use_t
use_of(int fd) {
	if (flock(fd, LOCK_SH | LOCK_NB) != 0) {
		return errno == EWOULDBLOCK ? use_mapped : use_unknown;
	}
	(void)flock(fd, LOCK_UN);
	return use_none;
}

/*
 * How the process that made the box ended: "ended", "replaced by exec" or "killed"; "running" if it
 * did not, and then it may change the box while it is read. If nobody has the file mapped although
 * that process runs: "copied before its end", as the file is a copy, which does not change. The
 * process is searched for: the root has its pid as the process itself sees it. In another pid
 * namespace that number may be of another process here, or of none; then all are looked at.
 */
static const char *
end_of(const image_root_t *root, int fd) {
	owner_t owner = {.root = root};
	if (root->state == image_ended) {
		return "ended";
	}
	if (root->state == image_replaced) {
		return replaced;
	}
	use_t use = use_of(fd);
	if (use == use_mapped) {
		return running;
	}
	jeprof_target_t *t = root->pid > 0 && root->pid <= INT_MAX ? malloc(sizeof(*t)) : NULL;
	if (t != NULL && jeprof_find(t, (int)root->pid) == 0) {
		look_at(t, &owner);
	}
	if (t != NULL && !owner.is_there && !owner.is_replaced) {
		(void)jeprof_each(look_at, &owner);
	}
	free(t);
	return owner.is_there ? (use == use_none ? copied : running) : owner.is_replaced ? replaced
	    : "killed";
}

int
image_of_box(jeprof_image_t *image) {
	image_root_t root;
	image->kind = "blackbox";
	if (!image_read_file(image, 0, &root, sizeof(root))) {
		return image_fail(image, EINVAL, "the tables are damaged: the root is not whole");
	}
	int error = image_check_version(image, &root);
	if (error != 0) {
		return error;
	}
	if (root.nparts > IMAGE_PARTS) {
		return image_fail(image, EINVAL, "the tables are damaged: their parts make no sense");
	}
	if (!image_box_try_add_parts(image, &root)) {
		return image_fail(image, ENOMEM, "no memory");
	}
	image->cut = box_cut(image, &root);
	image->end = end_of(&root, image->fd);
	image->is_live = image->end == running;
	image->at = root.head.self;
	return 0;
}
