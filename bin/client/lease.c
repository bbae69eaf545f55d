/*
 * Leases of requests in the mailbox (prof_mailbox.h has the format): until when the process may
 * take a request, so that it does not carry one out after its client was killed. Invariant: the
 * lease of a request is written before its sequence is stored in the slot; later only its client
 * changes it, or the client that uses the slot next. The times are those of the monotonic clock of
 * the process, which may not be that of this client (time namespaces, libfaketime); they are taken
 * to be the same until the process says otherwise (client_try_set_clock). No locks; all state is
 * in the jeprof_target_t. Called by mailbox.c, pending.c and directory.c.
 */
#include "client/target.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* Address, or offset in the mailbox file, of the lease of a slot. */
static uint64_t
lease_at(const jeprof_target_t *t, unsigned slot) {
	return t->block + offsetof(prof_mailbox_t, leases) + slot * sizeof(prof_lease_t);
}

uint64_t
client_lease_end(const jeprof_target_t *t, uint64_t span_ms) {
	return (uint64_t)(client_now_ms() + t->clock_ahead_ms) + span_ms;
}

bool
client_is_lease_over(const jeprof_target_t *t, const prof_lease_t *lease) {
	return prof_lease_is_over(lease->until_ms, lease->span_ms, client_lease_end(t, 0));
}

bool
client_read_lease(const jeprof_target_t *t, unsigned slot, uint64_t sequence, prof_lease_t *lease) {
	if (!client_read_memory(t, lease_at(t, slot), lease, sizeof(*lease))) {
		return false;
	}
	if (lease->sequence != sequence) {
		*lease = (prof_lease_t){0};
	}
	return true;
}

int
client_begin_lease(jeprof_target_t *t, unsigned slot, uint64_t sequence) {
	prof_lease_t l = {sequence, PROF_LEASE_MS, client_lease_end(t, PROF_LEASE_MS)};
	return client_write_word(t, lease_at(t, slot), &l, sizeof(l));
}

void
client_renew_lease(jeprof_target_t *t, uint64_t span_ms) {
	uint64_t at = lease_at(t, t->slot), until_ms = client_lease_end(t, span_ms), before_ms;
	uint64_t span_at = at + offsetof(prof_lease_t, span_ms);
	/*
	 * The process reads the end, then the span, at any moment; if more time is left than the span,
	 * the lease counts as over. So the span is written first, and is not made shorter: an end that
	 * the process has read before may need the longer one. 0, no end, fits every end; after it
	 * nothing is renewed, as jeprof_let_stay() then forgets the request.
	 */
	if (span_ms == 0 || !client_read_memory(t, span_at, &before_ms, sizeof(before_ms))
	    || span_ms > before_ms) {
		client_write_memory(t, span_at, &span_ms, sizeof(span_ms));
	}
	client_write_memory(t, at + offsetof(prof_lease_t, until_ms), &until_ms, sizeof(until_ms));
}

bool
client_try_set_clock(jeprof_target_t *t, const jeprof_reply_t *reply) {
	uint64_t now_ms;
	if (reply->error != ESTALE || sscanf(reply->text, "now_ms=%" SCNu64, &now_ms) != 1) {
		return false;
	}
	t->clock_ahead_ms = (int64_t)(now_ms - (uint64_t)client_now_ms());
	return true;
}
