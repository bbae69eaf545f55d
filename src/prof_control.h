/*
 * Control from outside: the mailbox, and the profiler's own thread.
 *
 * A heartbeat looks at one word of the mailbox.  If it is set, the requests are carried out right
 * there, or by the profiler's thread if that runs.  One thread at a time does so; others go on.
 * A place is safe for it when the thread came straight from the program into malloc: no event inside
 * an event, no lock, no fork under way.
 * The thread exists while it has something to do: a session, a timer, a control directory.  It is made
 * at a heartbeat or by whoever starts a session, never by a constructor, and is not inherited by fork.
 */
#ifndef PROF_CONTROL_H
#define PROF_CONTROL_H

#include "prof_mailbox.h"
#include "thread/tsd_types.h"

typedef enum {
	prof_thread_auto,
	prof_thread_true,  /* always there, from the first heartbeat on */
	prof_thread_false
} prof_thread_opt_t;
extern prof_thread_opt_t opt_prof_thread;
extern const char *const prof_thread_opt_names[]; /* as the enum, then NULL */
extern bool opt_prof_ctl_fd;

/* The block itself; found from outside through an ELF note. */
typedef union {
	prof_mailbox_t box;
	char bytes[PROF_MAILBOX_BYTES];
} prof_mailbox_block_t;
extern HIDDEN prof_mailbox_block_t prof_mailbox_block;

/* Opens the mailbox, unless the process runs with more rights than its user. */
void prof_control_boot(void);
void prof_control_heartbeat(tsd_t *tsd, uint64_t bytes);
void prof_control_postfork_child(void);

/* Carries out what lies in the slots; false: another thread is at it. */
bool prof_control_serve(void);
bool prof_control_has_thread(void);

#endif /* PROF_CONTROL_H */
