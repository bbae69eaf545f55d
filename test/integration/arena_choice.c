/*
 * Which arena a thread gets and where its pages come from: percpu_arena, dss (options and nodes),
 * and huge pages under the library's own data (metadata_thp) and the program's (thp,
 * huge_arena_pac_thp).
 */
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ctl.h"

/* ------------------------------------------------------------------ by CPU */

static int cpus[2];

/* The first two CPUs that this process may run on. */
static int
count_cpus(void) {
	cpu_set_t set;
	int n = 0;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return 0;
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (CPU_ISSET(i, &set)) {
			if (n < 2)
				cpus[n] = i;
			n++;
		}
	}
	return n;
}

/* Allocates until the heartbeat has come several times, on one CPU. */
static unsigned
arena_on(int cpu) {
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		return UINT_MAX;
	for (int i = 0; i < 2000; i++)
		free(keep(malloc(1000)));
	return ctl_unsigned("thread.arena");
}

static int
child_percpu(void) {
	unsigned n = (unsigned)count_cpus();
	unsigned none = 0;
	unsigned by_hand = 0;
	size_t len = sizeof(by_hand);

	printf("mode=%s\n", ctl_str("opt.percpu_arena"));
	printf("narenas>=%d\n", ctl_unsigned("opt.narenas") >= n);
	printf("eperm=%d\n", mallctl("thread.arena", NULL, NULL, &none, sizeof(none)) == EPERM);
	if (n >= 2) {
		unsigned first = arena_on(cpus[0]);

		printf("first=%d\n", first == (unsigned)cpus[0] % n);
		printf("second=%d\n", arena_on(cpus[1]) == (unsigned)cpus[1] % n);
		printf("back=%d\n", arena_on(cpus[0]) == first);
	}
	if (mallctl("arenas.create", &by_hand, &len, NULL, 0) != 0
	    || mallctl("thread.arena", NULL, NULL, &by_hand, sizeof(by_hand)) != 0)
		return 1;
	printf("stays=%d\n", arena_on(cpus[0]) == by_hand && arena_on(n >= 2 ? cpus[1]
	    : cpus[0]) == by_hand);
	return 0;
}

static int
child_phycpu(void) {
	unsigned n = (unsigned)count_cpus();
	unsigned limit = (n + 1) / 2;

	printf("mode=%s\n", ctl_str("opt.percpu_arena"));
	printf("in=%d\n", arena_on(cpus[0]) == (unsigned)cpus[0] % limit);
	return 0;
}

static void
test_percpu(void) {
	static struct test_result r;
	int n = count_cpus();

	run_child_conf(&r, "percpu", "percpu_arena:percpu,narenas:1");
	child_exits(&r, 0, "arenas by CPU");
	contains(r.out, "mode=percpu\n", "the mode");
	contains(r.out, "narenas>=1\n", "one for each CPU at least, whatever narenas says");
	contains(r.out, "eperm=1\n", "a thread cannot be bound to one of them");
	contains(r.out, "stays=1\n", "one bound to an arena made by hand stays there");
	if (n >= 2) {
		contains(r.out, "first=1\n", "the arena of the CPU");
		contains(r.out, "second=1\n", "it changes with the CPU");
		contains(r.out, "back=1\n", "and back");
	} else {
		skip(3, "one CPU");
	}
	run_child_conf(&r, "phycpu", "p:ph");
	contains(r.out, "mode=phycpu\n", "a cut key and word");
	contains(r.out, "in=1\n", "half as many arenas");
	is_int(strstr(r.out, "odd number") != NULL, n > 1 && n % 2 != 0,
	    "an odd number of CPUs is called so");
	run_child_conf(&r, "phycpu", "percpu_arena:disabled");
	contains(r.out, "mode=disabled\n", "off by default");
}

/* ------------------------------------------------------------------ sbrk */

static int
child_dss(void) {
	char *from = sbrk(0);
	char *p = keep(malloc((size_t)8 << 20));
	char *to = sbrk(0);

	memset(p, 7, (size_t)8 << 20);
	printf("opt=%s arena=%s stats=%s\n", ctl_str("opt.dss"), ctl_str("arena.0.dss"),
	    ctl_str("stats.arenas.0.dss"));
	printf("from_break=%d\n", p >= from && p < to);
	free(p);
	return 0;
}

static bool
has_dss(void) {
	return strcmp(ctl_str("opt.dss"), "secondary") == 0;
}

static void
test_dss_nodes(void) {
	static const char *primary = "primary", *disabled = "disabled", *wrong = "prim", *none = NULL;
	const char *got = NULL;
	size_t len = sizeof(got);
	unsigned a = 0;
	size_t alen = sizeof(a);
	char name[64];

	is_str(ctl_str("arena.0.dss"), ctl_str("opt.dss"), "an arena begins with the option");
	is_str(ctl_str("stats.arenas.4096.dss"), "N/A", "all arenas have no one way");
	is_int(mallctl("arena.0.dss", NULL, NULL, &wrong, sizeof(wrong)), EINVAL, "no such word");
	is_int(mallctl("arena.0.dss", NULL, NULL, &none, sizeof(none)), EINVAL, "NULL");
	is_int(mallctl("arena.0.dss", NULL, NULL, &primary, 4), EINVAL, "a wrong length");
	is_int(mallctl("arena.4094.dss", &got, &len, NULL, 0), ENOENT, "no such arena");
	if (!has_dss()) {
		is_int(mallctl("arena.0.dss", NULL, NULL, &primary, sizeof(primary)), EFAULT,
		    "not built in");
		skip(6, "no sbrk");
		return;
	}
	is_int(mallctl("arena.0.dss", &got, &len, &primary, sizeof(primary)), 0, "set");
	is_str(got, "primary", "the answer is what was set");
	mallctl("arena.0.dss", NULL, NULL, &disabled, sizeof(disabled));
	is_str(ctl_str("arena.0.dss"), "disabled", "and again");
	is_int(mallctl("arena.4096.dss", NULL, NULL, &primary, sizeof(primary)), 0,
	    "for those to come");
	is_str(ctl_str("arena.0.dss"), "disabled", "not for this one");
	if (mallctl("arenas.create", &a, &alen, NULL, 0) != 0)
		bail_out("arenas.create");
	is_str(ctl_str(ctl_name(name, "arena.%u.dss", a)), "primary", "but for the next one");
	ctl_epoch();
	is_str(ctl_str(ctl_name(name, "stats.arenas.%u.dss", a)), "primary", "the statistics say so");
}

static void
test_dss(void) {
	static struct test_result r;

	run_child_conf(&r, "dss", "dss:disabled");
	contains(r.out, "opt=disabled arena=disabled stats=disabled\nfrom_break=0\n",
	    "never from sbrk");
	if (has_dss()) {
		run_child_conf(&r, "dss", "d:p");
		/* A kernel without brk for this process (musl's sbrk never grows) still serves by mmap. */
		contains(r.out, "opt=primary arena=primary stats=primary\nfrom_break=", "sbrk first");
		child_exits(&r, 0, "d:p");
	} else {
		run_child_conf(&r, "dss", "abort_conf:false,dss:primary");
		contains(r.out, "<jemalloc>: Error setting dss: dss:primary\n<jemalloc>: Invalid conf "
		    "value: dss:primary\n", "said twice");
		skip(1, "no sbrk");
	}
}

/* ------------------------------------------------------------------ huge pages for our own data */

static int
child_metadata(void) {
	printf("opt=%s\n", ctl_str("opt.metadata_thp"));
	printf("of=%zu of0=%zu\n", ctl_size("stats.metadata_thp"),
	    ctl_size("stats.arenas.0.metadata_thp"));
	return 0;
}

/*
 * Bytes of mappings with a flag in smaps; " hg": huge pages were asked for, " nh": none shall be
 * given.
 */
static size_t
flagged_bytes(const char *flag) {
	static char line[600];
	size_t kb = 0, sum = 0;
	FILE *in = fopen("/proc/self/smaps", "r");

	if (in == NULL)
		return 0;
	while (fgets(line, sizeof(line), in) != NULL) {
		if (sscanf(line, "Size: %zu kB", &kb) != 1 && strncmp(line, "VmFlags:", 8) == 0
		    && strstr(line, flag) != NULL)
			sum += kb << 10;
	}
	fclose(in);
	return sum;
}

static size_t
huge_bytes(void) {
	return flagged_bytes(" hg");
}

/*
 * Whether a request for huge pages is seen in smaps: not where the kernel has none, nor in
 * qemu-user, which drops it.
 */
static bool
huge_requests_show(void) {
	size_t size = (size_t)8 << 20, before = huge_bytes();
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool shows = p != MAP_FAILED && madvise(p, size, MADV_HUGEPAGE) == 0
	    && huge_bytes() >= before + size;

	if (p != MAP_FAILED)
		munmap(p, size);
	return shows;
}

static int
child_huge_arena(void) {
	size_t before = huge_bytes();
	void *p = keep(malloc((size_t)64 << 20));

	printf("opt=%d grew=%d\n", ctl_bool("opt.huge_arena_pac_thp"),
	    huge_bytes() >= before + ((size_t)64 << 20));
	free(p);
	return 0;
}

static void
test_huge_arena(bool is_on_request) {
	static struct test_result r;

	run_child_conf(&r, "huge_arena", "huge_arena_pac_thp:true");
	contains(r.out, "opt=1 grew=0\n", "not without metadata_thp");
	run_child_conf(&r, "huge_arena", "huge_arena_pac_thp:true,metadata_thp:auto,thp:never");
	contains(r.out, "opt=1 grew=0\n", "not if thp says something else");
	run_child_conf(&r, "huge_arena",
	    "huge_arena_pac_thp:true,metadata_thp:auto,oversize_threshold:0");
	contains(r.out, "opt=1 grew=0\n", "not without the arena");
	run_child_conf(&r, "huge_arena", "huge_arena_pac_thp:true,metadata_thp:auto");
	if (huge_requests_show())
		contains(r.out, is_on_request ? "opt=1 grew=1\n" : "opt=1 grew=0\n",
		    "huge pages on request");
	else
		skip(1, "what asks for huge pages is not seen here");
}

static int
child_thp(void) {
	size_t size = (size_t)64 << 20, hg = flagged_bytes(" hg"), nh = flagged_bytes(" nh");
	void *p = keep(malloc(size));

	printf("hg=%d nh=%d\n", flagged_bytes(" hg") >= hg + size, flagged_bytes(" nh") >= nh + size);
	free(p);
	return 0;
}

static bool
system_thp_is(const char *modes) {
	char text[128] = "";
	char *at;
	FILE *in = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");

	if (in == NULL)
		return false;
	if (fgets(text, sizeof(text), in) == NULL)
		text[0] = '\0';
	fclose(in);
	at = strchr(text, '[');
	if (at == NULL)
		return false;
	at[strcspn(at, "]")] = '\0';
	return strstr(modes, at + 1) != NULL;
}

static void
test_metadata_thp(void) {
	static struct test_result r;

	run_child_conf(&r, "metadata", NULL);
	contains(r.out, "opt=disabled\nof=0 of0=0\n", "off by default");
	run_child_conf(&r, "metadata", "metadata_thp:auto");
	contains(r.out, "opt=auto\n", "auto");
	run_child_conf(&r, "metadata", "metadata_thp:always");
	child_exits(&r, 0, "always");
	contains(r.out, "opt=always\n", "the option");
	if (system_thp_is("madvise always") && ctl_bool("config.stats"))
		ok(strstr(r.out, "of=0 ") == NULL && strstr(r.out, "of0=0") == NULL,
		    "counted as huge pages");
	else
		skip(1, "the system has no huge pages to give, or there are no statistics");
}

/* Where the system gives huge pages on request only, or to all. */
static void
test_thp(bool is_on_request) {
	static struct test_result r;

	if (!huge_requests_show() || !(is_on_request || system_thp_is("always"))) {
		skip(3, "what asks for huge pages is not seen here");
		return;
	}
	run_child_conf(&r, "thp", "thp:default");
	contains(r.out, "hg=0 nh=0\n", "by default nothing is said of huge pages");
	run_child_conf(&r, "thp", "thp:always");
	contains(r.out, is_on_request ? "hg=1 nh=0\n" : "hg=0 nh=0\n",
	    "thp:always asks for them, if they come on request");
	run_child_conf(&r, "thp", "thp:never");
	contains(r.out, "hg=0 nh=1\n", "thp:never wants none");
}

/* ------------------------------------------------------------------ oversized requests */

static unsigned
arena_of(void *p) {
	unsigned ind = UINT_MAX;
	size_t len = sizeof(ind);

	mallctl("arenas.lookup", &ind, &len, &p, sizeof(p));
	return ind;
}

/* All are from the arena of oversized requests, also again and again; the thread keeps none. */
static int
child_oversize(void) {
	size_t size = (size_t)2 << 20;
	unsigned bad = 0, mine = arena_of(keep(malloc(100)));

	for (int i = 0; i < 20; i++) {
		void *p[4];

		for (int k = 0; k < 4; k++) {
			p[k] = keep(malloc(size));
			bad += arena_of(p[k]) == mine;
		}
		for (int k = 0; k < 4; k++)
			free(p[k]);
	}
	ctl_epoch();
	printf("mine=%u kept=%d\n", bad, ctl_size("stats.arenas.4096.tcache_bytes") >= size);
	void *p = keep(mallocx(size, MALLOCX_ARENA(mine)));
	printf("asked=%d\n", arena_of(p) == mine);
	return 0;
}

static void
test_oversize(void) {
	static struct test_result r;

	run_child_conf(&r, "oversize", "oversize_threshold:1048576");
	contains(r.out, "mine=0 kept=0\n", "oversized requests of a size that is used again");
	contains(r.out, "asked=1\n", "the arena that was asked for serves them too");
}

/* ------------------------------------------------------------------ as many as there can be */

#define LAST 4094u

/* Arenas by hand until there is none any more; then the last one works as any other. */
static int
child_last(void) {
	unsigned ind = 0, made;
	size_t len = sizeof(ind);
	char name[64];

	while (mallctl("arenas.create", &made, &len, NULL, 0) == 0)
		ind = made;
	is_int(mallctl("arenas.create", &made, &len, NULL, 0), EAGAIN, "no arena is left");
	is_uint(ind, LAST, "the last index");
	is_uint(ctl_unsigned("arenas.narenas"), LAST + 1, "arenas.narenas");
	void *p = mallocx(100, MALLOCX_ARENA(LAST) | MALLOCX_TCACHE_NONE);
	ok(p != NULL && arena_of(p) == LAST, "a block of that arena");
	ctl_epoch();
	if (ctl_bool("config.stats")) {
		ok(ctl_size(ctl_name(name, "stats.arenas.%u.pactive", LAST)) > 0, "its pages");
		is_uint(ctl_size(ctl_name(name, "stats.arenas.%u.pactive", LAST + 1)),
		    ctl_size("stats.arenas.4096.pactive"), "the number of arenas means all");
	}
	is_int(ctl_void(ctl_name(name, "arena.%u.purge", LAST + 1)), 0, "all of them are purged");
	is_int(ctl_void(ctl_name(name, "arena.%u.destroy", LAST)), 0, "it is destroyed");
	is_int(mallctl("arenas.create", &made, &len, NULL, 0), 0, "one can be made again");
	is_uint(made, LAST, "its index");
	return done_testing();
}

/* With as many automatic arenas as there can be, that of oversized requests is there too. */
static int
child_most(void) {
	is_uint(ctl_unsigned("arenas.narenas"), LAST + 1, "arenas.narenas");
	is_uint(arena_of(keep(malloc((size_t)16 << 20))), LAST, "an oversized request");
	return done_testing();
}

static void
test_limit(void) {
	static struct test_result r;

	run_child_conf(&r, "last", ctl_bool("config.prof") ? "prof:true,lg_prof_sample:0" : NULL);
	child_exits(&r, 0, "arenas by hand up to the limit");
	run_child_conf(&r, "most", "narenas:4094");
	child_exits(&r, 0, "automatic arenas up to the limit");
	ok(strstr(r.out, "Reducing") == NULL, "of which nothing is said");
	run_child_conf(&r, "most", "narenas:9999");
	child_exits(&r, 0, "and beyond");
	contains(r.out, "Reducing narenas to limit (4094)\n", "which a message says");
}

#define PAGES(n) ((size_t)(n) << 12)

/* Extents of objects are longer than these need, the arena gets a bound, then they grow. */
static int
child_bounded(void) {
	size_t threshold = PAGES(2048);
	void *p[16];
	unsigned nmoved = 0;

	for (unsigned i = 0; i < 16; i++)
		p[i] = memset(keep(malloc(PAGES(1500))), 0xff, PAGES(1500));
	for (unsigned i = 0; i < 16; i += 2) {
		free(p[i]);
		p[i] = keep(malloc(PAGES(1300)));
	}
	ctl_write("arena.0.oversize_threshold", threshold);
	for (unsigned i = 0; i < 16; i += 2) {
		uintptr_t old = (uintptr_t)p[i];

		p[i] = keep(realloc(p[i], PAGES(1490)));
		p[i] = keep(realloc(p[i], PAGES(1600))); /* more than lies before the next object */
		nmoved += (uintptr_t)p[i] != old;
	}
	for (unsigned i = 0; i < 16; i++)
		free(p[i]);
	printf("moved=%d\n", nmoved > 0);
	return 0;
}

static void
test_bounded(void) {
	static struct test_result r;

	run_child_conf(&r, "bounded", "narenas:1,oversize_threshold:0");
	contains(r.out, "moved=1\n", "objects of an arena that gets a bound grow and are freed");
}

static const struct test_child children[] = {
	{"bounded", child_bounded},
	{"last", child_last},
	{"most", child_most},
	{"oversize", child_oversize},
	{"percpu", child_percpu},
	{"phycpu", child_phycpu},
	{"dss", child_dss},
	{"metadata", child_metadata},
	{"huge_arena", child_huge_arena},
	{"thp", child_thp},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	test_children(argc, argv, children);
	test_percpu();
	test_oversize();
	test_limit();
	test_bounded();
	test_dss_nodes();
	test_dss();
	test_metadata_thp();
	test_huge_arena(system_thp_is("madvise"));
	test_thp(system_thp_is("madvise"));
	return done_testing();
}
