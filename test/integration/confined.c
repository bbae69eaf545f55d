/*
 * A program that confines itself: after its start the library makes no system call that the C
 * library's malloc would not make. A filter (seccomp) permits those, and ends the process at any
 * other, with its number. It is put on after the first malloc, after threads have run, or before
 * exit; each with several configurations. The filter permits what glibc's malloc does, which is
 * less than the manual says. Where threads are created or a process is forked under the filter, it
 * permits also what the C library needs for that.
 */
#include "ctl.h"
#include "dir.h"
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define BLOCKS 70000
#define LONG_BLOCK 640 /* as many are more than the size from which huge pages are asked for */
#define THREADS 4
#define MAX_CALLS 100

static void *blocks[BLOCKS];
static volatile int gate;
static int nbegun;

/* -------------------------------------------------------------- the filter */

/* What glibc's malloc may do. */
static const int malloc_calls[] = {SYS_mmap, SYS_munmap, SYS_madvise, SYS_mremap, SYS_mprotect,
	SYS_brk, SYS_futex, -1};
/* What ends a thread or the process, after which it does nothing, and what tells of it. */
static const int leave_calls[] = {SYS_write, SYS_exit, SYS_exit_group, SYS_rt_sigreturn, -1};
/* What the end of a thread of the C library needs. */
static const int end_calls[] = {SYS_rt_sigprocmask, -1};
/* What the C library needs to make a thread or a process, and the test to wait for that. */
static const int make_calls[] = {SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_clone,
#ifdef SYS_clone3
	SYS_clone3,
#endif
#ifdef SYS_rseq
	SYS_rseq,
#endif
	SYS_set_robust_list, SYS_wait4, -1};

/* What a black box needs, as the manual says: each second, in a forked child and at the end. */
static const int box_calls[] = {SYS_openat, SYS_read, SYS_close, SYS_getrusage, SYS_getpid,
	SYS_prlimit64, SYS_fallocate, SYS_flock, SYS_ftruncate, SYS_getdents64, SYS_fstat, SYS_unlinkat,
#ifdef SYS_unlink
	SYS_unlink, SYS_readlink,
#endif
#ifdef SYS_newfstatat
	SYS_newfstatat,
#endif
	SYS_readlinkat, SYS_rt_sigprocmask, SYS_prctl, -1};

/* Says which call was refused. Runs in the thread that made it, with any lock held. */
static void
refused(int sig, siginfo_t *info, void *context) {
	char text[] = "not ok: system call     \n";
	char *p = text + sizeof(text) - 2;

	(void)sig;
	(void)context;
	for (int n = info->si_syscall; n > 0; n /= 10)
		*--p = (char)('0' + n % 10);
	test_write(STDOUT_FILENO, text, sizeof(text) - 1);
	_exit(3);
}

static void
permit(struct sock_filter *f, unsigned short *n, const int *calls) {
	for (; *calls >= 0 && *n < 2 * MAX_CALLS; calls++) {
		f[(*n)++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)*calls, 0, 1);
		f[(*n)++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
}

/* Puts the filter on all threads. */
static void
confine(const int *more) {
	struct sock_filter f[2 * MAX_CALLS + 2];
	struct sock_fprog prog = {0, f};
	struct sigaction sa = {.sa_sigaction = refused, .sa_flags = SA_SIGINFO | SA_NODEFER};

	f[prog.len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
	    offsetof(struct seccomp_data, nr));
	permit(f, &prog.len, malloc_calls);
	permit(f, &prog.len, leave_calls);
	if (getenv("CONFINED_BOX") != NULL)
		permit(f, &prog.len, box_calls);
	permit(f, &prog.len, more);
	f[prog.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
	sigaction(SIGSYS, &sa, NULL);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
	    || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog) != 0)
		_exit(77);
}

static const int no_calls[] = {-1};

/* -------------------------------------------------------------- what the program does */

static void
use_small(size_t n, size_t size) {
	for (size_t i = 0; i < n; i++) {
		blocks[i] = keep(malloc(size));
		memset(blocks[i], 1, size);
	}
	for (size_t i = 0; i < n; i++)
		free(blocks[i]);
}

static void
use_sizes(size_t most) {
	enum { KEPT = 64 };
	static __thread void *kept[KEPT];
	unsigned at = 0;

	for (unsigned round = 0; round < 3; round++) {
		for (size_t size = 1; size < most; size += size / 3 + 1, at = (at + 1) % KEPT) {
			free(kept[at]);
			kept[at] = keep(at % 3 == 0 ? calloc(1, size) : at % 3 == 1 ? malloc(size)
			    : aligned_alloc((size_t)1 << at % 16, size));
			*(volatile char *)kept[at] = 1;
		}
	}
	for (at = 0; at < KEPT; at++) {
		free(kept[at]);
		kept[at] = NULL;
	}
}

static void
use_realloc(void) {
	char *p = NULL;

	for (size_t n = 1; n < (size_t)20 << 20; n += n / 2 + 1) {
		p = keep(realloc(p, n));
		p[n - 1] = 1;
	}
	for (size_t n = (size_t)20 << 20; n > 100; n /= 2)
		p = keep(realloc(p, n));
	free(p);
}

/* Arenas that are not there yet, the whole of them given back, and the statistics of all. */
static void
use_arenas(void) {
	unsigned old, made;
	size_t len = sizeof(made);
	char name[64];

	for (unsigned i = 0; i < ctl_unsigned("opt.narenas") && i < 8; i++) {
		if (ctl_write("thread.arena", i) == 0)
			use_sizes(1 << 20);
	}
	old = 0;
	ctl_write("thread.arena", old);
	if (mallctl("arenas.create", &made, &len, NULL, 0) != 0)
		_exit(4);
	free(keep(mallocx(100000, MALLOCX_ARENA(made) | MALLOCX_TCACHE_NONE)));
	ctl_void(ctl_name(name, "arena.%u.destroy", made));
	ctl_void("arena.4096.decay");
	ctl_void("arena.4096.purge");
	ctl_epoch();
	if (ctl_size("stats.allocated") == 0)
		_exit(4);
}

/* A sample in a library that may be unloaded, which the profiler looks at. */
typedef int back_fn(void *context, void *arg);

static int
back_frame(void *context, void *arg) {
	(void)context;
	for (int i = 0; i < 100; i++)
		free(keep(malloc(5000)));
	return ++*(int *)arg < 3 ? 0 : 5;
}

static int (*backtrace_fn)(back_fn *, void *);

static void
use_library(void) {
	int n = 0;

	if (backtrace_fn != NULL)
		backtrace_fn(back_frame, &n);
}

/* Samples in a signal handler, on a stack of its own. */
static sigjmp_buf back;

static void
on_trap(int sig) {
	(void)sig;
	for (int i = 0; i < 100; i++)
		free(keep(malloc(5000)));
	siglongjmp(back, 1);
}

static void
trap_begin(void) {
	static char stack[1 << 16];
	stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack)};
	struct sigaction sa = {.sa_handler = on_trap, .sa_flags = SA_ONSTACK | SA_NODEFER};

	if (sigaltstack(&own, NULL) != 0 || sigaction(SIGILL, &sa, NULL) != 0
	    || sigaction(SIGTRAP, &sa, NULL) != 0)
		_exit(8);
}

static void
use_handler(void) {
	if (sigsetjmp(back, 0) == 0)
		__builtin_trap();
}

/* So long that what is done once a second is done; the clock is read without a system call. */
static void
use_time(void) {
	for (int64_t end = test_now_ms() + 1300; test_now_ms() < end;)
		use_sizes(1 << 16);
}

static void *
contend(void *arg) {
	(void)arg;
	__atomic_fetch_add(&nbegun, 1, __ATOMIC_SEQ_CST);
	while (gate == 0) { }
	for (int i = 0; i < 2; i++)
		use_sizes(2 << 20);
	return NULL;
}

static void
threads_begin(pthread_t *t) {
	gate = 0;
	nbegun = 0;
	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&t[i], NULL, contend, NULL) != 0)
			_exit(5);
	}
	/* The system calls of their start are behind them. */
	while (__atomic_load_n(&nbegun, __ATOMIC_SEQ_CST) < THREADS) { }
}

static void
threads_end(pthread_t *t) {
	gate = 1;
	contend(NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

static void
in_child(void) {
	pthread_t t[THREADS];

	use_small(50000, 64);
	use_sizes(8 << 20);
	threads_begin(t);
	threads_end(t);
	exit(0);
}

static void
use_fork(void) {
	int status;
	pid_t pid = fork();

	if (pid == 0)
		in_child();
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		_exit(6);
	use_small(1000, 64);
}

/* -------------------------------------------------------------- the moments */

static void
start(void) {
	void *lib = dlopen("libgcc_s.so.1", RTLD_NOW);
	const char *options = getenv("CONFINED_SESSION");

	backtrace_fn = lib == NULL ? NULL
	    : (int (*)(back_fn *, void *))(uintptr_t)dlsym(lib, "_Unwind_Backtrace");
	trap_begin();
	free(keep(malloc(100)));
	if (options != NULL && ctl_write("prof.session.start", options) != 0)
		_exit(7);
}

static void
ignore(void *arg, const char *text) {
	(void)arg;
	(void)text;
}

static void
use_alone(void) {
	use_small(BLOCKS, LONG_BLOCK);
	use_sizes(16 << 20);
	use_realloc();
	use_arenas();
	use_library();
	use_handler();
	use_small(BLOCKS, 64);
	malloc_stats_print(ignore, NULL, NULL);
}

/* After the first malloc, in a program with one thread. */
static int
child_first(void) {
	start();
	confine(no_calls);
	use_alone();
	if (ctl_bool("prof.active"))
		use_time();
	return 0;
}

/* The same, but then it creates threads and a process. */
static int
child_makes(void) {
	pthread_t t[THREADS];

	start();
	confine(make_calls);
	threads_begin(t);
	threads_end(t);
	use_fork();
	use_alone();
	return 0;
}

/* After the start of its threads, for all of them. */
static int
child_threads(void) {
	pthread_t t[THREADS];

	start();
	threads_begin(t);
	confine(end_calls);
	threads_end(t);
	use_alone();
	return 0;
}

/* Before exit. */
static int
child_exit(void) {
	pthread_t t[THREADS];

	start();
	threads_begin(t);
	threads_end(t);
	use_alone();
	use_fork();
	confine(no_calls);
	return 0;
}

/*
 * SECCOMP_MODE_STRICT permits no call but read, write and the end, and no instruction that reads
 * the processor's clock. Memory that is there already can be used.
 */
static int
child_strict(void) {
	start();
	for (int i = 0; i < 2; i++) {
		use_small(10000, 1000);
		use_sizes(4 << 20);
	}
	use_small(8, 6 << 20); /* unused memory, of which all that follows can be taken */
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
		_exit(77);
	use_small(10000, 16);
	use_small(1000, 2000);
	for (int i = 0; i < 20; i++)
		use_sizes(4 << 20);
	syscall(SYS_exit, 0);
	return 1;
}

/* The profiler's thread: one from the start on, and none in a forked child. */
static int
child_counts(void) {
	int status;

	use_sizes(8 << 20);
	if (files_in("/proc/self/task") != 2)
		return 1;
	pid_t pid = fork();
	if (pid == 0) {
		use_sizes(8 << 20);
		use_time();
		_exit(files_in("/proc/self/task") == 1 ? 0 : 2);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

static const struct test_child children[] = {
	{"first", child_first},
	{"makes", child_makes},
	{"threads", child_threads},
	{"exit", child_exit},
	{"counts", child_counts},
	{"strict", child_strict},
	{NULL, NULL},
};

static void
with_filter(const char *child, const char *conf, const char *session) {
	static struct test_result r;
	char set[1024], both[1024];
	const char *env[] = {set + 3, set, session == NULL ? "CONFINED_SESSION" : both, NULL};

	snprintf(set, sizeof(set), "JE_MALLOC_CONF=%s", conf);
	snprintf(both, sizeof(both), "CONFINED_SESSION=%s", session == NULL ? "" : session);
	run_child_env(&r, child, env);
	if (exited_with(&r, 77))
		skip(1, "no filter can be put on here");
	else
		child_exits(&r, 0, "%s: %s%s%s", child, conf[0] == '\0' ? "default options" : conf,
		    session == NULL ? "" : ", session ", session == NULL ? "" : session);
}

/* A filter put on at each moment. */
static void
each_moment(const char *conf, const char *session) {
	for (const struct test_child *c = children; c->run != child_counts; c++)
		with_filter(c->name, conf, session);
}

/* The same, in a brief run only at the moment after which most is done. */
static void
some_moment(const char *conf, const char *session) {
	if (test_is_full())
		each_moment(conf, session);
	else
		with_filter("makes", conf, session);
}

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	dir_enter();
	each_moment("", NULL);
	with_filter("strict", "populate:false,dirty_decay_ms:-1,muzzy_decay_ms:-1", NULL);
	each_moment("hpa:true", NULL);
	some_moment("hpa:true,metadata_thp:always,thp:always", NULL);
	each_moment("percpu_arena:percpu", NULL);
	some_moment("background_thread:true,dirty_decay_ms:100", NULL);
	each_moment("dirty_decay_ms:0,muzzy_decay_ms:0,retain:false,dss:primary", NULL);
	some_moment("stats_print:true,stats_interval:1000000,populate:false", NULL);
	some_moment("huge_arena_pac_thp:true,metadata_thp:auto,oversize_threshold:1048576", NULL);
	if (ctl_bool("config.prof")) {
		each_moment("prof:true,lg_prof_sample:10", NULL);
		some_moment("prof:true,lg_prof_sample:6,prof_recent_alloc_max:1000,hpa:true", NULL);
		some_moment("prof:true,lg_prof_sample:12,prof_unwind:libgcc,background_thread:true", NULL);
		some_moment("prof:true,lg_prof_sample:12,prof_thread:true", NULL);
		setenv("CONFINED_BOX", "yes", 1);
		each_moment("prof:true,lg_prof_sample:12,prof_blackbox:true,prof_prefix:p", NULL);
		unsetenv("CONFINED_BOX");
		child_runs("counts", "prof:true,prof_thread:true");
		each_moment("", "sample_interval:4096");
		some_moment("hpa:true,background_thread:true", "sample_interval:1K,accum:true");
	}
	dir_leave();
	return done_testing();
}
