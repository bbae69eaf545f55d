/* A whole dump: its lines and what they say, the log, the recent list, numbers and frames. */
#include "test.h"

#include <sys/mman.h>

#include "arena/arenas.h"
#include "extent/piece.h"
#include "meta/freepool.h"
#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/nstime.h"
#include "os/sys.h"
#include "os/tls.h"
#include "prof/file/prof_dump.h"
#include "prof/file/prof_keep.h"
#include "prof/file/prof_sys.h"
#include "prof/file/prof_write.h"
#include "prof/prof.h"
#include "prof/sites/prof_backtrace.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_figures.h"
#include "prof/sites/prof_root.h"
#include "prof/sites/prof_sample.h"
#include "thread/tcache_limits.h"
#include "unwind/unwind.h"

static char dir[] = "/tmp/prof_dump.XXXXXX";
static char text[1 << 20];
static char path[256];

static size_t
slurp(const char *name) {
	int fd = open(name, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	text[n < 0 ? 0 : n] = '\0';
	if (fd >= 0)
		close(fd);
	return n < 0 ? 0 : (size_t)n;
}

static void
test_numbers(void) {
	static prof_file_t file;
	prof_writer_t w;
	prof_name_t name = {.kind = prof_kind_manual};
	uint64_t rnd = 7;
	unsigned bad = 0;
	size_t at = 0;

	snprintf(path, sizeof(path), "%s/numbers", dir);
	prof_file_open(&file, path, &name, false);
	is_int(prof_writer_init(&w, &file), 0, "a writer");
	for (unsigned i = 0; i < 6000; i++) {
		uint64_t v = test_random(&rnd) >> (i % 65 == 64 ? 63 : i % 65);

		prof_write_dec(&w, i < 3 ? i : v);
		char *end = prof_frame_put(&w, prof_writer_room(&w), i < 3 ? i : v);
		w.len = (size_t)(end - w.buf);
		prof_write_lit(&w, "\n");
	}
	is_uint(prof_writer_total(&w) > 65536, 1, "more than a buffer");
	prof_writer_flush(&w);
	prof_writer_forget(&w);
	is_int(prof_file_close(&file), 0, "written");
	slurp(path);
	rnd = 7;
	for (unsigned i = 0; i < 6000; i++) {
		char want[64];
		uint64_t v = test_random(&rnd) >> (i % 65 == 64 ? 63 : i % 65);
		int n = snprintf(want, sizeof(want), "%llu 0x%llx\n", (unsigned long long)(i < 3 ? i : v),
		    (unsigned long long)(i < 3 ? i : v));

		bad += strncmp(text + at, want, (size_t)n) != 0;
		at += (size_t)n;
	}
	is_uint(bad, 0, "6000 numbers in both bases");
	is_str(text + at, "", "and no more");
}

static void
test_cut(void) {
	void *v[6] = {(void *)100, (void *)150, (void *)300, (void *)120, (void *)7, (void *)8};

	is_uint(prof_backtrace_nown(v, 6, 100, 200), 2, "leading frames of our own go");
	v[0] = (void *)100;
	v[1] = (void *)101;
	is_uint(prof_backtrace_nown(v, 2, 100, 200), 1, "of nothing but own frames one stays");
	is_uint(prof_backtrace_nown(v, 0, 100, 200), 0, "no frames");
}

/* Lines up to the first that does not begin with mark are left behind. */
static char *
skip_lines(char *at, const char *mark, unsigned *n) {
	for (*n = 0; strncmp(at, mark, strlen(mark)) == 0; ++*n)
		at = strchr(at, '\n') + 1;
	return at;
}

static prof_cnt_t *
sample(prof_tdata_t *td, uintptr_t leaf, size_t usize, uint64_t rate) {
	void *vec[3] = {(void *)leaf, (void *)0x2000, (void *)0x7fffffffffff};
	prof_bt_t bt = {.vec = vec, .len = 3};

	return prof_data_add(td, &bt, rate, usize, prof_weight(usize, rate));
}

static void
test_profile(void) {
	prof_dump_t d = {.kind = prof_kind_manual, .path = path, .may_wait = true, .metric = "test",
	    .metric_value = 42};
	unsigned n;
	size_t len;
	unsigned long long before = 0;
	char exe[PROF_PATH_SIZE] = "", line[PROF_PATH_SIZE + 32];
	ssize_t len_exe;

	gate_enter(tls_get());
	prof_tdata_t *td = prof_data_tdata_new(true);
	prof_tdata_name_write(td, "the name");
	prof_cnt_t *c1 = sample(td, 0x1001, 112, 1);
	prof_cnt_t *c2 = sample(td, 0x1001, 112, 1);
	gate_exit(tls_get());
	snprintf(path, sizeof(path), "%s/profile", dir);
	is_int(prof_dump(&d), 0, "dumped");
	len = slurp(path);
	char *at = skip_lines(text, "heap_v2/1\n", &n);
	is_uint(n, 1, "line 1 is the header with the rate of the samples");
	at = skip_lines(at, "# jemalloc.", &n);
	ok(n > 15, "%u lines of metadata follow", n);
	contains(text, "\n# jemalloc.metric=test\n# jemalloc.metric_value=42\n", "with the metric");
	contains(text, "\n# jemalloc.kind=manual\n", "and the kind");
	len_exe = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	snprintf(line, sizeof(line), "\n# jemalloc.exe=%.*s\n", (int)len_exe, exe);
	contains(text, line, "and, in the first one already, the program");
	ok(strncmp(at, "  t*: 2: 224 [0: 0]\n", 20) == 0, "then the total");
	at = skip_lines(at, "  t", &n);
	contains(text, ": 2: 224 [0: 0] the name\n", "a line of the thread with its name");
	contains(at, "@ 0x1000 0x2000 0x7fffffffffff\n  t*: 2: 224 [0: 0]\n  t",
	    "the stack: its first frame less one");
	at = strstr(at, "\n\nMAPPED_LIBRARIES:\n");
	ok(at != NULL, "an empty line and the map");
	contains(at, "r-xp", "with text in it");
	contains(at, "# module ", "modules");
	at = strstr(at, "\n# end ");
	ok(at != NULL && sscanf(at, "\n# end %llu\n", &before) == 1
	    && before == (unsigned long long)(at + 1 - text), "bytes before the last line: %llu",
	    before);
	ok(strchr(at + 1, '\n') == text + len - 1, "which is the last");

	gate_enter(tls_get());
	prof_cnt_t *c3 = sample(td, 0x3001, 64, 524288);
	gate_exit(tls_get());
	is_int(prof_dump(&d), 0, "dumped with two rates");
	slurp(path);
	ok(strncmp(text, "heap_v2/1\n", 10) == 0, "mixed rates: the header is 1");
	contains(text, "# jemalloc.mixed_rates=true\n", "it says so");
	contains(text, "\n# jemalloc.huge=0\n", "no huge pieces in a small heap");
	contains(text, "\n# jemalloc.populated=", "bytes that were populated");
	/* 8192.5 objects. */
	ok(strstr(text, "@ 0x3000 0x2000 0x7fffffffffff\n  t*: 8192: 524320 [0: 0]\n") != NULL
	    || strstr(text, "@ 0x3000 0x2000 0x7fffffffffff\n  t*: 8193: 524320 [0: 0]\n") != NULL,
	    "and the line carries the estimate");
	gate_enter(tls_get());
	prof_data_sub(c1, 112, prof_weight(112, 1));
	prof_data_sub(c2, 112, prof_weight(112, 1));
	prof_data_sub(c3, 64, prof_weight(64, 524288));
	prof_data_tdata_exit(td);
	gate_exit(tls_get());
	d.path = "/nonexistent/profile";
	is_int(prof_dump(&d), ENOENT, "a directory that is not there");
	prof_dump_last_error(text, sizeof(text));
	is_str(text, "ENOENT /nonexistent/profile 0", "is remembered");
	prof_dump_last_path(text, sizeof(text));
	is_str(text, path, "the last good one too");
}

static void
collect(void *opaque, const char *s) {
	strncat(opaque, s, sizeof(text) - 1 - strlen(opaque));
}

/* Real samples of this program. */
static void
test_living(void) {
	struct tls_s *t = tls_get();
	void *p;

	gate_enter(t);
	is_int(prof_recent_alloc_max_set(3), 0, "keep three");
	is_int(prof_recent_alloc_max_set(-2), EINVAL, "not -2");
	snprintf(path, sizeof(path), "%s/log.json", dir);
	is_int(prof_log_start(path), 0, "log on");
	is_int(prof_log_start(path), EFAULT, "not twice");
	prof_sample_rate_set(1);
	is_int(prof_active_set(true), 0, "active");
	gate_exit(t);
	for (unsigned i = 0; i < 10; i++)
		free(keep(malloc(100 + i)));
	p = keep(malloc(333));
	gate_enter(t);
	ok(prof_switch_is_active(), "it was active");
	prof_active_set(false);
	gate_exit(t);
	/* Chosen by now. */
	bool has_stacks = strcmp(unwind_name(), "none") != 0;
	is_int(prof_log_stop(), 0, "log off");
	is_int(prof_log_stop(), EFAULT, "not twice");
	slurp(path);
	contains(text, "{\"info\":{\"duration\":", "the log begins");
	contains(text, has_stacks
	    ? "\"allocations\":[{\"alloc_thread\":0,\"free_thread\":0,\"alloc_trace\":0,"
	    "\"free_trace\":1,"
	    : "\"allocations\":[{\"alloc_thread\":0,\"free_thread\":0,\"alloc_trace\":0,"
	    "\"free_trace\":0,", "with what was freed");
	unsigned n = 0;
	char usize[40], first[160];
	snprintf(usize, sizeof(usize), "\"usize\":%zu}", canary_usize(109, 0));
	for (char *at = text; (at = strstr(at, usize)) != NULL; at++)
		n++;
	is_uint(n, 10, "all ten");
	text[0] = '\0';
	is_int(prof_recent_alloc_dump(collect, text), 0, "recent list");
	snprintf(first, sizeof(first), "{\"sample_interval\":1,\"recent_alloc_max\":3,"
	    "\"recent_alloc\":[{\"size\":108,\"usize\":%zu,\"released\":true,", canary_usize(108, 0));
	contains(text, first, "the last three, oldest first");
	contains(text, "{\"size\":333,\"usize\":384,\"released\":false,", "the newest lives");
	contains(text, has_stacks ? "\"dalloc_trace\":[\"0x" : "\"dalloc_trace\":[]",
	    "where it was freed");
	free(p);
	gate_enter(t);
	is_int(prof_recent_alloc_max_set(0), 0, "dropped");
	gate_exit(t);
}

static struct os_hooks_s hooks;
static int log_fd;
static bool is_log_forked, is_clock_inside;

static uint64_t
clock_hook(void) {
	is_clock_inside = gate_is_entered(tls_get());
	return 1;
}

/* Waits in the middle of the log until the process has forked. */
static ssize_t
write_hook(int fd, const void *buf, size_t size) {
	if (fd > 2) {
		__atomic_store_n(&log_fd, fd, __ATOMIC_RELEASE);
		while (!__atomic_load_n(&is_log_forked, __ATOMIC_ACQUIRE))
			usleep(1000);
	}
	return os_hooks_real.write(fd, buf, size);
}

static void *
stop_log(void *arg) {
	return prof_log_stop() == 0 ? arg : NULL;
}

/* A fork while another thread writes the log: the child has nothing of it, and may log anew. */
static void
test_log_fork(void) {
	pthread_t writer;
	void *written = NULL;
	int status = -1;

	nstime_now_hook = clock_hook;
	is_int(prof_log_start(path), 0, "log on");
	nstime_now_hook = NULL;
	ok(is_clock_inside, "inside the gate, since that takes a lock");
	hooks = os_hooks_real;
	hooks.write = write_hook;
	os_hooks = &hooks;
	pthread_create(&writer, NULL, stop_log, text);
	while (__atomic_load_n(&log_fd, __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	size_t before = meta_in_use();
	pid_t pid = fork();
	if (pid == 0) {
		size_t after = meta_in_use();
		os_hooks = &os_hooks_real;
		_exit(fcntl(log_fd, F_GETFD) >= 0 ? 1 : after + PROF_WRITER_BYTES > before ? 2
		    : prof_log_start("/dev/null") != 0 ? 3 : 0);
	}
	waitpid(pid, &status, 0);
	__atomic_store_n(&is_log_forked, true, __ATOMIC_RELEASE);
	pthread_join(writer, &written);
	os_hooks = &os_hooks_real;
	is_int(status, 0, "the child has closed the file, freed the buffer, and may log");
	ok(written != NULL, "the parent's log is written");
}

static prof_cnt_t *
add_at(prof_tdata_t *td, uintptr_t frame) {
	void *vec[] = {(void *)frame, (void *)(frame + 16)};
	prof_bt_t bt = {.vec = vec, .len = 2};

	return prof_data_add(td, &bt, 1, 64, prof_weight(64, 1));
}

static uint64_t
npins(const prof_cnt_t *c) {
	return atomic_load_u64(&c->live, MO_RELAXED) / PROF_PIN;
}

/* A record keeps the two counts that it names, until the log is written. */
static void
test_log_pins(void) {
	prof_tdata_t *td = prof_data_tdata_new(true);

	is_int(prof_log_start("/dev/null"), 0, "log on");
	gate_enter(tls_get());
	prof_cnt_t *c[] = {add_at(td, 0x10000), add_at(td, 0x20000)};
	uint64_t before[] = {npins(c[0]), npins(c[1])};
	for (unsigned i = 0; i < 3; i++)
		prof_log_free(c[0], c[1], 1, 64);
	gate_exit(tls_get());
	ok(npins(c[0]) == before[0] + 3 && npins(c[1]) == before[1] + 3, "each has a pin for each "
	    "record");
	is_int(prof_log_stop(), 0, "log off");
	ok(npins(c[0]) == before[0] && npins(c[1]) == before[1], "and none of a log that is over");
	gate_enter(tls_get());
	for (unsigned i = 0; i < 2; i++)
		prof_data_sub(c[i], 64, prof_weight(64, 1));
	prof_data_tdata_exit(td);
	gate_exit(tls_get());
}

static void
note_message(void *opaque UNUSED, const char *s) {
	strncat(text, s, sizeof(text) - 1 - strlen(text));
}

/* A log that exit, by another thread, cuts off. */
static void
test_log_at_exit(void) {
	malloc_io_write_t *saved = malloc_io_message;

	is_int(prof_log_start(path), 0, "log on");
	text[0] = '\0';
	malloc_io_message = note_message;
	atomic_store_u32(&prof_sys_creation.ender, mutex_self() + 1, MO_SEQ_CST);
	is_int(prof_log_stop(), EFAULT, "log off, too late");
	atomic_store_u32(&prof_sys_creation.ender, 0, MO_SEQ_CST);
	malloc_io_message = saved;
	contains(text, "ECANCELED", "which is said");
}

/* The value of a line of metadata in `text`, which ends at its line; "(none)" without one. */
static const char *
meta(const char *key) {
	static char value[4][PROF_PATH_SIZE];
	static unsigned n;
	char line[64], *to = value[n++ % 4];

	snprintf(line, sizeof(line), "\n# jemalloc.%s=", key);
	const char *at = strstr(text, line);
	if (at == NULL)
		return "(none)";
	at += strlen(line);
	snprintf(to, PROF_PATH_SIZE, "%.*s", (int)strcspn(at, "\n"), at);
	return to;
}

static void
meta_is(const char *key, uint64_t value) {
	char want[32];

	snprintf(want, sizeof(want), "%llu", (unsigned long long)value);
	is_str(meta(key), want, "%s", key);
}

/* All keys, one behind the other. */
static void
keys(char *to, size_t size) {
	to[0] = '\0';
	for (char *at = text; (at = strstr(at, "\n# jemalloc.")) != NULL; at++) {
		size_t used = strlen(to);

		snprintf(to + used, size - used, "%.*s ", (int)strcspn(at + 12, "="), at + 12);
	}
}

static void
meta_unwinder(void) {
	struct unwind_stats_s st;
	char want[512];
	int n = 0;

	unwind_stats_read(&st);
	is_str(meta("unwinder"), unwind_name(), "unwinder");
	n += snprintf(want, sizeof(want), "samples:%llu fallbacks:%llu", (unsigned long long)st.samples,
	    (unsigned long long)st.fallbacks);
	for (unsigned i = 0; i < unwind_stop_count; i++)
		n += snprintf(want + n, sizeof(want) - (size_t)n, " %s:%llu",
		    unwind_stop_name((unwind_stop_t)i), (unsigned long long)st.stops[i]);
	is_str(meta("unwinder_health"), want, "unwinder_health");
	snprintf(want, sizeof(want), "without_hdr:%llu scanned:%llu",
	    (unsigned long long)st.without_hdr, (unsigned long long)st.scanned);
	is_str(meta("unwinder_tables"), want, "unwinder_tables");
	n = 0;
	for (unsigned i = 0; i < UNWIND_DEPTH_BUCKETS; i++)
		n += snprintf(want + n, sizeof(want) - (size_t)n, "%s%llu", i == 0 ? "" : " ",
		    (unsigned long long)st.depths[i]);
	is_str(meta("unwinder_depths"), want, "unwinder_depths");
}

/* The end of the line of fragmentation. */
static void
test_frag_settings(void) {
	char want[160];
	int n = snprintf(want, sizeof(want), " tcache_max:%zu thp_min:%zu",
	    opt_tcache ? opt_tcache_max : 0, (size_t)opt_thp_min);

	for (unsigned i = 0; i < 2; i++) {
		ssize_t ms = arenas_decay_ms_default_get(i == 0);

		n += ms < 0 ? 0 : snprintf(want + n, sizeof(want) - (size_t)n, " %s_decay_ms:%zd",
		    i == 0 ? "dirty" : "muzzy", ms);
	}
	snprintf(want + n, sizeof(want) - (size_t)n, "\n");
	contains(strstr(text, "\n# frag_heap"), want, "settings at the end of frag_heap");
}

/* Each number of the metadata is moved, and read back from its line. */
static void
test_metadata(void) {
	prof_dump_t d = {.kind = prof_kind_delta - 1, .path = path, .may_wait = true};
	prof_figures_t before, after;
	char exe[PROF_PATH_SIZE] = "", all[1024];

	gate_enter(tls_get());
	prof_sample_rate_set(4096);
	prof_sample_scale(2);
	for (unsigned i = 0; i < 5; i++)
		(i < 3 ? prof_keep_suppress : prof_keep_overlap)();
	prof_tdata_t *td = prof_data_tdata_new(true);
	prof_cnt_t *c[3] = {sample(td, 0x1001, 112, 4096), sample(td, 0x1001, 112, 4096),
	    sample(td, 0x5001, 64, 4096)};
	prof_root()->session = 77;
	prof_root()->session_start_ns = UINT64_C(1700000000123000000);
	atomic_store_u64(&prof_sys_instance, 0xabcdef, MO_RELAXED);
	prof_figures_read(&before);
	gate_exit(tls_get());
	snprintf(path, sizeof(path), "%s/metadata", dir);
	is_int(prof_dump(&d), 0, "dumped");
	slurp(path);
	gate_enter(tls_get());
	prof_figures_read(&after);
	gate_exit(tls_get());
	keys(all, sizeof(all));
	is_str(all, "version prof_ext_version pid instance exe session start_time dump_time "
	    "monotonic_ms profiled_ms kind sample_interval sample_interval_set mixed_rates allocated "
	    "active resident retained huge populated rss rss_shared samples sites truncated_stacks "
	    "suppressed overlapped dump_errors unwinder unwinder_health unwinder_tables "
	    "unwinder_depths ", "the keys, in their order");
	ok(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0, "our program");
	is_str(meta("exe"), exe, "exe");
	is_str(meta("version"), JEMALLOC_VERSION, "version");
	is_str(meta("instance"), "0000000000abcdef", "instance");
	is_str(meta("start_time"), "20231114T221320.123Z", "start_time");
	is_str(meta("kind"), prof_kind_name(d.kind), "kind");
	is_str(meta("mixed_rates"), "false", "mixed_rates");
	meta_is("pid", (uint64_t)getpid());
	meta_is("session", 77);
	meta_is("sample_interval", 16384);
	meta_is("sample_interval_set", 4096);
	meta_is("samples", 3);
	meta_is("sites", 2);
	meta_is("suppressed", 5);
	meta_is("overlapped", 2);
	meta_is("dump_errors", prof_dump_nerrors());
	ok(prof_dump_nerrors() != 0, "there were some");
	meta_is("truncated_stacks", prof_backtrace_ncut());
	ok(before.allocated == after.allocated && before.active == after.active
	    && before.retained == after.retained, "the heap has not changed");
	meta_is("allocated", before.allocated);
	meta_is("active", before.active);
	meta_is("retained", before.retained);
	meta_is("huge", before.huge);
	meta_is("populated", before.populated);
	uint64_t resident = strtoull(meta("resident"), NULL, 10);
	uint64_t rss = strtoull(meta("rss"), NULL, 10);
	/* The dump itself takes and gives pages. */
	ok(resident > before.active && resident < before.resident + (64 << 20), "resident");
	ok(rss > 1 << 20 && rss > strtoull(meta("rss_shared"), NULL, 10), "rss");
	meta_unwinder();
	test_frag_settings();

	gate_enter(tls_get());
	prof_sample_scale(-64);
	for (unsigned i = 0; i < 3; i++)
		prof_data_sub(c[i], i < 2 ? 112 : 64, prof_weight(i < 2 ? 112 : 64, 4096));
	prof_data_tdata_exit(td);
	prof_root()->session = 0;
	gate_exit(tls_get());
	is_int(prof_dump(&d), 0, "dumped again");
	slurp(path);
	is_str(meta("start_time"), "(none)", "without a session no start_time");
	is_str(meta("sample_interval_set"), "(none)", "with the interval that was set only that");
}

/* The path of the last dump is remembered as one that is right in any directory. */
static void
test_last_path(void) {
	char old[PROF_PATH_SIZE], want[PROF_PATH_SIZE];
	bool is_there = getcwd(old, sizeof(old)) != NULL && chdir(dir) == 0;

	ok(is_there && getcwd(want, sizeof(want) - 16) != NULL, "in another directory");
	strcat(want, "/relative");
	is_int(prof_mdump(prof_kind_manual, "relative", false, NULL), 0, "a path without a directory");
	prof_dump_last_path(text, sizeof(text));
	is_str(text, want, "is remembered with it");
	is_int(chdir(old), 0, "and back");
}

static bool is_child;
static int child_status = -1;

static void
fork_hook(const char *filename) {
	(void)filename;
	pid_t pid = fork();

	is_child = pid == 0;
	if (pid > 0)
		waitpid(pid, &child_status, 0);
}

/* The child comes back from the hook as the owner of the dump's lock, and dumps again. */
static void
test_fork_in_hook(void) {
	prof_hook_set(PROF_HOOK_DUMP, (prof_hook_fn_t)fork_hook);
	snprintf(path, sizeof(path), "%s/forked", dir);
	int err = prof_mdump(prof_kind_manual, path, false, NULL);

	prof_hook_set(PROF_HOOK_DUMP, NULL);
	if (is_child)
		_exit(err == 0 && prof_mdump(prof_kind_manual, path, false, NULL) == 0 ? 7 : 1);
	is_int(err, 0, "a dump whose hook forks");
	ok(WIFEXITED(child_status) && WEXITSTATUS(child_status) == 7, "the child goes on and dumps");
	is_int(prof_mdump(prof_kind_manual, path, false, NULL), 0, "and so does the parent");
}

/* ------------------------------------------------------------------ a program at its limit */

static size_t lacking; /* bytes that must be given back before any are lent again */
static size_t given; /* bytes given back before the first that are lent */
static bool is_lent;

static void *
mmap_at_limit(void *addr, size_t size, int prot, int flags, int fd, off_t off) {
	if (lacking > 0) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	is_lent = true;
	return os_hooks_real.mmap(addr, size, prot, flags, fd, off);
}

static int
munmap_at_limit(void *addr, size_t size) {
	lacking -= size < lacking ? size : lacking;
	given += is_lent ? 0 : size;
	return os_hooks_real.munmap(addr, size);
}

/*
 * The dump gives back its reserve of 6 MiB, then as much of what arenas do not use, each only if it
 * must; and makes the reserve again when it can. If all that did not help, the same is not tried
 * again.
 */
static void
test_at_limit(void) {
	enum { MIB = 1 << 20, OF_ARENAS = 64 * MIB };
	static const struct {
		size_t lacking;
		size_t unused; /* what arenas get to have unused before */
		prof_kind_t kind;
		int err;
		size_t least, most; /* of what is given */
	} rows[] = {{1, OF_ARENAS, prof_kind_manual, 0, 6 * MIB, 6 * MIB},
	    {6 * MIB, 0, prof_kind_manual, 0, 6 * MIB, 6 * MIB},
	    {6 * MIB + 1, 0, prof_kind_manual, 0, 12 * MIB, 16 * MIB},
	    {7 * MIB, 0, prof_kind_manual, 0, 12 * MIB, 16 * MIB},
	    {1, 0, prof_kind_delta, ENODATA, 0, 0},
	    {(size_t)1 << 40, OF_ARENAS, prof_kind_manual, ENOMEM, 12 * MIB, 16 * MIB},
	    {1, 0, prof_kind_manual, ENOMEM, 0, 0},
	    {1, 4 * OF_ARENAS, prof_kind_manual, 0, 6 * MIB, 10 * MIB},
	    {0, 0, prof_kind_manual, 0, 0, 0},
	    {6 * MIB, 0, prof_kind_manual, 0, 6 * MIB, 6 * MIB}};
	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		free(rows[i].unused == 0 ? NULL : keep(malloc(rows[i].unused)));
		snprintf(path, sizeof(path), "%s/limit%u", dir, i);
		hooks = os_hooks_real;
		hooks.mmap = mmap_at_limit;
		hooks.munmap = munmap_at_limit;
		lacking = rows[i].lacking;
		given = 0;
		is_lent = false;
		os_hooks = &hooks;
		int err = prof_mdump(rows[i].kind, path, false, NULL);
		os_hooks = &os_hooks_real;
		is_int(err, rows[i].err, "row %u: a dump where %zu bytes are lacking", i,
		    rows[i].lacking);
		ok(given >= rows[i].least && given <= rows[i].most, "it gives back %zu", given);
		ok((slurp(path) > 0) == (rows[i].err == 0), "and its file");
	}
}

int
main(void) {
	char cmd[128];

	if (!config_prof)
		plan_skip_all("built without the profiler");
	free(keep(malloc(1)));
	if (mkdtemp(dir) == NULL)
		bail_out("mkdtemp");
	gate_enter(tls_get());
	opt_prof_active = false;
	if (prof_boot() != 0)
		bail_out("boot");
	test_numbers();
	gate_exit(tls_get());
	prof_boot_late();
	test_cut();
	test_profile();
	test_living();
	test_log_fork();
	test_log_pins();
	test_log_at_exit();
	test_metadata();
	test_last_path();
	test_fork_in_hook();
	test_at_limit();
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd) != 0 ? 1 : done_testing();
}
