/*
 * Threads, their names, signals and timers, futexes, seccomp and processors; thread.h has the
 * contract and the callers. System calls replace the C library's functions that allocate or do not
 * exist everywhere. Invariant: each function preserves errno, which those of pthreads do not set
 * (pthread_create() may, by the calls that it makes). No lock; the only state is the number of
 * processors and where the C library stores the id of a thread, which are learned once, the number
 * of the library's threads, and who is the first thread.
 */
#include "os/thread.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/nstime.h"
#include "os/sys.h"
#include "os/sys_call.h"
#include "os/tls.h"
#include "util/bits.h"

/* The kernel's numbers, because its header is not available with every C library. */
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_PRIVATE_FLAG 128

/* The kernel requires that a futex is an aligned word of 32 bits. */
cassert(sizeof(atomic_u32_t) == 4 && _Alignof(atomic_u32_t) == 4);

/* Longest time that a new thread is waited for; it may be stopped by a debugger or a filter. */
#define BEGIN_WAIT_NS NSTIME_PER_SEC
/* Spins of a round of os_pause(), and the nanoseconds that rounds from OS_PAUSE_SLEEPS on sleep. */
#define SPINS 64u
#define PAUSE_NS (NSTIME_PER_MSEC / 5)

/* Words of an affinity mask of 8192 processors. */
#define CPU_MASK_WORDS (8192 / (8 * sizeof(unsigned long)))

/* Threads of os_thread_create() that run. */
static atomic_u32_t n_own;
/*
 * The TLS words of the thread with which this process began, and of that with which it or the
 * ancestor that booted the library began. NULL: not known. Written at boot and in a forked child.
 */
static const struct tls_s *first, *root;

void
os_thread_block_all_signals(sigset_t *old) {
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
}

void
os_thread_restore_signals(const sigset_t *old) {
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

static void *
thread_begin(void *arg) {
	os_thread_t *t = arg;
	prctl(PR_SET_NAME, t->name, 0, 0, 0);
	void *(*fn)(void *) = t->fn;
	void *its = t->arg;
	/* From here on this thread reads nothing of t; the address of the word wakes the creator. */
	atomic_store_u32(&t->has_begun, 1, MO_RELEASE);
	os_word_wake(&t->has_begun, 1);
	atomic_fetch_add_u32(&n_own, 1, MO_RELAXED);
	void *result = fn(its);
	atomic_fetch_sub_u32(&n_own, 1, MO_RELAXED);
	return result;
}

int
os_thread_create(os_thread_t *t, const char *name, void *(*fn)(void *), void *arg) {
	int saved = errno;
	sigset_t old;
	t->name = name;
	t->fn = fn;
	t->arg = arg;
	atomic_store_u32(&t->has_begun, 0, MO_RELAXED);
	os_thread_block_all_signals(&old);
	int err = os_hooks->pthread_create(&t->handle, NULL, thread_begin, t);
	os_thread_restore_signals(&old);
	if (err == 0 && atomic_load_u32(&t->has_begun, MO_ACQUIRE) == 0) {
		os_word_wait(&t->has_begun, 0, BEGIN_WAIT_NS);
	}
	errno = saved;
	return err;
}

int
os_thread_join(os_thread_t *t) {
	int state;
	/* Joining is a cancellation point: a thread cancelled here would keep its caller's locks. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	int err = pthread_join(t->handle, NULL);
	pthread_setcancelstate(state, NULL);
	return err;
}

void
os_thread_boot(void) {
	int tid = os_tid_stored();
	if ((tid != 0 ? tid : os_tid()) == sys_pid()) {
		first = root = tls_get();
	}
}

bool
os_thread_is_first(void) {
	return tls_get() == first;
}

bool
os_thread_is_started(void) {
	return root != NULL && tls_get() != root;
}

bool
os_thread_has_users(void) {
	struct stat st;
	/* Two links are those of each directory; the first thread, a zombie now, is counted too. */
	bool is_known = !os_thread_is_filtered() && ERROR_OF(lstat("/proc/self/task", &st)) == 0;
	return !is_known || st.st_nlink > 3 + atomic_load_u32(&n_own, MO_RELAXED);
}

void
os_threads_in_child(void) {
	atomic_store_u32(&n_own, 0, MO_RELAXED);
	first = tls_get();
}

void
os_thread_name_get(char *buf, size_t size) {
	assert(size > 0);
	char name[OS_THREAD_NAME_SIZE] = "";
	if (ERROR_OF(prctl(PR_GET_NAME, name, 0, 0, 0)) != 0) {
		name[0] = '\0';
	}
	size_t len = min_zu(strnlen(name, sizeof(name) - 1), size - 1);
	assert(len < OS_THREAD_NAME_SIZE);
	memcpy(buf, name, len);
	buf[len] = '\0';
}

void
os_word_wait(atomic_u32_t *word, uint32_t seen, uint64_t ns) {
	int saved = errno;
	struct timespec ts = {(time_t)(ns / NSTIME_PER_SEC), (long)(ns % NSTIME_PER_SEC)};
	sys_call(SYS_futex, &word->repr, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, seen,
	    ns == UINT64_MAX ? NULL : &ts, NULL, 0);
	errno = saved;
}

void
os_word_wake(atomic_u32_t *word, unsigned n) {
	assert(n > 0 && n <= INT_MAX);
	/* This does not fail, so errno is kept. */
	sys_call(SYS_futex, &word->repr, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n, NULL, NULL, 0);
}

/* The kernel's timer ids begin at 0, so *timer is the id + 1. */
int
os_signal_later(int *timer, int signal, uint64_t ns) {
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal};
	struct itimerspec when = {
	    .it_value = {(time_t)(ns / NSTIME_PER_SEC), (long)(ns % NSTIME_PER_SEC)}};
	int id;
	int err = 0;
	assert(ns > 0);
	if (*timer == 0) {
		err = ERROR_OF(sys_call(SYS_timer_create, CLOCK_MONOTONIC, &ev, &id));
		*timer = err != 0 ? 0 : id + 1;
	}
	return err != 0 ? err : ERROR_OF(sys_call(SYS_timer_settime, *timer - 1, 0, &when, NULL));
}

void
os_pause(unsigned round) {
	static atomic_u32_t never; /* nobody changes it or wakes who sleeps on it */
	if (round < OS_PAUSE_SLEEPS) {
		for (unsigned i = 0; i < SPINS && os_ncpus() > 1; i++) {
			CPU_SPINWAIT();
		}
	} else {
		os_word_wait(&never, 0, PAUSE_NS);
	}
}

/*
 * The character behind the key in the thread's file status of /proc; '\0': it has no such line, or
 * cannot be read. The list of groups before the key may be long, so the file is read in pieces.
 */
static char
status_char(const char *key) {
	char text[1024], found = '\0';
	size_t length = strlen(key), kept = 0;
	int fd = sys_open_own("status");
	if (fd < 0) {
		return '\0';
	}
	ssize_t n;
	while (found == '\0' && (n = sys_read(fd, text + kept, sizeof(text) - 1 - kept)) > 0) {
		size_t end = kept + (size_t)n;
		text[end] = '\0';
		const char *at = strstr(text, key);
		found = at != NULL ? at[length] : '\0';
		kept = min_zu(end, length); /* the key may lie in two pieces */
		memmove(text, text + end - kept, kept);
	}
	sys_close(fd);
	return found;
}

/*
 * /proc is read first, because a seccomp filter may kill the process for prctl(PR_GET_SECCOMP).
 */
bool
os_thread_is_filtered(void) {
	char told = status_char("\nSeccomp:\t");
	return told != '\0' ? told != '0' : COUNT_OF(prctl(PR_GET_SECCOMP, 0, 0, 0, 0)) > 0;
}

int
os_tid(void) {
	return (int)sys_call(SYS_gettid);
}

/* C libraries store the thread's id as the owner of a mutex that checks who unlocks it. */
#if defined(__GLIBC__) && defined(PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP)
int
os_tid_stored(void) {
	pthread_mutex_t m = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	int tid = pthread_mutex_lock(&m) == 0 ? m.__data.__owner : 0;
	pthread_mutex_unlock(&m);
	return tid;
}
#else
/* The word of such a mutex that has the owner, plus 1; 0: none has. The first call finds it. */
static size_t owner_at;
static bool is_sought;

int
os_tid_stored(void) {
	union {
		pthread_mutex_t m;
		int words[sizeof(pthread_mutex_t) / sizeof(int)];
	} u;
	pthread_mutexattr_t kind;
	memset(&u, 0, sizeof(u));
	pthread_mutexattr_init(&kind);
	pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
	pthread_mutex_init(&u.m, &kind);
	pthread_mutex_lock(&u.m);
	int tid = is_sought ? 0 : os_tid();
	for (size_t i = 0; i < ARRAY_LEN(u.words) && !is_sought; i++) {
		owner_at = u.words[i] == tid ? i + 1 : owner_at;
	}
	is_sought = true;
	tid = owner_at != 0 ? u.words[owner_at - 1] : 0;
	pthread_mutex_unlock(&u.m);
	return tid;
}
#endif

static unsigned
ncpus_ask(void) {
	unsigned long mask[CPU_MASK_WORDS];
	unsigned n = 0;
	ssize_t bytes = COUNT_OF(sys_call(SYS_sched_getaffinity, 0, sizeof(mask), mask));
	assert(bytes <= (ssize_t)sizeof(mask));
	if (bytes > 0) {
		for (size_t i = 0; i < (size_t)bytes / sizeof(mask[0]); i++) {
			n += popcount_zu(mask[i]);
		}
	} else {
		/* The call fails if the kernel's mask is longer than ours. */
		ssize_t online = COUNT_OF(sysconf(_SC_NPROCESSORS_ONLN));
		n = online > 0 ? (unsigned)online : 0;
	}
	return n > 0 ? n : 1;
}

unsigned
os_ncpus(void) {
	static atomic_u32_t known;
	uint32_t n = atomic_load_u32(&known, MO_RELAXED);
	if (unlikely(n == 0)) {
		n = ncpus_ask();
		atomic_store_u32(&known, n, MO_RELAXED);
	}
	return n;
}

int
os_cpu(void) {
	return (int)COUNT_OF(sched_getcpu());
}
