/* Asking through the mailbox: see ask.h. */
#include "ctl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "memory.h"
#include "way.h"
#include "talk.h"
#include "value.h"
#include "words.h"

enum {
	ABANDONED_MS = 300,
	TORN_MAX = 8,
	IDLE_MS = 1000, /* without an answer or a heartbeat: idle */
};

typedef enum { asked_done, asked_lost, asked_late, asked_idle } asked_t;

/* The request in the mailbox that is not answered: taken back when we leave, however that happens. */
static struct {
	process_t *process;
	unsigned slot;
	uint64_t sequence;
} pending;

uint64_t
slot_at(const process_t *p, unsigned i) {
	return p->block + offsetof(prof_mailbox_t, slots) + i * sizeof(prof_slot_t);
}

static void
memory_gone(process_t *p) {
	check_same(p);
	leave(EXIT_NO_WAY, "%d %s: its memory is gone: it runs another program now, or is ending", p->pid, p->name);
}

void
write_word(process_t *p, uint64_t at, const void *word, size_t size) {
	if (!write_memory(p, at, word, size)) {
		memory_gone(p);
	}
}

/* A free slot, else one whose answer nobody has fetched for a while; -1 if all are in use. */
static int
free_slot(process_t *p) {
	static uint64_t seen[PROF_MAILBOX_SLOTS];
	static int64_t seen_at[PROF_MAILBOX_SLOTS];
	int abandoned = -1;
	unsigned first = (unsigned)(random_word() % PROF_MAILBOX_SLOTS); /* whom we collided with goes elsewhere */
	for (unsigned k = 0; k < PROF_MAILBOX_SLOTS; k++) {
		unsigned i = (first + k) % PROF_MAILBOX_SLOTS;
		prof_slot_t s;
		if (!read_memory(p, slot_at(p, i), &s, sizeof(s))) {
			memory_gone(p);
		}
		if (s.sequence == 0) {
			return (int)i;
		}
		if (s.answered != s.sequence || seen[i] != s.sequence) {
			seen[i] = s.answered == s.sequence ? s.sequence : 0;
			seen_at[i] = now_ms();
		} else if (now_ms() - seen_at[i] >= ABANDONED_MS) {
			abandoned = (int)i;
		}
	}
	return abandoned;
}

static void
put_request(process_t *p, unsigned i, prof_slot_t *s, const char *text) {
	uint64_t at = slot_at(p, i), sequence = s->sequence, none = 0;
	uint32_t ring = 1;
	s->sequence = 0;
	s->length = (uint32_t)strlen(text);
	memcpy(s->text, text, s->length);
	s->checksum = prof_mailbox_sum(sequence, s->nonce, s->text, s->length);
	write_word(p, at + offsetof(prof_slot_t, answer_nonce), &none, sizeof(none)); /* what lies there is no sign for us */
	write_word(p, at, s, offsetof(prof_slot_t, text) + s->length);
	pending.process = p;
	pending.slot = i;
	pending.sequence = sequence;
	write_word(p, at, &sequence, sizeof(sequence));
	write_word(p, p->block + offsetof(prof_mailbox_t, doorbell), &ring, sizeof(ring));
	s->sequence = sequence;
}

/* Frees the slot, unless somebody else has taken it. */
void
take_back(void) {
	uint64_t sequence, none = 0;
	const process_t *p = pending.process;
	if (p != NULL && read_memory(p, slot_at(p, pending.slot), &sequence, sizeof(sequence)) && sequence == pending.sequence) {
		write_memory(p, slot_at(p, pending.slot), &none, sizeof(none));
	}
	pending.process = NULL;
}

/* The slot stays ours while a profile is to be fetched. */
static asked_t
take_answer(process_t *p, unsigned i, uint64_t nonce, profile_t *profile, reply_t *reply) {
	static prof_slot_t slot, *s = &slot;
	if (!read_memory(p, slot_at(p, i), s, sizeof(*s))) { /* anew: all of it was there before `answered` */
		memory_gone(p);
	}
	if (s->answer_nonce != nonce) {
		pending.process = NULL; /* another one's answer: his slot */
		return asked_lost;
	}
	uint32_t length = s->answer_length < PROF_MAILBOX_TEXT ? s->answer_length : PROF_MAILBOX_TEXT;
	memcpy(reply->text, s->answer, length);
	reply->text[length] = '\0';
	reply->error = s->error;
	if (profile != NULL && s->error == 0) {
		fetch_profile(p, nonce, profile);
	}
	take_back();
	return s->error == EBADMSG ? asked_lost : asked_done;
}

/* What is waited for. */
typedef struct wait_s {
	unsigned slot;
	prof_slot_t mine;
	manner_t manner;
	int64_t begin;
	int64_t deadline;
	profile_t *profile;
} wait_t;

/* Neither an answer nor a heartbeat, and not because it waits for a processor. */
static bool
is_idle_by_now(process_t *p, const wait_t *w) {
	uint64_t before = p->head.heartbeats;
	int64_t patience_ms = is_on(o_wait) ? w->deadline - w->begin : IDLE_MS;
	if (w->manner == manner_wait || now_ms() - w->begin < patience_ms) {
		return false;
	}
	check_same(p);
	bool is_read = read_head(p), has_beaten = p->head.heartbeats != before;
	p->head.heartbeats = before;
	return is_read && !has_beaten && (p->state != 'R' || now_ms() >= w->deadline);
}

/* Waits for the answer to the request in the slot. */
static asked_t
wait_answer(process_t *p, const wait_t *w, reply_t *reply) {
	int64_t pause = 1, taken_deadline = w->deadline + TAKEN_WAIT_MS;
	asked_t verdict = asked_done; /* asked_done: none yet */
	const prof_slot_t *mine = &w->mine;
	for (unsigned turn = 1;; turn++) {
		prof_slot_t s;
		uint32_t ring = 1;
		if (!read_memory(p, slot_at(p, w->slot), &s, sizeof(s))) {
			memory_gone(p);
		}
		if (s.answered == mine->sequence) {
			return take_answer(p, w->slot, mine->nonce, w->profile, reply);
		}
		bool is_taken = s.answer_nonce == mine->nonce;
		if (verdict != asked_done && !is_taken) {
			return verdict;
		}
		if (!is_taken && (s.nonce != mine->nonce || s.sequence != mine->sequence)) {
			verdict = asked_lost;
			pause = 50; /* it may just be reading ours */
		} else if (!is_taken && is_idle_by_now(p, w)) {
			if (w->manner == manner_stay) {
				return asked_idle;
			}
			take_back();
			verdict = asked_idle;
			pause = 50;
		} else if (now_ms() >= (is_taken ? taken_deadline : w->deadline) || interrupted >= patience) {
			take_back();
			verdict = asked_late;
			if (is_taken) {
				return verdict;
			}
			pause = 50;
		} else if (turn % 16 == 0) {
			check_same(p);
			write_word(p, p->block + offsetof(prof_mailbox_t, doorbell), &ring, sizeof(ring));
		}
		sleep_ms(pause);
		pause = pause < 20 ? pause * 2 : pause;
	}
}

void
leave_unanswered(process_t *p, bool was_busy) {
	uint64_t before = p->head.heartbeats;
	double seconds = (double)words.values[o_wait].number / 1000;
	if (interrupted >= patience) {
		leave(EXIT_FAILED, "interrupted; the request was taken back");
	}
	check_same(p);
	if (!read_head(p)) {
		memory_gone(p);
	}
	if (p->state == 'T' || p->state == 't') {
		leave(EXIT_NO_ANSWER, "%d %s is stopped (by a signal or a debugger) and cannot answer; the request was taken back", p->pid,
		    p->name);
	}
	if (was_busy) {
		leave(EXIT_NO_ANSWER, "%d %s is busy: the requests of others fill its mailbox, or ours takes too long", p->pid, p->name);
	}
	if (p->head.heartbeats == before) {
		check_allocator(p);
		leave(EXIT_NO_ANSWER, "%d %s is idle: it allocated too little in %g s to look at its mailbox, and runs no profiler thread; "
		    "the request was taken back. Try a longer --wait, or start it with MALLOC_CONF=prof_thread:true", p->pid, p->name,
		    seconds);
	}
	leave(EXIT_NO_ANSWER, "%d %s is running but did not answer in %g s; the request was taken back", p->pid, p->name, seconds);
}

/* Whether the profile or request in the slot is in the process's hands. */
static bool
is_in_hand(const process_t *p, const wait_t *w) {
	prof_slot_t now;
	return read_memory(p, slot_at(p, w->slot), &now, sizeof(now)) && now.answer_nonce == w->mine.nonce;
}

bool
ask_mailbox(process_t *p, const char *text, manner_t manner, profile_t *profile, reply_t *reply) {
	int64_t begin = now_ms();
	wait_t w = {.manner = manner, .begin = begin, .deadline = begin + (int64_t)words.values[o_wait].number, .profile = profile};
	int torn = 0;
	uint64_t nonce = random_word(); /* the same each time: it is carried out once */
	check_same(p);
	if (!read_head(p)) {
		memory_gone(p);
	}
	for (;;) {
		int i = free_slot(p);
		if (i < 0) {
			if (now_ms() >= w.deadline || interrupted >= patience) {
				leave_unanswered(p, true);
			}
			sleep_ms(1 + (int64_t)(random_word() % 16));
			continue;
		}
		w.slot = (unsigned)i;
		w.mine = (prof_slot_t){.sequence = random_word(), .nonce = nonce};
		put_request(p, w.slot, &w.mine, text);
		asked_t asked = wait_answer(p, &w, reply);
		if (asked == asked_done || asked == asked_idle) {
			return asked == asked_done;
		}
		if (asked == asked_late) {
			leave_unanswered(p, is_in_hand(p, &w));
		}
		if (reply->error != 0 && ++torn > TORN_MAX) {
			return true; /* not torn, but not understood */
		}
		if (now_ms() >= w.deadline) {
			leave(EXIT_NO_ANSWER, "%d %s: others overwrite our request again and again", p->pid, p->name);
		}
		sleep_ms((int64_t)(random_word() % 16));
	}
}

/* ---- what others have left ---- */

/* A whole request that the process has not taken. */
static bool
read_pending(const process_t *p, unsigned i, const char *verb, prof_slot_t *s) {
	size_t length = strlen(verb);
	if (!read_memory(p, slot_at(p, i), s, sizeof(*s)) || s->sequence == 0 || s->answered == s->sequence
	    || s->answer_nonce == s->nonce || s->length >= PROF_MAILBOX_TEXT || s->length < length
	    || (pending.process != NULL && pending.slot == i)
	    || s->checksum != prof_mailbox_sum(s->sequence, s->nonce, s->text, s->length)) {
		return false;
	}
	s->text[s->length] = '\0';
	return strncmp(s->text, verb, length) == 0 && (s->text[length] == '\0' || s->text[length] == ' ');
}

bool
find_pending(const process_t *p, const char *verb, char text[PROF_MAILBOX_TEXT]) {
	static prof_slot_t s;
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		if (read_pending(p, i, verb, &s)) {
			memcpy(text, s.text, s.length + 1);
			return true;
		}
	}
	return false;
}

unsigned
count_pending(const process_t *p) {
	static prof_slot_t s;
	unsigned count = 0;
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		count += read_pending(p, i, "start", &s) || read_pending(p, i, "set", &s);
	}
	return count;
}

int
withdraw_pending(process_t *p) {
	static prof_slot_t s;
	int count = 0;
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		uint64_t none = 0;
		if (read_pending(p, i, "start", &s) || read_pending(p, i, "set", &s)) {
			write_word(p, slot_at(p, i), &none, sizeof(none));
			sleep_ms(50); /* it may just be reading it */
			count += read_memory(p, slot_at(p, i), &s, sizeof(s)) && s.answer_nonce != s.nonce;
		}
	}
	return count;
}

void
let_stay(void) {
	pending.process = NULL;
}
