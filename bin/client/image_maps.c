/*
 * The memory map of an image as text, and the loaded objects that it shows (image_read.h).
 * Invariant: the text is bounded; so is the number of objects, as client_read_object() reads no
 * more (those beyond count as lacking). No locks. Called by image_process.c and image_core.c.
 */
#include "client/image_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/removed.h"

enum {
	TEXT_MAX = 64 << 20,    /* bytes of a memory map */
};

/* Bytes that are allocated for n bytes of text: a power of two above n, 65536 or more; 0 for 0. */
static size_t
text_room(size_t n) {
	return n == 0 ? 0 : (size_t)1 << (64 - __builtin_clzll((uint64_t)n | 65535));
}

int
image_add_text(jeprof_image_t *image, const char *text, size_t length) {
	size_t sum = image->maps_bytes + length;
	if (sum + 1 > TEXT_MAX) {
		return 0; /* this piece is left out */
	}
	if (sum + 1 > text_room(image->maps_bytes)) {
		char *more = realloc(image->maps, text_room(sum));
		if (more == NULL) {
			return ENOMEM;
		}
		image->maps = more;
	}
	memcpy(image->maps + image->maps_bytes, text, length);
	image->maps_bytes = sum;
	image->maps[sum] = '\0';
	return 0;
}

static bool
read_image(void *arg, uint64_t at, void *buf, size_t size) {
	return image_read(arg, at, buf, size);
}

/* A copy of a path without " (deleted)", control characters as '?'; NULL without memory. */
static char *
path_of(const char *path, size_t length) {
	if (length == 6 && memcmp(path, "[vdso]", 6) == 0) {
		return strdup("linux-vdso.so.1"); /* what the loader calls it */
	}
	char *copy = strndup(path, length_unmarked(path, length));
	for (char *c = copy; c != NULL && *c != '\0'; c++) {
		*c = (unsigned char)*c < 0x20 ? '?' : *c;
	}
	return copy;
}

/*
 * Adds the object whose ELF header is at `start`. Counts it as lacking if there is no ELF object,
 * its headers cannot be read (in both cases nothing is added), or its notes cannot. The caller
 * has checked that a mapping of the file is executable: one that is mapped only to be read is not
 * loaded. 0 or ENOMEM.
 */
static int
object_add(jeprof_image_t *image, client_elf_t *elf, uint64_t start, const char *path,
    size_t length) {
	client_object_t o;
	bool is_read = client_read_object(elf, start, &o);
	image->lacking += !is_read || !o.is_whole;
	if (!is_read) {
		return 0;
	}
	image_object_t *place = image_append(&image->objects, sizeof(*place));
	if (place == NULL) {
		return ENOMEM;
	}
	place->elf = o;
	place->path = path_of(path, length);
	return place->path == NULL ? ENOMEM : 0;
}

/* One line of the map. With fewer than six words all is 0, as is a word that is no number. */
typedef struct line_s {
	uint64_t start;          /* first address of the mapping */
	uint64_t offset;         /* of the mapping in its file */
	bool is_executable;
	const char *path;        /* in the text of the map, where no NUL ends it; "": none */
	size_t length;           /* of the path */
} line_t;

/* The next word of the line, behind the one at `at`; the end of the line if there is none. */
static const char *
next_word(const char *at) {
	at += strcspn(at, " \n");
	return at + strspn(at, " ");
}

/*
 * Parses the line at *text and sets *text to the next. False at the end, and at a last line without
 * its newline. It calls no function that first looks for the end of the whole text, as sscanf()
 * does: there may be a hundred thousand lines.
 */
static bool
try_next_line(const char **text, line_t *line) {
	const char *from = *text, *stop = strchr(from, '\n');
	if (*from == '\0' || stop == NULL) {
		return false;
	}
	const char *perms = next_word(from), *offset = next_word(perms);
	const char *path = next_word(next_word(next_word(offset)));
	*text = stop + 1;
	*line = (line_t){.path = ""};
	if (path < stop) {
		line->start = strtoull(from, NULL, 16);
		line->offset = strtoull(offset, NULL, 16);
		line->path = path;
		line->length = (size_t)(stop - path);
		line->is_executable = offset - perms > 2 && perms[2] == 'x';
	}
	return true;
}

/*
 * Where in the text the path of the last executable line stands, of `first` and the lines of the
 * same file behind it; NULL: none is executable. *end: on entry behind the line `first`, on return
 * behind the last of them.
 */
static const char *
last_code(const line_t *first, const char **end) {
	const char *code = NULL, *text = *end;
	line_t line = *first;
	do {
		code = line.is_executable ? line.path : code;
		*end = text;
	} while (try_next_line(&text, &line) && line.length == first->length
	    && memcmp(line.path, first->path, line.length) == 0);
	return code;
}

int
image_find_objects(jeprof_image_t *image, uint64_t *block) {
	client_elf_t elf = {.read = read_image, .arg = image};
	const char *text = image->maps == NULL ? "" : image->maps;
	const char *end = text, *code = NULL; /* of the lines of one file, see last_code() */
	int error = 0;
	line_t line;
	*block = 0;
	while (error == 0 && try_next_line(&text, &line)) {
		if (text > end) {
			end = text;
			code = last_code(&line, &end);
		}
		bool may_be = line.offset == 0 && line.length > 0
		    && (line.path[0] == '/' || strncmp(line.path, "[vdso]", 6) == 0);
		if (may_be && code != NULL && line.path <= code) {
			error = object_add(image, &elf, line.start, line.path, line.length);
		}
	}
	for (size_t i = 0; i < image->objects.n; i++) {
		const client_object_t *o = &((image_object_t *)image->objects.items)[i].elf;
		*block = o->has_note && o->note.bytes != 0 && *block == 0 ? o->block : *block;
	}
	return error;
}
