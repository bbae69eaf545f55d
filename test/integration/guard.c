/*
 * san_guard_small and san_guard_large: a child that touches the byte behind a block, or before it,
 * dies of SIGSEGV at that instruction; without the option it goes on. And a program that makes no
 * such mistake sees nothing of guards: contents, resizing, forks, statistics, more guards than the
 * system gives.
 */
#include "ctl.h"

#include <pthread.h>
#include <sys/mman.h>

#define N_SLAB 3000	/* blocks of 64 bytes: of more than one slab, also with pages of 64 KiB */

#define N_MANY 40000

static size_t page;

/* What the child is to touch: set by the environment. */
static const char *
where(void) {
	const char *w = getenv("WHERE");

	return w != NULL ? w : "";
}

static void
touch(volatile char *p, size_t size) {
	p[0] = p[size - 1] = 1;
	printf("touching\n");
	fflush(stdout);
	if (strcmp(where(), "behind") == 0)
		p[size] = 1;
	else if (strcmp(where(), "before") == 0)
		p[-1] = 1;
	printf("lived\n");
	fflush(stdout);
}

static int
child_large(void) {
	const char *conf = getenv("MALLOC_CONF");
	bool is_guarded = conf != NULL && strstr(conf, "san_guard_large:1") != NULL;
	/* One as caches hold them, one that they do not; freed and taken again, guarded again. */
	static const size_t pages[] = {5, 100};

	for (size_t i = 0; i < 2; i++) {
		char *p = keep(malloc(pages[i] * page));
		pid_t pid;
		int status = 0;

		free(p);
		p = keep(malloc(pages[i] * page - 50));
		/* Without a guard there may be anything behind one that fills its pages. */
		if (!is_guarded && ((uintptr_t)p + malloc_usable_size(p)) % page == 0)
			continue;
		pid = fork();
		if (pid == 0) {
			touch(p, malloc_usable_size(p));
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return 3;
		free(p);
		if (WIFSIGNALED(status))
			raise(WTERMSIG(status));
	}
	return 0;
}

/* The block of a slab that lies highest, or lowest. */
static int
child_slab(void) {
	static char *p[N_SLAB];
	char *end = NULL;
	bool is_behind = strcmp(where(), "before") != 0;
	size_t size = 64 - canary_bytes();

	for (int i = 0; i < N_SLAB; i++)
		p[i] = keep(malloc(size));
	for (int i = 0; i < N_SLAB; i++) {
		uintptr_t border = (uintptr_t)p[i] + (is_behind ? 64 : 0);

		/* The first at a page's border: a slab of this size is one page long. */
		if (end == NULL && border % page == 0)
			end = p[i];
	}
	if (end == NULL)
		return 4;
	touch(end, 64);
	return 0;
}

static void
ends(const char *child, const char *conf, const char *place, int sig) {
	static struct test_result r;

	setenv("WHERE", place, 1);
	run_child_conf(&r, child, conf);
	if (!ok(sig == 0 ? exited_with(&r, 0) : died_of(&r, sig), "%s, %s a block: %s", conf != NULL
	    ? conf : "no option", place, sig == 0 ? "lives" : "dies at once"))
		diag_result(&r);
	contains(r.out, "touching", "it came so far");
	ok((strstr(r.out, "lived") != NULL) == (sig == 0), "and %s", sig == 0 ? "further"
	    : "no further");
}

/* -------------------------------------------------------------- nothing else is different */

static unsigned
work(uint64_t seed, int steps) {
	static __thread struct { char *p; size_t size; char fill; } held[100];
	unsigned bad = 0;

	for (int i = 0; i < steps; i++) {
		unsigned k = (unsigned)(test_random(&seed) % 100);
		size_t size = 1 + test_random(&seed) % (i % 4 == 0 ? 40 * page : 3000);
		char *p;

		bad += held[k].p != NULL && !is_filled(held[k].p, held[k].fill, held[k].size);
		if (held[k].p != NULL && i % 3 == 0) {
			if (i % 2 == 0)
				free(held[k].p);
			else
				sdallocx(held[k].p, held[k].size, 0);
			held[k].p = NULL;
			continue;
		}
		p = held[k].p == NULL && i % 2 == 0 ? calloc(1, size) : realloc(held[k].p, size);
		if (p == NULL)
			return bad + 1;
		bad += held[k].p == NULL && i % 2 == 0 && !is_filled(p, 0, size);
		bad += held[k].p != NULL && !is_filled(p, held[k].fill, size < held[k].size ? size
		    : held[k].size);
		held[k].p = p;
		held[k].size = size;
		held[k].fill = (char)i;
		memset(p, (char)i, size);
	}
	for (unsigned k = 0; k < 100; k++) {
		bad += held[k].p != NULL && !is_filled(held[k].p, held[k].fill, held[k].size);
		free(held[k].p);
		held[k].p = NULL;
	}
	return bad;
}

static void *
work_thread(void *arg) {
	return (void *)(uintptr_t)work((uintptr_t)arg, (int)test_page_rounds(4000, 4000));
}

static int
child_work(void) {
	pthread_t t[3];
	void *bad;
	int status = 0;
	pid_t pid;

	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, work_thread, (void *)(i + 1));
	pid = fork();
	if (pid == 0)
		_exit(work(77, (int)test_page_rounds(3000, 3000)) == 0 ? 0 : 5);
	is_uint(work(99, (int)test_page_rounds(3000, 3000)), 0,
	    "the first thread's blocks are as written");
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i], &bad);
		is_uint((uintptr_t)bad, 0, "those of another");
	}
	waitpid(pid, &status, 0);
	is_int(status, 0, "those of a forked child");
	return done_testing();
}

static size_t
pages_of(unsigned ind) {
	char name[64];

	ctl_epoch();
	return ctl_size(ctl_name(name, "stats.arenas.%u.pactive", ind));
}

/* One guarded block in use, in an arena of its own. */
static int
child_figures(void) {
	size_t size = 64 * page, len = sizeof(unsigned);
	unsigned ind = 0;
	int flags;
	char *p;

	is_int(mallctl("arenas.create", &ind, &len, NULL, 0), 0, "an arena");
	flags = MALLOCX_ARENA(ind) | MALLOCX_TCACHE_NONE;
	p = keep(mallocx(size, flags));
	is_uint(pages_of(ind), 64, "pages in use: the block, no guards");
	is_uint(sallocx(p, 0), size, "its usable size is what was asked for");
	is_uint(xallocx(p, size + page, 0, flags), size, "it does not grow where it is");
	is_uint(xallocx(p, size - page, 0, flags), size, "nor shrink");
	memset(p, 7, size);
	p = rallocx(p, 2 * size, flags);
	ok(p != NULL && is_filled(p, 7, size), "rallocx moves it");
	is_uint(pages_of(ind), 128, "pages in use: the larger one");
	dallocx(p, flags);
	is_uint(pages_of(ind), 0, "none when it is freed");
	return done_testing();
}

/*
 * Blocks without end do not take the mappings that the program needs: with guards each would take
 * two at least. Few are written, for on some machines pages are large.
 */
static int
child_many(void) {
	static char *p[N_MANY];
	void *q;
	unsigned bad = 0, refused = 0;

	for (int i = 0; i < N_MANY; i++) {
		p[i] = malloc(5 * page);
		bad += p[i] == NULL;
		if (p[i] != NULL && i % 100 == 0)
			p[i][0] = p[i][5 * page - 1] = 1;
	}
	is_uint(bad, 0, "%d large blocks", N_MANY);
	for (int i = 0; i < 1000; i++) {
		q = mmap(NULL, page, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		refused += q == MAP_FAILED;
	}
	is_uint(refused, 0, "the program maps 1000 times beside them");
	for (int i = 0; i < N_MANY; i++)
		free(p[i]);
	is_int(ctl_void("arena.4096.purge"), 0, "all is given back");
	ctl_epoch();
	ok(ctl_size("stats.active") < 1000 * page, "%zu bytes are active", ctl_size("stats.active"));
	return done_testing();
}

static const struct test_child children[] = {
	{"large", child_large},
	{"slab", child_slab},
	{"work", child_work},
	{"figures", child_figures},
	{"many", child_many},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	page = ctl_size("arenas.page");
	test_children(argc, argv, children);
	ends("large", "san_guard_large:1", "behind", SIGSEGV);
	ends("large", "san_guard_large:1", "before", SIGSEGV);
	ends("large", "san_guard_large:0", "behind", 0);
	ends("large", "san_guard_small:1", "behind", 0);
	ends("large", NULL, "behind", 0);
	ends("large", "san_guard_large:1", "nowhere near", 0);
	ends("slab", "san_guard_small:1", "behind", SIGSEGV);
	ends("slab", "san_guard_small:1", "before", SIGSEGV);
	ends("slab", "san_guard_large:1", "behind", 0);
	ends("slab", "san_guard_small:1", "nowhere near", 0);
	unsetenv("WHERE");
	child_runs("work", "san_guard_small:1,san_guard_large:1");
	child_runs("work",
	    "san_guard_small:2,san_guard_large:3,retain:false,dirty_decay_ms:0,zero:true");
	child_runs("work",
	    "san_guard_large:1,oversize_threshold:65536,narenas:1,muzzy_decay_ms:100,"
	    "dirty_decay_ms:10");
	child_runs("work",
	    "san_guard_large:2,tcache_max:4194304,disable_large_size_classes:false,prof:true,"
	    "lg_prof_sample:14,san_guard_small:1");
	child_runs("figures", "san_guard_large:1");
	child_runs("many", "san_guard_large:1,narenas:1,junk:false");
	return done_testing();
}
