/*
 * The mailbox: the block of memory through which a program outside (bin/jeprofctl) asks the profiler
 * for something, and reads the answer.  This file is the protocol; both sides include it and nothing
 * else of each other.
 *
 * The block is page aligned, lies in writable data of the library, and is found through an ELF note
 * (owner "jemalloc", type PROF_NOTE_TYPE) in a loaded segment, which holds the distance from the note to
 * the block; so no symbol table is needed.
 * A writer fills a free slot: text, length, checksum, nonce, and stores `sequence` last.  The library
 * looks at `doorbell` at heartbeats, copies a slot out, checks it, carries it out, writes the answer with
 * the same nonce, and stores `answered` = sequence last.  Two writers that took the same slot see it by
 * the nonce: an answer with another nonce is not theirs; they ask again in another slot, under the SAME nonce and a new
 * sequence.  The library remembers what it answered to the last nonces and repeats that: so a request whose answer was
 * overwritten, or whose text was seen under the sequence of another, is carried out once.  `status` is not remembered.
 * As soon as a request is copied out, the library writes `answer_nonce`: from then on the asker waits longer, and does
 * not take the request back (by sequence = 0).  `sequence` is a random number, never 0: a slot whose `answered` equals
 * it is done, and belongs to its asker until that one stores 0; if he never does, the next asker may take it.
 * The block counts as closed while `magic` is 0: before the first allocation, and in a process with AT_SECURE.
 * With prof_ctl_fd:true the block is a shared mapping of a memfd named PROF_MAILBOX_FD_NAME.
 * All numbers are in the byte order of the machine.  A reader of another PROF_MAILBOX_VERSION keeps off.
 *
 * A request is one line without a newline: `start k:v,k:v`, `stop [N]`, `dump [PATH]`, `dump-stream`, `status`,
 * `set k:v,...`, `rearm`.  Numbers in it are plain.  The answer of stop and dump is the path, of start the number of the
 * session (and a second line if its profile could not be written where it would go), of status lines key=value; with
 * error != 0 it is one sentence.  EBADMSG: torn or malformed as a message (ask again); the other errors are those of the
 * table of requests and states.
 * The answer to dump-stream says that the profile is there: its whole text, made at once, in memory that the process keeps
 * for the asker.  One of `streams` bears the nonce of the request and tells where; the asker reads it at his own speed and
 * stores is_taken = 1.  The process drops it then, after 30 s, or when the next one comes into its place: it sets the nonce
 * to 0 first, so what was read is the profile if the nonce still stands there after the read.
 * A request to an idle process may be left in its slot (start, set): it is pending, and carried out when the process looks.
 *
 * In the control directory the line is PID.cmd, optionally preceded by `nonce=<hex> `; the library takes it by renaming
 * it to PID.taken, which goes away.  PID.status begins with the line `nonce=<hex> error=<errno>` (nonce 0 if none was
 * given); the rest is the answer.
 */
#ifndef PROF_MAILBOX_H
#define PROF_MAILBOX_H

#include <stdint.h>

#define PROF_MAILBOX_MAGIC UINT64_C(0x786f626c69616d6a) /* "jmailbox" */
#define PROF_MAILBOX_VERSION 2u
#define PROF_MAILBOX_BYTES 65536u     /* size and alignment: a page on every machine */
#define PROF_MAILBOX_SLOTS 4u
#define PROF_MAILBOX_TEXT 1024u
#define PROF_MAILBOX_FD_NAME "jemalloc-mailbox"
#define PROF_MAILBOX_PROFILE_NAME "jemalloc-profile"
#define PROF_NOTE_OWNER "jemalloc"
#define PROF_NOTE_TYPE 0x6a706d62u    /* "jpmb" */

/* Values of `state`: idle; of the session; sampling without one, as MALLOC_CONF or the program has switched it on. */
enum {
	prof_mailbox_idle,
	prof_mailbox_active,
	prof_mailbox_stopping,
	prof_mailbox_paused,
	prof_mailbox_sampling,
	prof_mailbox_switched_on
};

/* Bits of `flags`. */
#define PROF_MAILBOX_BARRED 1u        /* no profiler's thread: system calls are filtered (seccomp) */

/* Body of the note. */
typedef struct prof_note_s {
	uint32_t version;
	uint32_t bytes;      /* 0: built without the profiler */
	int64_t distance;    /* address of the block minus address of this field */
} prof_note_t;

typedef struct prof_slot_s {
	/* Written by the asker; sequence last. 0: free. */
	uint64_t sequence;
	uint64_t nonce;
	uint32_t length;
	uint32_t checksum;   /* prof_mailbox_sum of the three above and the text */
	char text[PROF_MAILBOX_TEXT];
	/* Written by the library; answered last. */
	uint64_t answered;
	uint64_t answer_nonce; /* written when the request is taken */
	int32_t error;       /* errno, 0: done */
	uint32_t answer_length;
	char answer[PROF_MAILBOX_TEXT];
} prof_slot_t;

/* A profile that waits for its asker (dump -o). */
typedef struct prof_stream_s {
	uint64_t nonce;      /* of the request it belongs to; 0: none */
	uint64_t bytes;
	uint64_t first;      /* address of the first prof_part_t; 0: in the file */
	int32_t fd;          /* with prof_ctl_fd: descriptor of a memfd named PROF_MAILBOX_PROFILE_NAME; else -1 */
	uint32_t is_taken;   /* written by the asker */
} prof_stream_t;

/* Its text follows. */
typedef struct prof_part_s {
	uint64_t next;       /* address; 0: the last one */
	uint64_t bytes;
} prof_part_t;

typedef struct prof_mailbox_s {
	uint64_t magic;
	uint32_t version;
	uint32_t bytes;
	uint64_t instance;   /* random, differs after fork: whose answer is it */
	uint32_t pid;        /* as the process sees itself */
	uint32_t state;      /* prof_mailbox_idle and so on, for list and status without a request */
	uint64_t session_id;
	uint64_t session_start_ns;
	uint64_t heartbeats; /* counts looks at the doorbell: an idle process stands still */
	char library_version[64];
	uint32_t doorbell;   /* nonzero: look at the slots; set by the asker after sequence */
	uint32_t flags;      /* PROF_MAILBOX_BARRED */
	prof_slot_t slots[PROF_MAILBOX_SLOTS];
	prof_stream_t streams[PROF_MAILBOX_SLOTS];
} prof_mailbox_t;

/*
 * FNV-1a, 32 bits: against torn writes, not against forgery (who can write here can do anything).  Over the words too:
 * a sequence does not make a request of the text that another asker has put, or that lies there from before.
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

#endif
