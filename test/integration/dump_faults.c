/*
 * Dumps where the world resists: as another user, in a new root or directory, over planted
 * names, through pipes and mounts, with signals of a failing write at stake, while another
 * thread forks. test/unit/dump_fault.c lets single calls fail; here it is the system that does.
 */
#include "ctl.h"
#include "heap.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>

static char dir[64];
static void *volatile live[2000];
static int fifo_end = -1;

/* Each way through ten calls is a stack of its own: a profile that fills any pipe. */
static
__attribute__((noinline)) void *
site(unsigned bits, int depth) {
	void *p;

	if (depth == 0)
		return malloc(1000);
	if (bits & 1) {
		p = site(bits >> 1, depth - 1);
		__asm__ volatile("# 1" : "+r"(p));
	} else {
		p = site(bits >> 1, depth - 1);
		__asm__ volatile("# 0" : "+r"(p));
	}
	return p;
}

static int
dump_to(const char *path) {
	return mallctl("prof.dump", NULL, NULL, &path, sizeof(path));
}

static int
dump_own_name(void) {
	return mallctl("prof.dump", NULL, NULL, NULL, 0);
}

static const char *
in_dir(const char *name) {
	static char path[2][200];
	static unsigned turn;
	char *at = path[turn++ % 2];

	snprintf(at, sizeof(path[0]), "%s/%s", dir, name);
	return at;
}

static bool
is_whole(const char *path) {
	struct heap_profile h = heap_read(path);

	return h.good && h.has_maps && h.live_bytes > 0;
}

/* The whole text: errno, path, and the bytes that had been written. */
static bool
last_error_is(const char *word, const char *path, unsigned written) {
	char want[300];
	const char *e = ctl_str("prof.last_error");

	snprintf(want, sizeof(want), "%s %s %u", word, path, written);
	if (e == NULL || strcmp(e, want) != 0)
		diag("prof.last_error: \"%s\"", e == NULL ? "(null)" : e);
	return e != NULL && strcmp(e, want) == 0;
}

/* Files whose name has `part`; hidden ones too. */
static int
files_with(const char *part) {
	DIR *d = opendir(dir);
	struct dirent *e;
	int n = 0;

	while (d != NULL && (e = readdir(d)) != NULL)
		n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && strstr(e->d_name,
		    part) != NULL;
	if (d != NULL)
		closedir(d);
	return n;
}

static void
make_file(const char *path, const char *text) {
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		bail_out("make_file");
	close(fd);
}

static bool
file_is(const char *path, const char *text) {
	char got[100] = "";
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, got, sizeof(got) - 1);

	close(fd);
	return n == (ssize_t)strlen(text) && strcmp(got, text) == 0;
}

#define MUST(x) do { \
	if (!(x)) { \
		diag("line %d: %s (last_error %s)", __LINE__, #x, ctl_str("prof.last_error")); \
		_exit(1); \
	} \
} while (0)

#define MUST_HAVE(x) do { \
	if (!(x)) \
		_exit(77); \
} while (0)

/* What fn checks in a child of its own; 77: this machine does not let it. */
static void
in_child(void (*fn)(void *), const char *what) {
	static struct test_result r;

	run_forked(&r, fn, NULL);
	if (exited_with(&r, 77)) {
		skip(1, what);
		return;
	}
	child_exits(&r, 0, "%s", what);
}

/* ---- the answers of mallctl ---- */

static bool is_large;

/* The parent has read both texts in this thread, whose buffers still hold them. */
static void
child_says_nothing(void *arg) {
	(void)arg;
	MUST(strcmp(ctl_str("prof.last_error"), "") == 0);
	MUST(strcmp(ctl_str("prof.session.last_dump"), "") == 0);
	MUST(dump_to(in_dir("here")) == 0 && unlink(in_dir("here")) == 0);
	MUST(strcmp(ctl_str("prof.last_error"), "") == 0);
	MUST(strcmp(ctl_str("prof.session.last_dump"), in_dir("here")) == 0);
	_exit(0);
}

static void
test_answers(void) {
	char longest[5000];
	struct stat st;

	is_int(dump_to(in_dir("no/file")), EFAULT, "a missing directory: ENOENT would mean a missing "
	    "node");
	ok(last_error_is("ENOENT", in_dir("no/file"), 0), "prof.last_error has the errno that it was");
	is_int(dump_to("/dev/full"), ENOSPC, "a full device: ENOSPC");
	ok(last_error_is("ENOSPC", "/dev/full", 0), "it says so");
	memset(longest, 'l', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	is_int(dump_to(longest), ENAMETOOLONG, "a path of 4999 bytes: ENAMETOOLONG");
	is_int(dump_to(dir), EISDIR, "a directory: EISDIR");
	is_int(dump_to(in_dir("file")), 0, "a file");
	ok(is_whole(in_dir("file")), "is whole");
	is_large = stat(in_dir("file"), &st) == 0 && st.st_size > 200000;
	is_int(dump_to(in_dir("file/x")), ENOTDIR, "a file taken for a directory: ENOTDIR");
	ok(last_error_is("ENOTDIR", in_dir("file/x"), 0), "it says so");
	unlink(in_dir("file"));
	ok(chdir(dir) == 0 && dump_to("here") == 0, "a relative path");
	is_str(ctl_str("prof.session.last_dump"), in_dir("here"), "its whole path is told");
	is_int(dump_to("no/there"), EFAULT, "a relative path that cannot be");
	ok(last_error_is("ENOENT", in_dir("no/there"), 0), "its whole path is told");
	is_str(ctl_str("prof.session.last_dump"), in_dir("here"), "and the last file is the same");
	in_child(child_says_nothing, "a forked child has no last error and no last file of its own");
	unlink("here");
}

/* ---- other users and places ---- */

static void
other_user(void *arg) {
	(void)arg;
	make_file(in_dir("given"), "old text\n");
	make_file(in_dir("others"), "old text\n");
	MUST(chmod(in_dir("others"), 0666) == 0 && chmod(dir, 0755) == 0);
	MUST_HAVE(getuid() == 0 && chown(in_dir("given"), 65534, 65534) == 0 && setgid(65534) == 0
	    && setuid(65534) == 0);
	MUST(dump_to(in_dir("new")) == EACCES && last_error_is("EACCES", in_dir("new"), 0));
	MUST(dump_own_name() == EACCES);
	MUST(files_with("new") == 0 && files_with("auto") == 0 && files_with(".tmp") == 0);
	/* No file can be made here, but the user's own that is there may be written; not another's. */
	MUST(dump_to(in_dir("given")) == 0 && is_whole(in_dir("given")));
	MUST(dump_to(in_dir("others")) == EACCES && !is_whole(in_dir("others")));
	_exit(0);
}

/* The prefix was relative and the directory the other when it was set. */
static void
other_directory(void *arg) {
	const char *prefix = "relative";

	(void)arg;
	MUST(chdir(dir) == 0 && ctl_write("prof.prefix", prefix) == 0);
	MUST(chdir("/") == 0);
	MUST(dump_own_name() == 0 && files_with("relative") == 1);
	MUST(access("/relative", F_OK) != 0);
	_exit(0);
}

/*
 * Where /proc has no memory map, the objects are listed as the loader knows them, as lines of one.
 */
static bool
maps_name_the_library(const char *prefix) {
	static char text[4 << 20];
	DIR *d = opendir(dir);
	struct dirent *e;
	ssize_t n = -1;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strncmp(e->d_name, prefix, strlen(prefix)) == 0) {
			int fd = open(in_dir(e->d_name), O_RDONLY);
			n = read(fd, text, sizeof(text) - 1);
			close(fd);
		}
	}
	if (d != NULL)
		closedir(d);
	text[n < 0 ? 0 : n] = '\0';
	char *maps = strstr(text, "\nMAPPED_LIBRARIES:\n"), *modules = maps == NULL ? NULL
	    : strstr(maps, "\n# module ");
	char *name = maps == NULL ? NULL : strstr(maps, "libjemalloc");
	return modules != NULL && name != NULL && name < modules;
}

static void
other_root(void *arg) {
	char inside[200];
	const char *prefix;

	(void)arg;
	MUST(mkdir(in_dir("root"), 0755) == 0);
	MUST_HAVE(chroot(in_dir("root")) == 0 && chdir("/") == 0);
	MUST(dump_own_name() == EFAULT);
	MUST(strncmp(ctl_str("prof.last_error"), "ENOENT ", 7) == 0);
	/* The same path inside, and no /proc there. */
	snprintf(inside, sizeof(inside), "/tmp");
	MUST(mkdir(inside, 0755) == 0 && mkdir(dir, 0755) == 0);
	MUST(dump_own_name() == 0 && files_with("auto") == 1 && files_with(".tmp") == 0);
	MUST(maps_name_the_library("auto"));
	/* One that is empty is none either. */
	MUST(mkdir("/proc", 0755) == 0 && mkdir("/proc/self", 0755) == 0);
	make_file("/proc/self/maps", "");
	prefix = in_dir("blank");
	MUST(ctl_write("prof.prefix", prefix) == 0 && dump_own_name() == 0 && files_with("blank") == 1);
	MUST(maps_name_the_library("blank"));
	free(keep(malloc(100)));
	_exit(0);
}

static void
bind_mount(void *arg) {
	(void)arg;
	MUST_HAVE(unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE,
	    NULL) == 0);
	make_file(in_dir("behind"), "a text that is longer than nothing\n");
	make_file(in_dir("mounted"), "");
	MUST_HAVE(mount(in_dir("behind"), in_dir("mounted"), NULL, MS_BIND, NULL) == 0);
	MUST(dump_to(in_dir("mounted")) == 0);
	MUST(is_whole(in_dir("mounted")) && is_whole(in_dir("behind")));
	/* Another process writes there meanwhile. */
	int fd = open(in_dir("behind"), O_RDWR);
	MUST(flock(fd, LOCK_EX) == 0 && dump_to(in_dir("mounted")) == EBUSY);
	MUST(is_whole(in_dir("behind")));
	MUST(flock(fd, LOCK_UN) == 0 && dump_to(in_dir("mounted")) == 0);
	MUST(files_with(".tmp") == 0);
	_exit(0);
}

/* ---- planted names ---- */

static void
test_planted(void) {
	char name[100];
	const char *victim = in_dir("victim");
	char kept[200], written[200];

	snprintf(kept, sizeof(kept), "%s", victim);
	make_file(kept, "precious\n");
	/* The next names, of the file and beside it. */
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "auto.%d.%d.m%d.heap", getpid(), i, i);
		if (symlink(kept, in_dir(name)) != 0)
			bail_out("symlink");
		snprintf(name, sizeof(name), ".jeprof.%d.%d.tmp", getpid(), i);
		if (i % 2 == 0 ? symlink(kept, in_dir(name)) != 0 : mkfifo(in_dir(name), 0600) != 0)
			bail_out("symlink");
	}
	is_int(dump_own_name(), 0, "links planted at the names to come");
	ok(file_is(kept, "precious\n"), "were not followed");
	snprintf(written, sizeof(written), "%s", ctl_str("prof.session.last_dump"));
	ok(is_whole(written), "the profile has another name");
	is_int(dump_to(in_dir("given")), 0, "and one to a path");
	ok(is_whole(in_dir("given")) && file_is(kept, "precious\n"), "did not touch them either");
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "auto.%d.%d.m%d.heap", getpid(), i, i);
		unlink(in_dir(name));
		snprintf(name, sizeof(name), ".jeprof.%d.%d.tmp", getpid(), i);
		unlink(in_dir(name));
	}
	unlink(written);
	unlink(in_dir("given"));
	unlink(kept);
}

/* ---- signals ---- */

static volatile int caught;

static void
on_signal(int sig) {
	caught += sig != 0;
}

static void
test_signals(void) {
	struct rlimit old, small;
	sigset_t pending, both, was;
	int fds[2];
	char path[40];

	signal(SIGXFSZ, on_signal);
	signal(SIGPIPE, on_signal);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	small.rlim_cur = 1000;
	setrlimit(RLIMIT_FSIZE, &small);
	int err = dump_to(in_dir("big"));
	setrlimit(RLIMIT_FSIZE, &old); /* our own output may go to a file */
	is_int(err, EFBIG, "RLIMIT_FSIZE: EFBIG");
	ok(last_error_is("EFBIG", in_dir("big"), 1000), "and how many bytes there was room for");
	if (pipe(fds) != 0)
		bail_out("pipe");
	close(fds[0]);
	snprintf(path, sizeof(path), "/dev/fd/%d", fds[1]);
	is_int(dump_to(path), EPIPE, "a pipe without a reader: EPIPE");
	ok(last_error_is("EPIPE", path, 0), "none");
	sigpending(&pending);
	ok(caught == 0 && sigismember(&pending, SIGXFSZ) == 0 && sigismember(&pending, SIGPIPE) == 0,
	    "no signal came and none waits");
	pthread_sigmask(SIG_SETMASK, NULL, &was);
	ok(sigismember(&was, SIGXFSZ) == 0 && sigismember(&was, SIGPIPE) == 0,
	    "nor is one blocked now");
	/* One that the program had waiting of its own is not ours to take. */
	sigemptyset(&both);
	sigaddset(&both, SIGXFSZ);
	sigaddset(&both, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &both, NULL);
	raise(SIGPIPE);
	is_int(dump_to(path), EPIPE, "again");
	sigpending(&pending);
	ok(sigismember(&pending, SIGPIPE) == 1, "the program's own SIGPIPE still waits");
	pthread_sigmask(SIG_UNBLOCK, &both, NULL);
	is_int(caught, 1, "and arrives once");
	close(fds[1]);
	is_int(files_with(""), 0, "no file is left");
}

/* ---- pipes ---- */

static char fifo[200];
static volatile bool may_read;
static volatile long n_read;

static void *
reader(void *arg) {
	static char buf[65536];
	int fd = open(fifo, O_RDONLY);
	ssize_t n;

	(void)arg;
	n_read = 0;
	while (!may_read)
		usleep(1000);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		n_read += n;
	close(fd);
	return NULL;
}

static void *
dumper(void *arg) {
	__atomic_store_n((int *)arg, dump_to(fifo), __ATOMIC_RELEASE);
	return NULL;
}

static void
fifo_make(pthread_t *t) {
	snprintf(fifo, sizeof(fifo), "%s", in_dir("fifo"));
	if (mkfifo(fifo, 0600) != 0 || pthread_create(t, NULL, reader, NULL) != 0)
		bail_out("fifo");
	/* Until the reader is there: opening without one would be refused. */
	int fd;
	while ((fd = open(fifo, O_WRONLY | O_NONBLOCK)) < 0)
		usleep(1000);
	/* Left open until the dump has its own, or the reader would see the end. */
	fifo_end = fd;
}

static void
test_fifo(void) {
	pthread_t t;
	int in_pipe = -1;

	may_read = true;
	fifo_make(&t);
	is_int(dump_to(fifo), 0, "a pipe with a reader takes the profile");
	close(fifo_end);
	pthread_join(t, NULL);
	ok(n_read > 100000, "all of it: %ld bytes", n_read);
	unlink(fifo);
	may_read = false;
	fifo_make(&t);
	is_int(dump_to(fifo), ETIMEDOUT, "one whose reader does not read is given up");
	ok(ioctl(fifo_end, FIONREAD, &in_pipe) == 0 && in_pipe > 0
	    && last_error_is("ETIMEDOUT", fifo, (unsigned)in_pipe), "it says so, and what is in there");
	may_read = true;
	close(fifo_end);
	pthread_join(t, NULL);
	unlink(fifo);
}

/* Descriptors of this process that lead to the pipe. */
static int
descriptors_of_fifo(void) {
	char name[64], to[300];
	int n = 0;

	for (int fd = 3; fd < 64; fd++) {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		ssize_t len = readlink(name, to, sizeof(to) - 1);
		to[len < 0 ? 0 : len] = '\0';
		n += strcmp(to, fifo) == 0;
	}
	return n;
}

/*
 * The dump hangs in a full pipe while this thread forks; what the child says of it, and the error
 * of the dump.
 */
static int
fork_meanwhile(int *status) {
	pthread_t reading, dumping;
	int err = -1, before;

	may_read = false;
	fifo_make(&reading);
	/* Both ends of ours: the reader may be on its way out of its open. */
	while ((before = descriptors_of_fifo()) < 2)
		usleep(1000);
	pthread_create(&dumping, NULL, dumper, &err);
	while (descriptors_of_fifo() <= before && __atomic_load_n(&err, __ATOMIC_ACQUIRE) < 0)
		usleep(1000);
	pid_t pid = fork();
	if (pid == 0) {
		/* Its own dumps work, and the one of the parent does not live on here. */
		bool good = descriptors_of_fifo() == before && dump_to(in_dir("child")) == 0
		    && is_whole(in_dir("child"));
		_exit(good ? 0 : 1);
	}
	waitpid(pid, status, 0);
	may_read = true;
	pthread_join(dumping, NULL);
	close(fifo_end);
	pthread_join(reading, NULL);
	unlink(fifo);
	unlink(in_dir("child"));
	return err;
}

static void
test_fork_meanwhile(void) {
	int err, status, tries = 0;

	/*
	 * It is 5 s that a pipe is waited for: once more where this machine did not come to read it
	 * before.
	 */
	do {
		status = -1;
		err = fork_meanwhile(&status);
	} while (err == ETIMEDOUT && ++tries < 20);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	    "a child forked in the middle of a dump closes its file");
	is_int(err, 0, "the parent's dump goes on");
	ok(n_read > 100000, "to its end");
}

static void *
dump_on(void *arg) {
	for (;;) {
		if (arg != NULL) {
			ctl_void("prof.log_start");
			ctl_void("prof.log_stop");
		} else {
			dump_own_name();
		}
	}
	return arg;
}

/* Exit comes at any step of another thread's dump or log: no temporary file stays. */
static void
test_exit_meanwhile(void) {
	for (unsigned i = 0; i < 60; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			pthread_t t;
			ctl_void("prof.reset");
			pthread_create(&t, NULL, dump_on, i % 2 == 0 ? NULL : dir);
			usleep(300 + i * 37);
			exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	is_uint(files_with(".tmp"), 0, "nothing half-written is left by an exit");
	char cmd[200];
	snprintf(cmd, sizeof(cmd), "rm -f %s/auto.*", dir);
	is_int(system(cmd), 0, "what is whole goes");
}

/*
 * A file behind a descriptor, such as the log that standard output is, keeps what it has: the
 * profile is written where the descriptor stands, which then is behind it.
 */
static void
test_descriptor(void) {
	char path[40], cmd[300];
	int fd = open(in_dir("open"), O_RDWR | O_CREAT, 0600);
	char filler[1 << 16];

	memset(filler, 'x', sizeof(filler));
	for (int i = 0; i < 32; i++)
		if (write(fd, filler, sizeof(filler)) < 0)
			bail_out("write");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	is_int(dump_to(path), 0, "a path of an open file");
	off_t end = lseek(fd, 0, SEEK_CUR);
	ssize_t n = pread(fd, filler, 30, end - 30);
	filler[n < 0 ? 0 : n] = '\0';
	ok(strstr(filler, "\n# end ") != NULL, "and its end: \"%s\"", filler);
	ok(end == lseek(fd, 0, SEEK_END), "is that of the file");
	snprintf(cmd, sizeof(cmd), "cd %s && test \"$(head -c 2097152 open | tr -d x | wc -c)\" -eq 0"
	    " && tail -c +2097153 open >behind", dir);
	is_int(system(cmd), 0, "what the file had stays");
	ok(is_whole(in_dir("behind")), "the profile behind it is whole");
	close(fd);
	unlink(in_dir("open"));
	unlink(in_dir("behind"));
}

static int
child_all(void) {
	char prefix[100], cmd[200];
	const char *p = prefix;

	strcpy(dir, "/tmp/jetest.XXXXXX");
	if (mkdtemp(dir) == NULL)
		return 99;
	for (int i = 1; i < 2000; i++)
		live[i] = site((unsigned)i, 11);
	snprintf(prefix, sizeof(prefix), "%s/auto", dir);
	if (ctl_write("prof.prefix", p) != 0)
		return 98;
	test_answers();
	test_planted();
	test_signals();
	if (is_large) {
		test_fifo();
		test_fork_meanwhile();
	} else {
		skip(8, "no stacks in this build: the profile is too small to fill a pipe");
	}
	test_descriptor();
	test_exit_meanwhile();
	in_child(other_user, "another user: EACCES, in place where that is allowed");
	in_child(other_directory, "a relative prefix and chdir");
	in_child(other_root, "chroot after the start");
	in_child(bind_mount, "a bind-mounted file is written in place");
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	is_int(system(cmd), 0, "clean up");
	return done_testing();
}

/* Enough for several interval dumps, all of which fail; then the errors are counted. */
static int
child_automatic(void) {
	for (int i = 0; i < 2000; i++)
		live[i] = malloc(10000);
	printf("errors %llu\n", (unsigned long long)ctl_u64("prof.dump_errors"));
	printf("last %s\n", ctl_str("prof.last_error"));
	fflush(stdout);
	return 0;
}

static const struct test_child children[] = {
	{"all", child_all},
	{"automatic", child_automatic},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static struct test_result r;
	char *at;
	unsigned long errors;

	test_children(argc, argv, children);
	if (!ctl_bool("config.prof"))
		plan_skip_all("no profiler in this build");
	run_child_conf(&r, "all", "prof:true,lg_prof_sample:8,prof_dump_timestamp:false");
	child_exits(&r, 0, "dumps in a world that resists");
	run_child_conf(&r, "automatic", "abort:false,prof:true,lg_prof_sample:10,lg_prof_interval:20,"
	    "prof_prefix:/dev/full/x");
	child_exits(&r, 0, "automatic dumps that fail");
	at = strstr(r.out, "errors ");
	errors = at == NULL ? 0 : strtoul(at + 7, NULL, 10);
	ok(errors >= 3, "prof.dump_errors counts them (%lu)", errors);
	contains(r.out, "last ENOTDIR /dev/full/x.", "prof.last_error has reason and path");
	contains(r.out, "<jemalloc>: failed to open \"/dev/full/x.",
	    "a line is printed, with the path");
	contains(r.out, "\": ENOTDIR\n", "and the reason");
	return done_testing();
}
