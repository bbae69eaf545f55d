/*
 * The option lg_san_uaf_align: a write to a freed block ends the process, sooner or later, and a
 * program that writes to none never notices. In builds that do not have it: its name is known, and
 * that is all.
 */
#include "ctl.h"

#include <pthread.h>

#define N 2048
#define WRITE "<jemalloc>: write to a freed block\n"

static char *blocks[N];

static void
make(size_t size) {
	for (int i = 0; i < N; i++)
		blocks[i] = keep(malloc(size));
}

static void
drop(void) {
	for (int i = 0; i < N; i++)
		free(blocks[i]);
}

/* One byte of each block, all of which are freed. */
static void
spoil(size_t at) {
	for (int i = 0; i < N; i++)
		((volatile char *)blocks[i])[at]++;
}

static void
make_drop_spoil(size_t size, size_t at) {
	make(size);
	drop();
	spoil(at);
}

/* Many times what waits. */
static void
traffic(unsigned rounds) {
	for (unsigned i = 0; i < rounds; i++) {
		make(16 + i * 37 % 14000);
		drop();
	}
}

static int
child_write(void) {
	make_drop_spoil(64, 63);
	traffic(40);
	return 0;
}

static int
child_write_large_class(void) {
	make_drop_spoil(12000, 0);
	traffic(40);
	return 0;
}

static int
child_write_then_flush(void) {
	make_drop_spoil(64, 1);
	ctl_void("thread.tcache.flush");
	return 0;
}

static int
child_write_then_exit(void) {
	make_drop_spoil(64, 20);
	return 0;
}

static void *
thread_drop(void *arg) {
	drop();
	spoil(7);
	return arg;
}

static int
child_write_in_thread(void) {
	pthread_t t;

	make(64);
	pthread_create(&t, NULL, thread_drop, NULL);
	pthread_join(t, NULL);
	return 0;
}

static int
child_twice(void) {
	size_t page = ctl_size("arenas.page");
	int last = N - 1;

	make(4096);
	drop();
	while ((uintptr_t)blocks[last] % page != 0)
		last--;
	free(blocks[last]);
	return 0;
}

static void *
thread_honest(void *arg) {
	unsigned seed = 4711, bad = 0;
	struct { unsigned char *p; size_t size; unsigned char byte; } held[300] = {{NULL, 0, 0}};

	for (unsigned i = 0; i < 60000; i++) {
		unsigned k = (seed = seed * 1103515245 + 12345) >> 8;
		unsigned at = k % 300, size = k / 1024 % 9000 + 1;

		for (size_t j = 0; j < held[at].size; j++)
			bad += held[at].p[j] != held[at].byte;
		if (held[at].p != NULL && k % 3 == 0) {
			held[at].p = keep(realloc(held[at].p, size));
		} else {
			free(held[at].p);
			held[at].p = keep(k % 5 == 0 ? calloc(1, size) : malloc(size));
			for (size_t j = 0; k % 5 == 0 && j < size; j++)
				bad += held[at].p[j] != 0;
		}
		held[at].size = size;
		/* Also the byte of the stamp. */
		held[at].byte = (unsigned char)(k % 2 == 0 ? k / 7 : 0xdb);
		memset(held[at].p, held[at].byte, held[at].size);
	}
	for (unsigned i = 0; i < 300; i++)
		free(held[i].p);
	*(unsigned *)arg = bad;
	return NULL;
}

static int
child_honest(void) {
	pthread_t t[4];
	unsigned bad[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, thread_honest, &bad[i]);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], NULL);
		is_uint(bad[i], 0, "contents are the program's");
	}
	return done_testing();
}

static int
child_counters(void) {
	uint64_t before = ctl_u64("thread.allocated") - ctl_u64("thread.deallocated");

	make(4000);
	drop();
	is_uint(ctl_u64("thread.allocated") - ctl_u64("thread.deallocated"), before,
	    "a block that waits is free to its thread");
	return done_testing();
}

static int
child_value(void) {
	printf("value %zd\n", (ssize_t)ctl_size("opt.lg_san_uaf_align"));
	return 0;
}

/* What waits counts as allocated: statistics tell it from what is live. */
static size_t
live(void) {
	ctl_epoch();
	return ctl_size("stats.allocated") - ctl_size("stats.arenas.0.tcache_bytes")
	    - ctl_size("stats.arenas.0.tcache_stashed_bytes");
}

static int
child_stashed(void) {
	size_t before = live();

	make(ctl_size("arenas.bin.20.size") - canary_bytes());
	is_uint(live(), before + N * ctl_size("arenas.bin.20.size"), "blocks in use");
	drop();
	is_uint(live(), before, "none, some of them wait");
	ok(ctl_size("stats.arenas.0.tcache_stashed_bytes") > 0, "that is said of those");
	ctl_void("thread.tcache.flush");
	ctl_epoch();
	is_uint(ctl_size("stats.arenas.0.tcache_stashed_bytes"), 0, "none waits after a flush");
	return done_testing();
}

/* As many blocks wait as may: 256, of 512 KiB at most. Those that touch a page's border wait. */
static int
child_limits(void) {
	static void *p[40000];
	size_t page = ctl_size("arenas.page");
	const size_t sizes[] = {page / 64, page, 2 * page, 3 * page};
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t room = sizes[i] - canary_bytes(), most = ((size_t)512 << 10) / room;
		unsigned n = i == 0 ? 40000 : 600;
		for (unsigned k = 0; k < n; k++)
			p[k] = keep(malloc(room));
		ctl_void("thread.tcache.flush");
		for (unsigned k = 0; k < n; k++)
			free(p[k]);
		ctl_epoch();
		is_uint(ctl_size("stats.arenas.0.tcache_stashed_bytes"),
		    (most < 256 ? most : 256) * sizes[i], "blocks of %zu bytes", sizes[i]);
		ctl_void("thread.tcache.flush");
	}
	return done_testing();
}

static const struct test_child children[] = {
	{"write", child_write},
	{"write_large_class", child_write_large_class},
	{"write_then_flush", child_write_then_flush},
	{"write_then_exit", child_write_then_exit},
	{"write_in_thread", child_write_in_thread},
	{"twice", child_twice},
	{"honest", child_honest},
	{"counters", child_counters},
	{"stashed", child_stashed},
	{"limits", child_limits},
	{"value", child_value},
	{NULL, NULL},
};

static void
aborts(const char *child, const char *conf, const char *text) {
	static struct test_result r;

	run_child_conf(&r, child, conf);
	ok(died_of(&r, SIGABRT), "%s, %s: aborts", child, conf);
	contains(r.out, text, "with a sentence");
}

static void
has_value(const char *conf, ssize_t value, const char *message) {
	static struct test_result r;
	char line[64], whole[128];

	snprintf(line, sizeof(line), "value %zd\n", value);
	snprintf(whole, sizeof(whole), "%s,abort_conf:false", conf);
	run_child_conf(&r, "value", whole);
	contains(r.out, line, "%s is %zd", conf, value);
	ok((strstr(r.out, "<jemalloc>") != NULL) == (message != NULL), "%s: %s", conf, message != NULL
	    ? "a message" : "no message");
	contains(r.out, message != NULL ? message : "", "which is that");
}

static void
test_values(void) {
	int lg_page = 0;

	while ((size_t)1 << lg_page < ctl_size("arenas.page"))
		lg_page++;
	has_value("lg_san_uaf_align:-1", -1, NULL);
	has_value("lg_san_uaf_align:20", 20, NULL);
	has_value("lg_san_uaf_align:0", lg_page, NULL);
	has_value("lg_san_uaf_align:3", lg_page, NULL);
	has_value("lg_san_uaf_align:63", 63, NULL);
	has_value("lg_san_uaf_align:64", 63, NULL);
	has_value("lg_san_uaf_align:-2", -1, "Invalid conf value: lg_san_uaf_align:-2");
	has_value("lg_san_uaf_align:20,lg_san_uaf_align:1x", 20,
	    "Invalid conf value: lg_san_uaf_align:1x");
}

int
main(int argc, char **argv) {
	static struct test_result r;
	size_t len = sizeof(ssize_t);
	ssize_t value;

	test_children(argc, argv, children);
	if (mallctl("opt.lg_san_uaf_align", &value, &len, NULL, 0) == ENOENT) {
		run_child_conf(&r, "write", "lg_san_uaf_align:16,abort_conf:false");
		contains(r.out, "Invalid conf pair: lg_san_uaf_align:16",
		    "the option is not in this build");
		contains(r.out, "it needs --enable-uaf-detection", "a hint says why");
		return done_testing();
	}
	is_int(value, -1, "off by default");
	test_values();
	aborts("write", "lg_san_uaf_align:0", WRITE);
	aborts("write_large_class", "lg_san_uaf_align:0", WRITE);
	aborts("write_then_flush", "lg_san_uaf_align:0", WRITE);
	aborts("write_then_exit", "lg_san_uaf_align:0", WRITE);
	aborts("write_in_thread", "lg_san_uaf_align:0,junk:false", WRITE);
	aborts("twice", "lg_san_uaf_align:0", "<jemalloc>: double free\n");
	child_runs("honest", "lg_san_uaf_align:0");
	child_runs("honest", "lg_san_uaf_align:0,junk:false,narenas:1");
	child_runs("honest", "lg_san_uaf_align:0,tcache:false");
	child_runs("honest", "lg_san_uaf_align:0,prof:true,lg_prof_sample:12,prof_prefix:");
	child_runs("counters", "lg_san_uaf_align:0");
	if (ctl_bool("config.stats")) {
		child_runs("stashed", "lg_san_uaf_align:0,narenas:1");
		child_runs("limits", "lg_san_uaf_align:0,narenas:1");
	}
	return done_testing();
}
