/*
 * Threads, their names and signals, and the processors.  No state.
 */
#include "os/thread.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/sys.h"
#include "util/assert.h"
#include "util/bits.h"

/* Room for the affinity mask of 8192 processors. */
#define CPU_MASK_WORDS (8192 / (8 * sizeof(unsigned long)))

void
os_thread_block_all_signals(sigset_t *old) {
	int saved = errno;
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
	errno = saved;
}

void
os_thread_restore_signals(const sigset_t *old) {
	int saved = errno;
	pthread_sigmask(SIG_SETMASK, old, NULL);
	errno = saved;
}

int
os_thread_create(os_thread_t *t, void *(*fn)(void *), void *arg) {
	int saved = errno;
	sigset_t old;
	os_thread_block_all_signals(&old);
	int err = os_hooks->pthread_create(&t->handle, NULL, fn, arg);
	os_thread_restore_signals(&old);
	errno = saved;
	return err;
}

int
os_thread_join(os_thread_t *t) {
	int saved = errno;
	int err = pthread_join(t->handle, NULL);
	errno = saved;
	return err;
}

void
os_thread_name_get(char *buf, size_t size) {
	assert(size > 0);
	int saved = errno;
	char name[OS_THREAD_NAME_SIZE] = "";
	if (prctl(PR_GET_NAME, name, 0, 0, 0) != 0) {
		name[0] = '\0';
	}
	size_t len = min_zu(strnlen(name, sizeof(name) - 1), size - 1);
	assert(len < OS_THREAD_NAME_SIZE);
	memcpy(buf, name, len);
	buf[len] = '\0';
	errno = saved;
}

void
os_thread_name_set(const char *name) {
	int saved = errno;
	prctl(PR_SET_NAME, name, 0, 0, 0);
	errno = saved;
}

int
os_tid(void) {
	return (int)syscall(SYS_gettid);
}

unsigned
os_ncpus(void) {
	int saved = errno;
	unsigned long mask[CPU_MASK_WORDS];
	unsigned n = 0;
	long bytes = syscall(SYS_sched_getaffinity, 0, sizeof(mask), mask);
	assert(bytes <= (long)sizeof(mask));
	if (bytes > 0) {
		for (size_t i = 0; i < (size_t)bytes / sizeof(mask[0]); i++) {
			n += (unsigned)__builtin_popcountl(mask[i]);
		}
	} else {
		long online = sysconf(_SC_NPROCESSORS_ONLN);
		n = online > 0 ? (unsigned)online : 0;
	}
	errno = saved;
	return n > 0 ? n : 1;
}

int
os_cpu(void) {
#if HAVE_SCHED_GETCPU
	int saved = errno;
	int cpu = sched_getcpu();
	errno = saved;
	return cpu;
#else
	int saved = errno;
	unsigned cpu = 0;
	long ret = syscall(SYS_getcpu, &cpu, NULL, NULL);
	errno = saved;
	return ret == 0 ? (int)cpu : -1;
#endif
}
