/*
 * Threads and processors as the system sees them.
 */
#ifndef OS_THREAD_H
#define OS_THREAD_H

#include <pthread.h>
#include <signal.h>

#include "util/atomic.h"
#include "util/compiler.h"

/* Longest thread name with its 0 (the kernel's limit). */
#define OS_THREAD_NAME_SIZE 16

typedef struct {
	pthread_t handle;
} os_thread_t;

/* Starts fn(arg) with all signals blocked; 0 or errno.  Allocates in the C library. */
int os_thread_create(os_thread_t *t, void *(*fn)(void *), void *arg);
int os_thread_join(os_thread_t *t);
/* Name of the current thread; an empty string if the system does not tell. */
void os_thread_name_get(char *buf, size_t size);
void os_thread_name_set(const char *name);
int os_tid(void);
/* Processors that this process may use, at least 1. */
unsigned os_ncpus(void);
/*
 * Sleeps while *word is seen, for at most ns nanoseconds (UINT64_MAX: no limit); may come back early.
 * A change of the word is made known to n sleepers by waking them.
 */
void os_word_wait(atomic_u32_t *word, uint32_t seen, uint64_t ns);
void os_word_wake(atomic_u32_t *word, unsigned n);
/* Lets others run. */
void os_yield(void);
/* Processor that this thread runs on right now, -1 if the system does not tell. */
int os_cpu(void);

/*
 * Sends the process a signal (si_code SI_TIMER) after ns nanoseconds; 0 or errno.  *timer: 0 at first,
 * kept for the next time; not inherited by fork.  May be called in a handler.
 */
int os_signal_later(int *timer, int signal, uint64_t ns);

void os_thread_block_all_signals(sigset_t *old);
void os_thread_restore_signals(const sigset_t *old);

#endif
