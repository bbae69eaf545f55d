/*
 * Keeps profiles in memory until a client outside has read them (prof_handover.h). The text is in a
 * memory file, or in parts of one mebibyte, filled in turn, each with the address of the next one.
 *
 * Parts of a freed profile are kept for the next one (up to SPARE_MAX), because a client that asked
 * once mostly asks again soon, and fresh pages cost processor time.
 *
 * Invariant: nheld is the number of places whose profile is announced, nspare that of the parts in
 * the list of spare ones. The lists of parts, the files and both counts change inside the gate
 * (os/gate.h: fork waits until no thread is inside) only, so a forked child finds them whole. The
 * text is written outside the gate. Locks: none. Called by prof_control.c, by the one thread that
 * serves requests, in which prof_sys.c calls the sink, and in a forked child; but
 * prof_handover_is_any() by any thread, so these two counts are atomic.
 */
#include "prof/control/prof_handover.h"

#include "os/gate.h"
#include "os/memfile.h"
#include "os/nstime.h"
#include "os/pages.h"
#include "os/sys.h"
#include "util/assert.h"
#include "util/atomic.h"

#define PART_BYTES ((size_t)1 << 20) /* a part with its head */
#define PART_ROOM (PART_BYTES - sizeof(prof_part_t)) /* bytes of text in it */
#define SPARE_MAX 8u /* parts that are kept */

cassert(PART_BYTES % PAGE_MAX == 0);

/* One profile. Written by the thread that is serving, and in a forked child by its only thread. */
typedef struct {
	prof_part_t *first;  /* its parts; NULL: none yet, or the text is in the file */
	prof_part_t *last;
	/* used instead of parts if the client may not read the memory of the process */
	memfile_t file;
	uint64_t bytes;      /* of the text */
	uint64_t since_ns;   /* monotonic time of the announcement */
	bool is_held; /* the profile is announced */
} handover_t;

static LARGE_BSS struct {
	prof_stream_t *streams; /* in the mailbox, one for each place; NULL before the first profile */
	handover_t places[PROF_MAILBOX_SLOTS];
	handover_t *current;  /* being written, between begin and end */
	atomic_u32_t nheld;
	prof_part_t *spare;   /* list of kept parts, newest first */
	uint64_t spare_ns;    /* monotonic time at which the newest spare part was freed */
	atomic_u32_t nspare;
} handovers;

static prof_stream_t *
stream_of(const handover_t *h) {
	assert(h >= handovers.places && h < handovers.places + PROF_MAILBOX_SLOTS);
	return &handovers.streams[h - handovers.places];
}

/* ---------------------------------------------------------------- private pages */

static prof_part_t *
part_next(const prof_part_t *p) {
	return (prof_part_t *)(uintptr_t)p->next;
}

/* Returns a kept part, with its old content, or a new one; NULL without memory. */
static prof_part_t *
part_take(void) {
	prof_part_t *p = handovers.spare;
	bool commit = true;
	if (p == NULL) {
		return pages_map(NULL, PART_BYTES, PAGE, &commit);
	}
	assert(atomic_load_u32(&handovers.nspare, MO_RELAXED) > 0);
	handovers.spare = part_next(p);
	atomic_fetch_sub_u32(&handovers.nspare, 1, MO_RELAXED);
	return p;
}

/* Frees a part: keeps it if there is room among the spare ones. */
static void
part_keep_or_unmap(prof_part_t *p) {
	if (atomic_load_u32(&handovers.nspare, MO_RELAXED) >= SPARE_MAX) {
		pages_unmap_in_time(p, PART_BYTES);
		return;
	}
	p->next = (uintptr_t)handovers.spare;
	handovers.spare = p;
	handovers.spare_ns = nstime_monotonic_ns();
	atomic_fetch_add_u32(&handovers.nspare, 1, MO_RELAXED);
}

static void
spare_unmap(void) {
	gate_enter(tls_get());
	while (handovers.spare != NULL) {
		pages_unmap_in_time(part_take(), PART_BYTES);
	}
	assert(atomic_load_u32(&handovers.nspare, MO_RELAXED) == 0);
	gate_exit(tls_get());
}

/* Adds an empty part to the profile; false without memory. */
static bool
part_try_add(handover_t *h) {
	gate_enter(tls_get());
	prof_part_t *p = part_take();
	if (p != NULL) {
		p->next = 0;
		p->bytes = 0;
		if (h->last == NULL) {
			h->first = p;
		} else {
			h->last->next = (uintptr_t)p;
		}
		h->last = p;
	}
	gate_exit(tls_get());
	return p != NULL;
}

/* Appends bytes to the parts of a profile. 0, or ENOMEM: then some of the bytes may be there. */
static int
parts_write(handover_t *h, const char *from, size_t len) {
	assert((h->first == NULL) == (h->last == NULL));
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

/* Withdraws the announcement of a profile and frees its file and parts. */
static void
handover_drop(handover_t *h) {
	gate_enter(tls_get());
	__atomic_store_n(&stream_of(h)->nonce, 0, __ATOMIC_SEQ_CST);
	atomic_fence(MO_SEQ_CST); /* before the pages are written anew */
	if (h->is_held) {
		atomic_fetch_sub_u32(&handovers.nheld, 1, MO_RELAXED);
	}
	memfile_close(&h->file);
	prof_part_t *next;
	for (prof_part_t *p = h->first; p != NULL; p = next) {
		next = part_next(p);
		part_keep_or_unmap(p);
	}
	memset(h, 0, sizeof(*h));
	gate_exit(tls_get());
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
		gate_enter(tls_get());
		memfile_open(&h->file, PROF_MAILBOX_PROFILE_NAME, 0);
		gate_exit(tls_get());
		errno = saved;
	}
}

int
prof_handover_sink(const void *data, size_t len) {
	handover_t *h = handovers.current;
	if (unlikely(h == NULL)) {
		return ECANCELED; /* a child that this thread forked meanwhile */
	}
	h->bytes += len;
	if (!memfile_is_open(&h->file)) {
		return parts_write(h, data, len);
	}
	return !memfile_is_ours(&h->file) ? EBADF
	    : sys_write_all(memfile_fd(&h->file), data, len, 0, NULL);
}

void
prof_handover_end(uint64_t nonce, int err) {
	handover_t *h = handovers.current;
	if (unlikely(h == NULL)) {
		return; /* a child that this thread forked meanwhile */
	}
	prof_stream_t *s = stream_of(h);
	handovers.current = NULL;
	if (err != 0 || nonce == 0) {
		handover_drop(h);
		return;
	}
	gate_enter(tls_get());
	h->is_held = true;
	h->since_ns = nstime_monotonic_ns();
	atomic_fetch_add_u32(&handovers.nheld, 1, MO_RELAXED);
	gate_exit(tls_get());
	__atomic_store_n(&s->bytes, h->bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&s->first, (uintptr_t)h->first, __ATOMIC_RELAXED);
	__atomic_store_n(&s->fd, memfile_fd(&h->file), __ATOMIC_RELAXED);
	__atomic_store_n(&s->is_taken, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&s->nonce, nonce, __ATOMIC_RELEASE);
}

bool
prof_handover_is_any(void) {
	return atomic_load_u32(&handovers.nheld, MO_RELAXED) != 0
	    || atomic_load_u32(&handovers.nspare, MO_RELAXED) != 0;
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
	if (handovers.spare != NULL
	    && nstime_ns_between(handovers.spare_ns, now) >= PROF_HANDOVER_SPARE_NS) {
		spare_unmap();
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
	assert(atomic_load_u32(&handovers.nheld, MO_RELAXED) == 0);
	spare_unmap();
}
