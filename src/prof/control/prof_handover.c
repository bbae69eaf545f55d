/*
 * Keeps profiles in memory until a client outside has read them (prof_handover.h). The text is in a
 * memory file, or in memory that grows, behind the head of one part (prof_part_t).
 *
 * Memory of a freed profile is kept for the next one (up to SPARE_MAX), because a client that asked
 * once mostly asks again soon, and fresh pages cost processor time.
 *
 * Invariant: nheld is the number of places whose profile is announced, has_spare tells whether
 * there is spare memory. The memory, the files and these two change inside the gate (os/gate.h:
 * fork waits until no thread is inside) only, so a forked child finds them whole. The text is
 * written outside the gate. Locks: none. Called by prof_control.c, by the one thread that serves
 * requests, in which prof_sys.c calls the sink, and in a forked child; but prof_handover_is_any()
 * by any thread, so these two are atomic.
 */
#include "prof/control/prof_handover.h"

#include "os/gate.h"
#include "os/memfile.h"
#include "os/nstime.h"
#include "os/pages.h"
#include "os/sys.h"
#include "util/assert.h"
#include "util/atomic.h"

#define SPARE_MAX ((size_t)8 << 20) /* bytes of memory that are kept */

cassert(SPARE_MAX % PAGE_MAX == 0);

/* One profile. Written by the thread that is serving, and in a forked child by its only thread. */
typedef struct {
	pages_store_t store; /* a prof_part_t and the text; none yet, or the text is in the file */
	/* used instead if the client may not read the memory of the process */
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
	pages_store_t spare;  /* what is kept */
	uint64_t spare_ns;    /* monotonic time at which it was freed */
	atomic_b_t has_spare;
} handovers;

static prof_stream_t *
stream_of(const handover_t *h) {
	assert(h >= handovers.places && h < handovers.places + PROF_MAILBOX_SLOTS);
	return &handovers.streams[h - handovers.places];
}

/* ---------------------------------------------------------------- private pages */

/* The spare memory, with its old content, which then is none; inside the gate. */
static pages_store_t
spare_take(void) {
	pages_store_t spare = handovers.spare;
	handovers.spare = (pages_store_t){NULL, 0};
	atomic_store_b(&handovers.has_spare, false, MO_RELAXED);
	return spare;
}

/* Frees a profile's memory: keeps the front of it if nothing is kept yet; inside the gate. */
static void
spare_keep_or_free(pages_store_t *s) {
	if (s->at == NULL || handovers.spare.at != NULL) {
		pages_store_free(s);
		return;
	}
	if (s->bytes > SPARE_MAX) {
		pages_unmap_in_time((char *)s->at + SPARE_MAX, s->bytes - SPARE_MAX);
		s->bytes = SPARE_MAX;
	}
	handovers.spare = *s;
	handovers.spare_ns = nstime_monotonic_ns();
	atomic_store_b(&handovers.has_spare, true, MO_RELAXED);
}

static void
spare_free(void) {
	gate_enter(tls_get());
	pages_store_t spare = spare_take();
	pages_store_free(&spare);
	gate_exit(tls_get());
}

/* Appends bytes to the text in memory. 0 or ENOMEM. */
static int
store_write(handover_t *h, const void *from, size_t len) {
	size_t at = sizeof(prof_part_t) + (size_t)h->bytes;
	gate_enter(tls_get());
	bool has_room = pages_store_try_reserve(&h->store, at + len);
	gate_exit(tls_get());
	if (!has_room) {
		return ENOMEM;
	}
	memcpy((char *)h->store.at + at, from, len);
	return 0;
}

/* ---------------------------------------------------------------- life */

/* Withdraws the announcement of a profile and frees its file and memory. */
static void
handover_drop(handover_t *h) {
	gate_enter(tls_get());
	__atomic_store_n(&stream_of(h)->nonce, 0, __ATOMIC_SEQ_CST);
	atomic_fence(MO_SEQ_CST); /* before the pages are written anew */
	if (h->is_held) {
		atomic_fetch_sub_u32(&handovers.nheld, 1, MO_RELAXED);
	}
	memfile_close(&h->file);
	spare_keep_or_free(&h->store);
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
	int saved = errno;
	gate_enter(tls_get());
	if (is_file) {
		memfile_open(&h->file, PROF_MAILBOX_PROFILE_NAME, 0);
	}
	if (!memfile_is_open(&h->file)) {
		h->store = spare_take();
	}
	gate_exit(tls_get());
	errno = saved;
}

int
prof_handover_sink(const void *data, size_t len) {
	handover_t *h = handovers.current;
	if (unlikely(h == NULL)) {
		return ECANCELED; /* a child that this thread forked meanwhile */
	}
	int err = !memfile_is_open(&h->file) ? store_write(h, data, len)
	    : !memfile_is_ours(&h->file) ? EBADF
	    : sys_write_all(memfile_fd(&h->file), data, len, 0, NULL);
	h->bytes += len;
	return err;
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
	if (h->store.at != NULL) {
		*(prof_part_t *)h->store.at = (prof_part_t){.bytes = h->bytes};
	}
	__atomic_store_n(&s->first, (uintptr_t)h->store.at, __ATOMIC_RELAXED);
	__atomic_store_n(&s->fd, memfile_fd(&h->file), __ATOMIC_RELAXED);
	__atomic_store_n(&s->is_taken, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&s->nonce, nonce, __ATOMIC_RELEASE);
}

bool
prof_handover_is_any(void) {
	return atomic_load_u32(&handovers.nheld, MO_RELAXED) != 0
	    || atomic_load_b(&handovers.has_spare, MO_RELAXED);
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
	if (handovers.spare.at != NULL
	    && nstime_ns_between(handovers.spare_ns, now) >= PROF_HANDOVER_SPARE_NS) {
		spare_free();
	}
}

void
prof_handover_postfork_child(void) {
	handovers.current = NULL;
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		if (handovers.places[i].store.at != NULL || memfile_is_open(&handovers.places[i].file)) {
			handover_drop(&handovers.places[i]);
		}
	}
	assert(atomic_load_u32(&handovers.nheld, MO_RELAXED) == 0);
	spare_free();
}
