/*
 * fork in many ways: from a process whose other threads allocate all the time, from a
 * thread, with handlers of pthread_atfork that allocate, vfork and exec, a daemon; the
 * child allocates, frees what the parent made, and starts threads.
 */
#include "ctl.h"
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>

extern char **environ;

static volatile bool stop;
static int handlers[3];

static void
prepare(void) {
	free(keep(malloc(100)));
	free(keep(malloc(100000)));
	handlers[0]++;
}

static void
parent(void) {
	free(keep(malloc(200)));
	free(keep(malloc(200000)));
	handlers[1]++;
}

static void
child(void) {
	free(keep(malloc(300)));
	free(keep(malloc(300000)));
	handlers[2]++;
}

static void *
busy(void *arg) {
	uint64_t seed = (uint64_t)(uintptr_t)arg;
	char *live[100] = {NULL};

	while (!stop) {
		size_t at = test_random(&seed) % 100;

		free(live[at]);
		live[at] = keep(malloc(1 + test_random(&seed) % (at == 7 ? 300000 : 3000)));
		live[at][0] = 1;
	}
	for (int i = 0; i < 100; i++)
		free(live[i]);
	return NULL;
}

static void *
in_child_thread(void *arg) {
	char *p[50];

	for (int i = 0; i < 50; i++) {
		p[i] = keep(calloc(1, (size_t)(1 + i * 500)));
		if (p[i] == NULL || p[i][0] != 0)
			_exit(3);
	}
	for (int i = 0; i < 50; i++)
		free(p[i]);
	return arg;
}

/* All that a forked child may want to do; the exit status says how it went. */
static int
child_life(void *from_parent) {
	pthread_t t[3];
	void *p[200];

	alarm(400);
	free(from_parent);
	for (int i = 0; i < 200; i++) {
		p[i] = keep(malloc((size_t)(1 + i * i)));
		if (p[i] == NULL)
			return 2;
		memset(p[i], 1, (size_t)(1 + i * i));
	}
	for (int i = 0; i < 200; i++)
		free(p[i]);
	for (int i = 0; i < 3; i++) {
		if (pthread_create(&t[i], NULL, in_child_thread, NULL) != 0)
			return 4;
	}
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	ctl_epoch();
	return ctl_void("arena.4096.purge") == 0 ? 0 : 5;
}

static int
fork_once(void) {
	void *p = keep(malloc(5000));
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(child_life(p));
	free(p);
	if (pid < 0)
		return -1;
	waitpid(pid, &status, 0);
	return status;
}

static void *
forking_thread(void *arg) {
	int *bad = arg;

	for (int i = 0; i < (int)test_rounds(10, 30); i++) {
		if (fork_once() != 0)
			__atomic_fetch_add(bad, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void
test_many_threads(void) {
	pthread_t t[6], f[2];
	int bad = 0, status, forks = (int)test_rounds(30, 100);

	for (int i = 0; i < 6; i++)
		pthread_create(&t[i], NULL, busy, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < forks; i++) {
		status = fork_once();
		if (status != 0) {
			diag("fork %d: status %#x", i, status);
			bad++;
		}
	}
	is_int(bad, 0, "%d forks while six threads allocate", forks);
	for (int i = 0; i < 2; i++)
		pthread_create(&f[i], NULL, forking_thread, &bad);
	for (int i = 0; i < 2; i++)
		pthread_join(f[i], NULL);
	is_int(bad, 0, "two threads fork at the same time");
	stop = true;
	for (int i = 0; i < 6; i++)
		pthread_join(t[i], NULL);
}

static void
test_generations(void) {
	pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		for (int depth = 0; depth < 20; depth++) {
			pid_t next = fork();

			if (next != 0) {
				waitpid(next, &status, 0);
				_exit(next < 0 || status != 0);
			}
			alarm(400);
			free(keep(malloc(1000)));
		}
		_exit(child_life(NULL));
	}
	waitpid(pid, &status, 0);
	is_int(status, 0, "a chain of 20 forks");
}

static
__attribute__((noinline)) int
vfork_once(void) {
	int status = -1;
	pid_t pid = vfork();

	if (pid == 0) {
		execl("/bin/true", "true", NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return status;
}

static void
test_vfork(void) {
	int status = -1;
	int bad = 0;
	pid_t pid;

	for (int i = 0; i < 50; i++) {
		bad += vfork_once() != 0;
		free(keep(malloc(100)));
	}
	is_int(bad, 0, "vfork and exec");
	for (int i = 0; i < 20; i++) {
		char *argv[] = {(char *)(uintptr_t)"true", NULL};

		if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ) != 0)
			bad++;
		waitpid(pid, &status, 0);
		bad += status != 0;
	}
	is_int(bad, 0, "posix_spawn");
}

/* The daemon tells how it went through a shared page. */
static void
test_daemon(void) {
	volatile int *told = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
	    -1, 0);
	pid_t pid = fork();

	if (pid == 0) {
		if (daemon(0, 0) != 0)
			_exit(1);
		*told = child_life(NULL) == 0 ? 1 : 2;
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	for (int i = 0; i < 40000 && *told == 0; i++)
		usleep(5000);
	is_int(*told, 1, "a daemon lives on");
}

static void
test_atfork(void) {
	handlers[0] = handlers[1] = handlers[2] = 0;
	is_int(fork_once(), 0, "fork with handlers that allocate");
	ok(handlers[0] == 1 && handlers[1] == 1 && handlers[2] == 0, "they ran in the parent");
}

int
main(void) {
	pthread_atfork(prepare, parent, child);
	alarm(400);
	test_atfork();
	test_generations();
	test_vfork();
	test_daemon();
	test_many_threads();
	return done_testing();
}
