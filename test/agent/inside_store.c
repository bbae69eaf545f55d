/*
 * Inside of dead_store.c: which of the dead are kept. Processes of some programs and users end at
 * random, with files of random size, and time passes; a model says which ones have to go. Prints
 * what is wrong. Built by inside.t.
 */
#include "dead_store.c"
#include "expect.h"
#include "../include/pick.h"

options_t options;

static uint64_t clock_ms = 1;

uint64_t
client_clock_ns(clockid_t which) {
	expect("the clock that is never set", which, CLOCK_BOOTTIME);
	return clock_ms * 1000000;
}

/* The model: those that are there, in the order of their ends. */
static struct {
	unsigned key, program, user;
	bool is_harmless;      /* exited with status 0 or an unknown one */
	uint64_t bytes, end_ms;
} is_there[DEAD_MAX + 1];
static unsigned n_there;

static void
forget(unsigned i) {
	n_there--;
	memmove(&is_there[i], &is_there[i + 1], (n_there - i) * sizeof(is_there[0]));
}

static unsigned
n_alike(unsigned i) {
	unsigned n = 0;
	for (unsigned k = 0; k < n_there; k++) {
		n += is_there[k].program == is_there[i].program && is_there[k].user == is_there[i].user;
	}
	return n;
}

/* Whether i has to go before k, which is older. */
static bool
goes_before(unsigned i, unsigned k) {
	return is_there[i].is_harmless != is_there[k].is_harmless ? is_there[i].is_harmless
	    : n_alike(i) > n_alike(k);
}

static void
model_expire(void) {
	for (unsigned i = n_there; i-- > 0;) {
		if (clock_ms - is_there[i].end_ms >= DEAD_MS) {
			forget(i);
		}
	}
	for (;;) {
		uint64_t bytes = 0;
		unsigned first = 0;
		for (unsigned i = 0; i < n_there; i++) {
			bytes += is_there[i].bytes;
			first = goes_before(i, first) ? i : first;
		}
		if (n_there <= 64 && bytes <= 64 << 20) {
			return;
		}
		forget(first);
	}
}

/* One ends, or has ended a while ago, as an earlier jeprofd has noted it. */
static void
end_one(unsigned key) {
	entry_t e = {.d = calloc(1, sizeof(*e.d)), .fds = {-1, -1}};
	uint64_t age_ms = pick(4) > 0 ? 0 : pick(DEAD_MS + DEAD_MS / 8);
	unsigned most = pick(40) == 0 ? 30 << 20 : 1 << 20, program = pick(10), user = pick(2);
	e.bytes[dead_box] = pick(most);
	e.bytes[dead_pprof] = pick(3) > 0 ? 0 : pick(most);
	e.d->how = (end_t)pick(end_count);
	e.d->code = (int)pick(3) - 1;
	snprintf(e.d->key, sizeof(e.d->key), "%u", key);
	snprintf(e.d->labels.exe, sizeof(e.d->labels.exe), "%u", program);
	snprintf(e.d->labels.user, sizeof(e.d->labels.user), "%u", user);
	is_there[n_there].key = key;
	is_there[n_there].program = program;
	is_there[n_there].user = user;
	is_there[n_there].is_harmless = e.d->how == end_exit && e.d->code <= 0;
	is_there[n_there].bytes = e.bytes[dead_box] + e.bytes[dead_pprof];
	is_there[n_there++].end_ms = clock_ms - age_ms;
	add(&e, age_ms);
}

static void
compare(const dead_t *d, void *arg) {
	unsigned *left = arg;
	expect("the next one", *left > 0 ? (int)is_there[*left - 1].key : -1, atoi(d->key));
	*left -= *left > 0;
}

int
main(void) {
	clock_ms = UINT64_C(2) * DEAD_MS;
	for (unsigned step = 0; step < 20000 && !bad; step++) {
		clock_ms += pick(DEAD_MS / 100);
		if (pick(4) > 0) {
			end_one(step);
		} else {
			dead_expire();
		}
		model_expire();
		bool is_kept = false;
		char key[DEAD_KEY];
		unsigned one = step - pick(step < 100 ? step + 1 : 100);
		dead_t found = {.key = ""};
		snprintf(key, sizeof(key), "%u", one);
		dead_counts_t n;
		unsigned left = n_there;
		uint64_t bytes = 0;
		dead_each(compare, &left);
		dead_count(&n);
		for (unsigned i = 0; i < n_there; i++) {
			bytes += is_there[i].bytes;
			is_kept = is_kept || is_there[i].key == one;
		}
		expect("whether one is found", dead_find(key, &found), is_kept);
		expect("and it is this one", is_kept && strcmp(found.key, key) != 0, false);
		expect("all of them", left, 0);
		expect("their number", n.kept, n_there);
		expect("their bytes", (long long)n.bytes, (long long)bytes);
	}
	return bad;
}
