/*
 * The requests from outside the process, as a table of verbs. The mailbox and the control directory
 * both pass one line of text here and take one answer back; prof_mailbox.h has the grammar.
 * Requests are carried out at a safe point only: outside the gate (os/gate.h: fork waits until no
 * thread is inside), without locks, not in a signal handler, and by one thread at a time
 * (control.server). Called by prof_control.c and prof_ctl_dir.c.
 */
#pragma once

#include "prof/control/prof_mailbox.h"
#include "prof/file/prof_sys.h"

/* The text of an answer, with a NUL, and its length. */
typedef struct {
	size_t len;
	char text[PROF_MAILBOX_TEXT];
} prof_answer_t;

/* The rights of the client that sent the request. */
typedef struct {
	bool is_confined;     /* may only name files in the directory of the configured prefix */
	prof_sink_t *stream;  /* receives a profile of dump-stream; NULL: that is refused */
} prof_asker_t;

/* A request that is carried out. */
typedef struct {
	const char *args;          /* what follows the first word */
	const prof_asker_t *asker;
	prof_kind_t kind;          /* of the profile that it asks for */
} prof_call_t;

/* What a request is, by its first word, which goes up to a blank or the end. */
typedef struct {
	char name[18];
	bool takes_args;   /* there may be text behind the word */
	bool is_repeated;  /* to be carried out anew if the client asks again: its answer changes */
	bool is_long;      /* writes a profile, or may wait for one */
	bool is_stream;    /* writes it to the sink of the asker */
	prof_kind_t kind : 8; /* of the profile; without one of no meaning */
	int (*fn)(const prof_call_t *call, prof_answer_t *a); /* 0 or an errno */
} prof_verb_t;

/*
 * The request that this text begins with; NULL: none. Whoever must know what it is before or after
 * prof_request() asks here, and does not compare texts: "status " is the same request as "status".
 */
const prof_verb_t *prof_request_verb(const char *text);
/*
 * Carries out one request: a line with a NUL, no newline. Returns 0 or an errno, and the answer:
 * EBADMSG for a text that is no request, EINVAL for more text than it takes, else of the verb.
 */
int prof_request(const char *text, const prof_asker_t *asker, prof_answer_t *answer);

/* Makes the answer, a sentence, and returns err; what has no room is cut off. */
int prof_request_refuse(prof_answer_t *answer, int err, const char *format, ...) PRINTF_FMT(3, 4);
/*
 * Whether a request may still be carried out: 0, or ESTALE and the answer if its lease is over;
 * until_ms and span_ms are as in prof_lease_t. Must be called just before prof_request().
 */
int prof_request_check_lease(prof_answer_t *answer, uint64_t until_ms, uint64_t span_ms);
/*
 * Returns whether the profiler has a thread: "yes", "no", or "no: " and the reason.
 * prof_control_wire() fills it.
 */
extern const char *(*prof_request_thread_hook)(void);
/* The state of the profiler as a prof_mailbox_* value. Any thread may ask. */
uint32_t prof_request_state(void);
/*
 * Fixes the directory where a confined client may write: that of the option prof_prefix. Called at
 * boot if there is a control directory.
 */
void prof_request_boot(void);
