/*
 * Writes rubbish into the mailbox of a running process, through the doors of jeprofctl, whose rooms
 * are linked to it. usage: fuzz PID SECONDS [SEED]; exit 0 if the process lives and its mailbox
 * still bears its magic. What is written: random bytes over everything that an asker may write;
 * requests with a right checksum and senseless text, or a blank too many; lengths beyond the slot;
 * nonces and sequences of others; places of profiles.
 */
#include "ctl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/target.h"
#include "talk.h"
#include "value.h"

static uint64_t seed;

static uint64_t
next(void) {
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static void
fill(void *to, size_t size) {
	for (size_t i = 0; i < size; i++) {
		((char *)to)[i] = (char)next();
	}
}

/* A request that exists, with a blank behind it; none of them changes anything in the process. */
static void
with_blank(prof_slot_t *s) {
	static const char *const texts[] = {"dump-stream ", "dump-delta-stream ", "status ", "stop  "};
	const char *text = texts[next() % (sizeof(texts) / sizeof(texts[0]))];
	strcpy(s->text, text);
	s->length = (uint32_t)strlen(text);
	s->checksum = prof_mailbox_sum(s->sequence, s->nonce, s->text, s->length);
}

/* A request that is a message, but asks for nothing that exists. */
static void
senseless(prof_slot_t *s) {
	static const char *const starts[] = {"", "start highwater_metric:", "start reset:", "stop x",
	    "set ", "set x:", "status ", "dump-stream ", "rearm ", "start ,", "start :", "fly ",
	    "START "};
	const char *start = starts[next() % (sizeof(starts) / sizeof(starts[0]))];
	fill(s->text, sizeof(s->text));
	memcpy(s->text + strlen(start), "?\1", 2);
	memcpy(s->text, start, strlen(start));
	s->length = (uint32_t)(strlen(start) + 40 + next() % 900);
	s->checksum = prof_mailbox_sum(s->sequence, s->nonce, s->text, s->length);
}

static void
one_write(jeprof_target_t *p) {
	prof_slot_t s;
	uint64_t at = client_slot_at(p, next() % PROF_MAILBOX_SLOTS), word = next();
	uint32_t ring = (uint32_t)next() | 1;
	fill(&s, sizeof(s));
	switch (next() % 7) {
	case 0: /* all bytes */
		break;
	case 1: /* a message without sense */
	case 2:
		senseless(&s);
		break;
	case 3: /* too long by a little or much */
		s.length = PROF_MAILBOX_TEXT - 2 + next() % 4;
		s.checksum = prof_mailbox_sum(s.sequence, s.nonce, s.text, s.length < PROF_MAILBOX_TEXT
		    ? s.length : PROF_MAILBOX_TEXT);
		break;
	case 4: /* a message with a blank too many */
		with_blank(&s);
		break;
	case 5: /* the sequence alone */
		need(p, client_write_word(p, at, &word, sizeof(word)));
		return;
	default: /* where a profile waits */
		at = p->block + offsetof(prof_mailbox_t, streams) + next() % (PROF_MAILBOX_SLOTS
		    * sizeof(prof_stream_t) / 8) * 8;
		need(p, client_write_word(p, at, &word, sizeof(word)));
		return;
	}
	size_t size = next() % 4 == 0 ? sizeof(s) : offsetof(prof_slot_t, answered);
	need(p, client_write_word(p, at, &s, size));
	need(p, client_write_word(p, p->block + offsetof(prof_mailbox_t, doorbell), &ring,
	    sizeof(ring)));
}

int
main(int argc, char **argv) {
	static jeprof_target_t p;
	uint64_t writes = 0, none = 0;
	if (argc < 3 || jeprof_find(&p, atoi(argv[1])) != 0) {
		leave(EXIT_USAGE, "usage: fuzz PID SECONDS [SEED]");
	}
	seed = argc > 3 ? strtoull(argv[3], NULL, 10) : client_random_word();
	printf("seed %" PRIu64 "\n", seed);
	fflush(stdout);
	need(&p, jeprof_open(&p, NULL));
	for (int64_t end = client_now_ms() + (int64_t)(strtod(argv[2], NULL) * 1000);
	    client_now_ms() < end; writes++) {
		one_write(&p);
		if (writes % 16 == 0) {
			client_sleep_ms(1);
		}
	}
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		need(&p, client_write_word(&p, client_slot_at(&p, i), &none, sizeof(none)));
	}
	need(&p, jeprof_check_same(&p));
	if (jeprof_look(&p) != 0) {
		leave(EXIT_FAILED, "the mailbox is broken");
	}
	printf("%" PRIu64 " writes, heartbeats %" PRIu64 "\n", writes, p.head.heartbeats);
	return 0;
}
