/*
 * Blocks of a megabyte and more that grow by realloc take their pages along (extent/pac_move.h):
 * the contents stay, a block is never there twice, samples and counters follow, new bytes are zero
 * where that is asked, and other threads that map and fork meanwhile lose nothing.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jemalloc/jemalloc.h>

#include "ctl.h"
#include "test.h"

const char *malloc_conf = "prof:true,prof_active:false,lg_prof_sample:0,narenas:2";

#define MIB ((size_t)1 << 20)

static long
faults(void) {
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_minflt;
}

/* One byte of each cache line has a value of its own. */
#define STRIDE 64

static size_t
align_up(size_t i) {
	return (i + STRIDE - 1) / STRIDE * STRIDE;
}

static void
fill(unsigned char *p, size_t from, size_t to) {
	for (size_t i = align_up(from); i < to; i += STRIDE)
		p[i] = (unsigned char)(i / STRIDE * 7 + (i >> 12));
}

static size_t
nwrong(const unsigned char *p, size_t size) {
	size_t wrong = 0;
	for (size_t i = 0; i < size; i += STRIDE)
		wrong += p[i] != (unsigned char)(i / STRIDE * 7 + (i >> 12));
	return wrong;
}

/* A block that grows by 1/part of its size at each step. */
static void
test_faults(size_t part) {
	size_t size = MIB, wrong = 0, page = (size_t)sysconf(_SC_PAGESIZE);
	mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
	unsigned char *p = keep(malloc(size));
	fill(p, 0, size);
	long before = faults();
	while (size < 100 * MIB) {
		size_t longer = size + size / part;
		p = keep(realloc(p, longer));
		wrong += p[0] != 0;
		fill(p, size, longer);
		size = longer;
	}
	long n = faults() - before;
	is_uint(wrong + nwrong(p, size), 0, "100 MiB grown by 1/%zu: every byte is right", part);
	/* Copying faults each page of each size in, 3 times as many as the last has. */
	if (canary_bytes() > 0)
		skip(1, "a build that looks for misuse copies");
	else
		ok(n < (long)(size / page * 3 / 2), "%ld page faults for %zu pages", n, size / page);
	ok(malloc_usable_size(p) >= size, "its usable size");
	free(p);
}

static void
activate(bool on) {
	mallctl("prof.active", NULL, NULL, &on, sizeof(on));
}

static void
test_samples(void) {
	char name[] = "/tmp/grow_large.XXXXXX", text[8192] = "";
	const char *file = name;
	close(mkstemp(name));
	unlink(name);
	activate(true);
	void *p = keep(malloc(2 * MIB));
	void *q = keep(realloc(p, 5 * MIB));
	memset(q, 1, 5 * MIB);
	int err = mallctl("prof.dump", NULL, NULL, &file, sizeof(file));
	activate(false);
	is_int(err, 0, "a dump");
	int fd = open(name, O_RDONLY);
	ok(read(fd, text, sizeof(text) - 1) > 0, "is there");
	unsigned long objects = 0, bytes = 0;
	const char *line = strstr(text, "t*: ");
	ok(line != NULL && sscanf(line, "t*: %lu: %lu", &objects, &bytes) == 2, "it has a sum");
	is_uint(objects, 1, "one object lives");
	ok(bytes >= 5 * MIB && bytes < 6 * MIB, "of its new size: %lu", bytes);
	free(q);
	unlink(name);
	close(fd);
}

static void
test_zero(void) {
	size_t size = 2 * MIB, wrong = 0;
	unsigned char *p = keep(mallocx(size, MALLOCX_ZERO));
	for (int i = 0; i < 6; i++) {
		size_t longer = size + size / 2, usable = sallocx(p, 0);
		memset(p, 0xa5, usable);
		p = keep(rallocx(p, longer, MALLOCX_ZERO));
		for (size_t k = 0; k < longer; k += 8)
			wrong += p[k] != (k < usable ? 0xa5 : 0);
		size = longer;
	}
	is_uint(wrong, 0, "rallocx: what is new is zero");
	dallocx(p, 0);
}

enum { N_THREADS = 4, N_ROUNDS = 3 };
static int is_over;

static void *
grows(void *arg) {
	uint64_t seed = (uintptr_t)arg + 5;
	size_t wrong = 0;
	for (int i = 0; i < N_ROUNDS; i++) {
		size_t size = MIB + test_random(&seed) % MIB;
		unsigned char *p = keep(malloc(size));
		fill(p, 0, size);
		for (int k = 0; k < 5; k++) {
			size_t longer = size + test_random(&seed) % (2 * MIB);
			p = keep(realloc(p, longer));
			wrong += p[0] != 0;
			fill(p, size, longer);
			size = longer;
		}
		wrong += nwrong(p, size);
		free(p);
	}
	return (void *)(uintptr_t)wrong;
}

/* Takes and gives back address space all the time, as other parts of a process do. */
static void *
maps(void *arg) {
	size_t wrong = 0;
	(void)arg;
	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		unsigned char *at[8];
		for (int i = 0; i < 8; i++) {
			at[i] = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			memset(at[i], i + 1, 4096);
		}
		for (int i = 0; i < 8; i++) {
			wrong += at[i][0] != i + 1 || at[i][4095] != i + 1 || at[i][4096] != 0;
			munmap(at[i], MIB);
		}
		usleep(1000);
	}
	return (void *)(uintptr_t)wrong;
}

static void
test_threads(void) {
	pthread_t t[N_THREADS], m;
	void *wrong;
	uintptr_t all = 0;
	int bad = 0;
	pthread_create(&m, NULL, maps, NULL);
	for (uintptr_t i = 0; i < N_THREADS; i++)
		pthread_create(&t[i], NULL, grows, (void *)i);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(grows((void *)(uintptr_t)(i + 100)) != NULL);
		int status = 1;
		waitpid(pid, &status, 0);
		bad += status != 0;
	}
	for (int i = 0; i < N_THREADS; i++) {
		pthread_join(t[i], &wrong);
		all += (uintptr_t)wrong;
	}
	__atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
	pthread_join(m, &wrong);
	is_uint(all, 0, "%d threads that grow: every byte is right", N_THREADS);
	is_uint((uintptr_t)wrong, 0, "and another's mappings keep theirs");
	is_int(bad, 0, "so do forked children");
}

/* Thousands of blocks that moved: the system's limit of mappings is not used up. */
static size_t
nmappings(void) {
	FILE *maps = fopen("/proc/self/maps", "r");
	size_t n = 0;
	for (int c; (c = getc(maps)) != EOF;)
		n += c == '\n';
	fclose(maps);
	return n;
}

static void
test_mappings(void) {
	enum { N = 4500 };
	static char *p[N];
	size_t before = nmappings(), wrong = 0;
	for (int i = 0; i < N; i++) {
		p[i] = keep(malloc(MIB));
		*p[i] = (char)i;
		free(keep(malloc(20000)));
		p[i] = keep(realloc(p[i], MIB + 300000));
	}
	size_t most = nmappings();
	for (int i = 0; i < N; i++) {
		wrong += *p[i] != (char)i;
		free(p[i]);
	}
	is_uint(wrong, 0, "%d blocks of a megabyte have grown", N);
	ok(most < before + 3 * 4096, "in %zu mappings", most);
	mallctl("arena.4096.purge", NULL, NULL, NULL, 0);
	size_t after = nmappings();
	ok(after < before + 500, "%zu are left when all is given back, of %zu before", after, before);
}

/* The moves of three blocks above 1 MiB that grow in turn by 20 000 bytes; 255: a byte is wrong. */
static int
moves_in_turn(void) {
	enum { N = 3, STEP = 20000 };
	unsigned char *p[N];
	size_t size = 4096;
	int nmoves = 0;
	for (unsigned i = 0; i < N; i++) {
		p[i] = keep(malloc(size));
		fill(p[i], 0, size);
	}
	for (; size < 60 * MIB; size += STEP) {
		for (unsigned i = 0; i < N; i++) {
			uintptr_t old = (uintptr_t)p[i];
			p[i] = keep(realloc(p[i], size + STEP));
			nmoves += size > MIB && (uintptr_t)p[i] != old;
			fill(p[i], size, size + STEP);
		}
	}
	for (unsigned i = 0; i < N; i++)
		nmoves = nwrong(p[i], size) != 0 ? 255 : nmoves;
	return nmoves < 254 ? nmoves : nmoves == 255 ? 255 : 254;
}

/*
 * Each block's room ends at another block: it moves when it has become longer by its room, a
 * quarter, and not at each step. 1.25 to the power of 19 is more than 60. In a child, whose heap is
 * new.
 */
static void
test_in_turn(void) {
	int status = 0;
	pid_t pid = fork();
	if (pid == 0)
		_exit(moves_in_turn());
	waitpid(pid, &status, 0);
	ok(WIFEXITED(status) && WEXITSTATUS(status) != 255, "blocks that grow in turn are right");
	if (canary_bytes() > 0)
		skip(1, "a build that looks for misuse copies");
	else
		ok(WEXITSTATUS(status) <= 2 * 19 * 3, "they moved %d times", WEXITSTATUS(status));
}

int
main(void) {
	test_in_turn(); /* first, while nothing is unused */
	for (int i = 0; i < 3; i++)
		test_faults(8); /* then it grows over the places of those before */
	test_faults(2);
	if (ctl_bool("config.prof"))
		test_samples();
	test_zero();
	test_threads();
	test_mappings();
	return done_testing();
}
