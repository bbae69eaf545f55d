/*
 * The directory prof.*: the profiler's switches, dumps, log, sessions, thresholds and statistics.
 * Most leaves call one function of the profiler, which does its own checks and locking. Leaves that
 * may take long, such as those that write files, are flagged CTL_OUTSIDE: a fork waits for the
 * threads inside the gate, so nothing inside it may take long. No state and no lock here. Called by
 * ctl.c through the tree of nodes; has_bin() and has_lextent() before the gate is entered.
 */
#include "ctl/ctl_rooms.h"
#include "imalloc.h"
#include "meta/sc.h"
#include "prof/prof.h"
#include "prof/file/prof_dump.h"
#include "prof/file/prof_keep.h"
#include "prof/control/prof_session.h"
#include "prof/sites/prof_label.h"
#include "prof/trigger/prof_budget.h"
#include "util/fmt.h"

/* ------------------------------------------------------------------ dumps and log */

/* The string whose address is at newp; NULL if there was no newp. */
static const char *
read_text(const ctl_value_t *in) {
	return in == NULL ? NULL : in->s;
}

/* Writes a profile of the kind in CTL_ARG(), to the path in newp or, without one, to a new name. */
static int
set_dump(const ctl_call_t *call, const ctl_value_t *in) {
	return prof_mdump((prof_kind_t)ctl_arg(call), read_text(in), false, NULL);
}

static int
act_mark(const ctl_call_t *call UNUSED, const ctl_value_t *in UNUSED) {
	return prof_mark(false);
}

static int
set_prefix(const ctl_call_t *call UNUSED, const ctl_value_t *in) {
	const char *prefix = read_text(in);
	return prefix == NULL ? EFAULT : prof_sys_prefix_set(prefix);
}

/* SIZE_MAX, without newp, keeps the rate; so a number above 63 becomes 63 here already. */
static int
set_reset(const ctl_call_t *call UNUSED, const ctl_value_t *in) {
	return prof_reset(in == NULL ? SIZE_MAX : min_zu(in->z, 63));
}

/*
 * Completes the frees that this thread and others deferred while another one forked, so that each
 * is recorded in the log if it came after the log's start and before its end. Does nothing in an
 * extent hook, which has no tsd and is inside the gate already; gate_enter() only counts then.
 */
static void
settle_deferred_frees(void) {
	struct tls_s *t = tls_get();
	gate_enter(t);
	assert(gate_is_entered(t));
	imalloc_settle_deferred(tsd_fetch_in_gate(t));
	gate_exit(t);
}

static int
set_log_start(const ctl_call_t *call UNUSED, const ctl_value_t *in) {
	settle_deferred_frees();
	return prof_log_start(read_text(in));
}

static int
raw_log_stop(const ctl_call_t *call UNUSED, ctl_value_t *out UNUSED) {
	settle_deferred_frees();
	return prof_log_stop();
}

/* ------------------------------------------------------------------ prof.session */

static int
set_session_start(const ctl_call_t *call UNUSED, const ctl_value_t *in) {
	return prof_session_start(read_text(in), NULL, NULL);
}

static int
set_session_stop(const ctl_call_t *call UNUSED, const ctl_value_t *in) {
	/* 0 in newp is the number of no session; without newp any session is meant */
	return prof_session_stop(in == NULL ? 0 : in->u64 != 0 ? in->u64 : PROF_SESSION_NONE, NULL);
}

static const ctl_node_t session_nodes[] = {
	CTL_NODE_W("start", CTL_STRING, set_session_start, CTL_IF_PROF | CTL_NULL_NEW | CTL_OUTSIDE,
	    NODE_STABLE
	    "begins a session: NULL, or options as in section SESSIONS. EALREADY: one is open; EBUSY: "
	    "one is just being stopped; EINVAL: bad options, or a prefix in a directory that does not "
	    "exist; ENOMEM; with a black box the errno of the call that failed, ENOSPC or EFBIG"),
	CTL_NODE_W("stop", CTL_U64, set_session_stop, CTL_IF_PROF | CTL_NULL_NEW | CTL_OUTSIDE,
	    NODE_STABLE
	    "writes the session's profile and ends the session, also when the profile cannot be "
	    "written, whose error then comes back. With a number only that session: EPERM "
	    "if another one is open. EALREADY: none is open; EBUSY: it is being started or stopped"),
	CTL_VALUE_R("active", boolean, prof_session_is_active, CTL_IF_PROF, NODE_STABLE
	    "whether a session is open"),
	CTL_VALUE_R("id", uint64_t, prof_session_id, CTL_IF_PROF, NODE_STABLE
	    "number of the session, or of the last one; 0 before the first"),
	CTL_VALUE_R("start_time_ns", uint64_t, prof_session_start_ns, CTL_IF_PROF, NODE_STABLE
	    "when it was started, in nanoseconds since 1970 (UTC); 0 before the first"),
	CTL_VALUE_R("last_dump", string, prof_last_dump, CTL_IF_PROF, NODE_STABLE
	    "absolute path of the last profile written, empty if none; valid until the same thread "
	    "reads it again"),
	CTL_VALUE_R("rejected", uint64_t, prof_session_rejected, CTL_IF_PROF, NODE_STABLE
	    "how many starts and stops were refused"),
};

/* ------------------------------------------------------------------ prof.threshold */

/* The type of these leaves is CTL_U64 or CTL_SIZE; both have 8 bytes (util/bits.h). */
static int
get_threshold(const ctl_call_t *call, ctl_value_t *out) {
	out->u64 = prof_threshold_get((prof_threshold_t)ctl_arg(call));
	return 0;
}

static int
set_threshold(const ctl_call_t *call, const ctl_value_t *in) {
	prof_threshold_set((prof_threshold_t)ctl_arg(call), in->u64);
	return 0;
}

static const char *
read_metric(void) {
	return prof_metric_names[prof_threshold_metric_get()];
}

static int
write_metric(const char *name) {
	const char *why;
	int metric = name == NULL ? -1 : fmt_find_word(prof_metric_names, name, strlen(name));
	if (metric < 0 || !prof_metric_is_there((prof_metric_t)metric, &why)) {
		return EINVAL;
	}
	prof_threshold_metric_set((prof_metric_t)metric);
	return 0;
}

static int
act_rearm(const ctl_call_t *call UNUSED, const ctl_value_t *in UNUSED) {
	prof_trigger_rearm();
	return 0;
}

#define THRESHOLD_NODE(i, n, t, says) \
	CTL_NODE_RW(n, t, get_threshold, set_threshold, CTL_IF_PROF | CTL_OUTSIDE | CTL_ARG(i), \
	    NODE_STABLE says)

static const ctl_node_t threshold_nodes[] = {
	THRESHOLD_NODE(prof_threshold_alloc, "alloc", CTL_U64,
	    "bytes allocated by the whole process after which a profile of kind a is written, again "
	    "and again; 0: off"),
	THRESHOLD_NODE(prof_threshold_large, "large", CTL_SIZE,
	    "a request of at least this size is sampled and writes a profile of kind l once it has "
	    "succeeded; 0: off"),
	THRESHOLD_NODE(prof_threshold_highwater, "highwater", CTL_SIZE,
	    "live memory that, when first reached, writes a profile of kind h; 0: off"),
	THRESHOLD_NODE(prof_threshold_highwater_step, "highwater_step", CTL_SIZE,
	    "and again at each further rise by this; 0: an eighth of the threshold"),
	THRESHOLD_NODE(prof_threshold_time_ms, "time_ms", CTL_U64,
	    "milliseconds between two profiles of kind t; without the profiler's thread only while "
	    "the program allocates; 0: off"),
	CTL_VALUE_RW("highwater_metric", string, read_metric, write_metric, CTL_IF_PROF, NODE_STABLE
	    "what live memory is for the high-water threshold: allocated, active, resident, rss or "
	    "cgroup. EINVAL: another word, or no control group whose memory can be read"),
	CTL_NODE_ACT("rearm", act_rearm, CTL_IF_PROF, NODE_STABLE
	    "forgets the high-water mark: the next crossing of the threshold counts again"),
};

/* ------------------------------------------------------------------ limits of automatic dumps */

static int
get_limit(const ctl_call_t *call, ctl_value_t *out) {
	out->u64 = prof_keep_get((prof_keep_limit_t)ctl_arg(call));
	return 0;
}

static int
set_limit(const ctl_call_t *call, const ctl_value_t *in) {
	prof_keep_set((prof_keep_limit_t)ctl_arg(call), in->u64);
	return 0;
}

#define LIMIT_NODE(n, limit, says) \
	CTL_NODE_RW(n, CTL_U64, get_limit, set_limit, CTL_IF_PROF | CTL_ARG(limit), NODE_STABLE says)

/* ------------------------------------------------------------------ prof.stats */

static_assert(sizeof(prof_stats_t) <= sizeof(ctl_value_t), "prof_stats_t is one value");
static_assert(sizeof(prof_stats_t) == 2 * sizeof(uint64_t), "two counters, as callers know it");

/* The index exists only while there are statistics to read. */
static bool
has_bin(size_t i) {
	return config_prof && prof_is_booted() && opt_prof_stats && ctl_has_bin(i);
}

static bool
has_lextent(size_t i) {
	return config_prof && prof_is_booted() && opt_prof_stats && ctl_has_lextent(i);
}

/* CTL_ARG() of these leaves: of a large class, of all samples so far. */
enum { STATS_LARGE = 1, STATS_ACCUM = 2 };

static int
get_stats(const ctl_call_t *call, ctl_value_t *out) {
	unsigned szind = (unsigned)call->mib[3] + ((ctl_arg(call) & STATS_LARGE) != 0 ? SC_NBINS : 0);
	return prof_stats_read((ctl_arg(call) & STATS_ACCUM) != 0, szind, (prof_stats_t *)out);
}

#define STATS_NODE(n, which, says) \
	{.name = n, .kind = CTL_LEAF, .type = CTL_BYTES, .size = sizeof(prof_stats_t), \
	    .access = CTL_R, .get = get_stats, .flags = CTL_IF_BOOTED | CTL_ARG(which), \
	    MANUAL(text, says)}

static const ctl_node_t bin_nodes[] = {
	STATS_NODE("live", 0,
	    "two uint64_t, sum of requested bytes and number, over the live samples of small size "
	    "class i; needs prof_stats"),
	STATS_NODE("accum", STATS_ACCUM,
	    "the same over all samples so far"),
};
static const ctl_node_t lextent_nodes[] = {
	STATS_NODE("live", STATS_LARGE,
	    "as prof.stats.bins.<i>.live, of large size class i"),
	STATS_NODE("accum", STATS_LARGE | STATS_ACCUM,
	    "as prof.stats.bins.<i>.accum, of large size class i"),
};
static const ctl_node_t bin_proto[] = {CTL_NODE_DIR("", bin_nodes)};
static const ctl_node_t lextent_proto[] = {CTL_NODE_DIR("", lextent_nodes)};
static const ctl_node_t stats_nodes[] = {
	CTL_NODE_NUMBERED("bins", bin_proto, has_bin),
	CTL_NODE_NUMBERED("lextents", lextent_proto, has_lextent),
};

/* ------------------------------------------------------------------ labels */

/* The text in newp becomes a number. */
static int
ask_label_id(const ctl_call_t *call, ctl_value_t *out) {
	const char *text;
	memcpy(&text, call->newp, sizeof(text));
	return prof_label_intern(text, &out->u32);
}

/* ------------------------------------------------------------------ directory */

#define PROF CTL_IF_PROF
#define BOOTED CTL_IF_BOOTED

static const ctl_node_t prof_nodes[] = {
	CTL_VALUE_RW("thread_active_init", boolean, prof_thread_active_init_get,
	    prof_thread_active_init_set, PROF,
	    "what thread.prof.active is at first in threads that begin to allocate from now on. "
	    "A write before the profiler runs is ENOENT"),
	CTL_VALUE_RW("active", boolean, prof_switch_is_active, prof_active_set, PROF,
	    "whether samples are taken. Writing true before the profiler runs is ENOENT; while a "
	    "session is open, false pauses it"),
	CTL_NODE_W("dump", CTL_STRING, set_dump,
	    BOOTED | CTL_NULL_NEW | CTL_OUTSIDE | CTL_ARG(prof_kind_manual),
	    "writes a profile to the path given, or with NULL to a name of kind m. Returns the errno "
	    "of the call that failed; ENOENT, EPERM, EINVAL and EAGAIN come back as EFAULT. EBUSY: "
	    "called from the dump hook. ELOOP: the last part of the path is a symbolic link. Nothing "
	    "is printed"),
	CTL_NODE_ACT("mark", act_mark, BOOTED | CTL_OUTSIDE, NODE_EXPERIMENTAL
	    "remembers what each site holds now, for prof.dump_delta; a later mark takes its place, "
	    "prof.reset and the start of a session end it. EBUSY: called from the dump hook"),
	CTL_NODE_W("dump_delta", CTL_STRING, set_dump,
	    BOOTED | CTL_NULL_NEW | CTL_OUTSIDE | CTL_ARG(prof_kind_delta),
	    NODE_EXPERIMENTAL
	    "like prof.dump, what each site grew by since prof.mark, as a profile of kind d; those "
	    "that shrunk stand in lines at its end. ENODATA: there is no mark, and nothing is written"),
	CTL_VALUE_RW("gdump", boolean, prof_gdump_get, prof_gdump_set, PROF,
	    "whether each new maximum of mapped memory writes a profile. A write before the profiler "
	    "runs is ENOENT"),
	CTL_NODE_W("prefix", CTL_STRING, set_prefix, BOOTED | CTL_NULL_NEW,
	    "how names of profiles begin, at most 3984 bytes; made absolute now. Empty: no "
	    "automatic profiles. EFAULT: NULL; EINVAL: too long"),
	CTL_NODE_W("reset", CTL_SIZE, set_reset, BOOTED | CTL_NULL_NEW | CTL_OUTSIDE,
	    "forgets all samples; with a number also sets the rate to that power of two, 63 at most. "
	    "Does not wait for a dump that is being written"),
	CTL_VALUE_R("interval", uint64_t, prof_interval_get, PROF,
	    "bytes between two profiles of kind i; 0: off"),
	CTL_VALUE_R("lg_sample", size_t, prof_lg_sample_get, PROF,
	    "power of two at or below the mean of bytes between samples; 0 before the profiler runs"),
	CTL_VALUE_RW("sample_interval", size_t, prof_sample_interval_get, prof_sample_interval_set,
	    PROF, NODE_STABLE
	    "mean bytes between samples. A write holds from each thread's next malloc or free "
	    "on; samples taken before keep their weight. EINVAL: 0; ENOENT: a write before the "
	    "profiler runs"),
	CTL_VALUE_RW("budget", uint32_t, prof_budget_get, prof_budget_set, PROF,
	    NODE_EXPERIMENTAL
	    "ceiling for what sampling costs, in percent of processor time, times 65536: above it "
	    "prof.sample_interval doubles, far below it halves, down to what was set; 0: none. "
	    "EINVAL: more than 100 percent"),
	CTL_NODE_W("log_start", CTL_STRING, set_log_start, BOOTED | CTL_NULL_NEW | CTL_OUTSIDE,
	    "begins to log sampled allocations with their ends; NULL or the path of the file. EFAULT: "
	    "it runs already, or the path is too long"),
	CTL_NODE_RAW("log_stop", raw_log_stop, BOOTED | CTL_OUTSIDE, "nothing, --",
	    "ends the log and writes it as JSON. EFAULT: it does not run, or the file cannot be "
	    "written"),
	CTL_NODE_ASK("label_id", ask_label_id, const char *, uint32_t, PROF,
	    "const char * in, uint32_t out", NODE_EXPERIMENTAL
	    "the number of a label, for the word at thread.prof.labelp; a new one if the text has "
	    "none yet, and 0 for an empty one. Errors as of thread.prof.label; EINVAL also without "
	    "newp or oldp"),
	CTL_VALUE_R("labels", unsigned, prof_label_count, PROF, NODE_EXPERIMENTAL
	    "how many labels there are, 65535 at most"),
	CTL_VALUE_R("last_error", string, prof_last_error, PROF, NODE_STABLE
	    "name of the errno, path, and bytes written of the last profile that failed, empty if "
	    "none did; valid until the same thread reads it again"),
	CTL_VALUE_R("dump_errors", uint64_t, prof_dump_nerrors, PROF, NODE_STABLE
	    "how many profiles could not be written"),
	CTL_VALUE_R("dump_suppressed", uint64_t, prof_keep_suppressed, PROF, NODE_STABLE
	    "how many automatic profiles were left out: too soon after another, another one was "
	    "being written, or a limit of files or bytes was reached"),
	LIMIT_NODE("dump_min_gap_ms", prof_keep_min_gap_ms,
	    "least milliseconds between two automatic profiles of one kind. A write makes this "
	    "limit hold for the kinds i and u as well; so does a write of each of the next two"),
	LIMIT_NODE("dump_max_files", prof_keep_max_files,
	    "automatic profiles that are kept at most; 0: all"),
	LIMIT_NODE("dump_max_bytes", prof_keep_max_bytes,
	    "their bytes that are kept at most; 0: all"),
	CTL_VALUE_RW("dump_keep", string, prof_keep_policy_get, prof_keep_policy_set, PROF, NODE_STABLE
	    "which are kept: first_peak_last or newest. EINVAL: another word"),
	CTL_NODE_DIR("session", session_nodes),
	CTL_NODE_DIR("threshold", threshold_nodes),
	CTL_NODE_DIR("stats", stats_nodes),
};

const ctl_node_t ctl_dir_prof = CTL_NODE_DIR("prof", prof_nodes);
