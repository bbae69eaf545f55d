/*
 * Profiles that wait for a reader outside (the request dump-stream): the whole text in private pages,
 * or, with prof_ctl_fd:true, in a memory file without a name, because such a reader may not look into
 * the process's memory.
 *
 * There is one place for each slot of the mailbox.  A profile is written into it in one go, by prof_dump,
 * and announced in the mailbox; from then on the reader takes it through the kernel, at his own speed,
 * without any thread or lock of this process.  It goes when the reader says that he has it, when
 * PROF_HANDOVER_NS have gone by, or when the next one comes into its place.
 * Invariant: an announcement is withdrawn before its pages go.  So a reader who still finds his nonce after
 * a read has read the profile, and one who does not knows that it was dropped.
 * Called by prof_control, by whoever serves: one thread at a time.
 */
#ifndef PROF_HANDOVER_H
#define PROF_HANDOVER_H

#include "prof_mailbox.h"
#include "util/compiler.h"

#define PROF_HANDOVER_NS (UINT64_C(30) * 1000000000)

/*
 * What the place held before goes; prof_handover_sink writes there, until the end.  streams: the mailbox's,
 * one for each place; is_file: into a memory file, if one can be made.
 */
void prof_handover_begin(prof_stream_t *streams, unsigned place, bool is_file);
/* A prof_sink_t: 0, ENOMEM, or the errno of the memory file. */
int prof_handover_sink(const void *data, size_t len);
/* Announces the profile under this nonce, or drops it if err is not 0. */
void prof_handover_end(uint64_t nonce, int err);

/* Any profile waits.  By any thread. */
bool prof_handover_is_any(void);
/* Drops those that were taken or have waited for too long. */
void prof_handover_tick(void);
/* The parent's readers read the parent. */
void prof_handover_postfork_child(void);

#endif /* PROF_HANDOVER_H */
