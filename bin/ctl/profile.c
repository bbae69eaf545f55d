/* A profile that waits in the process, fetched: see ask.h and prof_mailbox.h. */
#include "ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ask.h"
#include "memory.h"
#include "talk.h"

enum { PIECE = 1 << 20 };

static uint64_t
stream_at(const process_t *p, unsigned i) {
	return p->block + offsetof(prof_mailbox_t, streams) + i * sizeof(prof_stream_t);
}

/* The place of the profile under this nonce; -1: it is gone, or never was. */
static int
find_stream(const process_t *p, uint64_t nonce, prof_stream_t *s) {
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		if (read_memory(p, stream_at(p, i), s, sizeof(*s)) && s->nonce == nonce) {
			return (int)i;
		}
	}
	return -1;
}

/* From the memory file: also where we may not look into the memory. */
static bool
fetch_file(const process_t *p, const prof_stream_t *s, char *to) {
	static const char want[] = "/memfd:" PROF_MAILBOX_PROFILE_NAME;
	char path[64], link[128];
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", p->pid, s->fd);
	ssize_t n = readlink(path, link, sizeof(link) - 1);
	link[n > 0 ? n : 0] = '\0';
	int fd = strncmp(link, want, sizeof(want) - 1) == 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	uint64_t done = 0;
	while (fd >= 0 && done < s->bytes && (n = pread(fd, to + done, s->bytes - done, (off_t)done)) > 0) {
		done += (uint64_t)n;
	}
	if (fd >= 0) {
		close(fd);
	}
	return done == s->bytes;
}

/* Part by part; each one holds something, so a process that lies keeps us no longer than its own number of bytes says. */
static bool
fetch_parts(const process_t *p, const prof_stream_t *s, char *to) {
	uint64_t done = 0, at = s->first;
	while (done < s->bytes) {
		prof_part_t part;
		if (at == 0 || !read_memory(p, at, &part, sizeof(part)) || part.bytes == 0 || part.bytes > s->bytes - done) {
			return false;
		}
		for (uint64_t from = 0; from < part.bytes;) {
			uint64_t n = part.bytes - from < PIECE ? part.bytes - from : PIECE;
			if (!read_memory(p, at + sizeof(part) + from, to + done, n)) {
				return false;
			}
			from += n;
			done += n;
		}
		at = part.next;
	}
	return true;
}

void
fetch_profile(process_t *p, uint64_t nonce, profile_t *profile) {
	prof_stream_t s;
	uint32_t one = 1;
	int place = find_stream(p, nonce, &s);
	bool is_there = place >= 0;
	if (is_there) {
		profile->text = malloc(s.bytes + 1);
		profile->bytes = s.bytes;
		if (profile->text == NULL) {
			leave(EXIT_FAILED, "%s for the profile", strerror(ENOMEM));
		}
		is_there = s.fd >= 0 ? fetch_file(p, &s, profile->text) : p->way != way_fd && fetch_parts(p, &s, profile->text);
	}
	check_same(p);
	if (!is_there || find_stream(p, nonce, &s) != place) {
		leave(EXIT_FAILED, "%d %s: the profile is gone from its memory: it was not fetched in time", p->pid, p->name);
	}
	write_word(p, stream_at(p, (unsigned)place) + offsetof(prof_stream_t, is_taken), &one, sizeof(one));
	write_word(p, p->block + offsetof(prof_mailbox_t, doorbell), &one, sizeof(one));
}
