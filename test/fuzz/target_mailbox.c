/*
 * Bytes that somebody wrote into the mailbox. First byte: which slot, and whether the checksum is
 * made right (else nearly nothing gets past it); the rest goes over slots and stream from there on.
 */
#include "target.h"

#include "prof/control/prof_session.h"

#define IS_SUMMED 0x80
#define IS_TEXT 0x40

/* The bytes are the text of a request, whose head is right. */
static void
put_text(prof_slot_t *s, const uint8_t *data, size_t size) {
	static uint64_t sequence = 1;
	s->length = (uint32_t)min_zu(size, sizeof(s->text));
	s->nonce = ++sequence;
	memcpy(s->text, data, s->length);
	s->checksum = prof_mailbox_sum(sequence, s->nonce, s->text, s->length);
	s->sequence = sequence;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	prof_mailbox_t *box = &prof_mailbox_block.box;
	if (size < 1) {
		return 0;
	}
	prof_slot_t *s = &box->slots[data[0] % PROF_MAILBOX_SLOTS];
	if ((data[0] & IS_TEXT) != 0) {
		put_text(s, data + 1, size - 1);
	} else {
		memcpy(s, data + 1, min_zu(size - 1, (size_t)((char *)(box + 1) - (char *)s)));
		if ((data[0] & IS_SUMMED) != 0 && s->length <= sizeof(s->text)) {
			s->checksum = prof_mailbox_sum(s->sequence, s->nonce, s->text, s->length);
		}
	}
	box->doorbell = 1;
	if (!prof_control_serve() || box->doorbell != 0) {
		abort();
	}
	for (unsigned i = 0; i < PROF_MAILBOX_SLOTS; i++) {
		const prof_slot_t *a = &box->slots[i];
		if (a->sequence != 0 && a->answered != a->sequence) {
			abort();
		}
	}
	prof_session_stop(0, NULL);
	return 0;
}
