/*
 * What the files of src/client/ know of each other (jeprof_client.h is what others know). Nothing
 * here has a state of its own: all of it is in the target.
 */
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include <sys/types.h>

#include "client/clock.h"
#include "client/jeprof_client.h"
#include "prof/control/prof_mailbox.h"

enum { CLIENT_PATH = 2 * PATH_MAX };

/* Puts the sentence into t->why, and returns error. */
__attribute__((format(printf, 3, 4))) int client_fail(jeprof_target_t *t, int error,
    const char *format, ...);

/* Reads /proc/PID/NAME, ends it with NUL; -1 and errno. */
ssize_t client_read_proc(int pid, const char *name, char *buf, size_t size);

/* What follows `key` ("\nUid:") in the text of /proc/PID/status; "" if it is not there. */
const char *client_status_line(const char *text, const char *key);

/* The target of a link in /proc, "" if it cannot be read. */
const char *client_read_link(const char *path, char *buf, size_t size);

/* ---- memory ---- */

bool client_read_memory(const jeprof_target_t *t, uint64_t at, void *buf, size_t size);
bool client_write_memory(const jeprof_target_t *t, uint64_t at, const void *buf, size_t size);

/* What a search for the mailbox has found. */
typedef struct client_finding_s {
	uint64_t block;          /* 0: none that is open */
	uint32_t other_version;  /* of the protocol; 0: none */
	bool is_without;         /* a library that was built without the profiler */
	int closed;              /* mailboxes without their magic */
} client_finding_t;

/* Finds the mailbox in the memory; 0 or errno of the maps. */
int client_find_block(jeprof_target_t *t, client_finding_t *found);

/* Reads what lies before the slots; false if the block is no mailbox (any more). */
bool client_read_head(jeprof_target_t *t);

/* ---- whose malloc it is, if not ours ---- */

/*
 * "the jemalloc of /usr/lib/libjemalloc.so.2"; NULL: nothing that we know is loaded beside the C
 * library.
 */
const char *client_loaded_allocator(const jeprof_target_t *t, char *buf, size_t size);

/*
 * The command line that would start it on this library: LD_PRELOAD=/absolute/path program
 * arguments.
 */
void client_restart_line(const jeprof_target_t *t, char *buf, size_t size);

/*
 * "a jemalloc that is linked into /usr/bin/rustc": a program with a malloc of its own, which no
 * preloaded library replaces. NULL: none is known. Reads up to 256 MiB of the program's file.
 */
const char *client_linked_allocator(const jeprof_target_t *t, char *buf, size_t size);

/* ---- the way in ---- */

/* What decides a refusal. */
typedef struct client_denial_s {
	unsigned our_uid;
	unsigned uid;
	bool is_other_user;
	bool is_dumpable;
	bool may_trace;     /* we hold CAP_SYS_PTRACE */
	bool has_more_caps; /* it holds capabilities that we do not */
	int yama;           /* ptrace_scope, 0 if there is no Yama */
} client_denial_t;

/* The reason and the remedy; NULL if there is none that we know. */
const char *client_denial_reason(const client_denial_t *d, char *buf, size_t size);

/* ---- asking ---- */

/* The times of a request, with their defaults. */
int64_t client_wait_ms(const jeprof_request_t *r);
int64_t client_taken_ms(const jeprof_request_t *r);
bool client_is_interrupted(const jeprof_request_t *r);

uint64_t client_slot_at(const jeprof_target_t *t, unsigned slot);

/* ESRCH with a sentence if it cannot be written. */
int client_write_word(jeprof_target_t *t, uint64_t at, const void *word, size_t size);

/* ESRCH: it has ended, or its memory is another program's by now. */
int client_memory_gone(jeprof_target_t *t);

/* Why there was no answer: ETIMEDOUT, EBUSY, EINTR, ESRCH or ENXIO. The request was taken back. */
int client_unanswered(jeprof_target_t *t, const jeprof_request_t *r, bool was_busy);

int client_ask_mailbox(jeprof_target_t *t, const jeprof_request_t *r, jeprof_reply_t *reply);
int client_ask_dir(jeprof_target_t *t, const jeprof_request_t *r, jeprof_reply_t *reply);

/* Fetches the profile that waits under this nonce. 0, EIO, EFBIG, ENOMEM, ESRCH, ETIMEDOUT. */
int client_fetch(jeprof_target_t *t, uint64_t nonce, const jeprof_request_t *r,
    jeprof_reply_t *reply);
