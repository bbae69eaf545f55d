/*
 * measure LIBRARY OPTIONS OUTPUT MB COMMAND...: runs the command with LD_PRELOAD and MALLOC_CONF
 * (neither where it is empty), without input and with its standard output in a file, and prints
 * what wait4() tells of it: microseconds of CPU time (user and system), those of the system, KB of
 * peak RSS, page faults, status. Before that it touches MB megabytes, so that a virtual machine has
 * them from its host. Called by test/stress/run-bench, -jeprof, -pages and -prof.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long
microseconds(struct timeval t) {
	return t.tv_sec * 1000000L + t.tv_usec;
}

static void
touch(size_t bytes) {
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return;
	madvise(p, bytes, MADV_HUGEPAGE);
	for (size_t i = 0; i < bytes; i += 4096)
		p[i] = 1;
	munmap(p, bytes);
}

int
main(int argc, char **argv) {
	struct rusage u;
	int status = 0;

	if (argc < 6)
		return 2;
	touch((size_t)atol(argv[4]) << 20);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(open("/dev/null", O_RDWR), 0);
		dup2(open(argv[3], O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
		if (argv[1][0] != 0)
			setenv("LD_PRELOAD", argv[1], 1);
		if (argv[2][0] != 0)
			setenv("MALLOC_CONF", argv[2], 1);
		execvp(argv[5], argv + 5);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &u) < 0)
		return 1;
	long system_us = microseconds(u.ru_stime);
	printf("%ld %ld %ld %ld %d\n", microseconds(u.ru_utime) + system_us, system_us, u.ru_maxrss,
	    u.ru_minflt, status);
	return 0;
}
