/*
 * Sends requests through the mailbox in the memory of a process (protocol: prof_mailbox.h):
 * finds a slot, writes the request, rings the doorbell, and polls for the answer. Several clients
 * share the slots without a lock, so a request or an answer may be overwritten; then the same
 * request is sent again with the same nonce, but another sequence. The process remembers its last
 * answers by nonce, so it carries a request out once ("status": at each try). A lease, which the
 * client renews, says until when the process may take a request. Invariant: an unanswered request
 * is removed from its slot before jeprof_ask() returns, unless it returns EAGAIN and the manner is
 * jeprof_manner_stay; t->sequence is not 0 exactly while a request of this target may be in slot
 * t->slot, except one that jeprof_let_stay() has left there. No locks: a target belongs to one
 * thread. ESRCH below stands also for the errno with which jeprof_check_same() cannot read /proc.
 * The jeprof_ functions are called by bin/ctl, bin/agent and other users of libjeprof_client.a, the
 * client_ functions by the files of this folder.
 */
#include "client/target.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ABANDONED_MS = 300,  /* a slot is reusable when its answer was not fetched for so long */
	LEFT_MS = 1000,      /* or when its request was not taken for so long */
	/* how often a request is sent again after EBADMSG or ESTALE (its lease is over), together */
	TORN_MAX = 8,
	IDLE_MS = 1000,      /* default of request.idle_ms */
	WAIT_MS = 5000,      /* default of request.wait_ms */
	TAKEN_WAIT_MS = 60000, /* default of request.taken_ms: it may write a large profile */
	/* wait_answer() doubles its pause while that is shorter, so up to 32; settle() pauses 20 */
	PAUSE_MAX_MS = 20,
	STAY_MS = 10000,     /* lease of a request while the caller decides whether it may stay */
};

/* The header of the tools is installed alone, so it repeats what the library's says. */
static_assert(JEPROF_CLIENT_PROTOCOL == PROF_MAILBOX_VERSION && JEPROF_TEXT == PROF_MAILBOX_TEXT
    && JEPROF_SLOTS == PROF_MAILBOX_SLOTS
    && (int)jeprof_state_switched_on == (int)prof_mailbox_switched_on, "both headers agree");

int64_t
client_wait_ms(const jeprof_request_t *r) {
	return r->wait_ms != 0 ? r->wait_ms : WAIT_MS;
}

int64_t
client_taken_ms(const jeprof_request_t *r) {
	return r->taken_ms != 0 ? r->taken_ms : TAKEN_WAIT_MS;
}

bool
client_is_interrupted(const jeprof_request_t *r) {
	return r->interrupts != NULL && *r->interrupts >= (r->patience > 0 ? r->patience : 1);
}

uint64_t
client_slot_at(const jeprof_target_t *t, unsigned slot) {
	return t->block + offsetof(prof_mailbox_t, slots) + slot * sizeof(prof_slot_t);
}

int
client_memory_gone(jeprof_target_t *t) {
	int error = jeprof_check_same(t);
	return error != 0 ? error : client_fail(t, ESRCH,
	    "%d %s: its memory is gone: it runs another program now, or is ending", t->pid, t->name);
}

int
client_write_word(jeprof_target_t *t, uint64_t at, const void *word, size_t size) {
	return client_write_memory(t, at, word, size) ? 0 : client_memory_gone(t);
}

/*
 * Sets the doorbell, a word that the process checks now and then; it reads its mailbox if the word
 * is set. 0 or ESRCH.
 */
static int
ring(jeprof_target_t *t) {
	uint32_t one = 1;
	return client_write_word(t, t->block + offsetof(prof_mailbox_t, doorbell), &one, sizeof(one));
}

/*
 * Whether a used slot may be reused, because it and its lease have not changed for a while: no
 * client fetches the answer, or the process does not take the request and nobody renews it. A slot
 * whose request is taken is left until there is an answer. The client may have been killed; if it
 * still waits, it finds another request in the slot and sends its own again. A start or set that
 * was left there (jeprof_let_stay) is not overwritten before it is answered or its lease ends,
 * which may be never. So that these do not fill all slots, jeprofctl leaves one only if
 * jeprof_count_pending() is less than the number of slots minus 1, and jeprofd only if no other
 * start is pending.
 */
static bool
is_slot_left(const jeprof_target_t *t, unsigned i, const prof_slot_t *s, const prof_lease_t *l) {
	int64_t age = client_now_ms() - t->slot_seen_ms[i];
	bool is_answered = s->answered == s->sequence;
	bool is_start = strncmp(s->text, "start", 5) == 0 || strncmp(s->text, "set", 3) == 0;
	bool may_stay = is_start && !client_is_lease_over(t, l);
	return t->slot_seen[i] == s->sequence && t->slot_lease[i] == l->until_ms
	    && t->slot_was_answered[i] == is_answered && (is_answered ? age >= ABANDONED_MS
	    : age >= LEFT_MS && s->answer_nonce != s->nonce && !may_stay);
}

/* Notes what is in the slot, and since when, if that has changed. */
static void
note_slot(jeprof_target_t *t, unsigned i, const prof_slot_t *s, const prof_lease_t *l) {
	bool is_answered = s->answered == s->sequence;
	if (t->slot_seen[i] != s->sequence || t->slot_lease[i] != l->until_ms
	    || t->slot_was_answered[i] != is_answered) {
		t->slot_seen[i] = s->sequence;
		t->slot_lease[i] = l->until_ms;
		t->slot_was_answered[i] = is_answered;
		t->slot_seen_ms[i] = client_now_ms();
	}
}

/*
 * Sets *slot to the index of a free slot, else of one that is_slot_left() allows, else to -1. It
 * stops at the first free slot; of the slots before that it notes what they hold. 0 or ESRCH.
 */
static int
find_free_slot(jeprof_target_t *t, int *slot) {
	*slot = -1;
	unsigned first = (unsigned)(client_random_word() % PROF_MAILBOX_SLOTS);
	for (unsigned k = 0; k < PROF_MAILBOX_SLOTS; k++) {
		/* The random start makes a second collision with the same client unlikely. */
		unsigned i = (first + k) % PROF_MAILBOX_SLOTS;
		prof_slot_t s;
		prof_lease_t l;
		if (!client_read_memory(t, client_slot_at(t, i), &s, sizeof(s))
		    || !client_read_lease(t, i, s.sequence, &l)) {
			return client_memory_gone(t);
		}
		if (s.sequence == 0) {
			*slot = (int)i;
			return 0;
		}
		if (is_slot_left(t, i, &s, &l)) {
			*slot = (int)i;
		}
		note_slot(t, i, &s, &l);
	}
	return 0;
}

/* The state of one jeprof_ask(). Times are of the monotonic clock, in ms. */
typedef struct wait_s {
	const jeprof_request_t *request;
	/*
	 * the request is for a profile: its answer says that one is ready, to be fetched by the nonce
	 */
	bool wants_profile;
	unsigned slot;        /* the slot of the request */
	prof_slot_t mine;     /* the request as it was written */
	int64_t begin;        /* when client_ask_mailbox() began */
	int64_t deadline;     /* until when the process has to take the request */
	uint64_t heartbeats;  /* count of the process (jeprof_head_t) at the beginning */
	jeprof_reply_t *reply;
	bool is_answered;     /* an answer to our request was read, and its fields are in the reply */
	/*
	 * ask again: no slot was free, another client has overwritten the slot, or the process answers
	 * that the request was torn or is not known (EBADMSG), or its lease over
	 */
	bool is_lost;
} wait_t;

/*
 * Writes the request into its slot with `sequence` 0, begins its lease, and writes `sequence` last,
 * because the process takes one that is neither 0 nor answered; then rings. 0 or ESRCH.
 */
static int
put_request(jeprof_target_t *t, wait_t *w) {
	prof_slot_t *s = &w->mine;
	uint64_t at = client_slot_at(t, w->slot), sequence = client_random_word(), none = 0;
	const char *text = w->request->text;
	*s = (prof_slot_t){.nonce = s->nonce, .length = (uint32_t)strlen(text)};
	memcpy(s->text, text, s->length);
	s->checksum = prof_mailbox_sum(sequence, s->nonce, s->text, s->length);
	/* Clears answer_nonce first: our nonce, left there by an earlier try, would say "taken". */
	int error = client_write_word(t, at + offsetof(prof_slot_t, answer_nonce), &none, sizeof(none));
	if (error == 0) {
		error = client_write_word(t, at, s, offsetof(prof_slot_t, text) + s->length);
	}
	error = error != 0 ? error : client_begin_lease(t, w->slot, sequence);
	t->slot = w->slot;
	t->sequence = sequence;
	s->sequence = sequence;
	if (error == 0) {
		error = client_write_word(t, at, &sequence, sizeof(sequence));
	}
	return error != 0 ? error : ring(t);
}

/* Whether our request is in its slot: another client may have overwritten it. */
static bool
is_there(const jeprof_target_t *t) {
	uint64_t sequence;
	return t->sequence != 0
	    && client_read_memory(t, client_slot_at(t, t->slot), &sequence, sizeof(sequence))
	    && sequence == t->sequence;
}

void
jeprof_take_back(jeprof_target_t *t) {
	uint64_t none = 0;
	if (is_there(t)) {
		client_write_memory(t, client_slot_at(t, t->slot), &none, sizeof(none));
	}
	t->sequence = 0;
}

/* A lease of 0 ms has no end (prof_lease_t). */
void
jeprof_let_stay(jeprof_target_t *t, uint64_t keep_ms) {
	if (is_there(t)) {
		client_renew_lease(t, keep_ms);
	}
	t->sequence = 0;
}

/*
 * Copies the answer to our request, fetches the profile if one is wanted, then frees the slot. Not
 * before, as the next profile of that slot takes the place of ours. settle() has freed it already:
 * then that may happen, and client_fetch() returns EIO. 0, also if is_lost is set, or an errno.
 */
static int
take_answer(jeprof_target_t *t, wait_t *w) {
	prof_slot_t s;
	uint64_t at = client_slot_at(t, w->slot), nonce;
	int error = 0;
	/*
	 * Reads the slot again, as the read that found `answered` may have copied the answer before it
	 * was complete. During this read the process may begin to answer another client who uses the
	 * slot too; it writes answer_nonce first, so that is read once more at the end.
	 */
	if (!client_read_memory(t, at, &s, sizeof(s)) || !client_read_memory(t,
	    at + offsetof(prof_slot_t, answer_nonce), &nonce, sizeof(nonce))) {
		return client_memory_gone(t);
	}
	if (s.answer_nonce != w->mine.nonce || nonce != w->mine.nonce) {
		t->sequence = 0; /* the answer, and so the slot, are another client's */
		w->is_lost = true;
		return 0;
	}
	uint32_t most = PROF_MAILBOX_TEXT - 1;
	uint32_t length = s.answer_length < most ? s.answer_length : most;
	w->is_answered = true;
	memcpy(w->reply->text, s.answer, length);
	w->reply->text[length] = '\0';
	w->reply->error = s.error;
	if (w->wants_profile && s.error == 0) {
		error = client_fetch(t, w->mine.nonce, w->request, w->reply);
	}
	jeprof_take_back(t);
	w->is_lost = s.error == EBADMSG || client_try_set_clock(t, w->reply);
	return error;
}

/*
 * Decides whether the process is idle. It is, if its count of heartbeats has not changed since the
 * wait began, idle_ms ago or more, and the thread t->task neither runs nor waits for a processor
 * (state R); after the deadline, whatever that state. Reads the head again. 0 (not idle, the head
 * cannot be read, or the manner is jeprof_manner_wait, the default), EAGAIN (idle) or ESRCH.
 */
static int
check_idle(jeprof_target_t *t, const wait_t *w) {
	int64_t timeout_ms = w->request->idle_ms != 0 ? w->request->idle_ms : IDLE_MS;
	if (w->request->manner == jeprof_manner_wait || client_now_ms() - w->begin < timeout_ms) {
		return 0;
	}
	int error = jeprof_check_same(t);
	if (error != 0) {
		return error;
	}
	bool is_idle = client_read_head(t) && t->head.heartbeats == w->heartbeats
	    && (t->state != 'R' || client_now_ms() >= w->deadline);
	return is_idle ? EAGAIN : 0;
}

/*
 * Takes the request back, and waits CLIENT_SETTLE_MS in case the process is just reading it. A
 * process writes answer_nonce at once after it has found `sequence` in the slot; without that sign
 * the request counts as not taken. Returns the verdict if it was not taken; the result of
 * take_answer() if it was answered after all; ETIMEDOUT if it was taken, but not answered within
 * taken_ms or before an interrupt; ESRCH.
 */
static int
settle(jeprof_target_t *t, wait_t *w, int verdict) {
	prof_slot_t s;
	int64_t end = client_now_ms() + client_taken_ms(w->request);
	jeprof_take_back(t);
	client_sleep_ms(CLIENT_SETTLE_MS);
	for (;;) {
		if (!client_read_memory(t, client_slot_at(t, w->slot), &s, sizeof(s))) {
			return client_memory_gone(t);
		}
		if (s.answered == w->mine.sequence) {
			return take_answer(t, w);
		}
		if (s.answer_nonce != w->mine.nonce) {
			return verdict;
		}
		if (client_now_ms() >= end || client_is_interrupted(w->request)) {
			return ETIMEDOUT;
		}
		client_sleep_ms(PAUSE_MAX_MS);
	}
}

/*
 * Decides whether to go on waiting (0) for a request that is not answered, or why not: EBADMSG
 * (is_lost: nonce or sequence in the slot is not ours), EAGAIN, ETIMEDOUT (also after an interrupt)
 * or ESRCH. If it is ETIMEDOUT and the process has taken the request, the request is removed from
 * its slot here, and t->sequence is 0.
 */
static int
end_or_go_on(jeprof_target_t *t, wait_t *w, const prof_slot_t *s) {
	bool is_taken = s->answer_nonce == w->mine.nonce;
	int64_t deadline = w->deadline + (is_taken ? client_taken_ms(w->request) : 0);
	if (!is_taken && (s->nonce != w->mine.nonce || s->sequence != w->mine.sequence)) {
		w->is_lost = true; /* somebody else's request lies there */
		return EBADMSG;
	}
	int error = is_taken ? 0 : check_idle(t, w);
	if (error == 0 && (client_now_ms() >= deadline || client_is_interrupted(w->request))) {
		error = ETIMEDOUT;
	}
	if (error == ETIMEDOUT && is_taken) {
		jeprof_take_back(t);
	}
	return error;
}

/*
 * Ends the wait with the verdict of end_or_go_on(), and takes the request back, unless it is to
 * stay in its slot; after ESRCH jeprof_ask() takes it back. 0: answered meanwhile, or is_lost; else
 * an errno.
 */
static int
end_wait(jeprof_target_t *t, wait_t *w, int verdict) {
	bool was_lost = w->is_lost;
	w->is_lost = false;
	if (verdict == EAGAIN && w->request->manner == jeprof_manner_stay) {
		client_renew_lease(t, STAY_MS);
		return verdict;
	}
	if (verdict == ESRCH) {
		return verdict;
	}
	if (t->sequence == 0) {
		return verdict; /* given up after it was taken */
	}
	int error = settle(t, w, was_lost ? EBADMSG : verdict);
	if (error == EBADMSG) {
		w->is_lost = true;
		return 0;
	}
	return error;
}

/*
 * Polls for the answer to the request in the slot, with pauses of 1, 2, 4 and so on up to 32 ms;
 * renews the lease at each poll, and rings again each 16 polls. 0: answered, or is_lost; else an
 * errno.
 */
static int
wait_answer(jeprof_target_t *t, wait_t *w) {
	int64_t pause = 1;
	for (unsigned turn = 1;; turn++) {
		prof_slot_t s;
		if (!client_read_memory(t, client_slot_at(t, w->slot), &s, sizeof(s))) {
			return client_memory_gone(t);
		}
		if (s.answered == w->mine.sequence) {
			return take_answer(t, w);
		}
		int verdict = end_or_go_on(t, w, &s);
		if (verdict != 0) {
			return end_wait(t, w, verdict);
		}
		client_renew_lease(t, PROF_LEASE_MS);
		if (turn % 16 == 0) {
			int error = jeprof_check_same(t);
			error = error != 0 ? error : ring(t);
			if (error != 0) {
				return error;
			}
		}
		client_sleep_ms(pause);
		pause = pause < PAUSE_MAX_MS ? pause * 2 : pause;
	}
}

/*
 * Sets the sentence for a process that does not answer. ETIMEDOUT; ENXIO: it is idle because its
 * program has its own malloc.
 */
static int
silent(jeprof_target_t *t, const jeprof_request_t *r, bool is_idle) {
	double seconds = (double)client_wait_ms(r) / 1000;
	int error = is_idle ? jeprof_check_allocator(t) : 0;
	if (error != 0) {
		return error;
	}
	return is_idle ? client_fail(t, ETIMEDOUT, "%d %s is idle: it allocated too little in %g s to "
	    "look at its mailbox, and runs no profiler thread; the request was taken back. Try a "
	    "longer --wait, or start it with MALLOC_CONF=prof_thread:true", t->pid, t->name, seconds)
	    : client_fail(t, ETIMEDOUT, "%d %s is running but did not answer in %g s; the request was "
	    "taken back", t->pid, t->name, seconds);
}

/* The end of a sentence: what becomes of the request. */
static const char *
fate(silence_t silence) {
	return silence == silence_taken ? "it has taken the request, and may still carry it out"
	    : silence == silence_full ? "the request was not given" : "the request was taken back";
}

int
client_unanswered(jeprof_target_t *t, const jeprof_request_t *r, silence_t silence) {
	uint64_t before = t->head.heartbeats;
	if (client_is_interrupted(r)) {
		return silence == silence_taken ? client_fail(t, EINTR, "interrupted; %d %s has taken the "
		    "request, and may still carry it out", t->pid, t->name)
		    : client_fail(t, EINTR, "interrupted; %s", fate(silence));
	}
	int error = jeprof_check_same(t);
	error = error != 0 ? error : jeprof_look(t);
	if (error != 0) {
		return error;
	}
	bool is_idle = t->head.heartbeats == before;
	const char *halted = jeprof_halted(t);
	if (halted != NULL && (t->state != 'D' || is_idle)) { /* D may last a moment only */
		return client_fail(t, ETIMEDOUT, "%d %s is %s and cannot answer; %s", t->pid, t->name,
		    halted, fate(silence));
	}
	if (silence != silence_unheard) {
		return client_fail(t, EBUSY, silence == silence_full
		    ? "%d %s is busy: the requests of others fill its mailbox; %s"
		    : "%d %s is busy: our request takes too long; %s", t->pid, t->name, fate(silence));
	}
	return silent(t, r, is_idle);
}

int
jeprof_explain_silence(jeprof_target_t *t, const jeprof_request_t *request) {
	return client_unanswered(t, request, silence_unheard);
}

/* Whether the process has taken the request, which was in the slot and had no answer in time. */
static bool
is_in_hand(const jeprof_target_t *t, const wait_t *w) {
	prof_slot_t now;
	return client_read_memory(t, client_slot_at(t, w->slot), &now, sizeof(now))
	    && now.answer_nonce == w->mine.nonce;
}

/*
 * Sends the request once, if a slot is free or is_slot_left(). 0: answered, or is_lost; else an
 * errno with its sentence. After the deadline or an interrupt, no such slot is an error.
 */
static int
ask_once(jeprof_target_t *t, wait_t *w) {
	int slot = -1;
	int error = find_free_slot(t, &slot);
	if (error != 0) {
		return error;
	}
	w->is_lost = slot < 0;
	if (slot < 0) {
		return client_now_ms() >= w->deadline || client_is_interrupted(w->request)
		    ? client_unanswered(t, w->request, silence_full) : 0;
	}
	w->slot = (unsigned)slot;
	w->is_answered = false;
	error = put_request(t, w);
	error = error != 0 ? error : wait_answer(t, w);
	if (error == ETIMEDOUT && !w->is_answered) {
		t->head.heartbeats = w->heartbeats; /* client_unanswered() compares with it */
		return client_unanswered(t, w->request, is_in_hand(t, w) ? silence_taken : silence_unheard);
	}
	return error == EAGAIN ? client_fail(t, EAGAIN, "%d %s is idle", t->pid, t->name) : error;
}

/* Whether the answer to the request is a profile. */
static bool
is_for_profile(const char *text) {
	return strcmp(text, "dump-stream") == 0 || strcmp(text, "dump-delta-stream") == 0;
}

int
client_ask_mailbox(jeprof_target_t *t, const jeprof_request_t *r, jeprof_reply_t *reply) {
	int64_t begin = client_now_ms();
	wait_t w = {.request = r, .begin = begin, .deadline = begin + client_wait_ms(r), .reply = reply,
	    .wants_profile = is_for_profile(r->text)};
	int torn = 0;
	w.mine.nonce = client_random_word(); /* one for all tries: it is carried out once */
	int error = jeprof_check_same(t);
	error = error != 0 ? error : jeprof_look(t);
	w.heartbeats = t->head.heartbeats;
	while (error == 0) {
		reply->error = 0;
		error = ask_once(t, &w);
		if (error != 0 || !w.is_lost) {
			return error;
		}
		bool is_late = client_now_ms() >= w.deadline;
		if ((reply->error != 0 && ++torn > TORN_MAX) || (reply->error == EBADMSG && is_late)) {
			return 0; /* the process does not understand the request, or never accepts its lease */
		}
		if (is_late) {
			return client_fail(t, EBUSY, reply->error == ESTALE
			    ? "%d %s: the lease of our request ended, as this program did not run for a while; "
			    "try again"
			    : "%d %s: others overwrite our request again and again", t->pid, t->name);
		}
		client_sleep_ms(1 + (int64_t)(client_random_word() % 16));
	}
	return error;
}

/*
 * Adds to an answer to "status" what the process does not say through a mailbox, because it would
 * need system calls for it: its resident bytes, and its pid as it sees it. Adds nothing if there is
 * no room, or a line rss= already.
 */
static void
add_seen(const jeprof_target_t *t, jeprof_reply_t *reply) {
	size_t length = strlen(reply->text);
	char seen[80], old[32];
	const char *end = length > 0 && reply->text[length - 1] != '\n' ? "\n" : "";
	int n = snprintf(seen, sizeof(seen), "%srss=%llu\npid=%u\n", end,
	    (unsigned long long)client_rss(t), t->own_pid);
	if (jeprof_value(reply->text, "rss", old, sizeof(old)) == NULL
	    && length + (size_t)n < sizeof(reply->text)) {
		memcpy(reply->text + length, seen, (size_t)n + 1);
	}
}

int
jeprof_ask(jeprof_target_t *t, const jeprof_request_t *request, jeprof_reply_t *reply) {
	reply->error = 0;
	reply->text[0] = '\0';
	reply->profile = NULL;
	reply->profile_bytes = 0;
	if (strlen(request->text) >= PROF_MAILBOX_TEXT) {
		return client_fail(t, E2BIG, "the request is longer than %u bytes", PROF_MAILBOX_TEXT - 1);
	}
	if (t->way == jeprof_way_none) {
		return client_fail(t, ENXIO, "%d %s is not open", t->pid, t->name);
	}
	int error = t->way == jeprof_way_dir ? client_ask_dir(t, request, reply)
	    : client_ask_mailbox(t, request, reply);
	if (error != 0 && error != EAGAIN && t->way != jeprof_way_dir) {
		jeprof_take_back(t);
	}
	if (error == 0 && reply->error == 0 && t->way != jeprof_way_dir
	    && strcmp(request->text, "status") == 0) {
		add_seen(t, reply);
	}
	return error;
}

const char *
jeprof_state_word(uint32_t state) {
	static const char *const words[] = {"idle", "active", "stopping", "paused", "sampling",
	    "switched_on"};
	return state < sizeof(words) / sizeof(words[0]) ? words[state] : "unknown";
}

const char *
jeprof_value(const char *answer, const char *key, char *buf, size_t size) {
	size_t length = strlen(key);
	for (const char *line = answer; line != NULL; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, length) == 0 && line[length] == '=') {
			const char *value = line + length + 1;
			snprintf(buf, size, "%.*s", (int)strcspn(value, "\n"), value);
			return buf;
		}
		if (*line == '\0') {
			break;
		}
	}
	return NULL;
}
