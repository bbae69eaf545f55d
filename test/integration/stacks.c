/*
 * Samples from every kind of stack at once: deep recursion, fibers, signal handlers on their own
 * stack, code without frame pointers, code that is written while the program runs, threads with the
 * smallest stacks; while objects are loaded and unloaded, profiles are written, and rates and
 * sessions change. Nothing crashes, nothing waits for ever, every kind had its turn.
 * STACKS_SECONDS: how long, 2.
 */
#include "ctl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#ifdef __GLIBC__
#include <ucontext.h>
#endif

const char *malloc_conf =
    "abort_conf:false,prof:true,lg_prof_sample:0,prof_final:false,prof_accum:false";

static volatile bool stop;
static uint64_t turns[16];
static char dump_path[64];

static void
sample(size_t size) {
	char *p = keep(malloc(size));

	if (p != NULL)
		p[0] = 1;
	free(p);
}

static
__attribute__((noinline)) void
recurse(unsigned depth, void (*fn)(void)) {
	if (depth > 0)
		recurse(depth - 1, fn);
	else
		fn();
	__asm__ volatile("");
}

#ifdef __clang__
#define NO_FP
#else
#define NO_FP __attribute__((optimize("omit-frame-pointer")))
#endif

static NO_FP
__attribute__((noinline)) void
recurse_without_fp(unsigned depth, void (*fn)(void)) {
	volatile char pad[40] = {(char)depth};

	if (depth > 0)
		recurse_without_fp(depth - 1 + (unsigned)(pad[1] & 0), fn);
	else
		fn();
	__asm__ volatile("");
}

static void
sample_small(void) {
	sample(40);
	sample(300);
}

static int
compare(const void *a, const void *b) {
	sample(17);
	return *(const int *)a - *(const int *)b;
}

/* ---------------------------------------------------------------- kinds of stacks */

static void *
deep_thread(void *arg) {
	uint64_t seed = 1;

	for (; !stop; turns[0]++) {
		recurse((unsigned)(test_random(&seed) % 3000), sample_small);
		recurse_without_fp((unsigned)(test_random(&seed) % 300), sample_small);
		int v[] = {5, 2, 9, 1};
		qsort(v, 4, sizeof(v[0]), compare);
	}
	return arg;
}

#ifdef __GLIBC__
static __thread ucontext_t home, fiber;
static __thread unsigned fiber_depth;

static void
in_fiber(void) {
	recurse(fiber_depth, sample_small);
	swapcontext(&fiber, &home);
	recurse_without_fp(fiber_depth, sample_small);
}

/* Stacks come and go, often at the place of a larger one before. */
static void *
fiber_thread(void *arg) {
	uint64_t seed = 2;

	for (; !stop; turns[1]++) {
		size_t size = (size_t)16384 << test_random(&seed) % 3;
		char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (stack == MAP_FAILED)
			break;
		fiber_depth = (unsigned)(test_random(&seed) % 20);
		getcontext(&fiber);
		fiber.uc_stack.ss_sp = stack;
		fiber.uc_stack.ss_size = size;
		fiber.uc_link = &home;
		makecontext(&fiber, in_fiber, 0);
		swapcontext(&home, &fiber);
		sample_small();
		swapcontext(&home, &fiber);
		munmap(stack, size);
	}
	return arg;
}
#endif

static void
on_signal(int sig) {
	(void)sig;
	recurse(3, sample_small);
}

static void
raise_one(void) {
	raise(SIGUSR1);
	__asm__ volatile("");
}

static void *
signal_thread(void *arg) {
	stack_t alt = {.ss_size = 65536}, none = {.ss_flags = SS_DISABLE};
	uint64_t seed = 3;

	alt.ss_sp = mmap(NULL, alt.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (; !stop; turns[2]++) {
		sigaltstack(turns[2] % 3 == 0 ? &none : &alt, NULL);
		recurse((unsigned)(test_random(&seed) % 30), raise_one);
		recurse_without_fp((unsigned)(test_random(&seed) % 10), raise_one);
	}
	sigaltstack(&none, NULL);
	munmap(alt.ss_sp, alt.ss_size);
	return arg;
}

#if defined(__x86_64__)
/* push %rbp; mov %rsp,%rbp | mov $1,%ebp | mov %rsi,%rbp; call *%rdi; pop %rbp; ret */
static const unsigned char codes[3][12] = {
	{0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3},
	{0x55, 0xbd, 1, 0, 0, 0, 0xff, 0xd7, 0x5d, 0xc3},
	{0x55, 0x48, 0x89, 0xf5, 0xff, 0xd7, 0x5d, 0xc3},
};

static void *
jit_thread(void *arg) {
	uint64_t seed = 4;

	for (; !stop; turns[3]++) {
		unsigned char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
		/* A compiler that checks types of functions reads the words in front of what it calls. */
		void (*f)(void (*)(void), uintptr_t) = (void (*)(void (*)(void), uintptr_t))(uintptr_t)(p
		    + 64);
		uintptr_t here = (uintptr_t)__builtin_frame_address(0);

		if (p == MAP_FAILED)
			break;
		memcpy(p + 64, codes[test_random(&seed) % 3], sizeof(codes[0]));
		if (mprotect(p, 4096, PROT_READ | PROT_EXEC) == 0) {
			f(sample_small, here + (test_random(&seed) % 4096) * 4096);
			f(raise_one, here + test_random(&seed) % 65536);
		}
		munmap(p, 4096);
	}
	return arg;
}
#endif

static void *
small_thread(void *arg) {
	recurse(5, sample_small);
	sample(70000);
	return arg;
}

/* Each first sample of a thread makes its records, on a stack of 16 KiB. */
static void *
spawning_thread(void *arg) {
	pthread_attr_t attr;
	long least = sysconf(_SC_THREAD_STACK_MIN);
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, least > 16384 ? (size_t)least : 16384);
	for (; !stop; turns[4]++) {
		if (pthread_create(&t, &attr, small_thread, NULL) == 0)
			pthread_join(t, NULL);
	}
	pthread_attr_destroy(&attr);
	return arg;
}

/* ---------------------------------------------------------------- what changes meanwhile */

/* The loader allocates under its lock. */
static void *
loading_thread(void *arg) {
	static const char *const names[] = {"libresolv.so.2", "libstdc++.so.6", "libanl.so.1",
	    "libm.so.6"};

	for (; !stop; turns[5]++) {
		void *handle = dlopen(names[turns[5] % 4], RTLD_NOW | RTLD_LOCAL);

		if (handle != NULL) {
			sample_small();
			dlclose(handle);
		}
		dlsym(RTLD_DEFAULT, "there_is_no_such_symbol");
		dlerror();
	}
	return arg;
}

static void *
dumping_thread(void *arg) {
	const char *path = dump_path;

	for (; !stop; turns[6]++) {
		size_t lg = turns[6] % 3, len = sizeof(bool);
		bool off = false, was = false;

		if (mallctl("prof.dump", NULL, NULL, &path, sizeof(path)) != 0)
			__atomic_fetch_add(&turns[15], 1, __ATOMIC_RELAXED);
		mallctl("prof.reset", NULL, NULL, &lg, sizeof(lg));
		mallctl("prof.active", &was, &len, &off, sizeof(off));
		mallctl("prof.active", NULL, NULL, &was, sizeof(was));
		usleep(2000);
	}
	return arg;
}

/* ---------------------------------------------------------------- the whole */

static void
too_long(int sig) {
	static const char text[] = "Bail out! it hangs\n";

	(void)sig;
	(void)!write(1, text, sizeof(text) - 1);
	_exit(3);
}

int
main(void) {
	static const struct {
		const char *name;
		void *(*run)(void *);
		unsigned turns;
	} kinds[] = {
		{"deep recursion, with and without frame pointers, callbacks", deep_thread, 0},
#ifdef __GLIBC__
		{"fibers", fiber_thread, 1},
#endif
		{"signal handlers", signal_thread, 2},
#if defined(__x86_64__)
		{"code made while running", jit_thread, 3},
#endif
		{"threads with small stacks", spawning_thread, 4},
		{"objects loaded and unloaded", loading_thread, 5},
		{"profiles, resets, switches", dumping_thread, 6},
	};
	enum { N = sizeof(kinds) / sizeof(kinds[0]) };
	unsigned seconds = getenv("STACKS_SECONDS") != NULL ? (unsigned)atoi(getenv("STACKS_SECONDS"))
	    : 2;
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	bool has_prof = false;
	size_t len = sizeof(has_prof);
	pthread_t t[N];

	mallctl("config.prof", &has_prof, &len, NULL, 0);
	if (!has_prof)
		plan_skip_all("no profiler");
	snprintf(dump_path, sizeof(dump_path), "/tmp/stacks.%d.heap", (int)getpid());
	sigaction(SIGUSR1, &sa, NULL);
	signal(SIGALRM, too_long);
	alarm(seconds + 400);
	for (unsigned i = 0; i < N; i++)
		pthread_create(&t[i], NULL, kinds[i].run, NULL);
	for (unsigned i = 0, idle = 1; i < seconds * 10 || idle > 0; i++) { /* the alarm ends it */
		idle = 0;
		for (unsigned k = 0; k < N; k++)
			idle += turns[kinds[k].turns] == 0;
		usleep(100000);
	}
	stop = true;
	for (unsigned i = 0; i < N; i++)
		pthread_join(t[i], NULL);
	alarm(0);
	for (unsigned i = 0; i < N; i++)
		ok(turns[kinds[i].turns] > 0, "%s: %llu turns", kinds[i].name,
		    (unsigned long long)turns[kinds[i].turns]);
	is_uint(turns[15], 0, "each profile was written");
	unlink(dump_path);
	return done_testing();
}
