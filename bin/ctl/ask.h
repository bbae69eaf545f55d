/*
 * Requests and answers, through the mailbox (mailbox.c) or the control directory (directory.c). Invariant: a request that
 * is not answered is taken back when we leave, however that happens.
 */
#pragma once
#include <stdio.h>

#include "process.h"
#include "talk.h"

enum { TAKEN_WAIT_MS = 60000 }; /* a request that was taken may write a large profile */

typedef struct reply_s {
	int error;
	char text[TEXT_BYTES];
} reply_t;

/* A profile that was fetched whole. */
typedef struct profile_s {
	char *text;
	uint64_t bytes;
} profile_t;

/* How a request to a process that allocates nothing ends; else the asker waits, and leaves with the reason. */
typedef enum {
	manner_wait,
	manner_return, /* taken back, after IDLE_MS or --wait */
	manner_stay,   /* left in its slot, after IDLE_MS */
} manner_t;

/*
 * False if the process is idle and manner says that this is no reason to leave. With a profile: the answer says that one
 * waits, which is fetched before the slot is given back.
 */
bool ask_mailbox(process_t *p, const char *text, manner_t manner, profile_t *profile, reply_t *reply);
void ask_dir(process_t *p, const char *text, reply_t *reply);

/* There was no answer, and the request was taken back: says why. */
__attribute__((noreturn)) void leave_unanswered(process_t *p, bool was_busy);

/* Fetches the profile that waits under this nonce, or leaves with the reason. */
void fetch_profile(process_t *p, uint64_t nonce, profile_t *profile);

/* The text of a request that lies in its slot and begins with `verb`; false if there is none. */
bool find_pending(const process_t *p, const char *verb, char text[PROF_MAILBOX_TEXT]);

unsigned count_pending(const process_t *p);

/* The request that was left in its slot is not taken back when we leave. */
void let_stay(void);

/* Takes back what others have left in their slots; how many. */
int withdraw_pending(process_t *p);

/* Frees the slot of the request that is not answered, unless somebody else has taken it. */
void take_back(void);

/* The pieces that test/jeprofctl/fuzz.c uses. */
uint64_t slot_at(const process_t *p, unsigned i);
void write_word(process_t *p, uint64_t at, const void *word, size_t size);
