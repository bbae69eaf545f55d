/* The storm guard: which file goes, the gap between two, the caps on disk. */
#include "test.h"

#include <pthread.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "os/malloc_io.h"
#include "os/nstime.h"
#include "os/sys.h"
#include "prof/file/prof_keep.h"
#include "util/atomic.h"

static char dir[] = "/tmp/prof_keep.XXXXXX";
static uint64_t now_ns = UINT64_C(1) << 50;

static uint64_t
read_clock(void) {
	return now_ns;
}

static bool is_backwards; /* files are not added in the order of writing */

static void
add(prof_keep_list_t *list, unsigned i, uint64_t live) {
	prof_kept_t f = {.order = 100 + i, .live = live, .bytes = 1, .kind = prof_kind_alloc};

	snprintf(f.name, sizeof(f.name), "%u", i);
	prof_keep_list_add(list, &f);
}

/* The number of the file that goes. */
static unsigned
victim(unsigned n, const uint64_t *live, prof_keep_policy_t policy) {
	static prof_keep_list_t list;

	memset(&list, 0, sizeof(list));
	is_uint(prof_keep_list_victim(&list, policy), SIZE_MAX, "none of none");
	for (unsigned i = 0; i < n; i++) {
		unsigned k = is_backwards ? n - 1 - i : i;
		add(&list, k, live[k]);
	}
	return (unsigned)list.oldest[prof_keep_list_victim(&list, policy)].order - 100;
}

/* Of many files some go, one after the other. */
static void
test_many(void) {
	static prof_keep_list_t list;
	const unsigned n = PROF_KEEP_OLDEST * 3;

	for (unsigned i = 0; i < n; i++) /* in a mixed order; the fifth is the peak */
		add(&list, i * 7 % n, i * 7 % n == 4 ? 1000 : 1);
	is_uint(list.n_all, n, "all are counted");
	is_uint(list.n, PROF_KEEP_OLDEST, "some are kept in mind");
	is_uint(list.peak, 104, "the peak");
	is_uint(list.last, 100 + n - 1, "the newest");
	bool is_right = true;
	for (unsigned i = 0; i < PROF_KEEP_OLDEST; i++)
		is_right = is_right && list.oldest[i].order == 100 + i;
	ok(is_right, "the oldest, by order");
	for (unsigned i = 1; i < PROF_KEEP_OLDEST; i++) {
		size_t at = prof_keep_list_victim(&list, prof_keep_first_peak_last);
		if (i != 4) {
			is_uint(list.oldest[at].order, 100 + i, "of file %u it is the turn", i);
			prof_keep_list_drop(&list, at);
		}
	}
	is_uint(prof_keep_list_victim(&list, prof_keep_first_peak_last), SIZE_MAX,
	    "the next one is not known");
	is_uint(prof_keep_list_victim(&list, prof_keep_newest), 0, "by age the first would be next");
	is_uint(list.n, 2, "the first and the peak are left of those that are");
	is_uint(list.n_all, n - PROF_KEEP_OLDEST + 2, "and all others");
}

static void
test_victim(void) {
	const uint64_t rising[] = {1, 2, 3, 4, 5}, middle[] = {1, 9, 3, 4, 5}, first[] = {9, 2, 3};

	is_uint(victim(5, rising, prof_keep_newest), 0, "newest: the oldest goes");
	is_uint(victim(5, rising, prof_keep_first_peak_last), 1, "first and last stay");
	is_uint(victim(5, middle, prof_keep_first_peak_last), 2, "the peak stays");
	is_uint(victim(3, first, prof_keep_first_peak_last), 1, "the first may be the peak");
	is_uint(victim(3, middle, prof_keep_first_peak_last), 0,
	    "first, peak and newest are one too many: the first goes");
	is_uint(victim(2, rising, prof_keep_first_peak_last), 0, "two");
	is_uint(victim(1, rising, prof_keep_first_peak_last), 0, "one");
}

static void
test_gap(void) {
	const uint64_t ms = NSTIME_PER_MSEC;
	prof_keep_turn_t turn, next;

	ok(prof_keep_gap_is_over(0, 5, 1000), "the first may always");
	ok(!prof_keep_gap_is_over(5, 1004, 1000), "too soon");
	ok(prof_keep_gap_is_over(5, 1005, 1000), "just over");
	ok(prof_keep_gap_is_over(100000 * ms, 10, 1000), "a clock that went back does not lock out");
	ok(!prof_keep_gap_is_over(5000, 4999, 1000),
	    "who read the clock just before another came is not a gap late");
	prof_keep_set(prof_keep_min_gap_ms, 100);
	ok(prof_keep_try_turn(prof_kind_alloc, 1000 * ms, &turn), "one");
	ok(!prof_keep_try_turn(prof_kind_alloc, 1099 * ms, &turn), "not a second of its kind");
	ok(prof_keep_try_turn(prof_kind_timer, 1099 * ms, &turn), "kinds do not hinder each other");
	ok(prof_keep_try_turn(prof_kind_alloc, 1105 * ms, &turn), "after the gap");
	prof_keep_release(&turn);
	ok(!prof_keep_try_turn(prof_kind_alloc, 1099 * ms, &next),
	    "one that was not written leaves the gap from before");
	ok(prof_keep_try_turn(prof_kind_alloc, 1101 * ms, &turn), "and none of its own");
	ok(prof_keep_try_turn(prof_kind_alloc, 1201 * ms, &next),
	    "another turn, before the last one has written");
	prof_keep_release(&turn);
	ok(!prof_keep_try_turn(prof_kind_alloc, 1202 * ms, &turn), "which gives up: the other stands");
	ok(prof_keep_try_turn(prof_kind_manual, 1, &turn) && prof_keep_try_turn(prof_kind_manual, 1,
	    &turn), "by hand always");
	prof_keep_set(prof_keep_min_gap_ms, UINT64_MAX);
	ok(!prof_keep_try_turn(prof_kind_alloc, UINT64_MAX - 1, &turn), "a gap without end");
	prof_keep_set(prof_keep_min_gap_ms, 0);
	ok(prof_keep_try_turn(prof_kind_large, 2000, &turn) && prof_keep_try_turn(prof_kind_large, 1999,
	    &turn), "without a gap always, also who read the clock just before another came");
}

/* What was left out, and of it what came due while another was written. */
static void
test_counters(void) {
	uint64_t suppressed = prof_keep_suppressed(), overlapped = prof_keep_overlapped();

	prof_keep_suppress();
	prof_keep_suppress();
	prof_keep_overlap();
	prof_keep_overlap();
	prof_keep_overlap();
	is_uint(prof_keep_suppressed() - suppressed, 5, "five were left out");
	is_uint(prof_keep_overlapped() - overlapped, 3, "three of them as another one was written");
	prof_keep_overlap_retry();
	is_uint(prof_keep_suppressed() - suppressed, 4, "one of them is written after all");
	is_uint(prof_keep_overlapped() - overlapped, 2, "so two");
	prof_keep_overlap_retry();
	prof_keep_overlap_retry();
	is_uint(prof_keep_overlapped(), overlapped, "none is left");
}

/* Each old kind is held to what was set for it, and to nothing else. */
static void
test_each_limit(void) {
	prof_keep_turn_t turn;

	ok(!prof_keep_governs(prof_kind_interval, prof_keep_min_gap_ms),
	    "the gap is not the old kinds' yet");
	prof_keep_set(prof_keep_max_files, 3);
	ok(prof_keep_governs(prof_kind_interval, prof_keep_max_files), "a cap on files holds for them");
	ok(!prof_keep_governs(prof_kind_interval, prof_keep_max_bytes), "that on bytes not");
	ok(prof_keep_try_turn(prof_kind_interval, 1, &turn) && prof_keep_try_turn(prof_kind_interval, 2,
	    &turn), "nor does it bring a gap");
	prof_keep_policy_set("newest");
	ok(prof_keep_try_turn(prof_kind_gdump, 3, &turn) && prof_keep_try_turn(prof_kind_gdump, 4,
	    &turn), "nor does the policy");
	prof_keep_policy_set("first_peak_last");
}

static const char *base = "f"; /* of the prefix */

static void
path_of(char path[256], unsigned i) {
	snprintf(path, 256, "%s/%s.77.%u.a%u.heap", dir, base, i, i);
}

/* As a dump does it. */
static void
write_file_as(unsigned i, unsigned bytes, uint64_t live, const char *first_line) {
	static const char zeros[4096];
	char path[256], mark[PROF_KEEP_MARK_SIZE];
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	path_of(path, i);
	prof_keep_mark(mark, (uint64_t)ts.tv_sec * NSTIME_PER_SEC + (uint64_t)ts.tv_nsec, live);
	now_ns += UINT64_C(2) * NSTIME_PER_SEC; /* what others have removed is seen */
	prof_keep_try_room(prof_kind_alloc);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	int n = dprintf(fd, "%s\n# jemalloc." PROF_KEEP_MARK "=%s\n", first_line, mark);
	ok(n > 0 && write(fd, zeros, bytes - (unsigned)n) == (ssize_t)bytes - n, "file %u", i);
	close(fd);
	prof_keep_written(prof_kind_alloc, bytes);
}

static void
write_file(unsigned i, unsigned bytes, uint64_t live) {
	write_file_as(i, bytes, live, "heap_v2/1");
}

static bool
is_there(unsigned i) {
	char path[256];

	path_of(path, i);
	return access(path, F_OK) == 0;
}

/* A file that counts for one limit only is not removed for the other. */
static void
test_kinds_of_limit(void) {
	char path[256], mark[PROF_KEEP_MARK_SIZE];

	opt_prof_dump_given[prof_keep_max_files] = true;
	opt_prof_dump_limits[prof_keep_max_bytes] = 300;
	opt_prof_dump_keep = prof_keep_newest;
	prof_keep_boot();
	prof_keep_mark(mark, 1, 1);
	snprintf(path, sizeof(path), "%s/f.77.1.i0.heap", dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	ok(dprintf(fd, "heap_v2/1\n# jemalloc." PROF_KEEP_MARK "=%s\n", mark) > 0, "the oldest");
	close(fd);
	write_file(500, 200, 1);
	write_file(501, 200, 1);
	ok(access(path, F_OK) == 0 && !is_there(500) && is_there(501),
	    "bytes are those of our own kinds, and of these one goes");
	prof_keep_set(prof_keep_max_files, 1);
	write_file(502, 100, 1);
	ok(access(path, F_OK) != 0 && !is_there(501) && is_there(502), "as a file it counts");
	path_of(path, 502);
	unlink(path);
	prof_keep_policy_set("first_peak_last");
}

static void
test_files(void) {
	prof_keep_set(prof_keep_max_files, 3);
	prof_keep_set(prof_keep_max_bytes, 0);
	for (unsigned i = 0; i < 20; i++)
		write_file(i, 100, i == 7 ? 1000 : i);
	for (unsigned i = 0; i < 20; i++)
		ok(is_there(i) == (i == 0 || i == 7 || i == 19), "file %u: first, peak, newest", i);
	is_int(prof_keep_policy_set("newest"), 0, "another policy");
	is_str(prof_keep_policy_get(), "newest", "it holds");
	is_int(prof_keep_policy_set("oldest"), EINVAL, "an unknown one");
	is_int(prof_keep_policy_set(NULL), EINVAL, "none");
	prof_keep_set(prof_keep_max_bytes, 1000);
	prof_keep_set(prof_keep_max_files, 0);
	write_file(20, 700, 1);
	ok(is_there(0) && is_there(7) && is_there(19), "1000 of 1000 bytes");
	write_file(21, 100, 1);
	ok(!is_there(0) && is_there(7) && is_there(20) && is_there(21), "100 more: one of 100 goes");
	write_file(22, 600, 1);
	ok(!is_there(7) && !is_there(19) && !is_there(20) && is_there(21) && is_there(22),
	    "the cap on bytes");
	write_file(23, 1001, 1);
	ok(!is_there(21) && !is_there(22) && !is_there(23),
	    "one that is larger than the cap alone goes as well");
}

static char told[1024]; /* the last message */

static void
listen(void *opaque UNUSED, const char *text) {
	snprintf(told, sizeof(told), "%s", text);
}

static int
closed_open(const char *path, int flags, unsigned mode) {
	return (flags & O_DIRECTORY) != 0 ? -EACCES : os_hooks_real.open(path, flags, mode);
}

/* What a user would not find out by himself is said once. */
static void
test_told(void) {
	static struct os_hooks_s hooks;
	malloc_io_write_t *old_voice = malloc_io_message;

	malloc_io_message = listen;
	prof_keep_set(prof_keep_max_files, 0);
	prof_keep_set(prof_keep_max_bytes, 300);
	write_file(24, 300, 1);
	is_str(told, "", "as large as the cap");
	write_file(25, 301, 1);
	ok(strstr(told, "a profile of 301 bytes was removed at once") != NULL && !is_there(25),
	    "a profile larger than the cap: %s", told);
	told[0] = '\0';
	write_file(26, 302, 1);
	is_str(told, "", "once");
	hooks = os_hooks_real;
	hooks.open = closed_open;
	os_hooks = &hooks;
	prof_keep_set(prof_keep_max_files, 3);
	prof_keep_set(prof_keep_max_bytes, 0);
	for (unsigned i = 27; i < 30; i++) {
		ok(prof_keep_try_room(prof_kind_alloc), "a directory that cannot be read: file %u", i);
		write_file(i, 100, 1);
	}
	ok(!prof_keep_try_room(prof_kind_alloc), "and no more");
	ok(strstr(told, "cannot be read") != NULL, "and why: %s", told);
	os_hooks = &os_hooks_real;
	malloc_io_message = old_voice;
	for (unsigned i = 24; i < 30; i++) {
		char path[256];
		path_of(path, i);
		unlink(path);
	}
	now_ns += UINT64_C(2) * NSTIME_PER_SEC;
	ok(prof_keep_try_room(prof_kind_alloc), "it can be read again");
}

static unsigned n_reads; /* of the directory */

static int
counting_open(const char *path, int flags, unsigned mode) {
	n_reads += (flags & O_DIRECTORY) != 0;
	return os_hooks_real.open(path, flags, mode);
}

/* At a limit, of number or of bytes, the directory is read once for a file; so it is far below. */
static void
test_reads(void) {
	static struct os_hooks_s hooks;

	hooks = os_hooks_real;
	hooks.open = counting_open;
	os_hooks = &hooks;
	prof_keep_policy_set("newest");
	for (unsigned k = 0; k < 3; k++) {
		prof_keep_set(prof_keep_max_files, k == 0 ? 4 : 100);
		prof_keep_set(prof_keep_max_bytes, k == 1 ? 1050 : 0);
		for (unsigned i = 0; i < 5; i++)
			write_file(600 + k * 20 + i, 300, 1);
		n_reads = 0;
		for (unsigned i = 5; i < 15; i++)
			write_file(600 + k * 20 + i, 300, 1);
		is_uint(n_reads, 10, "ten files, ten reads: %s", k == 0 ? "number" : k == 1 ? "bytes"
		    : "below");
		ok(is_there(614 + k * 20), "and the last one stays");
	}
	os_hooks = &os_hooks_real;
	prof_keep_set(prof_keep_max_files, 1);
	write_file(699, 300, 1);
	prof_keep_set(prof_keep_max_bytes, 1);
	write_file(698, 300, 1);
}

/* More than can be kept in mind at once go, when the limit is lowered. */
static void
test_lowered(void) {
	unsigned n = 0;

	prof_keep_policy_set("first_peak_last");
	prof_keep_set(prof_keep_max_files, 100);
	prof_keep_set(prof_keep_max_bytes, 0);
	for (unsigned i = 400; i < 460; i++)
		write_file(i, 100, i == 430 ? 1000 : 1);
	for (unsigned i = 400; i < 460; i++)
		n += is_there(i);
	is_uint(n, 60, "60 files");
	prof_keep_set(prof_keep_max_files, 3);
	write_file(460, 100, 1);
	n = 0;
	for (unsigned i = 400; i < 461; i++)
		n += is_there(i);
	is_uint(n, 3, "three stay");
	ok(is_there(400) && is_there(430) && is_there(460), "the first, the peak, the newest");
	prof_keep_policy_set("newest");
	prof_keep_set(prof_keep_max_bytes, 1);
	write_file(461, 100, 1);
	ok(!is_there(400) && !is_there(430) && !is_there(460) && !is_there(461), "none stays");
}

/* Not what has only the name, the first line, the mark; not a link; not what has another mark. */
static void
test_foreign(void) {
	char path[256], moved[256];

	prof_keep_policy_set("newest");
	prof_keep_set(prof_keep_max_files, 4);
	prof_keep_set(prof_keep_max_bytes, 0);
	write_file_as(40, 100, 1, "heap_v9/1");
	path_of(path, 41);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	ok(dprintf(fd, "heap_v2/1\n# jemalloc." PROF_KEEP_MARK "=1234567890abcdef 1 1\n") > 0,
	    "a mark of others");
	close(fd);
	path_of(path, 42);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	ok(dprintf(fd, "heap_v2/1\n# jemalloc.pid=1\n") > 0, "no mark");
	close(fd);
	snprintf(moved, sizeof(moved), "%s/target", dir);
	path_of(path, 43);
	write_file(43, 100, 1);
	is_int(rename(path, moved), 0, "moved away");
	is_int(symlink(moved, path), 0, "a link to it in its place");
	write_file(44, 100, 1);
	ok(is_there(44), "four: the link does not count");
	write_file(45, 100, 1);
	ok(!is_there(44) && is_there(45), "five: ours goes");
	write_file(46, 100, 1);
	ok(!is_there(45) && is_there(46), "and again");
	ok(is_there(40) && is_there(41) && is_there(42), "no other is removed");
	ok(access(path, F_OK) == 0 && access(moved, F_OK) == 0, "nor a link, nor what it leads to");
	ok(prof_keep_try_room(prof_kind_alloc), "there is room for one");
	prof_keep_set(prof_keep_max_files, 3);
	now_ns += UINT64_C(2) * NSTIME_PER_SEC;
	ok(!prof_keep_try_room(prof_kind_alloc), "the others use up a cap of three");
	unlink(moved);
	for (unsigned i = 40; i <= 46; i++) {
		path_of(path, i);
		unlink(path);
	}
}

/* A name of a file that is none of the kinds that count. */
static void
test_other_kinds(void) {
	char path[256];

	prof_keep_set(prof_keep_max_files, 1);
	for (unsigned i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/f.77.%u.%s.heap", dir, i, i == 0 ? "m0" : i == 1 ? "s0"
		    : "f");
		close(open(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
	}
	write_file(47, 100, 1);
	ok(is_there(47), "what is by hand, of a session or final does not count");
	path_of(path, 47);
	unlink(path);
}

/* A box counts once nobody has it open. */
static void
test_box(void) {
	char path[256];

	prof_keep_set(prof_keep_max_files, 1);
	snprintf(path, sizeof(path), "%s/f.77.0.b.box", dir);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	is_int(flock(fd, LOCK_EX | LOCK_NB), 0, "a box, open");
	now_ns += UINT64_C(2) * NSTIME_PER_SEC;
	ok(prof_keep_try_room(prof_kind_box), "does not count");
	write_file(48, 100, 1);
	ok(is_there(48), "nor for others");
	close(fd);
	write_file(49, 100, 1);
	ok(!is_there(48) && !is_there(49), "its process has ended: it does");
	now_ns += UINT64_C(2) * NSTIME_PER_SEC;
	ok(!prof_keep_try_room(prof_kind_box) && !prof_keep_try_room(prof_kind_timer),
	    "and uses up a cap of one");
	ok(access(path, F_OK) == 0, "it is still there");
	unlink(path);
	now_ns += UINT64_C(2) * NSTIME_PER_SEC;
	ok(prof_keep_try_room(prof_kind_box), "it was removed by somebody");
}

/* Many at once: of each gap one. */
static atomic_u32_t n_granted;

static void *
ask_often(void *arg) {
	prof_keep_turn_t turn;

	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t now = atomic_fetch_add_u64(arg, 1, MO_RELAXED);
		if (i % 64 == 0)
			sched_yield(); /* this one comes late with its time */
		if (prof_keep_try_turn(prof_kind_large, now * NSTIME_PER_MSEC / 10, &turn))
			atomic_fetch_add_u32(&n_granted, 1, MO_RELAXED);
	}
	return NULL;
}

static void
test_gap_threads(void) {
	pthread_t t[8];
	static atomic_u64_t clock = {1000000};

	prof_keep_set(prof_keep_min_gap_ms, 1000);
	for (unsigned i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, ask_often, &clock);
	for (unsigned i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	unsigned n = atomic_load_u32(&n_granted, MO_RELAXED);
	ok(n >= 1 && n <= 17, "8 threads, 16 seconds, a gap of one: %u", n);
}

/* What the user has removed is there no more, and makes room. */
static void
test_removed(void) {
	char path[256];

	prof_keep_policy_set("newest");
	prof_keep_set(prof_keep_max_files, 3);
	prof_keep_set(prof_keep_max_bytes, 0);
	for (unsigned i = 50; i < 54; i++)
		write_file(i, 100, 1);
	ok(!is_there(50) && is_there(51), "three are there");
	for (unsigned i = 52; i < 54; i++) {
		path_of(path, i);
		unlink(path);
	}
	write_file(54, 100, 1);
	write_file(55, 100, 1);
	ok(is_there(51) && is_there(54) && is_there(55), "two were removed: two more may be");
	write_file(56, 100, 1);
	ok(!is_there(51), "and no third");
}

static unsigned
n_there(void) {
	unsigned n = 0;

	for (unsigned i = 50; i < 400; i++)
		n += is_there(i);
	return n;
}

static unsigned child_number;

/* One that dies with a place in its hands, others that write three files each. */
static void
child_body(void *arg) {
	(void)arg;
	prof_keep_postfork_child();
	for (unsigned i = 0; i < 3; i++)
		write_file(100 + child_number * 3 + i, 100, 1);
	_exit(prof_keep_suppressed() == 0 ? 0 : 1);
}

/* A process and its children, and their children: one cap, one policy. */
static void
test_family(void) {
	static struct test_result r;
	bool all = true;

	prof_keep_set(prof_keep_max_files, 4);
	uint64_t suppressed = prof_keep_suppressed();
	prof_keep_suppress();
	is_uint(prof_keep_suppressed() - suppressed, 1, "counted");
	for (child_number = 0; child_number < 20; child_number++) {
		run_forked(&r, child_body, NULL);
		all = all && exited_with(&r, 0);
	}
	ok(all, "20 children write three files each");
	is_uint(n_there(), 4, "four stay of all");
	ok(is_there(159) && is_there(158) && is_there(157) && is_there(156), "the newest");
	write_file(98, 100, 1);
	ok(!is_there(156) && is_there(98), "the parent's next one counts with them");
}

/* Many at once: none too many, and none too few. */
static void
test_family_at_once(void) {
	pid_t pids[20];
	int status;
	bool all = true;

	for (unsigned k = 0; k < 20; k++) {
		child_number = 30 + k;
		pids[k] = fork();
		if (pids[k] == 0) {
			/* Its results are in its exit status, not among the lines of this test. */
			close(STDOUT_FILENO);
			(void)!open("/dev/null", O_WRONLY);
			child_body(NULL);
		}
	}
	for (unsigned k = 0; k < 20; k++)
		all = waitpid(pids[k], &status, 0) == pids[k] && WIFEXITED(status)
		    && WEXITSTATUS(status) == 0 && all;
	ok(all, "20 children at once");
	is_uint(n_there(), 4, "four files stay");
}

/* What a process before this one has left under the prefix counts, and is left alone. */
static void
test_before(void) {
	char prefix[256], path[300];

	base = "p";
	snprintf(prefix, sizeof(prefix), "%s/p", dir);
	prof_sys_prefix_set(prefix);
	prof_keep_set(prof_keep_max_files, 3);
	for (unsigned i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s.77.%u.%s.heap", prefix, i, i == 2 ? "s0" : "a0");
		close(open(path, O_WRONLY | O_CREAT, 0600));
	}
	ok(prof_keep_try_room(prof_kind_alloc), "two of three (a session's does not count)");
	write_file(60, 100, 1);
	write_file(61, 100, 1);
	is_uint(n_there(), 1, "one of ours may stay");
	ok(is_there(61) && access(path, F_OK) == 0, "the newest; those from before do");
	prof_keep_set(prof_keep_max_files, 2);
	ok(!prof_keep_try_room(prof_kind_alloc), "two of two: no room");
	ok(prof_keep_try_room(prof_kind_manual), "but for what is no automatic one");
	snprintf(path, sizeof(path), "%s.77.0.a0.heap", prefix);
	ok(access(path, F_OK) == 0, "it is still there");
	unlink(path);
	now_ns += UINT64_C(2) * NSTIME_PER_SEC;
	ok(prof_keep_try_room(prof_kind_alloc), "one was removed by somebody: it is seen a second "
	    "later");
}

static ssize_t
no_getcwd(char *buf UNUSED, size_t size UNUSED) {
	errno = ENOENT;
	return -1;
}

/*
 * The directory has no path when the prefix is set (too long, unreachable): the prefix stays
 * relative, and files lie in the current directory.
 */
static void
test_relative(void) {
	struct os_hooks_s hooks = os_hooks_real;
	hooks.getcwd = no_getcwd;
	os_hooks = &hooks;
	prof_sys_prefix_set("relative");
	os_hooks = &os_hooks_real;
	if (chdir(dir) != 0)
		bail_out("no way to the directory");
	base = "relative";
	prof_keep_set(prof_keep_max_files, 2);
	for (unsigned i = 0; i < 5; i++)
		write_file(i, 100, 1);
	ok(!is_there(0) && !is_there(1) && !is_there(2) && is_there(3) && is_there(4),
	    "limits hold for a prefix without a directory too");
	if (chdir("/") != 0)
		bail_out("no root");
}

int
main(void) {
	char command[300];

	nstime_now_hook = read_clock;

	if (mkdtemp(dir) == NULL)
		bail_out("no directory");
	for (unsigned i = 0; i < prof_keep_n; i++)
		ok(prof_keep_governs(prof_kind_highwater, i) && !prof_keep_governs(prof_kind_interval, i)
		    && !prof_keep_governs(prof_kind_session, i), "our own kinds, limit %u", i);
	test_victim();
	is_backwards = true;
	test_victim();
	test_many();
	test_counters();
	test_each_limit();
	test_gap();
	ok(prof_keep_governs(prof_kind_interval, prof_keep_min_gap_ms),
	    "and the old ones once it was set");
	snprintf(command, sizeof(command), "%s/f", dir);
	prof_sys_prefix_set(command);
	prof_keep_set(prof_keep_min_gap_ms, 0);
	test_kinds_of_limit();
	test_told();
	test_files();
	test_lowered();
	test_reads();
	test_foreign();
	test_other_kinds();
	test_box();
	test_gap_threads();
	test_removed();
	test_family();
	test_family_at_once();
	test_before();
	test_relative();
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	if (system(command) != 0)
		diag("%s is left", dir);
	return done_testing();
}
