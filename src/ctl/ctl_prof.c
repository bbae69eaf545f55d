/*
 * prof.*: the profiler's switches, dumps and log, by what prof.h offers.
 */
#include "ctl/ctl_rooms.h"
#include "meta/sc.h"
#include "prof.h"

/* ------------------------------------------------------------------ switches */

static bool
read_bool(const void *in) {
	bool b;
	memcpy(&b, in, sizeof(b));
	return b;
}

static int
get_thread_active_init(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	out->b = prof_thread_active_init_get();
	return 0;
}

static int
set_thread_active_init(const ctl_call_t *call, const void *in) {
	bool old;
	(void)call;
	return prof_thread_active_init_set(read_bool(in), &old);
}

static int
get_active(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	out->b = prof_active_get();
	return 0;
}

static int
set_active(const ctl_call_t *call, const void *in) {
	bool old;
	(void)call;
	return prof_active_set(read_bool(in), &old);
}

static int
get_gdump(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	out->b = prof_gdump_get();
	return 0;
}

static int
set_gdump(const ctl_call_t *call, const void *in) {
	bool old;
	(void)call;
	return prof_gdump_set(read_bool(in), &old);
}

static int
get_interval(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	out->u64 = prof_interval_get();
	return 0;
}

static int
get_lg_sample(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	out->z = prof_lg_sample_get();
	return 0;
}

static int
get_sample_interval(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	out->z = prof_sample_interval_get();
	return 0;
}

static int
set_sample_interval(const ctl_call_t *call, const void *in) {
	size_t bytes;
	(void)call;
	memcpy(&bytes, in, sizeof(bytes));
	return prof_sample_interval_set(bytes);
}

/* ------------------------------------------------------------------ dumps and log */

static const char *
read_text(const void *in) {
	const char *text = NULL;
	if (in != NULL) {
		memcpy(&text, in, sizeof(text));
	}
	return text;
}

static int
set_dump(const ctl_call_t *call, const void *in) {
	(void)call;
	return prof_mdump(read_text(in));
}

static int
set_prefix(const ctl_call_t *call, const void *in) {
	const char *prefix = read_text(in);
	(void)call;
	return prefix == NULL ? EFAULT : prof_prefix_set(prefix);
}

static int
set_reset(const ctl_call_t *call, const void *in) {
	size_t lg = SIZE_MAX;
	(void)call;
	if (in != NULL) {
		memcpy(&lg, in, sizeof(lg));
		lg = min_zu(lg, 63);
	}
	return prof_reset(lg);
}

static int
set_log_start(const ctl_call_t *call, const void *in) {
	(void)call;
	return prof_log_start(read_text(in));
}

static int
raw_log_stop(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	(void)out;
	return prof_log_stop();
}

static int
get_last_error(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	out->s = prof_last_error();
	return 0;
}

static int
get_dump_errors(const ctl_call_t *call, ctl_value_t *out) {
	(void)call;
	out->u64 = prof_dump_errors();
	return 0;
}

/* ------------------------------------------------------------------ prof.stats */

static_assert(sizeof(prof_stats_t) <= sizeof(ctl_value_t), "prof_stats_t is one value");

/* Known only while there is something to read. */
static int
index_class(size_t i, size_t n) {
	return config_prof && prof_is_booted() && opt_prof_stats && i < n ? 0 : ENOENT;
}

static int
index_bin(const size_t *mib, size_t depth, size_t i) {
	(void)mib;
	(void)depth;
	return index_class(i, SC_NBINS);
}

static int
index_lextent(const size_t *mib, size_t depth, size_t i) {
	(void)mib;
	(void)depth;
	return index_class(i, SC_NSIZES - SC_NBINS);
}

static int
get_bin_live(const ctl_call_t *call, ctl_value_t *out) {
	return prof_stats_live((unsigned)call->mib[3], (prof_stats_t *)out);
}

static int
get_bin_accum(const ctl_call_t *call, ctl_value_t *out) {
	return prof_stats_accum((unsigned)call->mib[3], (prof_stats_t *)out);
}

static int
get_lextent_live(const ctl_call_t *call, ctl_value_t *out) {
	return prof_stats_live(SC_NBINS + (unsigned)call->mib[3], (prof_stats_t *)out);
}

static int
get_lextent_accum(const ctl_call_t *call, ctl_value_t *out) {
	return prof_stats_accum(SC_NBINS + (unsigned)call->mib[3], (prof_stats_t *)out);
}

#define STATS_NODE(n, g) \
	{.name = n, .kind = CTL_LEAF, .type = CTL_BYTES, .size = sizeof(prof_stats_t), \
	    .access = CTL_R, .get = (g), .flags = CTL_IF_BOOTED}

static const ctl_node_t bin_nodes[] = {
	STATS_NODE("live", get_bin_live),
	STATS_NODE("accum", get_bin_accum),
};
static const ctl_node_t lextent_nodes[] = {
	STATS_NODE("live", get_lextent_live),
	STATS_NODE("accum", get_lextent_accum),
};
static const ctl_node_t bin_proto[] = {CTL_NODE_DIR("", bin_nodes)};
static const ctl_node_t lextent_proto[] = {CTL_NODE_DIR("", lextent_nodes)};
static const ctl_node_t stats_nodes[] = {
	CTL_NODE_NUMBERED("bins", bin_proto, index_bin, 0),
	CTL_NODE_NUMBERED("lextents", lextent_proto, index_lextent, 0),
};

/* ------------------------------------------------------------------ directory */

#define PROF CTL_IF_PROF
#define BOOTED CTL_IF_BOOTED

static const ctl_node_t prof_nodes[] = {
	CTL_NODE_RW("thread_active_init", CTL_BOOL, get_thread_active_init, set_thread_active_init,
	    PROF),
	CTL_NODE_RW("active", CTL_BOOL, get_active, set_active, PROF),
	CTL_NODE_W("dump", CTL_STRING, set_dump, BOOTED | CTL_NULL_NEW | CTL_OUTSIDE),
	CTL_NODE_RW("gdump", CTL_BOOL, get_gdump, set_gdump, PROF),
	CTL_NODE_W("prefix", CTL_STRING, set_prefix, BOOTED | CTL_NULL_NEW),
	CTL_NODE_W("reset", CTL_SIZE, set_reset, BOOTED | CTL_NULL_NEW | CTL_OUTSIDE),
	CTL_NODE_R("interval", CTL_U64, get_interval, PROF),
	CTL_NODE_R("lg_sample", CTL_SIZE, get_lg_sample, PROF),
	CTL_NODE_RW("sample_interval", CTL_SIZE, get_sample_interval, set_sample_interval, PROF),
	CTL_NODE_W("log_start", CTL_STRING, set_log_start, BOOTED | CTL_NULL_NEW | CTL_OUTSIDE),
	CTL_NODE_RAW("log_stop", raw_log_stop, BOOTED | CTL_OUTSIDE),
	CTL_NODE_R("last_error", CTL_STRING, get_last_error, PROF),
	CTL_NODE_R("dump_errors", CTL_U64, get_dump_errors, PROF),
	CTL_NODE_DIR("stats", stats_nodes),
};

const ctl_node_t ctl_dir_prof = CTL_NODE_DIR("prof", prof_nodes);
