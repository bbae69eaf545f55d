/*
 * What the files of bin/client/ share; the interface for the tools is jeprof_client.h. No function
 * has state of its own: all of it is in the target, which belongs to one thread at a time, so there
 * are no locks. Unless it is said otherwise, an error comes with its sentence in t->why. ESRCH
 * stands also for the errno with which jeprof_check_same() cannot read /proc.
 */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <sys/types.h>

#include "client/clock.h"
#include "client/elf.h"
#include "client/jeprof_client.h"
#include "client/removed.h"
#include "prof/control/prof_mailbox.h"

enum {
	CLIENT_PATH = 2 * PATH_MAX,  /* room for a restart line, or for two paths */
	/*
	 * Bytes of /proc/PID/status that are read: its line Groups, with up to 11 bytes for each group
	 * of the user, stands before most of the others.
	 */
	CLIENT_STATUS_BYTES = 65536,
	CLIENT_FDS_MAX = 1 << 17, /* descriptors of one process that are searched */
	CLIENT_SETTLE_MS = 50, /* after a request was taken back, as the process may be reading it */
};

/* Puts the sentence into t->why, and returns error. */
__attribute__((format(printf, 3, 4))) int client_fail(jeprof_target_t *t, int error,
    const char *format, ...);

/*
 * Reads a file of the kernel's, or /proc/PID/NAME, adds a NUL. Its length, cut to size - 1; or -1
 * and errno, no sentence.
 */
ssize_t client_read_file(const char *path, char *buf, size_t size);
ssize_t client_read_proc(int pid, const char *name, char *buf, size_t size);

/* Whether it is the errno of a lack of memory or descriptors, which says nothing of a process. */
static inline bool
client_is_lack(int error) {
	return error == ENOMEM || error == EMFILE || error == ENFILE;
}

/* What follows `key` ("\nUid:") in the text of /proc/PID/status, to its end; "": no such key. */
const char *client_status_line(const char *text, const char *key);

/*
 * The pid of a process in its innermost pid namespace, from the text of /proc/PID/status: the last
 * number in the line NSpid; `pid` if there is no such line. *levels: numbers in that line, one for
 * each namespace from ours down to that one.
 */
unsigned client_own_pid(const char *text, int pid, unsigned *levels);

/* Resident bytes of a living process; 0 if they cannot be read. */
uint64_t client_rss(const jeprof_target_t *t);

/*
 * Opens the file behind the descriptor `number` of a process, if it is the wanted one; dir: its
 * /proc/PID/fd. -1 and errno; ENOENT: another one may be it.
 */
typedef int client_open_fd_t(int dir, const char *number, void *arg);

/*
 * Calls open_it for the descriptors of a process, at most CLIENT_FDS_MAX, until it opens one or
 * fails with another errno than ENOENT. That descriptor, or -1 and errno; ENOENT: there is none.
 */
int client_find_fd(int task, client_open_fd_t *open_it, void *arg);

/* ---- memory ---- */

/*
 * Copy bytes from, or to, the memory or mailbox file of the target; false if not all of them were
 * copied. No sentence.
 */
bool client_read_memory(const jeprof_target_t *t, uint64_t at, void *buf, size_t size);
bool client_write_memory(const jeprof_target_t *t, uint64_t at, const void *buf, size_t size);

/* The result of a search for the mailbox. */
typedef struct client_finding_s {
	uint64_t block;          /* address of the mailbox; 0: none that is open */
	uint32_t other_version;  /* protocol version of a mailbox that cannot be used; 0: none */
	bool is_without;         /* there is a library that was built without the profiler */
	int closed;              /* number of mailboxes without the magic, too short, or unreadable */
} client_finding_t;

/*
 * Searches the memory for the mailbox and sets t->block, to 0 if none is open. 0, ENOMEM or the
 * errno of reading the maps; no sentence.
 */
int client_find_block(jeprof_target_t *t, client_finding_t *found);

/* Reads the mailbox up to its slots into t->head; false: none is open that has our version. */
bool client_read_head(jeprof_target_t *t);

/* ---- the malloc of a process that does not use the library ---- */

/*
 * Which known allocator is loaded: "jemalloc, /usr/lib/libjemalloc.so.2". NULL: none, so the malloc
 * is probably that of the C library.
 */
const char *client_loaded_allocator(const jeprof_target_t *t, char *buf, size_t size);

/*
 * The command line that would start it on this library, for a shell: LD_PRELOAD=/absolute/path
 * program arguments; with "..." for arguments that do not fit or are not known, because the process
 * shows a title in their place. size: CLIENT_PATH.
 */
void client_restart_line(const jeprof_target_t *t, char *buf, size_t size);

/*
 * Which malloc is linked into the program, which no preloaded library replaces: "a jemalloc that is
 * linked into /usr/bin/rustc". NULL: none is found. Reads up to 256 MiB of the program's file.
 */
const char *client_linked_allocator(const jeprof_target_t *t, char *buf, size_t size);

/* ---- the way in ---- */

/* The facts by which the kernel denies access to the memory of a process. */
typedef struct client_denial_s {
	unsigned our_uid;   /* effective uid of this process */
	/* effective uid of the other process; if that is our_uid, one of its others that is not */
	unsigned uid;
	bool is_other_user; /* one of its uids is not our_uid */
	bool is_other_group; /* one of its gids is not our effective one */
	/*
	 * its real user (or group) is ours; the effective and the saved one are equal and another:
	 * set-user-id (or set-group-id)
	 */
	bool is_set_id;
	bool is_dumpable;   /* see PR_SET_DUMPABLE */
	bool may_trace;     /* we hold CAP_SYS_PTRACE */
	bool has_more_caps; /* it holds capabilities that we do not */
	int yama;           /* ptrace_scope, 0 if there is no Yama */
} client_denial_t;

/* The reason of a denial, and a remedy: buf or a constant. NULL if it is not known. */
const char *client_denial_reason(const client_denial_t *d, char *buf, size_t size);

/* ---- what a box takes ---- */

/*
 * Whether a thread of the process is under a filter of system calls (seccomp) that the process may
 * have put on itself. Not so if there is none, or one that is a container's: process 1 of its pid
 * namespace has one too, and was started by the runtime of a container. True also if it is not
 * known, as before Linux 5.9.
 */
bool client_has_own_filter(int pid);

/* ---- asking ---- */

/* wait_ms and taken_ms of a request, or their defaults. */
int64_t client_wait_ms(const jeprof_request_t *r);
int64_t client_taken_ms(const jeprof_request_t *r);

/* Whether r->interrupts has reached r->patience. */
bool client_is_interrupted(const jeprof_request_t *r);

/* ---- leases ---- */

/*
 * Until when a lease of span_ms that begins now holds, in ms of the monotonic clock of the process;
 * and whether another client's lease is over, as far as that clock is known here (clock_ahead_ms).
 * A lease of zeros never is.
 */
uint64_t client_lease_end(const jeprof_target_t *t, uint64_t span_ms);
bool client_is_lease_over(const jeprof_target_t *t, const prof_lease_t *lease);

/*
 * Reads the lease of the request with this sequence in the slot; zeros, which is no end, if it has
 * none. False if the memory is gone; no sentence.
 */
bool client_read_lease(const jeprof_target_t *t, unsigned slot, uint64_t sequence,
    prof_lease_t *lease);

/* Writes the lease of a request before it is sent: PROF_LEASE_MS from now on. 0 or ESRCH. */
int client_begin_lease(jeprof_target_t *t, unsigned slot, uint64_t sequence);

/*
 * Sets the end of the lease in t->slot, where the target's request must be, to span_ms from now on,
 * later or earlier than it was; 0: it has no end. A failure shows at the next read.
 */
void client_renew_lease(jeprof_target_t *t, uint64_t span_ms);

/*
 * If the process has refused a request because its lease was over, notes the clock of the process;
 * then the request may be sent again. False, no sentence: it was not refused for that.
 */
bool client_try_set_clock(jeprof_target_t *t, const jeprof_reply_t *reply);

/* ---- the mailbox ---- */

/* Address, or offset in the mailbox file, of a slot. */
uint64_t client_slot_at(const jeprof_target_t *t, unsigned slot);

/* Writes `size` bytes at this address or offset. 0 or ESRCH. */
int client_write_word(jeprof_target_t *t, uint64_t at, const void *word, size_t size);

/* Returns ESRCH, with the sentence that the process has ended or runs another program by now. */
int client_memory_gone(jeprof_target_t *t);

/* Where a request without an answer is: taken back; not given, as no slot was free; taken. */
typedef enum silence_e { silence_unheard, silence_full, silence_taken } silence_t;
/*
 * Finds out why there was no answer to a request, and sets the sentence: ETIMEDOUT, EBUSY, EINTR,
 * ESRCH or ENXIO. t->head.heartbeats on entry is that from when the wait began; if it has not
 * changed since then, the process is idle. Reads t->head again.
 */
int client_unanswered(jeprof_target_t *t, const jeprof_request_t *r, silence_t silence);

/* jeprof_ask() by the mailbox, and by the control directory; *reply was cleared before. */
int client_ask_mailbox(jeprof_target_t *t, const jeprof_request_t *r, jeprof_reply_t *reply);
int client_ask_dir(jeprof_target_t *t, const jeprof_request_t *r, jeprof_reply_t *reply);

/*
 * Fetches the profile that the process holds ready under this nonce into reply->profile, which the
 * caller frees. 0, EIO, EFBIG, ENOMEM, ESRCH or ETIMEDOUT.
 */
int client_fetch(jeprof_target_t *t, uint64_t nonce, const jeprof_request_t *r,
    jeprof_reply_t *reply);
