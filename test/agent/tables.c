/*
 * Tables of names (bin/agent/names/table.c) in memory and as files, against the arrays that they
 * are made of: each row, frame and string, and those beside the last one; heads with one field
 * that is wrong, which are refused, and whose files do not stay mapped. Prints what is wrong; 1 if
 * anything is. Built by parts.t.
 */
#include "agent/names/table.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define KEY "the-key"
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { ROWS = 5, FRAMES = 80, STRINGS = 3 * NAMES_STRING_MAX };

typedef struct model_s {
	names_head_t head;
	names_row_t rows[ROWS];
	names_frame_t frames[FRAMES];
	char strings[STRINGS];
	char behind[NAMES_STRING_MAX]; /* no part of the table */
} model_t;

#define BYTES offsetof(model_t, behind)

static model_t model;
static int faults;

static void
check(int is_good, const char *what, long long number) {
	if (!is_good) {
		printf("%s: %lld\n", what, number);
		faults++;
	}
}

/* A table whose strings are "", one of 4095 bytes, one of 4096 and one of 4097, which is last. */
static void
model_make(void) {
	memset(&model, 0, sizeof(model));
	names_head_t *h = &model.head;
	memcpy(h->magic, NAMES_MAGIC, sizeof(h->magic));
	h->version = NAMES_VERSION;
	h->flags = NAMES_LINES;
	h->size = BYTES;
	h->nrows = ROWS;
	h->nframes = FRAMES;
	h->nstrings = STRINGS;
	strcpy(h->key, KEY);
	h->sum = names_head_sum(h);
	for (unsigned i = 0; i < ROWS; i++) {
		model.rows[i] = (names_row_t){.address = 1000 + 10 * i, .frame = 2 * i, .nframes = i};
	}
	model.rows[ROWS - 1].nframes = FRAMES;
	for (unsigned i = 0; i < FRAMES; i++) {
		model.frames[i] = (names_frame_t){i, 100 + i, 200 + i, 300 + i};
	}
	memset(model.strings, 's', sizeof(model.strings));
	memset(model.behind, 's', sizeof(model.behind));
	model.strings[0] = '\0';
	model.strings[NAMES_STRING_MAX] = '\0';
	model.strings[2 * NAMES_STRING_MAX + 1] = '\0';
	model.strings[STRINGS - 1] = '\0';
}

static void
check_rows(const names_table_t *t) {
	names_row_t row;
	names_frame_t frame;
	for (uint64_t at = 990; at < 1060; at++) {
		bool is_one = at >= 1000 && at < 1000 + 10 * ROWS && at % 10 == 0;
		bool is_found = names_table_find(t, at, &row);
		check(is_found == is_one
		    && (!is_one || memcmp(&row, &model.rows[(at - 1000) / 10], sizeof(row)) == 0),
		    "address", (long long)at);
	}
	for (unsigned i = 0; i < ROWS; i++) {
		unsigned first = 2 * i, most = i == ROWS - 1 ? NAMES_FRAMES_MAX : i;
		row = names_table_row(t, i);
		check(memcmp(&row, &model.rows[i], sizeof(row)) == 0, "row", i);
		for (unsigned k = 0; k < FRAMES + 2; k++) {
			bool is_there = names_table_frame(t, &row, k, &frame);
			check(is_there == (k < most) && (!is_there
			    || memcmp(&frame, &model.frames[first + k], sizeof(frame)) == 0), "frame", k);
		}
	}
	row = (names_row_t){.frame = FRAMES - 2, .nframes = 9};
	check(names_table_frame(t, &row, 1, &frame) && !names_table_frame(t, &row, 2, &frame),
	    "frames behind the last", FRAMES);
	row.frame = UINT32_MAX;
	check(!names_table_frame(t, &row, 1, &frame), "a frame far behind the last", 1);
}

static void
check_strings(const names_table_t *t) {
	const struct {
		uint32_t at;
		size_t len;
	} strings[] = {{0, 0}, {1, NAMES_STRING_MAX - 1}, {NAMES_STRING_MAX, 0},
	    {NAMES_STRING_MAX + 1, NAMES_STRING_MAX}, {2 * NAMES_STRING_MAX + 1, 0},
	    {2 * NAMES_STRING_MAX + 2, STRINGS - 2 * NAMES_STRING_MAX - 3}, {STRINGS - 2, 1},
	    {STRINGS - 1, 0}, {STRINGS, 0}, {STRINGS + 1, 0}, {UINT32_MAX, 0}};
	size_t len = 77;
	for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
		uint32_t at = strings[i].at;
		const char *s = names_table_string(t, at, &len);
		check(len == strings[i].len && memcmp(s, at < STRINGS ? model.strings + at : "", len) == 0
		    && (len == NAMES_STRING_MAX || s[len] == '\0'), "string", at);
		check((s == model.strings + at) == (at < STRINGS), "where the string is", at);
	}
	/* The last byte was NUL when the table was opened, but a file may change. */
	model.strings[STRINGS - 1] = 's';
	for (uint32_t n = 1; n < NAMES_STRING_MAX - 2; n++) {
		(void)names_table_string(t, STRINGS - n, &len);
		check(len == n, "bytes up to the end", n);
	}
	memset(model.strings + 1, 's', STRINGS - 2);
	(void)names_table_string(t, 1, &len);
	check(len == NAMES_STRING_MAX, "a string that is cut", (long long)len);
}

/* ---- heads that are refused ---- */

/* How many mappings of the file there are. */
static int
mappings(void) {
	char line[512];
	int n = 0;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
		n += strstr(line, "/table.names") != NULL;
	}
	fclose(maps);
	return n;
}

/* A descriptor of a file with these bytes, whose length is `length`. */
static int
file_of(const void *bytes, size_t size, off_t length) {
	int fd = open("table.names", O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || ftruncate(fd, length) != 0) {
		abort();
	}
	return fd;
}

static void
check_opens(bool wants, const void *bytes, size_t size, const char *key, const char *what) {
	names_table_t t = {.base = (const unsigned char *)what};
	check(names_table_try_open(&t, bytes, size, key) == wants, what, (long long)size);
	check((t.base != NULL) == wants, "its base", (long long)size);
	int fd = file_of(bytes, size, (off_t)size);
	t.base = (const unsigned char *)what;
	check(names_table_try_map(&t, fd, key) == wants && (t.base != NULL) == wants, what, -1);
	check(mappings() == wants, "mappings", mappings());
	names_table_close(&t);
	check(mappings() == 0 && t.base == NULL, "closed", mappings());
	names_table_close(&t);
	close(fd);
}

/* One field is wrong; the sum is right unless it is that field. */
#define CHECK_FIELD(change) do { \
	model_make(); \
	change; \
	model.head.sum = names_head_sum(&model.head); \
	check_opens(false, &model, BYTES, KEY, #change); \
} while (0)

static void
check_heads(void) {
	names_head_t *h = &model.head;
	model_make();
	check_opens(true, &model, BYTES, KEY, "a good one");
	check_opens(false, &model, BYTES, KEY "2", "another key");
	check_opens(false, &model, BYTES, "the-ke", "a shorter key");
	check_opens(false, &model, BYTES - 1, KEY, "a byte less");
	check_opens(false, &model, sizeof(*h), KEY, "a head alone");
	check_opens(false, &model, sizeof(*h) - 1, KEY, "less than a head");
	for (size_t i = 0; i < sizeof(*h); i++) {
		model_make();
		((unsigned char *)h)[i] ^= 1;
		check_opens(false, &model, BYTES, KEY, "a byte of the head");
	}
	for (size_t i = 0; i < sizeof(h->magic); i++) {
		CHECK_FIELD(h->magic[i] ^= 1);
	}
	CHECK_FIELD(h->version++);
	CHECK_FIELD(h->version--);
	CHECK_FIELD(h->size++);
	CHECK_FIELD(h->size--);
	CHECK_FIELD(h->nrows++);
	CHECK_FIELD(h->nrows--);
	CHECK_FIELD(h->nrows = UINT32_MAX);
	CHECK_FIELD(h->nframes++);
	CHECK_FIELD(h->nframes--);
	CHECK_FIELD(h->nframes = UINT32_MAX);
	CHECK_FIELD(h->nstrings++);
	CHECK_FIELD(h->nstrings--);
	CHECK_FIELD(h->nstrings = -(uint64_t)1);
	CHECK_FIELD(h->key[sizeof(h->key) - 1] = 'x');
	CHECK_FIELD(model.strings[STRINGS - 1] = 'x');
	/* The same size without any string: a frame of 16 bytes more, or none at all. */
	CHECK_FIELD((h->nstrings = 0, h->nframes += STRINGS / sizeof(names_frame_t)));
}

/* ---- sizes and kinds of files ---- */

/* A table of `size` bytes, nearly all of them strings. */
static void
check_size(bool wants, size_t size) {
	names_table_t t;
	model_make();
	model.head.nrows = model.head.nframes = 0;
	model.head.size = size;
	model.head.nstrings = size - sizeof(model.head);
	model.head.sum = names_head_sum(&model.head);
	int fd = file_of(&model.head, sizeof(model.head), (off_t)size);
	check(names_table_try_map(&t, fd, KEY) == wants && mappings() == wants, "size of a file",
	    (long long)size);
	names_table_close(&t);
	void *base = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	check(names_table_try_open(&t, base, size, KEY) == wants, "size in memory", (long long)size);
	munmap(base, size);
	close(fd);
}

static void
check_files(void) {
	names_table_t t;
	int ends[2];
	check_size(false, sizeof(names_head_t));
	check_size(true, sizeof(names_head_t) + 1);
	check_size(true, NAMES_TABLE_MAX);
	check_size(false, NAMES_TABLE_MAX + 1);
	model_make();
	close(file_of(&model, BYTES, BYTES));
	int fd = open("table.names", O_WRONLY);
	check(!names_table_try_map(&t, fd, KEY) && t.base == NULL, "a file that cannot be read", fd);
	close(fd);
	check(!names_table_try_map(&t, fd, KEY) && t.base == NULL, "no descriptor", fd);
	check(pipe(ends) == 0 && !names_table_try_map(&t, ends[0], KEY) && t.base == NULL, "a pipe", 0);
	names_row_t row;
	check(!names_table_find(&t, 1000, &row), "a row of no table", 0);
}

int
main(void) {
	names_table_t t;
	model_make();
	if (!names_table_try_open(&t, &model, BYTES, KEY)) {
		printf("a good table is refused\n");
		return 1;
	}
	check(t.head.flags == NAMES_LINES, "flags", t.head.flags);
	check_rows(&t);
	check_strings(&t);
	check_heads();
	check_files();
	return faults != 0;
}
