/*
 * The mailbox: the block of memory through which another process (bin/jeprofctl) sends requests to
 * the profiler and reads the answers. This file is the protocol; both sides include it: the library
 * in prof_control.c, prof_handover.c, prof_request.c and prof_ctl_dir.c, clients in bin/client/. No
 * locks: what one side writes last of a message tells the other that it is complete.
 *
 * The block is page aligned, in writable data of the library, and is found through an ELF note
 * (owner "jemalloc", type PROF_NOTE_TYPE) in a loaded segment. The note has the distance from
 * itself to the block, so no symbol table is needed.
 *
 * A client fills a free slot (text, length, checksum, nonce), stores `sequence` last, and sets
 * `doorbell`. The library reads `doorbell` at heartbeats (periodic work of a thread by bytes
 * allocated) and in the profiler's thread. If it is set, the library clears it, and for each slot
 * with a request copies and checks that, carries it out, writes the answer with the same nonce, and
 * stores `answered` = sequence last. Two clients that took the same slot notice it by the nonce: an
 * answer with another nonce is not theirs, and they ask again in a free slot with the SAME nonce
 * and a new sequence. The library remembers its answers to the last nonces and repeats them. So a
 * request is carried out once even if its answer was overwritten. Answers to `status` and the
 * errors EBADMSG and ESTALE are not remembered. When the library begins to carry out or to refuse a
 * request, which may have waited for the profiler's thread, it writes `answer_nonce`; from then on
 * the client waits longer before it withdraws the request (by sequence = 0). `sequence` is a random
 * number, never 0.
 *
 * A slot whose `answered` equals `sequence` is done, and belongs to its client until that client
 * stores sequence = 0; after 300 ms another client may use it. When no slot is free, a client may
 * also use one whose request the library has not taken and whose lease has not changed for a
 * second: the slot's client may have been killed, and one that still waits asks again. Not so a
 * start or set whose lease holds: its client may have left it there on purpose.
 *
 * A request has a lease, so that it ends with a client that is killed: an entry of `leases` with
 * the request's sequence, written before `sequence` is stored in the slot, says until when it
 * holds. A client that waits renews it at each look; one that leaves a start or set to an idle
 * process, which carries it out at its next heartbeat, sets `span_ms` to 0, which means for ever,
 * or to a longer time. To a request whose lease is over the library answers ESTALE with the text
 * `now_ms=N` and the reason. N is its monotonic clock, which may differ from the client's (time
 * namespaces, libfaketime): a client that still waits sets its clock by it and asks again. A
 * request without an entry has no end (clients that were built before there were leases write
 * none). Requests are carried out in the order of until_ms - span_ms, the time of the last renewal,
 * those without an entry first.
 *
 * The block is closed while `magic` is 0: before the first allocation, and in a process with
 * AT_SECURE. With prof_ctl_fd:true the block is a shared mapping of a memfd named
 * PROF_MAILBOX_FD_NAME, if one could be made. Numbers are in the byte order of the machine. A
 * client of another PROF_MAILBOX_VERSION must not write.
 *
 * A request is one line without a newline: `start k:v,k:v`, `stop [N]`, `dump [PATH]`,
 * `dump-stream`, `dump-delta [PATH]`, `dump-delta-stream`, `mark`, `status`, `set k:v,...`,
 * `rearm`. The answer to stop and dump is the path; to start the number of the session, and a
 * second line if its prefix is empty or no profile can be written in the directory; to status lines
 * key=value; to mark, set and rearm it is empty. If error is not 0 the answer is one sentence or
 * empty. EBADMSG means that the message is torn, malformed or not known (ask again); other errors
 * are those of the function that carries the request out.
 *
 * dump-delta and dump-delta-stream are dump and dump-stream of what was added since mark; without a
 * mark they fail with ENODATA.
 *
 * The answer to dump-stream says that the profile is ready: its whole text, made at once, in memory
 * that the process keeps for the client. The entry of `streams` with the index of the slot has the
 * nonce of the request and says where. The client reads it at its own speed and stores is_taken=1.
 * The process frees it then, or after 30 s, or when the next profile of the same slot takes its
 * place. Before it frees, it sets the nonce to 0, so what was read is the profile if the nonce is
 * still there after the read.
 *
 * In the control directory the file PID.cmd has the line `[nonce=<hex> ][until=<hex> ]REQUEST`,
 * with a newline; `until` is a lease of PROF_LEASE_MS, which the client renews in the file. The
 * library takes the file by renaming it to PID.taken, which it removes. PID.status begins with the
 * line `nonce=<hex> error=<errno>` (nonce 0 if none was given); the rest is the answer. The two
 * requests for a stream fail there with EOPNOTSUPP.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PROF_MAILBOX_MAGIC UINT64_C(0x786f626c69616d6a) /* "jmailbox" */
#define PROF_MAILBOX_VERSION 2u
/* size: a multiple of the page size on every machine */
#define PROF_MAILBOX_BYTES 65536u
#define PROF_MAILBOX_SLOTS 4u /* requests that can wait at the same time */
#define PROF_MAILBOX_TEXT 1024u /* room for a request or an answer in bytes; one is for a NUL */
#define PROF_LEASE_MS 500u /* span in ms of a lease whose client waits and renews it */
#define PROF_MAILBOX_FD_NAME "jemalloc-mailbox"
#define PROF_MAILBOX_PROFILE_NAME "jemalloc-profile"
#define PROF_NOTE_OWNER "jemalloc"
#define PROF_NOTE_TYPE 0x6a706d62u    /* "jpmb" */

/* Values of `state`. A session that is just starting counts as none. */
enum {
	prof_mailbox_idle,       /* no session, and no samples but those for a tracer */
	prof_mailbox_active,     /* a session, and samples are taken */
	prof_mailbox_stopping,   /* the profile of a session is being written */
	prof_mailbox_paused,     /* a session, but prof.active was switched off */
	prof_mailbox_sampling,   /* no session; samples are taken, with prof:true */
	prof_mailbox_switched_on /* no session; samples are taken without prof:true, by prof.active */
};

/* Bits of `flags`. */
/* no profiler's thread, because system calls are filtered (seccomp) */
#define PROF_MAILBOX_BARRED 1u

/* Body of the note. */
typedef struct prof_note_s {
	uint32_t version;    /* PROF_MAILBOX_VERSION */
	uint32_t bytes;      /* PROF_MAILBOX_BYTES; 0: built without the profiler */
	int64_t distance;    /* address of the block minus address of this field */
} prof_note_t;

typedef struct prof_slot_s {
	/* The next five are written by the client, sequence after the others. */
	uint64_t sequence;   /* a random number for each try; 0: the slot is free */
	uint64_t nonce;      /* a random number for each request, the same in all tries */
	uint32_t length;     /* of the text in bytes, without a NUL */
	uint32_t checksum;   /* prof_mailbox_sum() of sequence, nonce and text */
	char text[PROF_MAILBOX_TEXT];
	/* The rest is written by the library (but see answer_nonce); answered is stored last. */
	uint64_t answered;   /* the sequence that the answer is for */
	/* nonce of the request taken last; a client sets it to 0 before it fills the slot */
	uint64_t answer_nonce;
	int32_t error;       /* errno, 0: success */
	uint32_t answer_length; /* bytes, without a NUL */
	char answer[PROF_MAILBOX_TEXT];
} prof_slot_t;

/* Until when a request holds; written by the client. */
typedef struct prof_lease_s {
	uint64_t sequence;   /* of the request; another one: the entry is not that request's */
	uint64_t span_ms;    /* time from its last renewal to its end, or more; 0: it has no end */
	uint64_t until_ms;   /* by the monotonic clock of the process */
} prof_lease_t;

/* A profile that waits for its client (dump-stream); the index is that of the request's slot. */
typedef struct prof_stream_s {
	uint64_t nonce;      /* nonce of its request; 0: none */
	uint64_t bytes;      /* of the text */
	uint64_t first;      /* address of the first prof_part_t; 0: the text is in the file */
	/* descriptor of the memfd (PROF_MAILBOX_PROFILE_NAME) that has the text; -1: there is none */
	int32_t fd;
	uint32_t is_taken;   /* written by the client */
} prof_stream_t;

/* Head of a part of a profile in memory; the text follows it. */
typedef struct prof_part_s {
	uint64_t next;       /* address of the next part; 0: last part */
	uint64_t bytes;      /* of text in this part */
} prof_part_t;

typedef struct prof_mailbox_s {
	uint64_t magic;      /* PROF_MAILBOX_MAGIC; 0: closed */
	uint32_t version;    /* PROF_MAILBOX_VERSION */
	uint32_t bytes;      /* PROF_MAILBOX_BYTES */
	uint64_t instance;   /* random, differs after fork; identifies the process that answered */
	/* As the process itself sees it; 0: not known, in some forked children. */
	uint32_t pid;
	uint32_t state;      /* a prof_mailbox_* value, readable without a request */
	uint64_t session_id; /* of this or the last session; 0: there was none */
	uint64_t session_start_ns; /* UTC */
	uint64_t heartbeats; /* changes while the process reads the doorbell, not while it is idle */
	char library_version[64]; /* a text */
	uint32_t doorbell;   /* nonzero: a slot has a request; set by the client after sequence */
	uint32_t flags;      /* PROF_MAILBOX_BARRED */
	prof_slot_t slots[PROF_MAILBOX_SLOTS];
	prof_stream_t streams[PROF_MAILBOX_SLOTS];
	uint64_t root;       /* address of the root of the site tables (meta/image.h); 0: none yet */
	prof_lease_t leases[PROF_MAILBOX_SLOTS]; /* of the slots with the same index */
} prof_mailbox_t;

/*
 * Whether a lease is over, or was never valid by this clock. The difference is unsigned, so an end
 * in the past seems to be further away than any span.
 */
static inline bool
prof_lease_is_over(uint64_t until_ms, uint64_t span_ms, uint64_t now_ms) {
	return span_ms != 0 && until_ms - now_ms > span_ms;
}

/*
 * FNV-1a, 32 bits. It detects torn writes, not forgery: a process that can write here can do
 * anything. It covers sequence and nonce too, so that the text of another client, or an older text,
 * does not pass as this request.
 */
static inline uint32_t
prof_mailbox_sum(uint64_t sequence, uint64_t nonce, const char *text, uint32_t length) {
	uint32_t sum = 2166136261u;
	for (unsigned shift = 0; shift < 64; shift += 8) {
		sum = (sum ^ (uint32_t)(sequence >> shift & 255)) * 16777619u;
		sum = (sum ^ (uint32_t)(nonce >> shift & 255)) * 16777619u;
	}
	for (uint32_t i = 0; i < length; i++) {
		sum = (sum ^ (unsigned char)text[i]) * 16777619u;
	}
	return sum;
}
