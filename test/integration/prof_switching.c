/*
 * The profile while everything around it changes: switched on and off under load, rates changed a
 * thousand times, objects that grow in place, a fork while a dump hangs in a pipe, forks amid
 * resets, hooks.
 */
#include "ctl.h"
#include "heap.h"

#include <math.h>
#include <pthread.h>
#include <sys/stat.h>

const char *malloc_conf = "prof:true,lg_prof_sample:0";

static char dir[64];

static int
dump(const char *name) {
	char path[128];
	const char *p = path;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return ctl_write("prof.dump", p);
}

static struct heap_profile
profile(void) {
	char path[128];

	dump("p.heap");
	snprintf(path, sizeof(path), "%s/p.heap", dir);
	return heap_read(path);
}

static void
set_active(bool on) {
	ctl_write("prof.active", on);
}

static void
set_rate(size_t bytes) {
	ctl_write("prof.sample_interval", bytes);
}

/* ---- on and off under load, frees by other threads ---- */

enum { SLOTS = 2048, THREADS = 6 };
static void *slots[SLOTS];
static int stop;

static void *
churn(void *arg) {
	uint64_t rnd = (uintptr_t)arg;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		uint64_t r = test_random(&rnd);
		void *p = malloc((r & 255) == 0 ? r >> 47 : (r >> 8) % 2000);

		free(__atomic_exchange_n(&slots[(r >> 24) % SLOTS], p, __ATOMIC_ACQ_REL));
	}
	return NULL;
}

static void
test_cycles(void) {
	pthread_t t[THREADS];
	struct heap_profile before = profile();
	uint64_t live = 0;

	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, churn, (void *)(i + 1));
	for (unsigned i = 0; i < 2000; i++) {
		set_active(i % 2 != 0);
		if (i % 50 == 0)
			set_rate(i % 100 == 0 ? 1 : 5000);
		if (i % 400 == 0)
			profile();
		usleep(200);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	set_rate(1);
	set_active(false);
	for (unsigned i = 0; i < SLOTS; i++)
		free(slots[i]);
	struct heap_profile after = profile();
	live = after.live_bytes > before.live_bytes ? after.live_bytes - before.live_bytes : 0;
	ok(after.good, "the dump can be read");
	/* The C library keeps a little for each thread that ended. */
	ok(live < THREADS * 4096, "after everything was freed %llu bytes more live than before",
	    (unsigned long long)live);
	set_active(true);
}

/* ---- a thousand rates ---- */

__attribute__((noinline)) static void
keep_some(unsigned n) {
	while (n-- > 0)
		keep(malloc(200));
}

static void
test_rates(void) {
	const double want = 1000.0 * 100 * 224;
	double var = 0;

	mallctl("prof.reset", NULL, NULL, NULL, 0);
	for (unsigned i = 0; i < 1000; i++) {
		size_t rate = 4096 + (i * 7919) % 200000;
		double p = -expm1(-224.0 / (double)rate);

		set_rate(rate);
		keep_some(100);
		var += 100 * 224.0 * 224.0 * (1 - p) / p;
	}
	struct heap_profile h = profile();
	double off = ((double)h.live_bytes - want) / sqrt(var);

	ok(h.good, "a dump of a thousand rates can be read");
	ok(fabs(off) < 4.5, "its total is off by %.2f sigma", off);
	set_rate(1);
}

/* ---- large objects that grow where they are ---- */

static void
test_growth(void) {
	enum { N = 400 };
	double want = 0, var = 0;

	mallctl("prof.reset", NULL, NULL, NULL, 0);
	set_rate(1 << 17);
	for (unsigned i = 0; i < N; i++) {
		char *p = NULL;

		for (size_t z = 16384; z <= 163840; z += 4096)
			p = realloc(p, z);
		double z = (double)malloc_usable_size(p);
		double prob = -expm1(-z / (1 << 17));
		want += z;
		var += z * z * (1 - prob) / prob;
	}
	struct heap_profile h = profile();
	double off = ((double)h.live_bytes - want) / sqrt(var);

	ok(fabs(off) < 4.5, "grown objects are off by %.2f sigma", off);
	set_rate(1);
}

/* ---- a dump that hangs ---- */

static int dump_is_done;

static void *
dump_to_pipe(void *arg) {
	int rc = dump("pipe");

	(void)arg;
	__atomic_store_n(&dump_is_done, 1, __ATOMIC_RELEASE);
	return (void *)(intptr_t)rc;
}

/* What came of a dump into a pipe that nobody read while this process forked. */
struct hung {
	int err, child;
	bool is_done;
	size_t total;
};

static struct hung
fork_during_dump(const char *path) {
	struct hung h = {0, -1, false, 0};
	char buf[4096];
	pthread_t t;
	void *result;
	ssize_t n;

	dump_is_done = 0;
	if (mkfifo(path, 0600) != 0)
		bail_out("mkfifo");
	int fd = open(path, O_RDONLY | O_NONBLOCK);
	fcntl(fd, F_SETPIPE_SZ, 4096);
	pthread_create(&t, NULL, dump_to_pipe, NULL);
	struct pollfd begun = {fd, POLLIN, 0};
	while (poll(&begun, 1, -1) != 1 || (begun.revents & POLLIN) == 0)
		usleep(1000);
	pid_t pid = fork();
	if (pid == 0) {
		alarm(400);
		free(keep(malloc(1000)));
		_exit(dump("child"));
	}
	h.is_done = __atomic_load_n(&dump_is_done, __ATOMIC_ACQUIRE) != 0;
	waitpid(pid, &h.child, 0);
	fcntl(fd, F_SETFL, 0);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		h.total += (size_t)n;
	pthread_join(t, &result);
	h.err = (int)(intptr_t)result;
	close(fd);
	unlink(path);
	return h;
}

static void
test_fork_during_dump(void) {
	char path[128];
	struct hung h;
	int tries = 0;

	snprintf(path, sizeof(path), "%s/pipe", dir);
	/*
	 * It is 5 s that a pipe is waited for: once more where this machine did not come to read it
	 * before.
	 */
	do {
		h = fork_during_dump(path);
	} while (h.err == ETIMEDOUT && ++tries < 20);
	ok(!h.is_done, "fork does not wait for a dump that hangs");
	is_int(h.child, 0, "the child dumps too");
	is_int(h.err, 0, "the dump ends when it is read");
	ok(h.total > 4096, "%zu bytes", h.total);
}

/* ---- forks amid resets ---- */

enum { LG_SITES = 11 };
static int resets_end;

static void *odd_site(unsigned way, unsigned depth);

/* Allocates at the end of a chain of calls that the bits of `way` choose. */
__attribute__((noinline)) static void *
even_site(unsigned way, unsigned depth) {
	return keep(depth == 0 ? malloc(40) : way % 2 == 0 ? even_site(way / 2, depth - 1)
	    : odd_site(way / 2, depth - 1));
}

__attribute__((noinline)) static void *
odd_site(unsigned way, unsigned depth) {
	return keep(depth == 0 ? malloc(41) : way % 2 == 0 ? even_site(way / 2, depth - 1)
	    : odd_site(way / 2, depth - 1));
}

/* Each reset leaves counts of the time before, which the next ones remove from the tables. */
static void *
reset_again_and_again(void *arg) {
	for (unsigned i = 0; !__atomic_load_n(&resets_end, __ATOMIC_RELAXED); i++) {
		for (unsigned k = 0; k < 16; k++)
			free(even_site(16 * i + k, LG_SITES));
		mallctl("prof.reset", NULL, NULL, NULL, 0);
	}
	return arg;
}

/* Samples at so many sites that the child comes to each part of the tables. */
static void
sample_everywhere(void) {
	for (unsigned i = 0; i < 1u << LG_SITES; i++)
		free(even_site(i, LG_SITES));
}

static void
test_fork_amid_resets(void) {
	enum { FORKS = 100 };
	unsigned n = 0;
	int status = 0;
	pthread_t t;

	pthread_create(&t, NULL, reset_again_and_again, NULL);
	for (; n < FORKS && status == 0; n++) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(60);
			sample_everywhere();
			_exit(0);
		}
		waitpid(pid, &status, 0);
	}
	__atomic_store_n(&resets_end, 1, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
	is_int(status, 0, "%u children of forks amid resets take samples", n);
}

static void *
dump_on_small_stack(void *arg) {
	(void)arg;
	return (void *)(intptr_t)dump("small");
}

static void
test_small_stack(void) {
	pthread_attr_t a;
	pthread_t t;
	void *result = NULL;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, 16384);
	if (pthread_create(&t, &a, dump_on_small_stack, NULL) != 0) {
		skip(1, "no thread with 16 KiB of stack");
		return;
	}
	pthread_join(t, &result);
	is_int((intptr_t)result, 0, "a dump on a stack of 16 KiB");
	pthread_attr_destroy(&a);
}

/* ---- hooks ---- */

static const void *sampled;
static unsigned nsampled, nfreed, ndumped, depth;

static void
on_sample(const void *p, size_t size, void **bt, unsigned n, size_t usize) {
	(void)size;
	(void)bt;
	(void)usize;
	sampled = p;
	depth = n;
	nsampled++;
	free(keep(malloc(10)));
}

static void
on_free(const void *p, size_t usize) {
	(void)p;
	(void)usize;
	nfreed++;
	free(keep(malloc(10)));
}

static void
on_dump(const char *name) {
	ndumped += strstr(name, "hooked") != NULL;
	is_int(dump("nested"), EBUSY, "no dump from within a dump");
}

static void
test_hooks(void) {
	void (*none)(void) = NULL;
	void (*s)(const void *, size_t, void **, unsigned, size_t) = on_sample;
	void (*f)(const void *, size_t) = on_free;
	void (*d)(const char *) = on_dump;

	set_active(true);
	ctl_write("experimental.hooks.prof_sample", s);
	ctl_write("experimental.hooks.prof_sample_free", f);
	ctl_write("experimental.hooks.prof_dump", d);
	void *p = keep(malloc(77));
	ok(sampled == p && nsampled == 1 && depth >= 2, "sample hook, with %u frames", depth);
	free(p);
	is_uint(nfreed, 1, "free hook");
	dump("hooked");
	is_uint(ndumped, 1, "dump hook");
	set_active(false);
	free(keep(malloc(77)));
	is_uint(nsampled, 1, "nothing while inactive");
	set_active(true);
	ctl_write("experimental.hooks.prof_sample", none);
	ctl_write("experimental.hooks.prof_sample_free", none);
	ctl_write("experimental.hooks.prof_dump", none);
}

int
main(void) {
	char cmd[128];

	snprintf(dir, sizeof(dir), "/tmp/prof_switching.XXXXXX");
	if (mkdtemp(dir) == NULL)
		bail_out("mkdtemp");
	if (!ctl_bool("opt.prof"))
		plan_skip_all("no profiler here");
	test_hooks();
	test_cycles();
	test_rates();
	test_growth();
	test_fork_during_dump();
	test_fork_amid_resets();
	test_small_stack();
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd) != 0 ? 1 : done_testing();
}
