/*
 * The general rules of mallctl, mallctlnametomib and mallctlbymib, applied to a table of
 * nodes: lengths, NULLs, access, names, prefixes, MIBs too short and too long, indices.
 * A call that is refused must leave the caller's memory as it was.
 */
#include "ctl.h"

struct node {
	const char *name;
	size_t size;		/* of its value, 0: void */
	char access;		/* 'r' read only, 'w' write only, 'b' both, 'v' void */
};

static const struct node nodes[] = {
	{"version", 8, 'r'},
	{"epoch", 8, 'b'},
	{"thread.arena", 4, 'b'},
	{"thread.allocated", 8, 'r'},
	{"thread.allocatedp", 8, 'r'},
	{"thread.deallocated", 8, 'r'},
	{"thread.deallocatedp", 8, 'r'},
	{"thread.tcache.enabled", 1, 'b'},
	{"thread.tcache.max", 8, 'b'},
	{"thread.tcache.flush", 0, 'v'},
	{"thread.idle", 0, 'v'},
	{"thread.peak.read", 8, 'r'},
	{"thread.peak.reset", 0, 'v'},
	{"config.cache_oblivious", 1, 'r'},
	{"config.debug", 1, 'r'},
	{"config.fill", 1, 'r'},
	{"config.malloc_conf", 8, 'r'},
	{"config.prof", 1, 'r'},
	{"config.stats", 1, 'r'},
	{"config.xmalloc", 1, 'r'},
	{"opt.abort", 1, 'r'},
	{"opt.abort_conf", 1, 'r'},
	{"opt.retain", 1, 'r'},
	{"opt.narenas", 4, 'r'},
	{"opt.dirty_decay_ms", 8, 'r'},
	{"opt.muzzy_decay_ms", 8, 'r'},
	{"opt.stats_print", 1, 'r'},
	{"opt.stats_print_opts", 8, 'r'},
	{"opt.junk", 8, 'r'},
	{"opt.zero", 1, 'r'},
	{"opt.tcache", 1, 'r'},
	{"opt.tcache_max", 8, 'r'},
	{"opt.zero_realloc", 8, 'r'},
	{"opt.prof", 1, 'r'},
	{"opt.prof_prefix", 8, 'r'},
	{"opt.lg_prof_sample", 8, 'r'},
	{"opt.lg_prof_interval", 8, 'r'},
	{"arena.0.initialized", 1, 'r'},
	{"arena.0.decay", 0, 'v'},
	{"arena.0.purge", 0, 'v'},
	{"arena.0.dirty_decay_ms", 8, 'b'},
	{"arena.0.muzzy_decay_ms", 8, 'b'},
	{"arenas.narenas", 4, 'r'},
	{"arenas.dirty_decay_ms", 8, 'b'},
	{"arenas.muzzy_decay_ms", 8, 'b'},
	{"arenas.quantum", 8, 'r'},
	{"arenas.page", 8, 'r'},
	{"arenas.hugepage", 8, 'r'},
	{"arenas.tcache_max", 8, 'r'},
	{"arenas.nbins", 4, 'r'},
	{"arenas.nhbins", 4, 'r'},
	{"arenas.nlextents", 4, 'r'},
	{"arenas.bin.0.size", 8, 'r'},
	{"arenas.bin.0.nregs", 4, 'r'},
	{"arenas.bin.0.slab_size", 8, 'r'},
	{"arenas.bin.0.nshards", 4, 'r'},
	{"arenas.lextent.0.size", 8, 'r'},
	{"prof.thread_active_init", 1, 'b'},
	{"prof.active", 1, 'b'},
	{"prof.gdump", 1, 'b'},
	{"prof.interval", 8, 'r'},
	{"prof.lg_sample", 8, 'r'},
	{"stats.allocated", 8, 'r'},
	{"stats.active", 8, 'r'},
	{"stats.metadata", 8, 'r'},
	{"stats.resident", 8, 'r'},
	{"stats.mapped", 8, 'r'},
	{"stats.retained", 8, 'r'},
	{"stats.zero_reallocs", 8, 'r'},
	{"stats.arenas.0.nthreads", 4, 'r'},
	{"stats.arenas.0.uptime", 8, 'r'},
	{"stats.arenas.0.pactive", 8, 'r'},
	{"stats.arenas.0.pdirty", 8, 'r'},
	{"stats.arenas.0.mapped", 8, 'r'},
	{"stats.arenas.0.small.allocated", 8, 'r'},
	{"stats.arenas.0.small.nmalloc", 8, 'r'},
	{"stats.arenas.0.large.allocated", 8, 'r'},
	{"stats.arenas.0.bins.0.nmalloc", 8, 'r'},
	{"stats.arenas.0.bins.0.curregs", 8, 'r'},
	{"stats.arenas.0.bins.0.mutex.num_ops", 8, 'r'},
	{"stats.arenas.0.lextents.0.nmalloc", 8, 'r'},
	{"stats.arenas.0.extents.0.ndirty", 8, 'r'},
	{"stats.mutexes.ctl.num_ops", 8, 'r'},
	{"stats.arenas.4096.pactive", 8, 'r'},
};

#define N_NODES (sizeof(nodes) / sizeof(nodes[0]))
#define CANARY 0xc5

static unsigned char value[64];

/* Reads with a given *oldlenp; value[] is filled with the canary before. */
static int
read_len(const char *name, size_t *len) {
	memset(value, CANARY, sizeof(value));
	return mallctl(name, value, len, NULL, 0);
}

static void
check_lengths(const struct node *n) {
	size_t len = n->size;
	int rc = read_len(n->name, &len);
	bool good = rc == 0 && len == n->size && is_filled(value + n->size, CANARY, 64 - n->size);
	unsigned char whole[64];

	ok(good, "%s: read (%d, length %zu)", n->name, rc, len);
	memcpy(whole, value, sizeof(whole));
	for (size_t l = 0; l <= n->size + 3; l++) {
		size_t least = l < n->size ? l : n->size;

		if (l == n->size)
			continue;
		len = l;
		rc = read_len(n->name, &len);
		good = good && rc == EINVAL && len == least
		    && is_filled(value + least, CANARY, 64 - least);
	}
	ok(good, "%s: other lengths: EINVAL, no byte too many", n->name);
	good = mallctl(n->name, NULL, NULL, NULL, 0) == 0;
	len = n->size;
	good = good && mallctl(n->name, NULL, &len, NULL, 0) == 0;
	memset(value, CANARY, sizeof(value));
	good = good && mallctl(n->name, value, NULL, NULL, 0) == 0 && is_filled(value, CANARY, 64);
	ok(good, "%s: without a place or without a length nothing is read", n->name);
}

static void
check_read_only(const struct node *n) {
	uint64_t v[4] = {0};
	size_t len = n->size;
	bool good = mallctl(n->name, NULL, NULL, v, n->size) == EPERM;

	good = good && mallctl(n->name, NULL, NULL, NULL, n->size) == EPERM;
	memset(value, CANARY, sizeof(value));
	good = good && mallctl(n->name, value, &len, v, n->size) == EPERM;
	good = good && is_filled(value, CANARY, 64);
	ok(good, "%s: EPERM on a write", n->name);
}

/* Without opt.prof the switches of the profiler may also say that there is nothing to set. */
static bool
refuses(const char *name, int rc) {
	return rc == EINVAL
	    || (rc == ENOENT && strncmp(name, "prof.", 5) == 0 && !ctl_bool("opt.prof"));
}

static void
check_writable(const struct node *n) {
	uint64_t v[4] = {0};
	size_t len = n->size;
	bool good = true;

	if (mallctl(n->name, v, &len, NULL, 0) != 0)
		return;
	for (size_t l = 0; l <= 16; l++) {
		if (l != n->size)
			good = good && refuses(n->name, mallctl(n->name, NULL, NULL, v, l));
	}
	ok(good, "%s: EINVAL on a write of another length", n->name);
}

static void
check_void(const struct node *n) {
	uint64_t v = 0;
	size_t len = sizeof(v);

	if (strcmp(n->name, "thread.tcache.flush") == 0 && !ctl_bool("thread.tcache.enabled")) {
		is_int(ctl_void(n->name), EFAULT, "%s: EFAULT without a cache", n->name);
		return;
	}
	is_int(mallctl(n->name, NULL, NULL, NULL, 0), 0, "%s: void", n->name);
	ok(mallctl(n->name, &v, &len, NULL, 0) == EPERM
	    && mallctl(n->name, NULL, NULL, &v, sizeof(v)) == EPERM
	    && mallctl(n->name, NULL, &len, NULL, 0) == EPERM
	    && mallctl(n->name, NULL, NULL, NULL, 1) == EPERM, "%s: EPERM with any argument", n->name);
}

static void
check_value(const struct node *n) {
	if (n->access == 'r' || n->access == 'b')
		check_lengths(n);
	if (n->access == 'r')
		check_read_only(n);
	if (n->access == 'b')
		check_writable(n);
	if (n->access == 'v')
		check_void(n);
}

/* Whether a node is of the profiler, in a build without it: it has a name, and no value. */
static bool
is_without_value(const char *name) {
	bool is_of_prof = strncmp(name, "prof.", 5) == 0 || strncmp(name, "opt.prof", 8) == 0
	    || strncmp(name, "opt.lg_prof", 11) == 0;

	return is_of_prof && !ctl_bool("config.prof");
}

static void
check_without_value(const struct node *n) {
	uint64_t v[4] = {0};
	size_t len = n->size;

	ok(read_len(n->name, &len) == ENOENT && is_filled(value, CANARY, sizeof(value)),
	    "%s: ENOENT on a read, nothing is written", n->name);
	int rc = mallctl(n->name, NULL, NULL, v, n->size);
	ok(rc == ENOENT || (rc == EPERM && n->access == 'r'), "%s: nor can it be set", n->name);
}

static void
check_mib(const struct node *n) {
	size_t mib[16], full[16], len = 16, depth;
	size_t got = n->size;
	bool good = true;

	for (int i = 0; i < 16; i++)
		mib[i] = 99999;
	if (!is_int(mallctlnametomib(n->name, mib, &len), 0, "%s: to MIB", n->name))
		return;
	depth = len;
	memcpy(full, mib, sizeof(full));
	ok(depth <= 7 && mib[depth] == 99999, "%s: its depth is %zu", n->name, depth);
	for (size_t l = 1; l < depth; l++) {
		for (int i = 0; i < 16; i++)
			mib[i] = 99999;
		len = l;
		good = good && mallctlnametomib(n->name, mib, &len) == 0 && len == l
		    && memcmp(mib, full, l * sizeof(size_t)) == 0 && mib[l] == 99999;
	}
	ok(good, "%s: a short MIB is filled as far as it goes", n->name);
	good = true;
	for (size_t l = 0; l < depth; l++)
		good = good && mallctlbymib(full, l, NULL, NULL, NULL, 0) == ENOENT;
	ok(good, "%s: its prefixes as MIB: ENOENT", n->name);
	for (size_t i = depth; i < 16; i++)
		full[i] = 0;
	good = true;
	for (size_t l = depth + 1; l <= 16; l++)
		good = good && mallctlbymib(full, l, NULL, NULL, NULL, 0) == ENOENT;
	ok(good, "%s: too long a MIB: ENOENT", n->name);
	if (n->access == 'r' || n->access == 'b')
		is_int(mallctlbymib(full, depth, value, &got, NULL, 0),
		    is_without_value(n->name) ? ENOENT : 0, "%s: read by MIB", n->name);
}

/* Every component of a MIB replaced by values that no child or index has. */
static void
check_wild_mibs(const struct node *n) {
	static const size_t wild[] = {100000, UINT32_MAX, (size_t)1 << 32, SIZE_MAX, SIZE_MAX - 1};
	size_t mib[8], len = 8;
	size_t bad = 0;

	if (mallctlnametomib(n->name, mib, &len) != 0)
		return;
	for (size_t at = 0; at < len; at++) {
		size_t old = mib[at];

		for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
			mib[at] = wild[i];
			if (mallctlbymib(mib, len, NULL, NULL, NULL, 0) != ENOENT)
				bad++;
		}
		mib[at] = old;
	}
	is_uint(bad, 0, "%s: wild MIBs: ENOENT", n->name);
}

static void
test_nodes(void) {
	for (size_t i = 0; i < N_NODES; i++) {
		const struct node *n = &nodes[i];

		if (!ctl_exists(n->name)) {
			skip(1, n->name);
			continue;
		}
		if (is_without_value(n->name))
			check_without_value(n);
		else
			check_value(n);
		check_mib(n);
		check_wild_mibs(n);
	}
}

static void
test_names(void) {
	static const char *const bad[] = {
		"", ".", "..", "versio", "versionx", "Version", "version.", ".version", "version.x",
		"version.0", "opt", "opt.", "opt..abort", "opt.abort.", "opt.nothing", "stats",
		"stats.arenas", "stats.arenas.0", "arenas.bin", "arenas.bin.0", "arenas.bin..size",
		"arenas.bin.size", "arenas.bin.36000.size", "arenas.bin.+1.size", "arenas.bin. 0.size",
		"arenas.bin.-1.size", "arenas.bin.3abc.size", "arenas.bin.0x3.size",
		"arenas.bin.4294967296.size", "arenas.bin.18446744073709551616.size",
		"arenas.bin.99999999999999999999999999.size", "arenas.bin.0.size.", "arenas.bin.0.siz",
		"arenas.bin.0.size.0.0.0.0.0.0", "arena.999999.initialized", "arena.x.initialized",
		"arena.4098.initialized", "stats.arenas.4095.nthreads", " version", "version ",
		"arenas.lextent.100000.size", "opt.abort\n",
	};
	char longest[70000];
	size_t mib[8], len;
	uint64_t v;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		len = sizeof(v);
		is_int(mallctl(bad[i], &v, &len, NULL, 0), ENOENT, "\"%s\": ENOENT", bad[i]);
	}
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	len = sizeof(v);
	is_int(mallctl(longest, &v, &len, NULL, 0), ENOENT, "a name of 70000 letters");
	for (size_t i = 1; i < sizeof(longest) - 1; i += 2)
		longest[i] = '.';
	is_int(mallctl(longest, &v, &len, NULL, 0), ENOENT, "a name of 35000 elements");
	len = 8;
	is_int(mallctlnametomib("arenas.bin", mib, &len), 0, "a prefix has a MIB");
	is_uint(len, 2, "of its own depth");
	mib[2] = 5;
	len = 5;
	is_int(mallctlnametomib("arenas.bin.5", mib, &len), 0, "also with an index");
	is_uint(mib[2], 5, "that stands in the MIB");
	is_int(mallctlbymib(mib, 0, NULL, NULL, NULL, 0), ENOENT, "an empty MIB");
	len = 0;
	is_int(mallctlnametomib("version", mib, &len), 0, "no room for the MIB is no error");
	is_uint(len, 0, "and stays no room");
	is_int(mallctlnametomib("version", NULL, &len), 0, "then the MIB may be NULL");
}

static void
test_indices(void) {
	size_t mib[8], len = 8, size, got = sizeof(size);
	unsigned nbins = ctl_unsigned("arenas.nbins");
	size_t bad = 0;

	mallctlnametomib("arenas.bin.0.size", mib, &len);
	for (mib[2] = 0; mib[2] < nbins; mib[2]++) {
		got = sizeof(size);
		if (mallctlbymib(mib, len, &size, &got, NULL, 0) != 0)
			bad++;
	}
	is_uint(bad, 0, "every bin by MIB");
	got = sizeof(size);
	is_int(mallctlbymib(mib, len, &size, &got, NULL, 0), ENOENT, "the bin after the last");
	mib[2] = (size_t)1 << 32;
	is_int(mallctlbymib(mib, len, &size, &got, NULL, 0), ENOENT, "index 2^32 is not index 0");
}

static void
test_epoch(void) {
	uint64_t a = ctl_u64("epoch"), b = 77, v = 1;
	size_t len = sizeof(b);

	is_int(mallctl("epoch", &b, &len, &v, sizeof(v)), 0, "epoch, read and written");
	is_uint(b, a + 1, "it reads the new epoch");
	v = 5;
	ctl_write("epoch", v);
	is_uint(ctl_u64("epoch"), a + 2, "each write counts one, whatever it says");
	is_int(mallctl("epoch", NULL, NULL, &v, 4), EINVAL, "a wrong length");
	is_uint(ctl_u64("epoch"), a + 2, "does not count");
}

static void
test_version(void) {
	const char *v = ctl_str("version");
	int major = 0, minor = 0, bugfix = 0, nrev = -1;
	char gid[64] = "";

	if (v == NULL) {
		fail("version");
		return;
	}
	is_int(sscanf(v, "%d.%d.%d-%d-g%40[0-9a-f]", &major, &minor, &bugfix, &nrev, gid), 5,
	    "version \"%s\" has five parts", v);
	ok(major == 5 && minor == 3 && bugfix == 1, "5.3.1");
	is_str(v, JEMALLOC_VERSION, "the header says the same");
	is_int(JEMALLOC_VERSION_MAJOR, 5, "JEMALLOC_VERSION_MAJOR");
	is_int(JEMALLOC_VERSION_MINOR, 3, "JEMALLOC_VERSION_MINOR");
	is_int(JEMALLOC_VERSION_BUGFIX, 1, "JEMALLOC_VERSION_BUGFIX");
	is_str(gid, JEMALLOC_VERSION_GID, "JEMALLOC_VERSION_GID");
}

static int
child_nodes(void) {
	test_nodes();
	return done_testing();
}

static const struct test_child children[] = {
	{"nodes", child_nodes},
	{NULL, NULL},
};

int
main(int argc, char **argv) {
	static struct test_result r;

	test_children(argc, argv, children);
	test_version();
	test_names();
	test_epoch();
	test_indices();
	test_nodes();
	run_child_conf(&r, "nodes", "prof:true,prof_active:false");
	child_exits(&r, 0, "the nodes once more with prof:true");
	return done_testing();
}
