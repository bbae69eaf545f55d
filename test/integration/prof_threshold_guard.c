/*
 * What holds thresholds back: the gap between two profiles of a kind, the caps on files and bytes,
 * which files stay, the older automatic kinds, values that are refused; and what a forked child
 * does.
 */
#include "dumps.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#define K ((size_t)1024)
#define M (K * K)

static const char *no_options;

static unsigned
n_of(char kind) {
	return dumps_read(kind);
}

static void
set(const char *name, uint64_t v) {
	is_int(ctl_write(name, v), 0, "%s := %llu", name, (unsigned long long)v);
}

static uint64_t
now_ms(void) {
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ------------------------------------------------------------------ storms */

/* Doubles its memory a thousand times a second, and sets all of it off each time. */
static void
double_up(unsigned times) {
	for (unsigned i = 0; i < times; i++) {
		void *p[5];

		for (unsigned k = 0; k < 5; k++)
			p[k] = keep(malloc(M << k));
		for (unsigned k = 0; k < 5; k++)
			free(p[k]);
		ctl_void("prof.threshold.rearm");
		usleep(1000);
	}
}

static void
storm(void) {
	const char kinds[] = {'a', 'l', 'h'};
	uint64_t began = now_ms();

	set("prof.threshold.alloc", M);
	set("prof.threshold.large", 4 * M);
	set("prof.threshold.highwater_step", M);
	set("prof.threshold.highwater", 2 * M);
	double_up(500);
	/* of 100 ms, begun; the other clock is a tick behind */
	uint64_t gaps = (now_ms() - began) / 100 + 1;
	unsigned written = 0;

	for (unsigned i = 0; i < 3; i++) {
		unsigned n = n_of(kinds[i]);
		ok(n >= 1, "kind %c: %u files stay", kinds[i], n);
	}
	unsigned all = dumps_read('*');
	ok(all <= 20, "%u files are no more than prof_dump_max_files", all);
	written = dumps.v[all - 1].seq + 1;
	ok(written <= 3 * (gaps + 1), "%u were written in %llu gaps", written,
	    (unsigned long long)gaps);
	uint64_t suppressed = ctl_u64("prof.dump_suppressed");
	/* 500 times: at least 5 for allocated bytes, 3 large requests. */
	ok(suppressed + written >= 4000, "%llu were left out", (unsigned long long)suppressed);
	is_int(ctl_void("prof.dump"), 0, "one by hand");
	n_of('m');
	is_uint(dump_number(0, "suppressed"), ctl_u64("prof.dump_suppressed"),
	    "says how many were left out");
	ok(dump_number(0, "suppressed") >= suppressed, "all of them");
}

static void *
storm_thread(void *arg) {
	(void)arg;
	for (unsigned i = 0; i < 3000; i++)
		free(keep(malloc(M)));
	return NULL;
}

/* Many threads at once: of each gap one profile. */
static void
storm_of_threads(void) {
	pthread_t t[8];

	set("prof.threshold.large", M);
	for (unsigned i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, storm_thread, NULL);
	for (unsigned i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	is_uint(n_of('l'), 1, "24000 large requests in a gap of an hour: one profile");
	is_uint(ctl_u64("prof.dump_suppressed"), 23999, "the rest is counted");
}

static void
cap_on_bytes(void) {
	uint64_t bytes = 0;
	struct stat st;

	set("prof.threshold.large", M);
	for (unsigned i = 0; i < 50; i++)
		free(keep(malloc(M)));
	unsigned n = n_of('l');
	for (unsigned i = 0; i < n; i++) {
		if (stat(dumps.v[i].name, &st) == 0)
			bytes += (uint64_t)st.st_size;
	}
	ok(n >= 3 && n < 50, "%u of 50 files are there", n);
	ok(bytes <= 64 * K, "%llu bytes are no more than prof_dump_max_bytes",
	    (unsigned long long)bytes);
	is_uint(dumps.v[0].seq, 0, "the first is among them");
	is_uint(dumps.v[n - 1].seq, 49, "and the last");
}

/* ------------------------------------------------------------------ which files stay */

/* 30 profiles; live memory is highest at the 12th. */
static void
make_thirty(void) {
	void *p[31];

	for (unsigned i = 0; i < 30; i++) {
		p[i] = keep(malloc(i < 12 ? 2 * M : 100 * K));
		free(keep(malloc(4 * M))); /* fires */
		if (i == 12) {
			for (unsigned k = 0; k < 12; k++)
				free(p[k]);
		}
	}
	for (unsigned i = 12; i < 30; i++)
		free(p[i]);
}

static void
plant(const char *name) {
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);

	ok(fd >= 0 && write(fd, "mine\n", 5) == 5, "a file of the same pattern is planted: %s", name);
	close(fd);
}

static void
retention(void) {
	char planted[3][100];

	snprintf(planted[0], 100, "jeprof.%d.20200101T000000.000Z.3.l3.heap", (int)getpid());
	snprintf(planted[1], 100, "jeprof.%d.20990101T000000.000Z.3.l3.heap", (int)getpid());
	snprintf(planted[2], 100, "jeprof.%d.0.l0.heap", (int)getpid());
	for (unsigned i = 0; i < 3; i++)
		plant(planted[i]);
	set("prof.dump_max_files", 7); /* they count */
	is_str(ctl_str("prof.dump_keep"), "first_peak_last", "the policy");
	set("prof.threshold.large", 4 * M);
	make_thirty();
	for (unsigned i = 0; i < 3; i++)
		is_int(unlink(planted[i]), 0, "a planted file is still there");
	is_uint(n_of('l'), 4, "four files");
	is_uint(dumps.v[0].seq, 0, "the first");
	ok(dumps.v[1].seq == 11 || dumps.v[1].seq == 12, "the peak: number %u", dumps.v[1].seq);
	is_uint(dumps.v[2].seq, 28, "and the newest");
	is_uint(dumps.v[3].seq, 29, "two");
	unsigned long long peak = dump_number(1, "allocated");
	for (unsigned i = 0; i < 4; i++)
		ok(i == 1 || dump_number(i, "allocated") < peak, "the peak has most live bytes");
}

static void
retention_newest(void) {
	const char *newest = "newest";

	is_int(ctl_write("prof.dump_keep", newest), 0, "prof.dump_keep := newest");
	set("prof.dump_max_files", 4);
	set("prof.threshold.large", 4 * M);
	make_thirty();
	is_uint(n_of('l'), 4, "four files");
	for (unsigned i = 0; i < 4; i++)
		is_uint(dumps.v[i].seq, 26 + i, "the newest");
}

/* Other kinds than those that the guard holds are never removed. */
static void
by_hand(void) {
	set("prof.threshold.large", 4 * M);
	for (unsigned i = 0; i < 10; i++) {
		is_int(ctl_void("prof.dump"), 0, "by hand");
		free(keep(malloc(4 * M)));
	}
	is_uint(n_of('m'), 10, "all that were asked for are there");
	is_uint(n_of('l'), 2, "of the others as many as may");
	is_int(ctl_write("prof.session.start", no_options), 0, "a session");
	is_int(ctl_void("prof.session.stop"), 0, "ends");
	is_uint(n_of('s'), 1, "its profile stays");
}

/* ------------------------------------------------------------------ the older kinds */

static void
churn(void) {
	for (unsigned i = 0; i < 1000; i++)
		free(keep(malloc(40000)));
}

static void
interval_free(void) {
	churn();
	unsigned n = n_of('i');
	ok(n >= 36 && n <= 39, "40 MB, each MiB: %u profiles, none held back", n);
	is_uint(ctl_u64("prof.dump_suppressed"), 0, "nothing was left out");
	set("prof.dump_min_gap_ms", 3600000);
	churn();
	is_uint(n_of('i'), n + 1, "a limit was set: it holds for them too");
	ok(ctl_u64("prof.dump_suppressed") >= 35, "what was left out is counted");
}

/* Requests of many heartbeats each. */
static void
interval_of_large(void) {
	size_t bytes = 0;

	for (unsigned i = 0; i < 1000; i++) {
		void *p = keep(malloc(300000));
		bytes += malloc_usable_size(p);
		free(p);
	}
	unsigned n = n_of('i');
	ok(n >= bytes / M - 8 && n <= bytes / M, "%zu MiB in large requests, each MiB: %u profiles",
	    bytes / M, n);
}

static void
interval_limited(void) {
	churn();
	is_uint(n_of('i'), 1, "a limit among the options: one in an hour");
	ok(ctl_u64("prof.dump_suppressed") >= 35, "what was left out is counted");
}

static void
interval_files(void) {
	churn();
	is_uint(n_of('i'), 3, "prof_dump_max_files holds for them when it is given");
}

static void
gdump_limited(void) {
	void *p[100];

	for (unsigned i = 0; i < 100; i++)
		p[i] = keep(malloc(M));
	is_uint(n_of('u'), 1, "new maxima: one in an hour");
	ok(ctl_u64("prof.dump_suppressed") >= 5, "the others are counted: %llu",
	    (unsigned long long)ctl_u64("prof.dump_suppressed"));
	for (unsigned i = 0; i < 100; i++)
		free(p[i]);
}

/* One buffer that realloc moves or grows: each maximum has its profile, the last one too. */
static void
gdump_grown(void) {
	void *p = NULL;

	for (unsigned i = 1; i <= 64; i *= 2) {
		unsigned before = n_of('u');
		p = keep(realloc(p, i * 8 * M));
		ok(n_of('u') == before + 1, "grown to %u MB", i * 8);
	}
	free(p);
}

/* A cap on files is no gap, and one on bytes neither. */
static void
interval_no_gap(void) {
	churn();
	unsigned n = n_of('i');
	ok(n >= 36 && n <= 39, "40 MB, each MiB: %u profiles", n);
	is_uint(ctl_u64("prof.dump_suppressed"), 0, "nothing was left out");
}

/* ------------------------------------------------------------------ who else writes */

/* 30 children of one process, each with three large requests. */
static void
family(void) {
	unsigned n_bad = 0;

	for (unsigned i = 0; i < 30; i++) {
		pid_t pid = fork();
		int status;

		if (pid == 0) {
			for (unsigned k = 0; k < 3; k++)
				free(keep(malloc(4 * M)));
			_exit(0);
		}
		waitpid(pid, &status, 0);
		n_bad += status != 0;
	}
	is_uint(n_bad, 0, "30 children end well");
	is_uint(n_of('l'), 5, "five files of all stay");
}

/* The same program again, in the same directory: what lies there counts, and stays. */
static void
restarted(void) {
	static struct test_result r;
	char first[260];

	for (unsigned i = 0; i < 4; i++) {
		run_child_conf(&r, "write_three",
		    "prof:true,prof_threshold_large:4M,prof_dump_min_gap_ms:0,prof_dump_max_files:5");
		child_exits(&r, 0, "run %u", i);
		if (i == 0) {
			is_uint(n_of('l'), 3, "the first run leaves three");
			strcpy(first, dumps.v[0].name);
		} else {
			is_uint(n_of('l'), 5, "five stay of all");
			is_int(access(first, F_OK), 0, "those from before among them");
		}
		is_int(strstr(r.out, "no more is written") != NULL, i >= 2,
		    "and is told where nothing may be written");
		is_int(strstr(r.out, "suppressed 3") != NULL, i >= 2, "and counted");
	}
}

static void
write_three(void) {
	for (unsigned k = 0; k < 3; k++)
		free(keep(malloc(4 * M)));
	printf("suppressed %llu\n", (unsigned long long)ctl_u64("prof.dump_suppressed"));
	fflush(stdout);
}

/* ----------------------------------------------------------------- due while another is written */

static atomic_bool hook_waits, hook_is_in;

/* The profile that is just written takes as long as the test likes. */
static void
slow_hook(const char *path) {
	(void)path;
	hook_is_in = true;
	while (hook_waits)
		usleep(1000);
}

static void *
dump_slowly(void *arg) {
	(void)arg;
	ctl_void("prof.dump");
	return NULL;
}

/* What came due meanwhile is one profile afterwards, and the others are counted. */
static void
overlapping(void) {
	static struct test_result r;

	run_child_conf(&r, "overlap", "prof:true,lg_prof_interval:20");
	child_exits(&r, 0, "intervals pass while a profile is written");
	contains(r.out, " automatic profiles came due while another one was written",
	    "said at the end");
}

static void
overlap(void) {
	void (*hook)(const char *) = slow_hook;
	pthread_t t;

	is_int(ctl_write("experimental.hooks.prof_dump", hook), 0, "a hook");
	hook_waits = true;
	pthread_create(&t, NULL, dump_slowly, NULL);
	while (!hook_is_in)
		usleep(1000);
	unsigned before = n_of('i');
	churn(); /* 40 MB and more */
	is_uint(n_of('i'), before, "nothing is written meanwhile");
	uint64_t left_out = ctl_u64("prof.dump_suppressed");
	ok(left_out >= 36, "what came due is counted: %llu", (unsigned long long)left_out);
	hook_waits = false;
	pthread_join(t, NULL);
	free(keep(malloc(100000)));
	is_uint(n_of('i'), before + 1, "one is written when it can be");
	is_uint(ctl_u64("prof.dump_suppressed"), left_out - 1, "which is not left out any more");
	is_uint(dump_number(before, "overlapped"), left_out - 1, "and says how many were");
	is_uint(dump_number(before, "suppressed"), left_out - 1, "as part of all");
}

/* ------------------------------------------------------------------ values that are refused */

static void
refused(void) {
	static const char *const numbers[] = {
		"prof.threshold.alloc", "prof.threshold.large", "prof.threshold.highwater",
		"prof.threshold.highwater_step", "prof.threshold.time_ms", "prof.dump_min_gap_ms",
		"prof.dump_max_files", "prof.dump_max_bytes",
	};
	static const char *const texts[] = {"prof.threshold.highwater_metric", "prof.dump_keep"};
	const char *none = NULL, *moon = "moon", *empty = "", *longer = "allocatedx", *shorter =
	    "allocate";
	uint64_t big = 12345678;

	for (unsigned i = 0; i < 8; i++) {
		is_int(ctl_write(numbers[i], big), 0, "%s", numbers[i]);
		is_int(mallctl(numbers[i], NULL, NULL, &big, 4), EINVAL, "a wrong length");
		is_int(mallctl(numbers[i], NULL, NULL, &big, 0), EINVAL, "no length");
		is_uint(ctl_u64(numbers[i]), 12345678, "the old value stays");
	}
	for (unsigned i = 0; i < 2; i++) {
		char before[32];

		snprintf(before, sizeof(before), "%s", ctl_str(texts[i]));
		is_int(ctl_write(texts[i], moon), EINVAL, "%s: an unknown word", texts[i]);
		is_int(ctl_write(texts[i], empty), EINVAL, "an empty one");
		is_int(ctl_write(texts[i], longer), EINVAL, "one too long");
		is_int(ctl_write(texts[i], shorter), EINVAL, "one too short");
		is_int(ctl_write(texts[i], none), EINVAL, "NULL");
		is_str(ctl_str(texts[i]), before, "the old value stays");
	}
	is_int(mallctl("prof.threshold.rearm", NULL, NULL, &big, sizeof(big)), EPERM,
	    "rearm takes nothing");
	static const char *options[] = {
		"alloc:", "alloc:x", "alloc:1T", "alloc:-1", "alloc:1K1", "large:99999999999999999999",
		    "large:0x10",
		"highwater:1M,", ",highwater:1M", "highwater_metric:moon", "highwater_metric:",
		    "time_ms:1K",
		"time_ms:1s", "step:1", "threshold_alloc:1M", "alloc=1M", "alloc", "highwater:1M,,large:1M",
	};
	uint64_t rejected = ctl_u64("prof.session.id");

	for (unsigned i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		is_int(ctl_write("prof.session.start", options[i]), EINVAL, "session option %s",
		    options[i]);
	is_uint(ctl_u64("prof.session.id"), rejected, "no session came of it");
	is_uint(ctl_u64("prof.threshold.alloc"), 12345678, "and no value changed");
}

struct bad_pair {
	const char *pair;
	const char *node;
	const char *want;
};

static const struct bad_pair bad_pairs[] = {
	{"prof_threshold_alloc:x", "opt.prof_threshold_alloc", "0"},
	{"prof_threshold_alloc:1T", "opt.prof_threshold_alloc", "0"},
	{"prof_threshold_alloc:-1", "opt.prof_threshold_alloc", "0"},
	{"prof_threshold_large:", "opt.prof_threshold_large", "0"},
	{"prof_threshold_large:10.5M", "opt.prof_threshold_large", "0"},
	{"prof_threshold_highwater:99999999999G", "opt.prof_threshold_highwater", "0"},
	{"prof_threshold_highwater:101%", "opt.prof_threshold_highwater", "0"},
	{"prof_threshold_highwater:0%", "opt.prof_threshold_highwater", "0"},
	{"prof_threshold_highwater:%", "opt.prof_threshold_highwater", "0"},
	{"prof_threshold_highwater:-5%", "opt.prof_threshold_highwater", "0"},
	{"prof_threshold_highwater:1K%", "opt.prof_threshold_highwater", "0"},
	{"prof_highwater_step:1MB", "opt.prof_highwater_step", "0"},
	{"prof_highwater_metric:moon", "opt.prof_highwater_metric", "allocated"},
	{"prof_threshold_time_ms:1K", "opt.prof_threshold_time_ms", "0"},
	{"prof_threshold_time_ms:soon", "opt.prof_threshold_time_ms", "0"},
	{"prof_dump_min_gap_ms:1s", "opt.prof_dump_min_gap_ms", "1000"},
	{"prof_dump_max_files:many", "opt.prof_dump_max_files", "100"},
	{"prof_dump_max_bytes:1KB", "opt.prof_dump_max_bytes", "1073741824"},
	{"prof_dump_keep:oldest", "opt.prof_dump_keep", "first_peak_last"},
	{"prof_thread:maybe", "opt.prof_thread", "auto"},
	{"prof_fork:never", "opt.prof_fork", "auto"},
};
#define N_BAD (sizeof(bad_pairs) / sizeof(bad_pairs[0]))

/* Each is reported, with a hint behind it, and the one good pair at the end holds. */
static void
refused_options(void) {
	static struct test_result r;
	static char conf[2000] = "abort_conf:false,";

	for (unsigned i = 0; i < N_BAD; i++)
		snprintf(conf + strlen(conf), sizeof(conf) - strlen(conf), "%s,", bad_pairs[i].pair);
	strcat(conf, "prof_threshold_alloc:5M,prof_threshold_alloc:x");
	run_child_conf(&r, "bad_last", conf);
	child_exits(&r, 0, "a process with bad values");
	for (unsigned i = 0; i < N_BAD; i++) {
		char line[200];

		snprintf(line, sizeof(line), "<jemalloc>: Invalid conf value: %s\n<jemalloc>: Hint: ",
		    bad_pairs[i].pair);
		contains(r.out, line, "%s is reported with a hint", bad_pairs[i].pair);
	}
}

static void
bad_last(void) {
	is_uint(ctl_u64("opt.prof_threshold_alloc"), 5 * M,
	    "a good value stays when a bad one follows");
	is_uint(ctl_u64("prof.threshold.alloc"), 5 * M, "and holds");
	for (unsigned i = 3; i < N_BAD; i++) {
		const struct bad_pair *b = &bad_pairs[i];

		if (b->want[0] >= '0' && b->want[0] <= '9')
			is_uint(ctl_u64(b->node), strtoull(b->want, NULL, 10), "%s: the old value stays",
			    b->pair);
		else
			is_str(ctl_str(b->node), b->want, "%s: the old value stays", b->pair);
	}
}

/* ------------------------------------------------------------------ fork */

static volatile bool is_over;

static void *
load(void *arg) {
	uint64_t seed = (uintptr_t)arg;

	while (!is_over)
		free(keep(malloc(test_random(&seed) % 10000)));
	return NULL;
}

/* In the child: its files by pid, numbered from 0. */
static int
child_life(bool goes_on, bool in_session) {
	char mine[40];

	set("prof.threshold.time_ms", 0); /* before it writes the first file */
	snprintf(mine, sizeof(mine), "jeprof.%d.", (int)getpid());
	is_int(ctl_bool("prof.active"), goes_on, "child: prof.active");
	is_int(ctl_bool("prof.session.active"), in_session, "child: session");
	is_uint(ctl_u64("prof.dump_suppressed"), 0, "child: nothing left out yet");
	is_uint(dumps_read_part('*', mine), 0, "child: no files yet");
	set("prof.threshold.large", 4 * M);
	free(keep(malloc(4 * M)));
	is_uint(dumps_read_part('l', mine), goes_on, "child: a large request");
	if (goes_on) {
		is_uint(dumps.v[0].seq, 0, "child: numbers of its own");
		contains(dumps.v[0].name, ".0.l0.heap", "child: in both places");
		is_uint(dump_number(0, "pid"), (unsigned long long)getpid(), "child: its pid in the file");
		is_uint(dump_number(0, "suppressed"), 0, "child: and its count");
		set("prof.threshold.time_ms", 20);
		for (unsigned i = 0; i < 12000 && dumps_read_part('t', mine) == 0; i++) {
			free(keep(malloc(100000)));
			usleep(10000);
		}
		ok(dumps_read_part('t', mine) >= 1, "child: the timer runs again");
	}
	return done_testing();
}

static void
fork_with(bool goes_on, bool in_session) {
	pthread_t t[3];
	int status = 1;

	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, load, (void *)i);
	set("prof.dump_min_gap_ms", 0);
	set("prof.dump_max_files", 0);
	    /* the timer's are counted, however many there are when the children have ended */
	set("prof.threshold.time_ms", 20);
	set("prof.threshold.large", 4 * M);
	free(keep(malloc(4 * M)));
	ok(dumps_await('t', 2) >= 2, "the parent's timer");
	ok(dumps_await('l', 1) == 1, "and its large request");
	    /* it may have come while the timer's was written */
	for (unsigned i = 0; i < 5; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			test_state = (struct test_state){0};
			_exit(child_life(goes_on, in_session));
		}
		waitpid(pid, &status, 0);
		is_int(status, 0, "child %u", i);
	}
	unsigned n = n_of('t');
	ok(dumps_await('t', n + 1) > n, "the parent's timer goes on");
	is_over = true;
	for (unsigned i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
}

static void
fork_configured(void) {
	fork_with(true, false);
}

static void
fork_idle(void) {
	fork_with(false, false);
}

static void
fork_session_auto(void) {
	is_int(ctl_write("prof.session.start", no_options), 0, "a session");
	fork_with(false, false);
}

static void
fork_session_inherit(void) {
	is_int(ctl_write("prof.session.start", no_options), 0, "a session");
	fork_with(true, true);
}

/* ------------------------------------------------------------------ at the end of a program */

static void
leaking(void) {
	set("prof.threshold.alloc", 2 * M);
	set("prof.threshold.highwater_step", M);
	set("prof.threshold.highwater", M);
	for (unsigned i = 0; i < 300; i++)
		keep(malloc(20000));
	ok(n_of('a') >= 2 && n_of('h') >= 2, "thresholds fire");
}

/*
 * Looks at what a leaking child has left: its last file is whole, its exit is what the options say.
 */
static void
final_after(const char *conf, int code) {
	static struct test_result r;
	char tail[64] = "";

	run_child_conf(&r, "leaking", conf);
	child_exits(&r, code, "%s", conf);
	is_uint(n_of('f'), 1, "one final profile");
	unsigned seq = dumps.v[0].seq;
	int fd = open(dumps.v[0].name, O_RDONLY);
	off_t size = lseek(fd, -40, SEEK_END);
	ok(size > 1000 && read(fd, tail, 40) == 40 && strstr(tail, "\n# end ") != NULL, "it is whole");
	close(fd);
	dumps_read('*');
	is_uint(dumps.v[dumps.n - 1].seq, seq, "and the last of all");
	is_int(strstr(r.out, "Leak approximation summary: ~") != NULL,
	    strstr(conf, "prof_leak") != NULL, "the leak is summed up if asked for");
}

static void
at_exit_final(void) {
	final_after("prof:true,prof_final:true,lg_prof_sample:10,prof_dump_min_gap_ms:0", 0);
}

static void
at_exit_leak(void) {
	final_after("prof_leak:true,prof_final:true,lg_prof_sample:10,prof_dump_min_gap_ms:0", 0);
}

static void
at_exit_leak_error(void) {
	final_after("prof_leak_error:true,prof_final:true,lg_prof_sample:10,prof_dump_min_gap_ms:0", 1);
}

/* ------------------------------------------------------------------ all of them */

static const struct dumps_test tests[] = {
	{"storm", storm, "prof:true,prof_dump_min_gap_ms:100,prof_dump_max_files:20"},
	{"threads", storm_of_threads, "prof:true,prof_dump_min_gap_ms:3600000"},
	{"bytes", cap_on_bytes, "prof:true,prof_dump_min_gap_ms:0,prof_dump_max_bytes:64K"},
	{"retention", retention, "prof:true,prof_dump_min_gap_ms:0,prof_dump_max_files:4"},
	{"newest", retention_newest, "prof:true,prof_dump_min_gap_ms:0"},
	{"by_hand", by_hand, "prof:true,prof_dump_min_gap_ms:0,prof_dump_max_files:2"},
	{"interval", interval_free, "prof:true,lg_prof_interval:20"},
	{"interval_large", interval_of_large, "prof:true,lg_prof_interval:20"},
	{"interval2", interval_limited, "prof:true,lg_prof_interval:20,prof_dump_min_gap_ms:3600000"},
	{"interval3", interval_files,
	    "prof:true,lg_prof_interval:20,prof_dump_min_gap_ms:0,prof_dump_max_files:3"},
	{"interval4", interval_no_gap, "prof:true,lg_prof_interval:20,prof_dump_max_files:200"},
	{"interval5", interval_no_gap,
	    "prof:true,lg_prof_interval:20,prof_dump_max_bytes:1G,prof_dump_keep:newest"},
	{"family", family,
	    "prof:true,prof_threshold_large:4M,prof_dump_min_gap_ms:0,prof_dump_max_files:5"},
	{"restarted", restarted, ""},
	{"overlapping", overlapping, ""},
	{"gdump", gdump_limited, "prof:true,prof_gdump:true,prof_dump_min_gap_ms:3600000"},
	{"gdump_grown", gdump_grown, "prof:true,prof_gdump:true,prof_dump_min_gap_ms:0"},
	{"refused", refused, "prof_dump_min_gap_ms:0"},
	{"options", refused_options, ""},
	{"fork", fork_configured, "prof:true"},
	{"fork_inherit", fork_configured, "prof:true,prof_fork:inherit"},
	{"fork_idle", fork_idle, "prof:true,prof_fork:idle"},
	{"fork_session", fork_session_auto, ""},
	{"fork_session_inherit", fork_session_inherit, "prof_fork:inherit"},
	{"final", at_exit_final, ""},
	{"leak", at_exit_leak, ""},
	{"leak_error", at_exit_leak_error, ""},
};

/* Run by those above only. */
static const struct dumps_test helpers[] = {
	{"bad_last", bad_last, ""},
	{"leaking", leaking, ""},
	{"write_three", write_three, ""},
	{"overlap", overlap, ""},
};

int
main(int argc, char **argv) {
	for (unsigned i = 0; i < sizeof(helpers) / sizeof(helpers[0]) && argc > 1; i++) {
		if (strcmp(argv[1] + (strlen(argv[1]) > 8 ? 8 : 0), helpers[i].name) == 0) {
			helpers[i].fn();
			exit(done_testing());
		}
	}
	return dumps_run_all(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
