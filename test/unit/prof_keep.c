/* The storm guard: which file goes, the gap between two, the caps on disk. */
#include "test.h"

#include <pthread.h>
#include <sched.h>

#include "os/nstime.h"
#include "prof_keep.h"
#include "util/atomic.h"

static char dir[] = "/tmp/prof_keep.XXXXXX";

static size_t
victim(unsigned n, const uint64_t *live, prof_keep_policy_t policy)
{
	prof_kept_t files[8];

	for (unsigned i = 0; i < n; i++)
		files[i] = (prof_kept_t){.bytes = 1, .live = live[i]};
	return prof_keep_victim(files, n, policy);
}

static void
test_victim(void)
{
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
test_gap(void)
{
	const uint64_t ms = NSTIME_PER_MSEC;
	prof_keep_turn_t turn, next;

	ok(prof_keep_gap_is_over(0, 5, 1000), "the first may always");
	ok(!prof_keep_gap_is_over(5, 1004, 1000), "too soon");
	ok(prof_keep_gap_is_over(5, 1005, 1000), "just over");
	ok(prof_keep_gap_is_over(100000 * ms, 10, 1000), "a clock that went back does not lock out");
	ok(!prof_keep_gap_is_over(5000, 4999, 1000),
	    "who read the clock just before another came is not a gap late");
	prof_keep_set(prof_keep_min_gap_ms, 100);
	ok(prof_keep_may(prof_kind_alloc, 1000 * ms, &turn), "one");
	ok(!prof_keep_may(prof_kind_alloc, 1099 * ms, &turn), "not a second of its kind");
	ok(prof_keep_may(prof_kind_timer, 1099 * ms, &turn), "kinds do not hinder each other");
	ok(prof_keep_may(prof_kind_alloc, 1105 * ms, &turn), "after the gap");
	prof_keep_release(&turn);
	ok(!prof_keep_may(prof_kind_alloc, 1099 * ms, &next), "one that was not written leaves the gap from before");
	ok(prof_keep_may(prof_kind_alloc, 1101 * ms, &turn), "and none of its own");
	ok(prof_keep_may(prof_kind_alloc, 1201 * ms, &next), "another turn, before the last one has written");
	prof_keep_release(&turn);
	ok(!prof_keep_may(prof_kind_alloc, 1202 * ms, &turn), "which gives up: the other stands");
	ok(prof_keep_may(prof_kind_manual, 1, &turn) && prof_keep_may(prof_kind_manual, 1, &turn), "by hand always");
	prof_keep_set(prof_keep_min_gap_ms, UINT64_MAX);
	ok(!prof_keep_may(prof_kind_alloc, UINT64_MAX - 1, &turn), "a gap without end");
}

static void
write_file(unsigned i, unsigned bytes, uint64_t live)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/f%u", dir, i);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	ok(fd >= 0, "file %u", i);
	close(fd);
	prof_keep_written(path, bytes, live);
}

static bool
is_there(unsigned i)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/f%u", dir, i);
	return access(path, F_OK) == 0;
}

static void
test_files(void)
{
	prof_keep_set(prof_keep_max_files, 3);
	prof_keep_set(prof_keep_max_bytes, 0);
	for (unsigned i = 0; i < 20; i++)
		write_file(i, 10, i == 7 ? 1000 : i);
	for (unsigned i = 0; i < 20; i++)
		ok(is_there(i) == (i == 0 || i == 7 || i == 19), "file %u: first, peak, newest", i);
	is_int(prof_keep_policy_set("newest"), 0, "another policy");
	is_str(prof_keep_policy_get(), "newest", "it holds");
	is_int(prof_keep_policy_set("oldest"), EINVAL, "an unknown one");
	is_int(prof_keep_policy_set(NULL), EINVAL, "none");
	prof_keep_set(prof_keep_max_bytes, 100);
	prof_keep_set(prof_keep_max_files, 0);
	write_file(20, 60, 1);
	ok(is_there(7) && is_there(19), "90 of 100 bytes");
	write_file(21, 60, 1);
	ok(!is_there(0) && !is_there(7) && !is_there(19) && !is_there(20) && is_there(21),
	    "the cap on bytes");
	write_file(22, 101, 1);
	ok(!is_there(21) && !is_there(22), "one that is larger than the cap alone goes as well");
	prof_keep_written("relative", 1000, 1);
	ok(access("relative", F_OK) != 0, "a relative name is nobody's");
}

/* Under the name of one of ours lies another file now. */
static void
test_foreign(void)
{
	char path[256], moved[256];

	prof_keep_policy_set("newest");
	prof_keep_set(prof_keep_max_files, 1);
	prof_keep_set(prof_keep_max_bytes, 0);
	write_file(40, 1, 1);
	snprintf(path, sizeof(path), "%s/f40", dir);
	snprintf(moved, sizeof(moved), "%s/mine", dir);
	is_int(rename(path, moved), 0, "moved away");
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	close(fd);
	write_file(41, 1, 1);
	ok(is_there(40), "another one of its name stays");
	write_file(42, 1, 1);
	ok(!is_there(41), "ours go");
	snprintf(path, sizeof(path), "%s/f42", dir);
	snprintf(moved, sizeof(moved), "%s/target", dir);
	is_int(rename(path, moved), 0, "moved away");
	is_int(symlink(moved, path), 0, "a link to it in its place");
	write_file(43, 1, 1);
	ok(access(path, F_OK) == 0 && access(moved, F_OK) == 0, "a link stays, and what it leads to");
}

/* Many at once: of each gap one. */
static atomic_u32_t n_granted;

static void *
ask_often(void *arg)
{
	prof_keep_turn_t turn;

	for (uint64_t i = 0; i < 20000; i++) {
		uint64_t now = atomic_fetch_add_u64(arg, 1, MO_RELAXED);
		if (i % 64 == 0)
			sched_yield(); /* this one comes late with its time */
		if (prof_keep_may(prof_kind_large, now * NSTIME_PER_MSEC / 10, &turn))
			atomic_fetch_add_u32(&n_granted, 1, MO_RELAXED);
	}
	return NULL;
}

static void
test_gap_threads(void)
{
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

/* A child has written nothing: it removes nothing. */
static void
child_body(void *arg)
{
	(void)arg;
	prof_keep_postfork_child();
	prof_keep_set(prof_keep_max_files, 1);
	write_file(31, 1, 1);
	_exit(is_there(30) && is_there(31) && prof_keep_suppressed() == 0 ? 0 : 1);
}

static void
test_child(void)
{
	static struct test_result r;

	write_file(30, 1, 1);
	prof_keep_suppress();
	is_uint(prof_keep_suppressed(), 1, "counted");
	run_forked(&r, child_body, NULL);
	child_exits(&r, 0, "a child leaves the parent's files alone");
}

int
main(void)
{
	char command[300];

	if (mkdtemp(dir) == NULL)
		bail_out("no directory");
	ok(prof_keep_governs(prof_kind_highwater) && !prof_keep_governs(prof_kind_interval)
	    && !prof_keep_governs(prof_kind_session), "our own kinds");
	test_victim();
	test_gap();
	ok(prof_keep_governs(prof_kind_interval), "and the old ones once a limit was set");
	test_files();
	test_foreign();
	test_gap_threads();
	test_child();
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	if (system(command) != 0)
		diag("%s is left", dir);
	return done_testing();
}
