/*
 * The slots of a mailbox that clients share without a lock: which one a client takes. Others fill,
 * renew and leave slots at random, the process takes and answers, time passes; a model, which sees
 * each change, says which slots may be taken. Prints what is wrong. Built by units.t.
 */
#include "client/lease.c"
#include "client/mailbox.c"

#include "prof/control/prof_mailbox.h"

enum { CLOCK_AHEAD = -5000000 };

static prof_mailbox_t box;
static int64_t now_ms = 1000000;
static unsigned bad;

/* What the model knows of a slot; a version is a state of the slot between two changes. */
static struct {
	unsigned version, seen_version;
	int64_t seen_ms;      /* when the client saw this version first */
	bool is_start;        /* or a set: may stay as long as its lease */
	bool is_taken, is_answered, has_lease;
} model[PROF_MAILBOX_SLOTS];

static uint64_t
draw(void) {
	static uint64_t state = 1;
	state = state * 6364136223846793005u + 1442695040888963407u;
	return state >> 33;
}

static unsigned
pick(unsigned n) {
	return (unsigned)(draw() % n);
}

int64_t
client_now_ms(void) {
	return now_ms;
}

static uint64_t first; /* what the client draws */

uint64_t
client_random_word(void) {
	return first;
}

bool
client_read_memory(const jeprof_target_t *t, uint64_t at, void *buf, size_t size) {
	memcpy(buf, (char *)&box + (at - t->block), size);
	return true;
}

static uint64_t
other_now(void) {
	return (uint64_t)(now_ms + CLOCK_AHEAD);
}

/* Another client sends a request: with a lease, with one of an earlier request, or without end. */
static void
fill(unsigned i) {
	static const char *const texts[] = {"status", "stop", "sta", "start", "start a:1", "set", "set b"};
	prof_slot_t *s = &box.slots[i];
	static const unsigned spans[] = {0, PROF_LEASE_MS, 2000}; /* 0: it may stay for ever */
	unsigned which = pick(7), span = spans[pick(3)];
	*s = (prof_slot_t){.sequence = draw() + 1, .nonce = draw() + 1, .answered = s->answered};
	strcpy(s->text, texts[which]);
	model[i].is_start = which >= 3;
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

/* Whether the client may take a slot that it sees now and has seen before. */
static bool
may_take(unsigned i) {
	int64_t age = now_ms - model[i].seen_ms;
	const prof_lease_t *l = &box.leases[i];
	bool is_held = !model[i].has_lease || l->span_ms == 0
	    || (int64_t)(l->until_ms - other_now()) >= 0;
	if (model[i].seen_version != model[i].version) {
		return false;
	}
	return model[i].is_answered ? age >= 300
	    : age >= 1000 && !model[i].is_taken && !(model[i].is_start && is_held);
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
	bool is_right = find_free_slot(t, &got) == 0
	    && (free >= 0 ? got == free : got < 0 ? !is_any : may[got]);
	if (!is_right && bad++ < 5) {
		printf("# at %lld: slot %d, free %d, left %d%d%d%d\n", (long long)now_ms, got, free, may[0],
		    may[1], may[2], may[3]);
	}
}

int
main(void) {
	jeprof_target_t t = {.block = 4096, .clock_ahead_ms = CLOCK_AHEAD};
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
		default:
			look(&t);
		}
	}
	return bad != 0;
}
