/*
 * Reads and writes the memory of a process, and finds the mailbox in it: reads the memory map,
 * reads the ELF headers of each mapping that may begin an object, and searches their notes for the
 * one that has the distance to the mailbox. Of several open mailboxes the one with most heartbeats
 * is used. Invariant: a mailbox is used only after its magic, protocol version and place (a
 * writable mapping) were checked, and the amount read from one process is bounded. No locks, no
 * state. Called by way.c, mailbox.c, pending.c and stream.c.
 */
#include "client/target.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	CANDIDATES = 16,   /* mailboxes that are read in one process */
	PHDRS_MAX = 128,   /* program headers of one object */
	NOTES_MAX = 65536, /* bytes of one note segment */
	/* Bounds of one search, so that a hostile process cannot make it long. */
	HEADERS_MOST = 4096,     /* ELF objects */
	NOTES_MOST = 64 << 20,   /* bytes of notes */
	RANGES_MOST = 1 << 17,   /* mappings; the kernel allows 65530 by default */
};

/* A mapping of the process. */
typedef struct range_s {
	uint64_t start;
	uint64_t end;
	bool is_writable;
	bool may_be_object;      /* an ELF object may begin here */
} range_t;

/* The state of a search for the mailbox. */
typedef struct search_s {
	const jeprof_target_t *target;
	client_finding_t *found;
	range_t *ranges;
	size_t count;            /* of ranges */
	uint64_t heartbeats;     /* of the mailbox found so far */
	int looked_at;           /* mailboxes read so far */
	int headers;             /* ELF objects found so far */
	uint64_t notes_left;     /* bytes of notes that may still be read */
} search_t;

bool
client_read_memory(const jeprof_target_t *t, uint64_t at, void *buf, size_t size) {
	if (t->way == jeprof_way_calls) {
		struct iovec here = {buf, size}, there = {(void *)(uintptr_t)at, size};
		return process_vm_readv(t->pid, &here, 1, &there, 1, 0) == (ssize_t)size;
	}
	return pread(t->fd, buf, size, (off_t)at) == (ssize_t)size;
}

bool
client_write_memory(const jeprof_target_t *t, uint64_t at, const void *buf, size_t size) {
	if (t->way == jeprof_way_calls) {
		struct iovec here = {(void *)(uintptr_t)buf, size};
		struct iovec there = {(void *)(uintptr_t)at, size};
		return process_vm_writev(t->pid, &here, 1, &there, 1, 0) == (ssize_t)size;
	}
	return pwrite(t->fd, buf, size, (off_t)at) == (ssize_t)size;
}

/* Adds the mapping of a line of /proc/PID/maps; ignores a malformed line. 0 or ENOMEM. */
static int
add_range(search_t *s, const char *line, size_t *room) {
	uint64_t start, end, offset;
	char perms[8];
	int named = 0;
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n", &start, &end, perms,
	    &offset, &named) < 4) {
		return 0;
	}
	if (s->count == *room) {
		*room = *room * 2 + 64;
		range_t *more = realloc(s->ranges, *room * sizeof(range_t));
		if (more == NULL) {
			return ENOMEM;
		}
		s->ranges = more;
	}
	bool has_file = named > 0 && line[named] == '/';
	bool may_be = perms[0] == 'r' && offset == 0 && (has_file || perms[1] != 'w');
	s->ranges[s->count++] = (range_t){start, end, perms[0] == 'r' && perms[1] == 'w', may_be};
	return 0;
}

/* Reads /proc/PID/maps into s->ranges; 0 or an errno. */
static int
read_maps(search_t *s) {
	char path[64], *line = NULL;
	size_t size = 0, room = 0;
	int error = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", s->target->pid);
	FILE *maps = fopen(path, "re");
	if (maps == NULL) {
		return errno;
	}
	errno = 0;
	while (error == 0 && s->count < RANGES_MOST && getline(&line, &size, maps) > 0) {
		error = add_range(s, line, &room);
	}
	if (error == 0 && ferror(maps)) {
		error = errno != 0 ? errno : EACCES;
	}
	free(line);
	fclose(maps);
	return error;
}

static bool
is_in_writable(const search_t *s, uint64_t block) {
	for (size_t i = 0; i < s->count; i++) {
		const range_t *r = &s->ranges[i];
		if (r->is_writable && block >= r->start && block < r->end) {
			return true;
		}
	}
	return false;
}

/* Checks the mailbox at the address that a note gives, and notes the result in s->found. */
static void
look_at_block(search_t *s, const prof_note_t *note, uint64_t block) {
	prof_mailbox_t m;
	if (note->version != PROF_MAILBOX_VERSION) {
		s->found->other_version = note->version;
		return;
	}
	if (note->bytes == 0) {
		s->found->is_without = true;
		return;
	}
	if (!is_in_writable(s, block) || block % 8 != 0 || note->bytes < sizeof(m)
	    || ++s->looked_at > CANDIDATES) {
		return; /* the object is mapped as a file for reading, not loaded */
	}
	if (!client_read_memory(s->target, block, &m, sizeof(m)) || m.magic != PROF_MAILBOX_MAGIC) {
		s->found->closed++;
		return;
	}
	if (m.version != PROF_MAILBOX_VERSION || m.bytes < sizeof(m)) {
		s->found->other_version = m.version;
		return;
	}
	if (s->found->block == 0 || m.heartbeats > s->heartbeats) {
		/* Of two loaded copies the one in use has had more heartbeats. */
		s->found->block = block;
		s->heartbeats = m.heartbeats;
	}
}

/* Reads a note segment and checks the mailbox of each note that names one. */
static void
look_at_notes(search_t *s, uint64_t address, uint64_t bytes, uint64_t align) {
	char text[NOTES_MAX];
	if (bytes > sizeof(text) || bytes > s->notes_left
	    || !client_read_memory(s->target, address, text, bytes)) {
		return;
	}
	s->notes_left -= bytes;
	uint64_t mask = align == 8 ? 7 : 3;
	for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= bytes;) {
		Elf64_Nhdr h; /* the same in both classes */
		memcpy(&h, text + at, sizeof(h));
		uint64_t name = at + sizeof(h), body = (name + h.n_namesz + mask) & ~mask;
		at = (body + h.n_descsz + mask) & ~mask;
		if (body + h.n_descsz > bytes) {
			return;
		}
		if (h.n_type == PROF_NOTE_TYPE && h.n_namesz == sizeof(PROF_NOTE_OWNER)
		    && h.n_descsz >= sizeof(prof_note_t)
		    && memcmp(text + name, PROF_NOTE_OWNER, sizeof(PROF_NOTE_OWNER)) == 0) {
			prof_note_t note;
			memcpy(&note, text + body, sizeof(note));
			uint64_t field = address + body + offsetof(prof_note_t, distance);
			look_at_block(s, &note, field + (uint64_t)note.distance);
		}
	}
}

/* Copies a program header of the process, and converts a 32-bit one to the 64-bit form. */
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

/* Searches the notes of the ELF object that begins at `start`, if one does. */
static void
look_at_object(search_t *s, uint64_t start) {
	char segments[PHDRS_MAX * 2 * sizeof(Elf64_Phdr)];
	header_t e;
	if (!client_read_memory(s->target, start, &e, sizeof(e)) || !is_ours(&e)) {
		return;
	}
	s->headers++;
	bool is_64 = e.ident[EI_CLASS] == ELFCLASS64, has_bias = false;
	uint64_t table = start + (is_64 ? e.large.e_phoff : e.small.e_phoff), bias = 0;
	unsigned size = is_64 ? e.large.e_phentsize : e.small.e_phentsize;
	unsigned count = is_64 ? e.large.e_phnum : e.small.e_phnum;
	if (size < (is_64 ? sizeof(Elf64_Phdr) : sizeof(Elf32_Phdr)) || count > PHDRS_MAX
	    || size * count > sizeof(segments)
	    || !client_read_memory(s->target, table, segments, size * count)) {
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
			look_at_notes(s, bias + h.p_vaddr, h.p_filesz, h.p_align);
		}
	}
}

int
client_find_block(jeprof_target_t *t, client_finding_t *found) {
	search_t s = {.target = t, .found = found, .notes_left = NOTES_MOST};
	memset(found, 0, sizeof(*found));
	int error = read_maps(&s);
	for (size_t i = 0; error == 0 && i < s.count && s.headers < HEADERS_MOST; i++) {
		if (s.ranges[i].may_be_object) {
			look_at_object(&s, s.ranges[i].start);
		}
	}
	free(s.ranges);
	t->block = found->block;
	return error;
}

bool
client_read_head(jeprof_target_t *t) {
	prof_mailbox_t m;
	if (t->way == jeprof_way_none || t->way == jeprof_way_dir
	    || !client_read_memory(t, t->block, &m, offsetof(prof_mailbox_t, slots))
	    || m.magic != PROF_MAILBOX_MAGIC || m.version != PROF_MAILBOX_VERSION) {
		return false;
	}
	t->head = (jeprof_head_t){.state = m.state, .pid = m.pid,
	    .is_barred = (m.flags & PROF_MAILBOX_BARRED) != 0, .session_id = m.session_id,
	    .session_start_ns = m.session_start_ns, .heartbeats = m.heartbeats, .instance = m.instance};
	memcpy(t->head.library_version, m.library_version, sizeof(t->head.library_version));
	t->head.library_version[sizeof(t->head.library_version) - 1] = '\0';
	return true;
}

int
jeprof_look(jeprof_target_t *t) {
	return client_read_head(t) ? 0 : client_memory_gone(t);
}
