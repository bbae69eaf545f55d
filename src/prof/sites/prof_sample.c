/*
 * The sampling rate and the weight of a sample (prof_sample.h).
 *
 * Invariant: the interval published to the threads (thread_event_sample_interval) is the rate while
 * sampling is on, else the rate of tracers, which is 0 without one. The rates and the switch
 * change, and the interval is published, under the lock `prof_sampling`, inside the fork gate
 * (os/gate.h); under it recall_all() takes the lock of the gate's list of threads. Reads and
 * weights take no lock. Called by prof_switch.c, prof_start.c, prof_session.c and prof_budget.c for
 * changes, by prof.c for weights, and by prof_dump.c, prof_recent.c, prof_request.c and others to
 * read the rate.
 */
#include "prof/sites/prof_sample.h"

#include "os/gate.h"
#include "os/mutex.h"
#include "prof/sites/prof_root.h"
#include "thread/recall.h"
#include "thread/thread_event.h"
#include "util/prng.h"

/*
 * Upper limit of a weight, in objects. At a rate where a small object stands for more objects,
 * sampling is practically off.
 */
#define WEIGHT_MAX (UINT64_C(1) << 40)
/*
 * Doublings, and bytes, beyond which prof_sample_scale() does not go; a rate that was set above
 * RATE_MAX stays as it is.
 */
#define SHIFT_MAX 20
#define RATE_MAX (UINT64_C(1) << 40)

static struct {
	mutex_t mtx; /* all below change under it */
	atomic_u64_t base; /* the rate in bytes as it was set */
	unsigned shift;    /* doublings on top of that, by prof_sample_scale() */
	atomic_u64_t rate; /* the rate in bytes that follows from both */
	bool is_on;        /* prof.active is true, and boot is complete */
	uint64_t listener_interval; /* bytes, while is_on is false; 0: no tracer is attached */
} sampling = {.mtx = MUTEX_INITIALIZER("prof_sampling", WITNESS_RANK_LEAF)};

cassert(PROF_WEIGHT_ONE == IMAGE_WEIGHT_ONE);
/* The largest weight, as a fixed-point number, fits 64 bits. */
cassert(WEIGHT_MAX <= UINT64_MAX / PROF_WEIGHT_ONE);

uint64_t
prof_sample_configured(void) {
	if (opt_prof_sample_interval != 0) {
		return opt_prof_sample_interval;
	}
	return UINT64_C(1) << (opt_lg_prof_sample < 64 ? opt_lg_prof_sample : 63);
}

uint64_t
prof_sample_rate(void) {
	return atomic_load_u64(&sampling.rate, MO_RELAXED);
}

/* Publishes the interval that follows from the fields; if it changed, all threads soon have it. */
static void
sampling_publish_locked(void) {
	mutex_assert_owner(&sampling.mtx);
	assert(gate_is_entered(tls_get())); /* otherwise a forked child could find the lock taken */
	uint64_t interval = sampling.is_on ? prof_sample_rate() : sampling.listener_interval;
	uint64_t old = atomic_load_u64(&thread_event_sample_interval, MO_RELAXED);
	atomic_store_u64(&thread_event_sample_interval, interval, MO_SEQ_CST);
	if (old != interval) {
		recall_all(RECALL_SETTINGS);
	}
}

/* Computes the rate from `base` and `shift`, stores it, tells the root, and publishes it. */
static void
rate_make_locked(void) {
	mutex_assert_owner(&sampling.mtx);
	uint64_t base = atomic_load_u64(&sampling.base, MO_RELAXED);
	uint64_t rate = base > RATE_MAX >> sampling.shift ? (base > RATE_MAX ? base : RATE_MAX)
	    : base << sampling.shift;
	atomic_store_u64(&sampling.rate, rate, MO_RELAXED);
	__atomic_store_n(&prof_root()->rate, rate, MO_RELAXED);
	sampling_publish_locked();
}

void
prof_sample_rate_set(uint64_t rate) {
	assert(rate > 0);
	gate_lock(&sampling.mtx);
	atomic_store_u64(&sampling.base, rate, MO_RELAXED);
	sampling.shift = 0;
	rate_make_locked();
	gate_unlock(&sampling.mtx);
}

uint64_t
prof_sample_base(void) {
	return atomic_load_u64(&sampling.base, MO_RELAXED);
}

void
prof_sample_scale(int doublings) {
	gate_lock(&sampling.mtx);
	int shift = (int)sampling.shift + doublings;
	shift = shift < 0 ? 0 : shift > SHIFT_MAX ? SHIFT_MAX : shift;
	if (sampling.shift != (unsigned)shift) {
		sampling.shift = (unsigned)shift;
		rate_make_locked();
	}
	gate_unlock(&sampling.mtx);
}

void
prof_sample_switch(bool on, uint64_t listener_interval) {
	gate_lock(&sampling.mtx);
	sampling.is_on = on;
	sampling.listener_interval = listener_interval;
	sampling_publish_locked();
	gate_unlock(&sampling.mtx);
}

/*
 * prof_weight() by its definition, in 1/65536 of an object (1 / PROF_WEIGHT_ONE), rounded; the
 * weight is limited to 1 to WEIGHT_MAX objects.
 */
static uint64_t
weight_compute(size_t usize, uint64_t rate) {
	double p = expm1_neg((double)usize / (double)rate);
	double w = 1.0 / p;
	if (!(w < (double)WEIGHT_MAX)) {
		return WEIGHT_MAX * PROF_WEIGHT_ONE;
	}
	uint64_t weight = (uint64_t)(w * (double)PROF_WEIGHT_ONE + 0.5);
	assert(weight / PROF_WEIGHT_ONE <= WEIGHT_MAX);
	return weight < PROF_WEIGHT_ONE ? PROF_WEIGHT_ONE : weight;
}

/*
 * Cache of the weights of recent sizes, by a hash of the size; all threads read and write it
 * without a lock. The key is made of size and rate, both below 2^32, mixed with the weight, so that
 * words of two writers do not match each other. Both 0: the slot is empty.
 */
#define WEIGHT_KNOWN_BITS 32
static LARGE_BSS struct weight_s {
	atomic_u64_t weight;
	atomic_u64_t key;
} weights[64];

ALWAYS_INLINE uint64_t
weight_key(size_t usize, uint64_t rate, uint64_t weight) {
	return ((uint64_t)usize | rate << WEIGHT_KNOWN_BITS) ^ weight * UINT64_C(0xd6e8feb86659fd93);
}

static NOINLINE uint64_t
weight_learn(struct weight_s *known, size_t usize, uint64_t rate) {
	uint64_t weight = weight_compute(usize, rate);
	if (((usize | rate) >> WEIGHT_KNOWN_BITS) == 0) {
		atomic_store_u64(&known->weight, weight, MO_RELAXED);
		atomic_store_u64(&known->key, weight_key(usize, rate, weight), MO_RELAXED);
	}
	return weight;
}

uint64_t
prof_weight(size_t usize, uint64_t rate) {
	assert(usize > 0 && rate > 0);
	if (rate == 1) {
		return PROF_WEIGHT_ONE;
	}
	struct weight_s *known = &weights[((uint64_t)usize * UINT64_C(0x9e3779b97f4a7c15)) >> 58];
	uint64_t weight = atomic_load_u64(&known->weight, MO_RELAXED);
	if (likely(((usize | rate) >> WEIGHT_KNOWN_BITS) == 0)
	    && likely(atomic_load_u64(&known->key, MO_RELAXED) == weight_key(usize, rate, weight))) {
		assert(weight == weight_compute(usize, rate));
		return weight;
	}
	return weight_learn(known, usize, rate);
}
