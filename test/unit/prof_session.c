/*
 * The session's rules, its options, and every cell of the table of requests and states that one
 * thread can see.
 */
#include "dir.h"

#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "arena/arenas.h"
#include "os/nstime.h"
#include "os/sys.h"
#include "meta/freepool.h"
#include "ctl/ctl.h"
#include "meta/recs.h"
#include "meta/region.h"
#include "prof/prof.h"
#include "prof/file/prof_dump.h"
#include "prof/control/prof_control.h"
#include "prof/control/prof_request.h"
#include "prof/control/prof_session.h"
#include "prof/file/prof_box.h"
#include "prof/file/prof_keep.h"
#include "prof/sites/prof_hook.h"
#include "prof/trigger/prof_trigger.h"
#include "unwind/module_history.h"

static prof_session_opts_t o;
static const char *why;

static atomic_b_t is_reading, is_read;

/*
 * What the locks of the site tables have counted, while they are made: under the thread sanitizer
 * no race.
 */
static void *
read_locks(void *arg) {
	prof_mutexes_t d;

	while (!atomic_load_b(&is_read, MO_RELAXED)) {
		prof_mutex_stats_read(&d);
		prof_mutex_stats_reset();
		atomic_store_b(&is_reading, true, MO_RELAXED);
	}
	return arg;
}

static void
test_rules(void) {
	static const struct {
		prof_session_state_t state;
		int start, stop, stop_right, stop_other;
	} cells[] = {
		{prof_session_idle, 0, EALREADY, EALREADY, EALREADY},
		{prof_session_starting, EALREADY, EBUSY, EBUSY, EBUSY},
		{prof_session_active, EALREADY, 0, 0, EPERM},
		{prof_session_stopping, EBUSY, EBUSY, EBUSY, EBUSY},
	};

	for (unsigned i = 0; i < ARRAY_LEN(cells); i++) {
		is_int(prof_session_may_start(cells[i].state), cells[i].start, "start in state %u", i);
		is_int(prof_session_may_stop(cells[i].state, 5, 0), cells[i].stop, "stop in state %u", i);
		is_int(prof_session_may_stop(cells[i].state, 5, 5), cells[i].stop_right, "its number, %u",
		    i);
		is_int(prof_session_may_stop(cells[i].state, 5, 6), cells[i].stop_other, "another, %u", i);
	}
}

static void
test_options(void) {
	static const char *const bad[] = {
		"x", "x:1", "alloc", "alloc:", "alloc:1x", "alloc:-1", "alloc: 1", "alloc:1KK", "alloc:1k",
		"alloc:1,", ",alloc:1", "alloc:1,,large:1", "alloc:18446744073709551616",
		"alloc:18446744073709551615G", "time_ms:1K", "sample_interval:0",
		"sample_interval:9223372036854775808", "reset:yes", "reset:", "final:no", "final:",
		    "max_seconds:1K",
		"max_seconds:99999999999999", "prefix:", "highwater_metric:moon", "highwater_metric:",
		"allo:1", "allocc:1", " alloc:1", "highwater:0%", "highwater:101%", "highwater:%",
		"highwater:1K%", "highwater:-1%", "alloc:50%", "budget:", "budget:101", "budget:1%",
	};

	for (unsigned i = 0; i < ARRAY_LEN(bad); i++) {
		why = "";
		is_int(prof_session_parse(&o, bad[i], &why), EINVAL, "\"%s\" is refused", bad[i]);
		ok(strlen(why) > 10, "with a reason: %s", why);
		const char *colon = strstr(why, ": wants ");
		ok(colon == NULL || strncmp(why, bad[i], (size_t)(colon - why)) == 0, "of this key: %s",
		    why);
		ok(strncmp(why, "a threshold", 11) != 0, "not of any threshold");
	}
	is_int(prof_session_parse(&o, NULL, &why), 0, "none");
	is_int(prof_session_parse(&o, "", &why), 0, "an empty text");
	ok(o.prefix == NULL && o.given == 0, "gives nothing");
	is_int(prof_session_parse(&o, "prefix:/a:b/c,sample_interval:64K,reset:false,max_seconds:60,"
	    "alloc:4G,large:0,highwater:100,highwater_step:2M,highwater_metric:rss,time_ms:500", &why),
	    0, "all of them");
	ok(o.percent == 0, "in bytes");
	is_int(prof_session_parse(&o, "highwater:90%,highwater:1M,highwater_step:5,highwater_step:6%",
	    &why), 0, "twice");
	ok(o.percent == 1u << prof_threshold_highwater_step && o.values[prof_threshold_highwater]
	    == 1 << 20 && o.values[prof_threshold_highwater_step] == 6, "the last one holds");
	is_int(prof_session_parse(&o, "highwater:90%,highwater_metric:cgroup,highwater_step:5%", &why),
	    0, "percent");
	ok(o.percent == (1u << prof_threshold_highwater | 1u << prof_threshold_highwater_step)
	    && o.values[prof_threshold_highwater] == 90 && o.values[prof_threshold_highwater_step] == 5
	    && o.values[prof_session_metric] == prof_metric_cgroup, "which become bytes later");
	is_int(prof_session_parse(&o, "prefix:/a:b/c,sample_interval:64K,reset:false,max_seconds:60,"
	    "alloc:4G,large:0,highwater:100,highwater_step:2M,highwater_metric:rss,time_ms:500", &why),
	    0, "all of them again");
	ok(o.prefix_len == 6 && memcmp(o.prefix, "/a:b/c", 6) == 0, "a prefix with a colon");
	ok(o.values[prof_session_sample_interval] == 65536 && o.values[prof_session_reset] == 0
	    && o.values[prof_session_max_seconds] == 60
	    && o.values[prof_session_metric] == prof_metric_rss, "values");
	ok(o.values[prof_threshold_alloc] == UINT64_C(4) << 30 && o.values[prof_threshold_large]
	    == 0 && o.values[prof_threshold_highwater] == 100
	    && o.values[prof_threshold_highwater_step] == 2 << 20
	    && o.values[prof_threshold_time_ms] == 500, "thresholds");
	is_uint(o.given, 31 | 1u << prof_session_metric | 1u << prof_session_sample_interval
	    | 1u << prof_session_max_seconds | 1u << prof_session_reset, "and nothing else");
}

/* The statistics have each lock's own counters, which differ; a read takes the lock itself. */
static void
test_locks(void) {
	prof_mutexes_t d;
	const struct {
		const char *name;
		const mutex_prof_data_t *data;
		unsigned n;
	} locks[] = {
		{"stats.mutexes.prof_thds_data.num_ops", &d.thds_data, 40},
		{"stats.mutexes.prof_dump.num_ops", &d.dump, 40},
		{"stats.mutexes.prof_recent_alloc.num_ops", &d.recent_alloc, 0},
		{"stats.mutexes.prof_recent_dump.num_ops", &d.recent_dump, 0},
	};

	prof_mutex_stats_reset();
	for (unsigned i = 0; i < 40; i++)
		prof_mark(false);
	uint64_t epoch = 1;
	ctl_byname("epoch", NULL, NULL, &epoch, sizeof(epoch));
	prof_mutex_stats_read(&d);
	for (unsigned i = 0; i < ARRAY_LEN(locks); i++) {
		uint64_t n = UINT64_MAX, now = locks[i].data->n_lock_ops;
		size_t len = sizeof(n);
		is_int(ctl_byname(locks[i].name, &n, &len, NULL, 0), 0, "%s", locks[i].name);
		ok(n >= locks[i].n && n < locks[i].n + 20 && n <= now && now <= n + 4, "is %llu of %llu",
		    (unsigned long long)n, (unsigned long long)now);
	}
}

static unsigned hook_calls;
static int hook_stop, hook_start;

/* In here the session is being stopped, and this thread writes its profile. */
static void
dump_hook(const char *path) {
	(void)path;
	hook_calls++;
	hook_stop = prof_session_stop(0, NULL);
	hook_start = prof_session_start(NULL, NULL, NULL);
}

static void
test_cycle(void) {
	char text[300], path[PROF_PATH_SIZE];
	uint64_t rejected = prof_session_rejected();
	pthread_t reader;

	ok(!prof_is_booted(), "nothing is booted");
	is_int(prof_session_stop(0, NULL), EALREADY, "stop without a session");
	is_int(prof_session_start("moon:1", &why, NULL), EINVAL, "bad options");
	ok(!prof_is_booted() && prof_session_id() == 0 && prof_session_start_ns() == 0,
	    "change nothing");
	snprintf(text, sizeof(text), "prefix:%s/one,sample_interval:1,alloc:5G", dir);
	pthread_create(&reader, NULL, read_locks, NULL);
	while (!atomic_load_b(&is_reading, MO_RELAXED))
		usleep(100);
	is_int(prof_session_start(text, &why, NULL), 0, "start");
	atomic_store_b(&is_read, true, MO_RELAXED);
	pthread_join(reader, NULL);
	ok(prof_is_booted() && prof_switch_is_active() && prof_session_is_active(), "boots and runs");
	is_uint(prof_session_id(), 1, "number one");
	is_uint(prof_threshold_get(prof_threshold_alloc), UINT64_C(5) << 30, "its threshold");
	uint64_t began = prof_session_start_ns();
	is_int(prof_session_start(NULL, NULL, NULL), EALREADY, "a second start");
	is_int(prof_session_start("moon:1", NULL, NULL), EALREADY, "also with bad options");
	is_int(prof_session_stop(2, NULL), EPERM, "stop of another");
	ok(prof_session_start_ns() == began && prof_session_id() == 1, "nothing changed");
	is_uint(prof_session_rejected() - rejected, 4, "refusals are counted");
	is_int(prof_session_set("large:3M,sample_interval:77", &why), 0, "set");
	is_uint(prof_sample_interval_get(), 77, "changes the rate");
	is_int(prof_session_set("reset:true", &why), EINVAL, "not what belongs to a start");
	is_int(prof_session_set("final:false", &why), EINVAL, "nor this");
	is_int(prof_session_set("large:x", &why), EINVAL, "nor nonsense");
	prof_hook_set(PROF_HOOK_DUMP, (prof_hook_fn_t)dump_hook);
	is_int(prof_session_stop(1, NULL), 0, "stop by number");
	prof_hook_set(PROF_HOOK_DUMP, NULL);
	ok(hook_calls == 1 && hook_stop == EBUSY && hook_start == EBUSY, "meanwhile both are busy");
	ok(!prof_session_is_active() && !prof_switch_is_active(), "idle");
	is_uint(prof_threshold_get(prof_threshold_alloc), 0, "the threshold from before is back");
	prof_dump_last_path(path, sizeof(path));
	contains(path, "/one.", "the profile has the session's prefix");
	contains(path, ".s0.heap", "and its kind");
	ok(access(path, R_OK) == 0, "it is there");
	is_int(prof_session_start(NULL, NULL, NULL), 0, "again");
	is_uint(prof_session_id(), 2, "number two");
	prof_active_set(false);
	ok(prof_session_is_active(), "paused, not stopped");
	is_int(prof_session_stop(2, NULL), 0, "a paused one stops");
}

static void
test_failures(void) {
	char text[300];

	snprintf(text, sizeof(text), "prefix:%s/gone/p", dir);
	is_int(prof_session_start(text, &why, NULL), EINVAL, "a directory that is not there");
	is_str(why, "prefix: there is no such directory", "and why");
	ok(!prof_session_is_active() && !prof_switch_is_active(), "nothing has begun");
	mkdir("gone", 0700);
	is_int(prof_session_start(text, NULL, NULL), 0, "one that is there");
	is_int(rmdir("gone"), 0, "until now");
	is_int(prof_session_stop(0, NULL), EFAULT, "the profile cannot be written");
	ok(!prof_session_is_active() && !prof_switch_is_active(), "idle all the same");
	is_int(prof_session_start("max_seconds:1", NULL, NULL), 0, "with an end");
	is_int(prof_session_set("max_seconds:0", &why), 0, "the end is taken away");
	ok(prof_session_tick() == UINT64_MAX, "so there is none");
	is_int(prof_session_stop(0, NULL), 0, "stop");
	is_int(prof_session_set("max_seconds:5", &why), ENOENT, "no session, no end");
}

/* ------------------------------------------------------------------ an end that comes too late */

static uint64_t clock_ns = UINT64_C(1) << 50;
static unsigned clock_acts;

/* Who looks at the clock of an expired session does it just when another one has been begun. */
static uint64_t
clock_hook(void) {
	if (clock_acts == 1) {
		clock_acts = 0;
		is_int(prof_session_stop(0, NULL), 0, "the expired session is stopped by hand");
		is_int(prof_session_start("max_seconds:1000", NULL, NULL), 0, "another one begins");
	}
	return clock_ns;
}

static void
test_late_end(void) {
	uint64_t rejected = prof_session_rejected();

	nstime_now_hook = clock_hook;
	is_int(prof_session_start("max_seconds:10", NULL, NULL), 0, "ten seconds");
	uint64_t id = prof_session_id();
	is_uint((prof_session_tick() + 999999) / 1000000000, 10, "to go");
	clock_ns += UINT64_C(11) * 1000000000;
	ok(prof_session_is_over(), "they are over");
	clock_acts = 1;
	prof_session_tick();
	ok(prof_session_is_active() && prof_session_id() == id + 1,
	    "the next session is not ended by them");
	is_uint(prof_session_rejected(), rejected, "nor is it tried");
	ok(!prof_session_is_over(), "it has its own end");
	clock_ns += UINT64_C(1001) * 1000000000;
	is_uint(prof_session_tick(), UINT64_MAX, "which comes");
	ok(!prof_session_is_active() && !prof_session_is_over(), "and ends it");
	nstime_now_hook = NULL;
}

/* ------------------------------------------------------------------ what sessions leave behind */

#define CHURNERS 8

static bool is_over;

static void *
churn(void *arg) {
	uint64_t seed = (uint64_t)(uintptr_t)arg;
	void *p[64] = {NULL};

	while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
		for (unsigned i = 0; i < 64; i++) {
			free(p[i]);
			p[i] = keep(malloc(test_random(&seed) % 500));
		}
	}
	for (unsigned i = 0; i < 64; i++)
		free(p[i]);
	return NULL;
}

static unsigned
sessions(unsigned n) {
	char path[PROF_PATH_SIZE];
	unsigned bad = 0;

	for (unsigned i = 0; i < n; i++) {
		bad += prof_session_start(i % 4 == 3 ? "sample_interval:1,reset:false"
		    : "sample_interval:1", NULL, NULL) != 0;
		free(keep(malloc(100)));
		bad += prof_session_stop(0, NULL) != 0;
		prof_dump_last_path(path, sizeof(path));
		bad += unlink(path) != 0;
	}
	return bad;
}

/* Metadata of an arena's slabs: the bits of large ones. */
static size_t
slab_metadata(arena_t *a, const bin_info_t *infos) {
	size_t bytes = 0;

	for (szind_t i = 0; a != NULL && i < SC_NBINS; i++) {
		size_t bits = (infos[i].nregs + 63) / 64 * 8;
		size_t each = bits > sizeof(((edata_t *)0)->u.inline_bits) ? meta_good_size(bits) : 0;

		for (unsigned s = 0; s < bin_infos[i].n_shards; s++)
			bytes += arena_bin(a, i, s)->stats.curslabs * each;
	}
	return bytes;
}

/* The blocks of samples' records, which are recycled and never returned. */
static size_t
record_metadata(bool is_in_region) {
	size_t (*good_size)(size_t) = is_in_region ? region_good_size : meta_good_size;
	size_t bytes = 0;

	for (const recs_block_t *b = recs_blocks(is_in_region); b != NULL; b = b->next)
		bytes += good_size(b->n * sizeof(sample_rec_t)) + good_size(sizeof(*b));
	return bytes;
}

/*
 * Metadata without that of slabs and of samples in them: a bin keeps a slab when its last object is
 * gone, so how many there are follows from which thread took which size in which arena, and not
 * from how many sessions there were.
 */
static size_t
books(void) {
	size_t slabs = record_metadata(true) + record_metadata(false), all;

	for (unsigned ind = 0; ind < arenas_narenas_total(); ind++)
		slabs += slab_metadata(arenas_get(ind), bin_infos)
		    + slab_metadata(arenas_sampled_get(ind), bin_infos_sampled);
	all = meta_in_use() + region_in_use();
	ok(slabs <= all, "%zu bytes of metadata, %zu of them for slabs", all, slabs);
	return all - slabs;
}

/*
 * Sessions while threads allocate, then some alone, so that what was left is swept. Metadata of the
 * books afterwards.
 */
static size_t
round_of_sessions(unsigned n) {
	pthread_t t[CHURNERS];
	unsigned bad;

	is_over = false;
	for (uintptr_t i = 0; i < CHURNERS; i++)
		pthread_create(&t[i], NULL, churn, (void *)(i + 1));
	bad = sessions(n);
	__atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < CHURNERS; i++)
		pthread_join(t[i], NULL);
	bad += sessions(100);
	is_uint(bad, 0, "%u sessions under %d threads", n, CHURNERS);
	return books();
}

static void
test_leftovers(void) {
	const char *text = getenv("SESSION_CYCLES");
	unsigned n = text != NULL ? (unsigned)atoi(text) : 300;
	size_t before = round_of_sessions(n / 3), after = 0;

	for (unsigned i = 0; i < 4; i++)
		after = round_of_sessions(n / 3);
	/*
	 * Bucket arrays of the site tables, and records of the threads that were last to end: up to
	 * 2 KB each.
	 */
	ok(after < before + (32 << 10), "%zu bytes of metadata in use, then %zu", before, after);
}

/*
 * A box whose tables could not be moved back at the end of its session: the next session that wants
 * one has its own file.
 */
static void
test_box_that_stays(void) {
	char path[PATH_MAX];

	is_int(prof_session_start("blackbox:true,blackbox_size:4M", &why, NULL), 0,
	    "a session with a box");
	prof_box_path(path, sizeof(path));
	is_int(access(path, R_OK), 0, "its file is there");
	ok(module_history_try_hold(), "somebody reads the list of objects");
	is_int(prof_session_stop(0, NULL), 0, "the session ends");
	ok(access(path, R_OK) != 0 && prof_box_is_over(), "the file goes, the tables cannot move yet");
	ok(prof_session_start("blackbox:true,blackbox_size:4M", &why, NULL) != 0 && *why != '\0',
	    "no session that only seems to have a box: %s", why);
	module_history_release();
	is_int(prof_session_start("blackbox:true,blackbox_size:4M", &why, NULL), 0, "then another one");
	ok(prof_box_is_open() && !prof_box_is_over(), "has a box");
	prof_box_path(path, sizeof(path));
	is_int(access(path, R_OK), 0, "and its file is there");
	is_int(prof_session_stop(0, NULL), 0, "it ends");
	ok(!prof_box_is_open() && access(path, R_OK) != 0, "with its box");
}

/* ------------------------------------------------------------------ an end that is changed */

static uint64_t clock_ns;
static void (*meanwhile)(void); /* called when the clock is read next */

static uint64_t
clock_with_events(void) {
	void (*event)(void) = meanwhile;

	meanwhile = NULL;
	if (event != NULL)
		event();
	return clock_ns;
}

static void
stop_meanwhile(void) {
	prof_session_stop(0, NULL);
}

static void
extend_meanwhile(void) {
	is_int(prof_session_set("max_seconds:100", &why), 0, "its end is put off meanwhile");
}

/* A new end is that of a running session, or refused. */
static void
test_changed_end(void) {
	clock_ns = UINT64_C(1) << 50;
	nstime_now_hook = clock_with_events;
	is_int(prof_session_start("max_seconds:10,final:false", &why, NULL), 0, "a session");
	meanwhile = stop_meanwhile;
	is_int(prof_session_set("max_seconds:20", &why), ENOENT, "which ends while its end is changed");
	clock_ns += 30 * NSTIME_PER_SEC;
	ok(prof_session_tick() == UINT64_MAX, "no end is left");
	is_int(prof_session_start("max_seconds:10,final:false", &why, NULL), 0, "another one");
	clock_ns += 11 * NSTIME_PER_SEC;
	meanwhile = extend_meanwhile;
	prof_session_tick();
	ok(prof_session_is_active(), "which does not end");
	clock_ns += 101 * NSTIME_PER_SEC;
	prof_session_tick();
	ok(!prof_session_is_active(), "before its new end");
	is_int(prof_session_set("max_seconds:20", &why), ENOENT, "which cannot be changed any more");
	nstime_now_hook = NULL;
}

/* ------------------------------------------------------------------ an end during a dump */

static bool is_in_hook, leaves_hook;

static void
until(const bool *is_so) {
	while (!__atomic_load_n(is_so, __ATOMIC_SEQ_CST))
		usleep(100);
}

static void
stay_in_hook(const char *path) {
	(void)path;
	__atomic_store_n(&is_in_hook, true, __ATOMIC_SEQ_CST);
	until(&leaves_hook);
}

static void *
dump_once(void *arg) {
	prof_mdump(prof_kind_manual, "hooked.heap", false, NULL);
	return arg;
}

/* No heartbeat waits for the dump hook of another thread, which may wait for this one. */
static void
test_end_during_dump(void) {
	pthread_t t;

	alarm(200);
	clock_ns = UINT64_C(1) << 51;
	nstime_now_hook = clock_with_events;
	is_int(prof_session_start("max_seconds:10", &why, NULL), 0, "a session");
	prof_hook_set(PROF_HOOK_DUMP, (prof_hook_fn_t)stay_in_hook);
	pthread_create(&t, NULL, dump_once, NULL);
	until(&is_in_hook);
	clock_ns += 11 * NSTIME_PER_SEC;
	prof_session_tick();
	ok(prof_session_is_active() && prof_session_is_over(), "which is over during a dump goes on");
	__atomic_store_n(&leaves_hook, true, __ATOMIC_SEQ_CST);
	pthread_join(t, NULL);
	prof_hook_set(PROF_HOOK_DUMP, NULL);
	prof_session_tick();
	ok(!prof_session_is_active(), "until that has ended");
	nstime_now_hook = NULL;
	alarm(0);
}

/* ------------------------------------------------------------------ an end during a stop */

static bool is_in_tick, may_tick, was_over;
static pthread_t ticker;
static void (*changed)(void);

static void
stay_in_tick(void) {
	__atomic_store_n(&is_in_tick, true, __ATOMIC_SEQ_CST);
	until(&may_tick);
	clock_ns += 11 * NSTIME_PER_SEC;
}

static void *
tick_once(void *arg) {
	prof_session_tick();
	return arg;
}

/* The stop has begun, and has no profile yet. */
static void
tick_in_stop(void) {
	prof_trigger_changed_hook = changed;
	__atomic_store_n(&may_tick, true, __ATOMIC_SEQ_CST);
	pthread_join(ticker, NULL);
	was_over = prof_session_is_over();
	changed();
}

/*
 * A thread sees that a session is over, just when another one begins to stop it. That stop may give
 * up, so the session still has its end.
 */
static void
test_end_during_stop(void) {
	alarm(200);
	nstime_now_hook = clock_with_events;
	is_int(prof_session_start("max_seconds:10", &why, NULL), 0, "a session");
	meanwhile = stay_in_tick;
	pthread_create(&ticker, NULL, tick_once, NULL);
	until(&is_in_tick);
	changed = prof_trigger_changed_hook;
	prof_trigger_changed_hook = tick_in_stop;
	is_int(prof_session_stop(0, NULL), 0, "which is stopped when it is over");
	ok(was_over, "and is over until that has ended it");
	ok(!prof_session_is_active() && !prof_session_is_over(), "is not any more then");
	nstime_now_hook = NULL;
	alarm(0);
}

/* ------------------------------------------------------------------ a fork in the dump hook */

static pid_t hook_child;
static bool starts_in_child;

static void
fork_in_hook(const char *path) {
	(void)path;
	hook_child = fork();
	if (hook_child == 0) {
		prof_hook_set(PROF_HOOK_DUMP, NULL);
		hook_start = starts_in_child ? prof_session_start(NULL, NULL, NULL) : 0;
	}
}

/* The child returns from the stop, which the fork has ended, and has the session that it began. */
static void
stop_and_fork(void) {
	int status = -1;

	is_int(prof_session_start(NULL, NULL, NULL), 0, "a session");
	uint64_t id = prof_session_id();
	prof_hook_set(PROF_HOOK_DUMP, (prof_hook_fn_t)fork_in_hook);
	int err = prof_session_stop(0, NULL);
	if (hook_child == 0)
		_exit(err != 0 ? 1 : hook_start != 0 ? 2 : prof_session_is_active() != starts_in_child ? 3
		    : prof_session_id() != id + starts_in_child ? 4
		    : starts_in_child && prof_session_stop(0, NULL) != 0 ? 5 : 0);
	prof_hook_set(PROF_HOOK_DUMP, NULL);
	is_int(err, 0, "it is stopped");
	is_int(waitpid(hook_child, &status, 0), hook_child, "its dump hook has forked");
	is_int(status, 0, "in the child the stop ends well");
}

static void
test_fork_in_hook(void) {
	stop_and_fork();
	starts_in_child = true;
	stop_and_fork();
}

/* ------------------------------------------------------------------ in the middle of a start */

static struct os_hooks_s hooks;
static uint64_t id_before;
static unsigned forks, bad_forks;

/* In a forked child: the start under way has left nothing, and another one may begin. */
static int
look_in_child(void) {
	char prefix[PROF_PREFIX_MAX + 1];

	prof_sys_prefix_get(prefix, sizeof(prefix));
	return prof_session_state() != prof_session_idle ? 1 : prof_session_id() != id_before ? 2
	    : strcmp(strrchr(prefix, '/'), "/own") != 0 ? 3 : 0;
}

static int
open_and_fork(const char *path, int flags, unsigned mode) {
	bool is_box = strstr(path, ".box") != NULL;
	int status = -1;

	if (is_box || (flags & O_PATH) != 0) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(look_in_child());
		waitpid(pid, &status, 0);
		forks++;
		bad_forks += status != 0;
		if (status != 0)
			diag("%s: status %x", path, (unsigned)status);
	}
	return os_hooks_real.open(path, flags, mode);
}

static void
test_fork_in_start(void) {
	char text[300];

	snprintf(text, sizeof(text), "prefix:%s/begun,blackbox:true,blackbox_size:4M", dir);
	is_int(prof_session_start(text, &why, NULL), 0, "one before");
	is_int(prof_session_stop(0, NULL), 0, "is over");
	prof_sys_prefix_set("own");
	id_before = prof_session_id();
	hooks = os_hooks_real;
	hooks.open = open_and_fork;
	os_hooks = &hooks;
	is_int(prof_session_start(text, &why, NULL), 0, "forks before the prefix is set and after");
	os_hooks = &os_hooks_real;
	is_uint(forks, 2, "two");
	is_uint(bad_forks, 0, "whose children have the prefix and number from before");
	is_uint(prof_session_id(), id_before + 1, "which the parent has not");
	is_int(prof_session_stop(0, NULL), 0, "and ends");
}

/* ------------------------------------------------------------------ the lock of a box */

static int reader_fd = -1;

static void
end_of_reading(int number UNUSED) {
	close(reader_fd);
}

/*
 * A reader tests the lock of the new box just now, for a moment. It goes by a signal to the thread
 * that waits for the lock: another thread might not run before that has waited long enough.
 */
static int
open_and_lock(const char *path, int flags, unsigned mode) {
	static const struct itimerval moment = {{0, 0}, {0, 1000}};
	int fd = os_hooks_real.open(path, flags, mode);

	if (strstr(path, ".box") != NULL) {
		reader_fd = open(path, O_RDONLY | O_CLOEXEC);
		is_int(flock(reader_fd, LOCK_SH | LOCK_NB), 0, "a reader is faster");
		setitimer(ITIMER_REAL, &moment, NULL);
	}
	return fd;
}

static void
test_box_lock(void) {
	char path[PATH_MAX];

	signal(SIGALRM, end_of_reading);
	hooks = os_hooks_real;
	hooks.open = open_and_lock;
	os_hooks = &hooks;
	is_int(prof_session_start("blackbox:true,blackbox_size:4M", &why, NULL), 0, "a box");
	os_hooks = &os_hooks_real;
	signal(SIGALRM, SIG_DFL);
	prof_box_path(path, sizeof(path));
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ok(fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK,
	    "is locked all the same");
	close(fd);
	is_int(prof_session_stop(0, NULL), 0, "it ends");
}

static void
test_box_mode(void) {
	char path[PATH_MAX];
	struct stat st;
	mode_t mask = umask(0777);

	is_int(prof_session_start("blackbox:true,blackbox_size:4M", &why, NULL), 0, "a box");
	umask(mask);
	prof_box_path(path, sizeof(path));
	ok(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600, "its owner may read it, whatever the "
	    "umask is");
	is_int(prof_session_stop(0, NULL), 0, "it ends");
}

/* The names of 300 boxes of processes with our pid, as in a container, are taken. */
static void
test_box_names(void) {
	char path[PATH_MAX];
	uint64_t max_files = prof_keep_get(prof_keep_max_files);
	unsigned n = 0;

	opt_prof_dump_timestamp = false;
	prof_keep_set(prof_keep_max_files, 0);
	for (unsigned i = 0; i < 300; i++) {
		snprintf(path, sizeof(path), "taken.%d.%u.b.box", (int)getpid(), i);
		n += close(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) == 0;
	}
	is_uint(n, 300, "boxes of others");
	is_int(prof_session_start("prefix:taken,blackbox:true,blackbox_size:4M", &why, NULL), 0,
	    "a name is left");
	is_str(why, "", "nothing is said");
	prof_box_path(path, sizeof(path));
	is_int(access(path, R_OK), 0, "it is %s", path);
	is_int(prof_session_stop(0, NULL), 0, "it ends");
	prof_keep_set(prof_keep_max_files, max_files);
	opt_prof_dump_timestamp = true;
}

/* ------------------------------------------------------------------ a confined client */

/* A relative prefix in "/": that is the directory that is allowed. */
static void
test_confined_at_root(void) {
	static const prof_asker_t asker = {.is_confined = true};
	static prof_answer_t answer;
	const char *prefix = opt_prof_prefix;
	char text[100];

	snprintf(text, sizeof(text), "/test.%d.heap", (int)getpid());
	is_int(chdir("/"), 0, "in /");
	opt_prof_prefix = "own";
	prof_request_boot();
	opt_prof_prefix = prefix;
	is_int(chdir(dir), 0, "back");
	memmove(text + 5, text, strlen(text) + 1);
	memcpy(text, "dump ", 5);
	ok(prof_request(text, &asker, &answer) != EPERM, "a file in it: %s", answer.text);
	unlink(text + 5);
	is_int(prof_request("dump /tmp/x", &asker, &answer), EPERM, "not one elsewhere");
	contains(answer.text, "only /, ", "but there");
}

/* A start says that its stop will fail. */
static void
test_empty_prefix(void) {
	static const prof_asker_t asker = {.is_confined = false};
	static prof_answer_t answer;
	char prefix[PROF_PREFIX_MAX + 1];

	prof_sys_prefix_get(prefix, sizeof(prefix));
	prof_sys_prefix_set("");
	is_int(prof_request("start", &asker, &answer), 0, "a start with an empty prefix");
	contains(answer.text, "\nno profile can be written: the prefix is empty", "warns");
	is_int(prof_request("stop", &asker, &answer), EFAULT, "the stop fails");
	prof_sys_prefix_set(prefix);
	is_int(prof_request("start", &asker, &answer), 0, "a start with a prefix");
	ok(strchr(answer.text, '\n') == NULL, "has no doubt: %s", answer.text);
	is_int(prof_request("stop", &asker, &answer), 0, "and ends");
}

int
main(void) {
	static void (*const tests[])(void) = {test_rules, test_options, test_cycle, test_locks,
	    test_failures, test_late_end, test_changed_end, test_end_during_dump,
	    test_end_during_stop, test_fork_in_hook,
	    test_box_that_stays, test_fork_in_start, test_box_lock, test_box_mode,
	    test_box_names, test_confined_at_root, test_empty_prefix, test_leftovers, NULL};

	/* The profiler's thread would end a session whose time is over before test_late_end does. */
	opt_prof_thread = prof_thread_false;
	return dir_main(config_prof, tests);
}
