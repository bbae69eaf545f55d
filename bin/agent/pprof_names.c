/*
 * Sets the frames (functions with file and line) of the places (distinct addresses) of a profile:
 * sorts the places by object and offset, and asks names.c for one table of names per object, that
 * is, per mapped file. If symbols or lines of an object were read and none covers a place, its
 * frame is OBJECT+0xOFFSET. If nothing could be read, or the table has no row for it (makers had no
 * time, or too many addresses), the place has no frame, so that a server that has the symbols can
 * still name it. Invariant: the table of an object is closed before that of the next is asked for.
 * No locks of its own: a profile belongs to one thread. places_name() is called by pprof_frames.c.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "names/names.h"
#include "pprof_frames.h"

/* A place with its position in its object. */
typedef struct point_s {
	uint32_t object, place; /* indexes */
	uint64_t offset; /* address minus the bias: the address in the ELF file */
} point_t;

static int
by_object_and_offset(const void *a, const void *b) {
	const point_t *x = a, *y = b;
	if (x->object != y->object) {
		return x->object < y->object ? -1 : 1;
	}
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/*
 * Whether the object can have a file, by its path; the file is not looked for. The program can
 * without a path, by /proc/PID/exe.
 */
static bool
has_file(const struct pprof_profile *p, uint32_t object) {
	const char *path = intern_text(&p->texts, p->objects[object].path);
	return *path == '/' || (object == 0 && *path == '\0');
}

/*
 * Collects all places without a frame whose object has a file and a known bias, sorted by object
 * and offset. A forged object may cover address 0, which fixed_names() has named. Returns how many.
 */
static size_t
points_collect(const places_t *s, point_t *points) {
	size_t count = 0;
	for (size_t i = 0; i < s->count; i++) {
		const range_t *range = range_of(s->p, s->all[i].address);
		if (s->all[i].nframes == 0 && range != NULL && range->has_bias
		    && has_file(s->p, range->object)) {
			points[count++] = (point_t){range->object, (uint32_t)i,
			    s->all[i].address - range->bias};
		}
	}
	if (count > 0) {
		qsort(points, count, sizeof(*points), by_object_and_offset);
	}
	return count;
}

/* ---------------------------------------------------------------- frames */

/* Number in s->strings of a table's string at this offset; INTERN_FAILED without memory. */
static uint32_t
table_string(places_t *s, const names_table_t *table, uint32_t offset) {
	size_t len;
	const char *text = names_table_string(table, offset, &len);
	return string_put(s, text, len);
}

/*
 * Number in s->strings of "OBJECT+0xOFFSET"; OBJECT is the file's name, or without a path its
 * build-id. INTERN_FAILED without memory.
 */
static uint32_t
offset_string(places_t *s, const point_t *point) {
	char name[300];
	const object_t *o = &s->p->objects[point->object];
	const char *slash = strrchr(intern_text(&s->p->texts, o->path), '/');
	int len = snprintf(name, sizeof(name), "%.250s+0x%" PRIx64,
	    slash != NULL ? slash + 1 : intern_text(&s->p->texts, o->id), point->offset);
	return string_put(s, name, (size_t)len);
}

/*
 * Adds a frame to the place, as the caller of those that it has. 0; ENOMEM, also if *f has
 * INTERN_FAILED.
 */
static int
frame_put(places_t *s, place_t *place, const function_t *f, uint32_t line) {
	if (f->name == INTERN_FAILED || f->system_name == INTERN_FAILED || f->file == INTERN_FAILED) {
		return ENOMEM;
	}
	uint32_t function = intern_put(&s->functions, f, sizeof(*f));
	if (function == INTERN_FAILED
	    || array_grow(&s->frames, &s->frame_room, s->nframes, sizeof(*s->frames)) != 0) {
		return ENOMEM;
	}
	if (place->nframes == 0) {
		place->frame = (uint32_t)s->nframes;
	}
	s->frames[s->nframes++] = (frame_t){function, line};
	place->nframes++;
	if (place->object != NO_OBJECT) {
		s->has[place->object] |= (uint8_t)(HAS_FUNCTIONS | (f->file != 0 ? HAS_FILES : 0)
		    | (line != 0 ? HAS_LINES : 0) | (place->nframes > 1 ? HAS_INLINED : 0));
	}
	return 0;
}

/*
 * Names the places that no object can name: NO_STACK, of stacks that could not be read, and 0, of
 * words in a stack that are no address. 0 or ENOMEM.
 */
static int
fixed_names(places_t *s) {
	int err = 0;
	for (size_t i = 0; i < s->count && err == 0; i++) {
		uint64_t address = s->all[i].address;
		if (address == NO_STACK || address == 0) {
			const char *name = address == 0 ? "0x0" : "(no stack)";
			function_t f = {string_put(s, name, strlen(name)), 0, 0};
			err = frame_put(s, &s->all[i], &f, 0);
		}
	}
	return err;
}

/* Adds the frames of one place from a table of names, innermost first. 0 or ENOMEM. */
static int
point_name(places_t *s, const names_table_t *table, const point_t *point) {
	names_row_t row;
	names_frame_t frame;
	int err = 0;
	place_t *place = &s->all[point->place];
	bool has_row = names_table_find(table, point->offset, &row);
	for (size_t i = 0; err == 0 && has_row && names_table_frame(table, &row, i, &frame); i++) {
		function_t f = {table_string(s, table, frame.name),
		    table_string(s, table, frame.system_name), table_string(s, table, frame.file)};
		f.name = f.name != 0 ? f.name : offset_string(s, point);
		err = frame_put(s, place, &f, frame.line);
	}
	bool was_read = (table->head.flags & (NAMES_SYMBOLS | NAMES_LINES)) != 0;
	if (err == 0 && place->nframes == 0 && has_row && was_read) {
		function_t f = {offset_string(s, point), 0, 0};
		err = frame_put(s, place, &f, 0);
	}
	return err;
}

/* ---------------------------------------------------------------- objects */

/*
 * Names the places of one object: points[0] to points[count - 1]. `offsets` is scratch memory with
 * room for `count`. 0, also without a table of names, or ENOMEM.
 */
static int
object_name(places_t *s, names_t *n, const point_t *points, size_t count, uint64_t *offsets) {
	const object_t *o = &s->p->objects[points->object];
	names_object_t object = {.id = intern_text(&s->p->texts, o->id),
	    .path = intern_text(&s->p->texts, o->path), .map_start = o->map_start,
	    .map_end = o->map_end, .inode = o->inode, .is_main = points->object == 0};
	names_table_t table;
	size_t noffsets = 0;
	int err = 0;
	for (size_t i = 0; i < count; i++) {
		if (noffsets == 0 || offsets[noffsets - 1] != points[i].offset) {
			offsets[noffsets++] = points[i].offset;
		}
	}
	if (!names_try_table(n, &object, offsets, noffsets, &table)) {
		return 0;
	}
	for (size_t i = 0; i < count && err == 0; i++) {
		err = point_name(s, &table, &points[i]);
	}
	names_table_close(&table);
	return err;
}

int
places_name(places_t *s, const struct pprof_request *request) {
	names_t names;
	point_t *points = malloc((s->count + 1) * sizeof(*points));
	uint64_t *offsets = malloc((s->count + 1) * sizeof(*offsets));
	int err = points == NULL || offsets == NULL ? ENOMEM : fixed_names(s);
	/*
	 * Without a root (of the process, or request->root) there are no names, which is no failure:
	 * the process may have ended, or not let us in.
	 */
	if (err == 0 && names_begin(&names, request) == 0) {
		size_t count = points_collect(s, points), end;
		for (size_t at = 0; at < count && err == 0; at = end) {
			end = at;
			while (end < count && points[end].object == points[at].object) {
				end++;
			}
			err = object_name(s, &names, points + at, end - at, offsets);
		}
		names_end(&names);
	}
	free(points);
	free(offsets);
	return err;
}
