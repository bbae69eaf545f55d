/*
 * A process under a filter of system calls (seccomp), which allocates all the time.
 * usage: filtered HOW VERDICT CALL [VERDICT CALL]
 * VERDICT: "kill" or "errno", what the filter does at CALL: "memfd_create", "flock", "fallocate" or
 * "none". HOW: "alone"; "thread": a thread that sleeps has the filter, the others none; "child": a
 * child allocates, which has the filter from its parent, and one more by the second pair if there
 * is one; "given", "given-child": like "alone" and "child", with the filter as the runtime of a
 * container gives it, which needs CAP_SYS_ADMIN and takes it away for good; "strict": it may only
 * read and write.
 */
#define _GNU_SOURCE
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char **words;

static void
put_filter(const char *verdict, const char *call, int is_given) {
	unsigned number = strcmp(call, "memfd_create") == 0 ? SYS_memfd_create
	    : strcmp(call, "flock") == 0 ? SYS_flock : strcmp(call, "fallocate") == 0 ? SYS_fallocate
	    : ~0U;
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, strcmp(verdict, "kill") == 0 ? SECCOMP_RET_KILL_PROCESS
		    : SECCOMP_RET_ERRNO | 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(f) / sizeof(f[0]), f};
	if ((!is_given && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
	    || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0
	    || (is_given && prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN, 0, 0, 0) != 0)) {
		perror("seccomp");
		_exit(77);
	}
}

static void *
sleep_filtered(void *ready) {
	put_filter(words[2], words[3], 0);
	__atomic_store_n((int *)ready, 1, __ATOMIC_RELEASE);
	pause();
	return NULL;
}

static void *kept[4096];

static void
allocate(void) {
	for (unsigned i = 0;; i++) {
		free(kept[i % 4096]);
		kept[i % 4096] = malloc(1000 + i % 3000);
		if (i % 64 == 0) {
			usleep(2000);
		}
	}
}

int
main(int argc, char **argv) {
	pthread_t thread;
	int ready = 0;
	char byte;
	words = argv;
	alarm(600);
	free(malloc(5000));
	if (strcmp(argv[1], "strict") == 0) {
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
		while (read(0, &byte, 1) >= 0) {
		}
	}
	if (strcmp(argv[1], "thread") == 0) {
		pthread_create(&thread, NULL, sleep_filtered, &ready);
		while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) {
			usleep(1000);
		}
		allocate();
	}
	put_filter(argv[2], argv[3], strncmp(argv[1], "given", 5) == 0);
	if (strstr(argv[1], "child") != NULL) {
		if (fork() != 0) {
			return wait(NULL) < 0;
		}
		if (argc > 4) {
			put_filter(argv[4], argv[5], 0);
		}
	}
	allocate();
}
