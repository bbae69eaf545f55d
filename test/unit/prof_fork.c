/*
 * A fork while another thread is in the middle of the profiler's work, outside the gate: the child
 * has nothing of that thread, and may begin all anew; and the parent sees nothing of its children.
 */
#include "dir.h"
#include "step.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/wait.h>

#include "os/gate.h"
#include "os/probe.h"
#include "os/room_group.h"
#include "os/sys.h"
#include "prof/control/prof_control.h"
#include "prof/control/prof_handover.h"
#include "prof/control/prof_session.h"
#include "prof/file/prof_course.h"
#include "prof/file/prof_dump.h"
#include "prof/file/prof_keep.h"
#include "prof/file/prof_log.h"
#include "prof/file/prof_recent.h"
#include "prof/file/prof_sys.h"
#include "prof/prof.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_hook.h"
#include "prof/sites/prof_opt.h"
#include "prof/sites/prof_root.h"
#include "prof/sites/prof_switch.h"
#include "prof/trigger/prof_auto.h"
#include "prof/trigger/prof_trigger.h"
#include "unwind/module_history.h"
#include "unwind/unwind.h"

const char *malloc_conf = "prof_ctl_fd:true,prof_thread:false,prof_recent_alloc_max:10";

static prof_mailbox_t *box = &prof_mailbox_block.box;
static const char *why;

/* ------------------------------------------------------------------ a thread that stops amid */

static bool is_stopped, goes_on;
static __thread volatile bool is_second; /* malloc() is a leaf to the compiler, and lists objects */

static void
until(const bool *is_so) {
	while (!__atomic_load_n(is_so, __ATOMIC_SEQ_CST))
		usleep(100);
}

/* Called by the second thread amid its work: waits until main() has forked. */
static void
stop_here(void) {
	if (is_second && !is_stopped) {
		__atomic_store_n(&is_stopped, true, __ATOMIC_SEQ_CST);
		until(&goes_on);
	}
}

typedef int loader_cb_t(struct dl_phdr_info *, size_t, void *);
static int (*real_iterate)(loader_cb_t *, void *);
static unsigned nlisted;
static bool is_listing;

/* Stands before the C library's. */
int
dl_iterate_phdr(loader_cb_t *cb, void *ctx) {
	stop_here();
	nlisted++;
	is_listing = true;
	int ret = real_iterate(cb, ctx);
	is_listing = false;
	return ret;
}

/* A loop with work of the second thread, and what the child then does. */
struct amid {
	void (*work)(void);
	void (*child)(void);
};

static void *
second(void *arg) {
	is_second = true;
	((const struct amid *)arg)->work();
	return NULL;
}

/* Forks while the second thread has stopped; the status of the child. */
static int
fork_amid(const struct amid *a) {
	pthread_t t;
	int status = -1;

	is_stopped = goes_on = false;
	pthread_create(&t, NULL, second, (void *)(uintptr_t)a);
	until(&is_stopped);
	pid_t pid = fork();
	if (pid == 0) {
		alarm(60);
		goes_on = true;
		a->child();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	__atomic_store_n(&goes_on, true, __ATOMIC_SEQ_CST);
	pthread_join(t, NULL);
	return status;
}

static void
must(bool is_so, int code) {
	if (!is_so)
		_exit(code);
}

static uint64_t
nsamples(void) {
	struct unwind_stats_s st;
	unwind_stats_read(&st);
	return st.samples;
}

/* Objects that are samples for certain, with heartbeats. */
static void
sample(void) {
	for (unsigned i = 0; i < 8; i++)
		free(keep(malloc(64 << 20)));
}

/* ------------------------------------------------------------------ the first start */

static void
start_session(void) {
	prof_session_start("final:false", &why, NULL);
}

static int
see_module(void *ctx, const struct sys_module_s *m) {
	(void)ctx, (void)m;
	return 0;
}

/* Lists no objects: the other thread was about to take the loader's lock. */
static void
start_in_child(void) {
	must(sys_modules(see_module, NULL, "") < 0, 5);
	must(prof_session_state() == prof_session_idle, 1);
	must(prof_session_start("final:false", &why, NULL) == 0, 2);
	sample();
	must(nsamples() > 0, 3);
	must(prof_session_stop(0, NULL) == 0 || !prof_session_is_active(), 4);
}

/* In a process where nothing has started the profiler yet. */
static void
amid_first_start(void *arg) {
	static const struct amid a = {start_session, start_in_child};

	(void)arg;
	_exit(fork_amid(&a) == 0 && prof_session_is_active() ? 0 : 1);
}

static void
test_first_start(void) {
	static struct test_result r;

	run_forked(&r, amid_first_start, NULL);
	child_exits(&r, 0, "a fork in the first start of a session: the child may start its own");
}

#if CONFIG_PROF_PROBES

static void
follow_tracer(void) {
	otel_memory_alloc_semaphore = 1;
	sample();
}

static void
trace_in_child(void) {
	sample();
	must(prof_switch_has_listener(), 1);
	must(nsamples() > 0, 2);
}

static void
amid_tracer(void *arg) {
	static const struct amid a = {follow_tracer, trace_in_child};

	(void)arg;
	_exit(fork_amid(&a) == 0 && prof_switch_has_listener() ? 0 : 1);
}

static void
test_tracer(void) {
	static struct test_result r;

	run_forked(&r, amid_tracer, NULL);
	child_exits(&r, 0, "a fork when a tracer was seen and is not served yet: the child serves it");
}

#else

static void
test_tracer(void) {
	skip(1, "no probes");
}

#endif

/* ------------------------------------------------------------------ profiles that wait */

static struct os_hooks_s hooks;

/* Inside the gate the fork waits for this thread, so the thread does not wait for ever. */
static int
unmap_slowly(void *addr, size_t size) {
	int err = os_hooks_real.munmap(addr, size);

	if (is_second && !is_stopped) {
		__atomic_store_n(&is_stopped, true, __ATOMIC_SEQ_CST);
		for (unsigned i = 0; i < 5000 && !__atomic_load_n(&goes_on, __ATOMIC_SEQ_CST); i++)
			usleep(100);
	}
	return err;
}

/* A profile of 12 MiB in place 1. */
static void
hand_over(void) {
	static char text[1 << 20];

	prof_handover_begin(box->streams, 1, false);
	for (unsigned i = 0; i < 12; i++)
		prof_handover_sink(text, sizeof(text));
	prof_handover_end(7, 0);
}

/* The next one takes its place: eight parts are kept, and more are unmapped. */
static void
hand_over_next(void) {
	prof_handover_begin(box->streams, 1, false);
	prof_handover_end(7, EIO);
}

static void
hold_none(void) {
	must(!prof_handover_is_any(), 1);
	hand_over();
	hand_over_next();
}

static void
test_handover(void) {
	static const struct amid a = {hand_over_next, hold_none};

	hand_over();
	hooks = os_hooks_real;
	hooks.munmap = unmap_slowly;
	os_hooks = &hooks;
	is_int(fork_amid(&a), 0, "a fork while a profile is dropped: the child has none");
	os_hooks = &os_hooks_real;
}

/* ------------------------------------------------------------------ the list of recent samples */

static void *copy_at;   /* what the second thread has mapped last */
static bool has_freed;

static void *
map_noted(void *addr, size_t size, int prot, int flags, int fd, off_t offset) {
	void *p = os_hooks_real.mmap(addr, size, prot, flags, fd, offset);

	if (is_second && !is_stopped)
		copy_at = p;
	return p;
}

static int
unmap_noted(void *addr, size_t size) {
	has_freed |= addr == copy_at;
	return os_hooks_real.munmap(addr, size);
}

static void
print_slowly(void *opaque, const char *text) {
	(void)opaque, (void)text;
	stop_here();
}

static void
print_recent(void) {
	prof_recent_alloc_dump(print_slowly, NULL);
}

static void
look_at_copy(void) {
	must(has_freed, 1);
	copy_at = NULL;
	print_recent();
}

static void
test_recent(void) {
	static const struct amid a = {print_recent, look_at_copy};

	is_int(prof_session_start("sample_interval:1,final:false", &why, NULL), 0, "a session");
	sample();
	hooks = os_hooks_real;
	hooks.mmap = map_noted;
	hooks.munmap = unmap_noted;
	os_hooks = &hooks;
	is_int(fork_amid(&a), 0, "a fork while the list is printed: the child frees the copy");
	os_hooks = &os_hooks_real;
	prof_session_stop(0, NULL);
}

/* ------------------------------------------------------------------ the parent's mailbox */

static unsigned n_made;

static int
count_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) {
	n_made++;
	return os_hooks_real.pthread_create(t, attr, fn, arg);
}

static void
in_idle_child(void *arg) {
	(void)arg;
	_exit(n_made != 0 ? 1 : box->state != prof_mailbox_idle ? 2 : prof_session_is_active() ? 3 : 0);
}

static void
test_parent_box(void) {
	static struct test_result r;

	is_int(prof_session_start("time_ms:100000,final:false", &why, NULL), 0, "a session");
	is_uint(box->state, prof_mailbox_active, "which the mailbox shows");
	hooks = os_hooks_real;
	hooks.pthread_create = count_create;
	os_hooks = &hooks;
	opt_prof_thread = prof_thread_auto;
	run_forked(&r, in_idle_child, NULL);
	opt_prof_thread = prof_thread_false;
	os_hooks = &os_hooks_real;
	child_exits(&r, 0, "a child is idle, and its handlers start no thread");
	is_uint(box->state, prof_mailbox_active, "of which the parent's mailbox shows nothing");
	prof_session_stop(0, NULL);
}

/* ------------------------------------------------------------------ the dump hook forks */

static pid_t forked;

static void
fork_in_hook(const char *path) {
	(void)path;
	forked = fork();
	if (forked == 0)
		alarm(60);
}

static void
test_fork_in_hook(void) {
	prof_slot_t *s = &box->slots[2];
	int status = -1;

	strcpy(s->text, "dump-stream");
	s->length = 11;
	s->nonce = 9;
	s->checksum = prof_mailbox_sum(1, s->nonce, s->text, s->length);
	s->sequence = 1;
	prof_hook_set(PROF_HOOK_DUMP, (prof_hook_fn_t)fork_in_hook);
	prof_control_serve();
	prof_hook_set(PROF_HOOK_DUMP, NULL);
	if (forked == 0)
		_exit(prof_control_serve() && !prof_handover_is_any() ? 0 : 1);
	waitpid(forked, &status, 0);
	is_int(status, 0, "a child of the dump hook of a request goes on");
	ok(s->answered == 1 && s->error == 0, "as its parent does");
}

/* ------------------------------------------------------------------ counts */

static int
sink_that_fails(const void *data, size_t len) {
	(void)data, (void)len;
	return EIO;
}

static int
sink_that_takes(const void *data, size_t len) {
	(void)data, (void)len;
	return 0;
}

static void
count_in_child(void *arg) {
	char text[PROF_TEXT_SIZE];
	prof_dump_t d = {.kind = prof_kind_alloc, .sink = sink_that_takes, .may_wait = true};
	prof_dump_t bad = {.kind = prof_kind_alloc, .sink = sink_that_fails, .may_wait = true};

	(void)arg;
	must(prof_dump_nerrors() == 0, 1);
	must(prof_dump_nwritten() == 0, 2);
	prof_dump_last_path(text, sizeof(text));
	must(text[0] == '\0', 3);
	prof_dump_last_error(text, sizeof(text));
	must(text[0] == '\0', 4);
	must(prof_session_rejected() == 0, 5);
	/* The third failure, not the first, would put off the next one. */
	must(prof_dump(&bad) == EIO && prof_dump(&bad) == EIO && prof_dump(&d) == 0, 8);
	must(prof_mdump(prof_kind_manual, "child.heap", false, NULL) == 0, 6);
	prof_dump_last_path(text, sizeof(text));
	_exit(prof_dump_nwritten() == 2 && strstr(text, "/child.heap") != NULL ? 0 : 7);
}

static void
test_counts(void) {
	static struct test_result r;
	char text[PROF_TEXT_SIZE];
	prof_dump_t d = {.kind = prof_kind_manual, .sink = sink_that_fails, .may_wait = true};

	is_int(prof_dump(&d), EIO, "a profile whose reader fails");
	d.kind = prof_kind_alloc;
	prof_abort = false; /* a debug build would end by the next failure */
	for (int i = 0; i < 3; i++)
		is_int(prof_dump(&d), EIO, "an automatic one, too");
	is_int(prof_dump(&d), EAGAIN, "after three such failures none is tried for a while");
	prof_dump_last_error(text, sizeof(text));
	ok(strncmp(text, "EIO - ", 6) == 0, "has no path: %s", text);
	is_int(prof_mdump(prof_kind_manual, "parent.heap", false, NULL), 0, "one in a file");
	is_int(prof_session_stop(0, NULL), EALREADY, "a stop that is refused");
	run_forked(&r, count_in_child, NULL);
	child_exits(&r, 0, "a child begins to count anew");
	ok(prof_dump_nerrors() > 0 && prof_dump_nwritten() > 0 && prof_session_rejected() > 0,
	    "its parent does not");
}

/* ------------------------------------------------------------------ what belongs to the parent */

/* The second thread has samples, creates a file, ends the process; a profile is due. */
static void
be_busy(void) {
	is_second = false; /* not to stop where a sample lists the loaded objects */
	sample();
	is_second = true;
	prof_keep_suppress();
	prof_keep_overlap();
	atomic_store_u32(&prof_sys_creation.nbusy, 1, MO_SEQ_CST);
	atomic_store_u32(&prof_sys_creation.ender, 1, MO_SEQ_CST);
	atomic_store_b(&prof_gdump_is_due, true, MO_SEQ_CST);
	stop_here();
	atomic_store_b(&prof_gdump_is_due, false, MO_SEQ_CST);
	atomic_store_u32(&prof_sys_creation.ender, 0, MO_SEQ_CST);
	atomic_store_u32(&prof_sys_creation.nbusy, 0, MO_SEQ_CST);
}

static void
begin_anew(void) {
	char text[PROF_TEXT_SIZE], want[80];
	unsigned attached = 0;

	must(prof_root()->pid == (uint32_t)getpid(), 1);
	must(prof_keep_suppressed() == 0 && prof_keep_overlapped() == 0, 2);
	must(atomic_load_u32(&prof_sys_creation.nbusy, MO_SEQ_CST) == 0, 3);
	must(atomic_load_u32(&prof_sys_creation.ender, MO_SEQ_CST) == 0, 4);
	must(!atomic_load_b(&prof_gdump_is_due, MO_SEQ_CST), 5);
	for (prof_tdata_t *td = prof_data_tdatas(); td != NULL; td = prof_tdata_next(td))
		attached += atomic_load_b(&td->attached, MO_SEQ_CST);
	must(attached <= 1, 6);
	must(prof_mdump(prof_kind_manual, NULL, false, NULL) == 0, 7);
	prof_dump_last_path(text, sizeof(text));
	snprintf(want, sizeof(want), "/jeprof.%d.", (int)getpid());
	must(strstr(text, want) != NULL && strstr(text, ".0.m0.heap") != NULL, 8);
}

static int
sink_slowly(const void *data, size_t len) {
	(void)data, (void)len;
	stop_here();
	return 0;
}

static void
dump_slowly(void) {
	prof_dump_t d = {.kind = prof_kind_manual, .sink = sink_slowly, .may_wait = true};

	prof_dump(&d);
}

static void
dump_in_child(void) {
	must(prof_mdump(prof_kind_manual, NULL, false, NULL) == 0, 1);
}

static void
test_anew(void) {
	static const struct amid a = {be_busy, begin_anew}, dump = {dump_slowly, dump_in_child};

	is_int(prof_session_start("sample_interval:1,final:false", &why, NULL), 0, "a session");
	sample();
	is_int(prof_mdump(prof_kind_manual, NULL, false, NULL), 0, "a profile of the parent");
	is_int(fork_amid(&a), 0, "a child has its own pid, names, counts and threads");
	is_int(fork_amid(&dump), 0, "a fork while a profile is written: the child may write its own");
	prof_session_stop(0, NULL);
}

/* ------------------------------------------------------------------ what a thread looks for */

static void
hold_history(void) {
	if (module_history_try_hold()) {
		stop_here();
		module_history_release();
	}
}

static void
look_at_history(void) {
	must(module_history_try_hold(), 1);
}

static int
open_slowly(const char *path, int flags, unsigned mode) {
	stop_here();
	n_made++;
	return os_hooks_real.open(path, flags, mode);
}

static void
look_for_group(void) {
	room_group_look();
}

static void
look_in_child(void) {
	n_made = 0;
	room_group_look();
	must(n_made > 0, 1);
}

static void
test_looking(void) {
	static const struct amid history = {hold_history, look_at_history},
	    group = {look_for_group, look_in_child};

	is_int(fork_amid(&history), 0, "a fork while objects are recorded: the child may record");
	room_group_forget();
	hooks = os_hooks_real;
	hooks.open = open_slowly;
	os_hooks = &hooks;
	is_int(fork_amid(&group), 0, "a fork while the memory cgroup is searched: the child searches");
	os_hooks = &os_hooks_real;
}

/* ------------------------------------------------------------------ triggers */

static unsigned nread, ndumped;

static uint64_t
now_is(void) {
	return 1000;
}

static bool
is_on(void) {
	return true;
}

static uint64_t
read_slowly(prof_metric_t metric) {
	(void)metric;
	nread++;
	stop_here();
	return 0;
}

static int
count_dump(prof_kind_t kind, const char *metric, uint64_t value) {
	(void)metric, (void)value;
	ndumped += kind == prof_kind_alloc;
	return 0;
}

static void
beat(void) {
	prof_trigger_heartbeat(600 << 10);
}

static void
beat_in_child(void) {
	nread = 0;
	beat();
	must(nread == 1, 1);
	must(ndumped == 1, 2);
	beat();
	must(ndumped == 2, 3);
}

static void
test_triggers(void) {
	static const prof_trigger_hooks_t fake = {now_is, is_on, read_slowly, count_dump};
	static const struct amid a = {beat, beat_in_child};
	const prof_trigger_hooks_t *saved = prof_trigger_hooks;

	prof_trigger_hooks = &fake;
	prof_keep_set(prof_keep_min_gap_ms, 1000);
	prof_threshold_set(prof_threshold_alloc, 1 << 20);
	beat();
	beat();
	is_uint(ndumped, 1, "a profile after a mebibyte");
	prof_threshold_set(prof_threshold_alloc, 1 << 20);
	prof_threshold_set(prof_threshold_highwater, 1);
	is_int(fork_amid(&a), 0, "a fork while the level is read: the child reads, and counts anew");
	prof_keep_set(prof_keep_min_gap_ms, 0);
	beat();
	is_uint(ndumped, 2, "its parent has counted on");
	prof_threshold_set(prof_threshold_alloc, 0);
	prof_threshold_set(prof_threshold_highwater, 0);
	prof_trigger_hooks = saved;
}

/* ------------------------------------------------------------------ the log */

static unsigned
nlogged(const char *path) {
	char line[4096];
	unsigned n = 0;
	FILE *log = fopen(path, "r");

	while (log != NULL && fgets(line, sizeof(line), log) != NULL)
		n += strstr(line, "\"alloc_timestamp\"") != NULL;
	if (log != NULL)
		fclose(log);
	return n;
}

static void
log_in_child(void *arg) {
	bool is_idle = *(bool *)arg;

	must(prof_log_start("child.log") == (is_idle ? 0 : EFAULT), 1);
	must(prof_log_stop() == 0, 2);
	_exit(is_idle ? nlogged("child.log") != 0 : nlogged("parent.log") == 0);
}

static void *maps[64]; /* what has been mapped since the log began; NULL: unmapped */
static unsigned nmaps;
static int log_fd;

static void *
map_listed(void *addr, size_t size, int prot, int flags, int fd, off_t offset) {
	void *p = os_hooks_real.mmap(addr, size, prot, flags, fd, offset);

	if (nmaps < 64)
		maps[nmaps++] = p;
	return p;
}

static int
unmap_listed(void *addr, size_t size) {
	for (unsigned i = 0; i < nmaps; i++)
		maps[i] = maps[i] == addr ? NULL : maps[i];
	return os_hooks_real.munmap(addr, size);
}

static unsigned
nunmapped(void) {
	unsigned n = 0;

	for (unsigned i = 0; i < nmaps; i++)
		n += maps[i] == NULL;
	return n;
}

static ssize_t
write_slowly(int fd, const void *buf, size_t size) {
	log_fd = fd;
	stop_here();
	return os_hooks_real.write(fd, buf, size);
}

static void
write_log(void) {
	prof_log_stop();
}

/* Ends with the number of mappings that it has freed of the parent's log. */
static void
log_anew(void) {
	unsigned n = nunmapped();

	must(n < 50, 50);
	must(fcntl(log_fd, F_GETFD) == -1, 51);
	must(prof_session_start("sample_interval:1,final:false", &why, NULL) == 0, 52);
	must(prof_log_start("own.log") == 0, 53);
	sample();
	must(prof_log_stop() == 0, 54);
	must(nlogged("own.log") > 0, 55);
	_exit((int)n);
}

static void
test_log(void) {
	static const struct amid a = {write_log, log_anew};
	static struct test_result r;
	prof_fork_t saved = opt_prof_fork;

	is_int(prof_session_start("sample_interval:1,final:false", &why, NULL), 0, "a session");
	hooks = os_hooks_real;
	hooks.mmap = map_listed;
	hooks.munmap = unmap_listed;
	hooks.write = write_slowly;
	os_hooks = &hooks;
	is_int(prof_log_start("parent.log"), 0, "a log");
	sample();
	for (int i = 0; i < 2; i++) {
		bool is_idle = i > 0;

		opt_prof_fork = is_idle ? prof_fork_idle : prof_fork_inherit;
		run_forked(&r, log_in_child, &is_idle);
		child_exits(&r, 0, "in a child it %s", is_idle ? "is over, with its records" : "goes on");
	}
	opt_prof_fork = saved;
	int status = fork_amid(&a);
	os_hooks = &os_hooks_real;
	ok(nunmapped() >= 4, "records, threads, stacks and a buffer are freed at the end");
	is_int(status, (int)nunmapped() << 8, "a fork while it is written: the child has freed them, "
	    "and may log");
	ok(nlogged("parent.log") > 0, "the parent's has records");
	prof_session_stop(0, NULL);
}

/* ------------------------------------------------------------------ the files of the prefix */

static void
count_files(void) {
	prof_keep_written(prof_kind_alloc, 1);
}

static void
find_no_room(void) {
	must(!prof_keep_try_room(prof_kind_alloc), 1);
}

static void
test_files(void) {
	static const struct amid a = {count_files, find_no_room};

	close(open("full.1.0.a0.heap", O_WRONLY | O_CREAT, 0600));
	prof_sys_prefix_set("full");
	prof_keep_set(prof_keep_max_files, 1);
	ok(!prof_keep_try_room(prof_kind_alloc), "a file of another process is all that may be there");
	hooks = os_hooks_real;
	hooks.open = open_slowly;
	os_hooks = &hooks;
	is_int(fork_amid(&a), 0, "a fork while the files are counted: the child counts them anew");
	os_hooks = &os_hooks_real;
	prof_keep_set(prof_keep_max_files, 100);
	prof_sys_prefix_set("jeprof");
}

/* ------------------------------------------------------------------ at any instruction */

#if CAN_STEP

static bool (*works)(void); /* in a child, whether the stepped call can do its work anew */
static unsigned nforks, nbad;

/* Forks where neither the loader's lock nor the gate is held. */
static void
on_step(int sig, siginfo_t *info, void *context) {
	int saved = errno, status = -1;

	(void)sig, (void)info, (void)context;
	if (is_listing || gate_is_entered(tls_get()))
		return;
	pid_t pid = fork();
	if (pid == 0) {
		alarm(60);
		_exit(works() ? 0 : 1);
	}
	nforks++;
	nbad += waitpid(pid, &status, 0) != pid || status != 0;
	errno = saved;
}

static void
step_through(void (*fn)(void), bool (*then)(void), const char *what) {
	works = then;
	nforks = nbad = 0;
	step(true);
	fn();
	step(false);
	ok(nforks > 10, "%u forks, at each instruction of %s", nforks, what);
	is_uint(nbad, 0, "whose children can do that too");
}

static void
scan_objects(void) {
	module_history_try_look();
}

/* Unless no object may be listed there at all. */
static bool
scans_anew(void) {
	bool is_lost = sys_modules(see_module, NULL, "") < 0;
	unsigned before = nlisted;

	module_history_try_look();
	return is_lost || nlisted > before;
}

static bool
tells_anew(void) {
	prof_root()->figures.time_ns = 0;
	prof_course_begin();
	return prof_root()->figures.time_ns != 0;
}

static void
test_steps(void) {
	struct sigaction sa = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};

	sigaction(SIGTRAP, &sa, NULL);
	module_history_postfork_child(); /* the next look lists the objects, though none has come */
	step_through(scan_objects, scans_anew, "a search for frames");
	step_through(prof_course_begin, tells_anew, "what tells the figures");
}

#else

static void
test_steps(void) {
	skip(4, "the processor is not one that this test steps");
}

#endif

int
main(void) {
	static void (*const tests[])(void) = {test_first_start, test_tracer, test_handover, test_recent,
	    test_parent_box, test_fork_in_hook, test_counts, test_anew, test_looking,
	    test_triggers, test_log, test_files, test_steps, NULL};

	alarm(300);
	*(void **)&real_iterate = dlsym(RTLD_NEXT, "dl_iterate_phdr");
	default_signals();
	free(keep(malloc(1)));
	return dir_main(config_prof, tests);
}
