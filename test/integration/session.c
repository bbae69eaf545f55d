/*
 * Sessions, thresholds and storm guards by what a program can use: mallctl, options, the files that
 * come of it.
 */
#include "ctl.h"
#include "dir.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define M ((size_t)1 << 20)

static int
start(const char *options) {
	return ctl_write("prof.session.start", options);
}

static int
stop(void) {
	return ctl_void("prof.session.stop");
}

static bool
is_set(const bool *flag) {
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void
set(bool *flag, bool value) {
	__atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

/* Files whose name holds `part`; *last: one of them. */
static unsigned
files(const char *part, char last[512]) {
	unsigned n = 0;
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strstr(e->d_name, part) == NULL || e->d_name[0] == '.')
			continue;
		n++;
		if (last != NULL)
			snprintf(last, 512, "%s/%s", dir, e->d_name);
	}
	if (d != NULL)
		closedir(d);
	return n;
}

static bool
has_line(const char *path, const char *line) {
	static char text[1 << 18];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	text[n < 0 ? 0 : n] = '\0';
	close(fd);
	return strstr(text, line) != NULL;
}

/* A number of the totals, exactly with sample_interval:1; format: where it stands in their line. */
static unsigned long
total(const char *path, const char *format) {
	char line[512];
	unsigned long n = 0;
	FILE *f = fopen(path, "r");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, format, &n) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return n;
}

static unsigned long
live_objects(const char *path) {
	return total(path, " t*: %lu:");
}

static unsigned long
all_objects(const char *path) {
	return total(path, " t*: %*u: %*u [%lu:");
}

/* ------------------------------------------------------------------ children: a process each */

static void
table_of_requests(void) {
	uint64_t none = 0, one = 1, two = 2, rejected;
	char path[512];

	ok(!ctl_bool("prof.session.active") && ctl_u64("prof.session.id") == 0
	    && ctl_u64("prof.session.start_time_ns") == 0, "nothing yet");
	is_int(stop(), EALREADY, "idle: stop");
	is_int(ctl_write("prof.session.stop", one), EALREADY, "idle: stop of a number");
	is_int(start("alloc:x"), EINVAL, "idle: bad options");
	is_int(start("prefix:/no/such/dir/x"), EINVAL, "idle: a prefix without a directory");
	is_int(start("prefix:/dev/null/x"), EINVAL, "idle: a prefix below a file");
	is_int(ctl_write("prof.session.stop", none), EALREADY, "idle: stop of number 0");
	is_int(ctl_write("prof.dump", dir), ENOENT, "idle, not booted: dump");
	is_uint(files("", NULL), 0, "no file came of it");
	is_int(start("sample_interval:1"), 0, "idle: start");
	uint64_t began = ctl_u64("prof.session.start_time_ns");
	ok(ctl_bool("prof.session.active") && ctl_bool("prof.active") && began > 0, "active");
	is_int(start(NULL), EALREADY, "active: start");
	is_int(start("alloc:x"), EALREADY, "active: bad options");
	is_int(ctl_write("prof.session.stop", two), EPERM, "active: stop of another");
	is_int(ctl_write("prof.session.stop", none), EPERM, "active: stop of number 0, which none has");
	ok(ctl_u64("prof.session.start_time_ns") == began && ctl_u64("prof.session.id") == 1,
	    "refused: nothing changed");
	rejected = ctl_u64("prof.session.rejected");
	is_uint(rejected, 7, "refusals are counted");
	is_int(ctl_void("prof.dump"), 0, "active: dump");
	is_uint(files(".m0.heap", path), 1, "a file");
	is_str(ctl_str("prof.session.last_dump"), path, "last_dump names it");
	is_int(ctl_write("prof.session.stop", one), 0, "active: stop with the right number");
	is_uint(files(".s0.heap", path), 1, "the session's profile");
	is_str(ctl_str("prof.session.last_dump"), path, "last_dump again");
	ok(has_line(path, "\n# jemalloc.session=1\n") && has_line(path, "\n# jemalloc.kind=session\n"),
	    "its metadata");
	ok(!ctl_bool("prof.active") && !ctl_bool("prof.session.active"), "idle");
	is_int(stop(), EALREADY, "idle again: stop");
	is_int(ctl_void("prof.dump"), 0, "idle, booted: dump");
}

static void
data_of_sessions(void) {
	char path[512];
	void *before, *kept[100];

	is_int(start("sample_interval:1"), 0, "first session");
	before = keep(malloc(5000));
	is_int(stop(), 0, "ends");
	is_int(start("sample_interval:1"), 0, "second session");
	for (int i = 0; i < 100; i++)
		kept[i] = keep(malloc(3000));
	is_int(stop(), 0, "ends");
	is_uint(files(".s1.heap", path), 1, "its profile");
	is_uint(live_objects(path), 100, "holds what was sampled in it");
	free(before); /* crosses sessions */
	is_int(start("sample_interval:1,reset:false"), 0, "third session, without reset");
	for (int i = 0; i < 40; i++)
		free(kept[i]);
	is_int(stop(), 0, "ends");
	files(".s2.heap", path);
	is_uint(live_objects(path), 60, "what still lives of the second is there, what was freed is "
	    "not");
	for (int i = 40; i < 100; i++)
		free(kept[i]);
	is_int(start(NULL), 0, "fourth session");
	is_int(stop(), 0, "ends");
	files(".s3.heap", path);
	ok(live_objects(path) < 5, "with reset the old ones are gone");
}

static char message[1000];

static void
message_note(void *opaque, const char *text) {
	(void)opaque;
	strncat(message, text, sizeof(message) - strlen(message) - 1);
}

/*
 * A session of a second loses its place: where the machine is so slow that it ends before that,
 * another one does.
 */
static bool
begins_and_loses_place(void) {
	char options[512];

	snprintf(options, sizeof(options), "prefix:%s/gone/x,max_seconds:1", dir);
	for (int i = 0; i < 100; i++) {
		mkdir("gone", 0700);
		if (start(options) != 0)
			return false;
		if (rmdir("gone") == 0)
			return true;
		for (int k = 0; k < 12000 && ctl_bool("prof.session.active"); k++)
			usleep(10000);
		unlink(ctl_str("prof.session.last_dump"));
	}
	return false;
}

static void
ends_by_itself(void) {
	char path[512];

	is_int(start("max_seconds:1"), 0, "a session of a second");
	for (int i = 0; i < 12000 && ctl_bool("prof.session.active"); i++)
		usleep(10000);
	ok(!ctl_bool("prof.session.active"), "nobody stopped it, nothing was allocated: it ended");
	is_uint(files(".s0.heap", path), 1, "with its profile");
	is_int(stop(), EALREADY, "a stop comes too late");
	malloc_message = message_note;
	ok(begins_and_loses_place(), "one whose profile has a place, until now");
	for (int i = 0; i < 12000 && ctl_bool("prof.session.active"); i++)
		usleep(10000);
	malloc_message = NULL;
	ok(strstr(message, "/gone/x") != NULL && strstr(message, "ENOENT") != NULL,
	    "nobody asks for the result, so it is said: %s", message);
}

static void
ends_without_thread(void) {
	is_int(start("max_seconds:1"), 0, "a session of a second, no thread");
	for (int i = 0; i < 12000 && ctl_bool("prof.session.active"); i++) {
		free(keep(malloc(200000)));
		usleep(10000);
	}
	ok(!ctl_bool("prof.session.active"), "ended at an allocation of the program");
}

/* The profiler's thread is not made in a child of vfork, with which it would end. */
static void
started_in_vfork(void) {
	int status = -1;
	pid_t pid = vfork();

	if (pid == 0)
		_exit(start("max_seconds:1"));
	waitpid(pid, &status, 0);
	is_int(status, 0, "a child of vfork starts a session, in our memory");
	for (int i = 0; i < 10; i++)
		free(keep(malloc(200000)));
	for (int i = 0; i < 6000 && ctl_bool("prof.session.active"); i++)
		usleep(10000);
	ok(!ctl_bool("prof.session.active"), "our thread ends it");
}

static pthread_barrier_t barrier;
static int results[16];

static void *
race_start(void *arg) {
	int *result = arg;

	pthread_barrier_wait(&barrier);
	*result = start(NULL);
	return NULL;
}

static void
two_starters(void) {
	pthread_t t[16];
	unsigned rounds_bad = 0;

	pthread_barrier_init(&barrier, NULL, 16);
	for (unsigned round = 0; round < 50; round++) {
		unsigned won = 0, told = 0;

		for (int i = 0; i < 16; i++)
			pthread_create(&t[i], NULL, race_start, &results[i]);
		for (int i = 0; i < 16; i++) {
			pthread_join(t[i], NULL);
			won += results[i] == 0;
			told += results[i] == EALREADY;
		}
		rounds_bad += wrong_if(won != 1) || wrong_if(told != 15) || wrong_if(stop() != 0);
	}
	is_uint(rounds_bad, 0, "16 starters at once, 50 times: one wins, 15 are told");
	is_uint(ctl_u64("prof.session.id"), 50, "50 sessions");
}

/* ---------------------------------------- the table of requests and states, each cell a process */

typedef enum { state_fresh, state_idle, state_active, state_paused, state_stopping,
    state_n } state_t;
static const char *const state_names[] = {"idle, not booted", "idle", "active", "paused",
    "stopping"};
static pthread_t stopper;
static bool is_writing, may_write, is_answered;

/* In here the session's profile is there, but its stop not done. */
static void
slow_hook(const char *path) {
	(void)path;
	set(&is_writing, true);
	while (!is_set(&may_write))
		usleep(1000);
}

static void *
stop_slowly(void *arg) {
	*(int *)arg = stop();
	return NULL;
}

static void
enter_state(state_t state, int *stop_result) {
	void (*hook)(const char *) = slow_hook;
	bool off = false;

	if (state == state_fresh)
		return;
	is_int(start("sample_interval:1,alloc:1G"), 0, "start");
	if (state == state_idle)
		is_int(stop(), 0, "stop");
	if (state == state_paused)
		is_int(ctl_write("prof.active", off), 0, "pause");
	if (state == state_stopping) {
		is_int(ctl_write("experimental.hooks.prof_dump", hook), 0, "hook");
		pthread_create(&stopper, NULL, stop_slowly, stop_result);
		while (!is_set(&is_writing))
			usleep(1000);
	}
}

static int
ask_stop_right(void) {
	uint64_t id = ctl_u64("prof.session.id");
	id += id == 0; /* there is none: the first one's */
	return ctl_write("prof.session.stop", id);
}

static int
ask_stop_other(void) {
	uint64_t id = ctl_u64("prof.session.id") + 1;
	return ctl_write("prof.session.stop", id);
}

static int
ask_start(void) {
	return start("sample_interval:7,alloc:2G,prefix:other");
}

static int
ask_start_bad(void) {
	return start("sample_interval:7,alloc:2G,prefix:other,moon:1");
}

static int
ask_dump(void) {
	return ctl_void("prof.dump");
}

static int
ask_on(void) {
	bool on = true;
	return ctl_write("prof.active", on);
}

static int
ask_off(void) {
	bool off = false;
	return ctl_write("prof.active", off);
}

static const struct {
	const char *name;
	int (*ask)(void);
	bool waits; /* for the profile that is being written */
	int want[state_n];
} requests[] = {
	{"start", ask_start, false, {0, 0, EALREADY, EALREADY, EBUSY}},
	{"stop", stop, false, {EALREADY, EALREADY, 0, 0, EBUSY}},
	{"stop with the right number", ask_stop_right, false, {EALREADY, EALREADY, 0, 0, EBUSY}},
	{"stop with another number", ask_stop_other, false, {EALREADY, EALREADY, EPERM, EPERM, EBUSY}},
	{"start with bad options", ask_start_bad, false, {EINVAL, EINVAL, EALREADY, EALREADY, EBUSY}},
	{"dump", ask_dump, true, {ENOENT, 0, 0, 0, 0}},
	{"prof.active := true", ask_on, false, {ENOENT, 0, 0, 0, 0}},
	{"prof.active := false", ask_off, false, {0, 0, 0, 0, 0}},
};
#define NREQUESTS (sizeof(requests) / sizeof(requests[0]))

typedef struct {
	uint64_t id, began, alloc;
	size_t rate;
	bool is_session, is_active;
	unsigned nfiles;
} facts_t;

static facts_t
facts(void) {
	facts_t f;

	memset(&f, 0, sizeof(f));
	f.id = ctl_u64("prof.session.id");
	f.began = ctl_u64("prof.session.start_time_ns");
	f.alloc = ctl_u64("prof.threshold.alloc");
	f.rate = ctl_size("prof.sample_interval");
	f.is_session = ctl_bool("prof.session.active");
	f.is_active = ctl_bool("prof.active");
	f.nfiles = files(".heap", NULL);
	return f;
}

static void *
answer_it(void *arg) {
	unsigned *request = arg;
	int got = requests[*request].ask();

	set(&is_answered, true);
	return (void *)(intptr_t)got;
}

/* Asks from another thread; where it must wait, lets the profile be written in the meantime. */
static int
ask_request(unsigned request, state_t state) {
	pthread_t t;
	void *got;

	pthread_create(&t, NULL, answer_it, &request);
	if (state == state_stopping && requests[request].waits) {
		usleep(50000);
		ok(!is_set(&is_answered), "waits its turn");
		set(&may_write, true);
	}
	pthread_join(t, &got);
	return (int)(intptr_t)got;
}

/* What an accepted request does. */
static void
check_done(unsigned request, const facts_t *before, const facts_t *after) {
	int (*ask)(void) = requests[request].ask;

	if (ask == ask_start) {
		ok(after->is_session && after->is_active && after->id == before->id + 1 && after->rate == 7
		    && after->alloc == (uint64_t)2 << 30, "a new session with its options");
	} else if (ask == ask_dump) {
		is_uint(after->nfiles, before->nfiles + 1, "a profile");
		ok(after->id == before->id && after->began == before->began, "the session is the same");
	} else if (ask == ask_on || ask == ask_off) {
		ok(after->is_session == before->is_session && after->id == before->id
		    && after->is_active == (ask == ask_on), "sampling is switched, no session opened or "
		    "ended");
	} else {
		ok(!after->is_session && !after->is_active && after->id == before->id, "idle");
		is_uint(after->nfiles, before->nfiles + 1, "with its profile");
		is_uint(after->alloc, 0, "the thresholds from before are back");
	}
}

static void
one_cell(void *arg) {
	unsigned request = *(unsigned *)arg % NREQUESTS;
	state_t state = (state_t)(*(unsigned *)arg / NREQUESTS);
	int want = requests[request].want[state], stop_result = 0;
	int failed = test_state.failed; /* before the fork */
	bool is_guarded = want == EALREADY || want == EBUSY || want == EPERM;

	enter_state(state, &stop_result);
	facts_t before = facts();
	uint64_t rejected = ctl_u64("prof.session.rejected");
	is_int(ask_request(request, state), want, "%s: %s", state_names[state], requests[request].name);
	if (state == state_stopping && requests[request].waits)
		pthread_join(stopper, NULL);
	facts_t after = facts();
	is_uint(ctl_u64("prof.session.rejected") - rejected, is_guarded,
	    "counted if the guard refused it");
	if (want != 0)
		ok(memcmp(&before, &after, sizeof(before)) == 0, "refused: nothing changed");
	else
		check_done(request, &before, &after);
	if (state == state_stopping && !requests[request].waits) {
		set(&may_write, true);
		pthread_join(stopper, NULL);
	}
	is_int(stop_result, 0, "the stop itself");
	if (state == state_stopping)
		ok(!ctl_bool("prof.session.active") && !ctl_bool("prof.active"), "and idle");
	_exit(test_state.failed > failed);
}

static void
all_cells(void) {
	static struct test_result r;

	for (unsigned i = 0; i < NREQUESTS * state_n; i++) {
		run_forked(&r, one_cell, &i);
		if (!child_exits(&r, 0, "%s: %s", state_names[i / NREQUESTS], requests[i % NREQUESTS].name))
			diag("%s", r.out);
	}
}

/* ------------------------------------------------------------------ thresholds */

static void
set_u64(const char *name, uint64_t v) {
	is_int(mallctl(name, NULL, NULL, &v, sizeof(v)), 0, "%s is set", name);
	is_uint(ctl_u64(name), v, "and reads so");
}

static void
thresholds(void) {
	char path[512];
	const char *moon = "moon", *rss = "rss";
	void *p;

	is_int(ctl_write("prof.threshold.highwater_metric", moon), EINVAL, "an unknown metric");
	is_str(ctl_str("prof.threshold.highwater_metric"), "allocated", "changes nothing");
	is_int(ctl_write("prof.threshold.highwater_metric", rss), 0, "a known one");
	is_str(ctl_str("prof.threshold.highwater_metric"), "rss", "is read back");
	is_int(ctl_write("prof.dump_keep", moon), EINVAL, "an unknown policy");
	set_u64("prof.dump_min_gap_ms", 0);
	is_int(start("large:3M,alloc:64M,highwater_metric:allocated"), 0, "a session with thresholds");
	p = keep(malloc(3 * M - 1));
	is_uint(files(".l", NULL), 0, "one byte too small");
	free(p);
	p = keep(malloc(3 * M));
	is_uint(files(".l0.heap", path), 1, "a large request");
	ok(has_line(path, "\n# jemalloc.metric=large\n")
	    && has_line(path, "\n# jemalloc.metric_value=3145728\n"), "with metric and value");
	is_uint(live_objects(path), 1, "the request itself is in it");
	p = keep(realloc(p, 4 * M));
	is_uint(files(".l1.heap", NULL), 1, "realloc that grows to it");
	p = keep(realloc(p, 1000));
	is_uint(files(".l", NULL), 2, "realloc that shrinks below does not");
	free(p);
	is_int(stop(), 0, "stop");
	is_uint(ctl_size("prof.threshold.large"), 0, "the threshold went with the session");
	unsigned before = files(".a", NULL);
	is_int(start("alloc:8M"), 0, "allocated bytes");
	for (int i = 0; i < 1000; i++)
		free(keep(malloc(40000)));
	is_uint(files(".a", path) - before, 4, "40 MB: at 8, 16, 24, 32 MiB");
	is_int(stop(), 0, "stop");
}

static void
highwater(void) {
	char path[512];
	static void *p[400];

	is_int(start(NULL), 0, "a session; the threshold comes from the options");
	for (int i = 0; i < 350; i++)
		p[i] = keep(malloc(100000)); /* 34 MiB */
	unsigned n = files(".h", path);
	is_uint(n, 3, "16M and two steps of 8M");
	ok(has_line(path, "\n# jemalloc.metric=allocated\n"), "with the metric");
	for (int i = 0; i < 350; i++)
		free(p[i]);
	for (int i = 0; i < 250; i++)
		p[i] = keep(malloc(100000));
	is_uint(files(".h", NULL), 3, "the mark does not fall by itself");
	for (int i = 0; i < 250; i++)
		free(p[i]);
	is_int(ctl_void("prof.threshold.rearm"), 0, "rearm");
	for (int i = 0; i < 180; i++)
		p[i] = keep(malloc(100000));
	is_uint(files(".h", NULL), 4, "the next crossing counts again");
	is_int(stop(), 0, "stop");
}

static void
churn_until_stop(char path[512], unsigned rounds) {
	for (unsigned i = 0; i < rounds; i++)
		free(keep(malloc(3000)));
	is_int(stop(), 0, "stop");
	files(".s", path);
}

/* The option accum: of this session alone, whatever the one before counted. */
static void
accum(void) {
	char path[512];

	is_int(start("sample_interval:1,accum:yes"), EINVAL, "neither true nor false");
	is_int(start("sample_interval:1"), 0, "a session");
	churn_until_stop(path, 1000);
	is_uint(all_objects(path), 0, "what was freed is not counted by default");
	unlink(path);
	is_int(start("sample_interval:1,accum:true"), 0, "a session with accum:true");
	churn_until_stop(path, 1000);
	unsigned long all = all_objects(path);
	ok(all >= 1000 && all < 1100, "it counts what was freed: %lu", all);
	ok(live_objects(path) < 100, "as what is not live");
	unlink(path);
	is_int(start("sample_interval:1"), 0, "a third session");
	churn_until_stop(path, 1000);
	is_uint(all_objects(path), 0, "has no such sums again");
}

static void
timer(void) {
	is_int(start("time_ms:100"), 0, "a session with a timer");
	for (int i = 0; i < 12000 && files(".t", NULL) < 3; i++)
		usleep(10000);
	ok(files(".t", NULL) >= 3, "dumps without an allocation");
	is_int(stop(), 0, "stop");
	unsigned n = files(".t", NULL);
	usleep(300000);
	is_uint(files(".t", NULL), n, "none after the stop");
}

static void
storm(void) {
	uint64_t suppressed;

	is_int(start("alloc:1M"), 0, "a session");
	/* However slow: at most one in 20 ms is written. */
	for (int i = 0; i < 100 && ctl_u64("prof.dump_suppressed") <= 1000; i++) {
		for (int k = 0; k < 3000; k++)
			free(keep(malloc(M)));
	}
	is_int(stop(), 0, "stop");
	suppressed = ctl_u64("prof.dump_suppressed");
	ok(suppressed > 1000, "%llu were left out", (unsigned long long)suppressed);
	ok(files(".a", NULL) <= 4, "and at most 4 kept");
	ok(files(".a0.heap", NULL) == 1, "the first among them");
}

/* The smallest threshold is below what the fast path serves. */
static bool
is_there(unsigned seq, unsigned kseq) {
	char name[64]; /* no allocation in here: it would count */

	snprintf(name, sizeof(name), "jeprof.%d.%u.l%u.heap", (int)getpid(), seq, kseq);
	return access(name, F_OK) == 0;
}

static void
small_large(void) {
	is_int(start("large:100,sample_interval:1G"), 0, "a session");
	free(keep(malloc(99)));
	ok(!is_there(0, 0), "99 bytes");
	free(keep(malloc(100)));
	ok(is_there(0, 0) && !is_there(1, 1), "100 bytes");
	for (int i = 0; i < 10; i++)
		free(keep(malloc(128)));
	ok(is_there(10, 10) && !is_there(11, 11), "each of ten");
	is_int(stop(), 0, "stop");
}

/* ------------------------------------------------------------------ fork */

static void
forked(void) {
	int status = 0;

	is_int(start("sample_interval:1"), 0, "a session");
	pid_t pid = fork();
	if (pid == 0) {
		bool good = !ctl_bool("prof.session.active") && !ctl_bool("prof.active");
		good = good && start("sample_interval:1") == 0;
		free(keep(malloc(100)));
		good = good && stop() == 0 && strstr(ctl_str("prof.session.last_dump"), ".0.s0.heap")
		    != NULL;
		_exit(good ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	is_int(status, 0, "the child is idle, has a session and numbers of its own");
	ok(ctl_bool("prof.session.active"), "the parent's goes on");
	is_int(stop(), 0, "stop");
	is_uint(files("", NULL), 2, "two profiles");
}

/* ------------------------------------------------------------------ load */

#define LOADERS 16
#define KEPT 50
#define FREED 20

static unsigned cycles = 300; /* SESSION_CYCLES */
static pthread_barrier_t checkpoint;
static bool is_checked, is_over;
static void *shared[1024]; /* objects change hands here, and sessions */

/* Between the first two barriers nobody allocates, between the next two exactly this. */
static void
load_checked(void) {
	void *p[KEPT];

	pthread_barrier_wait(&checkpoint);
	pthread_barrier_wait(&checkpoint);
	for (unsigned i = 0; i < KEPT; i++) {
		p[i] = keep(malloc(300));
		free(__atomic_exchange_n(&shared[i], NULL, __ATOMIC_ACQ_REL)); /* of earlier sessions */
	}
	for (unsigned i = 0; i < FREED; i++)
		free(p[i]);
	pthread_barrier_wait(&checkpoint);
	pthread_barrier_wait(&checkpoint);
	for (unsigned i = FREED; i < KEPT; i++)
		free(p[i]);
}

static void *
load(void *arg) {
	uint64_t seed = (uint64_t)(uintptr_t)arg;

	while (!is_set(&is_over)) {
		for (unsigned i = 0; i < 64; i++) {
			void **at = &shared[test_random(&seed) % 1024];
			free(__atomic_exchange_n(at, keep(malloc(test_random(&seed) % 3000)),
			    __ATOMIC_ACQ_REL));
		}
		if (is_set(&is_checked))
			load_checked(); /* at whose end it is not set */
	}
	return NULL;
}

/* A session; its profile is not kept. */
static unsigned
cycle(const char *options) {
	unsigned bad = start(options) != 0;

	bad += stop() != 0;
	const char *path = ctl_str("prof.session.last_dump");
	return bad + (path == NULL || unlink(path) != 0);
}

/*
 * Returns whether the profile of a session holds exactly what the threads have allocated in it and
 * not freed.
 */
static bool
is_exact(void) {
	unsigned long want = LOADERS * (KEPT - FREED);
	char path[512] = "";

	set(&is_checked, true);
	pthread_barrier_wait(&checkpoint);
	bool is_good = start("sample_interval:1") == 0;
	pthread_barrier_wait(&checkpoint);
	pthread_barrier_wait(&checkpoint);
	is_good = stop() == 0 && is_good;
	set(&is_checked, false);
	pthread_barrier_wait(&checkpoint);
	snprintf(path, sizeof(path), "%s", ctl_str("prof.session.last_dump"));
	unsigned long got = live_objects(path);
	if (got != want)
		diag("%lu live, not %lu", got, want);
	unlink(path);
	return is_good && got == want;
}

static void
many_cycles(void) {
	pthread_t t[LOADERS];
	unsigned bad = 0, inexact = 0;

	pthread_barrier_init(&checkpoint, NULL, LOADERS + 1);
	for (uintptr_t i = 0; i < LOADERS; i++)
		pthread_create(&t[i], NULL, load, (void *)(i + 1));
	for (unsigned i = 1; i <= cycles; i++) {
		bad += cycle(i % 4 == 0 ? "sample_interval:1,reset:false" : "sample_interval:1");
		inexact += i % 25 == 0 && !is_exact();
	}
	set(&is_over, true);
	for (unsigned i = 0; i < LOADERS; i++)
		pthread_join(t[i], NULL);
	for (unsigned i = 0; i < 1024; i++)
		free(shared[i]);
	is_uint(bad, 0, "%u sessions under %d allocating threads", cycles, LOADERS);
	is_uint(inexact, 0, "%u of them hold exactly what was allocated in them and lives",
	    cycles / 25);
	is_int(start("sample_interval:1,reset:false"), 0, "what is left");
	is_int(stop(), 0, "is written");
	const char *path = ctl_str("prof.session.last_dump");
	ok(live_objects(path) < 5, "of what the threads had, nothing lives: %lu", live_objects(path));
}

static size_t
metadata(void) {
	ctl_epoch();
	return ctl_size("stats.metadata");
}

/*
 * One thread, the same each time: after a few sessions no byte more. (Of the profiler's thread
 * there may be two for a moment, one that ends and one that begins: a little more than at any time
 * before.)
 */
static void
quiet_cycles(void) {
	size_t before = 0;
	unsigned bad = 0;
	enum { warm = 20, n = 300 };

	for (unsigned i = 0; i < n; i++) {
		bad += start("sample_interval:1") != 0;
		for (unsigned k = 0; k < 100; k++)
			free(keep(malloc(100 + k)));
		bad += stop() != 0;
		bad += unlink(ctl_str("prof.session.last_dump")) != 0;
		before = i == warm ? metadata() : before;
	}
	is_uint(bad, 0, "%d sessions", n);
	is_uint(metadata(), before, "%d of them, no byte of metadata", n - warm);
	for (unsigned i = 0; i < n; i++) {
		bool off = false, on = true;
		bad += wrong_if(ctl_void("prof.reset") != 0)
		    || wrong_if(ctl_write("prof.active", on) != 0);
		free(keep(malloc(100)));
		bad += wrong_if(ctl_void("prof.dump") != 0)
		    || wrong_if(ctl_write("prof.active", off) != 0);
		bad += unlink(ctl_str("prof.session.last_dump")) != 0;
		before = i == warm ? metadata() : before;
	}
	is_uint(bad, 0, "reset, active, dump");
	is_uint(metadata(), before, "no byte either");
}

static void *
last_of_the_program(void *arg) {
	(void)arg;
	keep(malloc(100));
	while (!ctl_bool("prof.session.active"))
		usleep(1000);
	usleep(100000);
	return NULL;
}

/* The profiler's thread does not keep a process alive whose own threads have ended. */
static void
main_ends_first(void) {
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) {
		pthread_t t;
		alarm(100);
		pthread_create(&t, NULL, last_of_the_program, NULL);
		start("sample_interval:1");
		pthread_exit(NULL);
	}
	ok(waitpid(pid, &status, 0) == pid && status == 0, "it ends with 0");
	is_uint(files(".heap", NULL), 1, "and writes its final profile");
}

/* ------------------------------------------------------------------ all of them */

static const struct {
	const char *name;
	void (*fn)(void);
	const char *conf;
} tests[] = {
	{"table", table_of_requests, ""},
	{"cells", all_cells, ""},
	{"data", data_of_sessions, ""},
	{"end", ends_by_itself, ""},
	{"end2", ends_without_thread, "prof_thread:false"},
	{"vfork", started_in_vfork, ""},
	{"race", two_starters, "prof_thread:false"},
	{"thresholds", thresholds, ""},
	{"highwater", highwater,
	    "prof_threshold_highwater:16M,prof_highwater_step:8M,prof_dump_min_gap_ms:0"},
	{"accum", accum, ""},
	{"timer", timer, "prof_dump_min_gap_ms:0"},
	{"storm", storm, "prof_dump_max_files:4,prof_dump_min_gap_ms:20"},
	{"small", small_large, "prof_dump_min_gap_ms:0,prof_dump_timestamp:false"},
	{"fork", forked, ""},
	{"cycles", many_cycles, ""},
	{"main", main_ends_first, "prof_final:true"},
	{"main2", main_ends_first, "prof_final:true,prof_thread:true"},
	{"quiet", quiet_cycles, "prof_thread:false,lg_prof_sample:0"},
	    /* else chance makes a record late */
};

static void
run_one(void (*fn)(void)) {
	dir_enter();
	fn();
	dir_leave();
	exit(done_testing());
}

int
main(int argc, char **argv) {
	static struct test_result r;

	if (!ctl_bool("config.prof")) {
		plan_skip_all("built without the profiler");
		return 0;
	}
	if (getenv("SESSION_CYCLES") != NULL)
		cycles = (unsigned)atoi(getenv("SESSION_CYCLES"));
	for (unsigned i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (argc > 1 && strncmp(argv[1], "--child=", 8) == 0 && strcmp(argv[1] + 8, tests[i].name)
		    == 0)
			run_one(tests[i].fn);
	}
	for (unsigned i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		run_child_conf(&r, tests[i].name, tests[i].conf);
		if (!child_exits(&r, 0, "%s", tests[i].name))
			diag("%s", r.out);
	}
	return done_testing();
}
