/*
 * Keeps profiles in memory until a client outside has read them (prof_handover.h). The text is in
 * parts of one mebibyte, filled from the front, each with the address of the next one.
 *
 * Invariant: nheld is the number of places whose profile is announced. Locks: none; one thread at a
 * time calls, the one that serves requests in prof_control.c.
 */
#include "prof/control/prof_handover.h"

#include "os/memfile.h"
#include "os/nstime.h"
#include "os/pages.h"
#include "os/sys.h"
#include "util/assert.h"
#include "util/atomic.h"

#define PART_BYTES ((size_t)1 << 20)
#define PART_ROOM (PART_BYTES - sizeof(prof_part_t))

cassert(PART_BYTES % PAGE_MAX == 0);

/* One profile. Written by the thread that is serving, and in a forked child by its only thread. */
typedef struct {
	prof_part_t *first;
	prof_part_t *last;
	/* used instead of parts if the client may not read the memory of the process */
	memfile_t file;
	uint64_t bytes;
	uint64_t since_ns;   /* monotonic time of the announcement */
	bool is_held; /* the profile is announced */
} handover_t;

static struct {
	prof_stream_t *streams;
	handover_t places[PROF_MAILBOX_SLOTS];
	handover_t *current;  /* being written, between begin and end */
	atomic_u32_t nheld;
} handovers;

static prof_stream_t *
stream_of(const handover_t *h) {
	return &handovers.streams[h - handovers.places];
}

/* ---------------------------------------------------------------- private pages */

static bool
part_try_add(handover_t *h) {
	bool commit = true;
	prof_part_t *p = pages_map(NULL, PART_BYTES, PAGE, &commit);
	if (p == NULL) {
		return false;
	}
	p->next = 0;
	p->bytes = 0;
	if (h->last == NULL) {
		h->first = p;
	} else {
		h->last->next = (uintptr_t)p;
	}
	h->last = p;
	return true;
}

static int
parts_write(handover_t *h, const char *from, size_t len) {
	while (len > 0) {
		if ((h->last == NULL || h->last->bytes == PART_ROOM) && !part_try_add(h)) {
			return ENOMEM;
		}
		size_t n = min_zu(len, PART_ROOM - (size_t)h->last->bytes);
		memcpy((char *)(h->last + 1) + h->last->bytes, from, n);
		h->last->bytes += n;
		from += n;
		len -= n;
	}
	return 0;
}

/* ---------------------------------------------------------------- life */

static void
handover_drop(handover_t *h) {
	__atomic_store_n(&stream_of(h)->nonce, 0, __ATOMIC_SEQ_CST);
	if (h->is_held) {
		atomic_fetch_sub_u32(&handovers.nheld, 1, MO_RELAXED);
	}
	memfile_close(&h->file);
	prof_part_t *next;
	for (prof_part_t *p = h->first; p != NULL; p = next) {
		next = (prof_part_t *)(uintptr_t)p->next;
		pages_unmap_in_time(p, PART_BYTES);
	}
	memset(h, 0, sizeof(*h));
}

void
prof_handover_begin(prof_stream_t *streams, unsigned place, bool is_file) {
	assert(place < PROF_MAILBOX_SLOTS && handovers.current == NULL);
	handover_t *h = &handovers.places[place];
	handovers.streams = streams;
	handover_drop(h);
	handovers.current = h;
	if (is_file) {
		int saved = errno;
		memfile_open(&h->file, PROF_MAILBOX_PROFILE_NAME, 0);
		errno = saved;
	}
}

int
prof_handover_sink(const void *data, size_t len) {
	handover_t *h = handovers.current;
	assert(h != NULL);
	h->bytes += len;
	if (!memfile_is_open(&h->file)) {
		return parts_write(h, data, len);
	}
	return memfile_is_ours(&h->file) ? sys_write_all(memfile_fd(&h->file), data, len, NULL) : EBADF;
}

void
prof_handover_end(uint64_t nonce, int err) {
	handover_t *h = handovers.current;
	prof_stream_t *s = stream_of(h);
	handovers.current = NULL;
	if (err != 0 || nonce == 0) {
		handover_drop(h);
		return;
	}
	h->is_held = true;
	h->since_ns = nstime_monotonic_ns();
	atomic_fetch_add_u32(&handovers.nheld, 1, MO_RELAXED);
	__atomic_store_n(&s->bytes, h->bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&s->first, (uintptr_t)h->first, __ATOMIC_RELAXED);
	__atomic_store_n(&s->fd, memfile_fd(&h->file), __ATOMIC_RELAXED);
	__atomic_store_n(&s->is_taken, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&s->nonce, nonce, __ATOMIC_RELEASE);
}

bool
prof_handover_is_any(void) {
	return atomic_load_u32(&handovers.nheld, MO_RELAXED) != 0;
}

void
prof_handover_tick(void) {
	uint64_t now = prof_handover_is_any() ? nstime_monotonic_ns() : 0;
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS && prof_handover_is_any(); i++) {
		handover_t *h = &handovers.places[i];
		if (h->is_held && (__atomic_load_n(&stream_of(h)->is_taken, __ATOMIC_ACQUIRE) != 0
		    || nstime_ns_between(h->since_ns, now) >= PROF_HANDOVER_NS)) {
			handover_drop(h);
		}
	}
}

void
prof_handover_postfork_child(void) {
	handovers.current = NULL;
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		if (handovers.places[i].first != NULL || memfile_is_open(&handovers.places[i].file)) {
			handover_drop(&handovers.places[i]);
		}
	}
	atomic_store_u32(&handovers.nheld, 0, MO_RELAXED);
}
