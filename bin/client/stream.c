/*
 * Fetches a profile that the process holds ready (prof_mailbox.h has the format): from a memfd of
 * the process if the stream names one, otherwise from a linked list of parts in its memory.
 * Afterwards it checks that the profile was still there, and tells the process to free the profile.
 * Invariant: the size is bounded by bytes_max, whatever the process writes. To fetch a list may
 * take taken_ms (of the request): that is checked after each part, the last one too, not within
 * one. To fetch a memfd has no time limit. What is not fetched the process frees after 30 s. No
 * locks, no state but the target's. Called by mailbox.c.
 */
#include "client/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 20 }; /* most bytes of the memory that are read at once */
#define BYTES_MAX (UINT64_C(4) << 30) /* default of request.bytes_max */

/*
 * Address of the i-th stream (prof_stream_t: where the profile for the i-th slot is). If the
 * mailbox is a memfd, its offset in that, as t->block is 0 then.
 */
static uint64_t
stream_at(const jeprof_target_t *t, unsigned i) {
	return t->block + offsetof(prof_mailbox_t, streams) + i * sizeof(prof_stream_t);
}

/* Reads the stream with this nonce into *s and returns its index; -1: none, or it is unreadable. */
static int
find_stream(const jeprof_target_t *t, uint64_t nonce, prof_stream_t *s) {
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		if (client_read_memory(t, stream_at(t, i), s, sizeof(*s)) && s->nonce == nonce) {
			return (int)i;
		}
	}
	return -1;
}

/*
 * Copies the profile from its memfd, which works even without access to the memory of the process.
 * False: not all bytes were copied.
 */
static bool
fetch_file(const jeprof_target_t *t, const prof_stream_t *s, char *to) {
	static const char want[] = "/memfd:" PROF_MAILBOX_PROFILE_NAME;
	char path[64], link[128];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", t->task, s->fd);
	client_read_link(path, link, sizeof(link));
	int fd = strncmp(link, want, sizeof(want) - 1) == 0
	    ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	bool is_file = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
	uint64_t done = 0;
	ssize_t n;
	while (is_file && done < s->bytes
	    && (n = pread(fd, to + done, s->bytes - done, (off_t)done)) > 0) {
		done += (uint64_t)n;
	}
	if (fd >= 0) {
		close(fd);
	}
	return done == s->bytes;
}

static bool
fetch_part(const jeprof_target_t *t, uint64_t at, char *to, uint64_t bytes) {
	for (uint64_t from = 0; from < bytes;) {
		uint64_t n = bytes - from < PIECE ? bytes - from : PIECE;
		if (!client_read_memory(t, at + from, to + from, n)) {
			return false;
		}
		from += n;
	}
	return true;
}

/*
 * Copies the profile part by part from the memory. No part may be empty or too long, so that a
 * forged list ends. 0, EIO or ETIMEDOUT.
 */
static int
fetch_parts(const jeprof_target_t *t, const prof_stream_t *s, int64_t deadline, char *to) {
	uint64_t done = 0, at = s->first;
	while (done < s->bytes) {
		prof_part_t part;
		if (at == 0 || !client_read_memory(t, at, &part, sizeof(part)) || part.bytes == 0
		    || part.bytes > s->bytes - done
		    || !fetch_part(t, at + sizeof(part), to + done, part.bytes)) {
			return EIO;
		}
		done += part.bytes;
		at = part.next;
		if (client_now_ms() >= deadline) {
			return ETIMEDOUT;
		}
	}
	return 0;
}

static int
fetch_whole(const jeprof_target_t *t, const prof_stream_t *s, int64_t deadline, char *to) {
	if (s->fd >= 0) {
		return fetch_file(t, s, to) ? 0 : EIO;
	}
	return t->way != jeprof_way_memfd ? fetch_parts(t, s, deadline, to) : EIO;
}

/*
 * Tells the process that the profile was fetched, so that the process frees it. 0 or ESRCH, which
 * stands also for the errno with which jeprof_check_same() cannot read /proc.
 */
static int
acknowledge(jeprof_target_t *t, unsigned place) {
	uint32_t one = 1;
	int error = client_write_word(t, stream_at(t, place) + offsetof(prof_stream_t, is_taken), &one,
	    sizeof(one));
	return error != 0 ? error : client_write_word(t, t->block + offsetof(prof_mailbox_t, doorbell),
	    &one, sizeof(one));
}

/*
 * Copies the profile into text, checks that it was still there, acknowledges it. 0 or an errno.
 * EIO: not all could be copied, or it is gone since; the sentence names the usual reason for both.
 */
static int
fetch_into(jeprof_target_t *t, uint64_t nonce, int place, int64_t deadline, prof_stream_t *s,
    char *text) {
	prof_stream_t after;
	int error = fetch_whole(t, s, deadline, text);
	int gone = jeprof_check_same(t);
	if (gone != 0) {
		return gone;
	}
	if (error == ETIMEDOUT) {
		return client_fail(t, ETIMEDOUT, "%d %s: its profile takes too long to read", t->pid,
		    t->name);
	}
	if (error != 0 || find_stream(t, nonce, &after) != place) {
		return client_fail(t, EIO,
		    "%d %s: the profile is gone from its memory: it was not fetched in time", t->pid,
		    t->name);
	}
	return acknowledge(t, (unsigned)place);
}

int
client_fetch(jeprof_target_t *t, uint64_t nonce, const jeprof_request_t *r, jeprof_reply_t *reply) {
	prof_stream_t s;
	int place = find_stream(t, nonce, &s);
	uint64_t most = r->bytes_max != 0 ? r->bytes_max : BYTES_MAX;
	most = most < SIZE_MAX ? most : SIZE_MAX - 1; /* one byte more is allocated, for a NUL */
	if (place < 0) {
		return client_fail(t, EIO,
		    "%d %s: the profile is gone from its memory: it was not fetched in time", t->pid,
		    t->name);
	}
	if (s.bytes > most) {
		return client_fail(t, EFBIG, "%d %s: its profile has %llu bytes, more than the %llu "
		    "allowed", t->pid, t->name, (unsigned long long)s.bytes, (unsigned long long)most);
	}
	char *text = malloc(s.bytes + 1);
	if (text == NULL) {
		return client_fail(t, ENOMEM, "%s for the profile", strerror(ENOMEM));
	}
	int error = fetch_into(t, nonce, place, client_now_ms() + client_taken_ms(r), &s, text);
	if (error != 0) {
		free(text);
		return error;
	}
	text[s.bytes] = '\0';
	reply->profile = text;
	reply->profile_bytes = s.bytes;
	return 0;
}
