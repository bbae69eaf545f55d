/*
 * Builds a table of names in memory and writes it (tables.h). Symbols come from the object and, if
 * that has no full symbol table, first from its debug file; DWARF from the one that has line
 * numbers. Then the rows of an older table are copied, except those of addresses that have a new
 * row, until ROWS_MAX or half of STRINGS_MAX is reached. Invariant: each distinct string is stored
 * once; rows are sorted by address when tables_make() returns. No locks: one thread. Called by
 * table.c.
 */
#include "tables.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Rows, from which on none of the older table is copied; bytes of all strings, above which
 * tables_make() fails.
 */
enum { ROWS_MAX = 1 << 21, STRINGS_MAX = NAMES_TABLE_MAX / 2 };

/* ---- pieces ---- */
/*
 * Adds a string if it is new, cut to NAMES_STRING_MAX; returns its offset. Without memory or room
 * (STRINGS_MAX) sets error and returns 0, the offset of "".
 */
static uint32_t
string_add(tables_t *t, const char *text, size_t len) {
	uint32_t number = t->strings.len < STRINGS_MAX ? intern_put(&t->strings, text,
	    len < NAMES_STRING_MAX ? len : NAMES_STRING_MAX)
		: INTERN_FAILED;

	if (number != INTERN_FAILED)
		return (uint32_t)t->strings.entries[number].at;
	t->error = t->error != 0 ? t->error : ENOMEM;
	return 0;
}

static void
frame_add(tables_t *t, const names_frame_t *frame) {
	if (array_grow(&t->frames, &t->frame_room, t->nframes, sizeof(*frame)) != 0)
		t->error = ENOMEM;
	else
		t->frames[t->nframes++] = *frame;
}

/* Adds a row for the address, whose frames are those from `first` to the last one added. */
static void
row_add(tables_t *t, uint64_t address, size_t first) {
	names_row_t row = {address, (uint32_t)first, (uint32_t)(t->nframes - first)};

	if (array_grow(&t->rows, &t->row_room, t->nrows, sizeof(row)) != 0)
		t->error = ENOMEM;
	else
		t->rows[t->nrows++] = row;
}

static int
by_value(const void *a, const void *b) {
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int
by_address(const void *a, const void *b) {
	const names_row_t *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

size_t
addresses_sort(uint64_t *all, size_t count) {
	size_t kept = 0;

	if (count > 0)
		qsort(all, count, sizeof(*all), by_value);
	for (size_t i = 0; i < count; i++) {
		if (kept == 0 || all[kept - 1] != all[i])
			all[kept++] = all[i];
	}
	return kept;
}

/* ---- frames from DWARF ---- */
/* The callback answer_t.begin: makes the address the current one, without frames yet. */
static void
tables_begin(const answer_t *to, Dwarf_Addr address) {
	tables_t *t = to->context;
	uint64_t key = address, *place = bsearch(&key, t->addresses, t->count, sizeof(key), by_value);

	t->at = place != NULL ? (size_t)(place - t->addresses) : t->count;
	if (t->at < t->count)
		t->found[t->at] = (told_t){t->ntold, 0};
}

/* The callback answer_t.frame: adds a frame to the current address, NAMES_FRAMES_MAX at most. */
static void
tables_frame(const answer_t *to, const char *function, const char *directory, const char *file,
    int line) {
	tables_t *t = to->context;
	char path[PATH_MAX];
	names_frame_t frame = {0};

	if (t->at >= t->count || t->found[t->at].count == NAMES_FRAMES_MAX)
		return;
	if (array_grow(&t->told, &t->told_room, t->ntold, sizeof(frame)) != 0) {
		t->error = ENOMEM;
		return;
	}
	if (function != NULL)
		frame.system_name = string_add(t, function, strlen(function));
	if (file != NULL) {
		snprintf(path, sizeof(path), "%s%s%s", directory != NULL ? directory : "", directory != NULL
		    ? "/" : "", file);
		frame.file = string_add(t, path, strlen(path));
		frame.line = line > 0 ? (uint32_t)line : 0;
	}
	t->told[t->ntold++] = frame;
	t->found[t->at].count++;
}

/* Looks up all addresses in the DWARF of this object; sets NAMES_LINES if that succeeds. */
static void
lines_read(tables_t *t, object_t *object) {
	answer_t to = {tables_begin, tables_frame, t};
	query_t *queries = calloc(t->count + 1, sizeof(*queries));

	if (queries == NULL) {
		t->error = ENOMEM;
		return;
	}
	for (size_t i = 0; i < t->count; i++)
		queries[i].address = t->addresses[i];
	if (object_answer(object, queries, t->count, &to) == NULL)
		t->flags |= NAMES_LINES;
	free(queries);
}

/* ---- the rows ---- */
/* Sets the frame's display name: its linker's name, demangled and shortened. */
static void
frame_name(tables_t *t, names_frame_t *frame) {
	char name[NAMES_STRING_MAX];

	if (frame->system_name == 0)
		return;
	name_for_people(t->strings.bytes + frame->system_name, name, sizeof(name));
	frame->name = string_add(t, name, strlen(name));
}

/*
 * Adds the row and the frames of address i: those of DWARF, with the symbol as the name of the
 * outermost one; else one frame of the symbol. A single DWARF frame that has no file is dropped if
 * there is no symbol either. Symbols are not empty (symbols.c).
 */
static void
frames_join(tables_t *t, size_t i) {
	const told_t *found = &t->found[i];
	const char *symbol = t->symbols[i];
	size_t first = t->nframes;

	for (size_t k = 0; k < found->count; k++) {
		names_frame_t frame = t->told[found->first + k];

		if (found->count == 1 && frame.file == 0 && symbol == NULL)
			break;
		if (k + 1 == found->count && symbol != NULL)
			frame.system_name = string_add(t, symbol, strcspn(symbol + 1, "@") + 1);
		frame_name(t, &frame);
		frame_add(t, &frame);
	}
	if (found->count == 0 && symbol != NULL) {
		names_frame_t frame = {.system_name = string_add(t, symbol, strcspn(symbol + 1, "@") + 1)};

		frame_name(t, &frame);
		frame_add(t, &frame);
	}
	row_add(t, t->addresses[i], first);
}

/* Copies a row of an older table, with its frames and strings. */
static void
row_carry(tables_t *t, const names_table_t *old, const names_row_t *row) {
	size_t first = t->nframes, len;
	names_frame_t frame;

	for (size_t i = 0; names_table_frame(old, row, i, &frame); i++) {
		uint32_t *const texts[] = {&frame.name, &frame.system_name, &frame.file};

		for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
			const char *text = names_table_string(old, *texts[k], &len);

			*texts[k] = string_add(t, text, len);
		}
		frame_add(t, &frame);
	}
	row_add(t, row->address, first);
}

/*
 * Copies the rows of the older table, but those of the new addresses, as far as there is room, and
 * adds its flags: a flag tells of some rows, not of all.
 */
static void
old_carry(tables_t *t) {
	names_table_t old;

	if (t->old < 0 || !names_table_try_map(&old, t->old, t->key))
		return;
	for (size_t i = 0; i < old.head.nrows && t->nrows < ROWS_MAX
	    && t->strings.len < STRINGS_MAX / 2; i++) {
		names_row_t row = names_table_row(&old, i);

		if (bsearch(&row.address, t->addresses, t->count, sizeof(row.address), by_value) == NULL)
			row_carry(t, &old, &row);
	}
	t->flags |= old.head.flags;
	names_table_close(&old);
}

/* ---- the whole ---- */
/*
 * Reads symbols and lines, and adds a row for each address. An object without a full symbol table
 * gets symbols from its debug file, and where that has none, from its own tables; lines come from
 * the object if it has them, else from the debug file.
 */
static void
object_read(tables_t *t, object_t *object) {
	char path[PATH_MAX];
	object_t debug = {.alt_fd = -1};
	bool has_symbols = symbols_has_table(object), has_lines = object_has_lines(object);
	bool has_debug = !(has_symbols && has_lines) && debug_try_find(&debug, object, t->own_root,
	    t->with_servers, path);
	object_t *from = has_lines ? object : &debug;

	t->flags |= NAMES_OBJECT | (has_symbols || (has_debug && symbols_has_table(&debug))
	    ? NAMES_SYMBOLS : 0);
	if (has_debug && !has_symbols && !symbols_try_find(&debug, t->addresses, t->symbols, t->count))
		t->error = ENOMEM;
	if (!symbols_try_find(object, t->addresses, t->symbols, t->count))
		t->error = ENOMEM;
	if (!t->without_dwarf && (has_lines || has_debug) && object_add_dwarf(from) == NULL)
		lines_read(t, from);
	for (size_t i = 0; i < t->count && t->error == 0; i++)
		frames_join(t, i);
	if (has_debug)
		object_close(&debug);
}

int
tables_make(tables_t *t, object_t *object, const uint64_t *addresses, size_t count) {
	t->addresses = addresses;
	t->count = count;
	t->symbols = calloc(count + 1, sizeof(*t->symbols));
	t->found = calloc(count + 1, sizeof(*t->found));
	if (t->symbols == NULL || t->found == NULL)
		return ENOMEM;
	(void)string_add(t, "", 0);
	if (object != NULL)
		object_read(t, object);
	for (size_t i = 0; i < count && object == NULL; i++)
		row_add(t, addresses[i], t->nframes);
	old_carry(t);
	if (t->nrows > 0)
		qsort(t->rows, t->nrows, sizeof(*t->rows), by_address);
	return t->error;
}

static bool
try_write(int fd, const void *data, size_t len) {
	const char *at = data;
	ssize_t done;

	for (; len > 0; at += done, len -= (size_t)done) {
		done = write(fd, at, len);
		if (done <= 0)
			return false;
	}
	return true;
}

int
tables_write(const tables_t *t, int fd) {
	names_head_t head = { .magic = NAMES_MAGIC, .version = NAMES_VERSION, .flags = t->flags,
	    .nrows = (uint32_t)t->nrows,
		.nframes = (uint32_t)t->nframes, .nstrings = t->strings.len };
	size_t rows = t->nrows * sizeof(*t->rows), frames = t->nframes * sizeof(*t->frames);

	head.size = sizeof(head) + rows + frames + head.nstrings;
	if (head.size > NAMES_TABLE_MAX)
		return EFBIG;
	snprintf(head.key, sizeof(head.key), "%s", t->key);
	head.sum = names_head_sum(&head);
	return try_write(fd, &head, sizeof(head)) && try_write(fd, t->rows, rows)
	    && try_write(fd, t->frames, frames)
		&& try_write(fd, t->strings.bytes, t->strings.len) ? 0 : EIO;
}

void
tables_free(tables_t *t) {
	free(t->symbols);
	free(t->found);
	free(t->told);
	free(t->rows);
	free(t->frames);
	intern_free(&t->strings);
}
