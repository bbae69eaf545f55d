/*
 * What can be asked from outside, as rows: verb, what it does.  Both doors (mailbox and control
 * directory) come here with one line of text and take one answer away; the grammar stands in
 * prof_mailbox.h.  Carried out at a safe point only: outside the allocator, no lock, no handler.
 */
#ifndef PROF_REQUEST_H
#define PROF_REQUEST_H

#include "prof_mailbox.h"
#include "prof_sys.h"

typedef struct {
	size_t len;
	char text[PROF_MAILBOX_TEXT];
} prof_answer_t;

typedef struct {
	bool is_confined;     /* files may lie in the directory of the configured prefix only */
	prof_sink_t *stream;  /* where dump-stream goes, NULL: nowhere */
} prof_asker_t;

/* text: one line, 0-terminated.  0 or errno, and the answer. */
int prof_request(const char *text, const prof_asker_t *asker, prof_answer_t *answer);

/* A sentence as answer; returns err. */
int prof_request_refuse(prof_answer_t *answer, int err, const char *sentence);
/* Whether the profiler has a thread: "yes", "no", or "no: " and the reason; filled by prof_control. */
extern const char *(*const prof_request_thread)(void);
/* prof_mailbox_idle and so on. */
uint32_t prof_request_state(void);
/* Where a confined asker may write: what the prefix was when the options were read. */
void prof_request_boot(void);

#endif /* PROF_REQUEST_H */
