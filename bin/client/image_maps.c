/*
 * The memory map of an image as text, and the loaded objects that it shows (image_read.h).
 * Invariant: the text and the number of objects are bounded. No locks. Called by image_process.c
 * and image_core.c.
 */
#include "client/image_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TEXT_MOST = 64 << 20,    /* bytes of a memory map */
	OBJECTS_MOST = 4096,     /* loaded objects */
};

int
image_add_text(jeprof_image_t *image, const char *text, size_t length) {
	if (image->maps_bytes + length + 1 > TEXT_MOST) {
		return 0; /* the rest is left out */
	}
	size_t room = image->maps_bytes == 0 ? 0 : (image->maps_bytes | 65535) + 1;
	if (image->maps_bytes + length + 1 > room) {
		char *more = realloc(image->maps, ((image->maps_bytes + length + 1) | 65535) + 1);
		if (more == NULL) {
			return ENOMEM;
		}
		image->maps = more;
	}
	memcpy(image->maps + image->maps_bytes, text, length);
	image->maps_bytes += length;
	image->maps[image->maps_bytes] = '\0';
	return 0;
}

static bool
read_image(void *arg, uint64_t at, void *buf, size_t size) {
	return image_read(arg, at, buf, size);
}

/* The path of a line, copied without what the kernel adds to it; NULL without memory. */
static char *
path_of(const char *path, size_t length) {
	static const char deleted[] = " (deleted)";
	size_t n = sizeof(deleted) - 1;
	if (length == 6 && memcmp(path, "[vdso]", 6) == 0) {
		return strdup("linux-vdso.so.1"); /* what the loader calls it */
	}
	if (length > n && memcmp(path + length - n, deleted, n) == 0) {
		length -= n;
	}
	char *copy = strndup(path, length);
	for (char *c = copy; c != NULL && *c != '\0'; c++) {
		*c = (unsigned char)*c < 0x20 ? '?' : *c;
	}
	return copy;
}

/*
 * Adds the object that begins at `start`, if one does; counts it as lacking if its headers or notes
 * cannot be read. The caller has checked that a mapping of it is executable: a file that is mapped
 * only to be read is not loaded. 0 or ENOMEM.
 */
static int
object_add(jeprof_image_t *image, client_elf_t *elf, uint64_t start, const char *path,
    size_t length) {
	client_object_t o;
	bool is_read = client_read_object(elf, start, &o);
	image->lacking += !is_read || !o.is_whole;
	if (!is_read || image->objects.n == OBJECTS_MOST) {
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

/* One line of the map. */
typedef struct line_s {
	uint64_t start;          /* first address of the mapping */
	uint64_t offset;         /* of the mapping in its file */
	bool is_executable;
	const char *path;        /* "" if there is none */
	size_t length;           /* of the path */
} line_t;

/* Parses the line at *text and sets *text to the next; a bad line is empty. False at the end. */
static bool
try_next_line(const char **text, line_t *line) {
	uint64_t end;
	char perms[5] = "";
	int at = 0;
	const char *from = *text, *stop = strchr(from, '\n');
	if (*from == '\0' || stop == NULL) {
		return false;
	}
	*text = stop + 1;
	*line = (line_t){.path = ""};
	if (sscanf(from, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &line->start, &end,
	    perms, &line->offset, &at) >= 4 && at > 0 && from + at < stop) {
		line->path = from + at;
		line->length = (size_t)(stop - line->path);
		line->is_executable = perms[2] == 'x';
	}
	return true;
}

/* Whether the line, or one of those that follow it for the same file, is executable. */
static bool
has_code(const line_t *first, const char *text) {
	line_t line = *first;
	do {
		if (line.is_executable) {
			return true;
		}
	} while (try_next_line(&text, &line) && line.length == first->length
	    && memcmp(line.path, first->path, line.length) == 0);
	return false;
}

int
image_find_objects(jeprof_image_t *image, uint64_t *block) {
	client_elf_t elf = {.read = read_image, .arg = image};
	const char *text = image->maps == NULL ? "" : image->maps;
	int error = 0;
	line_t line;
	*block = 0;
	while (error == 0 && try_next_line(&text, &line)) {
		bool may_be = line.offset == 0 && line.length > 0
		    && (line.path[0] == '/' || strncmp(line.path, "[vdso]", 6) == 0);
		if (may_be && has_code(&line, text)) {
			error = object_add(image, &elf, line.start, line.path, line.length);
		}
	}
	for (size_t i = 0; i < image->objects.n; i++) {
		const client_object_t *o = &((image_object_t *)image->objects.items)[i].elf;
		*block = o->has_note && o->note.bytes != 0 && *block == 0 ? o->block : *block;
	}
	return error;
}
