/*
 * Sessions: the state machine, the parser of their options, and the values that a start changes and
 * a stop restores (prof_session.h).
 *
 * Invariant: state and number are one atomic word, moved to starting or stopping by
 * compare-and-swap. The thread that did that owns the saved values until it moves the word on; the
 * other fields are atomic. Locks: none of its own; values are changed inside the gate (os/gate.h:
 * fork waits until no thread is inside). Called by ctl_prof.c, by prof_request.c, by prof_control.c
 * for the time limit and the state, and by prof.c in a forked child.
 */
#include "prof/control/prof_session.h"

#include "os/gate.h"
#include "os/nstime.h"
#include "os/sys.h"
#include "prof/sites/prof_backtrace.h"
#include "prof/sites/prof_data.h"
#include "prof/sites/prof_root.h"
#include "prof/control/prof_start.h"
#include "prof/sites/prof_switch.h"
#include "prof/file/prof_course.h"
#include "prof/file/prof_dump.h"
#include "prof/sites/prof_sample.h"
#include "util/fmt.h"

/* Low bits of session.word that hold the state. */
#define STATE_BITS 2
#define STATE_MASK UINT64_C(3)
/* Greatest max_seconds; the sentence about it in opt_rows has the same number. */
#define MAX_SECONDS_LIMIT (UINT64_C(1) << 32)
/* Low bits of session.deadline: the low bits of the session's number; the bits above are ms. */
#define DEADLINE_ID_BITS 16

prof_fork_t opt_prof_fork = prof_fork_auto;
const char *const prof_fork_names[] = {"auto", "inherit", "idle", NULL};

static LARGE_BSS struct {
	atomic_u64_t word;         /* number << STATE_BITS | state */
	/*
	 * monotonic ms << DEADLINE_ID_BITS | number; ms 0: no end. When a session ends, this becomes
	 * that of the next number, so the end of a session that is over cannot be changed.
	 */
	atomic_u64_t deadline;
	atomic_u64_t rejected;     /* number of refused starts and stops */
	/*
	 * The rest, mostly values from before the session, is owned by the thread that is starting or
	 * stopping.
	 */
	bool was_active;           /* prof.active before the session */
	bool has_no_final; /* no profile is written at max_seconds; a stop writes one all the same */
	bool has_values;           /* the values below are saved, and not restored yet */
	bool has_prefix;           /* `prefix` is saved, and not restored yet: the session changed it */
	bool has_box;              /* the session has opened the black box */
	bool is_bounded;           /* this start or stop waits for a dump as prof_dump_t.is_bounded */
	uint32_t changed;          /* bit i: setting i has the session's value, and saved[i] is valid */
	uint64_t saved[prof_session_nsettings];
	char prefix[PROF_PREFIX_MAX + 1];     /* before the session */
	char new_prefix[PROF_PREFIX_MAX + 1]; /* buffer for the prefix among the options */
} session;

static uint64_t
session_word(void) {
	return atomic_load_u64(&session.word, MO_ACQUIRE);
}

static prof_session_state_t
word_state(uint64_t word) {
	return (prof_session_state_t)(word & STATE_MASK);
}

/* Changes *word to (id, to) by compare-and-swap; if that fails, *word becomes the present word. */
static bool
session_try_move(uint64_t *word, uint64_t id, prof_session_state_t to) {
	assert(id <= UINT64_MAX >> STATE_BITS);
	return atomic_cas_strong_u64(&session.word, word, id << STATE_BITS | (uint64_t)to, MO_ACQ_REL,
	    MO_ACQUIRE);
}

/* Asserts that the caller owns the values from before the session: it starts or stops it. */
static void
session_assert_moving(void) {
	assert(word_state(session_word()) == prof_session_starting
	    || word_state(session_word()) == prof_session_stopping);
}

/*
 * Moves the word from starting or stopping on, and lets prof_control.c know; only the owner of that
 * state calls this.
 */
static void
session_leave(uint64_t id, prof_session_state_t to) {
	assert(id <= UINT64_MAX >> STATE_BITS);
	session_assert_moving();
	atomic_store_u64(&session.word, id << STATE_BITS | (uint64_t)to, MO_RELEASE);
	prof_trigger_changed_hook();
}

prof_session_state_t
prof_session_state(void) {
	return word_state(session_word());
}

bool
prof_session_is_active(void) {
	prof_session_state_t state = prof_session_state();
	return state == prof_session_active || state == prof_session_stopping;
}

uint64_t
prof_session_id(void) {
	return session_word() >> STATE_BITS;
}

uint64_t
prof_session_start_ns(void) {
	const image_root_t *root = prof_root();
	return root == NULL ? 0 : __atomic_load_n(&root->session_start_ns, MO_RELAXED);
}

uint64_t
prof_session_rejected(void) {
	return atomic_load_u64(&session.rejected, MO_RELAXED);
}

/* ---------------------------------------------------------------- the rules */

int
prof_session_may_start(prof_session_state_t state) {
	switch (state) {
	case prof_session_idle:
		return 0;
	case prof_session_stopping:
		return EBUSY;
	default:
		return EALREADY;
	}
}

int
prof_session_may_stop(prof_session_state_t state, uint64_t current, uint64_t id) {
	switch (state) {
	case prof_session_idle:
		return EALREADY;
	case prof_session_active:
		return id == 0 || id == current ? 0 : EPERM;
	default:
		return EBUSY;
	}
}

/* Counts a start or stop that is refused because of the state, and returns err. */
static int
session_refuse(int err) {
	atomic_fetch_add_u64(&session.rejected, 1, MO_RELAXED);
	return err;
}

/* ---------------------------------------------------------------- options */

/* One option key:value; neither text has a NUL. */
typedef struct {
	const char *key;
	size_t key_len;
	const char *value;
	size_t len;              /* of value */
} pair_t;

/* Parses a decimal number with an optional K, M or G; is_plain permits none. */
static int
number_parse(const pair_t *p, bool is_plain, uint64_t *out) {
	size_t digits = strspn(p->value, "0123456789");
	int err = fmt_parse_digits(p->value, digits, out);
	return err != 0 || digits == p->len ? err : is_plain || digits + 1 != p->len ? EINVAL
	    : fmt_apply_unit(out, p->value[digits]);
}

/*
 * The options but prefix: the key, with the sentence about a bad value behind it, and the limits of
 * a number or, with words, the greatest index of one. (Few pointers: each is written at the start
 * of a process.)
 */
typedef struct {
	const char *text; /* KEY: SENTENCE */
	const char *const *words;
	uint64_t min;
	uint64_t max;
} opt_row_t;
#define BYTES_OF_THRESHOLD(i, k, more) \
	[i] = {k ": wants a number of bytes below 2^64, with K, M or G behind if you like" more, NULL, \
	    0, UINT64_MAX}
#define OR_PERCENT ", or percent from 1 to 100"
/* "false" or "true", the first two of these names. */
#define FLAG(i, k) [i] = {k ": wants true or false", prof_box_names, 0, 1}
static const opt_row_t opt_rows[prof_session_noptions] = {
	BYTES_OF_THRESHOLD(prof_threshold_alloc, "alloc", ""),
	BYTES_OF_THRESHOLD(prof_threshold_large, "large", ""),
	BYTES_OF_THRESHOLD(prof_threshold_highwater, "highwater", OR_PERCENT),
	BYTES_OF_THRESHOLD(prof_threshold_highwater_step, "highwater_step", OR_PERCENT),
	[prof_threshold_time_ms] = {"time_ms: wants a number of milliseconds, below 2^64", NULL, 0,
	    UINT64_MAX},
	[prof_session_metric] = {"highwater_metric: wants allocated, active, resident, rss or cgroup",
	    prof_metric_names, 0, prof_metric_n - 1},
	[prof_session_budget] = {"budget: wants percent of processor time from 0 to 100, such as 0.5",
	    NULL, 0, PROF_BUDGET_MAX},
	[prof_session_sample_interval] = {"sample_interval: wants a number of bytes from 1 to "
	    "9223372036854775807", NULL, 1, INT64_MAX},
	[prof_session_max_seconds] = {"max_seconds: wants a number of seconds from 0 to 4294967296",
	    NULL, 0, MAX_SECONDS_LIMIT},
	FLAG(prof_session_reset, "reset"),
	FLAG(prof_session_accum, "accum"),
	FLAG(prof_session_final, "final"),
	[prof_session_box] = {"blackbox: wants true, fd or false", prof_box_names, 0, prof_box_fd},
	[prof_session_box_size] = {"blackbox_size: wants a number of bytes from 1M to 1G", NULL,
	    REGION_BOX_MIN, PROF_BOX_MAX},
};

/* A decimal number of percent. */
static int
percent_parse(const pair_t *p, uint64_t *out) {
	fxp_t percent = 0;
	char *end;
	int err = fxp_parse(&percent, p->value, &end);
	*out = percent;
	return err != 0 || end != p->value + p->len ? EINVAL : 0;
}

/* Parses the value of option i. highwater and its step may be in percent, of what is seen later. */
static int
value_parse(prof_session_opts_t *o, unsigned i, const pair_t *p) {
	uint32_t percent = i == prof_threshold_highwater || i == prof_threshold_highwater_step
	    ? fmt_parse_percent(p->value, p->len) : 0;
	o->given |= 1u << i;
	o->percent = percent != 0 ? o->percent | 1u << i : o->percent & ~(1u << i);
	if (percent != 0) {
		o->values[i] = percent;
		return 0;
	}
	const opt_row_t *row = &opt_rows[i];
	if (row->words != NULL) {
		int word = fmt_find_word(row->words, p->value, p->len);
		o->values[i] = (uint64_t)word;
		return word < 0 || (uint64_t)word > row->max ? EINVAL : 0;
	}
	bool is_plain = i == prof_threshold_time_ms || i == prof_session_max_seconds;
	int err = i == prof_session_budget ? percent_parse(p, &o->values[i])
	    : number_parse(p, is_plain, &o->values[i]);
	bool is_in_range = o->values[i] >= row->min && o->values[i] <= row->max;
	return err == 0 && is_in_range ? 0 : EINVAL;
}

static int
pair_parse(prof_session_opts_t *o, const pair_t *p, const char **why) {
	if (fmt_is_word(p->key, p->key_len, "prefix")) {
		*why = "prefix: wants the beginning of a path";
		o->prefix = p->value;
		o->prefix_len = p->len;
		return p->len > 0 && p->len <= PROF_PREFIX_MAX ? 0 : EINVAL;
	}
	for (unsigned i = 0; i < prof_session_noptions; i++) {
		const opt_row_t *row = &opt_rows[i];
		if (strncmp(row->text, p->key, p->key_len) == 0 && row->text[p->key_len] == ':') {
			*why = row->text;
			return value_parse(o, i, p);
		}
	}
	*why = "unknown option; there are prefix, sample_interval, budget, reset, accum, max_seconds, "
	    "final, blackbox, blackbox_size, alloc, large, highwater, highwater_step, "
	    "highwater_metric, time_ms";
	return EINVAL;
}

int
prof_session_parse(prof_session_opts_t *out, const char *text, const char **why) {
	memset(out, 0, sizeof(*out));
	while (text != NULL && *text != '\0') {
		size_t len = strcspn(text, ",");
		const char *colon = memchr(text, ':', len);
		if (colon == NULL || (text[len] == ',' && text[len + 1] == '\0')) {
			*why = "options are key:value pairs joined by single commas";
			return EINVAL;
		}
		pair_t p = {text, (size_t)(colon - text), colon + 1,
		    len - (size_t)(colon + 1 - text)};
		if (pair_parse(out, &p, why) != 0) {
			return EINVAL;
		}
		text += len + (text[len] == ',');
	}
	*why = "";
	return 0;
}

/* ---------------------------------------------------------------- applying and restoring values */

/*
 * Checks that the directory of the prefix among the options exists; owner only, outside the gate.
 * 0, or EINVAL and a sentence. Only errors that prove that it does not exist count.
 */
static int
prefix_check(const prof_session_opts_t *o, const char **why) {
	session_assert_moving();
	assert(!gate_is_entered(tls_get()));
	assert(o->prefix_len <= PROF_PREFIX_MAX);
	if (o->prefix == NULL || prof_sys_prefix_has_dir(o->prefix, o->prefix_len)) {
		return 0;
	}
	*why = "prefix: there is no such directory";
	return EINVAL;
}

/* Saves the prefix and sets that of the options, if there is one; owner only. 0 or EINVAL. */
static int
prefix_apply(const prof_session_opts_t *o) {
	session_assert_moving();
	session.has_prefix = o->prefix != NULL;
	if (!session.has_prefix) {
		return 0;
	}
	memcpy(session.new_prefix, o->prefix, o->prefix_len);
	session.new_prefix[o->prefix_len] = '\0';
	prof_sys_prefix_get(session.prefix, sizeof(session.prefix));
	int err = prof_sys_prefix_set(session.new_prefix);
	session.has_prefix = err == 0;
	return err;
}

/* Sets the prefix to the saved one, if the session changed it; inside the gate, or in a child. */
static void
prefix_restore(void) {
	if (session.has_prefix) {
		prof_sys_prefix_set(session.prefix);
		session.has_prefix = false;
	}
}

static bool
is_given(const prof_session_opts_t *o, prof_session_option_t i) {
	return (o->given >> i & 1) != 0;
}

/*
 * Makes bytes of the thresholds in percent, with the metric among the options or the present one.
 * 0, or EINVAL and a sentence in *why, also if the metric cannot be read.
 */
static int
percent_resolve(prof_session_opts_t *o, const char **why) {
	prof_metric_t metric = is_given(o, prof_session_metric)
	    ? (prof_metric_t)o->values[prof_session_metric] : prof_threshold_metric_get();
	int err = is_given(o, prof_session_metric) && !prof_metric_is_there(metric, why) ? EINVAL : 0;
	for (unsigned i = 0; i < prof_threshold_n && err == 0; i++) {
		if ((o->percent >> i & 1) != 0) {
			err = prof_threshold_of_percent(metric, (uint32_t)o->values[i], &o->values[i], why);
		}
	}
	return err;
}

static uint64_t
setting_get(unsigned i) {
	switch (i) {
	case prof_session_metric:
		return prof_threshold_metric_get();
	case prof_session_budget:
		return prof_budget_get();
	case prof_session_sample_interval:
		return prof_sample_base();
	default:
		return prof_threshold_get((prof_threshold_t)i);
	}
}

static void
setting_set(unsigned i, uint64_t value) {
	switch (i) {
	case prof_session_metric:
		prof_threshold_metric_set((prof_metric_t)value);
		break;
	case prof_session_budget:
		prof_budget_set((fxp_t)value);
		break;
	case prof_session_sample_interval:
		prof_sample_rate_set(value);
		break;
	default:
		prof_threshold_set((prof_threshold_t)i, value);
		break;
	}
}

/* Sets those settings whose bit is in `which`. */
static void
settings_set(uint32_t which, const uint64_t values[]) {
	for (unsigned i = 0; i < prof_session_nsettings; i++) {
		if ((which >> i & 1) != 0) {
			setting_set(i, values[i]);
		}
	}
}

/* Saves all settings, then sets those of the options. */
static void
values_apply(const prof_session_opts_t *o) {
	session_assert_moving();
	for (unsigned i = 0; i < prof_session_nsettings; i++) {
		session.saved[i] = setting_get(i);
	}
	session.changed = o->given;
	settings_set(o->given, o->values);
	session.has_values = true;
}

/* Sets what the session changed, but for the prefix, to the saved values, if there are any. */
static void
values_restore(void) {
	if (!session.has_values) {
		return;
	}
	settings_set(session.changed, session.saved);
	prof_data_accum_set(opt_prof_accum);
	if (!session.was_active) {
		prof_active_set(false);
	}
	session.has_values = false;
}

/*
 * The word for an end in so many seconds from now, 0: no end. It has the session's number too, so
 * that it never ends another session.
 */
static uint64_t
deadline_make(uint64_t id, uint64_t seconds) {
	assert(seconds <= MAX_SECONDS_LIMIT);
	uint64_t ms = seconds == 0 ? 0 : nstime_monotonic_ns() / NSTIME_PER_MSEC + 1 + seconds * 1000;
	return ms << DEADLINE_ID_BITS | (id & ((UINT64_C(1) << DEADLINE_ID_BITS) - 1));
}

/* The monotonic time in ns at which the session ends; 0: it has no end. */
static uint64_t
deadline_ns(uint64_t deadline) {
	return (deadline >> DEADLINE_ID_BITS) * NSTIME_PER_MSEC;
}

/* Whether the word has the number of this session, in its low bits. */
static bool
deadline_is_of(uint64_t deadline, uint64_t id) {
	return ((deadline ^ id) & ((UINT64_C(1) << DEADLINE_ID_BITS) - 1)) == 0;
}

/* Called by the owner of starting or stopping, or in a forked child. */
static void
deadline_set(uint64_t id, uint64_t seconds) {
	atomic_store_u64(&session.deadline, deadline_make(id, seconds), MO_RELAXED);
}

/* Session id has no end any more, and none can be set; called like deadline_set(). */
static void
deadline_close(uint64_t id) {
	deadline_set(id + 1, 0);
}

/*
 * The same for a session that stops because this is its end; false if that was changed meanwhile.
 */
static bool
deadline_try_close(uint64_t deadline, uint64_t id) {
	return atomic_cas_strong_u64(&session.deadline, &deadline, deadline_make(id + 1, 0), MO_RELAXED,
	    MO_RELAXED);
}

/* Changes the end while session id runs; ENOENT if it has ended. */
static int
deadline_change(uint64_t id, uint64_t seconds) {
	uint64_t old = atomic_load_u64(&session.deadline, MO_RELAXED);
	uint64_t new = deadline_make(id, seconds);
	do {
		if (!deadline_is_of(old, id)) {
			return ENOENT;
		}
	} while (!atomic_cas_weak_u64(&session.deadline, &old, new, MO_RELAXED, MO_RELAXED));
	return 0;
}

/* ---------------------------------------------------------------- start */

/* Replaces errors that would have another meaning as the result of start or stop by EFAULT. */
static int
plain_error(int err) {
	switch (err) {
	case ENOENT:
	case EPERM:
	case EINVAL:
	case EAGAIN:
	case EALREADY:
	case EBUSY:
		return EFAULT;
	default:
		return err;
	}
}

/*
 * Opens the black box if one is wanted and none is open; owner only, outside the gate. 0, or an
 * errno that has no other meaning as the result of start, and a sentence.
 */
static int
box_begin(const prof_session_opts_t *o, const char **why) {
	prof_box_t kind = is_given(o, prof_session_box) ? (prof_box_t)o->values[prof_session_box]
	    : opt_prof_blackbox;
	session_assert_moving();
	session.has_box = false;
	if (kind != prof_box_false && prof_box_is_over()) {
		prof_box_tick(); /* tries again to move the tables out of the box of an earlier session */
	}
	if (kind == prof_box_false || (prof_box_is_open() && !prof_box_is_over())) {
		return 0;
	}
	int err = prof_box_open(kind, is_given(o, prof_session_box_size)
	    ? (size_t)o->values[prof_session_box_size] : opt_prof_blackbox_size, session.is_bounded);
	session.has_box = err == 0;
	if (err == EALREADY && prof_box_is_open() && !prof_box_is_over()) {
		return 0; /* the one that a forked child was due */
	}
	prof_box_record_objects();
	*why = err == 0 ? "" : err == ENOSPC
	    ? "blackbox: there is no room for it, or the tables are larger than blackbox_size"
	    : err == EBUSY ? "blackbox: a profile is being written; try again"
	    : err == EAGAIN ? "blackbox: the files at the prefix are as many as prof_dump_max_files or "
	    "prof_dump_max_bytes allow"
	    : err == ENOENT ? "blackbox: the directory of the prefix is not there"
	    : err == EINVAL && prof_sys_prefix_is_empty() ? "blackbox: the prefix is empty"
	    : "blackbox: its file could not be made";
	return plain_error(err);
}

/* Boots the profiler and sets the prefix, inside the gate. 0 or an errno. */
static int
session_prepare(const prof_session_opts_t *o, const char **why) {
	assert(gate_is_entered(tls_get()) && tls_get()->inside > 0);
	int err = prof_start_now();
	err = err != 0 ? err : prefix_apply(o);
	cassert(PROF_PREFIX_TEXT_MAX == 3984 && PROF_PREFIX_BASE_MAX == 143);
	*why = err == EINVAL ? "prefix: is too long: it may have 3984 bytes, 143 behind the last slash"
	    : "";
	return err;
}

/*
 * The start itself, by the thread that moved the state to starting, inside the gate: applies the
 * options, resets if asked to, and switches sampling on.
 */
static void
session_begin(const prof_session_opts_t *o, uint64_t id) {
	assert(gate_is_entered(tls_get()) && tls_get()->inside > 0);
	session.was_active = prof_switch_is_active();
	session.has_no_final = is_given(o, prof_session_final) && o->values[prof_session_final] == 0;
	values_apply(o);
	bool was_accum = prof_data_is_accum();
	prof_data_accum_set(is_given(o, prof_session_accum) ? o->values[prof_session_accum] != 0
	    : opt_prof_accum);
	if (is_given(o, prof_session_reset) ? o->values[prof_session_reset] != 0
	    : !session.was_active || was_accum != prof_data_is_accum()) {
		prof_reset(SIZE_MAX);
	}
	prof_data_unmark();
	prof_trigger_restart();
	__atomic_store_n(&prof_root()->session_start_ns, nstime_realtime_ns(), MO_RELAXED);
	__atomic_store_n(&prof_root()->session, id, MO_RELAXED);
	prof_course_begin();
	deadline_set(id, o->values[prof_session_max_seconds]);
	prof_active_set(true);
}

/* All steps of a start, by the thread that moved the state to starting. 0 or an errno. */
static int
session_start(const prof_session_opts_t *o, uint64_t id, const char **why) {
	struct tls_s *t = tls_get();
	uint32_t depth = gate_step_out();
	prof_backtrace_prepare(); /* now, because samples are lost while one thread does it */
	int err = prefix_check(o, why);
	gate_enter(t);
	err = err != 0 ? err : session_prepare(o, why);
	gate_exit(t);
	err = err != 0 ? err : box_begin(o, why);
	gate_enter(t);
	if (err == 0) {
		session_begin(o, id);
	} else {
		prefix_restore();
	}
	session_leave(err == 0 ? id : id - 1, err == 0 ? prof_session_active : prof_session_idle);
	gate_exit(t);
	gate_step_in(depth);
	return err;
}

int
prof_session_start(const char *options, const char **why, uint64_t *begun) {
	const char *unused;
	why = why != NULL ? why : &unused;
	prof_session_opts_t o;
	*why = "";
	uint64_t word = session_word();
	int err = prof_session_may_start(word_state(word));
	if (err != 0) {
		return session_refuse(err);
	}
	err = prof_session_parse(&o, options, why);
	err = err != 0 ? err : percent_resolve(&o, why);
	if (err != 0) {
		return err;
	}
	uint64_t id = (word >> STATE_BITS) + 1;
	if (!session_try_move(&word, id, prof_session_starting)) {
		err = prof_session_may_start(word_state(word));
		return session_refuse(err != 0 ? err : EALREADY);
	}
	*why = "";
	session.is_bounded = begun != NULL && !prof_trigger_has_thread_hook();
	err = session_start(&o, id, why);
	if (begun != NULL) {
		*begun = id;
	}
	return err;
}

/* ---------------------------------------------------------------- stop */

/*
 * Writes the session's profile. 0; EBUSY: the bounded wait for another dump is over; or an errno
 * that has no other meaning as the result of stop.
 */
static int
session_dump(bool is_silent, char *told) {
	if (prof_sys_prefix_is_empty()) {
		return EFAULT;
	}
	prof_dump_t d = {.kind = prof_kind_session, .may_wait = true, .is_silent = is_silent,
	    .is_bounded = session.is_bounded, .told = told};
	int err = prof_dump(&d);
	return err == EBUSY && session.is_bounded ? EBUSY : plain_error(err);
}

/*
 * All steps of a stop, by the thread that moved session id to stopping: writes the profile, closes
 * the black box, restores the values. late: the session.deadline that is over, and no caller waits
 * for the result; 0: there is a caller. Returns 0, the errno of the profile, or EBUSY: the session
 * goes on. In a child that the dump hook forks, the fork has ended the session already.
 */
static int
session_end(uint64_t id, uint64_t late, char *told) {
	assert(word_state(session_word()) == prof_session_stopping);
	session.is_bounded = (late != 0 || told != NULL) && !prof_trigger_has_thread_hook();
	prof_trigger_changed_hook();
	int err = late != 0 && session.has_no_final ? 0 : session_dump(late == 0, told);
	if (session_word() != (id << STATE_BITS | (uint64_t)prof_session_stopping)) {
		return err;
	}
	if (err == EBUSY) {
		if (late != 0) {
			atomic_store_u64(&session.deadline, late, MO_RELAXED);
		}
		session_leave(id, prof_session_active);
		return EBUSY;
	}
	struct tls_s *t = tls_get();
	if (session.has_box) {
		uint32_t depth = gate_step_out();
		prof_box_close();
		gate_step_in(depth);
	}
	gate_enter(t);
	t->inside++;
	deadline_close(id);
	values_restore();
	prefix_restore();
	session_leave(id, prof_session_idle);
	t->inside--;
	gate_exit(t);
	return err;
}

int
prof_session_stop(uint64_t id, char *told) {
	if (told != NULL) {
		told[0] = '\0';
	}
	uint64_t word = session_word();
	uint64_t current = word >> STATE_BITS;
	int err = prof_session_may_stop(word_state(word), current, id);
	if (err == 0 && prof_dump_is_mine()) {
		err = EBUSY; /* called from the user's dump hook */
	}
	if (err != 0) {
		return session_refuse(err);
	}
	if (!session_try_move(&word, current, prof_session_stopping)) {
		err = prof_session_may_stop(word_state(word), word >> STATE_BITS, id);
		return session_refuse(err != 0 ? err : EBUSY);
	}
	err = session_end(current, 0, told);
	return err == EBUSY ? session_refuse(EBUSY) : err;
}

/* ---------------------------------------------------------------- changes while it runs */

/* prof_session_set() for parsed options, inside the gate; changes nothing on an error. */
static int
set_apply(const prof_session_opts_t *o, const char **why) {
	assert(gate_is_entered(tls_get()));
	uint32_t later = ((1u << prof_session_nsettings) - 1) | 1u << prof_session_max_seconds;
	if (o->prefix != NULL || (o->given & ~later) != 0) {
		*why = "prefix, reset, accum, final and blackbox belong to a start";
		return EINVAL;
	}
	if (is_given(o, prof_session_sample_interval) && !prof_is_booted()) {
		*why = "sample_interval: nothing has started the profiler yet";
		return ENOENT;
	}
	uint64_t word = session_word();
	if (is_given(o, prof_session_max_seconds) && (word_state(word) != prof_session_active
	    || deadline_change(word >> STATE_BITS, o->values[prof_session_max_seconds]) != 0)) {
		*why = "max_seconds: no session runs";
		return ENOENT;
	}
	settings_set(o->given, o->values);
	return 0;
}

int
prof_session_set(const char *options, const char **why) {
	prof_session_opts_t o;
	int err = prof_session_parse(&o, options, why);
	if (err != 0) {
		return err;
	}
	err = percent_resolve(&o, why);
	if (err != 0) {
		return err;
	}
	struct tls_s *t = tls_get();
	gate_enter(t);
	err = set_apply(&o, why);
	gate_exit(t);
	return err;
}

/* ---------------------------------------------------------------- time, fork */

uint64_t
prof_session_tick(void) {
	/* Read once, because the session may be stopped meanwhile and another one started. */
	uint64_t word = session_word();
	uint64_t id = word >> STATE_BITS;
	uint64_t deadline = atomic_load_u64(&session.deadline, MO_RELAXED);
	uint64_t end = deadline_ns(deadline);
	if (end == 0) {
		return UINT64_MAX;
	}
	uint64_t now = nstime_monotonic_ns();
	if (now < end) {
		return end - now;
	}
	/* If a dump keeps it off, a later heartbeat or round of the thread ends the session. */
	bool is_kept_off = prof_dump_is_mine() || prof_trigger_is_kept_off();
	if (word_state(word) == prof_session_active && deadline_is_of(deadline, id)
	    && !is_kept_off && session_try_move(&word, id, prof_session_stopping)) {
		/* False: prof_session_set() has moved the end meanwhile, so the session goes on. */
		if (deadline_try_close(deadline, id)) {
			session_end(id, deadline, NULL);
		} else {
			session_leave(id, prof_session_active);
		}
	}
	return UINT64_MAX;
}

bool
prof_session_is_over(void) {
	uint64_t end = deadline_ns(atomic_load_u64(&session.deadline, MO_RELAXED));
	return unlikely(end != 0) && nstime_monotonic_coarse_ns() >= end;
}

/*
 * Ends a start or stop under way, whose thread does not exist in the child unless the dump hook of
 * a stop forks (session_end()), and an active session unless prof_fork is inherit. A start under
 * way has changed nothing, or the prefix, or the values too: has_prefix and has_values tell,
 * because values change inside the gate, for which a fork waits. Its session never began, so it
 * takes no number. All short locks are free then.
 */
void
prof_session_postfork_child(void) {
	uint64_t word = session_word();
	prof_session_state_t state = word_state(word);
	if (atomic_load_u64(&session.rejected, MO_RELAXED) != 0) {
		atomic_store_u64(&session.rejected, 0, MO_RELAXED);
	}
	if (opt_prof_fork == prof_fork_idle) {
		prof_active_set(false);
	}
	if (state == prof_session_idle
	    || (state == prof_session_active && opt_prof_fork == prof_fork_inherit)) {
		return;
	}
	uint64_t id = (word >> STATE_BITS) - (state == prof_session_starting ? 1 : 0);
	deadline_close(id);
	values_restore();
	prefix_restore();
	atomic_store_u64(&session.word, id << STATE_BITS | (uint64_t)prof_session_idle, MO_RELEASE);
}
