/*
 * Inside of scrape.c: what a job counts as that was answered in its place, what a mark leaves whose
 * profile does not come, when a profile is read from outside, what a stop of an idle process says,
 * and whose session it is that a start began which was left for one. Prints what is wrong. Built by
 * inside.t.
 */
#include "scrape.c"
#include "expect.h"

options_t options = {.scrapes_max = 4};
counts_t counts;
volatile sig_atomic_t ending;

static unsigned answers, withdrawn, asked;
static jeprof_request_t last_asked;
static const char *answer_to_start = "12";
static int64_t now = 100;
static bool is_start_pending;
static int stream_error, stream_refusal, mark_error, withdraw_error, status_error, status_refusal;
static const char *sample_interval; /* in the answer to a status; NULL: it has none */

void
table_lock(void) {}

void
table_unlock(void) {}

void
table_release(proc_t *p) {
	(void)p;
}

int64_t
client_now_ms(void) {
	return now;
}

void
dead_answer(const order_t *order, answer_t *a) {
	(void)order;
	answer_line(a, 200, "a profile");
}

int
jeprof_ask(jeprof_target_t *t, const jeprof_request_t *request, jeprof_reply_t *reply) {
	bool is_mark = strcmp(request->text, "mark") == 0;
	(void)t;
	asked++;
	last_asked = *request;
	memset(reply, 0, sizeof(*reply));
	if (strcmp(request->text, "stop") == 0) {
		return EAGAIN;
	}
	if (strcmp(request->text, "status") == 0) {
		reply->error = status_refusal;
		return status_error;
	}
	if (strncmp(request->text, "start ", 6) == 0) {
		snprintf(reply->text, sizeof(reply->text), "%s", answer_to_start);
		return 0;
	}
	if (is_mark) {
		reply->error = mark_error;
	} else if (stream_refusal != 0) {
		reply->error = stream_refusal;
	} else if (stream_error == 0) {
		reply->profile = strdup("now");
		reply->profile_bytes = 3;
	}
	return is_mark ? 0 : stream_error;
}

const char *
jeprof_value(const char *text, const char *key, char *buf, size_t size) {
	(void)text;
	if (strcmp(key, "sample_interval") != 0 || sample_interval == NULL) {
		return NULL;
	}
	snprintf(buf, size, "%s", sample_interval);
	return buf;
}

static unsigned images;

int
jeprof_image_unanswered(jeprof_image_t **image, jeprof_target_t *t, int error, uint64_t bytes_max) {
	(void)image, (void)t;
	images++;
	expect("the limit of an image", bytes_max, options.profile_max);
	return error == ETIMEDOUT || error == EBUSY ? 0 : error;
}

int
jeprof_image_text(jeprof_image_t *image, uint64_t bytes_max, char **text, size_t *bytes) {
	(void)image;
	expect("the limit of its text", bytes_max, options.profile_max);
	*text = strdup("outside");
	*bytes = 7;
	return 0;
}

void
dead_look(const jeprof_target_t *t) {
	(void)t;
}

void
jeprof_image_close(jeprof_image_t *image) {
	(void)image;
	images--;
}

int
jeprof_check_box(jeprof_target_t *t, uint64_t bytes) {
	(void)t;
	(void)bytes;
	return 0;
}

int
jeprof_look(jeprof_target_t *t) {
	(void)t;
	return 0;
}

bool
jeprof_find_pending(jeprof_target_t *t, const char *verb, char text[JEPROF_TEXT]) {
	(void)t, (void)text;
	return is_start_pending && strcmp(verb, "start") == 0;
}

int
jeprof_withdraw_pending(jeprof_target_t *t, jeprof_withdrawn_t *w) {
	(void)t;
	w->starts = is_start_pending ? withdrawn : 0;
	w->sets = is_start_pending ? 0 : withdrawn;
	return withdraw_error;
}

void
jeprof_withdrawn_text(const jeprof_withdrawn_t *w, char buf[80]) {
	snprintf(buf, 80, "the pending %s was taken back", w->starts > 0 ? "start" : "set");
}

static void
take(void *arg, const answer_t *answer) {
	(void)arg;
	answers++;
	free(answer->body);
}

/* Runs a job that gives 200; is_late: after its deadline, at which somebody else has looked. */
static void
run_one(bool is_late) {
	job_t *j = calloc(1, sizeof(*j));
	*j = (job_t){.order.kind = job_dead, .done = take, .deadline_ms = 50, .begin_ms = 1};
	jobs = j;
	job_count = 1;
	counts = (counts_t){0};
	answers = 0;
	if (is_late) {
		scrape_tick(60);
	}
	job_main(j);
	expect("answered once", answers, 1);
	expect("a job", counts.scrapes, 1);
	expect(is_late ? "late: failed" : "in time: did not fail", counts.failed, is_late);
	expect(is_late ? "late: bytes" : "in time: bytes", counts.bytes, is_late ? 0 : 10);
}

/* What is no profile counts no bytes. */
static void
try_stop(void) {
	job_t j = {.order.kind = job_stop, .done = take, .answer = {.status = 200, .length = 10}};
	counts = (counts_t){0};
	finish_job(&j);
	expect("a stop is counted", counts.scrapes, 1);
	expect("but not the bytes of its line", counts.bytes, 0);
}

static void
try_lease(void) {
	job_t j = {.order = {.is_packed = true}};
	options.interval_ms = 1000;
	expect("packed: not yet a push", lease_seconds(&j), LEASE_INTERVALS);
	j.order.push_again_ms = 5000;
	expect("a push", lease_seconds(&j), 5 * LEASE_INTERVALS);
	j.order.push_again_ms = 500;
	expect("a push between two scrapes", lease_seconds(&j), LEASE_INTERVALS);
}

static void
try_over(void) {
	job_t j = {.done = take, .deadline_ms = 50, .is_over = true};
	jobs = &j;
	answers = 0;
	scrape_tick(60);
	expect("what was counted is not answered by another", answers, 0);
	jobs = NULL;
}

/* The outcome of a mark, where an older one is kept. */
static void
mark(const char *name, int error_of_mark, int error_of_stream, unsigned status, const char *kept,
    bool is_own) {
	proc_t p = {.mark = strdup("old"), .mark_bytes = 3};
	job_t j = {.proc = &p, .deadline_ms = 30000};
	j.target.head.state = jeprof_state_active;
	counts = (counts_t){.mark_bytes = 3};
	mark_error = error_of_mark;
	stream_error = error_of_stream;
	options.profile_max = 1000;
	run_mark(&j);
	bool has_kept = kept == NULL ? p.mark == NULL : p.mark != NULL && strncmp(p.mark, kept, 3) == 0;
	if (j.answer.status != status || !has_kept || counts.mark_bytes != (kept == NULL ? 0 : 3)
	    || p.has_own_mark != is_own) {
		printf("%s: %u, mark %.3s, own %d\n", name, j.answer.status, p.mark, p.has_own_mark);
		bad = 1;
	}
	free(j.answer.body);
	free(p.mark);
}

/* A raw difference since the mark; a profile of it is kept for a library that has no marks. */
static void
raw_since_mark(char *kept, unsigned status) {
	proc_t p = {.mark = kept};
	job_t j = {.proc = &p, .deadline_ms = 30000,
	    .order = {.kind = job_heap, .is_raw = true, .is_since_mark = true}};
	j.target.head.state = jeprof_state_active;
	run_profile(&j);
	expect(kept != NULL ? "raw, an older library" : "raw, no mark", j.answer.status, status);
	free(j.answer.body);
}

/*
 * A difference since a mark that there is not: the process is asked nothing, and begins no session.
 */
static void
no_mark(bool is_raw) {
	proc_t p = {0};
	job_t j = {.proc = &p, .deadline_ms = 30000,
	    .order = {.kind = job_heap, .is_raw = is_raw, .is_since_mark = true}};
	asked = 0;
	run_profile(&j);
	expect("no mark", j.answer.status, 404);
	expect("no mark: nothing is asked", asked, 0);
	free(j.answer.body);
}

/* Near its deadline a job waits no longer than that, and behind it does not ask. */
static void
deadlines(void) {
	static const struct {
		int64_t left;
		unsigned wait_ms, taken_ms;
	} each[] = {{30000, 5000, 20000}, {25000, 5000, 20000}, {24999, 5000, 19999}, {5000, 5000, 1},
	    {4000, 4000, 1}, {1, 1, 1}};
	jeprof_reply_t reply;
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		job_t j = {.deadline_ms = now + each[i].left};
		(void)ask(&j, "stop", jeprof_manner_wait, &reply);
		expect("to take it", last_asked.wait_ms, each[i].wait_ms);
		expect("to answer it", last_asked.taken_ms, each[i].taken_ms);
	}
	job_t j = {.deadline_ms = now};
	asked = 0;
	expect("too late", ask(&j, "stop", jeprof_manner_wait, &reply), ETIMEDOUT);
	expect("too late: nothing is asked", asked, 0);
	expect("too late: 503", j.answer.status, 503);
	free(j.answer.body);
}

/* What a process answers to a start. */
static void
start(const char *text, unsigned status) {
	proc_t p = {0};
	job_t j = {.proc = &p, .deadline_ms = 30000, .order.kind = job_start};
	answer_to_start = text;
	run_start(&j);
	expect(text, j.answer.status, status);
	expect(text, (long long)p.lease.session, status == 200 ? 12 : 0);
	free(j.answer.body);
}

/* The outcome of a profile for which the request fails or is refused. */
static void
profile(const char *name, const order_t *order, unsigned state, int error, int refusal,
    unsigned status) {
	proc_t p = {0};
	job_t j = {.proc = &p, .deadline_ms = 30000, .order = *order};
	j.target.head.state = state;
	images = 0;
	stream_error = error;
	stream_refusal = refusal;
	run_profile(&j);
	bool is_text = j.answer.body != NULL && strncmp(j.answer.body, "outside", 7) == 0;
	if (j.answer.status != status || is_text != (status == 200) || images != 0) {
		printf("%s: %u, %u images, %s\n", name, j.answer.status, images, j.answer.body);
		bad = 1;
	}
	free(j.answer.body);
	stream_error = stream_refusal = 0;
}

static void
profiles(void) {
	const order_t raw = {.kind = job_heap, .is_raw = true};
	const order_t delta = {.kind = job_heap, .seconds = 1};
	profile("no answer", &raw, jeprof_state_active, ETIMEDOUT, 0, 200);
	profile("taken, no answer", &raw, jeprof_state_sampling, EBUSY, 0, 200);
	profile("refused as busy", &raw, jeprof_state_active, 0, EBUSY, 503);
	profile("of a session that ends", &raw, jeprof_state_stopping, ETIMEDOUT, 0, 503);
	profile("of an earlier session", &raw, jeprof_state_idle, ETIMEDOUT, 0, 503);
	profile("a difference", &delta, jeprof_state_active, ETIMEDOUT, 0, 503);
}

/*
 * The outcome of a stop of an idle process, in which `count` requests are pending; our start too if
 * is_ours, for session 5.
 */
static void
stop_of_idle(const char *name, unsigned state, unsigned count, bool is_start, bool is_ours,
    unsigned status, const char *part) {
	proc_t p = {.lease = {.session = 5, .pending_rate = is_ours ? 1000 : 0}};
	job_t j = {.proc = &p, .deadline_ms = 30000, .order.kind = job_stop};
	j.target.head.state = state;
	j.target.head.session_id = is_ours ? 4 : 5;
	withdrawn = count;
	is_start_pending = is_start;
	run_stop(&j);
	if (j.answer.status != status || strstr(j.answer.body, part) == NULL) {
		printf("%s: %u, %s\n", name, j.answer.status, j.answer.body);
		bad = 1;
	}
	expect(name, (long long)p.lease.session, is_ours ? 0 : 5);
	free(j.answer.body);
}

static void
stops(void) {
	stop_of_idle("our start", jeprof_state_idle, 1, true, true, 200, "pending start was taken");
	stop_of_idle("a set", jeprof_state_idle, 1, false, false, 200, "pending set was taken");
	stop_of_idle("a set, and a session", jeprof_state_active, 1, false, false, 503, "still runs");
	stop_of_idle("a start, and a session", jeprof_state_paused, 1, true, false, 503, "still runs");
	stop_of_idle("only a session", jeprof_state_active, 0, false, false, 503, "does not answer");
	stop_of_idle("a start just taken", jeprof_state_idle, 0, true, false, 503, "does not answer");
	stop_of_idle("nothing", jeprof_state_idle, 0, false, false, 409, "nothing changed");
	withdraw_error = ESRCH;
	stop_of_idle("it has ended", jeprof_state_idle, 0, false, false, 404, "");
	withdraw_error = 0;
}

/*
 * A start was left for an idle process, with interval 1000, or was confirmed by another job if
 * pending is 0. What the process says of its session tells whether it is ours.
 */
static void
confirm(const char *name, const char *interval, int error, int refusal, uint64_t pending,
    bool is_ours, unsigned sessions) {
	proc_t p = {.lease = {.session = 5, .pending_rate = pending, .lack = lack_room}};
	job_t j = {.proc = &p, .deadline_ms = 30000};
	counts = (counts_t){0};
	sample_interval = interval;
	status_error = error;
	status_refusal = refusal;
	expect(name, confirm_pending_lease(&j), error);
	expect(name, (long long)p.lease.session, is_ours ? 5 : 0);
	expect(name, (long long)p.lease.pending_rate, error != 0 ? (long long)pending : 0);
	expect(name, (long long)counts.sessions, sessions);
	expect(name, (long long)counts.lacks[lack_room], sessions);
	free(j.answer.body);
}

static void
confirms(void) {
	confirm("our interval", "1000", 0, 0, 1000, true, 1);
	confirm("another interval", "1001", 0, 0, 1000, false, 0);
	confirm("no interval", NULL, 0, 0, 1000, false, 0);
	confirm("a refusal", "1000", 0, EPERM, 1000, false, 0);
	confirm("no answer", "1000", ETIMEDOUT, 0, 1000, true, 0);
	confirm("confirmed meanwhile", "1000", 0, 0, 0, true, 0);
	confirm("confirmed meanwhile, 0", "0", 0, 0, 0, true, 0);
}

static proc_t *held; /* NULL: there is no memory for a record */

proc_t *
watch_hold(jeprof_target_t *t) {
	(void)t;
	return held;
}

/*
 * The processes of one user are asked by half of the jobs at most, this one among them; sleeping
 * jobs, those of other users and those whose user is not known yet do not count, and root may all.
 */
static void
enter_users(void) {
	enum { MOST = 9 };
	static job_t others[4 * MOST];
	for (unsigned max = 1; max <= MOST; max++) {
		for (unsigned n = 0; n < MOST; n++) {
			for (unsigned uid = 0; uid < 3; uid++) {
				job_t j = {.target = {.uids = {7, uid, 8}}};
				unsigned k = 0;
				for (; k < n; k++) {
					others[k] = (job_t){.uid = uid, .has_uid = true};
				}
				for (; k < n + MOST; k++) {
					others[k] = (job_t){.uid = uid + 1, .has_uid = true};
				}
				for (; k < n + 2 * MOST; k++) {
					others[k] = (job_t){.uid = uid, .has_uid = true, .is_sleeping = true};
				}
				for (; k < n + 3 * MOST; k++) {
					others[k] = (job_t){.uid = uid};
				}
				for (unsigned i = 0; i < k; i++) {
					others[i].next = i + 1 < k ? &others[i + 1] : &j;
				}
				jobs = others;
				options.scrapes_max = max;
				bool may = uid == 0 || max == 1 || 2 * (n + 1) <= max + max % 2;
				expect("a job of a user", try_enter_user(&j), may);
				expect("its user", j.has_uid && j.uid == uid, true);
			}
		}
	}
	jobs = NULL;
	options.scrapes_max = 4;
}

/* One process is asked by so many jobs at once, and each that tries is counted there. */
static void
enter_processes(void) {
	proc_t p = {.pid = 0};
	for (unsigned i = 0; i < 2 * PER_PROCESS; i++) {
		job_t j = {.proc = NULL};
		held = i % 2 == 0 ? NULL : &p;
		expect("a job of a process", try_enter_process(&j), held != NULL && i / 2 < PER_PROCESS);
		expect("its record", j.proc == held, true);
		expect("is counted", p.scrapes, (i + 1) / 2);
	}
	p.scrapes = PER_PROCESS - 1;
	held = &p;
	job_t last = {.proc = NULL}, more = {.proc = NULL};
	expect("the last job", try_enter_process(&last), true);
	expect("one more", try_enter_process(&more), false);
	expect("it is counted all the same", p.scrapes, PER_PROCESS + 1);
}

int
main(void) {
	enter_users();
	enter_processes();
	confirms();
	run_one(false);
	run_one(true);
	try_over();
	try_stop();
	try_lease();
	mark("all well", 0, 0, 200, "now", true);
	mark("the profile is too large", 0, EFBIG, 200, NULL, true);
	mark("no profile in time", 0, ETIMEDOUT, 503, NULL, true);
	mark("an older library", EBADMSG, 0, 200, "now", false);
	mark("an older library, too large", EBADMSG, EFBIG, 503, "old", false);
	raw_since_mark("old", 400);
	raw_since_mark(NULL, 404);
	no_mark(false);
	no_mark(true);
	deadlines();
	start("12", 200);
	start("12\nno profile can be written in / (EACCES)", 200);
	start("", 503);
	start("x12", 503);
	start("12x", 503);
	start("0", 503);
	profiles();
	stops();
	return bad;
}
