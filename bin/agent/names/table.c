/*
 * Reads a table of names that may be forged (table.h). Invariant: every access reads bytes below
 * head.size, the size of the mapping or of the memory that names_table_try_open() was given; for
 * names_table_row() the caller sees to that. A file that shrinks while it is mapped would kill
 * its reader by SIGBUS; therefore the cache opens only files of its own user, whose programs
 * replace tables by renaming and never change them. No locks: several threads may read one file,
 * each by a names_table_t of its own. Called by names.c, pprof_names.c and bin/symbolize/tables.c.
 */
#include "table.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

uint64_t
names_head_sum(const names_head_t *head) {
	const unsigned char *c = (const unsigned char *)head;
	uint64_t sum = 0xcbf29ce484222325u;
	for (size_t i = 0; i < offsetof(names_head_t, sum); i++) {
		sum = (sum ^ c[i]) * 0x100000001b3u;
	}
	return sum;
}

static bool
is_head(const names_head_t *h, size_t size, const char *key) {
	return memcmp(h->magic, NAMES_MAGIC, sizeof(h->magic)) == 0 && h->version == NAMES_VERSION
	    && h->sum == names_head_sum(h) && h->size == size && size <= NAMES_TABLE_MAX
	    && h->nstrings > 0 && h->nstrings <= size
	    && h->key[sizeof(h->key) - 1] == '\0' && strcmp(h->key, key) == 0;
}

bool
names_table_try_open(names_table_t *t, const void *base, size_t size, const char *key) {
	names_head_t *h = &t->head;
	t->base = NULL;
	if (size < sizeof(*h)) {
		return false;
	}
	memcpy(h, base, sizeof(*h));
	if (!is_head(h, size, key)) {
		return false;
	}
	/*
	 * No product or sum overflows: size_t has 64 bits (configure refuses others), nrows and nframes
	 * have 32 bits, nstrings is at most NAMES_TABLE_MAX.
	 */
	t->rows = sizeof(*h);
	t->frames = t->rows + (size_t)h->nrows * sizeof(names_row_t);
	t->strings = t->frames + (size_t)h->nframes * sizeof(names_frame_t);
	if (t->strings + h->nstrings != size || ((const char *)base)[size - 1] != '\0') {
		return false;
	}
	t->base = base;
	return true;
}

bool
names_table_try_map(names_table_t *t, int fd, const char *key) {
	struct stat st;
	t->base = NULL;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(names_head_t)
	    || st.st_size > NAMES_TABLE_MAX) {
		return false;
	}
	size_t size = (size_t)st.st_size;
	void *base = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		return false;
	}
	if (!names_table_try_open(t, base, size, key)) {
		munmap(base, size);
		return false;
	}
	return true;
}

void
names_table_close(names_table_t *t) {
	if (t->base != NULL) {
		munmap((void *)(uintptr_t)t->base, t->head.size);
		t->base = NULL;
	}
}

names_row_t
names_table_row(const names_table_t *t, size_t i) {
	names_row_t row;
	memcpy(&row, t->base + t->rows + i * sizeof(row), sizeof(row));
	return row;
}

bool
names_table_find(const names_table_t *t, uint64_t address, names_row_t *row) {
	size_t low = 0, high = t->base == NULL ? 0 : t->head.nrows;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		*row = names_table_row(t, middle);
		if (row->address == address) {
			return true;
		}
		if (row->address < address) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return false;
}

bool
names_table_frame(const names_table_t *t, const names_row_t *row, size_t i, names_frame_t *frame) {
	if (i >= row->nframes || i >= NAMES_FRAMES_MAX || row->frame + (uint64_t)i >= t->head.nframes) {
		return false;
	}
	memcpy(frame, t->base + t->frames + (row->frame + i) * sizeof(*frame), sizeof(*frame));
	return true;
}

const char *
names_table_string(const names_table_t *t, uint32_t offset, size_t *len) {
	*len = 0;
	if (offset >= t->head.nstrings) {
		return "";
	}
	const char *text = (const char *)t->base + t->strings + offset;
	size_t left = (size_t)t->head.nstrings - offset;
	*len = strnlen(text, left < NAMES_STRING_MAX ? left : NAMES_STRING_MAX);
	return text;
}
