/*
 * Maps an object file and opens it with libelf and libdw. The mapping is private to this program
 * and not made by libelf, so that object_forget() can return its pages to the kernel. libdw keeps
 * all that it has decoded; object_renew() closes and reopens it on the same mapping. walk.c calls
 * both before each compilation unit, which bounds the memory to that of one unit. Exceptions: the
 * pages of a file with compressed sections and what libelf decompressed stay until object_close();
 * so does the file to which dwz moved common parts (.gnu_debugaltlink), which is opened here too.
 * No locks: one thread. Called by main.c, table.c, tables.c, debug.c and walk.c;
 * object_is_discarded() by scopes.c and units.c.
 */
#include "symbolize.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maps the file copy-on-write: see object_has_packed(). NULL or the reason of a failure. */
static const char *
object_map(object_t *object, int fd) {
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size == 0)
		return "not a file with something in it";
	object->size = (size_t)st.st_size;
	object->device = st.st_dev;
	object->inode = st.st_ino;
	object->image = mmap(NULL, object->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
	    fd, 0);
	if (object->image != MAP_FAILED)
		return NULL;
	object->image = NULL;
	return "cannot be mapped";
}

/* Whether the file has this build-id, which has len bytes. */
static bool
is_alt(Dwarf *alt, const void *id, size_t len) {
	const void *found;

	return dwelf_elf_gnu_build_id(dwarf_getelf(alt), &found) == (ssize_t)len && memcmp(found, id,
	    len) == 0;
}

/*
 * Opens the file to which dwz has moved the common parts of several debug files, if the object has
 * a link to one (.gnu_debugaltlink): a path that is absolute or relative to the object's directory.
 * Leaves object->alt NULL if there is none with the right build-id.
 */
static void
object_open_alt(object_t *object) {
	const char *name;
	const void *id;
	char path[PATH_MAX];
	const char *slash = strrchr(object->path, '/');
	ssize_t len;

	len = dwelf_dwarf_gnu_debugaltlink(object->dwarf, &name, &id);
	if (len <= 0)
		return;
	if (name[0] == '/' || slash == NULL)
		snprintf(path, sizeof(path), "%s", name);
	else
		snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - object->path), object->path, name);
	object->alt_fd = file_open(object->root, path);
	if (object->alt_fd >= 0)
		object->alt = dwarf_begin(object->alt_fd, DWARF_C_READ);
	if (object->alt != NULL && !is_alt(object->alt, id, (size_t)len)) {
		dwarf_end(object->alt);
		object->alt = NULL;
	}
}

/*
 * Whether a section is compressed. libelf decompresses it once and marks that in the section's
 * header in the mapping. The older form, .zdebug_*, has no flag there and does not count.
 */
static bool
object_has_packed(object_t *object) {
	GElf_Shdr header;

	for (Elf_Scn *section = NULL; (section = elf_nextscn(object->elf, section)) != NULL;) {
		if (gelf_getshdr(section, &header) != NULL && (header.sh_flags & SHF_COMPRESSED) != 0)
			return true;
	}
	return false;
}

static bool
object_has_code_at_0(object_t *object) {
	GElf_Shdr header;

	for (Elf_Scn *section = NULL; (section = elf_nextscn(object->elf, section)) != NULL;) {
		if (gelf_getshdr(section, &header) != NULL && header.sh_addr == 0
		    && (header.sh_flags & SHF_ALLOC) != 0 && (header.sh_flags & SHF_EXECINSTR) != 0)
			return true;
	}
	return false;
}

bool
object_is_discarded(const object_t *object, Dwarf_Addr start) {
	return start < 2 && !object->has_code_at_0;
}

bool
object_has_lines(object_t *object) {
	size_t names;
	GElf_Shdr header;

	if (elf_getshdrstrndx(object->elf, &names) != 0)
		return false;
	for (Elf_Scn *section = NULL; (section = elf_nextscn(object->elf, section)) != NULL;) {
		const char *name = gelf_getshdr(section, &header) != NULL ? elf_strptr(object->elf, names,
		    header.sh_name) : NULL;

		if (name != NULL && header.sh_type != SHT_NOBITS && (strcmp(name, ".debug_line") == 0
		    || strcmp(name, ".zdebug_line") == 0))
			return true;
	}
	return false;
}

const char *
object_open_fd(object_t *object, int fd, int root, const char *path) {
	GElf_Ehdr header;
	const char *reason;

	memset(object, 0, sizeof(*object));
	object->path = path;
	object->root = root;
	object->alt_fd = -1;
	reason = object_map(object, fd);
	if (reason != NULL)
		return reason;
	object->elf = elf_memory(object->image, object->size);
	if (object->elf == NULL || elf_kind(object->elf) != ELF_K_ELF || gelf_getehdr(object->elf,
	    &header) == NULL)
		return "not an ELF file";
	if (header.e_type == ET_REL)
		return "not linked: an object file of a compiler";
	object->is_packed = object_has_packed(object);
	object->has_code_at_0 = object_has_code_at_0(object);
	return NULL;
}

const char *
object_open(object_t *object, const char *path) {
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* so no pipe blocks */
	const char *reason = "cannot be opened";

	memset(object, 0, sizeof(*object));
	object->alt_fd = -1;
	if (fd < 0)
		return reason;
	reason = object_open_fd(object, fd, AT_FDCWD, path);
	close(fd);
	return reason;
}

const char *
object_add_dwarf(object_t *object) {
	object->dwarf = dwarf_begin_elf(object->elf, DWARF_C_READ, NULL);
	if (object->dwarf == NULL)
		return dwarf_errmsg(-1);
	object_open_alt(object);
	if (object->alt != NULL)
		dwarf_setalt(object->dwarf, object->alt);
	return NULL;
}

void
object_close(object_t *object) {
	if (object->dwarf != NULL)
		dwarf_end(object->dwarf);
	if (object->alt != NULL)
		dwarf_end(object->alt);
	if (object->alt_fd >= 0)
		close(object->alt_fd);
	mini_close(object);
	if (object->elf != NULL)
		elf_end(object->elf);
	if (object->image != NULL)
		munmap(object->image, object->size);
}

bool
object_renew(object_t *object) {
	dwarf_end(object->dwarf);
	object->dwarf = dwarf_begin_elf(object->elf, DWARF_C_READ, NULL);
	if (object->dwarf != NULL && object->alt != NULL)
		dwarf_setalt(object->dwarf, object->alt);
	return object->dwarf != NULL;
}

/* Not with compressed sections, because then libelf has changed pages, which would be lost. */
void
object_forget(object_t *object) {
	if (!object->is_packed)
		(void)madvise(object->image, object->size, MADV_DONTNEED);
}
