/*
 * The jobs (scrape.h). Most ask one process by its mailbox: memory in the process that holds the
 * requests to it and the state of its profiler (jeprof_client.h). A job for a profile or a mark of
 * a process that is not profiling starts a session with a time limit, a lease (not with --passive);
 * each later one extends the limit, so profiling ends by itself some intervals after the last. The
 * metrics call each job that a request or --push asked for a scrape. A delta shows what changed:
 * either between two profiles, between which its job sleeps (?seconds=N), or since the mark, the
 * moment of the last POST /mark (?since=mark). If the process does not answer, because it is
 * stopped or hangs, a profile that is no delta is made from its memory (jeprof_image_t); such a
 * profile says kind=outside.
 *
 * Invariant: done() is called exactly once for a job, by the job's thread or, after the deadline or
 * when jeprofd ends, by scrape_tick(); the job's thread always frees the job. After its deadline a
 * job asks its process nothing any more: its client was told that it has failed. A job is in the
 * list until its thread is done, also after scrape_tick() has answered it, and counts there as
 * running unless it sleeps. Limits, beyond which the answer is 503:
 * - a job is started only if fewer than options.scrapes_max run (a delta that wakes up may exceed
 *   that) and, if it will sleep, fewer than DELTAS_MAX such jobs are in the list;
 * - a job asks its process only if, itself included, at most PER_PROCESS jobs run for the process,
 *   and at most half of options.scrapes_max, rounded up, for all processes of that effective uid
 *   (there is no such limit for uid 0, or if that option is 1). So the processes of one user that
 *   block their readers cannot keep jobs for others out.
 * Locks: `lock` protects the list of jobs and the fields of a job that say so; done() is called
 * under it. It is never held together with the table's lock. Called by server.c, push.c,
 * dead_watch.c and main.c; answer_line() also by dead_profile.c.
 */
#include "scrape.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dead.h"
#include "pprof.h"
#include "watch.h"

enum {
	OTLP_FIXED = 6,          /* attributes in an OTLP profile that are not from --label */
	/* Both end at the deadline of the job at the latest. */
	WAIT_MS = 5000,          /* for the process to take a request */
	TAKEN_MS = 20000,        /* after WAIT_MS, for its answer to a request that it has taken */
	LATE_MS = 30000,         /* from a job's begin to its deadline; a delta also gets its seconds */
	PER_PROCESS = 2,         /* running jobs of one process, at most */
	DELTAS_MAX = 32,        /* jobs with is_delta() in the list, asleep or not, at most */
	LEASE_INTERVALS = 3,     /* a lease ends this many --interval after the last scrape */
	MARK_MAX = 16 << 20,    /* bytes of the profile that is kept for one mark, at most */
	MARKS_MAX = 64 << 20,   /* bytes of those of all processes together, at most */
	STACK_BYTES = 1 << 20,   /* of a job's thread */
};

/*
 * Under `lock`: done, is_over, uid, has_uid, is_sleeping and next. order, arg, begin_ms and
 * deadline_ms do not change. The other fields belong to the job's thread.
 */
typedef struct job_s {
	order_t order;           /* what is to be done */
	done_t *done;            /* NULL: scrape_tick has answered already */
	bool is_over;            /* its answer is there and counted: no deadline any more */
	void *arg;               /* of done */
	int64_t begin_ms;        /* on the monotonic clock, as is the deadline */
	int64_t deadline_ms;
	unsigned uid;            /* effective user of the process, if has_uid */
	bool has_uid;
	/* between the profiles of a delta: counted neither in job_count nor in proc->scrapes */
	bool is_sleeping;
	lack_t lack;             /* of the session that it starts */
	int ask_error;           /* errno of the last jeprof_ask(); 0: an answer, or it was too late */
	answer_t answer;         /* status 0: none yet */
	jeprof_target_t target;  /* the process, which run() opens and closes */
	proc_t *proc;            /* the process's record, held; NULL before try_enter_process() */
	struct job_s *next;
} job_t;

/* The parameters of a session to start. */
typedef struct start_s {
	uint64_t rate;           /* sampling interval: mean number of bytes between two samples */
	uint64_t seconds;        /* time limit of the session; 0: none */
	bool is_lease;           /* each scrape extends the limit; the end writes no profile file */
} start_t;

/* Of a process that does not answer or blocks its reader, or of names that take long to find. */
#define LATE "no answer in time"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static job_t *jobs;
static unsigned job_count; /* running jobs: all in the list but the sleeping ones */

void
answer_line(answer_t *a, unsigned status, const char *format, ...) {
	char line[JEPROF_WHY + 256];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	size_t length = n < 0 ? 0 : (size_t)n < sizeof(line) - 2 ? (size_t)n : sizeof(line) - 2;
	for (size_t i = 0; i < length; i++) {
		line[i] = (unsigned char)line[i] < ' ' || line[i] == 127 ? '?' : line[i];
	}
	line[length] = '\n';
	free(a->body);
	*a = (answer_t){.status = status, .type = "text/plain; charset=utf-8",
	    .body = malloc(length + 1), .length = length + 1};
	if (a->body == NULL) {
		a->length = 0;
		return;
	}
	memcpy(a->body, line, length + 1);
}

/* Answers with target.why, and with the HTTP status for `error`, an errno of jeprof_client.h. */
static void
answer_failure(job_t *j, int error) {
	unsigned status = error == ESRCH || error == ENXIO || error == EPROTO ? 404 : error == EACCES
	    ? 403 : error == E2BIG ? 400 : 503;
	answer_line(&j->answer, status, "%s", j->target.why);
}

/* ---- asking ---- */

/* What there is of `left`, but at most `most`, and at least 1: 0 would be another default. */
static unsigned
part_of_time(int64_t left, unsigned most) {
	return left >= most ? most : left > 0 ? (unsigned)left : 1;
}

/*
 * Sends a request to the process and waits for its reply, until the job's deadline at most. 0:
 * *reply has it; it may be a refusal (reply->error). Else an errno: EAGAIN (the process is idle,
 * and `manner` is not to wait), or another one, which the job's answer tells already.
 */
static int
ask(job_t *j, const char *text, jeprof_manner_t manner, jeprof_reply_t *reply) {
	int64_t left = j->deadline_ms - client_now_ms();
	jeprof_request_t request = {.text = text, .wait_ms = part_of_time(left, WAIT_MS), .taken_ms =
	    part_of_time(left - WAIT_MS, TAKEN_MS), .manner = manner, .bytes_max =
	    options.profile_max, .interrupts = &ending};
	if (left <= 0) {
		j->ask_error = 0;
		answer_line(&j->answer, 503, LATE);
		return ETIMEDOUT;
	}
	int error = jeprof_ask(&j->target, &request, reply);
	j->ask_error = error;
	if (error != 0 && error != EAGAIN) {
		answer_failure(j, error);
	}
	return error;
}

/* A time in ns since 1970 as "2024-05-01 09:15:31Z", in buf; "?" if it has no such form. */
static const char *
since_text(uint64_t ns, char buf[40]) {
	time_t at = (time_t)((int64_t)ns / 1000000000); /* may be before 1970 */
	struct tm t;
	if (gmtime_r(&at, &t) == NULL || strftime(buf, 40, "%Y-%m-%d %H:%M:%SZ", &t) == 0) {
		snprintf(buf, 40, "?");
	}
	return buf;
}

/* Whether the session of target.head (the last one if none runs) is recorded as started by us. */
static bool
is_session_ours(const job_t *j) {
	table_lock();
	lease_t lease = j->proc->lease;
	table_unlock();
	return lease.session != 0 && lease.session == j->target.head.session_id
	    && lease.instance == j->target.head.instance;
}

/* Answers 409: the process is profiling already, by whose doing and, of a session, since when. */
static void
answer_already(job_t *j) {
	char since[40];
	const jeprof_target_t *t = &j->target;
	if (!jeprof_has_session(t)) {
		answer_line(&j->answer, 409, "%d %s is profiling already, switched on by %s; nothing "
		    "changed", t->pid, t->name, t->head.state == jeprof_state_sampling ? "its MALLOC_CONF"
		    : "the program itself");
		return;
	}
	answer_line(&j->answer, 409, "%d %s is profiling already: session %llu of %s since %s; nothing "
	    "changed", t->pid, t->name, (unsigned long long)t->head.session_id, is_session_ours(j)
	    ? "this jeprofd" : "somebody else", since_text(t->head.session_start_ns, since));
}

/*
 * Time limit of a lease, in seconds from now, rounded up: LEASE_INTERVALS times --interval. For a
 * push the time until the next push of the process counts instead of --interval, if it is longer. A
 * delta adds the seconds that it sleeps.
 */
static uint64_t
lease_seconds(const job_t *j) {
	uint64_t again_ms = j->order.push_again_ms;
	uint64_t every = again_ms > options.interval_ms ? again_ms : options.interval_ms;
	return (LEASE_INTERVALS * every + 999) / 1000 + j->order.seconds;
}

/*
 * Moves the recorded end of the lease (until_ms) to lease_seconds() from now, and returns the time
 * limit to set, in seconds from now, rounded up. The end never moves to an earlier time, because
 * another job, such as a delta that sleeps, relies on it.
 */
static uint64_t
promise_seconds(job_t *j) {
	int64_t now = client_now_ms(), until = now + (int64_t)lease_seconds(j) * 1000;
	table_lock();
	until = until > j->proc->lease.until_ms ? until : j->proc->lease.until_ms;
	j->proc->lease.until_ms = until;
	table_unlock();
	return (uint64_t)(until - now + 999) / 1000;
}

/* Counts a session that has begun. The caller holds the table's lock. */
static void
count_session(lack_t lack) {
	counts.sessions++;
	counts.lacks[lack]++;
}

/*
 * Records the session with this number as started by this jeprofd, and counts it. If is_pending,
 * the process has not read the start yet: no session has begun, and the number is a guess, that of
 * the last session plus 1. confirm_pending_lease() checks this guess later, and counts the session.
 */
static void
note_session(job_t *j, uint64_t session, const start_t *start, bool is_pending) {
	table_lock();
	j->proc->lease = (lease_t){.instance = j->target.head.instance, .session = session,
	    .is_renewed = start->is_lease, .lack = j->lack,
	    .pending_rate = is_pending ? start->rate : 0,
	    .until_ms = start->is_lease ? client_now_ms() + (int64_t)start->seconds * 1000 : 0};
	if (!is_pending) {
		count_session(j->lack);
	}
	table_unlock();
}

/*
 * Called when the process is idle, so that it reads the start only at its next allocation. If an
 * earlier start, of any client or of another job, is pending in the mailbox, takes ours back; else
 * leaves ours there. The start of a lease becomes void if the process has not read it within
 * start->seconds; the next scrape then leaves another one. Always answers 503 and returns EAGAIN.
 */
static int
leave_start(job_t *j, const start_t *start) {
	jeprof_target_t *t = &j->target;
	if (jeprof_comes_second(t, "start")) {
		jeprof_take_back(t);
	} else {
		jeprof_let_stay(t, start->is_lease ? start->seconds * 1000 : 0);
		note_session(j, t->head.session_id + 1, start, true);
	}
	answer_line(&j->answer, 503, "%d %s is idle: profiling begins at its next allocation", t->pid,
	    t->name);
	return EAGAIN;
}

/* Answers with the refusal in the process's reply; returns its errno, reply->error. */
static int
answer_refusal(job_t *j, const jeprof_reply_t *reply) {
	answer_line(&j->answer, reply->error == EPERM ? 403 : reply->error == EALREADY ? 409
	    : reply->error == EINVAL ? 400 : 503, "%d %s: %s", j->target.pid, j->target.name,
	    reply->text[0] != '\0' ? reply->text : strerror(reply->error));
	return reply->error;
}

/*
 * Asks the process to start a session. Options: accum:true counts what has been freed too;
 * final:false, for a lease, has the end of the session write no profile into the process's
 * directory; blackbox has the profiler keep its tables in a box, a memory file that jeprofd reads
 * when the process has ended (dead.h). The process may refuse because its older library does not
 * know an option, or because there is no room for a box: then it is asked a second time, without
 * the box, and if it refuses that too a third time, without accum and final. A process that may end
 * by making a box (jeprof_check_box) is asked for none. Sets j->lack. 0 or an errno of ask();
 * *reply may be a refusal.
 */
static int
ask_start(job_t *j, const start_t *start, jeprof_reply_t *reply) {
	const char *extras = start->is_lease ? ",accum:true,final:false" : ",accum:true";
	char text[192], box[64] = "";
	uint64_t bytes = options.box_bytes;
	int barred = jeprof_check_box(&j->target, bytes != 0 ? bytes : JEPROF_BOX_BYTES);
	j->lack = bytes == 0 || barred == 0 ? lack_none : barred == EPERM ? lack_filter : lack_room;
	if (barred != 0) { /* no box, not even the one that its MALLOC_CONF asks for (prof_blackbox) */
		snprintf(box, sizeof(box), ",blackbox:false");
	} else if (bytes != 0) {
		snprintf(box, sizeof(box), ",blackbox:fd,blackbox_size:%llu", (unsigned long long)bytes);
	}
	int error = 0;
	bool is_refused = true;
	for (int i = box[0] != '\0' ? 0 : 1; i < 3 && is_refused; i++) {
		snprintf(text, sizeof(text), "start sample_interval:%llu,max_seconds:%llu%s%s",
		    (unsigned long long)start->rate, (unsigned long long)start->seconds,
		    i < 2 ? extras : "", i < 1 ? box : "");
		error = ask(j, text, jeprof_manner_stay, reply);
		is_refused = error == 0 && reply->error != 0 && (strncmp(reply->text, "blackbox", 8) == 0
		    || strstr(reply->text, "unknown option") != NULL);
		j->lack = is_refused && i == 0 && barred == 0 ? lack_refused : j->lack;
	}
	return error;
}

/*
 * Starts a session, records it and has its box held (dead_look). 0, or an errno: EALREADY (the
 * process profiles already), which the caller handles, or another one, which is answered already.
 */
static int
start_session(job_t *j, const start_t *start) {
	jeprof_reply_t reply;
	char *end;
	int error = ask_start(j, start, &reply);
	if (error != 0) {
		return error == EAGAIN ? leave_start(j, start) : error;
	}
	if (jeprof_look(&j->target) != 0) {
		answer_failure(j, ESRCH);
		return ESRCH;
	}
	if (reply.error != 0) {
		return reply.error == EALREADY ? EALREADY : answer_refusal(j, &reply);
	}
	unsigned long long session = strtoull(reply.text, &end, 10);
	/* A line with a warning may follow: that no profile can be written to files there. */
	if (session == 0 || (*end != '\0' && *end != '\n')) {
		answer_line(&j->answer, 503, "%d %s: it answers to a start with no number of a session",
		    j->target.pid, j->target.name);
		return EBADMSG;
	}
	note_session(j, session, start, false);
	dead_look(&j->target);
	return 0;
}

/*
 * Decides whether the running session is the one of our start that was left pending, whose number
 * it has. The number alone does not prove it, because another client's start may have come first;
 * so the session is ours only if its sampling interval is lease.pending_rate, that of our start. If
 * not, sets lease.session to 0 (none is ours). 0, or an errno that is answered already.
 */
static int
confirm_pending_lease(job_t *j) {
	char value[32];
	jeprof_reply_t reply;
	int error = ask(j, "status", jeprof_manner_wait, &reply);
	if (error != 0) {
		return error;
	}
	bool is_told = reply.error == 0 && jeprof_value(reply.text, "sample_interval", value,
	    sizeof(value)) != NULL;
	table_lock();
	lease_t *lease = &j->proc->lease;
	bool is_ours = is_told && strtoull(value, NULL, 10) == lease->pending_rate;
	/* 0: another job has confirmed the lease since renew_lease() copied it. */
	if (is_ours && lease->pending_rate != 0) {
		count_session(lease->lack);
	}
	lease->session = is_ours || lease->pending_rate == 0 ? lease->session : 0;
	lease->pending_rate = 0;
	table_unlock();
	return 0;
}

/*
 * Extends the time limit of the running session if it is a lease of ours. Sessions of other clients
 * and those of POST /start keep their limits. 0, also if the process refuses the new limit; or an
 * errno that is answered already.
 */
static int
renew_lease(job_t *j) {
	char text[64];
	jeprof_reply_t reply;
	table_lock();
	lease_t lease = j->proc->lease;
	table_unlock();
	int error = lease.pending_rate != 0 && is_session_ours(j) ? confirm_pending_lease(j) : 0;
	if (error != 0 || !lease.is_renewed || !is_session_ours(j)) {
		return error;
	}
	snprintf(text, sizeof(text), "set max_seconds:%llu", (unsigned long long)promise_seconds(j));
	error = ask(j, text, jeprof_manner_wait, &reply);
	table_lock();
	counts.renewed += error == 0 && reply.error == 0;
	table_unlock();
	return error;
}

/*
 * Makes sure that the process is profiling, by whomever: extends our lease if that runs; if nothing
 * samples starts one, unless --passive. 0, or an errno that is answered already.
 */
static int
ensure_profiling(job_t *j) {
	jeprof_target_t *t = &j->target;
	if (t->head.state == jeprof_state_stopping) {
		answer_line(&j->answer, 503, "%d %s is just ending a session", t->pid, t->name);
		return EBUSY;
	}
	if (t->head.state != jeprof_state_idle) {
		return renew_lease(j);
	}
	if (options.is_passive) {
		answer_line(&j->answer, 409, "%d %s is not profiling, and this jeprofd is passive: "
		    "jeprofctl start %d", t->pid, t->name, t->pid);
		return EPERM;
	}
	int error = start_session(j, &(start_t){options.rate, lease_seconds(j), true});
	return error == EALREADY ? renew_lease(j) : error;
}

/* ---- profiles ---- */

static void
answer_other_session(job_t *j) {
	answer_line(&j->answer, 409, "%d %s: the session of the earlier profile has ended, or its rate "
	    "was changed, or the program has reset the profiler (prof.reset): there is no difference "
	    "to show", j->target.pid, j->target.name);
}

/*
 * Fetches the profile (heap_v2, the library's text) that the request asks for into reply->profile,
 * which the caller frees. 0, or an errno that is answered already; then there is no profile.
 */
static int
fetch(job_t *j, const char *request, jeprof_reply_t *reply) {
	int error = ask(j, request, jeprof_manner_wait, reply);
	if (error == 0 && reply->error == ENODATA) {
		answer_other_session(j); /* it has no mark: the start of a session or a reset removes it */
		return ENODATA;
	}
	return error == 0 && reply->error != 0 ? answer_refusal(j, reply) : error;
}

/*
 * Marks the job as sleeping or as running, and adjusts job_count and proc->scrapes. A job that
 * wakes up is counted as running even if that is above a limit.
 */
static void
set_sleeping(job_t *j, bool is_sleeping) {
	pthread_mutex_lock(&lock);
	j->is_sleeping = is_sleeping;
	job_count += is_sleeping ? -1U : 1U;
	pthread_mutex_unlock(&lock);
	table_lock();
	j->proc->scrapes += is_sleeping ? -1U : 1U;
	table_unlock();
}

/* Sleeps between the two profiles of a delta; false if `ending` was set meanwhile. */
static bool
sleep_between(job_t *j) {
	int64_t end = client_now_ms() + (int64_t)j->order.seconds * 1000;
	set_sleeping(j, true);
	while (!ending && client_now_ms() < end) {
		int64_t left = end - client_now_ms();
		client_sleep_ms(left < 200 ? left : 200);
	}
	set_sleeping(j, false);
	return !ending;
}

static void
answer_no_mark(job_t *j) {
	answer_line(&j->answer, 404, "%d %s has no mark: POST /p/%d/mark sets one", j->target.pid,
	    j->target.name, j->target.pid);
}

/*
 * Copies the profile that was kept at the mark; the caller frees it. 0, or an answered errno. The
 * table's lock is held for the copy: at most MARK_MAX bytes, 1 to 3 ms.
 */
static int
copy_mark(job_t *j, char **text, size_t *bytes) {
	table_lock();
	bool has_mark = j->proc->mark != NULL;
	*bytes = j->proc->mark_bytes;
	*text = has_mark ? malloc(*bytes + 1) : NULL;
	if (*text != NULL) {
		memcpy(*text, j->proc->mark, *bytes);
	}
	table_unlock();
	if (!has_mark) {
		answer_no_mark(j);
	} else if (*text == NULL) {
		answer_line(&j->answer, 503, "jeprofd has no memory for a copy of the mark");
	}
	return *text != NULL ? 0 : has_mark ? ENOMEM : ENOENT;
}

/*
 * Gets the earlier profile of a difference, which the caller frees: a copy of that of the mark, or
 * one fetched now, after which the job sleeps for order.seconds. 0, or an errno that is answered
 * already; then *text is NULL or as it was.
 */
static int
fetch_before(job_t *j, char **text, size_t *bytes) {
	jeprof_reply_t reply = {0};
	if (j->order.is_since_mark) {
		return copy_mark(j, text, bytes);
	}
	int error = fetch(j, "dump-stream", &reply);
	if (error == 0 && !sleep_between(j)) {
		free(reply.profile);
		answer_line(&j->answer, 503, "jeprofd is ending");
		return EINTR;
	}
	if (error == 0) {
		*text = reply.profile;
		*bytes = reply.profile_bytes;
	}
	return error;
}

/* Parses the earlier profile and subtracts it from `after`. 0, or an errno that is answered. */
static int
subtract(job_t *j, struct pprof_profile *after, const char *text, size_t bytes) {
	struct pprof_profile *before = NULL;
	const char *why = "";
	int error = pprof_parse(text, bytes, &before, &why);
	if (error == 0) {
		error = pprof_subtract(after, before);
		why = error == EFBIG ? "both together are too large" : "there is not enough memory";
		pprof_free(before);
	}
	if (error == EINVAL) {
		answer_other_session(j);
	} else if (error == ESTALE) {
		answer_line(&j->answer, 409, "%d %s: the program has reset the profiler (prof.reset) since "
		    "the earlier profile, which forgets all samples: there is no difference to show",
		    j->target.pid, j->target.name);
	} else if (error != 0) {
		answer_line(&j->answer, 503, "%d %s: the earlier profile: %s", j->target.pid,
		    j->target.name, why);
	}
	return error;
}

/* Encodes for OTLP, with the labels of the process and of --label. 0, or an errno and *why. */
static int
encode_otlp(job_t *j, const struct pprof_profile *profile, const struct pprof_request *request,
    unsigned char **out, size_t *length, const char **why) {
	char host[256] = "";
	labels_t l = {0};
	gethostname(host, sizeof(host) - 1);
	table_lock();
	if (j->proc->labels != NULL) {
		l = *j->proc->labels;
	}
	table_unlock();
	const char *name = strrchr(l.exe, '/');
	struct otlp_attribute all[OTLP_FIXED + LABELS_MAX] = {
		{"service.name", l.service[0] != '\0' ? l.service : j->target.name, 0},
		{"process.pid", NULL, j->target.pid},
		{"process.executable.name", name != NULL ? name + 1 : j->target.name, 0},
		{"process.executable.path", l.exe, 0},
		{"host.name", host, 0},
		{"container.id", l.container_id, 0},
	};
	struct otlp_resource resource = {.attributes = all, .version = JEPROFD_VERSION};
	for (size_t i = 0; i < OTLP_FIXED; i++) {
		if (all[i].text == NULL || all[i].text[0] != '\0') {
			all[resource.count++] = all[i]; /* what is not known is left out */
		}
	}
	for (size_t i = 0; i < options.nlabels; i++) {
		all[resource.count++] = (struct otlp_attribute){options.labels[i].key,
		    options.labels[i].value, 0};
	}
	return otlp_encode(profile, request, &resource, j->order.is_packed, out, length, why);
}

/* Answers with profile.proto or OTLP of now->profile, less `before` if not NULL; or a failure. */
static void
convert(job_t *j, const jeprof_reply_t *now, const char *before, size_t before_bytes) {
	struct pprof_profile *profile = NULL;
	struct pprof_request request = {.cache_dir = options.cache_dir, .pid = j->target.task,
	    .cache_bytes = options.cache_max, .use_debuginfod = options.use_debuginfod,
	    .has_ages = j->order.has_ages,
	    .default_type = j->order.kind == job_allocs ? "alloc_space" : "inuse_space"};
	const char *why = "";
	unsigned char *out = NULL;
	size_t length = 0;
	int error = pprof_parse(now->profile, now->profile_bytes, &profile, &why);
	if (error == 0 && before != NULL && subtract(j, profile, before, before_bytes) != 0) {
		pprof_free(profile);
		return;
	}
	if (error == 0) {
		error = j->order.is_otlp ? encode_otlp(j, profile, &request, &out, &length, &why)
		    : pprof_encode(profile, &request, &out, &length, &why);
		pprof_free(profile);
	}
	if (error != 0) {
		answer_line(&j->answer, 503, "%d %s: its profile: %s", j->target.pid, j->target.name, why);
		return;
	}
	j->answer = (answer_t){.status = 200, .type = j->order.is_otlp ? "application/x-protobuf"
	    : "application/octet-stream", .body = (char *)out, .length = length};
}

/*
 * Whether the process itself is to subtract what it had at the mark. It remembers only what was
 * live then. So for allocs, and for OTLP, which has allocations too, jeprofd subtracts the profile
 * that it kept at the mark (proc->mark); if it kept none, the process subtracts nevertheless.
 */
static bool
is_own_delta(job_t *j) {
	bool wants_live = j->order.kind == job_heap && !j->order.is_otlp;
	table_lock();
	bool is_own = j->order.is_since_mark && j->proc->has_own_mark
	    && (wants_live || j->proc->mark == NULL);
	table_unlock();
	return is_own;
}

/*
 * Before anything is asked of the process for a difference since the mark that jeprofd is to make:
 * 0, or an errno that is answered already. There may be no mark; and a raw difference can be made
 * by the process alone.
 */
static int
check_mark(job_t *j) {
	table_lock();
	bool has_mark = j->proc->mark != NULL;
	table_unlock();
	if (!has_mark) {
		answer_no_mark(j);
		return ENOENT;
	}
	if (j->order.is_raw) {
		answer_line(&j->answer, 400, "%d %s: its library is too old to make a difference itself, "
		    "so there is no raw one", j->target.pid, j->target.name);
		return EBADMSG;
	}
	return 0;
}

/*
 * Fetches the profile of now into now->profile and, if jeprofd is to make a difference, the earlier
 * one before that; the caller frees both in any case. 0, or an errno that is answered already.
 */
static int
fetch_all(job_t *j, jeprof_reply_t *now, char **before, size_t *before_bytes) {
	bool is_own = is_own_delta(j);
	int error = j->order.is_since_mark && !is_own ? check_mark(j) : 0;
	error = error != 0 ? error : ensure_profiling(j);
	if (error != 0) {
		return error;
	}
	if ((j->order.seconds > 0 || j->order.is_since_mark) && !is_own) {
		error = fetch_before(j, before, before_bytes);
	}
	return error != 0 ? error : fetch(j, is_own ? "dump-delta-stream" : "dump-stream", now);
}

/*
 * After a request that the process did not answer: makes the profile from its memory, and drops the
 * answer of the failure. False: it did answer, it is not profiling (what its tables have is of an
 * earlier session), or they cannot be read; then the answer stays as it is.
 */
static bool
try_outside(job_t *j, jeprof_reply_t *now) {
	jeprof_image_t *image;
	jeprof_target_t *t = &j->target;
	size_t bytes = 0;
	if (j->ask_error == 0 || t->head.state == jeprof_state_idle
	    || jeprof_image_unanswered(&image, t, j->ask_error, options.profile_max) != 0) {
		return false;
	}
	int error = jeprof_image_text(image, options.profile_max, &now->profile, &bytes);
	jeprof_image_close(image);
	if (error != 0) {
		return false;
	}
	now->profile_bytes = bytes;
	free(j->answer.body);
	j->answer = (answer_t){0};
	return true;
}

/* A job_heap or job_allocs: one profile, or the difference of two. */
static void
run_profile(job_t *j) {
	jeprof_reply_t now = {0};
	char *before = NULL;
	size_t before_bytes = 0;
	bool is_difference = j->order.seconds > 0 || j->order.is_since_mark;
	int error = fetch_all(j, &now, &before, &before_bytes);
	if (error == 0 || (!is_difference && try_outside(j, &now))) {
		/*
		 * A session that has ended since the earlier profile counts no frees from then on, so
		 * the difference would be wrong.
		 */
		if (is_difference && (jeprof_look(&j->target) != 0
		    || j->target.head.state == jeprof_state_idle)) {
			answer_other_session(j);
		} else if (j->order.is_raw) {
			j->answer = (answer_t){.status = 200, .type = "text/plain; charset=utf-8",
			    .body = now.profile, .length = now.profile_bytes};
			now.profile = NULL;
		} else {
			convert(j, &now, before, before_bytes);
		}
	}
	free(now.profile);
	free(before);
}

/* ---- control ---- */

/* A job_start, that of POST /start: starts a session that is no lease. */
static void
run_start(job_t *j) {
	uint64_t rate = j->order.rate != 0 ? j->order.rate : options.rate;
	jeprof_target_t *t = &j->target;
	if (t->head.state != jeprof_state_idle) {
		answer_already(j);
		return;
	}
	int error = start_session(j, &(start_t){rate, j->order.seconds, false});
	if (error == EALREADY) {
		answer_already(j);
		return;
	}
	if (error == 0) {
		table_lock();
		unsigned long long session = j->proc->lease.session;
		table_unlock();
		answer_line(&j->answer, 200, "session %llu", session);
	}
}

/*
 * After our start was perhaps withdrawn: if its session has not begun, none is ours, so that the
 * next one, which gets the same number, is not taken for it.
 */
static void
forget_pending_lease(job_t *j) {
	table_lock();
	lease_t *lease = &j->proc->lease;
	if (lease->pending_rate != 0 && lease->session != j->target.head.session_id) {
		lease->session = 0;
		lease->pending_rate = 0;
	}
	table_unlock();
}

/*
 * After a stop that an idle process did not answer: withdraws the pending starts and sets of all
 * clients. Answers 200 only if there were some and no session runs; 409 if there was nothing to be
 * stopped.
 */
static void
stop_idle(job_t *j) {
	char text[JEPROF_TEXT], what[80];
	jeprof_withdrawn_t w;
	jeprof_target_t *t = &j->target;
	bool has_start = jeprof_find_pending(t, "start", text);
	int error = jeprof_withdraw_pending(t, &w);
	error = error != 0 ? error : jeprof_look(t);
	if (error != 0) {
		answer_failure(j, error);
		return;
	}
	forget_pending_lease(j);
	bool runs = jeprof_has_session(t);
	if (w.starts + w.sets > 0) {
		jeprof_withdrawn_text(&w, what);
		answer_line(&j->answer, runs ? 503 : 200, "%s%s", what, runs
		    ? "; the session still runs: the process is idle" : "");
	} else if (t->head.state == jeprof_state_idle && !has_start) {
		answer_line(&j->answer, 409, "%d %s is idle and not profiling; nothing changed", t->pid,
		    t->name);
	} else { /* it profiles, or is just taking the start */
		answer_line(&j->answer, 503, "%d %s is idle and does not answer", t->pid, t->name);
	}
}

/* A job_stop. If the process is idle, takes the pending starts and sets of all clients back. */
static void
run_stop(job_t *j) {
	jeprof_reply_t reply;
	int error = ask(j, "stop", jeprof_manner_return, &reply);
	if (error == EAGAIN) {
		stop_idle(j);
	} else if (error == 0 && reply.error != 0) {
		answer_refusal(j, &reply);
	} else if (error == 0) {
		answer_line(&j->answer, 200, "%s", reply.text);
	}
}

/*
 * Keeps now->profile in the record (proc->mark), in place of that of an older mark. If it exceeds
 * MARK_MAX or MARKS_MAX, frees it and returns false. In that case the older profile stays, unless
 * the process itself remembers the new moment (is_own): then it is freed too, because it does not
 * belong to the mark of the process.
 */
static bool
try_keep_mark(job_t *j, jeprof_reply_t *now, bool is_own) {
	table_lock();
	proc_t *p = j->proc;
	size_t others = counts.mark_bytes - p->mark_bytes;
	bool fits = now->profile_bytes <= MARK_MAX && others + now->profile_bytes <= MARKS_MAX;
	if (fits || is_own) {
		free(p->mark);
		p->mark = fits ? now->profile : NULL;
		p->mark_bytes = fits ? now->profile_bytes : 0;
		p->has_own_mark = is_own;
		counts.mark_bytes = others + p->mark_bytes;
	}
	table_unlock();
	if (!fits) {
		free(now->profile);
	}
	return fits;
}

/*
 * Notes that the process remembers this moment, of which jeprofd has no profile. Frees the profile
 * that is kept, if there is one, because it is of an older moment.
 */
static void
note_own_mark(job_t *j) {
	table_lock();
	proc_t *p = j->proc;
	counts.mark_bytes -= p->mark_bytes;
	free(p->mark);
	p->mark = NULL;
	p->mark_bytes = 0;
	p->has_own_mark = true;
	table_unlock();
}

/*
 * A job_mark, that of POST /mark: has the process remember what is live at each of its sites
 * (EBADMSG: its library is too old for that), and keeps a profile of now, for what the process does
 * not remember (is_own_delta).
 */
static void
run_mark(job_t *j) {
	jeprof_reply_t now;
	if (ensure_profiling(j) != 0 || ask(j, "mark", jeprof_manner_wait, &now) != 0) {
		return;
	}
	bool is_own = now.error == 0;
	if (now.error != 0 && now.error != EBADMSG) {
		answer_refusal(j, &now);
		return;
	}
	int error = fetch(j, "dump-stream", &now);
	if (error != 0 && is_own) {
		note_own_mark(j);
	}
	if (error != 0 && !(is_own && error == EFBIG)) {
		return;
	}
	if (error == 0 && !try_keep_mark(j, &now, is_own) && !is_own) {
		answer_line(&j->answer, 503, "the profile has %llu bytes: no room for this mark",
		    (unsigned long long)now.profile_bytes);
		return;
	}
	answer_line(&j->answer, 200, "marked: /p/%d/debug/pprof/heap?since=mark shows what changed "
	    "from here on", j->target.pid);
}

/* ---- a job from its beginning to its end ---- */

/*
 * Records the user of the process in the job. False if the jobs that run for processes of that
 * user, with this one, are more than half of options.scrapes_max, rounded up; never for root, or if
 * scrapes_max is 1.
 */
static bool
try_enter_user(job_t *j) {
	unsigned count = 0;
	pthread_mutex_lock(&lock);
	j->uid = j->target.uids[1];
	j->has_uid = true;
	for (const job_t *other = jobs; other != NULL; other = other->next) {
		count += other->has_uid && other->uid == j->uid && !other->is_sleeping;
	}
	bool may = j->uid == 0 || options.scrapes_max == 1 || count <= (options.scrapes_max + 1) / 2;
	pthread_mutex_unlock(&lock);
	return may;
}

/*
 * Holds the record of the process and counts the job there. False if there is no memory for a
 * record, or the process has PER_PROCESS running jobs already; finish_job() undoes the count and
 * the hold also then.
 */
static bool
try_enter_process(job_t *j) {
	j->proc = watch_hold(&j->target);
	if (j->proc == NULL) {
		return false;
	}
	table_lock();
	bool may = j->proc->scrapes < PER_PROCESS;
	j->proc->scrapes++;
	table_unlock();
	return may;
}

/*
 * Finds the process, checks the limits for its user and for itself, opens it and carries the order
 * out. A job_dead has no process: dead_answer() does all. The result is in j->answer.
 */
static void
run(job_t *j) {
	static void (*const runs[])(job_t *j) = {[job_heap] = run_profile, [job_allocs] = run_profile,
	    [job_start] = run_start, [job_stop] = run_stop, [job_mark] = run_mark};
	static_assert(sizeof(runs) / sizeof(runs[0]) == job_dead, "each kind but job_dead");
	if (j->order.kind == job_dead) {
		dead_answer(&j->order, &j->answer);
		return;
	}
	int error = jeprof_find(&j->target, j->order.pid);
	if (error != 0) {
		answer_failure(j, error);
		return;
	}
	if (!try_enter_user(j)) {
		answer_line(&j->answer, 503, "processes of uid %u are asked by half of --max-scrapes %llu "
		    "already: try again", j->uid, (unsigned long long)options.scrapes_max);
		return;
	}
	bool may = try_enter_process(j);
	if (j->proc == NULL) {
		answer_line(&j->answer, 503, "jeprofd has no memory");
		return;
	}
	if (!may) {
		answer_line(&j->answer, 503, "%d %s: %d requests for this process go on already: try again",
		    j->target.pid, j->target.name, PER_PROCESS);
		return;
	}
	error = jeprof_open(&j->target, NULL);
	if (error != 0) {
		answer_failure(j, error);
	} else if (j->target.way == jeprof_way_dir) {
		answer_line(&j->answer, 403, "%d %s can be reached through its control directory only",
		    j->target.pid, j->target.name);
	} else {
		runs[j->order.kind](j);
	}
	jeprof_close(&j->target);
}

/* Takes a job that is not asleep out of the list and of job_count. The caller holds `lock`. */
static void
unlink_job(job_t *j) {
	job_t **at = &jobs;
	while (*at != j) {
		at = &(*at)->next;
	}
	*at = j->next;
	job_count--;
}

/* Whether the answer of the order's job is a profile. */
static bool
is_profile(const order_t *order) {
	return order->kind == job_heap || order->kind == job_allocs || order->kind == job_dead;
}

/*
 * Ends the deadline, adds the job to the counters and releases the process's record, if it holds
 * one. A job that was answered in its place by scrape_tick() has failed, whatever its own answer
 * is.
 */
static void
finish_job(job_t *j) {
	pthread_mutex_lock(&lock);
	j->is_over = true;
	bool is_good = j->answer.status == 200 && j->done != NULL;
	pthread_mutex_unlock(&lock);
	table_lock();
	counts.jobs++;
	if (!j->order.is_own) {
		counts.scrapes++;
		counts.failed += !is_good;
		counts.seconds += (double)(client_now_ms() - j->begin_ms) / 1000;
		counts.bytes += is_good && is_profile(&j->order) ? j->answer.length : 0;
	}
	if (j->proc != NULL) {
		j->proc->scrapes--;
		table_release(j->proc);
	}
	table_unlock();
}

/* The thread of a job. Calls done(), unless scrape_tick() has; frees the job. */
static void *
job_main(void *arg) {
	job_t *j = arg;
	run(j);
	if (j->answer.status == 0) {
		answer_line(&j->answer, 503, "jeprofd has no memory");
	}
	finish_job(j);
	pthread_mutex_lock(&lock);
	unlink_job(j);
	if (j->done != NULL) {
		j->done(j->arg, &j->answer);
	} else {
		free(j->answer.body);
	}
	pthread_mutex_unlock(&lock);
	free(j);
	return NULL;
}

/* Starts the detached thread of the job. The caller holds `lock`. */
static bool
start_thread(job_t *j) {
	pthread_t thread;
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	int error = pthread_create(&thread, &attributes, job_main, j);
	pthread_attr_destroy(&attributes);
	return error == 0;
}

/* Whether the order's job sleeps between two profiles (?seconds=N). */
static bool
is_delta(const order_t *order) {
	return (order->kind == job_heap || order->kind == job_allocs) && order->seconds > 0;
}

/* Whether the limits of all jobs together admit one more. The caller holds `lock`. */
static bool
has_place(const order_t *order) {
	unsigned deltas = 0;
	for (const job_t *j = jobs; j != NULL; j = j->next) {
		deltas += is_delta(&j->order);
	}
	return job_count < options.scrapes_max && (!is_delta(order) || deltas < DELTAS_MAX);
}

/* Adds the job to the list and starts its thread, which owns it then. False: it stays ours. */
static bool
try_start(job_t *j) {
	pthread_mutex_lock(&lock);
	bool is_begun = has_place(&j->order) && !ending;
	if (is_begun) {
		j->next = jobs;
		jobs = j;
		job_count++;
		is_begun = start_thread(j);
		if (!is_begun) {
			unlink_job(j);
		}
	}
	pthread_mutex_unlock(&lock);
	return is_begun;
}

bool
scrape_begin(const order_t *order, done_t *done, void *arg) {
	job_t *j = calloc(1, sizeof(*j));
	bool is_begun = false;
	if (j != NULL) {
		int64_t now = client_now_ms();
		*j = (job_t){.order = *order, .done = done, .arg = arg, .begin_ms = now, .deadline_ms =
		    now + LATE_MS + (is_delta(order) ? (int64_t)order->seconds * 1000 : 0)};
		is_begun = try_start(j);
	}
	if (!is_begun) {
		free(j);
		table_lock();
		counts.refused += !order->is_own && order->push_again_ms == 0;
		table_unlock();
	}
	return is_begun;
}

void
scrape_tick(int64_t now_ms) {
	unsigned count = 0;
	pthread_mutex_lock(&lock);
	for (job_t *j = jobs; j != NULL; j = j->next) {
		/* At the end also one that is over: the server must not stop while a request waits. */
		if (j->done == NULL || (!ending && (j->is_over || now_ms < j->deadline_ms))) {
			continue;
		}
		answer_t answer = {0};
		answer_line(&answer, 503, ending ? "jeprofd is ending" : LATE);
		j->done(j->arg, &answer);
		j->done = NULL;
		count++;
	}
	pthread_mutex_unlock(&lock);
	table_lock();
	counts.written_off += ending ? 0 : count;
	table_unlock();
}
