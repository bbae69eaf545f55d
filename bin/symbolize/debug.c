/*
 * Finds the separate file with the debug information of an object. Order: by build-id below the
 * root of the process, then below ours; by the name in .gnu_debuglink below the root of the
 * process; from the debuginfod servers, only if that is asked for. Invariant: the file has the
 * build-id of the object, or neither file has one (an id longer than ID_BYTES_MAX counts as none);
 * the checksum of .gnu_debuglink is not checked. No locks: one thread. Called by tables.c
 * (debug_try_find) and table.c (object_id).
 */
#include "symbolize.h"

#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
object_id(object_t *object, char *hex) {
	const void *bits;
	ssize_t len = dwelf_elf_gnu_build_id(object->elf, &bits);

	hex[0] = '\0';
	for (ssize_t i = 0; i < len && len <= ID_BYTES_MAX; i++)
		sprintf(hex + 2 * i, "%02x", ((const unsigned char *)bits)[i]);
}

/*
 * Opens the file `fd` (negative: there is none) as `debug` if it has this build-id ("": if it has
 * none). Always closes fd: an open object is a mapping and does not need it. False: `debug` is not
 * open.
 */
static bool
try_file(object_t *debug, int fd, int root, const char *path, const char *id) {
	char found[2 * ID_BYTES_MAX + 1];
	bool is_it = false;

	if (fd < 0)
		return false;
	if (object_open_fd(debug, fd, root, path) == NULL) {
		object_id(debug, found);
		is_it = strcmp(found, id) == 0;
	}
	close(fd);
	if (!is_it)
		object_close(debug);
	return is_it;
}

/* Joins front, middle and name in `path`, where they stay, and tries that; false if it is cut. */
static bool
try_path(object_t *debug, int root, const char *id, char *path, const char *front,
    const char *middle, const char *name) {
	if (snprintf(path, PATH_MAX, "%s%s%s", front, middle, name) >= PATH_MAX)
		return false;
	return try_file(debug, file_open(root, path), root, path, id);
}

/* Tries the path that a build-id has below usr/lib/debug of this root. */
static bool
try_by_id(object_t *debug, int root, const char *id, char *path) {
	char name[2 * ID_BYTES_MAX + 16];

	snprintf(name, sizeof(name), "%.2s/%s.debug", id, id + 2);
	return try_path(debug, root, id, path, "/usr/lib/debug/.build-id/", "", name);
}

/*
 * try_path() below the root of the object, but false if that is the object itself. Paths are
 * compared too, because an overlay may give the file of a mapping another inode than its path.
 */
static bool
try_other(object_t *debug, const object_t *object, const char *id, char *path, const char *front,
    const char *middle, const char *name) {
	if (!try_path(debug, object->root, id, path, front, middle, name))
		return false;
	if (strcmp(path, object->path) != 0 && (debug->inode != object->inode
	    || debug->device != object->device))
		return true;
	object_close(debug);
	return false;
}

/*
 * Tries the name in .gnu_debuglink in the directory of the object, in its .debug, and in the same
 * directory below /usr/lib/debug; passes over the object itself, which may have that name. The
 * last needs an absolute path of the object, as jeprofd gives it, because no slash is put before
 * the directory.
 */
static bool
try_by_link(object_t *debug, object_t *object, const char *id, char *path) {
	GElf_Word sum;
	const char *name = dwelf_elf_gnu_debuglink(object->elf, &sum), *slash = strrchr(object->path,
	    '/');
	char directory[PATH_MAX];

	if (name == NULL || strchr(name, '/') != NULL || slash == NULL)
		return false;
	snprintf(directory, sizeof(directory), "%.*s/", (int)(slash - object->path), object->path);
	return try_other(debug, object, id, path, directory, "", name)
		|| try_other(debug, object, id, path, directory, ".debug/", name)
		|| try_other(debug, object, id, path, "/usr/lib/debug", directory, name);
}

/*
 * Asks the servers in $DEBUGINFOD_URLS; may wait for the network. A descriptor; -1 if the library
 * cannot be used, or its negative errno. The library is loaded only here, so that the program runs
 * without it. Library and client are not released, because the program asks once at most (only
 * table.c allows it, for --servers) and then ends.
 */
static int
server_open(const char *id) {
	void *library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
	void *(*begin)(void) = NULL;
	int (*find)(void *, const unsigned char *, int, char **) = NULL;
	void *client;

	if (library == NULL)
		return -1;
	*(void **)&begin = dlsym(library, "debuginfod_begin");
	*(void **)&find = dlsym(library, "debuginfod_find_debuginfo");
	client = begin != NULL && find != NULL ? begin() : NULL;
	/* A length of 0 means that the build-id is in hex. */
	return client == NULL ? -1 : find(client, (const unsigned char *)id, 0, NULL);
}

bool
debug_try_find(object_t *debug, object_t *object, int own_root, bool with_servers, char *path) {
	char id[2 * ID_BYTES_MAX + 1];

	object_id(object, id);
	if (strlen(id) > 2 && (try_by_id(debug, object->root, id, path) || try_by_id(debug, own_root,
	    id, path)))
		return true;
	if (try_by_link(debug, object, id, path))
		return true;
	return with_servers && strlen(id) > 2 && try_file(debug, server_open(id), own_root, "/", id);
}
