/*
 * Threads and processors as the system sees them: threads, names, signals, futexes, CPU numbers.
 * All functions preserve errno and, unless they say otherwise, take no lock and do not allocate.
 * Called by mutex, arenas, imalloc, pac, background_thread and the profiler.
 */
#ifndef OS_THREAD_H
#define OS_THREAD_H

#include <pthread.h>
#include <signal.h>

#include "util/atomic.h"
#include "util/compiler.h"

/* Bytes of the longest thread name with its NUL (the kernel's limit). */
#define OS_THREAD_NAME_SIZE 16

typedef struct {
	pthread_t handle;
} os_thread_t;

/*
 * Starts fn(arg) in a new thread with all signals blocked. Returns 0 or an errno value. The C
 * library allocates.
 */
int os_thread_create(os_thread_t *t, void *(*fn)(void *), void *arg);
/* Waits until the thread has ended. Returns 0 or an errno value. */
int os_thread_join(os_thread_t *t);
/* Name of the calling thread; an empty string if the system does not provide it. */
void os_thread_name_get(char *buf, size_t size);
/* Sets the name of the calling thread; the kernel cuts it to OS_THREAD_NAME_SIZE. */
void os_thread_name_set(const char *name);
/* The kernel's id of the calling thread. */
int os_tid(void);
/*
 * Whether system calls of the thread are filtered (seccomp). It cannot be known which calls the
 * filter forbids.
 */
bool os_thread_is_filtered(void);
/* Number of processors that this process may use; at least 1. */
unsigned os_ncpus(void);
/*
 * os_word_wait() sleeps while *word equals seen, for at most ns nanoseconds (UINT64_MAX: no limit);
 * it may return early. A thread that changes the word wakes up to n sleepers by os_word_wake().
 */
void os_word_wait(atomic_u32_t *word, uint32_t seen, uint64_t ns);
void os_word_wake(atomic_u32_t *word, unsigned n);
/* Lets other threads run. */
void os_yield(void);
/* The processor on which this thread runs; -1 if the system does not provide it. */
int os_cpu(void);

/*
 * Sends the process a signal (si_code SI_TIMER) after ns nanoseconds. Returns 0 or an errno value.
 * *timer is 0 before the first call and keeps the timer for later calls; a forked child does not
 * inherit timers. May be called in a signal handler.
 */
int os_signal_later(int *timer, int signal, uint64_t ns);

/* Block all signals of the calling thread, and restore the mask that was in *old. */
void os_thread_block_all_signals(sigset_t *old);
void os_thread_restore_signals(const sigset_t *old);

#endif
