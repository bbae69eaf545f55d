/* Names of profiles, and files that are whole or not there at all. */
#include "test.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "os/gate.h"
#include "os/sys.h"
#include "prof/file/prof_sys.h"
#include "prof/sites/prof_opt.h"

/* 2026-07-01T12:34:56.789Z */
#define INSTANT (UINT64_C(1782909296789) * 1000000)

static prof_file_t file;
static char dir[] = "/tmp/prof_sys.XXXXXX";

static const char *
base(const char *path) {
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

static const char *
name_of(prof_kind_t kind, uint64_t kseq, uint64_t end) {
	static char buf[PROF_PATH_SIZE];
	prof_name_t n = {kind, kseq, INSTANT, end};

	if (prof_dump_filename(buf, sizeof(buf), &n) != 0)
		return "(error)";
	return base(buf);
}

static void
test_names(void) {
	char want[256];

	prof_sys_prefix_set("jeprof");
	snprintf(want, sizeof(want), "jeprof.%d.20260701T123456.789Z.0.m3.heap", getpid());
	is_str(name_of(prof_kind_manual, 3, 0), want, "manual");
	snprintf(want, sizeof(want), "jeprof.%d.20260701T123456.789Z.1.f.heap", getpid());
	is_str(name_of(prof_kind_final, 0, 0), want, "final has no number of its own");
	snprintf(want, sizeof(want), "jeprof.%d.20260701T123456.789Z_20260701T123457.789Z.2.s0.heap",
	    getpid());
	is_str(name_of(prof_kind_session, 0, INSTANT + 1000000000), want, "a session has its span");
	opt_prof_dump_timestamp = false;
	snprintf(want, sizeof(want), "jeprof.%d.3.i0.heap", getpid());
	is_str(name_of(prof_kind_interval, 0, 0), want, "interval, no stamp");
	snprintf(want, sizeof(want), "jeprof.%d.4.u7.heap", getpid());
	is_str(name_of(prof_kind_gdump, 7, 0), want, "gdump, no stamp");
	opt_prof_pid_namespace = true;
	contains(name_of(prof_kind_gdump, 8, 0), ".5.u8.heap", "with the name space");
	opt_prof_pid_namespace = false;
	opt_prof_dump_timestamp = true;
}

/* Every kind in both modes: the letters are those of the contract. */
static void
test_kinds(void) {
	static const struct {
		prof_kind_t kind;
		const char *end;
	} all[] = {
		{prof_kind_final, "f.heap"}, {prof_kind_interval, "i7.heap"}, {prof_kind_manual, "m7.heap"},
		{prof_kind_gdump, "u7.heap"}, {prof_kind_session, "s7.heap"}, {prof_kind_alloc, "a7.heap"},
		{prof_kind_large, "l7.heap"}, {prof_kind_highwater, "h7.heap"},
		    {prof_kind_timer, "t7.heap"}, {prof_kind_delta, "d7.heap"}, {prof_kind_box, "b.box"},
	};
	char want[256];

	is_uint(ARRAY_LEN(all), prof_kind_log, "all kinds but the log");
	prof_sys_prefix_set("p");
	for (unsigned mode = 0; mode < 2; mode++) {
		opt_prof_dump_timestamp = mode == 0;
		prof_sys_postfork_child();
		for (unsigned i = 0; i < ARRAY_LEN(all); i++) {
			bool is_session = all[i].kind == prof_kind_session;
			snprintf(want, sizeof(want), "p.%d.%s%u.%s", getpid(), mode != 0 ? ""
			    : is_session ? "20260701T123456.789Z_20260701T123456.789Z."
			    : "20260701T123456.789Z.", i, all[i].end);
			is_str(name_of(all[i].kind, 7, INSTANT), want, "%s %s stamp",
			    prof_kind_name(all[i].kind), mode == 0 ? "with" : "without");
		}
	}
	opt_prof_dump_timestamp = true;
	prof_name_t log = {.kind = prof_kind_log};
	char buf[PROF_PATH_SIZE];
	snprintf(want, sizeof(want), "p.%d.1.json", getpid());
	is_int(prof_dump_filename(buf, sizeof(buf), &log), 0, "the log");
	is_int(prof_dump_filename(buf, sizeof(buf), &log), 0, "and another one");
	is_str(base(buf), want, "has no stamp and its own numbers");
}

static void
test_prefix(void) {
	static char longer[9001];
	char buf[PROF_PATH_SIZE];
	prof_name_t n = {prof_kind_manual, 0, INSTANT, 0};

	memset(longer, 'x', sizeof(longer) - 1);
	is_int(prof_sys_prefix_set(longer), EINVAL, "a prefix of 9000 bytes is refused");
	longer[300] = '\0';
	is_int(prof_sys_prefix_set(longer), EINVAL, "and one whose last part is too long for a name");
	is_int(prof_sys_prefix_set("%n%s"), 0, "a prefix is no format");
	is_int(prof_dump_filename(buf, sizeof(buf), &n), 0, "name");
	contains(buf, "/%n%s.", "it is taken literally, and absolute");
	is_int(prof_sys_prefix_set(""), 0, "empty");
	ok(prof_sys_prefix_is_empty(), "is empty");
}

static int
write_one(const char *path, const char *text) {
	prof_name_t n = {prof_kind_manual, 0, INSTANT, 0};

	if (prof_file_open(&file, path, &n, false) == 0)
		prof_file_write(&file, text, strlen(text));
	return prof_file_close(&file);
}

static void
test_auto_file(void) {
	char prefix[128];
	struct stat st;

	snprintf(prefix, sizeof(prefix), "%s/p", dir);
	prof_sys_prefix_set(prefix);
	umask(0);
	is_int(write_one(NULL, "one"), 0, "written");
	ok(stat(file.path, &st) == 0 && st.st_size == 3, "there it is");
	is_uint(st.st_mode & 07777, 0600, "mode, under umask 0");
	is_int(files_in(dir), 1, "nothing else in the directory");

	/* What another process of this pid left: the names to come. */
	char taken[PROF_PATH_SIZE];
	char *seq;
	snprintf(taken, sizeof(taken), "%s", file.path);
	seq = strstr(taken, "789Z.") + 5;
	unsigned long next = strtoul(seq, NULL, 10) + 1;
	sprintf(seq, "%lu.m0.heap", next);
	int fd = open(taken, O_CREAT | O_WRONLY, 0600);
	close(fd);
	is_int(write_one(NULL, "two"), 0, "written beside an older file");
	ok(stat(taken, &st) == 0 && st.st_size == 0, "which is as it was");
	ok(strcmp(taken, file.path) != 0, "under another name");
	is_int(files_in(dir), 3, "three files");
}

static char text_of[64];

static const char *
read_back(const char *path) {
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text_of, sizeof(text_of) - 1);

	text_of[n < 0 ? 0 : n] = '\0';
	close(fd);
	return text_of;
}

/* Writes a dump of the kind at the instant; its path. */
static const char *
dump_at(prof_kind_t kind, uint64_t instant, const char *text) {
	prof_name_t n = {kind, 0, instant, 0};

	if (prof_file_open(&file, NULL, &n, false) == 0)
		prof_file_write(&file, text, strlen(text));
	is_int(prof_file_close(&file), 0, "%s", text);
	return file.path;
}

/*
 * What could make two names the same: one instant, a clock that goes back, a child with the numbers
 * begun anew, a process before us with our pid.
 */
static void
test_never_the_same(void) {
	char first[PROF_PATH_SIZE], second[PROF_PATH_SIZE];
	int before = files_in(dir);

	for (unsigned mode = 0; mode < 2; mode++) {
		opt_prof_dump_timestamp = mode == 0;
		strcpy(first, dump_at(prof_kind_manual, INSTANT, "first"));
		strcpy(second, dump_at(prof_kind_manual, INSTANT, "the same instant"));
		ok(strcmp(first, second) != 0, "two names");
		dump_at(prof_kind_manual, INSTANT - 1000000000, "a second earlier: the clock was set back");
		/* As a process that starts with the pid of one that is gone. */
		prof_sys_postfork_child();
		for (unsigned i = 0; i < 3; i++)
			dump_at(prof_kind_manual, INSTANT, "the numbers begin anew");
		is_str(read_back(first), "first", "the first file is as it was");
		is_str(read_back(second), "the same instant", "and the second");
		before += 6;
		is_int(files_in(dir), before, "each dump has its file");
	}
	opt_prof_dump_timestamp = true;
	pid_t pid = fork();
	if (pid == 0) {
		prof_name_t n = {prof_kind_manual, 0, INSTANT, 0};
		char want[32];

		snprintf(want, sizeof(want), "/p.%d.", getpid());
		_exit(prof_file_open(&file, NULL, &n, false) == 0 && strstr(file.path, want) != NULL
		    && prof_file_close(&file) == 0 ? 0 : 1);
	}
	int status = -1;
	waitpid(pid, &status, 0);
	ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child's names have its own pid");
	is_int(files_in(dir), before + 1, "one more file");
}

/* What a name says. */
static void
test_name_kind(void) {
	static const struct {
		const char *name;
		prof_kind_t kind;
	} c[] = {
		{"p.12.20260701T123456.789Z.0.m3.heap", prof_kind_manual},
		{"p.12.20260701T123456.789Z_20260701T123457.789Z.2.s0.heap", prof_kind_session},
		{"p.4026531836.12.3.i0.heap", prof_kind_interval}, {"p.12.3.f.heap", prof_kind_final},
		{"p.12.3.l11.heap", prof_kind_large},
		{"p.12.3.l.heap", prof_kind_n}, {"p.12.3.f1.heap", prof_kind_n},
		    {"p.12.3.x1.heap", prof_kind_n},
		{"p.other.12.3.l1.heap", prof_kind_n}, {"pp.12.3.l1.heap", prof_kind_n},
		    {"p.l1.heap", prof_kind_n},
		{"p.12.3.l1.heap.gz", prof_kind_n}, {"p..heap", prof_kind_n}, {"p", prof_kind_n},
		    {"", prof_kind_n},
		{"p.12.7.json", prof_kind_n},
	};

	for (unsigned i = 0; i < ARRAY_LEN(c); i++)
		is_int(prof_sys_name_kind(c[i].name, "p"), c[i].kind, "kind of %s", c[i].name);
	is_int(prof_sys_name_kind(".12.3.l1.heap", ""), prof_kind_large,
	    "a prefix that ends in a slash");
}

static unsigned n_renames;

static int
counting_rename2(const char *from, const char *to, unsigned flags) {
	n_renames++;
	return os_hooks_real.rename2(from, to, flags);
}

/*
 * A few names in a row are passed one after the other; a run of many is left behind by few steps.
 */
static void
test_taken_names(void) {
	char path[300];
	unsigned n = 0;

	opt_prof_dump_timestamp = false;
	snprintf(path, sizeof(path), "%s/t", dir);
	prof_sys_prefix_set(path);
	prof_sys_postfork_child();
	for (unsigned i = 0; i < 3000; i++) {
		snprintf(path, sizeof(path), "%s/t.%d.%u.m0.heap", dir, getpid(), i);
		n += close(open(path, O_WRONLY | O_CREAT | O_EXCL, 0600)) == 0;
	}
	is_uint(n, 3000, "3000 names are taken");
	struct os_hooks_s counting = os_hooks_real;
	counting.rename2 = counting_rename2;
	os_hooks = &counting;
	is_int(write_one(NULL, "late"), 0, "one is found");
	os_hooks = &os_hooks_real;
	/* 64 by one, then twice as many each time. */
	ok(n_renames > 64 && n_renames < 64 + 20, "with %u looks", n_renames);
	for (unsigned i = 0; i < 3000; i++) {
		snprintf(path, sizeof(path), "%s/t.%d.%u.m0.heap", dir, getpid(), i);
		unlink(path);
	}
	unlink(file.path);
	opt_prof_dump_timestamp = true;
}

static struct os_hooks_s hooks;
static struct tls_s *reader_tls;
static bool is_entered, is_locked, is_reader_entered;

static void *
read_prefix(void *arg) {
	static char buf[PROF_PATH_SIZE];

	free(keep(malloc(1)));
	__atomic_store_n(&reader_tls, tls_get(), __ATOMIC_RELEASE);
	while (!__atomic_load_n(&is_locked, __ATOMIC_ACQUIRE)) {
		usleep(100);
	}
	prof_sys_prefix_get(buf, sizeof(buf));
	return arg;
}

/* Called with the lock of the prefix held: a thread that waits for it is inside the gate too. */
static ssize_t
getcwd_hook(char *buf, size_t size) {
	const struct tls_s *t;

	is_entered = gate_is_entered(tls_get());
	__atomic_store_n(&is_locked, true, __ATOMIC_RELEASE);
	for (int i = 0; i < 60000 && !is_reader_entered; i++) {
		t = __atomic_load_n(&reader_tls, __ATOMIC_ACQUIRE);
		is_reader_entered = t != NULL
		    && (__atomic_load_n(&t->gate, __ATOMIC_SEQ_CST) & GATE_INSIDE) != 0;
		usleep(1000);
	}
	return os_hooks_real.getcwd(buf, size);
}

/* No child of a fork may find the lock of the prefix held. */
static void
test_prefix_gate(void) {
	pthread_t reader;

	hooks = os_hooks_real;
	hooks.getcwd = getcwd_hook;
	os_hooks = &hooks;
	pthread_create(&reader, NULL, read_prefix, NULL);
	is_int(prof_sys_prefix_set("p"), 0, "set");
	os_hooks = &os_hooks_real;
	__atomic_store_n(&is_locked, true, __ATOMIC_RELEASE);
	pthread_join(reader, NULL);
	ok(is_entered, "the prefix is set inside the gate");
	ok(is_reader_entered, "and read inside it");
}

static int
write_confined(const char *path, const char *text) {
	prof_name_t n = {prof_kind_manual, 0, INSTANT, 0};

	if (prof_file_open(&file, path, &n, true) == 0)
		prof_file_write(&file, text, strlen(text));
	return prof_file_close(&file);
}

/* Who may steer the profiler only replaces profiles, and nothing else. */
static void
test_confined(void) {
	char path[256];

	snprintf(path, sizeof(path), "%s/c.heap", dir);
	is_int(write_confined(path, "no profile"), 0, "a new name");
	is_int(write_confined(path, "heap_v2/1"), EEXIST, "what is no profile stays");
	is_str(read_back(path), "no profile", "as it was");
	is_int(write_one(path, "heap_v2/1 old"), 0, "the program itself may");
	is_int(write_confined(path, "heap_v2/1 new"), 0, "a profile is replaced");
	is_str(read_back(path), "heap_v2/1 new", "whole");
	char moved[256];
	snprintf(moved, sizeof(moved), "%s/c.db", dir);
	is_int(rename(path, moved), 0, "under a name that profiles do not have");
	is_int(write_confined(moved, "heap_v2/1"), EEXIST, "it stays");
	is_int(write_confined("/dev/fd/1", "x"), ELOOP, "no descriptors");
	/* What comes to stand there meanwhile. */
	prof_name_t n = {prof_kind_manual, 0, INSTANT, 0};
	is_int(prof_file_open(&file, path, &n, true), 0, "a new name again");
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	ok(write(fd, "mine", 4) == 4 && close(fd) == 0, "which somebody takes meanwhile");
	is_int(prof_file_close(&file), EEXIST, "it is not replaced");
	is_str(read_back(path), "mine", "as it was");
	unlink(path);
	unlink(moved);
}

static void
become(uid_t uid) {
	if (seteuid(uid) != 0) {
		bail_out("seteuid");
	}
}

/* In a directory where others' files cannot be replaced, they are not written into either. */
static void
test_sticky(void) {
	char sticky[256], path[300], other[300];
	struct stat st;

	if (getuid() != 0) {
		skip(1, "needs two users");
		return;
	}
	snprintf(sticky, sizeof(sticky), "%s/sticky", dir);
	mkdir(sticky, 0700);
	chmod(sticky, 01777);
	chmod(dir, 0755);
	snprintf(path, sizeof(path), "%s/planted", sticky);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	fchmod(fd, 0666);
	close(fd);
	snprintf(other, sizeof(other), "%s/fifo", sticky);
	mkfifo(other, 0600);
	chmod(other, 0666);
	is_int(chown(path, 12345, 12345) + chown(other, 12345, 12345), 0, "files of another user");
	int reader = open(other, O_RDONLY | O_NONBLOCK);
	become(54321);
	is_int(write_one(path, "secret"), EACCES, "a file that another user has put there is refused");
	is_int(write_one(other, "secret"), EACCES, "a pipe too");
	become(0);
	close(reader);
	ok(stat(path, &st) == 0 && st.st_size == 0, "nothing was written");
	/*
	 * Ours, but linked: where the rename is impossible, as in a directory that cannot be written.
	 */
	snprintf(path, sizeof(path), "%s/ours", sticky);
	snprintf(other, sizeof(other), "%s/link", sticky);
	close(open(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
	is_int(chown(path, 54321, 54321) + chown(sticky, 0, 0) + chmod(sticky, 0755), 0,
	    "a file of ours");
	become(54321);
	is_int(write_one(path, "text"), 0, "is written in place");
	become(0);
	is_str(read_back(path), "text", "there it is");
	is_int(link(path, other), 0, "with another name");
	become(54321);
	is_int(write_one(path, "more"), EACCES, "it is not");
	become(0);
	is_str(read_back(path), "text", "and stays as it was");
	snprintf(path, sizeof(path), "rm -rf %s", sticky);
	is_int(system(path), 0, "away");
}

static void
test_explicit_file(void) {
	char path[256], link_path[512], fifo[256];
	struct stat st;

	snprintf(path, sizeof(path), "%s/explicit", dir);
	snprintf(link_path, sizeof(link_path), "%s/link", dir);
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	is_int(write_one(path, "first text"), 0, "a new file");
	is_int(write_one(path, "second"), 0, "again");
	ok(stat(path, &st) == 0 && st.st_size == 6, "replaced");
	if (symlink(path, link_path) != 0)
		bail_out("symlink");
	is_int(write_one(link_path, "evil"), ELOOP, "a symbolic link is refused");
	ok(stat(path, &st) == 0 && st.st_size == 6, "and its target untouched");
	if (mkfifo(fifo, 0600) != 0)
		bail_out("mkfifo");
	is_int(write_one(fifo, "x"), ENXIO, "a pipe without reader");
	is_int(write_one(dir, "x"), EISDIR, "a directory");
	is_int(write_one("/nonexistent/dir/file", "x"), ENOENT, "no such directory");
	is_int(write_one("/dev/full", "x"), ENOSPC, "a device that is full");
	is_int(write_one("/dev/null", "x"), 0, "a device");
	int before = files_in(dir);
	struct rlimit lim;
	getrlimit(RLIMIT_FSIZE, &lim);
	rlim_t soft = lim.rlim_cur;
	lim.rlim_cur = 4;
	setrlimit(RLIMIT_FSIZE, &lim);
	int err = write_one(path, "longer than the limit");
	lim.rlim_cur = soft;
	setrlimit(RLIMIT_FSIZE, &lim); /* our own output may go to a file */
	is_int(err, EFBIG, "limit of the file size");
	is_int(files_in(dir), before, "no file was left, and no signal killed us");
	ok(stat(path, &st) == 0 && st.st_size == 6, "the older file is as it was");
	getrlimit(RLIMIT_NOFILE, &lim);
	soft = lim.rlim_cur;
	lim.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &lim);
	is_int(write_one(path, "x"), EMFILE, "no descriptor left");
	lim.rlim_cur = soft;
	setrlimit(RLIMIT_NOFILE, &lim);
}

static void
test_descriptor(void) {
	int fds[2];
	char path[64];
	char got[16] = "";

	if (pipe(fds) != 0)
		bail_out("pipe");
	snprintf(path, sizeof(path), "/dev/fd/%d", fds[1]);
	fcntl(fds[0], F_SETFL, O_NONBLOCK); /* where nothing has come nothing is waited for */
	is_int(write_one(path, "hello"), 0, "/dev/fd/N is written in place");
	is_int(read(fds[0], got, sizeof(got) - 1), 5, "through the pipe");
	is_str(got, "hello", "whole");
	close(fds[0]);
	is_int(write_one(path, "hello"), EPIPE, "a pipe without reader: no SIGPIPE");
	close(fds[1]);
}

/* A log to which the program appends, or which it writes from some offset on. */
static void
test_descriptor_of_file(int flags) {
	char path[128], fd_path[32], got[32] = "";

	snprintf(path, sizeof(path), "%s/log", dir);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | flags, 0600);
	snprintf(fd_path, sizeof(fd_path), "/dev/fd/%d", fd);
	ok(fd >= 0 && write(fd, "early", 5) == 5, "a log");
	is_int(write_one(fd_path, "dump"), 0, "/dev/fd/N of a file");
	ok(write(fd, "late", 4) == 4 && pread(fd, got, sizeof(got) - 1, 0) > 0, "which goes on");
	is_str(got, "earlydumplate", "the profile lies between what the program writes");
	close(fd);
	unlink(path);
}

static void
test_errno_names(void) {
	char buf[16];

	is_str(prof_errno_name(ENOSPC, buf), "ENOSPC", "name of an errno");
	is_str(prof_errno_name(4000, buf), "errno=4000", "one without a name");
	ok(prof_sys_rss(NULL) > 100000, "resident bytes");
}

/* The start of the process is field 22 of its line, whatever its name is. */
static void
test_start_ticks(void) {
	static const char *const names[] = {"plain", "a b", "1) S 2 3", ") R 1 (x"};
	unsigned bad = 0;

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char text[1024];
		unsigned long long ticks = 0;
		prctl(PR_SET_NAME, names[i]);
		FILE *f = fopen("/proc/self/stat", "r");
		size_t n = f == NULL ? 0 : fread(text, 1, sizeof(text) - 1, f);
		text[n] = '\0';
		if (f != NULL)
			fclose(f);
		char *at = strrchr(text, ')');
		for (unsigned field = 2; field < 22 && at != NULL; field++)
			at = strpbrk(at + 1, " \n");
		ticks = at == NULL ? 0 : strtoull(at, NULL, 10);
		bad += ticks == 0 || prof_sys_start_ticks() != ticks;
	}
	is_uint(bad, 0, "the start of the process, whatever its name");
}

static int
linkless_fstat(int fd, struct stat *st) {
	int result = os_hooks_real.fstat(fd, st);

	st->st_nlink = 0;
	return result;
}

/* Whether the directory is there; "" is the current one. */
static bool
has_dir(const char *name) {
	char prefix[128];
	int n = snprintf(prefix, sizeof(prefix), "%s%sp", name, *name != '\0' ? "/" : "");

	return prof_sys_prefix_has_dir(prefix, (size_t)n);
}

/* Some file systems count no links, so that a directory has 0; a deleted one has no path either. */
static void
test_has_dir(void) {
	char cwd[PROF_PATH_SIZE], gone[64];

	snprintf(gone, sizeof(gone), "%s/gone", dir);
	if (getcwd(cwd, sizeof(cwd)) == NULL || mkdir(gone, 0700) != 0)
		bail_out("no directory");
	hooks = os_hooks_real;
	hooks.fstat = linkless_fstat;
	os_hooks = &hooks;
	ok(has_dir(dir) && has_dir(""), "a directory without links");
	os_hooks = &os_hooks_real;
	ok(!has_dir("/tmp/prof_sys.none") && !has_dir("/dev/null"),
	    "none, and no directory");
	if (chdir(gone) != 0 || rmdir(gone) != 0)
		bail_out("not deleted");
	ok(!has_dir(""), "the current one, which was deleted");
	ok(has_dir(dir), "another one meanwhile");
	ok(prof_sys_prefix_has_dir("", 0), "no prefix needs none");
	if (chdir(cwd) != 0)
		bail_out("no way back");
}

int
main(void) {
	char cmd[128];

	free(keep(malloc(1)));
	if (mkdtemp(dir) == NULL)
		bail_out("mkdtemp");
	test_names();
	test_kinds();
	test_prefix();
	test_prefix_gate();
	test_auto_file();
	test_never_the_same();
	test_name_kind();
	test_taken_names();
	test_confined();
	test_sticky();
	test_explicit_file();
	test_descriptor();
	test_descriptor_of_file(0);
	test_descriptor_of_file(O_APPEND);
	test_errno_names();
	test_start_ticks();
	test_has_dir();
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd) != 0 ? 1 : done_testing();
}
