/*
 * A limit on file sizes (ulimit -f) harms no program: what the profiler cannot make under it, a box
 * or the mailbox in a memory file, the answer to a command, is left out, and no SIGXFSZ comes.
 */
#include "ctl.h"
#include "dir.h"

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

static const struct test_child children[] = {{"started", run_started}, {"session", run_session},
	{"command", run_command}, {0}};

int
main(int argc, char **argv) {
	char conf[100];

	test_children(argc, argv, children);
	if (!ctl_bool("config.prof")) {
		plan_skip_all("built without the profiler");
		return 0;
	}
	dir_enter();
	limit_files(1 << 20);
	child_runs("started", "prof:true,prof_blackbox:fd");
	child_runs("session", NULL);
	snprintf(conf, sizeof(conf), "prof_ctl_dir:%s,prof_thread:false", dir);
	child_runs("command", conf);
	limit_files(4096);
	child_runs("started", "prof:true,prof_ctl_fd:true");
	dir_leave();
	return done_testing();
}
