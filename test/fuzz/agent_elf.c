/*
 * An ELF file with its DWARF as jeprof-symbolize --table reads it: addresses are those at the end
 * of the input, and some that the file itself names. What comes out must be a table. Faults of
 * libdw and libelf themselves are not ours, and are held by the limits of that process; what this
 * looks for are those of our own walk, so the libraries are not instrumented.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tables.h"

enum { ADDRESSES = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
memory_file(const void *data, size_t size) {
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
		abort();
	}
	return fd;
}

static size_t
addresses_choose(object_t *object, const uint8_t *data, size_t size, uint64_t *all) {
	GElf_Ehdr header;
	size_t count = 0;
	for (; count < ADDRESSES / 2 && (count + 1) * 8 <= size; count++) {
		memcpy(&all[count], data + size - (count + 1) * 8, 8);
		all[count] &= 0xffff;
	}
	if (gelf_getehdr(object->elf, &header) != NULL) {
		for (unsigned i = 0; i < ADDRESSES / 2; i++) {
			all[count++] = header.e_entry + 0x10 * i;
		}
	}
	return addresses_sort(all, count);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	uint64_t addresses[ADDRESSES];
	object_t object;
	names_table_t table;
	tables_t t = {.key = "id", .old = -1, .own_root = -1};
	(void)elf_version(EV_CURRENT);
	int in = memory_file(data, size), out = memory_file("", 0);
	if (object_open_fd(&object, in, -1, "/none") == NULL) {
		size_t count = addresses_choose(&object, data, size, addresses);
		if (tables_make(&t, &object, addresses, count) == 0 && tables_write(&t, out) == 0) {
			if (!names_table_try_map(&table, out, "id") || table.head.nrows != count) {
				abort();
			}
			names_table_close(&table);
		}
		tables_free(&t);
	}
	object_close(&object);
	close(in);
	close(out);
	return 0;
}
