/*
 * Limits that a machine or a container sets. RLIMIT_DATA counts what vm.overcommit_memory=2 counts,
 * private writable mappings whether they are used or not, for one process instead of the machine: a
 * program runs in little more than what it uses, is refused in order beyond it, and goes on. The
 * same under that mode of the machine itself, where the test may set it (TEST_OWN_MACHINE); there,
 * what is unused is also not counted any more. A request that would fail gets what idle threads
 * cache. When all is freed half of the limit is there for mappings of others (RLIMIT_AS too). And a
 * memory cgroup: blocks of ever other sizes, many times what the group may have, but never much of
 * it at once.
 */
#include "test.h"
#include "ctl.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MB ((size_t)1 << 20)
#define N_BLOCKS 300000
/*
 * what is too small for the machine is refused, and the default are 8 MB: on aarch64 it takes
 * 128 KB
 */
#define STACK 262144

const char *malloc_conf = "junk:false";

static void *blocks[N_BLOCKS];

/*
 * Allocates blocks of size bytes, most bytes in all or until there are none, and writes the first
 * `written` bytes of each; returns how many.
 */
static size_t
take(size_t size, size_t most, size_t written) {
	size_t n = 0;

	while (n < N_BLOCKS && (n + 1) * size <= most) {
		blocks[n] = malloc(size);
		if (blocks[n] == NULL)
			break;
		memset(blocks[n], (int)size, written);
		n++;
	}
	return n;
}

static size_t
fill(size_t size, size_t most) {
	return take(size, most, size);
}

static void
empty(size_t n) {
	while (n > 0)
		free(blocks[--n]);
}

static void *
thread(void *arg) {
	char *p[100];

	for (int i = 0; i < 100; i++) {
		p[i] = malloc((size_t)i * 40 + 1);
		if (p[i] == NULL)
			return NULL;
		memset(p[i], i, (size_t)i * 40 + 1);
	}
	for (int i = 0; i < 100; i++)
		free(p[i]);
	return arg;
}

/* Under the limit from its start: what a small server does. */
static int
child_small_server(void) {
	pthread_t t[4];
	pthread_attr_t attr;
	void *done;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	for (int i = 0; i < 4; i++) {
		if (pthread_create(&t[i], &attr, thread, blocks) != 0)
			return 10;
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &done);
		if (done == NULL)
			return 11;
	}
	for (size_t size = 100; size < 3 * MB; size = size * 3 + 7) {
		size_t n = fill(size, 8 * MB);

		if ((n + 1) * size <= 8 * MB) {
			printf("only %zu blocks of %zu\n", n, size);
			return 12;
		}
		empty(n);
	}
	return 0;
}

/* To the end and back, twice. */
static int
child_to_the_end(void) {
	for (int round = 0; round < 2; round++) {
		for (size_t size = 300; size < 3 * MB; size *= 10) {
			size_t n;

			errno = 0;
			n = fill(size, 1024 * MB);
			if (n == N_BLOCKS || errno != ENOMEM || n * size < 16 * MB) {
				printf("%zu blocks of %zu, errno %d\n", n, size, errno);
				return 20;
			}
			empty(n);
		}
	}
	return 0;
}

static pthread_barrier_t filled, over;

/* 24 MB of small blocks and back, in an arena of its own; stays, and makes no further call. */
static void *
fill_and_stay(void *arg) {
	size_t n = fill(1000, 24 * MB);

	empty(n);
	pthread_barrier_wait(&filled);
	pthread_barrier_wait(&over);
	return n > 20000 ? arg : NULL;
}

/*
 * What one thread has left unused serves another, in one piece, in pieces, and in many; what is too
 * much does no harm.
 */
static int
child_unused(void) {
	static const size_t sizes[] = {24 * MB, 12 * MB, 200, 3 * MB, 24 * MB, 70000, 24 * MB};
	pthread_t t;
	pthread_attr_t attr;
	void *done;

	pthread_barrier_init(&filled, NULL, 2);
	pthread_barrier_init(&over, NULL, 2);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	if (pthread_create(&t, &attr, fill_and_stay, blocks) != 0)
		return 50;
	pthread_barrier_wait(&filled);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t n = fill(sizes[i], 24 * MB);

		if ((n + 1) * sizes[i] <= 24 * MB) {
			printf("only %zu blocks of %zu\n", n, sizes[i]);
			return 51;
		}
		if (malloc(64 * MB) != NULL || errno != ENOMEM)
			return 52;
		empty(n);
	}
	pthread_barrier_wait(&over);
	pthread_join(t, &done);
	return done != NULL ? 0 : 53;
}

/* Eight turns of 24 MB, thirty with TEST_FULL, each of another size. */
static int
child_turns(void) {
	for (size_t i = 0; i < 30; i += test_rounds(4, 1)) {
		size_t size = 200 + i * i * i * 37;
		size_t n = fill(size, 24 * MB);

		if ((n + 1) * size <= 24 * MB)
			return 30;
		empty(n);
	}
	return 0;
}

/*
 * 16 MB of small and medium blocks, of which random ones give way to others until 256 MB, or 1 GB
 * with TEST_FULL, have been asked for.
 */
static int
child_churn(void) {
	uint64_t seed = 4;
	size_t sum = 0, n = 0, live = 0, all = test_page_rounds(256, 1024) * MB;

	for (; live < 16 * MB; n++) {
		size_t size = 1 + (size_t)(test_random(&seed) % (n % 20 == 0 ? 60000 : 900));

		blocks[n] = malloc(size);
		memset(blocks[n], 1, size);
		live += size;
	}
	while (sum < all) {
		size_t at = (size_t)(test_random(&seed) % n);
		size_t size = 1 + (size_t)(test_random(&seed) % (at % 20 == 0 ? 60000 : 900));

		free(blocks[at]);
		blocks[at] = malloc(size);
		if (blocks[at] == NULL)
			return 40;
		memset(blocks[at], 1, size);
		sum += size;
	}
	empty(n);
	return 0;
}

/* The number after a word in a file of /proc; 0: there is none. */
static size_t
number_in(const char *path, const char *word) {
	static char text[8192];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	char *line;

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	line = strstr(text, word);
	return line != NULL ? (size_t)strtoul(line + strlen(word), NULL, 10) : 0;
}

static size_t
committed(void) {
	return number_in("/proc/meminfo", "Committed_AS:") * 1024;
}

/*
 * What the machine has promised its programs grows by little more than this one uses, and shrinks
 * when it purges.
 */
static int
child_committed(void) {
	size_t before = committed(), full, after;
	size_t n = fill(1000, 16 * MB);

	full = committed();
	empty(n);
	if (ctl_void("thread.tcache.flush") != 0 || ctl_void("arena.4096.purge") != 0)
		return 60;
	after = committed();
	printf("kB committed: %zu before, %zu with 16 MB, %zu after", before / 1024, full / 1024,
	    after / 1024);
	if (n < 16000 || before == 0)
		return 61;
	if (full < before + 12 * MB || full > before + 24 * MB)
		return 62;
	return after < before + 4 * MB ? 0 : 63; /* metadata stays */
}

/* -------------------------------------------------------------- caches of idle threads */

#define N_IDLE 2
static pthread_barrier_t idle_turn;

/* A thread whose cache is granted much, and which then does nothing. */
static void *
idle_thread(void *arg) {
	char *p[40];

	for (int round = 0; round < 8; round++) {
		for (int i = 0; i < 40; i++)
			p[i] = malloc(MB / 8);
		for (int i = 0; i < 40; i++)
			free(p[i]);
	}
	pthread_barrier_wait(&idle_turn);
	pthread_barrier_wait(&idle_turn);
	for (int i = 0; i < 40; i++) {
		p[i] = malloc(MB / 8);
		if (p[i] != NULL)
			memset(p[i], i, MB / 8);
	}
	for (int i = 0; i < 40; i++)
		free(p[i]);
	return arg;
}

/* What idle threads cache serves a request that would fail. */
static int
child_idle_caches(void) {
	pthread_t t[N_IDLE];
	pthread_attr_t attr;
	size_t n[2];

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_barrier_init(&idle_turn, NULL, N_IDLE + 1);
	n[0] = fill(MB / 4, 1024 * MB);
	empty(n[0]);
	for (int i = 0; i < N_IDLE; i++)
		if (pthread_create(&t[i], &attr, idle_thread, NULL) != 0)
			return 101;
	pthread_barrier_wait(&idle_turn);
	usleep(1200000);
	n[1] = fill(MB / 4, 1024 * MB);
	empty(n[1]);
	pthread_barrier_wait(&idle_turn);
	for (int i = 0; i < N_IDLE; i++)
		pthread_join(t[i], NULL);
	printf("%zu blocks, %zu beside idle threads\n", n[0], n[1]);
	/* each has cached 5 MB */
	return (n[0] - n[1]) * (MB / 4) < 4 * MB ? 0 : 102;
}

/* -------------------------------------------------------------- mappings of others */

#define SPACE (256 * MB)

/* A mapping of this many bytes, as a stack or a file; whether there is room for it. */
static bool
has_space(size_t size) {
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p != MAP_FAILED && munmap(p, size) == 0;
}

/*
 * Blocks of one size up to the limit, then their release: half of the limit is there for others.
 * Both limits count what is mapped, not what is written. With other options than the defaults two
 * of the sizes, all with TEST_FULL.
 */
/* Values that cannot be addresses: the bits above the 48th, and some of those below. */
static bool
no_value_is_found(void) {
	for (unsigned bit = 48; bit < 64; bit++) {
		for (uint64_t low = 1; low < (UINT64_C(1) << 40); low <<= 13) {
			void *p = (void *)(uintptr_t)(UINT64_C(1) << bit | low);
			unsigned arena;
			size_t len = sizeof(arena);

			if (mallctl("arenas.lookup", &arena, &len, &p, sizeof(p)) != EINVAL)
				return false;
		}
	}
	return true;
}

static int
child_space(void) {
	static const size_t sizes[] = {1000, 20000, 65536, MB, 8 * MB, 48};
	pthread_t t;
	unsigned step = getenv("MALLOC_CONF") == NULL ? 1 : test_rounds(3, 1);

	if (!no_value_is_found())
		return 60;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i += step) {
		size_t n = take(sizes[i], sizes[i] < 100 ? 16 * MB : SPACE, 1);

		if (sizes[i] > 1000 && n * sizes[i] < SPACE * 5 / 8)
			return 70;
		empty(n);
		if (!has_space(SPACE / 4))
			return 71 + (int)i;
		if (pthread_create(&t, NULL, thread, NULL) != 0 || pthread_join(t, NULL) != 0)
			return 81 + (int)i;
	}
	return 0;
}

#define N_SPACE_THREADS 4
static pthread_barrier_t space_turn;

/* A thread with blocks of its own, which it frees while all threads have theirs. */
static void *
space_thread(void *arg) {
	void *p[64];
	int n = 0;

	pthread_barrier_wait(&space_turn); /* all stacks have their room before */
	while (n < 64 && (p[n] = malloc(MB - (size_t)n * 4096)) != NULL)
		n++;
	pthread_barrier_wait(&space_turn);
	while (n > 0)
		free(p[--n]);
	pthread_barrier_wait(&space_turn);
	pthread_barrier_wait(&space_turn);
	return arg;
}

/* The bound is one for all arenas, and unmapping is no work of each release. */
static int
child_space_threads(void) {
	pthread_t t[N_SPACE_THREADS];

	pthread_barrier_init(&space_turn, NULL, N_SPACE_THREADS + 1);
	for (int i = 0; i < N_SPACE_THREADS; i++)
		if (pthread_create(&t[i], NULL, space_thread, NULL) != 0)
			return 91;
	for (int turn = 0; turn < 3; turn++) /* all are there, all have their blocks, all freed them */
		pthread_barrier_wait(&space_turn);
	bool has = has_space(SPACE / 4);
	pthread_barrier_wait(&space_turn);
	for (int i = 0; i < N_SPACE_THREADS; i++)
		pthread_join(t[i], NULL);
	return has ? 0 : 92;
}

/* -------------------------------------------------------------- who sets the limit */

struct limited {
	const char *child;
	size_t data;		/* RLIMIT_DATA, 0: none */
	size_t space;		/* RLIMIT_AS, 0: none */
	const char *group;	/* directory of a cgroup to join, NULL: none */
	const char *conf;	/* MALLOC_CONF, NULL: none */
};

static bool
write_file(const char *dir, const char *name, const char *text) {
	char path[512];
	int fd;
	bool is_good;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	is_good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return is_good;
}

static void
limited_now(void *arg) {
	const struct limited *l = arg;
	struct rlimit r = {l->data, l->data};
	char name[64];

	if (l->group != NULL && !write_file(l->group, "cgroup.procs", "0"))
		_exit(97);
	if (l->data != 0 && setrlimit(RLIMIT_DATA, &r) != 0)
		_exit(98);
	r.rlim_cur = r.rlim_max = l->space;
	if (l->space != 0 && setrlimit(RLIMIT_AS, &r) != 0)
		_exit(98);
	if (l->conf != NULL)
		setenv("MALLOC_CONF", l->conf, 1);
	else
		unsetenv("MALLOC_CONF");
	snprintf(name, sizeof(name), "--child=%s", l->child);
	execl("/proc/self/exe", "limits", name, (char *)NULL);
	_exit(99);
}

static void
test_space(void) {
	static struct test_result r;
	static const char *const confs[] = {NULL, "narenas:1", "hpa:true", "retain:false",
		"dirty_decay_ms:-1", "percpu_arena:percpu"};

	for (size_t i = 0; i < sizeof(confs) / sizeof(confs[0]); i++) {
		struct limited all = {"space", 0, SPACE, NULL, confs[i]};
		struct limited data = {"space", SPACE, 0, NULL, confs[i]};
		struct limited threads = {"space_threads", 0, SPACE, NULL, confs[i]};

		test_fork(&r, limited_now, &all);
		child_exits(&r, 0, "RLIMIT_AS: room for a thread when all is freed (%s)",
		    confs[i] == NULL ? "defaults" : confs[i]);
		test_fork(&r, limited_now, &data);
		child_exits(&r, 0, "RLIMIT_DATA: the same");
		test_fork(&r, limited_now, &threads);
		child_exits(&r, 0, "the same when each of several threads has freed its part");
	}
}

/*
 * A group of 64 MB below the one of the whole machine, of either version; false: it cannot be made.
 */
static bool
make_group(char *dir, size_t len) {
	static const char *const roots[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
	static const char *const limits[] = {"memory.limit_in_bytes", "memory.max"};

	for (size_t i = 0; i < 2; i++) {
		snprintf(dir, len, "%s/jetest.%d", roots[i], (int)getpid());
		if (mkdir(dir, 0755) != 0)
			continue;
		if (write_file(dir, limits[i], "67108864"))
			return true;
		rmdir(dir);
	}
	return false;
}

static void
test_group(void) {
	static struct test_result r;
	char dir[128];
	struct limited runs[] = {
		{"churn", 0, 0, dir, NULL},
		{"turns", 0, 0, dir, "dirty_decay_ms:0,muzzy_decay_ms:0"},
	};

	if (!make_group(dir, sizeof(dir))) {
		skip(2, "no memory cgroup can be made here");
		return;
	}
	for (size_t i = 0; i < 2; i++) {
		test_fork(&r, limited_now, &runs[i]);
		if (exited_with(&r, 97))
			skip(1, "a process cannot be put in a memory cgroup here");
		else
			child_exits(&r, 0, "%s of many times what a cgroup of 64 MB may have", runs[i].child);
	}
	/* The kernel lets go of a process a moment after it was waited for. */
	for (int i = 0; i < 1000 && rmdir(dir) != 0; i++)
		usleep(10000);
}

/* -------------------------------------------------------------- the machine's own accounting */

#define VM "/proc/sys/vm"

static bool
write_number(const char *name, size_t n) {
	char text[32];

	snprintf(text, sizeof(text), "%zu", n);
	return write_file(VM, name, text);
}

/*
 * Runs one child while the machine accounts strictly and has 44 MB left for all its programs; the
 * kernel counts in steps of some megabytes. What was set before is set again, one of the two
 * limits: a write to one of them makes the other 0.
 */
static bool
run_strict(struct test_result *r, struct limited *l) {
	size_t mode = number_in(VM "/overcommit_memory", ""),
	    kbytes = number_in(VM "/overcommit_kbytes", "");
	size_t ratio = number_in(VM "/overcommit_ratio", ""), used = committed();
	bool is_strict = write_number("overcommit_kbytes", (used + 44 * MB) / 1024)
	    && write_number("overcommit_memory", 2);

	if (is_strict)
		test_fork(r, limited_now, l);
	write_number("overcommit_memory", mode);
	if (kbytes != 0)
		write_number("overcommit_kbytes", kbytes);
	else
		write_number("overcommit_ratio", ratio);
	return is_strict;
}

static void
test_strict(void) {
	static struct test_result r;
	struct limited runs[] = {
		{"small_server", 0, 0, NULL, NULL},
		{"small_server", 0, 0, NULL, "prof:true,lg_prof_sample:12"},
		{"to_the_end", 0, 0, NULL, NULL},
		{"unused", 0, 0, NULL, "narenas:2"},
		{"committed", 0, 0, NULL, NULL},
	};
	const int n = (int)(sizeof(runs) / sizeof(*runs));

	if (getenv("TEST_OWN_MACHINE") == NULL) {
		skip(n, "vm.overcommit_memory=2 may make other programs fail: only with TEST_OWN_MACHINE "
		    "set");
		return;
	}
	for (int i = 0; i < n; i++) {
		if (!run_strict(&r, &runs[i]))
			skip(1, "vm.overcommit_memory cannot be set here");
		else if (child_exits(&r, 0, "%s (%s) on a machine of strict accounting with 44 MB left",
		    runs[i].child, runs[i].conf != NULL ? runs[i].conf : "default options")
		    && r.out[0] != '\0')
			diag("%s", r.out);
	}
}

static const struct test_child children[] = {
	{"small_server", child_small_server},
	{"to_the_end", child_to_the_end},
	{"unused", child_unused},
	{"turns", child_turns},
	{"churn", child_churn},
	{"committed", child_committed},
	{"idle_caches", child_idle_caches},
	{"space", child_space},
	{"space_threads", child_space_threads},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static struct test_result r;
	struct limited server = {"small_server", 48 * MB, 0, NULL, NULL}, end = {"to_the_end", 48 * MB,
	    0, NULL, NULL},
		    unused = {"unused", 48 * MB, 0, NULL, "narenas:2"},
		    idle = {"idle_caches", 96 * MB, 0, NULL, NULL};

	test_children(argc, argv, children);
	test_fork(&r, limited_now, &server);
	child_exits(&r, 0, "8 MB of blocks and four threads where 48 MB may be reserved");
	test_fork(&r, limited_now, &end);
	child_exits(&r, 0, "what is beyond 48 MB is refused, and what was freed serves again");
	test_fork(&r, limited_now, &unused);
	child_exits(&r, 0, "what one thread has freed serves another, whatever size it asks for");
	test_fork(&r, limited_now, &idle);
	child_exits(&r, 0, "where 96 MB may be reserved, what idle threads cache serves others");
	test_space();
	test_group();
	test_strict();
	return done_testing();
}
