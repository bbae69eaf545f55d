/*
 * No memory left (RLIMIT_AS): every function says NULL and ENOMEM, what lives stays whole,
 * and memory that is freed serves again; also where the first malloc of a thread, or of
 * the process, meets the limit.
 */
#include "ctl.h"
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>

#define N_BLOCKS 300000

static void *blocks[N_BLOCKS];
static volatile int phase;

/* So much more address space than now, and no more. */
static void
limit_memory(size_t more) {
	size_t now = proc_status_bytes("VmSize") + more;
	struct rlimit r = {now, RLIM_INFINITY};

	if (setrlimit(RLIMIT_AS, &r) != 0)
		_exit(20);
}

static void
unlimit_memory(void) {
	struct rlimit r = {RLIM_INFINITY, RLIM_INFINITY};

	setrlimit(RLIMIT_AS, &r);
}

/* Allocates until nothing is left, or there are so many blocks; each carries its number. */
static size_t
exhaust_up_to(size_t max, size_t size) {
	size_t n = 0;

	errno = 0;
	while (n < max) {
		size_t *p = keep(malloc(size));

		if (p == NULL)
			break;
		*p = n;
		blocks[n++] = p;
	}
	return n;
}

static size_t
exhaust(size_t size) {
	return exhaust_up_to(N_BLOCKS, size);
}

static bool
release(size_t n) {
	bool whole = true;

	for (size_t i = 0; i < n; i++) {
		whole = whole && *(size_t *)blocks[i] == i;
		free(blocks[i]);
	}
	return whole;
}

static void
sizes_now(void *arg) {
	size_t size = *(size_t *)arg;
	size_t n, again;
	int err;

	limit_memory((size_t)48 << 20);
	n = exhaust(size);
	err = errno;
	if (n == 0 || n == N_BLOCKS || err != ENOMEM)
		_exit(1);
	if (!release(n))
		_exit(2);
	again = exhaust(size);
	if (again < n / 2)
		_exit(3);
	if (!release(again))
		_exit(4);
	unlimit_memory();
	_exit(exhaust_up_to(n + 1, size) > n ? 0 : 5);
}

/* Large requests of all arenas, also those that this thread has not reported yet. */
static uint64_t
large_requests(void) {
	ctl_void("thread.tcache.flush");
	ctl_epoch();
	return ctl_u64("stats.arenas.4096.large.nrequests");
}

/*
 * Each block is counted once, also one that was refused first and served from what this thread's
 * cache held, and none that was refused in the end.
 */
static void
counts_now(void *arg) {
	size_t want = 0, n;

	(void)arg;
	for (int i = 0; i < 20; i++) {
		n = exhaust_up_to(30, (size_t)300 << 10);
		release(n);
	}
	uint64_t before = ctl_u64("thread.allocated");
	uint64_t requests = large_requests();
	limit_memory(0);
	n = exhaust((size_t)2 << 20);
	for (size_t i = 0; i < n; i++)
		want += malloc_usable_size(blocks[i]);
	if (n == 0)
		_exit(1);
	if (ctl_u64("thread.allocated") - before != want)
		_exit(2);
	if (!release(n))
		_exit(3);
	uint64_t counted = large_requests() - requests;
	printf("%zu blocks, %llu requests\n", n, (unsigned long long)counted);
	fflush(stdout);
	_exit(counted == n ? 0 : 4);
}

static void
functions_now(void *arg) {
	size_t big = (size_t)64 << 20;
	char *kept = keep(malloc(1000));
	void *p = NULL;
	int bad = 0;

	(void)arg;
	memset(kept, 'k', 1000);
	limit_memory((size_t)32 << 20);
	exhaust((size_t)1 << 20);
#define FAILS(call) \
	do { errno = 0; bad += wrong_if((call) != NULL) || wrong_if(errno != ENOMEM); } while (0)
	FAILS(keep(malloc(hide(big))));
	FAILS(keep(calloc(1, hide(big))));
	FAILS(keep(realloc(keep(kept), hide(big))));
	FAILS(keep(aligned_alloc(64, hide(big))));
	FAILS(keep(memalign(1 << 20, hide(big))));
	FAILS(keep(valloc(hide(big))));
	FAILS(keep(pvalloc(hide(big))));
#undef FAILS
	bad += posix_memalign(&p, 64, hide(big)) != ENOMEM;
	bad += keep(mallocx(hide(big), 0)) != NULL;
	bad += keep(rallocx(keep(kept), hide(big), 0)) != NULL;
	bad += xallocx(keep(kept), hide(big), 0, 0) != malloc_usable_size(kept);
	bad += !is_filled(kept, 'k', 1000);
	_exit(bad);
}

static void *
first_malloc(void *arg) {
	int *result = arg;
	char *p;

	__atomic_fetch_add(&phase, 1, __ATOMIC_SEQ_CST);
	while (phase < 100)
		usleep(1000);
	errno = 0;
	p = keep(malloc(200));
	*result = p != NULL ? 1 : errno == ENOMEM ? 2 : 3;
	free(p);
	while (phase < 200)
		usleep(1000);
	p = keep(malloc(300));
	if (p == NULL)
		*result = 4;
	free(p);
	return NULL;
}

/* Threads exist, have never allocated, and do so when nothing is left. */
static void
thread_now(void *arg) {
	pthread_t t[4];
	int result[4] = {0};
	size_t n;

	(void)arg;
	for (int i = 0; i < 4; i++) {
		if (pthread_create(&t[i], NULL, first_malloc, &result[i]) != 0)
			_exit(21);
	}
	while (phase < 4)
		usleep(1000);
	limit_memory((size_t)16 << 20);
	n = exhaust((size_t)1 << 20);
	exhaust(16384);
	while (mmap(NULL, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		continue;
	while (mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		continue;
	phase = 100;
	usleep(200000);
	unlimit_memory();
	phase = 200;
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		if (result[i] != 1 && result[i] != 2)
			_exit(10 + result[i]);
	}
	_exit(n > 0 ? 0 : 22);
}

/* Dirty bytes, and how often some were given back. */
static size_t
dirty_now(uint64_t *passes) {
	ctl_epoch();
	*passes = ctl_u64("stats.arenas.4096.dirty_npurge");
	return ctl_size("stats.arenas.4096.pdirty") * ctl_size("arenas.page");
}

/*
 * What lies unused goes back as far as a request needs it, and not at all for one that would fail
 * all the same.
 */
static void
relief_now(void *arg) {
	size_t three = (size_t)3 << 20, had, has, i, page = ctl_size("arenas.page");
	/* Large at every page size, and 24 MiB in all. */
	size_t n = ((size_t)24 << 20) / (10 * page);
	uint64_t passes, more;
	ssize_t never = -1;

	(void)arg;
	ctl_write("arena.0.dirty_decay_ms", never);
	for (i = 0; i < n; i++)
		blocks[i] = keep(malloc(10 * page));
	for (i = 0; i < n; i += 2)
		free(blocks[i]);
	ctl_void("thread.tcache.flush");
	limit_memory((size_t)1 << 20);
	had = dirty_now(&passes);
	if (had < (size_t)8 << 20)
		_exit(1);
	/* With checks the last blocks that were freed wait until a request fails. */
	if (canary_bytes() != 0 && keep(malloc(hide((size_t)64 << 20))) == NULL)
		had = dirty_now(&passes);
	for (i = 0; i < 50; i++) {
		if (keep(malloc(hide((size_t)64 << 20))) != NULL)
			_exit(2);
	}
	has = dirty_now(&more);
	if (has != had || more != passes)
		_exit(3);
	for (i = 0; keep(malloc(three)) != NULL; i++) {
		has = dirty_now(&more);
		/* Twice: what reads the statistics may need memory too. */
		if (had > has && had - has > 2 * (three + 32 * page + ((size_t)1 << 20)))
			_exit(4);
		had = has;
	}
	/* Nothing is freed meanwhile: nothing more is given. */
	has = dirty_now(&passes);
	for (size_t k = 0; k < 50; k++)
		keep(malloc(three));
	if (dirty_now(&more) != has || more != passes)
		_exit(5);
	_exit(i > 2 ? 0 : 6);
}

static int
child_start(void) {
	void *p = malloc(100);

	printf("started %d\n", p != NULL);
	free(p);
	return 0;
}

struct start {
	size_t limit;
};

static void
start_now(void *arg) {
	struct start *s = arg;
	struct rlimit r = {s->limit, s->limit};

	setrlimit(RLIMIT_AS, &r);
	execl("/proc/self/exe", "oom", "--child=start", NULL);
	_exit(99);
}

/* The whole program under ever smaller limits: it runs, or is refused, but does not crash. */
static void
test_start(void) {
	static struct test_result r;
	int ran = 0, crashed = 0;

	for (size_t kb = 1024; kb <= 65536; kb += kb < 16384 ? 256 : 4096) {
		struct start s = {kb << 10};

		run_forked(&r, start_now, &s);
		ran += strstr(r.out, "started") != NULL;
		/* The kernel kills a program that cannot even be mapped by SIGKILL or SIGSEGV
		 * before its first instruction; then nothing of it has run. */
		if (!WIFEXITED(r.status) && r.len > 0) {
			diag("limit %zu KB: status %#x", kb, (unsigned)r.status);
			crashed++;
		}
		if (WIFSIGNALED(r.status) && (WTERMSIG(r.status) == SIGABRT || ran > 0)) {
			diag("limit %zu KB: signal %d", kb, WTERMSIG(r.status));
			crashed++;
		}
	}
	is_int(crashed, 0, "starting under small limits");
	ok(ran > 0, "it ran under %d of them", ran);
}

/* Filling gigabytes with junk in a debug build would test the machine. */
const char *malloc_conf = "junk:false";

/*
 * Address space that is only taken to be on the safe side is what a limit refuses to somebody else.
 */
static int
child_little(void) {
	for (size_t size = 8; size <= 100000; size += size / 2)
		keep(malloc(size));
	ctl_epoch();
	size_t taken = ctl_size("stats.mapped") + ctl_size("stats.retained")
	    + ctl_size("stats.metadata");

	printf("%zu bytes\n", taken);
	return taken > (size_t)256 << 20;
}

static int
child_counts(void) {
	counts_now(NULL);
	return 1;
}

static const struct test_child children[] = {
	{"start", child_start},
	{"little", child_little},
	{"counts", child_counts},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static const size_t sizes[] = {512, 3000, 14336, 16384, 40000, 1 << 20, 5 << 20};
	static struct test_result r;

	test_children(argc, argv, children);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t size = sizes[i];

		run_forked(&r, sizes_now, &size);
		child_exits(&r, 0, "blocks of %zu to the end and back, twice", size);
	}
	run_forked(&r, counts_now, NULL);
	child_exits(&r, 0, "what is served after a refusal is counted once");
	run_child_conf(&r, "counts", "prof:true,lg_prof_sample:0");
	child_exits(&r, 0, "also where each request is a sample");
	run_forked(&r, functions_now, NULL);
	child_exits(&r, 0, "every function says NULL and ENOMEM");
	run_forked(&r, relief_now, NULL);
	child_exits(&r, 0, "unused memory goes back as far as it is needed");
	run_forked(&r, thread_now, NULL);
	child_exits(&r, 0, "the first malloc of a thread when nothing is left");
	test_start();
	run_child_conf(&r, "little", NULL);
	child_exits(&r, 0, "who asks for little takes no large piece of address space");
	return done_testing();
}
