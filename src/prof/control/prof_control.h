/*
 * Control from outside the process: the mailbox, and the profiler's own thread.
 *
 * A heartbeat (periodic work of a thread by bytes allocated, thread/thread_event.h) reads one word
 * of the mailbox, the doorbell. If it is set, requests are carried out at that point, or by the
 * profiler's thread if it runs; one thread at a time carries them out, and others go on. Dumps and
 * marks are left to the profiler's thread wherever there can be one. A heartbeat carries out
 * requests only if its thread came directly from the user's code into malloc (not in a nested
 * event, without a lock) and no fork is under way; otherwise a later heartbeat does.
 *
 * The profiler's thread exists while it has work: a session, a timer, a black box, a control
 * directory, signals to wait for (prof_final_signals), a request left to it, a profile to hand
 * over; with prof_thread:true always, but for forked children. It is started by the constructor if
 * the options want it, at a heartbeat, or after a change of a session or threshold; a forked child
 * does not have it at first. There is none with prof_thread:false, if the system refuses it, or
 * under a filter of system calls that prof_thread:true does not override; heartbeats do its work.
 *
 * Locks: none; requests are served outside the gate (os/gate.h: fork waits until no thread is
 * inside). Called by jemalloc_init.c and prof.c, at heartbeats through a hook of thread_event.h,
 * and through the hooks of prof_control_wire(); conf_table.c sets the options.
 */
#pragma once

#include "prof/control/prof_mailbox.h"
#include "thread/tsd_types.h"

typedef enum {
	prof_thread_auto,  /* there while it has work */
	prof_thread_true,  /* always there; in a forked child as auto */
	prof_thread_false  /* never: heartbeats do its work */
} prof_thread_opt_t;
extern prof_thread_opt_t opt_prof_thread; /* whether there is a profiler's thread */
extern const char *const prof_thread_opt_names[]; /* as the enum, then NULL */
/* Whether the mailbox is in a memory file (option prof_ctl_fd). */
extern bool opt_prof_ctl_fd;

/* The block itself; other processes find it through an ELF note. */
typedef union {
	prof_mailbox_t box;
	char bytes[PROF_MAILBOX_BYTES];
} prof_mailbox_block_t;
extern HIDDEN prof_mailbox_block_t prof_mailbox_block;

/*
 * Fills the hooks by which the modules below call this one. Called by jemalloc_init.c before all
 * others.
 */
void prof_control_wire(void);
/*
 * Applies the options of control (prof_ctl_fd, prof_ctl_dir, prof_final_signals, prof_thread) and
 * opens the mailbox. A process that has more rights than its user (AT_SECURE) gets neither a
 * mailbox nor a control directory; all else works in it too.
 */
void prof_control_boot(void);
/* Called by the library's constructor, after boot: starts the thread if the options want it. */
void prof_control_boot_late(void);
/* Called at each heartbeat of a thread, as prof_heartbeat() is; bytes is not used. */
void prof_control_heartbeat(tsd_t *tsd, uint64_t bytes);
/*
 * In a forked child: the first before the other handlers of the profiler, because what these change
 * must not be told to the parent's mailbox, nor start the thread. The second, after them, gives the
 * child a mailbox of its own; the profiler's thread does not exist in it.
 */
void prof_control_postfork_begin(void);
void prof_control_postfork_child(void);

/*
 * Carries out the requests in the slots as the profiler's thread does; false if the mailbox is
 * closed or another thread is doing that. For tests.
 */
bool prof_control_serve(void);
/* Whether the profiler's thread runs, or is about to start. */
bool prof_control_has_thread(void);
