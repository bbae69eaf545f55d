/* thread/thread_event.h: heartbeats by bytes, and the distances to samples, drawn and counted. */
#include "core.h"

#include <math.h>

#include "os/nstime.h"
#include "thread/thread_event.h"
#include "thread/tsd.h"

static tsd_t *tsd;
static uint64_t n_beats, beat_bytes, bad_beats;

static void
on_beat(tsd_t *who, uint64_t bytes) {
	n_beats++;
	beat_bytes += bytes;
	bad_beats += who != tsd || tls_get()->inside == 0 || tls_get()->gate_depth == 0;
	/* Allocation in here must not beat again. */
	free(keep(malloc(200000)));
	free(keep(malloc(100)));
}

static thread_event_hook_t *const hooks[] = {on_beat, NULL};

static void
test_heartbeat(const char *what, size_t size, unsigned n, uint64_t most_apart) {
	thread_event_hook_t *const *saved = thread_event_hooks;
	tsd_enter();
	uint64_t before = tsd_allocated(tsd);
	tsd->event_bytes = 0;
	tsd_leave();
	n_beats = beat_bytes = bad_beats = 0;
	thread_event_hooks = hooks;
	for (unsigned i = 0; i < n; i++) {
		free(keep(malloc(size)));
	}
	thread_event_hooks = saved;
	tsd_enter();
	uint64_t bytes = tsd_allocated(tsd) - before;
	tsd_leave();
	/* What the hook itself allocates comes on top. */
	uint64_t own = bytes - n_beats * (sz_s2u(200000) + sz_s2u(100));
	is_uint(own, n * sz_s2u(size), "%s: all counted", what);
	is_uint(bad_beats, 0, "%s: in the gate, events off", what);
	ok(n_beats >= own / most_apart - 2, "%s: %llu beats in %llu bytes", what,
	    (unsigned long long)n_beats, (unsigned long long)own);
	ok(beat_bytes <= bytes + 65536 && beat_bytes + 4 * most_apart >= own,
	    "%s: they are told of %llu bytes", what, (unsigned long long)beat_bytes);
}

static void
test_draws(double mean_bytes, size_t usize) {
	unsigned n = 200000, ones = 0;
	double sum = 0, square = 0;
	double p = 1 - exp(-(double)usize / mean_bytes);
	__atomic_store_n(&thread_event_sample_interval.repr, (uint64_t)mean_bytes, __ATOMIC_SEQ_CST);
	tsd->prng = usize;
	for (unsigned i = 0; i < n; i++) {
		uint64_t k = thread_event_draw_objects(tsd, usize);
		ones += k == 1;
		sum += (double)k;
		square += (double)k * (double)k;
	}
	double mean = sum / n, var = square / n - mean * mean, want_var = (1 - p) / (p * p);
	double dev = sqrt(want_var / n) + 1e-9;
	ok(fabs(mean - 1 / p) < 5 * dev, "usize %zu: mean %.3f, expected %.3f", usize, mean, 1 / p);
	ok(fabs(var - want_var) < want_var * 0.05 + 1e-3, "variance %.2f, expected %.2f", var, want_var);
	ok(fabs(ones - n * p) < 5 * sqrt(n * p * (1 - p)) + 1, "at once: %u, expected %.0f", ones, n * p);
	/* Past the cache: the same probability for each request. */
	unsigned samples = 0;
	tsd->sample_gap = thread_event_draw_bytes(tsd);
	for (unsigned i = 0; i < n; i++) {
		samples += thread_event_is_sample(tsd, usize);
	}
	ok(fabs(samples - n * p) < 5 * sqrt(n * p * (1 - p)) + 2, "past the cache: %u samples, expected %.0f",
	    samples, n * p);
}

static void
test_special(void) {
	__atomic_store_n(&thread_event_sample_interval.repr, 0, __ATOMIC_SEQ_CST);
	ok(thread_event_draw_objects(tsd, 8) == UINT64_MAX && thread_event_draw_bytes(tsd) == UINT64_MAX,
	    "interval 0: never");
	tsd->sample_gap = UINT64_MAX;
	ok(!thread_event_is_sample(tsd, SC_LARGE_MAXCLASS) && tsd->sample_gap == UINT64_MAX,
	    "not even the largest, and the gap stays");
	__atomic_store_n(&thread_event_sample_interval.repr, 1, __ATOMIC_SEQ_CST);
	unsigned bad = 0;
	tsd->sample_gap = thread_event_draw_bytes(tsd);
	for (unsigned i = 0; i < 1000; i++) {
		bad += thread_event_draw_objects(tsd, 8) != 1 || !thread_event_is_sample(tsd, 8);
	}
	is_uint(bad, 0, "interval 1: each one");
	__atomic_store_n(&thread_event_sample_interval.repr, UINT64_MAX / 2, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < 1000; i++) {
		bad += thread_event_draw_objects(tsd, 8) < 1000;
	}
	is_uint(bad, 0, "a huge interval does not wrap");
	__atomic_store_n(&thread_event_sample_interval.repr, 0, __ATOMIC_SEQ_CST);
	tsd->sample_gap = UINT64_MAX;
}

static void
body(void) {
	free(keep(malloc(1)));
	tsd = tsd_enter();
	tsd_leave();
	test_heartbeat("64 bytes", 64, 20000, 65536);
	test_heartbeat("3000 bytes", 3000, 2000, 131072);
	test_heartbeat("30000 bytes", 30000, 500, 131072);
	test_heartbeat("large", 100 * PAGE, 50, 131072 + 100 * PAGE);
	test_draws(4096, 64);
	test_draws(4096, 8);
	test_draws(524288, 16384);
	test_draws(1000, 4096);
	test_special();
}

int
main(int argc, char **argv) {
	return core_run_all_pages(argc, argv, body);
}
