/* Threads, names, signals, filters and processors. */
#include "test.h"

#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* musl-gcc finds no headers of the kernel. */
#if __has_include(<linux/filter.h>)
#define HAS_FILTERS 1
#include <linux/filter.h>
#include <linux/seccomp.h>
#else
#define HAS_FILTERS 0
#endif

#include "os/sys.h"
#include "os/thread.h"

struct seen {
	sigset_t mask;
	int tid;
	char name[OS_THREAD_NAME_SIZE];
};

static void *
look(void *arg) {
	struct seen *s = arg;
	pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
	s->tid = os_tid();
	os_thread_name_get(s->name, sizeof(s->name));
	return NULL;
}

static int
fail_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) {
	(void)t;
	(void)attr;
	(void)fn;
	(void)arg;
	errno = ENOMEM; /* of a call that it makes itself */
	return EAGAIN;
}

static void
test_create(void) {
	struct seen s;
	os_thread_t t;
	sigset_t before, after;
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	is_int(os_thread_create(&t, "a-name-too-long-for-it", look, &s), 0, "create");
	is_uint(atomic_load_u32(&t.has_begun, MO_ACQUIRE), 1, "it runs when that returns");
	is_int(os_thread_join(&t), 0, "join");
	ok(sigismember(&s.mask, SIGTERM) == 1 && sigismember(&s.mask, SIGUSR1) == 1,
	    "signals are blocked in it");
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	is_int(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM), "and here as before");
	ok(s.tid != os_tid() && s.tid > 0, "it had its own number");
	is_str(s.name, "a-name-too-long", "its name, cut");
	char tiny[4];
	is_int(prctl(PR_SET_NAME, "abcdefg"), 0, "a name");
	os_thread_name_get(tiny, sizeof(tiny));
	is_str(tiny, "abc", "name into a small buffer");
	struct os_hooks_s hooks = os_hooks_real;
	hooks.pthread_create = fail_create;
	os_hooks = &hooks;
	errno = 9;
	is_int(os_thread_create(&t, "abc", look, &s), EAGAIN, "failure is reported");
	is_int(errno, 9, "and errno kept");
	os_hooks = &os_hooks_real;
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	is_int(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM),
	    "signals restored then too");
}

/* Ends when its creator sleeps, as it does in the join, or after a minute. */
static void *
wait_for_join(void *arg) {
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", *(int *)arg);
	for (unsigned ms = 0; ms < 60000; ms++) {
		char text[200] = "";
		FILE *f = fopen(path, "r");
		if (f == NULL) {
			break;
		}
		bool has_read = fgets(text, sizeof(text), f) != NULL;
		fclose(f);
		const char *name_end = has_read ? strrchr(text, ')') : NULL;
		if (name_end != NULL && name_end[2] == 'S' && ms > 20) {
			break;
		}
		usleep(1000);
	}
	return NULL;
}

static void *
join_cancelled(void *has_joined) {
	int tid = os_tid();
	os_thread_t t;
	if (os_thread_create(&t, "waits", wait_for_join, &tid) == 0) {
		pthread_cancel(pthread_self());
		*(bool *)has_joined = os_thread_join(&t) == 0;
	}
	/* It ends as usual: AddressSanitizer of gcc 12 faults where a thread is cancelled. */
	int state;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state == PTHREAD_CANCEL_ENABLE ? has_joined : NULL;
}

static void
test_join_cancelled(void) {
	pthread_t t;
	bool has_joined = false;
	void *ret = NULL;
	pthread_create(&t, NULL, join_cancelled, &has_joined);
	pthread_join(t, &ret);
	ok(has_joined, "a thread that is to be cancelled joins first");
	ok(ret == &has_joined, "and can be cancelled then");
}

static void *
look_stored(void *arg) {
	*(bool *)arg = os_tid_stored() == os_tid();
	return NULL;
}

static void
in_child(void *arg) {
	(void)arg;
	_exit(os_tid_stored() == getpid() ? 0 : 1);
}

static void
test_tid_stored(void) {
	static struct test_result r;
	bool is_right = false;
	os_thread_t t;
	if (os_tid_stored() == 0) {
		skip(5, "this C library does not tell");
		return;
	}
	is_int(os_tid_stored(), os_tid(), "the id of a thread without a system call");
	is_int(os_thread_create(&t, "stored", look_stored, &is_right), 0, "a thread");
	is_int(os_thread_join(&t), 0, "it ends");
	ok(is_right, "of another thread");
	run_forked(&r, in_child, NULL);
	child_exits(&r, 0, "in a forked child");
}

/* In a child the thread that forked is the first one, but still one that was started. */
static void *
fork_started(void *arg) {
	*(bool *)arg = !os_thread_is_first() && os_thread_is_started();
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		_exit(os_thread_is_first() && os_thread_is_started() ? 7 : 1);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 7 ? arg : NULL;
}

static void
test_first(void) {
	bool is_right = false;
	void *ret = NULL;
	pthread_t t;
	ok(os_thread_is_first() && !os_thread_is_started(), "the first thread");
	pthread_create(&t, NULL, fork_started, &is_right);
	pthread_join(t, &ret);
	ok(is_right, "another one");
	ok(ret == &is_right, "which forks");
}

/* Answers that are no answer of the C library's functions, and errno as it was. */
static void
test_failures(void) {
	atomic_u32_t word = {7};
	int timer = 0;
	errno = 9;
	os_word_wait(&word, 6, UINT64_MAX);
	is_int(errno, 9, "a word that has changed is not waited for, and errno is kept");
	os_word_wait(&word, 7, 1);
	is_int(errno, 9, "nor set as the time is over");
	is_int(os_signal_later(&timer, 9999, 1), EINVAL, "there is no such signal");
	is_int(timer, 0, "and no timer");
	timer = 1 << 20;
	is_int(os_signal_later(&timer, SIGUSR1, 1), EINVAL, "there is no such timer");
	is_int(errno, 9, "errno is kept");
}

static pthread_barrier_t beside;

static void *
be_there(void *arg) {
	pthread_barrier_wait(&beside);
	pthread_barrier_wait(&beside);
	return arg;
}

/* Whether this thread is the only one; one that was joined is on its way out for a moment. */
static bool
is_alone(void) {
	struct stat st = {.st_nlink = 0};
	for (unsigned i = 0; i < 10000 && lstat("/proc/self/task", &st) == 0 && st.st_nlink > 3; i++) {
		usleep(1000);
	}
	return st.st_nlink == 3;
}

/* Threads of the library are none of the user's, while they run and when they have ended. */
static void
test_users(void) {
	pthread_t t;
	os_thread_t own;
	if (!is_alone() || os_thread_is_filtered()) {
		skip(4, "other threads, or a system that does not tell of them");
		return;
	}
	ok(!os_thread_has_users(), "the first thread");
	pthread_barrier_init(&beside, NULL, 2);
	os_thread_create(&own, "own", be_there, NULL);
	pthread_barrier_wait(&beside);
	ok(!os_thread_has_users(), "a thread of the library");
	pthread_barrier_wait(&beside);
	os_thread_join(&own);
	pthread_create(&t, NULL, be_there, NULL);
	pthread_barrier_wait(&beside);
	ok(os_thread_has_users(), "a thread of the user");
	pthread_barrier_wait(&beside);
	pthread_join(t, NULL);
	ok(is_alone() && !os_thread_has_users(), "none any more");
}

static int
child_one(void) {
	return os_ncpus() == 1 ? 0 : 1;
}

static void
test_processors(void) {
	static struct test_result r;
	cpu_set_t all, one;
	sched_getaffinity(0, sizeof(all), &all);
	is_uint(os_ncpus(), (unsigned)CPU_COUNT(&all), "processors that we may use");
	int first = 0;
	while (!CPU_ISSET(first, &all)) {
		first++;
	}
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	sched_setaffinity(0, sizeof(one), &one);
	is_uint(os_ncpus(), (unsigned)CPU_COUNT(&all), "asked once only");
	is_int(os_cpu(), first, "we run on one");
	run_child_conf(&r, "one", NULL);
	child_exits(&r, 0, "whose affinity is respected at a start");
	sched_setaffinity(0, sizeof(all), &all);
	is_int(os_tid(), (int)getpid(), "first thread");
}

#if HAS_FILTERS
static bool filtered[2]; /* before and after a filter of the thread alone */

/* The filter permits every call. */
static void *
filter_itself(void *arg) {
	struct sock_filter permit = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {1, &permit};
	filtered[0] = os_thread_is_filtered();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
	    || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
		return NULL;
	}
	filtered[1] = os_thread_is_filtered();
	return arg;
}

/* As many groups as make the line with the filter lie behind several pieces of the file. */
static int
child_filter(void) {
	static gid_t groups[600];
	pthread_t t;
	void *is_put;
	for (unsigned i = 0; i < ARRAY_LEN(groups); i++) {
		groups[i] = 1000000000 + i;
	}
	setgroups(ARRAY_LEN(groups), groups); /* of root only */
	pthread_create(&t, NULL, filter_itself, &is_put);
	pthread_join(t, &is_put);
	if (is_put == NULL) {
		return 77;
	}
	return !filtered[0] && filtered[1] && !os_thread_is_filtered() ? 0 : 1;
}
#else
static int
child_filter(void) {
	return 77;
}
#endif

static void
test_filter(void) {
	static struct test_result r;
	run_child_conf(&r, "filter", NULL);
	if (exited_with(&r, 77)) {
		skip(1, "no filter can be put on here");
	} else {
		child_exits(&r, 0, "a filter is the thread's own");
	}
}

int
main(int argc, char **argv) {
	static const struct test_child children[] = {{"one", child_one}, {"filter", child_filter},
	    {NULL, NULL}};
	test_children(argc, argv, children);
	test_create();
	test_join_cancelled();
	test_tid_stored();
	test_first();
	test_failures();
	test_users();
	test_processors();
	test_filter();
	return done_testing();
}
