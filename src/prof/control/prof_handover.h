/*
 * Profiles that wait for a client outside the process (request dump-stream). The whole text is in
 * private pages or, with prof_ctl_fd:true, in an unnamed memory file, because such a client may not
 * read the memory of the process.
 *
 * There is one place for each slot of the mailbox. prof_dump writes the profile into it in one go,
 * and it is announced in the mailbox. Then the client reads it through the kernel, at its own
 * speed, without a thread or lock of this process. It is freed when the client has set is_taken,
 * after PROF_HANDOVER_NS, or when the next profile takes its place; up to 8 MiB of its pages serve
 * the next profiles, until none was freed for PROF_HANDOVER_SPARE_NS. Invariant: an announcement is
 * withdrawn before its pages are freed. So a client that still finds its nonce after the read has
 * read the profile, and one that does not knows that it was dropped. Called by prof_control.c, by
 * the one thread that is serving requests.
 */
#ifndef PROF_HANDOVER_H
#define PROF_HANDOVER_H

#include "prof/control/prof_mailbox.h"
#include "util/compiler.h"

/* Time in ns after which a profile that no client fetched is freed. */
#define PROF_HANDOVER_NS (UINT64_C(30) * 1000000000)
/* Time in ns for which pages of freed profiles are kept: longer than scrapers usually wait. */
#define PROF_HANDOVER_SPARE_NS (UINT64_C(70) * 1000000000)

/*
 * Frees the profile in the place and begins a new one there: prof_handover_sink() writes to it
 * until prof_handover_end(). streams are those of the mailbox, one for each place; is_file asks for
 * a memory file, if one can be made.
 */
void prof_handover_begin(prof_stream_t *streams, unsigned place, bool is_file);
/* A prof_sink_t; returns 0, ENOMEM, or the errno of the memory file. */
int prof_handover_sink(const void *data, size_t len);
/* Announces the profile with this nonce, or frees it if err is not 0. */
void prof_handover_end(uint64_t nonce, int err);

/* Whether there is anything to free in time, profiles or kept pages; any thread may ask. */
bool prof_handover_is_any(void);
/* Frees profiles that were fetched or have waited too long, and pages that were kept too long. */
void prof_handover_tick(void);
/* Frees the child's copies: clients of the parent read from the parent. */
void prof_handover_postfork_child(void);

#endif /* PROF_HANDOVER_H */
