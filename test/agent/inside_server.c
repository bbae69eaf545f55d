/*
 * Inside of server.c: which connections are ended. At random connections begin, change phase, end
 * and grow old; a model of them says which one has to go. Prints what is wrong. Built by inside.t.
 */
#include <sys/socket.h>
static int note_shutdown(int fd, int how);
#define shutdown note_shutdown
#include "server.c"
#include "expect.h"
#include "../include/pick.h"

enum { LIMIT = 5, MOST = 40, NONE = MOST };
options_t options = {.connections_max = LIMIT};

struct MHD_Connection {
	union MHD_ConnectionInfo info;
	void *context;
	bool is_on, is_ended; /* of the model, as are the two below */
	phase_t phase;
	size_t unread;        /* bytes of the answer that it sends */
	uint64_t order;       /* of the start of the phase */
	int64_t since_ms;     /* time of that, or of the end */
	bool is_shut;         /* in the step at hand */
};
static struct MHD_Connection each[MOST];
static unsigned n_on;
static uint64_t norders;
static int64_t now_ms;

/* Called only by what changes the list. */
int64_t
client_now_ms(void) {
	expect("the lock is held", pthread_mutex_trylock(&conns_lock), EBUSY);
	return now_ms;
}

static int
note_shutdown(int fd, int how) {
	(void)how;
	each[fd].is_shut = true;
	return 0;
}

/* The file descriptor is the index in each[]. */
const union MHD_ConnectionInfo *
MHD_get_connection_info(struct MHD_Connection *c, enum MHD_ConnectionInfoType type, ...) {
	static union MHD_ConnectionInfo fd;
	fd.connect_fd = (int)(c - each);
	c->info.socket_context = c->context;
	return type == MHD_CONNECTION_INFO_CONNECTION_FD ? &fd : &c->info;
}

static void
model_phase(unsigned i, phase_t phase) {
	each[i].phase = phase;
	each[i].unread = 0;
	each[i].order = norders++;
	each[i].since_ms = now_ms;
}

static void
model_end(unsigned i) {
	each[i].is_ended = true;
	each[i].unread = 0;
	each[i].since_ms = now_ms;
}

/* The oldest in a phase but the newest of all. */
static unsigned
model_oldest(phase_t phase, unsigned newest) {
	unsigned found = NONE;
	for (unsigned i = 0; i < MOST; i++) {
		const struct MHD_Connection *c = &each[i];
		if (c->is_on && !c->is_ended && i != newest && c->phase == phase
		    && (found == NONE || c->order < each[found].order)) {
			found = i;
		}
	}
	return found;
}

static size_t
model_unread(void) {
	size_t sum = 0;
	for (unsigned i = 0; i < MOST; i++) {
		sum += each[i].is_on ? each[i].unread : 0;
	}
	return sum;
}

/* An answer begins: of those before it the oldest go while all together are too large. */
static void
answer(unsigned i, size_t bytes) {
	set_phase(&each[i], phase_sending, bytes);
	model_phase(i, phase_sending);
	each[i].unread = each[i].is_ended ? 0 : bytes;
	while (bytes > 0 && model_unread() > UNREAD_MAX) {
		unsigned victim = model_oldest(phase_sending, i);
		if (victim == NONE) {
			break;
		}
		expect("the oldest answer is shut down", each[victim].is_shut, true);
		model_end(victim);
	}
}

static void
begin(unsigned i) {
	on_connection(NULL, &each[i], &each[i].context, MHD_CONNECTION_NOTIFY_STARTED);
	each[i].is_on = true;
	model_phase(i, phase_reading);
	if (++n_on > LIMIT) {
		unsigned reading = model_oldest(phase_reading, i);
		unsigned victim = reading != NONE ? reading : model_oldest(phase_sending, i);
		expect("the oldest is shut down", victim == NONE || each[victim].is_shut, true);
		if (victim != NONE) {
			model_end(victim);
		}
	}
}

static void
end(unsigned i) {
	on_connection(NULL, &each[i], &each[i].context, MHD_CONNECTION_NOTIFY_CLOSED);
	expect("nothing is left", each[i].context == NULL, true);
	each[i].is_on = each[i].is_ended = false;
	n_on--;
}

static void
tick(void) {
	server_tick(now_ms);
	for (unsigned i = 0; i < MOST; i++) {
		struct MHD_Connection *c = &each[i];
		int64_t age = now_ms - c->since_ms;
		if (c->is_on && !c->is_ended && ((c->phase == phase_reading && age > 30000)
		    || (c->phase == phase_sending && age > 60000))) {
			expect("one that takes too long is shut down", c->is_shut, true);
			model_end(i);
		}
	}
}

/* Behind each step. */
static void
check(void) {
	bool is_due = false;
	for (unsigned i = 0; i < MOST; i++) {
		const struct MHD_Connection *c = &each[i];
		is_due = is_due || (c->is_on && !c->is_ended && c->phase != phase_reading);
		expect("no other one is", c->is_shut && !c->is_ended, false);
	}
	expect("whether an answer is due", is_answering(), is_due);
	expect("the number of them", conn_count, n_on);
	expect("bytes of answers", (long long)unread, (long long)model_unread());
}

int
main(void) {
	void *none = NULL;
	on_connection(NULL, &each[0], &none, MHD_CONNECTION_NOTIFY_CLOSED); /* had no memory */
	for (unsigned step = 0; step < 100000; step++) {
		unsigned i = pick(MOST);
		now_ms += 1000 * (pick(20) == 0 ? pick(65) : pick(2));
		for (unsigned k = 0; k < MOST; k++) {
			each[k].is_shut = false;
		}
		if (!each[i].is_on) {
			begin(i);
		} else if (pick(3) == 0) {
			end(i);
		} else if (pick(10) == 0) {
			tick();
		} else {
			phase_t phase = (phase_t)pick(3);
			if (phase == phase_sending) {
				answer(i, (size_t)pick(200) << 20);
			} else {
				set_phase(&each[i], phase, 0);
				model_phase(i, phase);
			}
		}
		check();
	}
	return bad;
}
