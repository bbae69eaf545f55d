/*
 * A process whose profile is known: with MALLOC_CONF=prof:true,lg_prof_sample:0 each allocation is
 * a sample. It writes its own dump to `own.heap`, prints "ready", and then does as it is told:
 *   sleep      nothing, for ever
 *   allocate   and frees, so that heartbeats come
 *   aged       nothing, and after SIGCONT as allocate; its own dump comes when one stack has held
 *              for 2 s, and freed too
 *   abort      dies with a core
 *   run        four threads allocate and free at thousands of sites; what main() holds stays
 *   inside     a thread stays inside malloc for ever, another waits in fork() for it to come out
 *   end        returns from main()
 *   fork       a child frees all that is held, then the parent prints "ready" and sleeps
 *   stacks     allocates at as many stacks as the next argument says, then sleeps
 *   strict     nothing, under the strict seccomp filter: each call but read and write is its end
 */
#define _GNU_SOURCE
#include <jemalloc/jemalloc.h>

#include <link.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define KEEP __attribute__((noinline, noipa))

void *held[2000]; /* not static: else the compiler leaves the calls out */

void *many[65536];

KEEP static void
pass_by(size_t size) {
	void *p = malloc(size);
	__asm__ volatile("" : "+r"(p)); /* else the compiler leaves both calls out */
	free(p);
}

KEEP static void
hold_orders(void) {
	for (int i = 0; i < 1000; i++) {
		held[i] = malloc(112);
	}
}

KEEP static void
hold_pages(void) {
	for (int i = 1000; i < 1010; i++) {
		held[i] = malloc(8192);
	}
}

/* One stack, whose objects differ in age. */
KEEP static void
hold_aged(void) {
	for (int i = 1010; i < 1013; i++) {
		void *p = malloc(50000);
		held[i] = malloc(40000);
		usleep(700000);
		free(p);
	}
}

static void *
hold_in_thread(void *arg) {
	const char *name = "holder";
	mallctl("thread.prof.name", NULL, NULL, &name, sizeof(name));
	hold_orders();
	pause();
	return arg;
}

/* Each bit of `way` chooses one of two callers, so there are thousands of stacks. */
KEEP static void *
left(unsigned way, unsigned depth);

KEEP static void *
right(unsigned way, unsigned depth) {
	void *p = depth == 0 ? malloc(48) : way & 1 ? left(way >> 1, depth - 1)
	    : right(way >> 1, depth - 1);
	__asm__ volatile("" ::: "memory");
	return p;
}

KEEP static void *
left(unsigned way, unsigned depth) {
	void *p = depth == 0 ? malloc(32) : way & 1 ? left(way >> 1, depth - 1)
	    : right(way >> 1, depth - 1);
	__asm__ volatile("" ::: "memory");
	return p;
}

static void *
churn(void *arg) {
	void *p[64] = {NULL};
	uint64_t n = (uintptr_t)arg;
	for (;;) {
		n = n * UINT64_C(6364136223846793005) + 1442695040888963407;
		unsigned i = (unsigned)(n >> 40) % 64;
		free(p[i]);
		p[i] = right((unsigned)(n >> 33), 12);
	}
	return NULL;
}

/* ---- a thread that stays inside ---- */

static uintptr_t code_start, code_end;
static volatile sig_atomic_t is_inside, fork_waits;

static int
find_code(struct dl_phdr_info *info, size_t size, void *arg) {
	(void)size;
	(void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &info->dlpi_phdr[i];
		if (strstr(info->dlpi_name, "jemalloc") != NULL && h->p_type == PT_LOAD
		    && (h->p_flags & PF_X) != 0) {
			code_start = info->dlpi_addr + h->p_vaddr;
			code_end = code_start + h->p_memsz;
		}
	}
	return 0;
}

static uintptr_t
pc_of(const ucontext_t *c) {
#if defined(__x86_64__)
	return (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
#else
	return (uintptr_t)c->uc_mcontext.pc;
#endif
}

/* Stays for ever if it has interrupted the library. */
static void
stay(int number, siginfo_t *info, void *context) {
	(void)number;
	(void)info;
	uintptr_t pc = pc_of(context);
	while (pc >= code_start && pc < code_end) {
		is_inside = 1;
		pause();
	}
}

/* It is made before: the thread inside may hold a lock that making a thread needs. */
static void *
fork_for_ever(void *arg) {
	fork_waits = 1;
	while (!is_inside) {
		usleep(1000);
	}
	if (fork() == 0) {
		_exit(0);
	}
	pause(); /* the thread inside was behind the gate */
	return arg;
}

static void
go_inside(void) {
	pthread_t t;
	struct sigaction action = {.sa_sigaction = stay, .sa_flags = SA_SIGINFO};
	struct itimerval often = {{0, 1000}, {0, 1000}};
	sigset_t set;
	dl_iterate_phdr(find_code, NULL);
	sigaction(SIGALRM, &action, NULL);
	pthread_create(&t, NULL, churn, (void *)7);
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_create(&t, NULL, fork_for_ever, NULL);
	while (!fork_waits) {
		usleep(1000);
	}
	setitimer(ITIMER_REAL, &often, NULL);
	while (!is_inside) {
		usleep(1000);
	}
	memset(&often, 0, sizeof(often));
	setitimer(ITIMER_REAL, &often, NULL);
}

/* The child changes its tables and samples, and must not change those of its parent. */
static void
fork_and_free(void) {
	if (fork() == 0) {
		for (unsigned i = 0; i < 1010; i++) {
			free(held[i]);
		}
		for (unsigned i = 0; i < 2000; i++) {
			many[i] = right(i, 12);
		}
		_exit(0);
	}
	int status;
	if (wait(&status) < 0 || status != 0) {
		abort();
	}
	pass_by(1 << 20);
}

static volatile sig_atomic_t is_continued;

static void
note_continue(int number) {
	(void)number;
	is_continued = 1;
}

int
main(int argc, char **argv) {
	const char *mode = argc > 1 ? argv[1] : "sleep", *own = "own.heap";
	pthread_t t;
	pthread_create(&t, NULL, hold_in_thread, NULL);
	while (__atomic_load_n(&held[999], __ATOMIC_ACQUIRE) == NULL) {
		usleep(1000);
	}
	hold_pages();
	pass_by(1000000);
	if (argc > 2 && strcmp(mode, "stacks") != 0) {
		void *all = malloc(strtoull(argv[2], NULL, 10));
		memset(all, 1, 4096);
	}
	if (strcmp(mode, "aged") == 0) {
		signal(SIGCONT, note_continue);
		hold_aged();
	}
	if (strcmp(mode, "run") != 0) {
		mallctl("prof.dump", NULL, NULL, &own, sizeof(own));
	}
	for (uintptr_t i = 0; strcmp(mode, "run") == 0 && i < 4; i++) {
		pthread_create(&t, NULL, churn, (void *)(i + 1));
	}
	if (strcmp(mode, "inside") == 0) {
		go_inside();
	}
	if (strcmp(mode, "fork") == 0) {
		fork_and_free();
	}
	for (unsigned i = 0; strcmp(mode, "stacks") == 0 && i < (unsigned)atoi(argv[2]); i++) {
		many[i % 65536] = right(i, 17);
	}
	if (strcmp(mode, "end") == 0) {
		return 0;
	}
	if (write(1, "ready\n", 6) != 6 || strcmp(mode, "abort") == 0) {
		abort();
	}
	if (strcmp(mode, "strict") == 0) {
		char byte;
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
		while (read(0, &byte, 1) != 0) {
		}
	}
	for (;;) {
		usleep(10000);
		bool is_busy = strcmp(mode, "allocate") == 0 || is_continued;
		for (unsigned i = 0; is_busy && i < 1000; i++) {
			pass_by(1024);
		}
	}
}
