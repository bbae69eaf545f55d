/*
 * A limit on file sizes (ulimit -f) harms no program: what the profiler cannot make under it, a box
 * or the mailbox in a memory file, the answer to a command, is left out, and no SIGXFSZ comes. Nor
 * does one come, or a SIGPIPE, for a message where stderr is a file at the limit or a closed pipe.
 */
#include "ctl.h"
#include "dir.h"

#include <signal.h>
#include <sys/stat.h>

static void
limit_files(rlim_t bytes) {
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = bytes;
	if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
		bail_out("setrlimit");
}

/* Is under the limit from its first instruction on. */
static int
run_started(void) {
	int status = -1;
	pid_t pid;

	free(malloc(100));
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 1000; i++)
			free(malloc(1000));
		_exit(0);
	}
	waitpid(pid, &status, 0);
	is_int(status, 0, "a forked child lives too");
	return done_testing();
}

/* A session that asks for a box larger than the limit does not begin. */
static int
run_session(void) {
	const char *options = "blackbox:fd,blackbox_size:2M";

	is_int(ctl_write("prof.session.start", options), EFBIG, "EFBIG");
	return done_testing();
}

/* A command whose answer cannot be written, carried out by this thread. */
static int
run_command(void) {
	char command[32], taken[32];
	int fd = open("new", O_WRONLY | O_CREAT | O_EXCL, 0600);

	snprintf(command, sizeof(command), "%d.cmd", (int)getpid());
	snprintf(taken, sizeof(taken), "%d.taken", (int)getpid());
	if (fd < 0 || write(fd, "nonce=1 mark\n", 13) != 13 || close(fd) != 0)
		bail_out("no command");
	limit_files(0);
	rename("new", command);
	for (int i = 0; i < 6000 && (access(command, F_OK) == 0 || access(taken, F_OK) == 0); i++) {
		free(malloc(100000));
		usleep(10000);
	}
	ok(access(command, F_OK) != 0 && access(taken, F_OK) != 0, "it is carried out");
	/* The answer comes after that; the next look into the directory is after the answer. */
	fd = open("new", O_WRONLY | O_CREAT | O_EXCL, 0600);
	close(fd);
	rename("new", command);
	for (int i = 0; i < 6000 && access(command, F_OK) == 0; i++) {
		free(malloc(100000));
		usleep(10000);
	}
	ok(access(command, F_OK) != 0, "and the next one is taken");
	return done_testing();
}

static bool
is_pending(int sig) {
	sigset_t set;

	sigpending(&set);
	return sigismember(&set, sig) == 1;
}

/* Messages to a stderr that cannot be written: now, and those of the options at exit. */
static int
run_messages(int sig) {
	sigset_t set;

	malloc_stats_print(NULL, NULL, NULL);
	pass("the statistics raise no signal");
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_BLOCK, &set, NULL);
	malloc_stats_print(NULL, NULL, NULL);
	ok(!is_pending(sig), "nor does one wait where the program blocks it");
	raise(sig);
	malloc_stats_print(NULL, NULL, NULL);
	ok(is_pending(sig), "the program's own still waits");
	signal(sig, SIG_IGN); /* takes it away */
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	signal(sig, SIG_DFL);
	return done_testing();
}

static int
run_pipe(void) {
	int ends[2];

	if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
		bail_out("no pipe");
	close(ends[0]);
	close(ends[1]);
	return run_messages(SIGPIPE);
}

static int
run_file(void) {
	int fd = open("stderr", O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (dup2(fd, STDERR_FILENO) < 0)
		bail_out("no file");
	limit_files(0);
	return run_messages(SIGXFSZ);
}

static const struct test_child children[] = {{"started", run_started}, {"session", run_session},
	{"command", run_command}, {"pipe", run_pipe}, {"file", run_file}, {0}};

int
main(int argc, char **argv) {
	char conf[100];

	test_children(argc, argv, children);
	dir_enter();
	child_runs("pipe", "stats_print:true");
	child_runs("file", "stats_print:true");
	if (ctl_bool("config.prof")) {
		/* The summary of a leak, and that a profile cannot be written, at exit. */
		child_runs("pipe", "prof:true,prof_leak:true,lg_prof_sample:0,prof_prefix:none/x");
		child_runs("file", "prof:true,prof_leak:true,lg_prof_sample:0,prof_prefix:none/x");
		limit_files(1 << 20);
		child_runs("started", "prof:true,prof_blackbox:fd");
		child_runs("session", NULL);
		snprintf(conf, sizeof(conf), "prof_ctl_dir:%s,prof_thread:false", dir);
		child_runs("command", conf);
		limit_files(4096);
		child_runs("started", "prof:true,prof_ctl_fd:true");
	}
	dir_leave();
	return done_testing();
}
