/*
 * Parses the end of a heap_v2 text: lines of the memory map (those of /proc/PID/maps), and module
 * lines, "# module ...", each with the build-id and the bias (address in memory minus address in
 * the ELF file) of a loaded file. Lines of both kinds make ranges of addresses, but a line of the
 * map whose start lies in a module makes none. The line of the map that holds the start of a module
 * gives its path, device and inode to the object of this module. Ranges with the same build-id, or
 * without one the same path, belong to one object. Invariant: ranges are sorted by start, each has
 * an object, and object 0 is the main program if that is known (main_first). No locks: a profile
 * belongs to one thread. Called by pprof_parse.c; range_of() by pprof_frames.c and pprof_names.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/removed.h"
#include "pprof_own.h"

enum {
	ROWS_MAX = 1 << 17,  /* lines that are kept, at most */
	ID_MIN = 4,          /* hexadecimal digits of a build-id, at least */
	ID_MAX = 128,        /* the same, at most */
	PATH_BYTES = 4096,   /* of a path, at most; a longer one counts as none */
};

/* A parsed line. Path and id (the build-id) are numbers in p->texts; 0: none. */
typedef struct row_s {
	uint64_t start, end, bias, dev, inode;
	uint32_t path, id;
	bool is_module;
} row_t;

typedef struct maps_s {
	row_t *rows;
	size_t count, room;
	bool has_module;     /* a module line was parsed */
	uint64_t main_start; /* start of the first module if its line has no path that fits; else 0 */
} maps_t;

static bool
is_id(const char *text, size_t len) {
	if (len < ID_MIN || len > ID_MAX || len % 2 != 0) {
		return false;
	}
	for (size_t i = 0; i < len; i++) {
		if (strchr("0123456789abcdef", text[i]) == NULL || text[i] == '\0') {
			return false;
		}
	}
	return true;
}

/* Number of the path without " (deleted)"; 0: too long, or has a NUL; INTERN_FAILED: no memory. */
static uint32_t
path_put(struct pprof_profile *p, const char *path, size_t len) {
	len = length_unmarked(path, len);
	return len > PATH_BYTES || memchr(path, '\0', len) != NULL ? 0 : intern_put(&p->texts, path,
	    len);
}

/* Moves *at behind spaces. */
static void
spaces_pass(const char **at, const char *end) {
	while (*at < end && **at == ' ') {
		++*at;
	}
}

/* Moves *at to the next space or the end; returns the length of the text before it. */
static size_t
token_read(const char **at, const char *end) {
	const char *start = *at;
	while (*at < end && **at != ' ') {
		++*at;
	}
	return (size_t)(*at - start);
}

/* Parses "START-END BIAS ID PATH", which follows "# module "; false if it is malformed. */
static bool
module_read(struct pprof_profile *p, const char *at, const char *end, row_t *row) {
	if (!hex_read(&at, end, &row->start) || !word_read(&at, end, "-")
	    || !hex_read(&at, end, &row->end) || !word_read(&at, end, " ")
	    || !hex_read(&at, end, &row->bias) || !word_read(&at, end, " ")) {
		return false;
	}
	const char *id = at;
	size_t len = token_read(&at, end);
	row->id = is_id(id, len) ? intern_put(&p->texts, id, len) : 0;
	if (!word_read(&at, end, " ")) {
		return false;
	}
	row->path = path_put(p, at, (size_t)(end - at));
	row->is_module = true;
	return true;
}

/* Parses "START-END PERMS OFFSET MAJOR:MINOR INODE   PATH"; false if malformed or without PATH. */
static bool
map_read(struct pprof_profile *p, const char *at, const char *end, row_t *row) {
	uint64_t offset, major, minor;
	if (!hex_read(&at, end, &row->start) || !word_read(&at, end, "-")
	    || !hex_read(&at, end, &row->end) || !word_read(&at, end, " ")
	    || token_read(&at, end) != 4 || !word_read(&at, end, " ")
	    || !hex_read(&at, end, &offset) || !word_read(&at, end, " ")
	    || !hex_read(&at, end, &major) || !word_read(&at, end, ":")
	    || !hex_read(&at, end, &minor) || !word_read(&at, end, " ")
	    || !dec_read(&at, end, &row->inode)) {
		return false;
	}
	spaces_pass(&at, end);
	if (at == end || (*at != '/' && *at != '[')) {
		return false;
	}
	row->dev = major << 32 | (uint32_t)minor;
	row->path = path_put(p, at, (size_t)(end - at));
	return true;
}

/*
 * The first module is the program, and the loader knows no path for it. Remembers where it starts,
 * and gives it the path of the metadata (p->exe), for dumps that have no memory map.
 */
static void
main_note(const struct pprof_profile *p, maps_t *m, row_t *row) {
	if (row->is_module && row->path == 0 && !m->has_module) {
		m->main_start = row->start;
		row->path = *intern_text(&p->texts, p->exe) == '/' ? p->exe : 0;
	}
	m->has_module = m->has_module || row->is_module;
}

/*
 * Adds a line to the rows. Skips malformed lines, those without path and id, and those beyond
 * ROWS_MAX. 0 or ENOMEM.
 */
static int
row_add(struct pprof_profile *p, maps_t *m, const char *line, const char *end) {
	row_t row = {0};
	bool is_row = word_read(&line, end, "# module ") ? module_read(p, line, end, &row)
	    : map_read(p, line, end, &row);
	if (row.path == INTERN_FAILED || row.id == INTERN_FAILED) {
		return ENOMEM;
	}
	if (!is_row || row.end <= row.start || m->count == ROWS_MAX) {
		return 0;
	}
	main_note(p, m, &row);
	if (row.path == 0 && row.id == 0) {
		return 0;
	}
	if (array_grow(&m->rows, &m->room, m->count, sizeof(row)) != 0) {
		return ENOMEM;
	}
	m->rows[m->count++] = row;
	return 0;
}

/* qsort() order of rows: first modules, then lines of the map, both by start. */
static int
by_kind_and_start(const void *a, const void *b) {
	const row_t *x = a, *y = b;
	if (x->is_module != y->is_module) {
		return x->is_module ? -1 : 1;
	}
	return x->start < y->start ? -1 : x->start > y->start;
}

/*
 * The row whose range contains the address, by binary search in rows of one kind, which are sorted
 * by start; NULL if none. A forged text may have rows that overlap: then one may be missed.
 */
static row_t *
row_of(row_t *rows, size_t count, uint64_t address) {
	size_t low = 0, high = count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (rows[middle].end <= address) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low < count && rows[low].start <= address ? &rows[low] : NULL;
}

static int
object_add(struct pprof_profile *p, uint32_t id, uint32_t path, uint32_t *number) {
	if (array_grow(&p->objects, &p->object_room, p->nobjects, sizeof(*p->objects)) != 0) {
		return ENOMEM;
	}
	*number = (uint32_t)p->nobjects;
	p->objects[p->nobjects++] = (object_t){.id = id, .path = path, .start = UINT64_MAX};
	return 0;
}

/*
 * Finds or adds the object of a row, by build-id, else by path, extends it by the row's range, and
 * sets *number to its index. Keys get their numbers in `known` in the order in which objects are
 * added, so the number of a key is the index of its object. 0 or ENOMEM.
 */
static int
object_get(struct pprof_profile *p, intern_t *known, const row_t *row, uint32_t *number) {
	uint32_t key = row->id != 0 ? row->id : row->path;
	uint32_t place = intern_put(known, &key, sizeof(key));
	if (place == INTERN_FAILED) {
		return ENOMEM;
	}
	int err = 0;
	*number = place;
	if (place == p->nobjects) {
		err = object_add(p, row->id, row->path, number);
	}
	if (err == 0) {
		object_t *o = &p->objects[*number];
		o->start = row->start < o->start ? row->start : o->start;
		o->end = row->end > o->end ? row->end : o->end;
	}
	return err;
}

/* Adds the range of a row; map is the row of the memory map that holds its start, or NULL. */
static int
range_add(struct pprof_profile *p, intern_t *known, const row_t *row, const row_t *map) {
	range_t range = {row->start, row->end, row->bias, 0, row->is_module};
	int err = object_get(p, known, row, &range.object);
	if (err == 0) {
		err = array_grow(&p->ranges, &p->range_room, p->nranges, sizeof(range));
	}
	if (err != 0) {
		return err;
	}
	object_t *o = &p->objects[range.object];
	if (map != NULL && o->map_start == 0) {
		o->map_start = map->start;
		o->map_end = map->end;
		o->dev = map->dev;
		o->inode = map->inode;
	}
	p->ranges[p->nranges++] = range;
	return 0;
}

/* Makes ranges of all modules, and of the lines of the map that start outside of modules. */
static int
ranges_make(struct pprof_profile *p, maps_t *m, intern_t *known) {
	size_t nmodules = 0;
	int err = 0;
	while (nmodules < m->count && m->rows[nmodules].is_module) {
		nmodules++;
	}
	row_t *maps = m->rows + nmodules;
	for (size_t i = 0; i < m->count && err == 0; i++) {
		row_t *row = &m->rows[i], *map = row_of(maps, m->count - nmodules, row->start);
		if (row->is_module) {
			/* The loader's path may be relative or a link; that of the map is not. */
			row->path = map != NULL ? map->path : row->path;
			err = range_add(p, known, row, map);
		} else if (row_of(m->rows, nmodules, row->start) == NULL) {
			err = range_add(p, known, row, map);
		}
	}
	return err;
}

static int
by_start(const void *a, const void *b) {
	const range_t *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

/*
 * Swaps the program's object with object 0. The program is the object with the path of the
 * metadata; else that of the first module, if its line has no path; else the first file by address.
 */
static void
main_first(struct pprof_profile *p, uint64_t main_start) {
	const range_t *unnamed = main_start != 0 ? range_of(p, main_start) : NULL;
	uint32_t main = unnamed != NULL ? unnamed->object : NO_OBJECT;
	for (size_t i = 0; i < p->nranges; i++) {
		uint32_t at = p->ranges[i].object, path = p->objects[at].path;
		if (path == p->exe && p->exe != 0) {
			main = at;
			break;
		}
		main = main == NO_OBJECT && *intern_text(&p->texts, path) == '/' ? at : main;
	}
	if (main == NO_OBJECT || main == 0) {
		return;
	}
	object_t object = p->objects[0];
	p->objects[0] = p->objects[main];
	p->objects[main] = object;
	for (size_t i = 0; i < p->nranges; i++) {
		uint32_t *at = &p->ranges[i].object;
		*at = *at == main ? 0 : *at == 0 ? main : *at;
	}
}

int
maps_parse(struct pprof_profile *p, lines_t *l) {
	maps_t m = {0};
	intern_t known = {0};
	const char *line;
	size_t len;
	int err = 0;
	while (err == 0 && line_next(l, &line, &len)) {
		err = row_add(p, &m, line, line + len);
	}
	if (err == 0 && m.count > 0) {
		qsort(m.rows, m.count, sizeof(*m.rows), by_kind_and_start);
		err = ranges_make(p, &m, &known);
	}
	if (err == 0 && p->nranges > 0) {
		qsort(p->ranges, p->nranges, sizeof(*p->ranges), by_start);
		main_first(p, m.main_start);
	}
	intern_free(&known);
	free(m.rows);
	return err;
}

const range_t *
range_of(const struct pprof_profile *p, uint64_t address) {
	size_t low = 0, high = p->nranges;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (p->ranges[middle].end <= address) {
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return low < p->nranges && p->ranges[low].start <= address ? &p->ranges[low] : NULL;
}
