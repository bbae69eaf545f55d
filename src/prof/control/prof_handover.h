/*
 * Profiles that wait for a client outside the process (requests dump-stream, dump-delta-stream).
 * The whole text is in private pages or, with prof_ctl_fd:true, in a memory file, because a client
 * of that option often has no permission to read the memory of the process.
 *
 * There is one place for each slot of the mailbox (prof_mailbox.h). prof_dump() writes the whole
 * profile into it, and then it is announced in the mailbox. The client reads it through the kernel,
 * at its own speed, without a thread or lock of this process. It is freed when the next profile in
 * its place is begun, or by prof_handover_tick() once the client has set is_taken (prof_stream_t)
 * or PROF_HANDOVER_NS have passed. Up to 8 MiB of freed pages are kept for the next profiles; a
 * tick unmaps them when the last one was freed PROF_HANDOVER_SPARE_NS ago.
 *
 * Invariant: an announcement is withdrawn before its pages are freed. So a client that still finds
 * its nonce after the read has read the profile, and one that does not knows that it was dropped.
 * Locks: none. Called by prof_control.c, in the one thread that is serving requests and in a forked
 * child; prof_sys.c calls the sink, in the thread that is serving.
 */
#pragma once

#include "os/nstime.h"
#include "prof/control/prof_mailbox.h"
#include "util/compiler.h"

/* Time in ns after which a profile that no client fetched is freed. */
#define PROF_HANDOVER_NS (30 * NSTIME_PER_SEC)
/* Time in ns for which freed pages are kept. Scrapers usually ask once a minute. */
#define PROF_HANDOVER_SPARE_NS (70 * NSTIME_PER_SEC)

/*
 * Frees the profile in the place and begins a new one there: prof_handover_sink() writes to it
 * until prof_handover_end(). place is the index of the slot; streams is the array in the mailbox,
 * with one element for each place. is_file: in a memory file. If none can be made, or without
 * is_file, in private pages, which a client without the permission cannot read.
 */
void prof_handover_begin(prof_stream_t *streams, unsigned place, bool is_file);
/*
 * A prof_sink_t: adds bytes to the profile. 0, ENOMEM, the errno of a write to the memory file, or
 * EBADF: the program has closed it, and may have opened another file under its number. In a child
 * that the serving thread forks meanwhile (in a signal handler or the dump hook) the profile is
 * gone: the sink returns ECANCELED, prof_handover_end() does nothing.
 */
int prof_handover_sink(const void *data, size_t len);
/* Announces the profile with this nonce, or frees it if err is not 0 or the nonce is 0. */
void prof_handover_end(uint64_t nonce, int err);

/* Whether there is anything to free in time, profiles or kept pages; any thread may ask. */
bool prof_handover_is_any(void);
/* Frees profiles that were fetched or have waited too long, and pages that were kept too long. */
void prof_handover_tick(void);
/* In a forked child: frees its copies and kept pages, as clients of the parent read the parent. */
void prof_handover_postfork_child(void);
