/* The mailbox from its own side, the rules of the control directory, the stream. */
#include "dir.h"

#include <pthread.h>
#include <sys/stat.h>

#include "os/nstime.h"
#include "os/sys.h"
#include "prof/prof.h"
#include "prof/control/prof_control.h"
#include "prof/trigger/prof_auto.h"
#include "prof/file/prof_dump.h"
#include "prof/control/prof_ctl_dir.h"
#include "prof/control/prof_handover.h"
#include "prof/sites/prof_hook.h"
#include "prof/control/prof_session.h"

static prof_mailbox_t *box = &prof_mailbox_block.box;
static uint64_t now_ns;

static uint64_t
own_clock(void) {
	return now_ns;
}

static void
put(unsigned i, const char *text) {
	static uint64_t sequence = 1000;
	prof_slot_t *s = &box->slots[i];

	snprintf(s->text, sizeof(s->text), "%s", text);
	s->length = (uint32_t)strlen(text);
	s->nonce = sequence * 7;
	s->checksum = prof_mailbox_sum(++sequence, s->nonce, s->text, s->length);
	__atomic_store_n(&s->sequence, sequence, __ATOMIC_RELEASE);
	__atomic_store_n(&box->doorbell, 1, __ATOMIC_RELEASE);
}

static int
ask_only(const char *text) {
	put(2, text);
	prof_control_serve();
	return box->slots[2].error;
}

/* The request of slot 2, a second time in slot 3, gets the same answer and error. */
static void
ask_again(void) {
	prof_slot_t *s = &box->slots[2], *again = &box->slots[3];

	put(3, s->text);
	again->nonce = s->nonce;
	again->checksum = prof_mailbox_sum(again->sequence, s->nonce, again->text, again->length);
	prof_control_serve();
	ok(again->answered == again->sequence && again->answer_nonce == s->nonce
	    && again->error == s->error && strcmp(again->answer, s->answer) == 0,
	    "and once more, which does nothing: %d %s", again->error, again->answer);
}

static int
ask(const char *text) {
	prof_slot_t *s = &box->slots[2];

	put(2, text);
	ok(prof_control_serve(), "\"%s\" is looked at", text);
	ok(s->answered == s->sequence && s->answer_nonce == s->nonce, "and answered to its asker");
	ok(s->answer_length < PROF_MAILBOX_TEXT && s->answer[s->answer_length] == '\0', "with a text");
	if (s->error != EBADMSG && strncmp(text, "status", 6) != 0)
		ask_again();
	return s->error;
}

static const char *
answer(void) {
	return box->slots[2].answer;
}

static void
test_block(void) {
	ok(box->magic == PROF_MAILBOX_MAGIC && box->version == PROF_MAILBOX_VERSION
	    && box->bytes == PROF_MAILBOX_BYTES, "the block is open");
	is_uint(box->pid, (unsigned)getpid(), "of this process");
	ok(((uintptr_t)box & 4095) == 0, "and page aligned");
	ok(box->state == prof_mailbox_idle, "idle");
}

static void
test_verbs(void) {
	char text[300];

	is_int(ask("status"), 0, "status");
	contains(answer(), "state=idle\n", "idle");
	contains(answer(), "threshold_highwater_metric=allocated\n", "thresholds");
	is_int(ask("dump"), ENOENT, "nothing is booted");
	is_int(ask("stop"), EALREADY, "no session");
	is_int(ask("start moon:1"), EINVAL, "bad options");
	contains(answer(), "unknown option", "with a reason");
	snprintf(text, sizeof(text), "start prefix:%s/p,sample_interval:1", dir);
	is_int(ask(text), 0, "start");
	is_str(answer(), "1", "the number of the session");
	ok(box->state == prof_mailbox_active && box->session_id == 1, "seen without a request");
	is_int(ask("start"), EALREADY, "again");
	contains(answer(), "session 1 runs since 20", "who and since when");
	is_int(ask("stop 2"), EPERM, "another session");
	is_int(ask("stop 0"), EPERM, "0, which none has");
	is_int(ask("stop x"), EINVAL, "no number");
	is_int(ask("set large:3M"), 0, "set");
	is_uint(prof_threshold_get(prof_threshold_large), 3 << 20, "a threshold");
	is_int(ask("set"), EINVAL, "set without anything");
	is_int(ask("rearm"), 0, "rearm");
	is_int(ask("rearm x"), EINVAL, "and nothing more");
	is_int(ask("dump relative"), EINVAL, "a relative path");
	snprintf(text, sizeof(text), "dump %s/q", dir);
	is_int(ask(text), 0, "a path");
	is_str(answer(), text + 5, "is answered");
	prof_active_set(false);
	ask("status");
	contains(answer(), "state=paused\n", "paused");
	is_int(ask("stop 1"), 0, "stop");
	contains(answer(), "/p.", "the path");
	contains(answer(), ".s0.heap", "of the session's profile");
	is_int(ask("explode"), EBADMSG, "no such verb");
	is_int(ask(""), EBADMSG, "nothing");
	is_int(ask("status\nstop"), EBADMSG, "two lines");
}

static void
test_torn(void) {
	prof_slot_t *s = &box->slots[0];

	put(0, "status");
	s->checksum++;
	prof_control_serve();
	is_int(s->error, EBADMSG, "a wrong checksum");
	put(0, "status");
	s->length = UINT32_MAX;
	prof_control_serve();
	is_int(s->error, EBADMSG, "an impossible length");
	put(0, "status");
	s->text[3] = '\0';
	s->checksum = prof_mailbox_sum(s->sequence, s->nonce, s->text, s->length);
	prof_control_serve();
	is_int(s->error, EBADMSG, "a zero inside");
	put(0, "status");
	s->sequence = 0;
	s->answered = 7;
	prof_control_serve();
	is_uint(s->answered, 7, "a request taken back is not answered");
	is_uint(box->doorbell, 0, "the doorbell is quiet");
	put(0, "status");
	put(1, "status");
	put(3, "status");
	prof_control_serve();
	ok(box->slots[0].error == 0 && box->slots[1].error == 0 && box->slots[3].error == 0
	    && box->slots[3].answered == box->slots[3].sequence, "several slots at once");
}

static int hook_start, hook_stop, hook_status;
static uint32_t hook_state;
static bool hook_says_stopping;

/* The profile of a session is being written, by who stops it. */
static void
stopping_hook(const char *path) {
	(void)path;
	hook_state = box->state;
	hook_start = ask_only("start");
	hook_stop = ask_only("stop");
	hook_status = ask_only("status");
	hook_says_stopping = strstr(answer(), "state=stopping\n") != NULL;
}

static void
test_stopping(void) {
	char text[300];

	snprintf(text, sizeof(text), "start prefix:%s/p", dir);
	is_int(ask(text), 0, "start");
	prof_hook_set(PROF_HOOK_DUMP, (prof_hook_fn_t)stopping_hook);
	is_int(prof_session_stop(0, NULL), 0, "the program itself stops");
	prof_hook_set(PROF_HOOK_DUMP, NULL);
	is_int((int)hook_state, prof_mailbox_stopping, "meanwhile the state is seen");
	ok(hook_start == EBUSY && hook_stop == EBUSY, "start and stop are told to wait");
	ok(hook_status == 0 && hook_says_stopping, "status is answered, and says it");
	is_int(ask("stop"), EALREADY, "then it is over");
}

/* The same nonce: the same answer, and nothing is done again. */
static void
test_once(void) {
	prof_slot_t *s = &box->slots[2];
	char first[PROF_MAILBOX_TEXT], text[300];
	uint64_t id = prof_session_id();

	snprintf(text, sizeof(text), "start prefix:%s/once", dir);
	is_int(ask(text), 0, "start");
	uint64_t nonce = s->nonce;
	strcpy(first, answer());
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		s = &box->slots[i];
		put(i, "start"); /* whatever the text says */
		s->nonce = nonce;
		s->checksum = prof_mailbox_sum(s->sequence, nonce, s->text, s->length);
		prof_control_serve();
		ok(s->answered == s->sequence && s->error == 0, "again in slot %u: not refused", i);
		is_str(s->answer, first, "the first answer");
	}
	is_uint(prof_session_id(), id + 1, "one session");
	s = &box->slots[2];
	is_int(ask("stop"), 0, "stop");
	s->sequence = 12345;
	box->doorbell = 1;
	prof_control_serve();
	is_int(s->error, EBADMSG, "an old text under a new sequence is no request");
	for (unsigned i = 0; i < 20; i++)
		ask("rearm");
	put(1, "start");
	s = &box->slots[1];
	s->nonce = nonce;
	s->checksum = prof_mailbox_sum(s->sequence, nonce, s->text, s->length);
	prof_control_serve();
	is_uint(prof_session_id(), id + 2, "not remembered for ever");
	is_int(ask("stop"), 0, "stop");
}

/* Sends a start whose lease ends left_ms from now; its error. */
static int
start_leased(int64_t left_ms, uint64_t span_ms) {
	prof_slot_t *s = &box->slots[2];

	put(2, "start");
	box->leases[2] = (prof_lease_t){s->sequence, span_ms,
	    now_ns / NSTIME_PER_MSEC + (uint64_t)left_ms};
	prof_control_serve();
	ok(s->answered == s->sequence && box->doorbell == 0, "a lease of %lld ms is looked at once",
	    (long long)left_ms);
	return s->error;
}

/* A request ends with its client: no start is carried out after its lease. */
static void
test_lease(void) {
	prof_slot_t *s = &box->slots[2];

	nstime_now_hook = own_clock;
	now_ns = UINT64_C(777777) * NSTIME_PER_MSEC;
	is_int(start_leased(-1, PROF_LEASE_MS), ESTALE, "over");
	is_int(strncmp(answer(), "now_ms=777777: ", 15), 0, "our clock is in the answer: %s", answer());
	is_int(start_leased(-100000, PROF_LEASE_MS), ESTALE, "long ago");
	is_int(start_leased(PROF_LEASE_MS + 1, PROF_LEASE_MS), ESTALE, "of a clock that is ahead");
	ok(!prof_session_is_active(), "nothing began");
	uint64_t nonce = s->nonce;
	put(2, "start");
	s->nonce = nonce;
	s->checksum = prof_mailbox_sum(s->sequence, nonce, s->text, s->length);
	box->leases[2] = (prof_lease_t){s->sequence, PROF_LEASE_MS, 777777};
	prof_control_serve();
	is_int(s->error, 0, "the same request with a new lease: it holds to the end");
	is_int(ask("stop"), 0, "stop: the lease of another sequence is not its own");
	is_int(start_leased(PROF_LEASE_MS, PROF_LEASE_MS), 0, "a whole lease");
	is_int(ask("stop"), 0, "stop");
	is_int(start_leased(-5, 0), 0, "a span of 0 has no end");
	is_int(ask("stop"), 0, "stop");
	nstime_now_hook = NULL;
}

/* A request in the slot that was left, or is waited for (span_ms not 0), since given_ms. */
static void
put_given(unsigned i, const char *text, uint64_t given_ms, uint64_t span_ms) {
	put(i, text);
	box->leases[i] = (prof_lease_t){box->slots[i].sequence, span_ms, given_ms + span_ms};
}

/* Requests are carried out in the order in which they were given, whatever slots they lie in. */
static void
test_order(void) {
	nstime_now_hook = own_clock;
	now_ns = UINT64_C(777777) * NSTIME_PER_MSEC;
	put_given(3, "start alloc:64M", 777000, 0);
	put_given(0, "set alloc:128M", 777001, 0);
	put_given(2, "set alloc:256M", 777002, 10000);
	put_given(1, "stop", 777770, PROF_LEASE_MS);
	prof_control_serve();
	is_int(box->slots[3].error, 0, "a start that was left is the first");
	is_int(box->slots[0].error, 0, "the set that was left after it finds its session");
	is_int(box->slots[2].error, 0, "and the next one, with a lease");
	is_int(box->slots[1].error, 0, "a stop that is waited for ends it: %s", box->slots[1].answer);
	ok(!prof_session_is_active(), "and nothing begins after it");
	put_given(1, "start alloc:64M", 777001, 0);
	put_given(2, "set alloc:128M", 777002, 0);
	put_given(0, "set alloc:256M", 777003, 0);
	prof_control_serve();
	is_uint(prof_threshold_get(prof_threshold_alloc), 256 << 20, "the last of two sets holds");
	is_int(ask("stop"), 0, "stop");
	nstime_now_hook = NULL;
}

/* A blank behind a request changes nothing of it. */
static void
test_blank(void) {
	static const char *const streams[] = {"dump-stream ", "dump-delta-stream "};
	prof_slot_t *s = &box->slots[2];
	char text[300];

	snprintf(text, sizeof(text), "start prefix:%s/blank", dir);
	is_int(ask(text), 0, "start");
	is_int(ask("mark "), 0, "mark");
	for (unsigned i = 0; i < 2; i++) {
		is_int(ask(streams[i]), 0, "a profile");
		is_str(answer(), "-", "through the mailbox");
		ok(box->streams[2].nonce == s->nonce, "where it waits");
	}
	is_int(ask("dump-stream x"), EINVAL, "more than a blank");
	is_uint(box->streams[2].nonce, 0, "nothing waits");
	is_int(ask("status "), 0, "status");
	contains(answer(), "state=active\n", "in the session");
	put(3, "status ");
	s = &box->slots[3];
	s->nonce = box->slots[2].nonce;
	s->checksum = prof_mailbox_sum(s->sequence, s->nonce, s->text, s->length);
	is_int(prof_session_stop(0, NULL), 0, "which ends");
	prof_control_serve();
	contains(s->answer, "state=idle\n", "status with the same nonce is not remembered");
}

/* Random bytes everywhere: nothing may happen but refusals. */
static void
test_noise(void) {
	uint64_t seed = 5, id = prof_session_id();

	for (unsigned round = 0; round < 2000; round++) {
		uint64_t *words = (uint64_t *)(void *)box;

		for (size_t i = 0; i < sizeof(*box) / 8; i += 1 + test_random(&seed) % 64)
			words[i] = test_random(&seed);
		box->doorbell = 1;
		prof_control_serve();
	}
	ok(box->version == PROF_MAILBOX_VERSION && box->pid == (unsigned)getpid(),
	    "the header is put right");
	ok(!prof_session_is_active() && prof_session_id() == id, "nothing was started");
	memset(box->slots, 0, sizeof(box->slots));
}

/* The stream of the request in slot 2, NULL: no profile waits for it. */
static prof_stream_t *
waiting(uint64_t nonce) {
	prof_stream_t *found = NULL;

	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++)
		if (box->streams[i].nonce == nonce)
			found = &box->streams[i];
	return found;
}

/* The text that the parts hold. */
static char *
gathered(const prof_stream_t *s) {
	char *text = calloc(1, s->bytes + 1);
	size_t len = 0;

	for (prof_part_t *p = (prof_part_t *)(uintptr_t)s->first; p != NULL && len < s->bytes;
	    p = (prof_part_t *)(uintptr_t)p->next) {
		memcpy(text + len, p + 1, p->bytes);
		len += p->bytes;
	}
	ok(len == s->bytes, "%zu bytes in the parts", len);
	return text;
}

/* Nobody reads: what else is asked for goes on, in a session, and the pages go after 30 s. */
static void
test_stream(void) {
	char text[300];

	nstime_now_hook = own_clock;
	now_ns = UINT64_C(1) << 40;
	snprintf(text, sizeof(text), "start sample_interval:1,prefix:%s/held", dir);
	is_int(ask(text), 0, "a session");
	for (unsigned i = 0; i < 200; i++)
		keep(malloc(100 + i));
	is_int(ask("dump-stream"), 0, "a profile that nobody reads");
	uint64_t nonce = box->slots[2].nonce;
	prof_stream_t *s = waiting(nonce);
	ok(s != NULL && s->first != 0 && s->fd == -1, "waits in pages");
	ok(prof_handover_is_any(), "which the library knows");
	char *first = gathered(s);
	ok(strncmp(first, "heap_v2/1\n", 10) == 0, "its beginning");
	contains(first, "\n# end ", "its end");
	is_int(ask("status"), 0, "status meanwhile");
	contains(answer(), "state=active\n", "which is answered");
	is_int(prof_mdump(prof_kind_manual, NULL, false, NULL), 0, "an own dump");
	is_int(ask("stop"), 0, "stop");
	is_int(ask("start"), 0, "and start");
	is_int(ask("stop"), 0, "and stop");
	char *again = gathered(s);
	is_str(again, first, "what waits does not change");
	free(first);
	free(again);
	now_ns += PROF_HANDOVER_NS - 1;
	prof_handover_tick();
	ok(waiting(nonce) == s, "a moment before 30 s it is there");
	now_ns++;
	prof_handover_tick();
	ok(waiting(nonce) == NULL, "after 30 s it is gone, and its reader can see it");
	now_ns += PROF_HANDOVER_SPARE_NS - 1;
	prof_handover_tick();
	ok(prof_handover_is_any(), "its pages are kept");
	now_ns++;
	prof_handover_tick();
	ok(!prof_handover_is_any(), "for 70 s");
	nstime_now_hook = NULL;
}

static void
test_stream_taken(void) {
	is_int(ask("dump-stream"), 0, "a profile");
	uint64_t nonce = box->slots[2].nonce;
	prof_stream_t *s = waiting(nonce);
	uint64_t first = s->first;
	put(1, "dump-stream");
	prof_control_serve();
	ok(waiting(nonce) == s && waiting(box->slots[1].nonce) != NULL, "two readers have one each");
	s->is_taken = 1;
	box->doorbell = 1;
	prof_control_serve();
	ok(waiting(nonce) == NULL && waiting(box->slots[1].nonce) != NULL,
	    "taken: it goes, and the other stays");
	is_int(ask("dump-stream"), 0, "another one");
	nonce = box->slots[2].nonce;
	ok(waiting(nonce)->first == first, "in the pages that the first one had");
	is_int(ask("dump-stream"), 0, "and one after it in the same slot");
	ok(waiting(nonce) == NULL && waiting(box->slots[2].nonce) != NULL, "takes its place");
	now_ns = nstime_monotonic_ns() + PROF_HANDOVER_NS;
	nstime_now_hook = own_clock;
	uint64_t beats = box->heartbeats;
	tsd_t *tsd = tsd_enter();
	tsd->beat_told_ns = tsd->beat_ns;
	prof_control_heartbeat(tsd, 0);
	is_uint(box->heartbeats, beats, "a second heartbeat in a tick of the clock is not counted");
	tsd->beat_ns++;
	prof_control_heartbeat(tsd, 0);
	is_uint(box->heartbeats, beats + 1, "the next one is");
	tsd_leave();
	nstime_now_hook = NULL;
	ok(prof_handover_is_any(), "not inside the allocator's own work");
	box->streams[1].is_taken = box->streams[2].is_taken = 1;
	prof_control_serve();
	ok(waiting(box->slots[1].nonce) == NULL && waiting(box->slots[2].nonce) == NULL, "all taken");
}

static const char *
dir_fault(mode_t mode, uid_t uid, uid_t euid) {
	struct stat st = {.st_mode = mode, .st_uid = uid};

	return prof_ctl_dir_fault(&st, euid);
}

static const char *
cmd_fault(mode_t mode, uid_t uid, nlink_t links, off_t size) {
	struct stat st = {.st_mode = mode, .st_uid = uid, .st_nlink = links, .st_size = size};

	return prof_ctl_cmd_fault(&st, 7);
}

static void
test_dir_rules(void) {
	char text[100];
	uint64_t nonce, until;

	ok(dir_fault(S_IFDIR | 0700, 7, 7) == NULL && dir_fault(S_IFDIR | 0755, 0, 7) == NULL,
	    "good ones");
	ok(dir_fault(S_IFDIR | 0700, 8, 7) != NULL, "of another user");
	ok(dir_fault(S_IFDIR | 0777, 7, 7) != NULL && dir_fault(S_IFDIR | 01777, 0, 7) != NULL
	    && dir_fault(S_IFDIR | 0770, 7, 7) != NULL, "writable by others");
	ok(dir_fault(S_IFREG | 0700, 7, 7) != NULL, "no directory");
	ok(cmd_fault(S_IFREG | 0600, 7, 1, 4096) == NULL, "a good command");
	ok(cmd_fault(S_IFREG | 0600, 8, 1, 10) != NULL, "of another user");
	ok(cmd_fault(S_IFREG | 0600, 7, 2, 10) != NULL, "hard link");
	ok(cmd_fault(S_IFIFO | 0600, 7, 1, 0) != NULL, "FIFO");
	ok(cmd_fault(S_IFREG | 0666, 7, 1, 10) != NULL, "writable by others");
	ok(cmd_fault(S_IFREG | 0600, 7, 1, 1 << 20) != NULL, "1 MiB");
	strcpy(text, "nonce=1f start x:1\n");
	is_str(prof_ctl_cmd_parse(text, 19, &nonce, &until), "start x:1", "nonce and text");
	is_uint(nonce, 0x1f, "the nonce");
	is_uint(until, 0, "and no lease");
	strcpy(text, "nonce=1f until=00ff stop\n");
	is_str(prof_ctl_cmd_parse(text, 25, &nonce, &until), "stop", "a lease");
	is_uint(until, 255, "its end");
	strcpy(text, "nonce=1f until=0xyz stop\n");
	ok(prof_ctl_cmd_parse(text, 25, &nonce, &until) == NULL, "a lease that is no number");
	strcpy(text, "status\n");
	is_str(prof_ctl_cmd_parse(text, 7, &nonce, &until), "status", "without a nonce");
	strcpy(text, "status");
	ok(prof_ctl_cmd_parse(text, 6, &nonce, &until) == NULL, "truncated");
	strcpy(text, "nonce=12\n");
	ok(prof_ctl_cmd_parse(text, 9, &nonce, &until) == NULL, "nothing but a nonce");
	ok(prof_ctl_cmd_parse(text, 0, &nonce, &until) == NULL, "empty");
	strcpy(text, "a\nb\n");
	ok(prof_ctl_cmd_parse(text, 4, &nonce, &until) == NULL, "two lines");
}

static void
child_body(void *arg) {
	uint64_t instance = *(uint64_t *)arg;

	_exit((box->pid == (unsigned)getpid() || box->pid == 0) && box->instance != instance
	    && box->doorbell == 0
	    && box->slots[1].sequence == 0 && !prof_session_is_active()
	    && box->state == prof_mailbox_idle && !prof_control_has_thread() ? 0 : 1);
}

static void
test_child(void) {
	static struct test_result r;
	uint64_t instance = box->instance;

	is_int(ask("start"), 0, "a session begun at run time");
	put(1, "status");
	run_forked(&r, child_body, &instance);
	child_exits(&r, 0, "a child: another box, empty, idle");
	ok(prof_session_is_active(), "the parent goes on");
	is_int(ask("stop"), 0, "stop");
}

/* ------------------------------------------------------------------ whose path an answer has */

static bool dumps_end;
static unsigned n_dumps; /* that others have made; their hook holds the lock for a while */

static void
slow_hook(const char *path) {
	if (strstr(path, ".m") != NULL) {
		__atomic_add_fetch(&n_dumps, 1, __ATOMIC_RELAXED);
		usleep(5000);
	}
}

static void *
dump_often(void *arg) {
	(void)arg;
	while (!__atomic_load_n(&dumps_end, __ATOMIC_RELAXED))
		prof_mdump(prof_kind_manual, NULL, false, NULL);
	return NULL;
}

/*
 * While others write profiles one after the other, stop and dump answer with their own, and it is
 * their turn when one or two of the others have ended.
 */
static void
test_own_path(void) {
	pthread_t t[2];
	unsigned bad_stops = 0, bad_dumps = 0, n_before = 0;

	prof_hook_set(PROF_HOOK_DUMP, (prof_hook_fn_t)slow_hook);
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, dump_often, NULL);
	for (unsigned i = 0; i < 30; i++) {
		ask_only("start");
		n_before -= __atomic_load_n(&n_dumps, __ATOMIC_RELAXED);
		int err = ask_only("stop");
		n_before += __atomic_load_n(&n_dumps, __ATOMIC_RELAXED);
		if (err != 0 || strstr(answer(), ".s") == NULL) {
			diag("stop %u: error %d, \"%s\"", i, err, answer());
			bad_stops++;
		}
		char text[400], want[300];
		snprintf(want, sizeof(want), "%s/own%u.heap", dir, i);
		snprintf(text, sizeof(text), "dump %s", want);
		bad_dumps += wrong_if(ask_only(text) != 0) || wrong_if(strcmp(answer(), want) != 0);
	}
	__atomic_store_n(&dumps_end, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	prof_hook_set(PROF_HOOK_DUMP, NULL);
	ok(n_before < 30 * 10, "30 stops: %u dumps of others came before them", n_before);
	is_uint(bad_stops, 0, "30 stops: the path of the session's profile");
	is_uint(bad_dumps, 0, "30 dumps: the path that was asked for");
}

/* ------------------------------------------------------------------ the thread */

static struct os_hooks_s hooks;
static pthread_t made;
static unsigned n_refused;

static int
refused_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) {
	(void)t;
	(void)attr;
	(void)fn;
	(void)arg;
	n_refused++;
	return EAGAIN;
}

static int
noted_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg) {
	int err = os_hooks_real.pthread_create(t, attr, fn, arg);

	made = *t;
	return err;
}

/* ------------------------------------------------------------------ a dump that waits for us */

static pthread_mutex_t program = PTHREAD_MUTEX_INITIALIZER;

static void
waiting_hook(const char *path) {
	(void)path;
	pthread_mutex_lock(&program);
	pthread_mutex_unlock(&program);
}

static void *
dump_once(void *arg) {
	(void)arg;
	prof_mdump(prof_kind_manual, NULL, false, NULL);
	return NULL;
}

/* Each look at the clock is a second later. */
static uint64_t
fast_clock(void) {
	return __atomic_add_fetch(&now_ns, NSTIME_PER_SEC, __ATOMIC_RELAXED);
}

/*
 * A thread at a heartbeat holds what the dump hook of another thread waits for: no request waits
 * for that dump without end, and what a refused one would have changed is as it was.
 */
static void
test_no_end(void) {
	char text[300];
	pthread_t t;

	snprintf(text, sizeof(text), "start prefix:%s/noend", dir);
	is_int(ask(text), 0, "start");
	uint64_t id = prof_session_id();
	pthread_mutex_lock(&program);
	prof_hook_set(PROF_HOOK_DUMP, (prof_hook_fn_t)waiting_hook);
	pthread_create(&t, NULL, dump_once, NULL);
	while (!prof_dump_is_busy())
		usleep(1000);
	now_ns = nstime_monotonic_ns();
	nstime_now_hook = fast_clock;
	is_int(ask("stop"), EBUSY, "stop: a dump takes too long");
	ok(prof_session_state() == prof_session_active && prof_session_id() == id, "it goes on");
	is_int(ask("set max_seconds:1"), 0, "with an end");
	prof_session_tick();
	ok(prof_session_state() == prof_session_active, "which is put off");
	is_int(ask("set max_seconds:0"), 0, "and can be taken back");
	is_int(ask("mark"), EBUSY, "mark");
	is_int(ask("dump"), EBUSY, "dump");
	prof_hook_set(PROF_HOOK_DUMP, NULL);
	pthread_mutex_unlock(&program);
	pthread_join(t, NULL);
	is_int(ask("stop"), 0, "without that dump it stops");
	prof_hook_set(PROF_HOOK_DUMP, (prof_hook_fn_t)waiting_hook);
	pthread_mutex_lock(&program);
	pthread_create(&t, NULL, dump_once, NULL);
	while (!prof_dump_is_busy())
		usleep(1000);
	is_int(ask("start blackbox:true"), EFAULT, "start with a black box");
	contains(answer(), "blackbox: a profile is being written", "why");
	ok(prof_session_state() == prof_session_idle && prof_session_id() == id, "no session");
	prof_hook_set(PROF_HOOK_DUMP, NULL);
	pthread_mutex_unlock(&program);
	pthread_join(t, NULL);
	nstime_now_hook = NULL;
}

/*
 * It comes with a session, also after it was refused to one before, goes by itself some time after
 * it, and leaves nothing to be joined.
 */
static void
test_thread(void) {
	pthread_attr_t attr;
	int state = -1;

	hooks = os_hooks_real;
	os_hooks = &hooks;
	now_ns = nstime_monotonic_ns() + PROF_HANDOVER_SPARE_NS;
	nstime_now_hook = own_clock;
	prof_handover_tick(); /* pages that are kept for a profile want the thread too */
	nstime_now_hook = NULL;
	opt_prof_thread = prof_thread_auto;
	hooks.pthread_create = refused_create;
	ask_only("start");
	ask_only("dump");
	ok(n_refused <= 1 && !prof_control_has_thread(), "a refused thread: tried once a session");
	ask_only("stop");
	hooks.pthread_create = noted_create;
	ask_only("start");
	if (!prof_control_has_thread()) {
		skip(3, "no thread here: a filter, or no room for one");
		ask_only("stop");
	} else {
		int err = 0, tries = 0;
		do { /* it detaches itself, as the first that it does */
			err = err != 0 ? err : pthread_getattr_np(made, &attr);
			pthread_attr_getdetachstate(&attr, &state);
			pthread_attr_destroy(&attr);
		} while (err == 0 && state != PTHREAD_CREATE_DETACHED && tries++ < 10000
		    && usleep(1000) == 0);
		is_int(err, 0, "a session has the thread");
		is_int(state, PTHREAD_CREATE_DETACHED, "which the system frees when it ends");
		put(2, "stop");
		while (prof_control_has_thread())
			usleep(10000);
		ok(box->slots[2].answered == box->slots[2].sequence && !prof_session_is_active(),
		    "it ends after the session, which it has stopped");
	}
	os_hooks = &os_hooks_real;
}

int
main(void) {
	static void (*const tests[])(void) = {test_block, test_verbs, test_torn, test_stopping,
	    test_once, test_lease, test_order, test_blank, test_noise, test_stream, test_stream_taken,
	    test_dir_rules, test_own_path, test_no_end, test_child, test_thread, NULL};

	opt_prof_thread = prof_thread_false; /* so that nobody else serves */
	free(keep(malloc(1)));
	return dir_main(config_prof, tests);
}
