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

/* Only slots and leases may be read. */
bool
client_read_memory(const jeprof_target_t *t, uint64_t at, void *buf, size_t size) {
	uint64_t off = at - t->block, slots = offsetof(prof_mailbox_t, slots),
	    leases = offsetof(prof_mailbox_t, leases);
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

/* The process may have begun to read a request just before it was taken back. */
void
client_sleep_ms(int64_t ms) {
	(void)ms;
	if (draw() % 2 == 0) {
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
		ntaken[0] = ntaken[1] = 0;
		wrong("they are taken back", jeprof_withdraw_pending(t, &w), 0);
		wrong("starts taken back", w.starts, n[1] - ntaken[1]);
		wrong("sets taken back", w.sets, n[0] - ntaken[0]);
		wrong("none is pending", jeprof_count_pending(t), 0);
	}
	t->sequence = 0;
}

int
main(void) {
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
