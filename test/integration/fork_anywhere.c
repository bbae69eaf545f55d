/*
 * A signal may interrupt a thread at any instruction of the allocator, and its handler may fork.
 * Here it does: the processor's trap flag stops after each instruction, and where the thread stands
 * for the first time, the handler forks. Nothing may wait for ever, neither in the parent nor in
 * the child, which goes on with the interrupted call and comes to its end too.
 * FORK_EVERY=1: at all of these places, however many steps it takes (scripts/check-long); without
 * it a few.
 */
#include "step.h"
#include "test.h"
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#if CAN_STEP

#define NPLACES 65536
#define NCHILDREN 16
#define CHILD_OK 7
#define CHILD_SECONDS 300
#define TRAP_FLAG 0x100

/* Not from the heap, which is the one that is interrupted. */
static uintptr_t seen[NPLACES];
static unsigned nsteps, nplaces, nforks, nrunning, nbad, every = 64, nsteps_max = 100000;
static uintptr_t code_begin, code_end;
static bool is_child;
static pthread_key_t late_key;

/* The code of the library, or of the program where it is part of that. */
static int
find_code(struct dl_phdr_info *info, size_t size, void *arg) {
	uintptr_t at = (uintptr_t)arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		uintptr_t end = begin + info->dlpi_phdr[i].p_memsz;

		if (at >= begin && at < end) {
			code_begin = begin;
			code_end = end;
			return 1;
		}
	}
	return 0;
}

static bool
is_new(uintptr_t at) {
	size_t i = (at * UINT64_C(0x9e3779b97f4a7c15)) >> 48;

	while (seen[i] != 0 && seen[i] != at)
		i = (i + 1) % NPLACES;
	if (seen[i] == at || nplaces >= NPLACES / 2)
		return false;
	seen[i] = at;
	nplaces++;
	return true;
}

static void
reap(unsigned leave) {
	while (nrunning > leave) {
		int status;
		pid_t pid = wait(&status);

		if (pid < 0 && errno == EINTR)
			continue;
		nbad += wrong_if(pid < 0) || wrong_if(!WIFEXITED(status))
		    || wrong_if(WEXITSTATUS(status) != CHILD_OK);
		nrunning--;
	}
}

/* The child is stepped no more and goes on where the handler came in. */
static void
on_step(int sig, siginfo_t *info, void *context) {
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	uintptr_t at = (uintptr_t)regs[REG_RIP];
	int saved = errno;
	pid_t pid;

	(void)sig;
	(void)info;
	if (++nsteps >= nsteps_max)
		regs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
	if (at < code_begin || at >= code_end || !is_new(at) || nplaces % every != 0)
		return;
	reap(NCHILDREN - 1);
	pid = fork();
	if (pid == 0) {
		alarm(CHILD_SECONDS);
		is_child = true;
		regs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
	} else if (pid > 0) {
		nforks++;
		nrunning++;
	}
	errno = saved;
}

/* Of the child, whose trap flag is off, this is the end. */
static void
step_off(void) {
	if (is_child)
		_exit(CHILD_OK);
	step(false);
}

static void *
calls(void *arg) {
	static const struct { size_t size; unsigned n; } kinds[] = {{24, 2}, {3000, 12}, {20000, 2},
	    {100000, 1}};
	void *p[12];

	(void)arg;
	step(true);
	for (unsigned k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		for (unsigned i = 0; i < kinds[k].n; i++)
			p[i] = keep(malloc(kinds[k].size));
		for (unsigned i = 0; i < kinds[k].n; i++)
			free(p[i]);
	}
	step_off();
	return NULL;
}

/*
 * Asks to be called again until the allocator's own end of the thread is over, then calls it once
 * more.
 */
static void
late(void *arg) {
	static __thread unsigned round;

	(void)arg;
	if (++round < 3) {
		pthread_setspecific(late_key, &round);
		return;
	}
	free(keep(malloc(100)));
	free(keep(malloc(300000)));
	step_off();
}

static void *
calls_and_end(void *arg) {
	void *p = keep(malloc(100));

	free(keep(malloc(200000)));
	free(p);
	pthread_setspecific(late_key, &late_key);
	step(true);
	return arg;
}

static int
finish(void) {
	step_off();
	reap(0);
	test_say("%u steps, %u places, %u forks, %u bad\n", nsteps, nplaces, nforks, nbad);
	return nbad > 0 || nforks == 0;
}

static void
begin(void) {
	struct sigaction sa;

	if (getenv("FORK_EVERY") != NULL) {
		every = (unsigned)atoi(getenv("FORK_EVERY"));
		nsteps_max = UINT_MAX;
	}
	dl_iterate_phdr(find_code, (void *)(uintptr_t)&malloc);
	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = on_step;
	sa.sa_flags = SA_SIGINFO;
	sigaction(SIGTRAP, &sa, NULL);
}

static int
run_in_thread(void *(*fn)(void *)) {
	pthread_t t;

	begin();
	if (pthread_create(&t, NULL, fn, NULL) != 0)
		return 3;
	pthread_join(t, NULL);
	return finish();
}

/* The only thread, which has not called malloc before. */
static int
child_alone(void) {
	begin();
	calls(NULL);
	return finish();
}

static int
child_thread(void) {
	return run_in_thread(calls);
}

static int
child_end(void) {
	free(keep(malloc(1)));
	pthread_key_create(&late_key, late);
	return run_in_thread(calls_and_end);
}

static const struct test_child children[] = {
	{"alone", child_alone},
	{"thread", child_thread},
	{"end", child_end},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static struct test_result r;
	const char *every_one = getenv("FORK_EVERY");

	test_children(argc, argv, children);
	test_state.timeout_s = 900;
	for (const struct test_child *c = children; c->name != NULL; c++) {
		run_child_conf(&r, c->name, "");
		child_exits(&r, 0, "%s: a fork at any instruction ends, and so does its child", c->name);
		diag("%s", r.out);
	}
	if (every_one != NULL) {
		run_child_conf(&r, "thread", "prof:true,lg_prof_sample:0");
		child_exits(&r, 0, "and while samples are taken");
		diag("%s", r.out);
	}
	return done_testing();
}

#else

int
main(void) {
	plan_skip_all("the processor is not one that this test steps");
	return 0;
}

#endif
