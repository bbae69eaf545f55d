/*
 * Rare moments in the life of a process: fork against the locks of stdio, fork in a signal
 * handler that interrupted malloc, fork while a profile is being written to a pipe that
 * nobody reads, threads with the smallest stack, and what many threads cost.
 */
#include "ctl.h"
#include <pthread.h>
#include <sys/stat.h>

static volatile bool stop;

/* -------------------------------------------------------------- fork and stdio */

/* Holds the lock of its stream and wants memory. */
static ssize_t
write_that_allocates(void *cookie, const char *text, size_t len) {
	(void)cookie;
	(void)text;
	for (int i = 1; i < 50; i++)
		free(keep(malloc((size_t)i * 7)));
	return (ssize_t)len;
}

static void *
flusher(void *arg) {
	cookie_io_functions_t io;
	FILE *f;

	memset(&io, 0, sizeof(io));
	io.write = write_that_allocates;
	f = fopencookie(NULL, "w", io);
	while (!stop) {
		fprintf(f, "some text %d\n", 1);
		fflush(NULL);
		usleep(100);
	}
	return arg;
}

static int
fork_and_wait(void) {
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(400);
		for (int i = 1; i < 100; i++)
			free(keep(malloc((size_t)i * 300)));
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return pid < 0 ? -1 : status;
}

static int
child_stdio(void) {
	pthread_t t[2];
	int bad = 0;

	alarm(400);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, flusher, NULL);
	for (int i = 0; i < 300; i++)
		bad += fork_and_wait() != 0;
	_exit(bad != 0);
}

/* -------------------------------------------------------------- fork in a handler */

static volatile sig_atomic_t forked, failed;

static void
forks(int sig) {
	int saved = errno;

	(void)sig;
	if (forked < 200) {
		pid_t pid = fork();
		int status = -1;

		if (pid == 0)
			_exit(0);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			continue;
		failed += status != 0;
		forked++;
	}
	errno = saved;
}

static int
child_handler(void) {
	struct itimerval every = {{0, 500}, {0, 500}};
	static void *p[1000];
	uint64_t seed = 1;

	alarm(400);
	signal(SIGPROF, forks);
	setitimer(ITIMER_PROF, &every, NULL);
	while (forked < 200) {
		size_t at = test_random(&seed) % 1000;

		free(p[at]);
		p[at] = keep(malloc(1 + test_random(&seed) % (at == 5 ? 300000 : 5000)));
	}
	return failed != 0;
}

/* -------------------------------------------------------------- fork and a slow dump */

static char pipe_name[] = "/tmp/jetest.XXXXXX/pipe";

static void *
dumper(void *arg) {
	const char *name = pipe_name;

	mallctl("prof.dump", NULL, NULL, &name, sizeof(name));
	stop = true;
	return arg;
}

static int
child_slow_dump(void) {
	static void *p[2000];
	pthread_t t;
	int fd, bad;

	pipe_name[strlen(pipe_name) - 5] = '\0';
	if (mkdtemp(pipe_name) == NULL)
		return 90;
	strcat(pipe_name, "/pipe");
	if (mkfifo(pipe_name, 0600) != 0)
		return 91;
	fd = open(pipe_name, O_RDWR | O_NONBLOCK);
	fcntl(fd, F_SETPIPE_SZ, 4096);
	for (int i = 0; i < 2000; i++)
		p[i] = malloc((size_t)(i + 1));
	alarm(400);
	pthread_create(&t, NULL, dumper, NULL);
	struct pollfd begun = {fd, POLLIN, 0};
	while (poll(&begun, 1, -1) != 1)
		continue;
	bad = fork_and_wait() != 0 || p[0] == NULL;
	printf("the dump %s while the process forked\n", stop ? "ended" : "waited");
	close(fd);
	unlink(pipe_name);
	*strrchr(pipe_name, '/') = '\0';
	rmdir(pipe_name);
	fflush(stdout);
	_exit(bad);
}

/* -------------------------------------------------------------- small stacks, many threads */

static void *
small_stack(void *arg) {
	const char *name = "/dev/null";

	for (int i = 0; i < 300; i++) {
		void *p = keep(malloc((size_t)(i * 100 + 1)));

		p = keep(realloc(p, (size_t)(i * 150 + 1)));
		free(p);
	}
	mallctl("prof.dump", NULL, NULL, &name, sizeof(name));
	return arg;
}

static int
child_small_stack(void) {
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	if (pthread_attr_setstacksize(&attr, 16384) != 0)
		return 0;
	for (int i = 0; i < 20; i++) {
		if (pthread_create(&t, &attr, small_stack, NULL) != 0)
			return 2;
		pthread_join(t, NULL);
	}
	return 0;
}

static pthread_barrier_t all;

static void *
waits(void *arg) {
	void *p[5];

	for (int i = 0; i < 5; i++) {
		p[i] = keep(malloc((size_t)(20 + i * 40)));
		memset(p[i], 1, 20);
	}
	pthread_barrier_wait(&all);
	pthread_barrier_wait(&all);
	for (int i = 0; i < 5; i++)
		free(p[i]);
	return arg;
}

/* Resident memory of 2000 threads that each made five small blocks, stacks included. */
static int
child_many_threads(void) {
	enum { N = 2000 };
	static pthread_t t[N];
	pthread_attr_t attr;
	size_t before = rss_bytes();

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 32768);
	pthread_barrier_init(&all, NULL, N + 1);
	for (int i = 0; i < N; i++) {
		if (pthread_create(&t[i], &attr, waits, NULL) != 0)
			return 2;
	}
	pthread_barrier_wait(&all);
	printf("per thread %zu\n", (rss_bytes() - before) / N);
	fflush(stdout);
	_exit(0);
}

static size_t
per_thread(const struct test_result *r) {
	const char *at = strstr(r->out, "per thread ");

	return at != NULL ? strtoul(at + 11, NULL, 10) : 0;
}

static void
test_many_threads(void) {
	const char *const env[] = {"LD_PRELOAD=libc.so.6", "MALLOC_CONF", NULL};
	static struct test_result r;
	size_t ours, theirs;

	run_child_env(&r, "many_threads", env);
	if (exited_with(&r, 2)) {
		skip(1, "this machine does not allow 2000 threads");
		return;
	}
	theirs = per_thread(&r);
	run_child_conf(&r, "many_threads", NULL);
	ours = per_thread(&r);
	/* 25 MB for 10 000 threads over a stub; the C library is 6 MB over one. */
	ok(ours > 0 && theirs > 0 && ours < theirs + 2000,
	    "a thread costs %zu bytes, with the C library's malloc %zu", ours, theirs);
}

static const struct test_child children[] = {
	{"stdio", child_stdio},
	{"handler", child_handler},
	{"slow_dump", child_slow_dump},
	{"small_stack", child_small_stack},
	{"many_threads", child_many_threads},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static struct test_result r;

	test_children(argc, argv, children);
	run_child_conf(&r, "stdio", NULL);
	child_exits(&r, 0, "300 forks while threads flush streams that allocate");
	run_child_conf(&r, "handler", NULL);
	child_exits(&r, 0, "200 forks in a signal handler that interrupts malloc");
	if (ctl_bool("config.prof")) {
		run_child_conf(&r, "slow_dump", "prof:true,lg_prof_sample:0");
		child_exits(&r, 0, "fork while a dump waits for a reader");
		diag("%s", r.out);
		run_child_conf(&r, "small_stack", "prof:true,lg_prof_sample:0");
		child_exits(&r, 0, "samples and a dump on a stack of 16 KB");
	} else {
		skip(2, "no profiler in this build");
	}
	run_child_conf(&r, "small_stack", NULL);
	child_exits(&r, 0, "a stack of 16 KB");
	if (ctl_bool("config.debug"))
		skip(1, "a debug build is not measured");
	else
		test_many_threads();
	return done_testing();
}
