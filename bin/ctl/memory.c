/* The memory of a process and the block in it: see memory.h. */
#include "ctl.h"

#include "memory.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "talk.h"

enum {
	CANDIDATES = 16, /* blocks looked at in one process */
	PHDRS_MAX = 128,
	NOTES_MAX = 65536,
	/* Of one process, all in all: a hostile one does not keep us reading. */
	HEADERS_MOST = 4096,
	NOTES_MOST = 64 << 20,
};

bool
read_memory(const process_t *p, uint64_t at, void *buf, size_t size) {
	if (p->way == way_vm) {
		struct iovec here = {buf, size}, there = {(void *)(uintptr_t)at, size};
		return process_vm_readv(p->pid, &here, 1, &there, 1, 0) == (ssize_t)size;
	}
	return pread(p->fd, buf, size, (off_t)at) == (ssize_t)size;
}

bool
write_memory(const process_t *p, uint64_t at, const void *buf, size_t size) {
	if (p->way == way_vm) {
		struct iovec here = {(void *)(uintptr_t)buf, size}, there = {(void *)(uintptr_t)at, size};
		return process_vm_writev(p->pid, &here, 1, &there, 1, 0) == (ssize_t)size;
	}
	return pwrite(p->fd, buf, size, (off_t)at) == (ssize_t)size;
}

/* False if the maps may not be read. */
static bool
read_maps(const process_t *p, finding_t *f) {
	char path[64], *line = NULL;
	size_t size = 0, room = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", p->pid);
	FILE *maps = fopen(path, "re");
	if (maps == NULL) {
		return false;
	}
	while (getline(&line, &size, maps) > 0) {
		uint64_t start, end, offset;
		char perms[8];
		int named = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &start, &end, perms, &offset, &named) < 4) {
			continue;
		}
		if (f->count == room) {
			room = room * 2 + 64;
			f->ranges = realloc(f->ranges, room * sizeof(range_t));
			if (f->ranges == NULL) {
				leave(EXIT_FAILED, "%s", strerror(ENOMEM));
			}
		}
		bool has_file = named > 0 && line[named] == '/';
		bool may_be = perms[0] == 'r' && offset == 0 && (has_file || perms[1] != 'w');
		f->ranges[f->count++] = (range_t){start, end, perms[0] == 'r' && perms[1] == 'w', may_be};
	}
	bool is_read = !ferror(maps);
	free(line);
	fclose(maps);
	return is_read;
}

static void
look_at_block(const process_t *p, finding_t *f, const prof_note_t *note, uint64_t block) {
	prof_mailbox_t m;
	if (note->version != PROF_MAILBOX_VERSION) {
		f->other_version = note->version;
		return;
	}
	if (note->bytes == 0) {
		f->is_without = true;
		return;
	}
	bool is_inside = false;
	for (size_t i = 0; i < f->count && !is_inside; i++) {
		const range_t *r = &f->ranges[i];
		is_inside = r->is_writable && block >= r->start && block < r->end;
	}
	if (!is_inside || block % 8 != 0 || note->bytes < sizeof(m) || ++f->looked_at > CANDIDATES) {
		return; /* the object lies there as a file that somebody reads */
	}
	if (!read_memory(p, block, &m, sizeof(m)) || m.magic != PROF_MAILBOX_MAGIC) {
		f->closed++;
		return;
	}
	if (m.version != PROF_MAILBOX_VERSION || m.bytes < sizeof(m)) {
		f->other_version = m.version;
		return;
	}
	if (f->block == 0 || m.heartbeats > f->heartbeats) { /* two copies of the library: the one that is used */
		f->block = block;
		f->heartbeats = m.heartbeats;
	}
}

static void
look_at_notes(const process_t *p, finding_t *f, uint64_t address, uint64_t bytes, uint64_t align) {
	static char text[NOTES_MAX];
	if (bytes > sizeof(text) || bytes > f->notes_left || !read_memory(p, address, text, bytes)) {
		return;
	}
	f->notes_left -= bytes;
	uint64_t mask = align == 8 ? 7 : 3;
	for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes;) {
		Elf64_Nhdr h; /* the same in both classes */
		memcpy(&h, text + at, sizeof(h));
		uint64_t name = at + sizeof(h), body = (name + h.n_namesz + mask) & ~mask;
		at = (body + h.n_descsz + mask) & ~mask;
		if (body + h.n_descsz > bytes) {
			return;
		}
		if (h.n_type == PROF_NOTE_TYPE && h.n_namesz == sizeof(PROF_NOTE_OWNER) && h.n_descsz >= sizeof(prof_note_t)
		    && memcmp(text + name, PROF_NOTE_OWNER, sizeof(PROF_NOTE_OWNER)) == 0) {
			prof_note_t note;
			memcpy(&note, text + body, sizeof(note));
			uint64_t field = address + body + offsetof(prof_note_t, distance);
			look_at_block(p, f, &note, field + (uint64_t)note.distance);
		}
	}
}

/* A segment as it lies in the table, in the 64-bit form. */
static void
take_segment(bool is_64, const char *from, Elf64_Phdr *h) {
	Elf32_Phdr small;
	if (is_64) {
		memcpy(h, from, sizeof(*h));
		return;
	}
	memcpy(&small, from, sizeof(small));
	*h = (Elf64_Phdr){.p_type = small.p_type, .p_offset = small.p_offset, .p_vaddr = small.p_vaddr,
	    .p_filesz = small.p_filesz, .p_align = small.p_align};
}

/* An ELF object whose first byte is at `start`. */
static void
look_at_object(const process_t *p, finding_t *f, uint64_t start) {
	static const uint16_t order = 1;
	static char segments[PHDRS_MAX * 2 * sizeof(Elf64_Phdr)];
	union {
		unsigned char ident[EI_NIDENT];
		Elf64_Ehdr large;
		Elf32_Ehdr small;
	} e;
	if (!read_memory(p, start, &e, sizeof(e)) || memcmp(e.ident, ELFMAG, SELFMAG) != 0
	    || e.ident[EI_DATA] != (*(const char *)&order == 1 ? ELFDATA2LSB : ELFDATA2MSB)) {
		return;
	}
	f->headers++;
	bool is_64 = e.ident[EI_CLASS] == ELFCLASS64, has_bias = false;
	uint64_t table = start + (is_64 ? e.large.e_phoff : e.small.e_phoff), bias = 0;
	unsigned size = is_64 ? e.large.e_phentsize : e.small.e_phentsize;
	unsigned count = is_64 ? e.large.e_phnum : e.small.e_phnum;
	if (size < (is_64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr)) || count > PHDRS_MAX || size * count > sizeof(segments)
	    || !read_memory(p, table, segments, size * count)) {
		return;
	}
	Elf64_Phdr h;
	for (unsigned i = 0; i < count && !has_bias; i++) {
		take_segment(is_64, segments + i * size, &h);
		has_bias = h.p_type == PT_LOAD;
		bias = start + h.p_offset - h.p_vaddr;
	}
	for (unsigned i = 0; i < count && has_bias; i++) {
		take_segment(is_64, segments + i * size, &h);
		if (h.p_type == PT_NOTE) {
			look_at_notes(p, f, bias + h.p_vaddr, h.p_filesz, h.p_align);
		}
	}
}

bool
find_block(process_t *p, finding_t *f) {
	memset(f, 0, sizeof(*f));
	f->notes_left = NOTES_MOST;
	if (!read_maps(p, f)) {
		return false;
	}
	for (size_t i = 0; i < f->count && f->headers < HEADERS_MOST; i++) {
		if (f->ranges[i].may_be_object) {
			look_at_object(p, f, f->ranges[i].start);
		}
	}
	free(f->ranges);
	f->ranges = NULL;
	p->block = f->block;
	return true;
}

bool
read_head(process_t *p) {
	return p->way != way_dir && read_memory(p, p->block, &p->head, offsetof(prof_mailbox_t, slots))
	    && p->head.magic == PROF_MAILBOX_MAGIC && p->head.version == PROF_MAILBOX_VERSION;
}
