/*
 * Memory that is populated ahead of its use (the option populate): a program that grows gets it, a
 * small one does not; it counts as dirty, and costs at most 2 % of memory. Pages are counted, not
 * times.
 */
#include "test.h"
#include "ctl.h"

#include <sys/resource.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

/*
 * Memory of its own that the process has: as the kernel finds it in the page tables, because its
 * counts lag by some pages for each processor; those only where it does not look.
 */
static size_t
anonymous(void) {
	size_t bytes = proc_line_bytes("/proc/self/smaps_rollup", "\nAnonymous");

	return bytes != 0 ? bytes : proc_status_bytes("RssAnon");
}

/* Fills so many bytes with small blocks, and prints what that took. */
static int
fill(size_t bytes) {
	size_t before = anonymous(), n = bytes / 96;

	for (size_t i = 0; i < n; i++)
		memset(keep(malloc(96)), 1, 96);
	printf("rss=%zu\n", anonymous() - before);
	if (ctl_bool("config.stats"))
		printf("populated=%zu calls=%zu failures=%zu active=%zu dirty=%zu\n",
		    ctl_size("stats.thp.populated"), ctl_size("stats.thp.npopulate"),
		    ctl_size("stats.thp.nfailures"), ctl_size("stats.active"),
		    ctl_size("stats.arenas.4096.pdirty"));
	return 0;
}

static int
child_small(void) {
	return fill(MIB / 2);
}

static int
child_large(void) {
	return fill(12 * MIB);
}

/* The number behind NAME= in what the child printed; 0 if it is not there. */
static size_t
number(const struct test_result *r, const char *name) {
	const char *at = strstr(r->out, name);

	return at == NULL ? 0 : strtoull(at + strlen(name) + 1, NULL, 10);
}

#define LIMIT (96 * MIB)

/* Fills what a limit lets it have, at most 90 MiB, and says what was populated and made huge. */
static int
fill_limited(void) {
	size_t n = 0;

	for (char *p; n < 90 * MIB && (p = malloc(96)) != NULL; n += 96)
		p[0] = 1;
	printf("bytes=%zu\n", n);
	if (ctl_bool("config.stats"))
		printf("populated=%zu limited=%zu failures=%zu huge=%zu\n", ctl_size("stats.thp.populated"),
		    ctl_size("stats.thp.nlimited"), ctl_size("stats.thp.nfailures"),
		    ctl_size("stats.thp.npieces") * 2 * MIB);
	return 0;
}

/*
 * Lets this process have LIMIT more bytes, and starts it anew: the limits are read at the start.
 */
static int
child_rlimit(int resource, const char *used) {
	struct rlimit lim;

	lim.rlim_cur = lim.rlim_max = proc_status_bytes(used) + LIMIT;
	if (setrlimit(resource, &lim) == 0)
		execl("/proc/self/exe", "populate", "--child=limited", NULL);
	return 77;
}

static int
child_data(void) {
	return child_rlimit(RLIMIT_DATA, "VmData");
}

static int
child_as_limited(void) {
	return child_rlimit(RLIMIT_AS, "VmSize");
}

/* Without a limit the page map reserves more address space. */
static int
child_as(void) {
	struct rlimit lim;

	lim.rlim_cur = lim.rlim_max = (rlim_t)1 << 40;
	if (setrlimit(RLIMIT_AS, &lim) == 0)
		execl("/proc/self/exe", "populate", "--child=as-limited", NULL);
	return 77;
}

/* Nothing is populated or made huge beyond nine tenths of a limit. */
static void
test_limited(const char *child, const char *what, const char *conf) {
	static struct test_result r;
	size_t most = LIMIT / 10 * 9;

	run_child_conf(&r, child, conf);
	child_exits(&r, 0, "%s", what);
	if (number(&r, "populated") == 0 || number(&r, "failures") > 0) {
		skip(3, "nothing is populated here");
		return;
	}
	ok(number(&r, "populated") <= most, "%s: populated %zu", what, number(&r, "populated"));
	ok(number(&r, "huge") <= most, "huge %zu", number(&r, "huge"));
	ok(number(&r, "limited") > 0 || number(&r, "bytes") < 80 * MIB,
	    "because it is near: %zu times of %zu bytes", number(&r, "limited"), number(&r, "bytes"));
}

int
main(int argc, char **argv) {
	static const struct test_child children[] = {{"small", child_small}, {"large", child_large},
	    {"data", child_data}, {"as", child_as}, {"as-limited", child_as_limited},
	    {"limited", fill_limited}, {NULL, NULL}};
	static struct test_result on, off;
	size_t page, populated, active;

	test_children(argc, argv, children);
	test_limited("data", "RLIMIT_DATA", NULL);
	test_limited("data", "RLIMIT_DATA, huge early", "thp_min:4194304");
	test_limited("as", "RLIMIT_AS", NULL);
	test_limited("as", "RLIMIT_AS, huge early", "thp_min:4194304");
	run_child_conf(&on, "small", NULL);
	child_exits(&on, 0, "a small program");
	is_uint(number(&on, "populated"), 0, "of 512 KiB nothing is populated");
	is_uint(number(&on, "failures"), 0, "nor tried to");
	run_child_conf(&off, "large", "populate:false");
	child_exits(&off, 0, "one of 12 MiB without");
	is_uint(number(&off, "calls"), 0, "populate:false populates nothing");
	run_child_conf(&on, "large", NULL);
	child_exits(&on, 0, "the same with it");
	ok(number(&on, "rss") <= number(&off, "rss") / 100 * 102 + 64 * 1024,
	    "memory: %zu, without %zu", number(&on, "rss"), number(&off, "rss"));
	if (!ctl_bool("config.stats")) {
		skip(3, "no statistics");
		return done_testing();
	}
	page = ctl_size("arenas.page");
	populated = number(&on, "populated");
	active = number(&on, "active");
	ok(number(&on, "dirty") * page <= active / 32, "at most a 32nd is there too early: %zu pages "
	    "of %zu", number(&on, "dirty"), active / page);
	if (number(&on, "failures") > 0) {
		is_uint(populated, 0, "this kernel does not populate");
		is_uint(number(&on, "failures"), 1, "and is asked once");
	} else {
		ok(populated >= 8 * MIB || page > 4096, "most of it was populated: %zu", populated);
		ok(number(&on, "calls") <= populated / 16384, "by few calls: %zu", number(&on, "calls"));
	}
	return done_testing();
}
