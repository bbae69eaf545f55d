/*
 * The slots of a mailbox that clients share without a lock: which one a client takes, and which
 * requests of others it sees and takes back. Others fill, renew and leave slots at random, the
 * process takes and answers, time passes; a model, which sees each change, says which slots may be
 * taken and what is pending. Prints what is wrong. Built by units.t.
 */
#include "client/lease.c"
#include "client/mailbox.c"
#include "client/pending.c"

#include "prof/control/prof_mailbox.h"

#include "../include/pick.h"

enum { CLOCK_AHEAD = -5000000 };

static prof_mailbox_t box;
static int64_t now_ms = 1000000;
static unsigned bad;

/* What the model knows of a slot; a version is a state of the slot between two changes. */
static struct {
	unsigned version, seen_version;
	int64_t seen_ms;      /* when the client saw this version first */
	const char *text;
	const char *verb;     /* a start or a set may stay as long as its lease */
	bool is_taken, is_answered, has_lease, is_whole;
} model[PROF_MAILBOX_SLOTS];

int64_t
client_now_ms(void) {
	return now_ms;
}

static uint64_t first; /* what the client draws */

uint64_t
client_random_word(void) {
	return first;
}

static void
wrong(const char *what, long long got, long long want) {
	if (got != want && bad++ < 5) {
		printf("# at %lld: %s: %lld, not %lld\n", (long long)now_ms, what, got, want);
	}
}

static bool is_unreadable;

/* Only slots and leases may be read. */
bool
client_read_memory(const jeprof_target_t *t, uint64_t at, void *buf, size_t size) {
	uint64_t off = at - t->block, slots = offsetof(prof_mailbox_t, slots),
	    leases = offsetof(prof_mailbox_t, leases);
	if (is_unreadable) {
		return false;
	}
	bool is_of_slots = off >= slots && off + size <= slots + sizeof(box.slots),
	    is_of_leases = off >= leases && off + size <= leases + sizeof(box.leases);
	wrong("only these are read", is_of_slots || is_of_leases, true);
	memcpy(buf, (char *)&box + off, size);
	return true;
}

/* The slot that was freed last; sets and starts that were taken after that. */
static unsigned freed, ntaken[2];

bool
client_write_memory(const jeprof_target_t *t, uint64_t at, const void *word, size_t size) {
	memcpy((char *)&box + (at - t->block), word, size);
	freed = (unsigned)((at - client_slot_at(t, 0)) / sizeof(prof_slot_t));
	return true;
}

static unsigned nsleeps;
static bool is_quiet; /* time passes, and nothing else happens */

/* The process may have begun to read a request just before it was taken back. */
void
client_sleep_ms(int64_t ms) {
	nsleeps++;
	if (is_quiet) {
		now_ms += ms;
	} else if (draw() % 2 == 0) {
		box.slots[freed].answer_nonce = box.slots[freed].nonce;
		ntaken[strcmp(model[freed].verb, "start") == 0]++;
	}
}

static uint64_t
other_now(void) {
	return (uint64_t)(now_ms + CLOCK_AHEAD);
}

/* Another client sends a request: with a lease, with one of an earlier request, or without end. */
static void
fill(unsigned i) {
	static const struct {
		const char *text, *verb;
	} requests[] = {{"status", ""}, {"stop", ""}, {"sta", ""}, {"start", "start"},
	    {"start a:1", "start"}, {"set", "set"}, {"set b", "set"}};
	prof_slot_t *s = &box.slots[i];
	static const unsigned spans[] = {0, PROF_LEASE_MS, 2000}; /* 0: it may stay for ever */
	unsigned which = pick(7), span = spans[pick(3)];
	*s = (prof_slot_t){.sequence = draw() + 1, .nonce = draw() + 1, .answered = s->answered};
	memset(s->text, 'x', sizeof(s->text)); /* of an earlier request: this one has no NUL */
	memcpy(s->text, requests[which].text, strlen(requests[which].text));
	model[i].text = requests[which].text;
	model[i].verb = requests[which].verb;
	s->length = (uint32_t)strlen(requests[which].text);
	model[i].is_whole = pick(5) > 0;
	s->checksum = prof_mailbox_sum(s->sequence, s->nonce, s->text, s->length) + !model[i].is_whole;
	model[i].has_lease = pick(4) > 0;
	box.leases[i] = (prof_lease_t){s->sequence + !model[i].has_lease, span, other_now() + span};
	model[i].is_taken = model[i].is_answered = false;
	model[i].version++;
}

static void
renew(unsigned i) {
	uint64_t until = other_now() + box.leases[i].span_ms;
	if (box.slots[i].sequence != 0 && model[i].has_lease && box.leases[i].span_ms != 0
	    && box.leases[i].until_ms != until) {
		box.leases[i].until_ms = until;
		model[i].version++;
	}
}

static void
answer(unsigned i) {
	if (box.slots[i].sequence != 0 && !model[i].is_answered) {
		box.slots[i].answer_nonce = box.slots[i].nonce;
		model[i].is_taken = true;
		if (pick(2) == 0) {
			box.slots[i].answered = box.slots[i].sequence;
			model[i].is_answered = true;
			model[i].version++;
		}
	}
}

static bool
is_held(unsigned i) {
	const prof_lease_t *l = &box.leases[i];
	return !model[i].has_lease || l->span_ms == 0 || (int64_t)(l->until_ms - other_now()) >= 0;
}

/* Whether the client may take a slot that it sees now and has seen before. */
static bool
may_take(unsigned i) {
	int64_t age = now_ms - model[i].seen_ms;
	if (model[i].seen_version != model[i].version) {
		return false;
	}
	return model[i].is_answered ? age >= 300
	    : age >= 1000 && !model[i].is_taken && !(*model[i].verb != '\0' && is_held(i));
}

static void
look(jeprof_target_t *t) {
	bool may[PROF_MAILBOX_SLOTS] = {false}, is_any = false;
	int got, free = -1;
	first = draw();
	for (unsigned k = 0; k < PROF_MAILBOX_SLOTS && free < 0; k++) {
		unsigned i = (unsigned)(first + k) % PROF_MAILBOX_SLOTS;
		if (box.slots[i].sequence == 0) {
			free = (int)i;
			continue;
		}
		may[i] = may_take(i);
		is_any = is_any || may[i];
		if (model[i].seen_version != model[i].version) {
			model[i].seen_version = model[i].version;
			model[i].seen_ms = now_ms;
		}
	}
	wrong("the search", find_free_slot(t, &got), 0);
	if (free >= 0 || got < 0) {
		wrong("the slot that is free", got, free);
		wrong("none is, although one was left", free < 0 && is_any, false);
	} else {
		wrong("a slot was left", may[got], true);
	}
}

static bool
is_pending(const jeprof_target_t *t, unsigned i, const char *verb) {
	return box.slots[i].sequence != 0 && strcmp(model[i].verb, verb) == 0 && model[i].is_whole
	    && !model[i].is_taken && is_held(i) && (t->sequence == 0 || t->slot != i);
}

/* What is pending, unless the client itself has sent it; sometimes it is taken back. */
static void
look_at_pending(jeprof_target_t *t) {
	char text[JEPROF_TEXT];
	unsigned first_start = PROF_MAILBOX_SLOTS, n[2] = {0, 0}; /* sets and starts */
	t->sequence = pick(2);
	t->slot = pick(PROF_MAILBOX_SLOTS);
	for (unsigned i = PROF_MAILBOX_SLOTS; i-- > 0;) {
		first_start = is_pending(t, i, "start") ? i : first_start;
		n[1] += is_pending(t, i, "start");
		n[0] += is_pending(t, i, "set");
	}
	bool is_found = jeprof_find_pending(t, "start", text);
	wrong("a start is pending", is_found, n[1] > 0);
	wrong("which", is_found && strcmp(text, model[first_start].text) != 0, false);
	wrong("starts and sets", jeprof_count_pending(t), n[0] + n[1]);
	if (pick(4) == 0) {
		jeprof_withdrawn_t w;
		ntaken[0] = ntaken[1] = nsleeps = 0;
		wrong("they are taken back", jeprof_withdraw_pending(t, &w), 0);
		wrong("starts taken back", w.starts, n[1] - ntaken[1]);
		wrong("sets taken back", w.sets, n[0] - ntaken[0]);
		wrong("none is pending", jeprof_count_pending(t), 0);
		wrong("what may be read by then is waited for", nsleeps, n[0] + n[1]);
	}
	t->sequence = 0;
}

/* Whether a start is pending that differs in one thing from one that is, in that slot alone. */
static void
try_alone(const char *what, prof_slot_t s, jeprof_way_t way, bool want) {
	jeprof_target_t t = {.way = way, .block = 4096, .clock_ahead_ms = CLOCK_AHEAD};
	char text[JEPROF_TEXT + 1];
	unsigned i = pick(PROF_MAILBOX_SLOTS);
	memset(&box, 0, sizeof(box));
	s.checksum = prof_mailbox_sum(s.sequence, s.nonce, s.text,
	    s.length < sizeof(s.text) ? s.length : sizeof(s.text));
	box.slots[i] = s;
	memset(text, 'y', JEPROF_TEXT);
	text[JEPROF_TEXT] = '\0';
	bool is_found = jeprof_find_pending(&t, "start", text);
	wrong(what, is_found, want);
	bool is_other = strlen(text) != s.length || memcmp(text, s.text, s.length) != 0;
	wrong(what, is_found && is_other, false);
}

static void
look_at_one(void) {
	prof_slot_t s = {.sequence = 7, .nonce = 8, .answered = 6, .answer_nonce = 5, .length = 9}, o;
	memset(s.text, 'z', sizeof(s.text));
	memcpy(s.text, "start a:1", 9);
	try_alone("by its memory", s, jeprof_way_memory, true);
	try_alone("by system calls", s, jeprof_way_calls, true);
	try_alone("by a directory", s, jeprof_way_dir, false);
	try_alone("by no way", s, jeprof_way_none, false);
	is_unreadable = true;
	prof_lease_t lease;
	jeprof_target_t t = {.way = jeprof_way_memory};
	wrong("no lease", client_read_lease(&t, 0, 7, &lease), false);
	try_alone("that cannot be read", s, jeprof_way_memory, false);
	is_unreadable = false;
	static const struct {
		const char *what;
		size_t at;
		uint32_t value;
		bool want;
	} rows[] = {{"the first request", offsetof(prof_slot_t, sequence), 1, true},
	    {"no request", offsetof(prof_slot_t, sequence), 0, false},
	    {"an answered one", offsetof(prof_slot_t, answered), 7, false},
	    {"one that is taken", offsetof(prof_slot_t, answer_nonce), 8, false},
	    {"the longest", offsetof(prof_slot_t, length), PROF_MAILBOX_TEXT - 1, true},
	    {"too long a one", offsetof(prof_slot_t, length), PROF_MAILBOX_TEXT, false},
	    {"far too long", offsetof(prof_slot_t, length), UINT32_MAX, false},
	    {"the verb alone", offsetof(prof_slot_t, length), 5, true},
	    {"a longer word", offsetof(prof_slot_t, length), 4, false}};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		o = s;
		memcpy((char *)&o + rows[i].at, &rows[i].value, sizeof(rows[i].value));
		try_alone(rows[i].what, o, jeprof_way_memory, rows[i].want);
	}
}

/* A client with a start of its own in slot 2, and another one's in `other`; how long it waits. */
static void
come_second(unsigned other, bool want, unsigned naps) {
	jeprof_target_t t = {.way = jeprof_way_memory, .block = 4096, .clock_ahead_ms = CLOCK_AHEAD,
		.slot = 2, .sequence = 3};
	memset(&box, 0, sizeof(box));
	for (unsigned k = 0; k < 2; k++) {
		prof_slot_t *s = &box.slots[k == 0 ? 2 : other];
		*s = (prof_slot_t){.sequence = 3, .nonce = 4, .length = 5, .text = "start"};
		s->checksum = prof_mailbox_sum(s->sequence, s->nonce, s->text, s->length);
	}
	nsleeps = 0;
	is_quiet = true;
	wrong("it comes second", jeprof_comes_second(&t, "start"), want);
	is_quiet = false;
	wrong("after a time for the other to withdraw", nsleeps, naps);
}

/* Only an answer that the request's client has ended, with the other clock, sets that. */
static void
look_at_clock(void) {
	static const struct {
		int error;
		const char *text;
		int64_t ahead;
	} rows[] = {{ESTALE, "now_ms=1234567: the client has ended", 234567},
	    {ESTALE, "now_ms=1", -999999}, {ESTALE, "now_ms=: no time", CLOCK_AHEAD},
	    {ESTALE, "", CLOCK_AHEAD}, {EINVAL, "now_ms=1234567: it is wrong", CLOCK_AHEAD},
	    {0, "now_ms=1234567", CLOCK_AHEAD}};
	now_ms = 1000000;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		jeprof_target_t t = {.clock_ahead_ms = CLOCK_AHEAD};
		jeprof_reply_t reply = {.error = rows[i].error};
		snprintf(reply.text, sizeof(reply.text), "%s", rows[i].text);
		wrong("a clock is told", client_try_set_clock(&t, &reply), rows[i].ahead != CLOCK_AHEAD);
		wrong("and set", t.clock_ahead_ms, rows[i].ahead);
	}
}

int
main(void) {
	look_at_clock();
	look_at_one();
	come_second(2, false, 0);
	come_second(1, true, 0);
	come_second(3, true, YIELD_MS / 10);
	memset(&box, 0, sizeof(box));
	jeprof_target_t t = {.way = jeprof_way_memory, .block = 4096, .clock_ahead_ms = CLOCK_AHEAD};
	for (unsigned step = 0; step < 300000; step++) {
		unsigned i = pick(PROF_MAILBOX_SLOTS);
		switch (pick(12)) {
		case 0:
			box.slots[i].sequence = pick(10) == 0 ? 0 : box.slots[i].sequence;
			break;
		case 1:
			renew(i);
			break;
		case 2:
			answer(i);
			break;
		case 3:
			if (box.slots[i].sequence == 0 || pick(5) == 0) {
				fill(i);
			}
			break;
		case 4:
		case 5:
			now_ms += 100 * pick(8);
			break;
		case 6:
			look_at_pending(&t);
			break;
		default:
			look(&t);
		}
	}
	return bad != 0;
}
