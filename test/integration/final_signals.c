/*
 * prof_final_signals: SIGTERM, SIGHUP and SIGINT write the final profile and then do what they
 * always did. With the profiler's thread and without; in the middle of malloc, in a sleep, in
 * threads, in a forked child, as process 1; and never where the program has its own action.
 */
#include "ctl.h"
#include "heap.h"
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static char dir[] = "/tmp/jetest.XXXXXX";
static void *volatile live[64];

/* ---- the programs ---- */

static void
say(char c) {
	if (write(1, &c, 1) != 1)
		_exit(98);
}

static void
some_heap(void) {
	for (int i = 0; i < 64; i++)
		live[i] = malloc(20000);
}

/* Never out of the allocator for long. */
static void *
churn(void *arg) {
	for (unsigned i = 0;; i++) {
		free(live[i % 32 + 32 * (arg != NULL)]);
		live[i % 32 + 32 * (arg != NULL)] = keep(malloc(16 + i * 7919 % 60000));
	}
	return NULL;
}

static int
wait_for_ever(void) {
	for (;;)
		pause();
	return 3;
}

static int
child_loop(void) {
	some_heap();
	say('r');
	churn(NULL);
	return 0;
}

/* Takes an interrupted sleep for the end: a program about to die should not see one. */
static int
child_sleep(void) {
	some_heap();
	say('r');
	sleep(50);
	_exit(3);
}

/* Too small for a single heartbeat: there never is a thread. */
static int
child_small(void) {
	live[0] = malloc(100);
	say('r');
	pause();
	return 3;
}

static int
child_threads(void) {
	pthread_t t[2];

	some_heap();
	pthread_create(&t[0], NULL, churn, NULL);
	pthread_create(&t[1], NULL, churn, t);
	say('r');
	pthread_join(t[0], NULL);
	return 3;
}

static void
own_action(int sig) {
	say(sig == SIGTERM ? 't' : '?');
	_exit(42);
}

static int
child_own(void) {
	some_heap();
	signal(SIGTERM, own_action);
	say('r');
	return wait_for_ever();
}

static int
child_ignored(void) {
	some_heap();
	say('r');
	return wait_for_ever();
}

static bool
is_caught(pid_t pid, int sig) {
	char path[40], text[4096], *at;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	at = strstr(text, "SigCgt:");
	return at != NULL && (strtoull(at + 7, NULL, 16) >> (sig - 1) & 1) != 0;
}

static void
wait_until_caught(int sig) {
	while (!is_caught(getpid(), sig))
		usleep(1000);
}

/* Its own action for a while, then the default again, which is ours again in time. */
static int
child_back(void) {
	some_heap();
	signal(SIGTERM, own_action);
	signal(SIGTERM, SIG_DFL);
	wait_until_caught(SIGTERM);
	say('r');
	return wait_for_ever();
}

static int
child_interrupt(void) {
	some_heap();
	while (!is_caught(getpid(), SIGINT)) {
		usleep(1000);
		free(keep(malloc(100000)));
	}
	say('r');
	return wait_for_ever();
}

/* The child gets the signal, the parent lives. */
static int
child_fork(void) {
	int status, fds[2];
	char c;

	some_heap();
	if (pipe(fds) != 0)
		return 7;
	pid_t pid = fork();
	if (pid == 0) {
		if (write(fds[1], "c", 1) != 1)
			_exit(8);
		wait_for_ever();
	}
	/*
	 * Before fork has returned there, the child is not yet itself: it would die without a profile.
	 */
	if (read(fds[0], &c, 1) != 1)
		return 9;
	kill(pid, SIGTERM);
	waitpid(pid, &status, 0);
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGTERM)
		return 4;
	/* A child of vfork has our memory, but not our signals. */
	pid = vfork();
	if (pid == 0) {
		kill(getpid(), SIGTERM);
		_exit(5);
	}
	waitpid(pid, &status, 0);
	say('r');
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? 6 : 5;
}

static void
hang(const char *name) {
	(void)name;
	say('h');
	wait_for_ever();
}

static int
waits_with_dump_hook(void (*hook)(const char *)) {
	some_heap();
	mallctl("experimental.hooks.prof_dump", NULL, NULL, &hook, sizeof(hook));
	say('r');
	return wait_for_ever();
}

/* The program's dump hook never comes back. */
static int
child_hang(void) {
	return waits_with_dump_hook(hang);
}

/* Within moments of the first. */
static void
echo(const char *name) {
	(void)name;
	kill(getpid(), SIGTERM);
	kill(getpid(), SIGHUP);
	usleep(100000);
	say('e');
}

static int
child_echo(void) {
	return waits_with_dump_hook(echo);
}

/* The program has enough of it. */
static void
leave(const char *name) {
	(void)name;
	alarm(60);
	exit(43);
}

static int
child_leave(void) {
	return waits_with_dump_hook(leave);
}

static pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;

static void
take_own_lock(const char *name) {
	(void)name;
	say('h');
	pthread_mutex_lock(&own_lock);
}

static void *
dump(void *arg) {
	mallctl("prof.dump", NULL, NULL, NULL, 0);
	return arg;
}

/* The dump hook of another thread waits for a lock of the thread that the signal interrupts. */
static int
child_lock(void) {
	void (*hook)(const char *) = take_own_lock;
	pthread_t t;

	alarm(60);
	some_heap();
	pthread_mutex_lock(&own_lock);
	mallctl("experimental.hooks.prof_dump", NULL, NULL, &hook, sizeof(hook));
	say('r');
	pthread_create(&t, NULL, dump, NULL);
	return wait_for_ever();
}

static volatile bool is_released;

static void
release(int sig) {
	is_released = sig != 0;
}

static void
wait_in_exit(const char *name) {
	(void)name;
	say('h');
	while (!is_released)
		pause();
}

static int
child_exit(void) {
	void (*hook)(const char *) = wait_in_exit;

	some_heap();
	signal(SIGUSR1, release);
	mallctl("experimental.hooks.prof_dump", NULL, NULL, &hook, sizeof(hook));
	say('r');
	return 7;
}

/* Inside the allocator, where nothing may be written. */
static void
raise_inside(const void *p, size_t size, void **stack, unsigned depth, size_t usable) {
	static bool has_raised;

	(void)p, (void)size, (void)stack, (void)depth, (void)usable;
	if (has_raised)
		return;
	has_raised = true;
	kill(getpid(), SIGTERM);
	say('b');
}

static int
child_inside(void) {
	void (*hook)(const void *, size_t, void **, unsigned, size_t) = raise_inside;

	some_heap();
	if (mallctl("experimental.hooks.prof_sample", NULL, NULL, &hook, sizeof(hook)) != 0)
		return 6;
	say('r');
	some_heap();
	return wait_for_ever();
}

/* A filter of system calls refuses this one, of all threads, from now on. */
static void
refuse(int number) {
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog prog = {sizeof(f) / sizeof(f[0]), f};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
	    || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &prog) != 0)
		_exit(77);
}

static int
child_no_action(void) {
	some_heap();
	refuse(SYS_rt_sigaction);
	say('r');
	return wait_for_ever();
}

static int
child_no_tgkill(void) {
	some_heap();
	refuse(SYS_tgkill);
	say('r');
	return wait_for_ever();
}

static const struct test_child children[] = {
	{"loop", child_loop},
	{"sleep", child_sleep},
	{"small", child_small},
	{"threads", child_threads},
	{"own", child_own},
	{"ignored", child_ignored},
	{"back", child_back},
	{"interrupt", child_interrupt},
	{"fork", child_fork},
	{"hang", child_hang},
	{"echo", child_echo},
	{"exit", child_exit},
	{"leave", child_leave},
	{"lock", child_lock},
	{"inside", child_inside},
	{"no action", child_no_action},
	{"no tgkill", child_no_tgkill},
	{NULL, NULL},
};

/* ---- starting them, and what they leave ---- */

struct run {
	pid_t pid;
	int out;
	char conf[300];
	bool ignore_hup;
	bool as_init;
};

static bool
hears(struct run *r, char want) {
	char c = '\0';

	if (read(r->out, &c, 1) != 1 || c != want)
		diag("heard %d, want %c", c, want);
	return c == want;
}

/*
 * Returns in the first process of a new name space; its number goes out before anything that it
 * says.
 */
static void
become_init(void) {
	int go[2], status = 0;
	char c = 'g';

	if (pipe(go) != 0 || unshare(CLONE_NEWPID) != 0)
		_exit(77);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(go[0], &c, 1) != 1)
			_exit(77);
		close(go[0]);
		close(go[1]);
		return;
	}
	if (pid < 0 || write(1, &pid, sizeof(pid)) != (ssize_t)sizeof(pid) || write(go[1], &c, 1) != 1)
		_exit(77);
	waitpid(pid, &status, 0);
	_exit(0);
}

static void
start(struct run *r, const char *name) {
	char option[40];
	int fds[2];

	snprintf(option, sizeof(option), "--child=%s", name);
	if (pipe(fds) != 0)
		bail_out("pipe");
	r->pid = fork();
	if (r->pid < 0)
		bail_out("fork"); /* never a signal to -1, which is all processes */
	if (r->pid == 0) {
		dup2(fds[1], 1);
		close(fds[0]);
		close(fds[1]);
		setenv("MALLOC_CONF", r->conf, 1);
		default_signals();
		if (r->ignore_hup)
			signal(SIGHUP, SIG_IGN);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (r->as_init)
			become_init();
		execl("/proc/self/exe", "final_signals", option, (char *)NULL);
		_exit(99);
	}
	close(fds[1]);
	r->out = fds[0];
}

/* Its wait status; at most the test's time. */
static int
end(struct run *r) {
	int status = -1;

	waitpid(r->pid, &status, 0);
	close(r->out);
	return status;
}

static bool
died(int status, int sig) {
	if (!WIFSIGNALED(status) || WTERMSIG(status) != sig)
		diag("wait status %x", (unsigned)status);
	return WIFSIGNALED(status) && WTERMSIG(status) == sig;
}

struct found {
	int whole, other;
	char name[300];
	char text[1 << 16];
};

/* Counts final profiles that are whole and all other files, and removes them. */
static struct found *
files_of(bool is_alive) {
	static struct found f;
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[400];

	f.whole = f.other = 0;
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		/* Of a process that lives: it may just be writing. */
		if (e->d_name[0] == '.' && is_alive)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		struct heap_profile h = heap_read(path);
		size_t len = strlen(e->d_name);
		if (h.good && h.has_maps && len > 7 && strcmp(e->d_name + len - 7, ".f.heap") == 0) {
			f.whole++;
		} else {
			f.other++;
			diag("file: %s", e->d_name);
		}
		snprintf(f.name, sizeof(f.name), "%s", e->d_name);
		int fd = open(path, O_RDONLY);
		ssize_t n = read(fd, f.text, sizeof(f.text) - 1);
		f.text[n < 0 ? 0 : n] = '\0';
		close(fd);
		unlink(path);
	}
	closedir(d);
	return &f;
}

static struct found *
files(void) {
	return files_of(false);
}

static const char *mode;

static struct run
run_new(void) {
	struct run r = {0};

	snprintf(r.conf, sizeof(r.conf),
	    "prof:true,lg_prof_sample:12,prof_final_signals:true,prof_prefix:%s/x,%s", dir, mode);
	return r;
}

/* The first thread waits for something. */
static void
until_asleep(pid_t pid) {
	char path[40], text[512];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	do {
		int fd = open(path, O_RDONLY);
		ssize_t n = read(fd, text, sizeof(text) - 1);
		close(fd);
		text[n < 0 ? 0 : n] = '\0';
	} while (strstr(text, ") S ") == NULL);
}

/* Without the thread: the handler sees where it is, and a timer calls it again. */
static void
test_inside(void) {
	struct run r = run_new();

	start(&r, "inside");
	hears(&r, 'r');
	ok(hears(&r, 'b'), "nothing happens inside the allocator");
	ok(died(end(&r), SIGTERM), "but soon after it (%s)", mode);
	struct found *f = files();
	ok(f->whole == 1 && f->other == 0, "and leaves one final profile (%d, %d)", f->whole, f->other);
}

/* The program dies of the signal, and one profile is there. */
static void
ends_with_profile(const char *name, int sig) {
	struct run r = run_new();
	char want[60];

	start(&r, name);
	hears(&r, 'r');
	if (strcmp(name, "sleep") == 0)
		until_asleep(r.pid);
	kill(r.pid, sig);
	ok(died(end(&r), sig), "%s (%s) dies of signal %d", name, mode, sig);
	struct found *f = files();
	ok(f->whole == 1 && f->other == 0, "and leaves one final profile (%d, %d)", f->whole, f->other);
	snprintf(want, sizeof(want), "# jemalloc.metric=signal\n# jemalloc.metric_value=%d\n", sig);
	contains(f->text, want, "which says why");
}

/* At whatever moment it comes. */
static void
test_any_moment(void) {
	struct run r = run_new();
	int dead = 0, whole = 0, other = 0;
	enum { TIMES = 40 };

	for (int i = 0; i < TIMES; i++) {
		start(&r, i % 2 == 0 ? "loop" : "threads");
		hears(&r, 'r');
		usleep((unsigned)i * 50);
		kill(r.pid, SIGTERM);
		dead += died(end(&r), SIGTERM);
		struct found *f = files();
		whole += f->whole;
		other += f->other;
	}
	ok(dead == TIMES && whole == TIMES && other == 0, "%s: %d times in the middle of malloc (%d, "
	    "%d, %d)", mode, TIMES, dead, whole, other);
}

static void
test_own_actions(void) {
	struct run r = run_new();
	int status;

	start(&r, "own");
	hears(&r, 'r');
	kill(r.pid, SIGTERM);
	hears(&r, 't');
	status = end(&r);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 42, "a program with an action of its own keeps "
	    "it (%s)", mode);
	struct found *f = files();
	is_int(f->whole + f->other, 0, "and no profile is written");
	r = run_new();
	r.ignore_hup = true;
	start(&r, "ignored");
	hears(&r, 'r');
	kill(r.pid, SIGHUP);
	/* The next one does end it; would the first have, this would be the second. */
	kill(r.pid, SIGTERM);
	ok(died(end(&r), SIGTERM), "an ignored SIGHUP stays ignored");
	f = files();
	ok(f->whole == 1 && f->other == 0, "SIGTERM writes");
	contains(f->text, "metric_value=15\n", "for itself");
}

static void
test_off(void) {
	struct run r = {0};

	snprintf(r.conf, sizeof(r.conf), "prof:true,lg_prof_sample:12,prof_prefix:%s/x", dir);
	start(&r, "ignored");
	hears(&r, 'r');
	ok(!is_caught(r.pid, SIGTERM) && !is_caught(r.pid, SIGINT) && !is_caught(r.pid, SIGHUP),
	    "without the option no signal has a handler");
	kill(r.pid, SIGTERM);
	ok(died(end(&r), SIGTERM) && files()->whole == 0, "and no profile is written");
}

static void
test_children_of_it(void) {
	struct run r = run_new();
	char own[40];

	start(&r, "fork");
	hears(&r, 'r');
	int status = end(&r);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 6,
	    "children die of it, also of vfork; the parent does not (%s)", mode);
	struct found *f = files();
	ok(f->whole == 1 && f->other == 0, "one profile, of the child of fork");
	snprintf(own, sizeof(own), "x.%d.", r.pid);
	ok(strncmp(f->name, own, strlen(own)) != 0, "under its own number: %s", f->name);
}

static void
test_second(void) {
	struct run r = run_new();

	start(&r, "hang");
	hears(&r, 'r');
	kill(r.pid, SIGTERM);
	hears(&r, 'h');
	/* Those of the first second are taken for echoes. */
	siginfo_t info = {0};
	while (waitid(P_PID, (id_t)r.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0
	    && info.si_pid == 0) {
		kill(r.pid, SIGTERM);
		usleep(50000);
	}
	ok(died(end(&r), SIGTERM), "a second signal ends a program whose dump hangs");
	files();
}

/* timeout(1) signals its child, and then the group with the child in it. */
static void
test_twice(void) {
	struct run r = run_new();
	int dead = 0, whole = 0;
	enum { TIMES = 20 };

	for (int i = 0; i < TIMES; i++) {
		start(&r, i % 2 == 0 ? "loop" : "threads");
		hears(&r, 'r');
		kill(r.pid, SIGTERM);
		for (int spin = 0; spin < i * 1000; spin++)
			keep(NULL);
		kill(r.pid, SIGTERM);
		dead += died(end(&r), SIGTERM);
		whole += files()->whole;
	}
	is_int(dead, TIMES, "the same signal twice (%s)", mode);
	is_int(whole, TIMES, "is as good as once");
}

/* A dump hook is called by the profiler's thread, not in a handler. */
static void
test_echo(void) {
	struct run r = run_new();
	char heard = 0;
	int status = 0;
	struct found *f = NULL;

	/* Once more where a second goes by between the two. */
	for (int i = 0; i < 5 && heard != 'e'; i++) {
		start(&r, "echo");
		hears(&r, 'r');
		kill(r.pid, SIGTERM);
		heard = 0;
		if (read(r.out, &heard, 1) != 1)
			heard = 0;
		status = end(&r);
		f = files();
	}
	ok(heard == 'e' && died(status, SIGTERM), "the same signal and another at the first one's "
	    "heels (%s)", mode);
	ok(f->whole == 1 && f->other == 0, "leave it its profile (%d, %d)", f->whole, f->other);
}

/* In a handler only the profile is written: the program's hook may take any lock. */
static void
test_no_hook(void) {
	struct run r = run_new();
	char heard = 0;

	start(&r, "echo");
	hears(&r, 'r');
	kill(r.pid, SIGTERM);
	ok(read(r.out, &heard, 1) == 0 && died(end(&r), SIGTERM),
	    "no dump hook is called in a handler (%s)", mode);
	struct found *f = files();
	ok(f->whole == 1 && f->other == 0, "which leaves its profile (%d, %d)", f->whole, f->other);
}

static void
test_exit(void) {
	struct run r = run_new();

	strcat(r.conf, ",prof_final:true");
	start(&r, "exit");
	hears(&r, 'r');
	hears(&r, 'h');
	kill(r.pid, SIGTERM);
	kill(r.pid, SIGUSR1);
	ok(died(end(&r), SIGTERM), "a signal while exit writes (%s)", mode);
	struct found *f = files();
	ok(f->whole == 1 && f->other == 0, "one profile, whole (%d, %d)", f->whole, f->other);
}

/* The dump hook calls exit() in the middle of the signal's profile. */
static void
test_leave(void) {
	struct run r = run_new();

	start(&r, "leave");
	hears(&r, 'r');
	kill(r.pid, SIGTERM);
	int status = end(&r);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 43, "a dump hook that calls exit (%s): %x", mode,
	    (unsigned)status);
	struct found *f = files();
	ok(f->whole == 1 && f->other == 0, "one profile, whole (%d, %d)", f->whole, f->other);
}

/* The signal cannot be passed on: the program ends all the same, at once. */
static void
test_refused(const char *name) {
	struct run r = run_new();

	start(&r, name);
	hears(&r, 'r');
	kill(r.pid, SIGTERM);
	int status = end(&r);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		skip(2, "no filter of system calls here");
		return;
	}
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM, "%s under a filter (%s): %x",
	    name, mode, (unsigned)status);
	struct found *f = files();
	ok(f->whole == 1 && f->other == 0, "one profile, whole (%d, %d)", f->whole, f->other);
}

/* The handler waits for the dump, but not for ever; nor does the profiler's thread. */
static void
test_lock(void) {
	struct run r = run_new();

	start(&r, "lock");
	hears(&r, 'r');
	hears(&r, 'h');
	kill(r.pid, SIGTERM);
	ok(died(end(&r), SIGTERM), "a dump hook that waits for the interrupted thread (%s)", mode);
	files();
}

/* The default action does not end the first process of a name space. */
static void
test_init(void) {
	struct run r = run_new();
	struct found *f;
	pid_t inner = 0;
	int whole = 0;

	r.as_init = true;
	start(&r, "ignored");
	if (read(r.out, &inner, sizeof(inner)) != (ssize_t)sizeof(inner) || inner <= 1) {
		skip(1, "no name space of processes");
		end(&r);
		return;
	}
	hears(&r, 'r');
	for (int i = 0; i < 2; i++) {
		/* Ours again after the first. */
		while (!is_caught(inner, SIGTERM))
			usleep(1000);
		/*
		 * One that comes while the one before is acted on is the second, and the default drops it
		 * here: again, then.
		 */
		for (int k = 0; k == 0 || f->whole == 0; k++) {
			if (k % 1000 == 0)
				kill(inner, SIGTERM);
			usleep(1000);
			f = files_of(true);
		}
		whole++;
	}
	ok(kill(inner, 0) == 0 && whole == 2, "process 1 writes at each signal and lives on (%s)",
	    mode);
	kill(inner, SIGKILL);
	end(&r);
	files(); /* of a signal that was sent again: whole, or what was written of it */
}

int
main(int argc, char **argv) {
	static const char *const modes[] = {"prof_thread:auto", "prof_thread:false"};

	test_children(argc, argv, children);
	if (!ctl_bool("config.prof"))
		plan_skip_all("no profiler in this build");
	if (mkdtemp(dir) == NULL)
		bail_out("mkdtemp");
	alarm(400);
	for (int i = 0; i < 2; i++) {
		mode = modes[i];
		ends_with_profile("loop", SIGTERM);
		ends_with_profile("sleep", SIGTERM);
		ends_with_profile("sleep", SIGHUP);
		ends_with_profile("small", SIGTERM);
		ends_with_profile("threads", SIGTERM);
		ends_with_profile("interrupt", SIGINT);
		test_any_moment();
		test_own_actions();
		test_children_of_it();
		test_exit();
		test_refused("no action");
		test_refused("no tgkill");
		test_twice();
	}
	test_inside();
	test_lock();
	test_no_hook();
	mode = modes[0];
	test_lock();
	test_echo();
	test_leave();
	ends_with_profile("back", SIGTERM);
	test_second();
	test_init();
	test_off();
	is_int(rmdir(dir), 0, "nothing else is left");
	return done_testing();
}
