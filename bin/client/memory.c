/*
 * Reads and writes the memory of a process (or, at offsets, its mailbox file), and finds the
 * mailbox in it: reads the memory map, and then the head of each mapping in which an ELF object may
 * begin (elf.c). Of several open mailboxes the one with most heartbeats (a count that rises while
 * the process allocates or its profiler's thread runs) is used. Invariant: the search finds a
 * mailbox only after its magic, protocol version, size and place (it begins in a writable mapping)
 * were checked, and it looks at no more than RANGES_MAX mappings and CANDIDATES mailboxes. No
 * locks, no state. The search is called by way.c; client_read_head() by way.c and mailbox.c,
 * jeprof_look() by mailbox.c, bin/ctl and bin/agent; the copying by most files of this folder.
 */
#include "client/target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
	/* CANDIDATES and RANGES_MAX bound one search: a hostile process cannot make it long. */
	/* mailboxes that are read in one process, closed ones too; later ones are ignored */
	CANDIDATES = 16,
	/* mappings that are read; later ones are ignored. The default of vm.max_map_count is 65530. */
	RANGES_MAX = 1 << 17,
};

/* A mapping of the process. */
typedef struct range_s {
	uint64_t start;
	uint64_t end;
	bool is_writable;        /* may be read and written */
	bool may_be_object;      /* an ELF object may begin here */
} range_t;

/* The state of a search for the mailbox. */
typedef struct search_s {
	jeprof_target_t *target;
	client_finding_t *found;
	range_t *ranges;
	size_t count;            /* of ranges */
	uint64_t heartbeats;     /* of the mailbox found so far */
	int looked_at;           /* mailboxes read so far */
} search_t;

bool
client_read_memory(const jeprof_target_t *t, uint64_t at, void *buf, size_t size) {
	if (t->way == jeprof_way_calls) {
		struct iovec here = {buf, size}, there = {(void *)(uintptr_t)at, size};
		return process_vm_readv(t->task, &here, 1, &there, 1, 0) == (ssize_t)size;
	}
	return pread(t->fd, buf, size, (off_t)at) == (ssize_t)size;
}

bool
client_write_memory(const jeprof_target_t *t, uint64_t at, const void *buf, size_t size) {
	if (t->way == jeprof_way_calls) {
		struct iovec here = {(void *)(uintptr_t)buf, size};
		struct iovec there = {(void *)(uintptr_t)at, size};
		return process_vm_writev(t->task, &here, 1, &there, 1, 0) == (ssize_t)size;
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

/* Reads the maps of the process into s->ranges; 0 or an errno. */
static int
read_maps(search_t *s) {
	char path[64], *line = NULL;
	size_t size = 0, room = 0;
	int error = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", s->target->task);
	FILE *maps = fopen(path, "re");
	if (maps == NULL) {
		return errno;
	}
	errno = 0;
	while (error == 0 && s->count < RANGES_MAX && getline(&line, &size, maps) > 0) {
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
	size_t low = 0, high = s->count;
	while (low < high) { /* the first one that ends behind it; the kernel lists them in order */
		size_t middle = (low + high) / 2;
		low = s->ranges[middle].end <= block ? middle + 1 : low;
		high = s->ranges[middle].end <= block ? high : middle;
	}
	return low < s->count && block >= s->ranges[low].start && s->ranges[low].is_writable;
}

/* Checks the mailbox at `block`, which an ELF note names; the result goes to s->found. */
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
		/*
		 * There can be no mailbox at this address, or CANDIDATES were read already. An object that
		 * is only mapped as a file, not loaded, has a note too, but no writable mapping where the
		 * note says.
		 */
		return;
	}
	if (!client_read_memory(s->target, block, &m, sizeof(m)) || m.magic != PROF_MAILBOX_MAGIC) {
		s->found->closed++;
		return;
	}
	if (m.version != PROF_MAILBOX_VERSION) {
		s->found->other_version = m.version;
		return;
	}
	if (m.bytes < sizeof(m)) {
		s->found->closed++; /* it is not made yet, or damaged */
		return;
	}
	if (s->found->block == 0 || m.heartbeats > s->heartbeats) {
		/* Of two loaded copies the one in use has had more heartbeats. */
		s->found->block = block;
		s->heartbeats = m.heartbeats;
	}
}

static bool
read_target(void *arg, uint64_t at, void *buf, size_t size) {
	return client_read_memory(arg, at, buf, size);
}

int
client_find_block(jeprof_target_t *t, client_finding_t *found) {
	search_t s = {.target = t, .found = found};
	client_elf_t elf = {.read = read_target, .arg = t};
	client_object_t o;
	memset(found, 0, sizeof(*found));
	int error = read_maps(&s);
	for (size_t i = 0; error == 0 && i < s.count; i++) {
		if (s.ranges[i].may_be_object && client_read_object(&elf, s.ranges[i].start, &o)
		    && o.has_note) {
			look_at_block(&s, &o.note, o.block);
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
