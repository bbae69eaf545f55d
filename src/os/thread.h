/*
 * Threads and processors as the system sees them: threads, names, signals, timers, seccomp,
 * futexes, CPU numbers. All functions preserve errno and, unless they say otherwise, take no lock
 * and do not allocate. Called by mutex, gate, claim, arenas, imalloc, pac_step, background_thread,
 * ctl_thread, unwind_step, jemalloc_init, jemalloc_fork and the profiler.
 */
#pragma once

#include <pthread.h>
#include <signal.h>

#include "util/atomic.h"
#include "util/compiler.h"

/* Bytes of the longest thread name with its NUL (the kernel's limit). */
#define OS_THREAD_NAME_SIZE 16

/*
 * A thread of the library; lies in memory of its owner that stays until the thread has ended.
 * os_thread_create() fills it in.
 */
typedef struct {
	pthread_t handle;
	const char *name;
	void *(*fn)(void *arg);
	void *arg;
	atomic_u32_t has_begun; /* a futex; 1 when the thread has set its name and is about to run fn */
} os_thread_t;

/*
 * Starts fn(arg) in a new thread of this name (at most OS_THREAD_NAME_SIZE bytes with the NUL) with
 * all signals blocked, and waits until it runs, at most a second, or until a signal comes: so a
 * filter of system calls that the program puts on afterwards hardly meets the calls that only a
 * start makes. Returns 0 or an errno value. The C library allocates.
 */
int os_thread_create(os_thread_t *t, const char *name, void *(*fn)(void *), void *arg);
/* Waits until the thread has ended. Returns 0 or an errno value. */
int os_thread_join(os_thread_t *t);
/* Notes whether the caller, which boots the library, is the process's first thread. */
void os_thread_boot(void);
/*
 * Whether the caller is the thread with which the process began or, in a child, that forked. False
 * if another thread booted the library and the process has not forked since.
 */
bool os_thread_is_first(void);
/*
 * Whether pthread_create() started the caller, in this process or in an ancestor: its TLS lies
 * above its stack then. False for all threads if the first one did not boot the library.
 */
bool os_thread_is_started(void);
/*
 * In a process whose first thread has ended: whether another thread is left that os_thread_create()
 * has not made; true if that is not known (no /proc, or a filter of system calls).
 */
bool os_thread_has_users(void);
/* In a forked child, where only the calling thread exists, which is the first one there. */
void os_threads_in_child(void);
/* Name of the calling thread, cut to size - 1 bytes; "" if the system does not provide it. */
void os_thread_name_get(char *buf, size_t size);
/* The kernel's id of the calling thread, by a system call. */
int os_tid(void);
/*
 * os_tid() without a system call, as the C library has stored it; 0: not known. In a forked
 * child, which has only this thread, it is equal to the pid.
 */
int os_tid_stored(void);
/*
 * Whether system calls of this thread are filtered (seccomp). It cannot be known which calls the
 * filter forbids.
 */
bool os_thread_is_filtered(void);
/* Number of processors that the thread which first calls this may use, found then; at least 1. */
unsigned os_ncpus(void);
/*
 * os_word_wait() sleeps while *word equals seen, for at most ns nanoseconds (UINT64_MAX: no limit);
 * it may return early. A thread that changes the word wakes up to n sleepers by os_word_wake().
 */
void os_word_wait(atomic_u32_t *word, uint32_t seen, uint64_t ns);
void os_word_wake(atomic_u32_t *word, unsigned n);
/*
 * Lets other threads run for a short time: a step of a loop that waits for what they do. It sleeps
 * on a futex, because a filter may forbid sched_yield(2) and nanosleep(2). round: number of steps
 * before this one; the first OS_PAUSE_SLEEPS only spin, or with one processor do nothing.
 */
void os_pause(unsigned round);
/* The first round in which os_pause() sleeps, for 200 us or a little longer. */
#define OS_PAUSE_SLEEPS 16u
/* The processor on which this thread runs; negative if the system does not provide it. */
int os_cpu(void);

/*
 * Sends the process a signal (si_code SI_TIMER) after ns nanoseconds, ns > 0. Returns 0 or an errno
 * value. *timer is 0 before the first call and keeps the timer for later calls, which set it anew.
 * A forked child does not inherit timers, so its *timer must be set to 0. May be called in a signal
 * handler.
 */
int os_signal_later(int *timer, int signal, uint64_t ns);

/* Block all signals of the calling thread, and restore the mask that was in *old. */
void os_thread_block_all_signals(sigset_t *old);
void os_thread_restore_signals(const sigset_t *old);
