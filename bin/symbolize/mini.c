/*
 * Unpacks the symbol table that a stripped object may carry (.gnu_debugdata): an ELF file packed by
 * xz, whose .symtab has the functions that .dynsym lacks. Fedora and its kin make such objects.
 * Invariant: unpacked data take MINI_MAX bytes at most; larger ones count as none. The unpacker is
 * liblzma, loaded only here, so the program runs without it. No locks: one thread. Called by
 * symbols.c (elf_of) and object.c (object_close).
 */
#include "symbolize.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MINI_MAX = 1 << 28 };	/* bytes */

/* What lzma_stream_buffer_decode() of liblzma returns. */
enum { LZMA_DONE = 0, LZMA_NO_ROOM = 10 };

typedef int decode_t(uint64_t *memory_most, uint32_t flags, const void *allocator,
    const uint8_t *in, size_t *in_at, size_t in_size, uint8_t *out, size_t *out_at,
    size_t out_size);

/* Returns the unpacked bytes, which the caller frees, and their number in *size; NULL: none. */
static char *
unpack(const Elf_Data *packed, size_t *size) {
	void *library = dlopen("liblzma.so.5", RTLD_NOW | RTLD_LOCAL);
	decode_t *decode = NULL;

	if (library != NULL)
		*(void **)&decode = dlsym(library, "lzma_stream_buffer_decode");
	for (size_t room = 4096 + 8 * packed->d_size, last = 0; decode != NULL && last < MINI_MAX;
	    last = room, room *= 2) {
		room = room < MINI_MAX ? room : MINI_MAX;
		uint64_t memory_most = MINI_MAX;
		size_t in_at = 0;
		char *image = malloc(room);
		int result = image == NULL ? -1 : decode(&memory_most, 0, NULL, packed->d_buf, &in_at,
		    packed->d_size, (uint8_t *)image, (*size = 0, size), room);

		if (result == LZMA_DONE)
			return image;
		free(image);
		if (result != LZMA_NO_ROOM)
			break;
	}
	return NULL;
}

/* The section of this name that has bytes in the file; NULL: there is none. */
static Elf_Data *
section_data(Elf *elf, const char *wanted) {
	size_t names;
	GElf_Shdr header;

	if (elf_getshdrstrndx(elf, &names) != 0)
		return NULL;
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
		const char *name = gelf_getshdr(section, &header) != NULL ? elf_strptr(elf, names,
		    header.sh_name) : NULL;

		if (name != NULL && header.sh_type != SHT_NOBITS && strcmp(name, wanted) == 0)
			return elf_rawdata(section, NULL);
	}
	return NULL;
}

Elf *
mini_elf(object_t *object) {
	Elf_Data *packed;
	size_t size;

	if (object->is_mini_known)
		return object->mini;
	object->is_mini_known = true;
	packed = section_data(object->elf, ".gnu_debugdata");
	object->mini_image = packed != NULL && packed->d_buf != NULL ? unpack(packed, &size) : NULL;
	if (object->mini_image != NULL)
		object->mini = elf_memory(object->mini_image, size);
	return object->mini;
}

void
mini_close(object_t *object) {
	if (object->mini != NULL)
		elf_end(object->mini);
	free(object->mini_image);
}
