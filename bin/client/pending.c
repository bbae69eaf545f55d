/*
 * Finds requests that other clients, which may still wait, have put into the mailbox of a process
 * and that the process has not taken yet; counts and withdraws those with the verbs start and set.
 * A process takes a request when it allocates, or in the profiler's thread if that runs, so an idle
 * process may leave one unanswered for long. Invariant: the unanswered request that this client has
 * sent by the same jeprof_target_t is never among them, unless jeprof_let_stay() has left it. No
 * locks; all state is in the jeprof_target_t. Called by bin/ctl and bin/agent/scrape.c.
 */
#include "client/target.h"

#include <stdio.h>
#include <string.h>

enum { YIELD_MS = 200 }; /* time that a client in a later slot gets to withdraw its request */

/*
 * Reads slot i into *s. True if it holds a complete request of that verb (the first word) which the
 * process has not taken and may still take (its lease is not over), and which was not sent by *t
 * itself. Then s->text ends with a NUL.
 */
static bool
read_pending(const jeprof_target_t *t, unsigned i, const char *verb, prof_slot_t *s) {
	size_t length = strlen(verb);
	prof_lease_t lease;
	if (t->way == jeprof_way_dir || t->way == jeprof_way_none
	    || !client_read_memory(t, client_slot_at(t, i), s, sizeof(*s)) || s->sequence == 0
	    || s->answered == s->sequence || s->answer_nonce == s->nonce
	    || !client_read_lease(t, i, s->sequence, &lease) || client_is_lease_over(t, &lease)
	    || s->length >= PROF_MAILBOX_TEXT || s->length < length
	    || (t->sequence != 0 && t->slot == i)
	    || s->checksum != prof_mailbox_sum(s->sequence, s->nonce, s->text, s->length)) {
		return false;
	}
	s->text[s->length] = '\0';
	return strncmp(s->text, verb, length) == 0 && (s->text[length] == '\0'
	    || s->text[length] == ' ');
}

/* The first slot with such a request, read into *s; PROF_MAILBOX_SLOTS: there is none. */
static unsigned
find_slot(const jeprof_target_t *t, const char *verb, prof_slot_t *s) {
	unsigned i = 0;
	while (i < PROF_MAILBOX_SLOTS && !read_pending(t, i, verb, s)) {
		i++;
	}
	return i;
}

bool
jeprof_find_pending(jeprof_target_t *t, const char *verb, char text[JEPROF_TEXT]) {
	prof_slot_t s;
	bool is_found = find_slot(t, verb, &s) < PROF_MAILBOX_SLOTS;
	if (is_found) {
		memcpy(text, s.text, s.length + 1);
	}
	return is_found;
}

/* Two that ask this of each other at the same moment do not both withdraw: the first slot stays. */
bool
jeprof_comes_second(jeprof_target_t *t, const char *verb) {
	prof_slot_t s;
	for (int64_t end = client_now_ms() + YIELD_MS;; client_sleep_ms(10)) {
		unsigned i = find_slot(t, verb, &s);
		if (i == PROF_MAILBOX_SLOTS || i < t->slot || client_now_ms() >= end) {
			return i < PROF_MAILBOX_SLOTS;
		}
	}
}

unsigned
jeprof_count_pending(jeprof_target_t *t) {
	prof_slot_t s;
	unsigned count = 0;
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		count += read_pending(t, i, "start", &s) || read_pending(t, i, "set", &s);
	}
	return count;
}

int
jeprof_withdraw_pending(jeprof_target_t *t, jeprof_withdrawn_t *w) {
	prof_slot_t s;
	*w = (jeprof_withdrawn_t){0, 0};
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		uint64_t none = 0;
		bool is_start = read_pending(t, i, "start", &s);
		if (!is_start && !read_pending(t, i, "set", &s)) {
			continue;
		}
		uint64_t at = client_slot_at(t, i);
		int error = client_write_word(t, at, &none, sizeof(none));
		if (error != 0) {
			return error;
		}
		/* If the process began to read the slot before our write, it still carries it out. */
		client_sleep_ms(CLIENT_SETTLE_MS);
		bool is_gone = client_read_memory(t, at, &s, sizeof(s)) && s.answer_nonce != s.nonce;
		w->starts += is_gone && is_start;
		w->sets += is_gone && !is_start;
	}
	return 0;
}

void
jeprof_withdrawn_text(const jeprof_withdrawn_t *w, char buf[80]) {
	if (w->starts + w->sets == 1) {
		snprintf(buf, 80, "the pending %s was taken back", w->starts == 1 ? "start" : "set");
	} else {
		snprintf(buf, 80, "pending requests were taken back (start: %u, set: %u)", w->starts,
		    w->sets);
	}
}
