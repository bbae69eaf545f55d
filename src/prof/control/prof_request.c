/*
 * Carries out requests from outside the process: parses one line of text, does what it asks, and
 * makes the answer (prof_request.h).
 *
 * Invariant: a confined client can name only files directly in the directory of the configured
 * prefix. Locks: none; the static buffers are shared, so only one thread at a time may call,
 * outside the fork gate (os/gate.h). The callers, prof_control.c and prof_ctl_dir.c, ensure that
 * with control.server. prof_request_state() may be called by any thread; prof_request_boot() at
 * boot, by prof_control.c.
 */
#include "prof/control/prof_request.h"

#include <fcntl.h>

#include "os/gate.h"
#include "os/nstime.h"
#include "os/sys.h"
#include "prof/control/prof_session.h"
#include "prof/file/prof_box.h"
#include "prof/file/prof_dump.h"
#include "prof/file/prof_keep.h"
#include "prof/sites/prof_figures.h"
#include "prof/sites/prof_root.h"
#include "prof/sites/prof_sample.h"
#include "prof/sites/prof_switch.h"
#include "prof/sites/prof_types.h"
#include "prof/trigger/prof_auto.h"
#include "unwind/unwind.h"
#include "util/fmt.h"

EARLY_DATA const char *(*prof_request_thread_hook)(void);

static LARGE_BSS struct {
	/* where confined clients may write, with the last slash; "": nowhere */
	char dir[PROF_PREFIX_MAX + 1];
	const char *why_none;          /* if dir is "": what is wrong with the configured prefix */
	char text[PROF_TEXT_SIZE];     /* buffer for paths and for results of the profiler */
} request;

static void
answer_vadd(prof_answer_t *a, const char *format, va_list ap) {
	assert(a->len < sizeof(a->text));
	int n = fmt_vsnprintf(a->text + a->len, sizeof(a->text) - a->len, format, ap);
	a->len = min_zu(a->len + (size_t)n, sizeof(a->text) - 1);
}

/* Adds to the answer; what has no room is cut off. */
static void
answer_add(prof_answer_t *a, const char *format, ...) {
	va_list ap;
	va_start(ap, format);
	answer_vadd(a, format, ap);
	va_end(ap);
}

int
prof_request_refuse(prof_answer_t *a, int err, const char *format, ...) {
	va_list ap;
	assert(err != 0);
	a->len = 0;
	va_start(ap, format);
	answer_vadd(a, format, ap);
	va_end(ap);
	return err;
}

int
prof_request_check_lease(prof_answer_t *a, uint64_t until_ms, uint64_t span_ms) {
	uint64_t now_ms = nstime_monotonic_ns() / NSTIME_PER_MSEC;
	return !prof_lease_is_over(until_ms, span_ms, now_ms) ? 0
	    : prof_request_refuse(a, ESTALE, "now_ms=%llu: the client of this request has ended, or "
	    "has another clock", (unsigned long long)now_ms);
}

/* ---------------------------------------------------------------- confined clients */

void
prof_request_boot(void) {
	prof_sys_path_absolute(request.dir, sizeof(request.dir), opt_prof_prefix);
	if (request.dir[0] == '/') {
		strrchr(request.dir, '/')[1] = '\0';
	} else {
		request.dir[0] = '\0';
		request.why_none = "is relative, and the current directory had no usable path";
	}
}

/*
 * Whether the client may name this path: one that is not confined any, a confined one only
 * request.dir and behind it a text without a slash. If that is "", "." or "..", the path names a
 * directory, to which no profile is written; a prefix gets a suffix and then names a file. If
 * request.dir is "", each path is refused.
 */
static bool
is_allowed(const prof_asker_t *asker, const char *path, size_t len) {
	assert(request.dir[0] == '\0' || request.dir[strlen(request.dir) - 1] == '/');
	if (!asker->is_confined) {
		return true;
	}
	size_t dir = strlen(request.dir);
	return dir > 0 && len >= dir && memcmp(path, request.dir, dir) == 0
	    && memchr(path + dir, '/', len - dir) == NULL;
}

/* Makes the answer to a path that is_allowed() forbids; returns EPERM. */
static int
refuse_place(prof_answer_t *a, const char *what) {
	return request.dir[0] != '\0' ? prof_request_refuse(a, EPERM,
	    "%sonly %s, the directory of the configured prefix, is allowed here", what, request.dir)
	    : prof_request_refuse(a, EPERM, "%sno path is allowed here: the configured prefix %s", what,
	    request.why_none);
}

/* ---------------------------------------------------------------- start, stop */

/*
 * Makes the answer to a start or stop that failed with err, by the state; returns err. For errors
 * other than those named here the answer is empty.
 */
static int
refuse_by_state(prof_answer_t *a, int err) {
	char stamp[NSTIME_STAMP_SIZE];
	unsigned long long id = prof_session_id();
	nstime_utc_stamp(stamp, prof_session_start_ns());
	switch (err) {
	case EALREADY:
		return prof_session_state() == prof_session_idle
		    ? prof_request_refuse(a, err, "no session runs; nothing changed")
		    : prof_request_refuse(a, err, "session %llu runs since %s; nothing changed", id, stamp);
	case EBUSY:
		return prof_request_refuse(a, err, "a profile is being written; session %llu is as it was",
		    id);
	case EPERM:
		return prof_request_refuse(a, err, "the session that runs is number %llu; nothing changed",
		    id);
	case ENOMEM:
		return prof_request_refuse(a, err, "no memory for the profiler");
	default:
		a->len = 0;
		return err;
	}
}

/*
 * Tests the directory in request.text, of len bytes, by a file that is removed at once. 0 or an
 * errno. If the name exists already, the errno `err` of O_TMPFILE decides: those of a file system
 * or a kernel without it are no fault of the directory.
 */
static int
named_file_fault(size_t len, int err) {
	assert(len < sizeof(request.text)); /* a name that is cut is ENAMETOOLONG, as the whole one */
	fmt_snprintf(request.text + len, sizeof(request.text) - len, ".jeprof.%d.probe", sys_pid());
	int fd = sys_open(request.text, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd >= 0) {
		sys_close(fd);
		sys_unlink(request.text);
	}
	request.text[len] = '\0';
	if (fd == -EEXIST) {
		return err == EOPNOTSUPP || err == EISDIR ? 0 : err;
	}
	return fd >= 0 ? 0 : -fd;
}

/*
 * Cuts the path in request.text off behind its directory, and tests whether a file can be created
 * there: 0 or the errno. O_TMPFILE makes the kernel check all conditions (permissions, ACLs, a
 * read-only file system) and leaves nothing behind; where it fails a file with a name decides,
 * because file systems refuse the flag in several ways.
 */
static int
directory_fault(void) {
	char *slash = strrchr(request.text, '/');
	assert(request.text[0] != '\0');
	if (slash == NULL) {
		memcpy(request.text, "./", 3);
		slash = request.text + 1;
	}
	slash[1] = '\0';
	int fd = sys_open(request.text, O_TMPFILE | O_WRONLY, 0600);
	if (fd >= 0) {
		sys_close(fd);
		return 0;
	}
	return named_file_fault((size_t)(slash + 1 - request.text), -fd);
}

/*
 * Makes the answer if the options of a start name a prefix that the client may not set, or in whose
 * directory no file can be written. 0 or an errno, and then the caller starts no session.
 */
static int
refuse_bad_prefix(const char *options, const prof_asker_t *asker, prof_answer_t *a) {
	prof_session_opts_t o;
	const char *why;
	char name[16];
	if (prof_session_parse(&o, options, &why) != 0 || o.prefix == NULL) {
		return 0; /* malformed options are refused later */
	}
	if (!is_allowed(asker, o.prefix, o.prefix_len)) {
		return refuse_place(a, "prefix: ");
	}
	if (prof_session_state() != prof_session_idle) {
		return 0; /* refused later */
	}
	assert(o.prefix_len > 0 && o.prefix_len < sizeof(request.text));
	memcpy(request.text, o.prefix, o.prefix_len);
	request.text[o.prefix_len] = '\0';
	int err = directory_fault();
	return err == 0 ? 0 : prof_request_refuse(a, EINVAL,
	    "prefix: no file can be written in %s (%s)", request.text, prof_errno_name(err, name));
}

/*
 * Adds a warning to the answer if the prefix that is set is empty, or no file can be written in its
 * directory. That is no reason to refuse the start, because dump-stream needs no file.
 */
static void
add_warning(prof_answer_t *a) {
	char name[16];
	prof_sys_prefix_get(request.text, sizeof(request.text));
	if (request.text[0] == '\0') {
		answer_add(a, "\nno profile can be written: the prefix is empty");
		return;
	}
	int err = directory_fault();
	if (err != 0) {
		answer_add(a, "\nno profile can be written in %s (%s)", request.text,
		    prof_errno_name(err, name));
	}
}

static int
verb_start(const prof_call_t *call, prof_answer_t *a) {
	const char *why;
	int err = refuse_bad_prefix(call->args, call->asker, a);
	if (err != 0) {
		return err;
	}
	uint64_t id;
	err = prof_session_start(call->args, &why, &id);
	if (err == 0) {
		answer_add(a, "%llu", (unsigned long long)id);
		add_warning(a);
		return 0;
	}
	return *why != '\0' ? prof_request_refuse(a, err, "%s", why) : refuse_by_state(a, err);
}

/* Answers with the path of the profile that was written, in request.text, or why there is none. */
static int
answer_path(prof_answer_t *a, int err) {
	char name[16];
	const char *why = request.text[0] != '\0' ? request.text : prof_errno_name(err, name);
	a->len = 0;
	answer_add(a, err == 0 ? "%s" : "the profile could not be written: %s", why);
	return err;
}

static int
verb_stop(const prof_call_t *call, prof_answer_t *a) {
	uint64_t id = 0;
	if (*call->args != '\0') {
		if (fmt_parse_digits(call->args, strlen(call->args), &id) != 0) {
			return prof_request_refuse(a, EINVAL, "stop wants the number of a session");
		}
		id = id != 0 ? id : PROF_SESSION_NONE; /* "stop 0" stops none; "stop" stops any */
	}
	int err = prof_session_stop(id, request.text);
	return err == EALREADY || err == EBUSY || err == EPERM ? refuse_by_state(a, err)
	    : answer_path(a, err);
}

/* ---------------------------------------------------------------- dumps */

/* Makes the answer to a delta without a mark; returns ENODATA. */
static int
refuse_unmarked(prof_answer_t *a) {
	return prof_request_refuse(a, ENODATA, "no mark is set; nothing is written");
}

/* Writes a profile to the path behind the verb; without one a name is made from the prefix. */
static int
verb_dump(const prof_call_t *call, prof_answer_t *a) {
	const char *path = *call->args == '\0' ? NULL : call->args;
	if (!prof_is_booted()) {
		return prof_request_refuse(a, ENOENT, "nothing has started the profiler yet");
	}
	if (path != NULL && !is_allowed(call->asker, path, strlen(path))) {
		return refuse_place(a, "");
	}
	if (path != NULL && path[0] != '/') {
		return prof_request_refuse(a, EINVAL, "the path must be absolute");
	}
	int err = prof_mdump(call->kind, path, call->asker->is_confined, request.text);
	if (err == ENODATA && call->kind == prof_kind_delta && request.text[0] == '\0') {
		return refuse_unmarked(a);
	}
	return err == EEXIST && call->asker->is_confined ? prof_request_refuse(a, err,
	    "a file of this name is there that is no profile") : answer_path(a, err);
}

static int
verb_mark(const prof_call_t *call UNUSED, prof_answer_t *a) {
	int err = prof_mark(!prof_trigger_has_thread_hook());
	return err == 0 ? 0 : prof_request_refuse(a, err, "%s", err == ENOENT
	    ? "nothing has started the profiler yet" : "a profile is being written");
}

/* Passes a profile to the sink of the asker; the answer is "-", or why that failed. */
static int
verb_stream(const prof_call_t *call, prof_answer_t *a) {
	if (call->asker->stream == NULL) {
		return prof_request_refuse(a, EOPNOTSUPP, "a profile is streamed through the mailbox only");
	}
	if (!prof_is_booted()) {
		return prof_request_refuse(a, ENOENT, "nothing has started the profiler yet");
	}
	prof_dump_t d = {.kind = call->kind, .sink = call->asker->stream, .may_wait = true,
	    .is_bounded = !prof_trigger_has_thread_hook()};
	int err = prof_dump(&d);
	if (err == ENODATA && call->kind == prof_kind_delta) {
		return refuse_unmarked(a);
	}
	if (err != 0) {
		return prof_request_refuse(a, err, "the profile could not be copied");
	}
	answer_add(a, "-");
	return 0;
}

/* ---------------------------------------------------------------- status */

uint32_t
prof_request_state(void) {
	switch (prof_session_state()) {
	case prof_session_active:
		return prof_switch_is_active() ? prof_mailbox_active : prof_mailbox_paused;
	case prof_session_stopping:
		return prof_mailbox_stopping;
	default:
		return !prof_switch_is_active() ? prof_mailbox_idle : opt_prof ? prof_mailbox_sampling
		    : prof_mailbox_switched_on;
	}
}

static void
add_number(prof_answer_t *a, const char *key, uint64_t value) {
	answer_add(a, "%s=%llu\n", key, (unsigned long long)value);
}

static void
add_heap(prof_answer_t *a) {
	prof_figures_t f;
	prof_figures_read(&f);
	add_number(a, "allocated", f.allocated);
	add_number(a, "active", f.active);
	add_number(a, "resident", f.resident);
	add_number(a, "retained", f.retained);
	add_number(a, "mapped", f.mapped);
	add_number(a, "metadata", f.metadata);
}

/*
 * Adds what only confined clients, those of the control directory, are told; clients of the mailbox
 * can find it out by themselves. This needs system calls that a sandbox may forbid. With a control
 * directory the process needs system calls anyway.
 */
static void
add_process(prof_answer_t *a, const prof_asker_t *asker) {
	if (asker->is_confined) {
		add_number(a, "rss", prof_sys_rss(NULL));
		add_number(a, "pid", (uint64_t)sys_pid());
	}
}

static void
add_thresholds(prof_answer_t *a) {
	for (unsigned i = 0; i < prof_threshold_n; i++) {
		answer_add(a, "threshold_%s=%llu\n", prof_threshold_names[i],
		    (unsigned long long)prof_threshold_get((prof_threshold_t)i));
	}
	answer_add(a, "threshold_highwater_metric=%s\n",
	    prof_metric_names[prof_threshold_metric_get()]);
}

static void
add_unwinder(prof_answer_t *a) {
	struct unwind_stats_s st;
	unwind_stats_read(&st);
	answer_add(a, "unwinder=%s\nunwinder_health=samples:%llu fallbacks:%llu\n", unwind_name(),
	    (unsigned long long)st.samples, (unsigned long long)st.fallbacks);
}

/*
 * Adds a line with the text that read() makes, cut off so that the line takes at most 1/share of
 * the room that is left.
 */
static void
add_text(prof_answer_t *a, const char *key, void (*read)(char *, size_t), size_t share) {
	size_t room = (sizeof(a->text) - a->len) / share, around = strlen(key) + sizeof("=\n");
	size_t most = room > around ? room - around : 0;
	read(request.text, sizeof(request.text));
	for (char *c = request.text; *c != '\0'; c++) {
		if ((unsigned char)*c < 0x20) {
			*c = '?';
		}
	}
	answer_add(a, "%s=%.*s\n", key, (int)most, request.text);
}

static int
verb_status(const prof_call_t *call, prof_answer_t *a) {
	static const char *const words[] = {"idle", "active", "stopping", "paused", "sampling",
	    "switched_on"};
	struct tls_s *t = tls_get();
	gate_enter(t);
	answer_add(a, "state=%s\n", words[prof_request_state()]);
	add_number(a, "session", prof_session_id());
	add_number(a, "start_time_ns", prof_session_start_ns());
	add_number(a, "sample_interval", prof_sample_interval_get());
	if (prof_budget_get() != 0) {
		char percent[FXP_BUF_SIZE];
		fxp_print(percent, prof_budget_get());
		answer_add(a, "budget=%s\nsample_interval_set=%llu\n", percent,
		    (unsigned long long)prof_sample_base());
	}
	add_thresholds(a);
	add_heap(a);
	add_number(a, "dumps", prof_dump_nwritten());
	add_number(a, "suppressed", prof_keep_suppressed());
	add_number(a, "overlapped", prof_keep_overlapped());
	add_number(a, "dump_errors", prof_dump_nerrors());
	add_number(a, "rejected", prof_session_rejected());
	add_unwinder(a);
	answer_add(a, "tracer=%s\n", prof_switch_has_listener() ? "yes" : "no");
	answer_add(a, "thread=%s\nversion=%s\n", prof_request_thread_hook(), JEMALLOC_VERSION);
	add_process(a, call->asker);
	if (prof_box_is_open()) {
		add_number(a, "blackbox_size", region_box_bytes());
		add_number(a, "blackbox_used", region_resident());
		add_number(a, "no_room", prof_root()->no_room);
		add_text(a, "blackbox", prof_box_path, 3);
	}
	add_text(a, "last_dump", prof_dump_last_path, 2);
	add_text(a, "last_error", prof_dump_last_error, 1);
	gate_exit(t);
	return 0;
}

/* ---------------------------------------------------------------- the rest */

static int
verb_set(const prof_call_t *call, prof_answer_t *a) {
	const char *why = "set wants options";
	int err = *call->args == '\0' ? EINVAL : prof_session_set(call->args, &why);
	return err == 0 ? 0 : prof_request_refuse(a, err, "%s", why);
}

static int
verb_rearm(const prof_call_t *call UNUSED, prof_answer_t *a UNUSED) {
	prof_trigger_rearm();
	return 0;
}

static const prof_verb_t verbs[] = {
	{"start", .takes_args = true, .fn = verb_start},
	{"stop", .takes_args = true, .fn = verb_stop},
	{"dump", .takes_args = true, .is_long = true, .kind = prof_kind_manual, .fn = verb_dump},
	{"dump-stream", .is_long = true, .is_stream = true, .kind = prof_kind_manual,
	    .fn = verb_stream},
	{"dump-delta", .takes_args = true, .is_long = true, .kind = prof_kind_delta,
	    .fn = verb_dump},
	{"dump-delta-stream", .is_long = true, .is_stream = true, .kind = prof_kind_delta,
	    .fn = verb_stream},
	{"mark", .is_long = true, .fn = verb_mark},
	{"status", .is_repeated = true, .fn = verb_status},
	{"set", .takes_args = true, .fn = verb_set},
	{"rearm", .fn = verb_rearm},
};

const prof_verb_t *
prof_request_verb(const char *text) {
	size_t len = strcspn(text, " ");
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (fmt_is_word(text, len, verbs[i].name)) {
			return &verbs[i];
		}
	}
	return NULL;
}

static bool
is_printable(const char *text) {
	for (; *text != '\0'; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f) {
			return false;
		}
	}
	return true;
}

int
prof_request(const char *text, const prof_asker_t *asker, prof_answer_t *a) {
	a->len = 0;
	a->text[0] = '\0';
	if (!is_printable(text)) {
		return prof_request_refuse(a, EBADMSG, "a request is one line of text");
	}
	const prof_verb_t *verb = prof_request_verb(text);
	if (verb == NULL) {
		return prof_request_refuse(a, EBADMSG, "no such request; there are start, stop, dump, "
		    "dump-stream, dump-delta, dump-delta-stream, mark, status, set, rearm");
	}
	const char *args = text + strlen(verb->name);
	assert(*args == ' ' || *args == '\0');
	args += *args == ' ';
	if (*args != '\0' && !verb->takes_args) {
		return prof_request_refuse(a, EINVAL, "this request takes nothing more");
	}
	return verb->fn(&(prof_call_t){args, asker, verb->kind}, a);
}
