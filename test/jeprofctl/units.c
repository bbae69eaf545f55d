/*
 * Units of jeprofctl that need no process: values, reasons of a refusal, answers. No test leaves a
 * descriptor open. TAP.
 */
#include "ctl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "answer.h"
#include "client/input.h"
#include "client/proc_stat.h"
#include "client/target.h"
#include "meta/image.h"
#include "talk.h"
#include "value.h"

static int count, failures;

static void
check(bool is_good, const char *what, const char *detail) {
	count++;
	failures += !is_good;
	printf("%sok %d - %s %s\n", is_good ? "" : "not ", count, what, detail);
}

static void
test_sizes(void) {
	static const struct {
		const char *text;
		uint64_t value;
	} good[] = {{"0", 0}, {"512", 512}, {"512K", 524288}, {"512k", 524288}, {"64M", 67108864},
	    {"1.5G", 1610612736}, {"2T", 2199023255552},
	    {"4KiB", 4096}, {"7B", 7}, {"0.5K", 512}, {"18446744073709551615", UINT64_MAX},
	    {"1.25K", 1280}, {"100.25K", 102656}, {"0000000000000000000000000000007", 7}};
	static const char *const bad[] = {"", "K", "-1", "+1", " 1", "1 K", "1X", "1.", ".5K", "1KB",
	    "1.2.3", "0x10", "1e3", "18446744073709551616", "99999999999T", "1Ki", "1KiBx", "1.5",
	    "1.5B", "1.K", "100.K", "1..5K", "00000000000000000000000000000007", "1KKiB"};
	uint64_t value;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		check(value_try_parse(good[i].text, size_units, &value) && value == good[i].value, "size",
		    good[i].text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		check(!value_try_parse(bad[i], size_units, &value), "no size:", bad[i]);
	}
}

static void
test_times(void) {
	static const struct {
		const char *text;
		uint64_t ms;
	} good[] = {{"30s", 30000}, {"5m", 300000}, {"2h", 7200000}, {"1d", 86400000}, {"500ms", 500},
	    {"1.5s", 1500}, {"7", 7000}, {"0", 0}};
	static const char *const bad[] = {"s", "5x", "-5s", "5 s", "5sec", "5K", "1.5ms", "5miB",
	    "5siB"};
	uint64_t value;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		check(value_try_parse(good[i].text, ms_units, &value) && value == good[i].ms, "time",
		    good[i].text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		check(!value_try_parse(bad[i], ms_units, &value), "no time:", bad[i]);
	}
}

static void
test_denials(void) {
	static const struct {
		client_denial_t denial;
		const char *part;
	} rows[] = {
	    {{.our_uid = 1000, .uid = 1000, .is_dumpable = true, .yama = 1},
	    "ptrace_scope is 1: use sudo, or start it with MALLOC_CONF=prof_ctl_fd:true"},
	    {{.our_uid = 1000, .uid = 1000, .is_dumpable = true, .yama = 2}, "ptrace_scope is 2"},
	    {{.our_uid = 0, .uid = 0, .is_dumpable = true, .may_trace = true, .yama = 3},
	    "until the next boot"},
	    {{.our_uid = 1000, .uid = 0, .is_other_user = true, .is_dumpable = true, .yama = 1},
	    "belongs to uid 0, we are uid 1000: use sudo"},
	    {{.our_uid = 1000, .uid = 1000, .yama = 1}, "not dumpable"},
	    {{.our_uid = 1000, .uid = 1000, .is_dumpable = true, .has_more_caps = true},
	    "it has capabilities that we"},
	    {{.our_uid = 0, .uid = 0, .is_dumpable = true}, "--cap-add SYS_PTRACE"},
	    {{.our_uid = 0, .uid = 0}, "not dumpable"},
	    {{.our_uid = 0, .uid = 0}, "root without CAP_SYS_PTRACE"},
	    {{.our_uid = 0, .uid = 5, .is_other_user = true, .may_trace = true, .is_dumpable = true},
	    "a security module or a user namespace"},
	    {{.our_uid = 0, .uid = 0, .may_trace = true}, "not dumpable"},
	    {{.our_uid = 0, .uid = 0, .may_trace = true}, "outside of this user namespace"},
	    {{.our_uid = 5, .uid = 0, .is_other_user = true, .is_set_id = true}, "a set-user-id"},
	    {{.our_uid = 5, .uid = 5, .is_other_group = true, .is_dumpable = true}, "its group"},
	};
	char buf[512];
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *reason = client_denial_reason(&rows[i].denial, buf, sizeof(buf));
		check(reason != NULL && strstr(reason, rows[i].part) != NULL, "denial:", rows[i].part);
	}
	client_denial_t none = {.our_uid = 1000, .uid = 1000, .is_dumpable = true};
	check(client_denial_reason(&none, buf, sizeof(buf)) == NULL, "denial:",
	    "no reason is invented");
}

static void
test_answers(void) {
	static const char text[] = "state=active\nallocated=77\nempty=\nlast=a=b";
	char buf[64];
	const char *value = jeprof_value(text, "allocated", buf, sizeof(buf));
	check(value != NULL && strcmp(value, "77") == 0, "answer:", "a value");
	value = jeprof_value(text, "last", buf, sizeof(buf));
	check(value != NULL && strcmp(value, "a=b") == 0, "answer:", "the last, with = in it");
	value = jeprof_value(text, "empty", buf, sizeof(buf));
	check(value != NULL && value[0] == '\0', "answer:", "an empty value");
	check(jeprof_value(text, "alloc", buf, sizeof(buf)) == NULL, "answer:",
	    "the beginning of a key is not the key");
	check(jeprof_value("", "a", buf, sizeof(buf)) == NULL, "answer:", "nothing in nothing");
	check(is_number("0") && is_number("12") && !is_number("012") && !is_number("")
	    && !is_number("1.5"), "numbers of JSON", "");
}

/* Sizes on both sides of each unit. */
static void
test_size_texts(void) {
	static const struct {
		uint64_t size;
		const char *text;
	} rows[] = {{0, "0"}, {1, "1"}, {1023, "1023"}, {1024, "1K"}, {1025, "1.001K"},
	    {1536, "1.5K"}, {1048575, "1024K"}, {1048576, "1M"}, {1610612736, "1.5G"},
	    {UINT64_C(1) << 40, "1T"}, {UINT64_C(1) << 50, "1P"}, {UINT64_C(1023) << 50, "1023P"},
	    {UINT64_C(1) << 60, "1E"}, {UINT64_MAX, "16E"}};
	char buf[24];
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		check(strcmp(size_text(rows[i].size, buf), rows[i].text) == 0, "size_text",
		    rows[i].text);
	}
}

/* Of today a time is told alone, of any other day with its date: also of the same day last year. */
static void
test_time_texts(void) {
	static const int days[] = {-1, 1, -365, -366, 365, 366};
	char buf[40], want[40];
	time_t now = time(NULL), midnight = now - now % 86400;
	struct tm t;
	check(strcmp(time_text(0, buf), "1970-01-01 00:00:00Z") == 0, "time_text", buf);
	check(strcmp(time_text(UINT64_C(1700000000999999999), buf), "2023-11-14 22:13:20Z") == 0,
	    "time_text", buf);
	for (size_t i = 0; i < sizeof(days) / sizeof(days[0]); i++) {
		time_t then = midnight + days[i] * 86400 + 43200;
		strftime(want, sizeof(want), "%Y-%m-%d 12:00:00Z", gmtime_r(&then, &t));
		check(strcmp(time_text((uint64_t)then * 1000000000, buf), want) == 0, "time_text", buf);
	}
	time_text((uint64_t)midnight * 1000000000 + 3661000000000, buf);
	check(strcmp(buf, "01:01:01Z") == 0 || time(NULL) / 86400 != now / 86400, "time_text", buf);
}

/* Which texts of the process are "ERRNO PATH BYTES", alone or behind a colon. */
static void
test_failure_texts(void) {
	static const struct {
		const char *text, *told;
	} rows[] = {{"ENOSPC /a 12", "ENOSPC /a, after 12 bytes"},
	    {"E2BIG /a b 0", "E2BIG /a b, after 0 bytes"},
	    {"the profile could not be written: EFBIG /a 1000",
	    "the profile could not be written: EFBIG /a, after 1000 bytes"},
	    {"a: b: EIO /c 1", "a: b: EIO /c, after 1 bytes"},
	    {"ENOSPC 12", NULL}, {"ENOSPC /a 012", NULL}, {"ENOSPC /a 12x", NULL},
	    {"ENOSPC /a ", NULL}, {"ENOSPC", NULL}, {"Enospc /a 12", NULL}, {"XENOSPC /a 12", NULL},
	    {"", NULL}, {"a text: Else 1 2", NULL}, {"12", NULL}};
	char buf[200];
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *want = rows[i].told != NULL ? rows[i].told : rows[i].text;
		check(strcmp(failure_text(rows[i].text, buf, sizeof(buf)), want) == 0, "failure:",
		    rows[i].text);
	}
}

/* The exit code of a child that ends by it; it prints nothing. */
static int
code_of(void (*end)(jeprof_target_t *t, int error), int error) {
	static jeprof_target_t t = {.pid = 7, .fd = -1, .name = "x", .why = "why"};
	int status = -1;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);
		dup2(null, 1);
		dup2(null, 2);
		end(&t, error);
		_exit(99);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
end_by_client(jeprof_target_t *t, int error) {
	leave_failed(t, error);
}

/* An answer of the process. */
static void
end_by_answer(jeprof_target_t *t, int error) {
	static jeprof_reply_t r;
	r.error = error;
	_exit(fail(t, &r));
}

/* The exit code for each errno, of this side and of the process. */
static void
test_codes(void) {
	for (int error = 1; error < 134; error++) {
		int ours = error == ESRCH || error == ENXIO || error == EPROTO || error == EACCES
		    ? EXIT_NO_WAY : error == ETIMEDOUT || error == EBUSY ? EXIT_NO_ANSWER
		    : error == E2BIG ? EXIT_USAGE : EXIT_FAILED;
		int theirs = error == EALREADY ? EXIT_ALREADY : error == EINVAL ? EXIT_USAGE
		    : error == EPERM ? EXIT_REFUSED : error == EBUSY ? EXIT_NO_ANSWER : EXIT_FAILED;
		if (code_of(end_by_client, error) != ours || code_of(end_by_answer, error) != theirs) {
			check(false, "exit code:", strerror(error));
		}
	}
	check(true, "exit code:", "of each errno");
}

/* The longest directory that has room, and longer ones, which are refused and not cut. */
static void
test_directories(void) {
	static jeprof_target_t t;
	static char dir[sizeof(t.dir) + 2];
	for (size_t n = sizeof(t.dir) - 2; n < sizeof(dir); n++) {
		memset(dir, 'd', n);
		dir[n] = '\0';
		int error = jeprof_open_dir(&t, dir);
		check(n < sizeof(t.dir) ? error == 0 && strcmp(t.dir, dir) == 0 : error == E2BIG,
		    "directory:", n < sizeof(t.dir) ? "it has room" : "too long");
	}
}

/* The memory of a target may hold anything: what a failed or a first look leaves is the same. */
static void
test_find(void) {
	static jeprof_target_t t[2];
	static const jeprof_head_t no_head;
	static const jeprof_target_t none;
	int pids[] = {(int)getpid(), 1 << 22};
	for (size_t i = 0; i < sizeof(pids) / sizeof(pids[0]); i++) {
		memset(&t[0], 0xff, sizeof(t[0]));
		memset(&t[1], 0x5a, sizeof(t[1]));
		int error = jeprof_find(&t[0], pids[i]), again = jeprof_find(&t[1], pids[i]);
		check(error == again && error == (i == 0 ? 0 : ESRCH) && strcmp(t[0].why, t[1].why) == 0,
		    "find:", t[0].why);
		check(memcmp(&t[0].head, &no_head, sizeof(no_head)) == 0 && t[0].dir[0] == '\0'
		    && t[0].way == jeprof_way_none, "find:", "no head, no way");
		check(memcmp(&t[0], &t[1], offsetof(jeprof_target_t, dir)) == 0, "find:", "the identity");
		check(t[0].fd == -1 && memcmp(&t[0].block, &none.block, sizeof(none)
		    - offsetof(jeprof_target_t, block)) == 0, "find:", "no request");
	}
}

/* The name of a process may look like what is behind it. */
static void
test_stat(void) {
	static const char rest[] = " S 5 6 7 8 -1 4194560 9 0 0 0 1 2 0 0 20 -3 3 0 777 8888 99 0 1 2";
	static const char *const names[] = {"a", "a b c", "x) Z 1 2", "))) (", "a\n7 (b) Z", ""};
	static const char *const brief[] = {"42 (a) S 5 6",
	    "42 (a) S 5 6 7 8 -1 4194560 9 0 0 0 1 2 0 0 20 -3 3 0", "42 (a) ", "42 (a)", "42", ""};
	char text[256];
	proc_stat_t s;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(text, sizeof(text), "42 (%s)%s\n", names[i], rest);
		check(proc_stat_parse(text, &s) == 0 && s.state == 'S' && s.flags == 4194560
		    && s.threads == 3 && s.start == 777 && s.pages == 99 && s.status == 0, "stat:", rest);
	}
	for (size_t i = 0; i < sizeof(brief) / sizeof(brief[0]); i++) {
		snprintf(text, sizeof(text), "%s", brief[i]);
		check(proc_stat_parse(text, &s) == ESRCH, "stat: too short:", text);
	}
}

/* One that has ended and was not waited for: it is not found, or no more, and its end is told. */
static void
test_ended(void) {
	static jeprof_target_t t, before;
	siginfo_t end;
	struct rlimit limit;
	int to_end[2];
	char byte;
	if (pipe(to_end) != 0) {
		return;
	}
	pid_t pid = fork();
	if (pid == 0) {
		close(to_end[1]);
		_exit(read(to_end[0], &byte, 1) != 0);
	}
	int found = jeprof_find(&before, pid), lives = jeprof_check_same(&before);
	check(found == 0 && lives == 0 && before.task == pid, "a child that lives:", before.why);
	close(to_end[1]);
	waitid(P_PID, (id_t)pid, &end, WEXITED | WNOWAIT);
	int error = jeprof_find(&t, pid);
	check(error == ESRCH && strstr(t.why, "has ended; its parent has not yet fetched") != NULL,
	    "one that has ended:", t.why);
	check(jeprof_task(pid) == pid && t.task == pid, "its task", "is its first");
	/* With a descriptor for its threads, and none for what each of them is. */
	int next = dup(to_end[0]);
	getrlimit(RLIMIT_NOFILE, &limit);
	close(next);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next + 1, limit.rlim_max});
	error = jeprof_find(&t, pid);
	setrlimit(RLIMIT_NOFILE, &limit);
	check(error == EMFILE && strstr(t.why, "threads cannot be listed") != NULL,
	    "one descriptor is left:", t.why);
	close(to_end[0]);
	error = jeprof_check_same(&before);
	check(error == ESRCH && strstr(before.why, " has ended") != NULL, "since it was found:",
	    before.why);
	waitpid(pid, NULL, 0);
	error = jeprof_check_same(&before);
	check(error == ESRCH && strstr(before.why, " has ended") != NULL, "and was waited for:",
	    before.why);
	error = jeprof_find(&t, pid);
	check(error == ESRCH && strstr(t.why, "no process ") == t.why, "which is none:", t.why);
}

/* Without a descriptor nothing is told of a process, not even that it has ended. */
static void
test_no_descriptors(void) {
	static jeprof_target_t t, other;
	struct rlimit limit, none;
	int error = jeprof_find(&t, getpid());
	getrlimit(RLIMIT_NOFILE, &limit);
	none = (struct rlimit){0, limit.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	int same = jeprof_check_same(&t), find = jeprof_find(&other, getpid());
	setrlimit(RLIMIT_NOFILE, &limit);
	check(error == 0 && same == EMFILE && find == EMFILE, "no descriptor is left:", other.why);
	check(jeprof_check_same(&t) == 0, "no descriptor is left:", "they are back");
}

/* ---- leases ---- */

static prof_mailbox_t mailbox;
static prof_lease_t states[16]; /* of the lease, from before the renewal on */
static unsigned nstates;

bool __real_client_write_memory(const jeprof_target_t *t, uint64_t at, const void *buf,
    size_t size);
bool __wrap_client_write_memory(const jeprof_target_t *t, uint64_t at, const void *buf,
    size_t size);

bool
__wrap_client_write_memory(const jeprof_target_t *t, uint64_t at, const void *buf, size_t size) {
	bool is_written = __real_client_write_memory(t, at, buf, size);
	states[nstates++ % 16] = mailbox.leases[0];
	return is_written;
}

/* Whenever the process reads the end and then the span, it finds a lease that holds. */
static void
test_renewal(uint64_t before_ms, uint64_t after_ms, const char *what) {
	static jeprof_target_t t;
	unsigned nover = 0;
	t = (jeprof_target_t){.pid = getpid(), .task = getpid(), .block = (uintptr_t)&mailbox,
	    .sequence = 1, .way = jeprof_way_calls};
	client_begin_lease(&t, 0, 1);
	client_renew_lease(&t, before_ms);
	states[0] = mailbox.leases[0];
	nstates = 1;
	uint64_t least = client_lease_end(&t, after_ms);
	client_renew_lease(&t, after_ms);
	for (unsigned i = 0; i < nstates; i++) {
		for (unsigned k = i; k < nstates; k++) {
			prof_lease_t seen = {1, states[k].span_ms, states[i].until_ms};
			nover += client_is_lease_over(&t, &seen);
		}
	}
	uint64_t until_ms = mailbox.leases[0].until_ms;
	check(nover == 0 && nstates > 1, "no lease is over while it is renewed:", what);
	check(until_ms >= least && until_ms <= client_lease_end(&t, after_ms), "its end:", what);
	check((mailbox.leases[0].span_ms == 0) == (after_ms == 0), "whether it has one:", what);
}

static void
test_leases(void) {
	/* So long that none ends while this test is kept from running. */
	test_renewal(1000000, 1000000, "the same");
	test_renewal(1000000, 10000000, "longer");
	test_renewal(10000000, 1000000, "shorter");
	test_renewal(10000000, 0, "for ever");
}

/* ---- the wait for the first allocation ---- */

static volatile sig_atomic_t signals;

static void
count_signal(int number) {
	(void)number;
	signals++;
}

/* A young process, which does not allocate: the wait for it ends when `patience` signals came. */
static void
test_patience(sig_atomic_t patience, const char *what) {
	static jeprof_target_t t;
	struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
	jeprof_request_t wait = {.text = "status", .wait_ms = 1000000, .interrupts = &signals,
	    .patience = patience};
	pid_t pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	signals = 1;
	signal(SIGALRM, count_signal);
	setitimer(ITIMER_REAL, patience > 1 ? &often : &never, NULL);
	int error = jeprof_find(&t, pid);
	error = error != 0 ? error : jeprof_open(&t, &wait);
	setitimer(ITIMER_REAL, &never, NULL);
	check(error == EINTR && signals >= patience, what, t.why);
	jeprof_close(&t);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A restart line in less room than it needs: it is cut, and nothing is written behind that. */
static void
test_restart_line(void) {
	static jeprof_target_t t;
	char buf[512];
	bool is_whole = jeprof_find(&t, (int)getpid()) == 0;
	for (size_t size = 16; size < sizeof(buf); size++) {
		memset(buf, 'x', sizeof(buf));
		client_restart_line(&t, buf, size);
		size_t used = strnlen(buf, size);
		is_whole = is_whole && used < size;
		for (size_t i = size; i < sizeof(buf); i++) {
			is_whole = is_whole && buf[i] == 'x';
		}
	}
	check(is_whole, "a restart line", "in each room");
}

static void
test_withdrawn(void) {
	static const struct {
		jeprof_withdrawn_t w;
		const char *text;
	} cases[] = {{{1, 0}, "the pending start was taken back"},
	    {{0, 1}, "the pending set was taken back"},
	    {{0, 3}, "pending requests were taken back (start: 0, set: 3)"},
	    {{1, 2}, "pending requests were taken back (start: 1, set: 2)"}};
	char buf[80];
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		jeprof_withdrawn_text(&cases[i].w, buf);
		check(strcmp(buf, cases[i].text) == 0, "withdrawn:", cases[i].text);
	}
}

/* ---- files below another root ---- */

static bool has_no_openat2;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

long
__wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
#ifdef SYS_openat2
	if (number == SYS_openat2 && has_no_openat2) {
		errno = ENOSYS;
		return -1;
	}
#endif
	return __real_syscall(number, a, b, c, d, e, f);
}

/* A process in a chroot that has dir/file, and links to it; -1 if there may be none. */
static pid_t
start_jailed(void) {
	int pipes[2];
	char is_in = 0;
	if (mkdir("jail", 0700) != 0 || mkdir("jail/dir", 0700) != 0 || mkdir("up", 0700) != 0
	    || close(creat("jail/dir/file", 0600)) != 0 || symlink("/up", "jail/dir/absolute") != 0
	    || symlink("file", "jail/dir/relative") != 0 || symlink("/dev/null", "jail/null") != 0
	    || pipe(pipes) != 0) {
		return -1;
	}
	pid_t pid = fork();
	if (pid == 0) {
		is_in = chroot("jail") == 0 || (unshare(CLONE_NEWUSER) == 0 && chroot("jail") == 0);
		_exit(write(pipes[1], &is_in, 1) != 1 || !is_in || pause());
	}
	close(pipes[1]);
	bool is_told = read(pipes[0], &is_in, 1) == 1;
	close(pipes[0]);
	if (!is_told || !is_in) {
		waitpid(pid, NULL, 0);
		return -1;
	}
	return pid;
}

/* Without openat2, what is found is what the process sees, or it is said that this is not known. */
static void
test_below(void) {
	static const struct {
		const char *path;
		int error;
	} cases[] = {{"/dir/file", 0}, {"//dir/./file", 0}, {"/", 0}, {"/dir/", 0}, {"/none", ENOENT},
	    {"/none/file", ENOENT}, {"/dir/file/", ENOTDIR}, {"/null", ENOSYS},
	    {"/dir/relative", ENOSYS}, {"/dir/absolute/..", ENOSYS}, {"/../up", ENOSYS}};
	char buf[2 * PATH_MAX], ours[PATH_MAX];
	struct stat st, wanted;
	pid_t pid = start_jailed();
	jeprof_target_t t = {.pid = pid, .task = pid};
	if (pid < 0) {
		return; /* no chroot here */
	}
	has_no_openat2 = true;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int error = jeprof_find_below(&t, cases[i].path, buf, sizeof(buf), &st);
		snprintf(ours, sizeof(ours), "jail%s", cases[i].path);
		check(error == cases[i].error && (error != 0 || (stat(ours, &wanted) == 0
		    && wanted.st_ino == st.st_ino && jeprof_leads_to(buf, &wanted))),
		    "below another root:", cases[i].path);
	}
	has_no_openat2 = false;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- descriptors ---- */

static bool has_closed_fds; /* of a process of another user */
static pid_t next_task;     /* the thread that the next check finds; 0: as it is */

DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
int __real_jeprof_check_same(jeprof_target_t *t);
int __wrap_jeprof_check_same(jeprof_target_t *t);

DIR *
__wrap_opendir(const char *path) {
	size_t length = strlen(path);
	if (has_closed_fds && length > 3 && strcmp(path + length - 3, "/fd") == 0) {
		errno = EACCES;
		return NULL;
	}
	return __real_opendir(path);
}

int
__wrap_jeprof_check_same(jeprof_target_t *t) {
	int error = __real_jeprof_check_same(t);
	t->task = next_task != 0 ? next_task : t->task;
	next_task = 0;
	return error;
}

/* Only a memory file that cannot shrink is a box, and it is found in both ways. */
static void
test_box(void) {
	static jeprof_target_t t;
	struct stat made, found = {0};
	jeprof_find(&t, getpid());
	for (int i = 0; i < 4; i++) {
		has_closed_fds = i >= 2;
		int seals = i % 2 == 0 ? F_SEAL_GROW : F_SEAL_SHRINK;
		int fd = memfd_create(IMAGE_FD_NAME, MFD_ALLOW_SEALING | MFD_CLOEXEC);
		fcntl(fd, F_ADD_SEALS, seals);
		errno = 0;
		int box = jeprof_box_open(&t), error = errno;
		if (has_closed_fds && error != ENOENT && box < 0) {
			printf("# descriptors may not be copied: %s\n", strerror(error));
		} else if (seals == F_SEAL_GROW) {
			check(box < 0 && error == ENOENT, "a box:", "not what may shrink");
		} else {
			check(box >= 0 && box != fd && fstat(fd, &made) == 0 && fstat(box, &found) == 0
			    && made.st_ino == found.st_ino, "a box:", "found");
		}
		close(box);
		close(fd);
	}
	has_closed_fds = false;
}

/* This program does not run the library; the thread that is looked at may end meanwhile. */
static void
test_open(void) {
	static jeprof_target_t t;
	pid_t child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	for (int i = 0; i < 2; i++) {
		next_task = i == 0 ? 0 : child;
		int error = jeprof_find(&t, getpid());
		error = error != 0 ? error : jeprof_open(&t, NULL);
		check(error == ENXIO && t.fd < 0 && t.way == jeprof_way_none, "no library:", t.why);
	}
	jeprof_find(&t, getpid());
	check(jeprof_probe(&t) == ENXIO, "no mailbox:", t.why);
	jeprof_close(&t);
	check(t.fd < 0 && t.way == jeprof_way_none, "no mailbox:", "closed");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

/* Nobody takes the command, and the status file is the answer to somebody else. */
static void
test_ask_dir(void) {
	static jeprof_target_t t;
	static jeprof_reply_t reply;
	static const volatile sig_atomic_t interrupted = 1;
	jeprof_request_t r = {.text = "status", .interrupts = &interrupted, .patience = 1};
	char name[40];
	snprintf(name, sizeof(name), "%d.status", (int)getpid());
	FILE *status = fopen(name, "w");
	fprintf(status, "nonce=5 error=0\nstate=idle\n");
	fclose(status);
	int error = jeprof_find(&t, getpid());
	chmod(".", 0700);
	error = error != 0 ? error : jeprof_open_dir(&t, ".");
	error = error != 0 ? error : jeprof_ask(&t, &r, &reply);
	check(error == EINTR && strstr(t.why, "taken back") != NULL, "a control directory:", t.why);
	snprintf(name, sizeof(name), "%d.cmd", (int)getpid());
	check(access(name, F_OK) != 0, "a control directory:", "it is empty again");
	jeprof_close(&t);
}

static void
count_process(jeprof_target_t *t, void *arg) {
	*(int *)arg += t->pid == getppid();
}

static void
test_each(void) {
	static jeprof_target_t t;
	int n = 0;
	check(jeprof_each(count_process, &n) == 0 && n == 1, "each process:", "once");
	jeprof_find(&t, getpid());
	int error = jeprof_check_box(&t, 0);
	check(error == 0 || error == EPERM, "a box without a byte:", "there is room, or a filter");
}

static void
test_input(void) {
	const char *why = "";
	check(mkfifo("pipe", 0600) == 0 && client_open_input("pipe", 1, &why) < 0
	    && strstr(why, "nobody") != NULL, "a pipe without a writer:", why);
}

static int
descriptors(void) {
	int n = 0;
	DIR *dir = __real_opendir("/proc/self/fd");
	while (dir != NULL && readdir(dir) != NULL) {
		n++;
	}
	closedir(dir);
	return n;
}

static void
test_states(void) {
	static const char *const texts[] = {"idle", "session 7", "session 7, stopping",
	    "session 7, paused", "sampling (MALLOC_CONF)", "sampling (switched on by the program)",
	    "unknown"};
	char buf[64];
	for (uint32_t state = 0; state < sizeof(texts) / sizeof(texts[0]); state++) {
		const char *word = jeprof_state_word(state);
		check(strcmp(state_text(word, 7, buf), texts[state]) == 0, "state:", word);
		check(is_session(word) == (strncmp(texts[state], "session", 7) == 0)
		    && is_session(word) == jeprof_is_session(state), "whether it is a session:", word);
	}
	check(!is_session("pending") && strcmp(state_text("pending", 7, buf), "pending") == 0,
	    "state:", "pending");
}

static void
test_layout(void) {
	check(offsetof(prof_mailbox_t, slots) == 128 && offsetof(prof_slot_t, answered) == 24
	    + PROF_MAILBOX_TEXT && sizeof(prof_mailbox_t) <= PROF_MAILBOX_BYTES, "layout",
	    "of the mailbox, which must never change in one version");
}

static void
test_signals(void) {
	test_patience(0, "the first signal:");
	test_patience(3, "the third signal:");
}

int
main(void) {
	static void (*const tests[])(void) = {test_sizes, test_times, test_denials, test_answers,
	    test_size_texts, test_time_texts, test_failure_texts, test_codes, test_directories,
	    test_find, test_stat, test_ended, test_no_descriptors, test_leases, test_signals,
	    test_withdrawn, test_below, test_box, test_open, test_ask_dir, test_each, test_input,
	    test_restart_line, test_states, test_layout};
	char what[16];
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		int before = descriptors();
		tests[i]();
		snprintf(what, sizeof(what), "%zu", i);
		check(descriptors() == before, "no descriptor is left open by test", what);
	}
	printf("1..%d\n", count);
	return failures != 0;
}
