/*
 * Reads ELF objects in memory or files (elf.h). Invariant: everything that is read is bounded, in
 * number and size, whatever the headers say. No locks, no state but the caller's. Called by
 * memory.c for the mailbox, by image_maps.c for the mailbox and build ids, and by jeprofd's
 * labels.c for the build id of a file.
 */
#include "client/elf.h"

#include <elf.h>
#include <string.h>

enum {
	PHDRS_MAX = 128,         /* program headers of one object */
	NOTES_MAX = 65536,       /* bytes of one note segment */
	HEADERS_MAX = 4096,     /* ELF objects of one client_elf_t */
	NOTES_SIZE_MAX = 64 << 20,   /* bytes of notes of one client_elf_t */
};

/*
 * Takes the library's own note or the build id from one note. `text` is its description, which lies
 * at the address `body`.
 */
static void
take_note(client_object_t *o, const Elf64_Nhdr *h, const char *name, const char *text,
    uint64_t body) {
	if (h->n_type == PROF_NOTE_TYPE && h->n_namesz == sizeof(PROF_NOTE_OWNER)
	    && h->n_descsz >= sizeof(prof_note_t)
	    && memcmp(name, PROF_NOTE_OWNER, sizeof(PROF_NOTE_OWNER)) == 0) {
		memcpy(&o->note, text, sizeof(o->note));
		o->block = body + offsetof(prof_note_t, distance) + (uint64_t)o->note.distance;
		o->has_note = true;
	}
	if (h->n_type == NT_GNU_BUILD_ID && h->n_namesz == 4 && memcmp(name, "GNU", 4) == 0
	    && o->build_id_len == 0 && h->n_descsz <= sizeof(o->build_id)) {
		memcpy(o->build_id, text, h->n_descsz);
		o->build_id_len = h->n_descsz;
	}
}

/*
 * Takes the notes of one segment, up to a malformed one. Clears o->is_whole if the segment cannot
 * be read or exceeds a bound.
 */
static void
look_at_notes(client_elf_t *elf, client_object_t *o, const Elf64_Phdr *segment) {
	char text[NOTES_MAX];
	uint64_t address = elf->is_file ? segment->p_offset : o->bias + segment->p_vaddr;
	uint64_t bytes = segment->p_filesz;
	if (bytes > sizeof(text) || bytes > NOTES_SIZE_MAX - elf->notes
	    || !elf->read(elf->arg, address, text, bytes)) {
		o->is_whole = false;
		return;
	}
	elf->notes += bytes;
	uint64_t mask = segment->p_align == 8 ? 7 : 3;
	for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes;) {
		Elf64_Nhdr h; /* the same in both classes */
		memcpy(&h, text + at, sizeof(h));
		uint64_t name = at + sizeof(h), body = (name + h.n_namesz + mask) & ~mask;
		at = (body + h.n_descsz + mask) & ~mask;
		if (body + h.n_descsz > bytes) {
			return;
		}
		take_note(o, &h, text + name, text + body, address + body);
	}
}

/* Sets *h from the bytes of a program header; converts a 32-bit one to the 64-bit form. */
static void
take_segment(bool is_64, const char *from, Elf64_Phdr *h) {
	Elf32_Phdr small;
	if (is_64) {
		memcpy(h, from, sizeof(*h));
		return;
	}
	memcpy(&small, from, sizeof(small));
	*h = (Elf64_Phdr){.p_type = small.p_type, .p_offset = small.p_offset, .p_vaddr = small.p_vaddr,
	    .p_filesz = small.p_filesz, .p_memsz = small.p_memsz, .p_align = small.p_align};
}

typedef union {
	unsigned char ident[EI_NIDENT];
	Elf64_Ehdr large;
	Elf32_Ehdr small;
} header_t;

/* Whether it is an ELF header of this machine's byte order. */
static bool
is_ours(const header_t *e) {
	static const uint16_t order = 1;
	int data = *(const char *)&order == 1 ? ELFDATA2LSB : ELFDATA2MSB;
	return memcmp(e->ident, ELFMAG, SELFMAG) == 0 && e->ident[EI_DATA] == data;
}

/* Sets bias, start and end of the object from its loaded segments; false if it has none. */
static bool
take_range(client_object_t *o, uint64_t start, const Elf64_Phdr *h, unsigned count) {
	bool has_bias = false;
	for (unsigned i = 0; i < count; i++) {
		if (h[i].p_type != PT_LOAD) {
			continue;
		}
		if (!has_bias) {
			o->bias = start + h[i].p_offset - h[i].p_vaddr;
			o->start = o->bias + h[i].p_vaddr;
			has_bias = true;
		}
		uint64_t end = o->bias + h[i].p_vaddr + h[i].p_memsz;
		o->end = end > o->end ? end : o->end;
	}
	return has_bias;
}

bool
client_read_object(client_elf_t *elf, uint64_t start, client_object_t *o) {
	char segments[PHDRS_MAX * 2 * sizeof(Elf64_Phdr)];
	Elf64_Phdr h[PHDRS_MAX];
	header_t e;
	memset(o, 0, sizeof(*o));
	if (elf->headers >= HEADERS_MAX || !elf->read(elf->arg, start, &e, sizeof(e))
	    || !is_ours(&e)) {
		return false;
	}
	elf->headers++;
	bool is_64 = e.ident[EI_CLASS] == ELFCLASS64;
	uint64_t table = start + (is_64 ? e.large.e_phoff : e.small.e_phoff);
	unsigned size = is_64 ? e.large.e_phentsize : e.small.e_phentsize;
	unsigned count = is_64 ? e.large.e_phnum : e.small.e_phnum;
	if (size < (is_64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr)) || count > PHDRS_MAX
	    || size * count > sizeof(segments)
	    || !elf->read(elf->arg, table, segments, size * count)) {
		return false;
	}
	for (unsigned i = 0; i < count; i++) {
		take_segment(is_64, segments + i * size, &h[i]);
	}
	o->is_whole = true;
	if (!take_range(o, start, h, count)) {
		return false;
	}
	for (unsigned i = 0; i < count; i++) {
		if (h[i].p_type == PT_NOTE) {
			look_at_notes(elf, o, &h[i]);
		}
	}
	return true;
}
