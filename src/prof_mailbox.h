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
 * the nonce: an answer with another nonce is not theirs; they try another slot.
 * All numbers are in the byte order of the machine.  A reader of another PROF_MAILBOX_VERSION keeps off.
 */
#ifndef PROF_MAILBOX_H
#define PROF_MAILBOX_H

#include <stdint.h>

#define PROF_MAILBOX_MAGIC UINT64_C(0x786f626c69616d6a) /* "jmailbox" */
#define PROF_MAILBOX_VERSION 1u
#define PROF_MAILBOX_BYTES 65536u     /* size and alignment: a page on every machine */
#define PROF_MAILBOX_SLOTS 4u
#define PROF_MAILBOX_TEXT 1024u
#define PROF_MAILBOX_STREAM 16384u
#define PROF_NOTE_OWNER "jemalloc"
#define PROF_NOTE_TYPE 0x6a706d62u    /* "jpmb" */

/* Body of the note. */
typedef struct prof_note_s {
	uint32_t version;
	uint32_t bytes;
	int64_t distance;    /* address of the block minus address of this field */
} prof_note_t;

typedef struct prof_slot_s {
	/* Written by the asker; sequence last. 0: free. */
	uint64_t sequence;
	uint64_t nonce;
	uint32_t length;
	uint32_t checksum;   /* prof_mailbox_sum of the text */
	char text[PROF_MAILBOX_TEXT];
	/* Written by the library; answered last. */
	uint64_t answered;
	uint64_t answer_nonce;
	int32_t error;       /* errno, 0: done */
	uint32_t answer_length;
	char answer[PROF_MAILBOX_TEXT];
} prof_slot_t;

/* A dump streamed through the mailbox (dump -o): the library fills, the reader takes. */
typedef struct prof_stream_s {
	uint64_t nonce;      /* of the request it belongs to; 0: none */
	uint64_t filled;     /* bytes put in so far, all in all */
	uint64_t taken;      /* bytes taken so far, written by the reader */
	uint32_t is_complete;
	int32_t error;
	char data[PROF_MAILBOX_STREAM]; /* a ring */
} prof_stream_t;

typedef struct prof_mailbox_s {
	uint64_t magic;
	uint32_t version;
	uint32_t bytes;
	uint64_t instance;   /* random, differs after fork: whose answer is it */
	uint32_t pid;        /* as the process sees itself */
	uint32_t state;      /* prof_session_state_t, for list and status without a request */
	uint64_t session_id;
	uint64_t session_start_ns;
	uint64_t heartbeats; /* counts looks at the doorbell: an idle process stands still */
	char library_version[64];
	uint32_t doorbell;   /* nonzero: look at the slots; set by the asker after sequence */
	prof_slot_t slots[PROF_MAILBOX_SLOTS];
	prof_stream_t stream;
} prof_mailbox_t;

/* FNV-1a, 32 bits: against torn writes, not against forgery (who can write here can do anything). */
static inline uint32_t
prof_mailbox_sum(const char *text, uint32_t length) {
	uint32_t sum = 2166136261u;
	for (uint32_t i = 0; i < length; i++) {
		sum = (sum ^ (unsigned char)text[i]) * 16777619u;
	}
	return sum;
}

#endif
