/*
 * Keeps profiles in memory until a client outside has read them (prof_handover.h). The text is in a
 * memory file, or in memory that grows, behind the head of one part (prof_part_t).
 *
 * Memory of a freed profile stays in its place for the next one (up to SPARE_MAX), because a client
 * that asked once mostly asks again soon, and fresh pages cost processor time.
 *
 * Invariant: is_any tells whether a place has a profile or memory; of places without a profile one
 * at most has memory. The memory, the files and is_any change inside the gate (os/gate.h: fork
 * waits until no thread is inside) only, so a forked child finds them whole. The text is written
 * outside the gate. Locks: none. Called by prof_control.c, by the one thread that serves requests,
 * in which prof_sys.c calls the sink, and in a forked child; but prof_handover_is_any() by any
 * thread, so is_any is atomic.
 */
#include "prof/control/prof_handover.h"

#include "os/gate.h"
#include "os/memfile.h"
#include "os/nstime.h"
#include "os/pages.h"
#include "os/sys.h"
#include "util/atomic.h"

#define SPARE_MAX ((size_t)8 << 20) /* bytes of memory that are kept */

cassert(SPARE_MAX % PAGE_MAX == 0);

/* One profile. Written by the thread that is serving, and in a forked child by its only thread. */
typedef struct {
	pages_store_t store; /* a prof_part_t and the text; none yet, or the text is in the file */
	/* used instead if the client may not read the memory of the process */
	memfile_t file;
	uint64_t bytes;      /* of the text */
	uint64_t since_ns;   /* monotonic time of the announcement, or of its end */
	bool is_held; /* the profile is announced */
} handover_t;

static LARGE_BSS struct {
	prof_stream_t *streams; /* in the mailbox, one for each place; NULL before the first profile */
	handover_t places[PROF_MAILBOX_SLOTS];
	handover_t *current;  /* being written, between begin and end */
	atomic_b_t is_any;
} handovers;

static prof_stream_t *
stream_of(const handover_t *h) {
	assert(h >= handovers.places && h < handovers.places + PROF_MAILBOX_SLOTS);
	return &handovers.streams[h - handovers.places];
}

/* Another place than h that has memory and no profile; NULL: there is none. */
static handover_t *
spare_find(const handover_t *h) {
	for (handover_t *i = handovers.places; i < handovers.places + PROF_MAILBOX_SLOTS; i++) {
		if (i != h && !i->is_held && i->store.at != NULL) {
			return i;
		}
	}
	return NULL;
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

/* Stores in is_any what the places have; inside the gate. */
static void
any_note(void) {
	bool is_any = false;
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		is_any |= handovers.places[i].is_held || handovers.places[i].store.at != NULL;
	}
	atomic_store_b(&handovers.is_any, is_any, MO_RELAXED);
}

/*
 * Withdraws the announcement of a profile and frees its file and memory; the front of the memory
 * stays if may_keep is set and no other place has spare memory.
 */
static void
handover_drop(handover_t *h, bool may_keep) {
	gate_enter(tls_get());
	__atomic_store_n(&stream_of(h)->nonce, 0, __ATOMIC_SEQ_CST);
	atomic_fence(MO_SEQ_CST); /* before the pages are written anew */
	memfile_close(&h->file);
	if (!may_keep || spare_find(h) != NULL) {
		pages_store_free(&h->store);
	} else if (h->store.bytes > SPARE_MAX) {
		pages_unmap_in_time((char *)h->store.at + SPARE_MAX, h->store.bytes - SPARE_MAX);
		h->store.bytes = SPARE_MAX;
	}
	*h = (handover_t){.store = h->store, .since_ns = nstime_monotonic_ns()};
	any_note();
	gate_exit(tls_get());
}

void
prof_handover_begin(prof_stream_t *streams, unsigned place, bool is_file) {
	assert(place < PROF_MAILBOX_SLOTS && handovers.current == NULL);
	handover_t *h = &handovers.places[place];
	handovers.streams = streams;
	handover_drop(h, true);
	handovers.current = h;
	int saved = errno;
	gate_enter(tls_get());
	handover_t *spare = spare_find(h);
	if (is_file && memfile_open(&h->file, PROF_MAILBOX_PROFILE_NAME, 0) == 0) {
		pages_store_free(&h->store);
	} else if (spare != NULL) {
		h->store = spare->store;
		spare->store = (pages_store_t){NULL, 0};
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
		handover_drop(h, true);
		return;
	}
	gate_enter(tls_get());
	h->is_held = true;
	h->since_ns = nstime_monotonic_ns();
	any_note();
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
	return atomic_load_b(&handovers.is_any, MO_RELAXED);
}

void
prof_handover_tick(void) {
	uint64_t now = prof_handover_is_any() ? nstime_monotonic_ns() : 0;
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS && prof_handover_is_any(); i++) {
		handover_t *h = &handovers.places[i];
		uint64_t age = nstime_ns_between(h->since_ns, now);
		if (h->is_held ? age >= PROF_HANDOVER_NS
		    || __atomic_load_n(&stream_of(h)->is_taken, __ATOMIC_ACQUIRE) != 0
		    : h->store.at != NULL && age >= PROF_HANDOVER_SPARE_NS) {
			handover_drop(h, h->is_held);
		}
	}
}

void
prof_handover_postfork_child(void) {
	handovers.current = NULL;
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		if (handovers.places[i].store.at != NULL || memfile_is_open(&handovers.places[i].file)) {
			handover_drop(&handovers.places[i], false);
		}
	}
	assert(!prof_handover_is_any());
}
