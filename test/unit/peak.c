/* thread/peak.h: the most bytes in use at once since the last reset. */
#include "core.h"

#include "thread/peak.h"
#include "thread/tcache_set.h"
#include "thread/tsd.h"

static uint64_t
peak(void) {
	tsd_t *tsd = tsd_enter();
	uint64_t p = peak_read(tsd);
	tsd_leave();
	return p;
}

static void
reset(void) {
	tsd_t *tsd = tsd_enter();
	peak_reset(tsd);
	tsd_leave();
}

static void *p[5000];

static void
take_and_free(unsigned n) {
	for (unsigned i = 0; i < n; i++) {
		p[i] = keep(malloc(1024));
	}
	for (unsigned i = 0; i < n; i++) {
		free(p[i]);
	}
}

/* At each read the peak is exact, whether a heartbeat came or not. */
static void
test_reads(void) {
	uint64_t seed = 5, net = 0, top = 0;
	unsigned bad = 0;
	static size_t sizes[50];
	memset(p, 0, sizeof(p));
	reset();
	for (unsigned i = 0; i < 3000; i++) {
		size_t k = draw_below(&seed, ARRAY_LEN(sizes));
		if (p[k] != NULL) {
			free(p[k]);
			net -= sizes[k];
			p[k] = NULL;
			continue;
		}
		size_t size = 1 + draw_below(&seed, 2000);
		p[k] = keep(malloc(size));
		sizes[k] = canary_usize(size, 0);
		net += sizes[k];
		top = net > top ? net : top;
		bad += wrong_if(peak() != top);
	}
	is_uint(bad, 0, "the peak is exact at each read");
	for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
		free(p[k]);
	}
}

int
main(void) {
	void *before = keep(malloc(1 << 20));
	reset();
	is_uint(peak(), 0, "after a reset: nothing");
	void *a = keep(malloc(100000));
	is_uint(peak(), sz_s2u(100000), "what is in use");
	free(a);
	is_uint(peak(), sz_s2u(100000), "stays when it is freed");
	a = keep(malloc(50000));
	is_uint(peak(), sz_s2u(100000), "less than that changes nothing");
	void *b = keep(malloc(80000));
	is_uint(peak(), sz_s2u(50000) + sz_s2u(80000), "more does");
	free(a);
	free(b);
	reset();
	free(before);
	is_uint(peak(), 0, "below the mark: nothing");
	before = keep(malloc((1 << 20) + 30000));
	is_uint(peak(), sz_s2u((1 << 20) + 30000) - sz_s2u(1 << 20), "counted from the mark");
	free(before);
	/* Large blocks that the cache holds: the top is seen although nothing is read there. */
	for (unsigned round = 0; round < 3; round++) {
		reset();
		for (unsigned i = 0; i < 4; i++) {
			p[i] = keep(malloc(1 << 20));
		}
		for (unsigned i = 0; i < 4; i++) {
			free(p[i]);
		}
		is_uint(peak(), 4 * sz_s2u(1 << 20), "four large blocks, round %u", round);
	}
	/* Nobody reads at the top; the heartbeats see it, to within 64 KiB or so. */
	for (unsigned n = 5000, round = 0; round < 4; round++, n = 1000) {
		/* All that is taken in later rounds was in the cache. */
		tcache_ncached_max_set(tsd_enter(), 1024, 1280, 1000);
		tsd_leave();
		reset();
		take_and_free(n);
		uint64_t seen = peak();
		uint64_t top = n * canary_usize(1024, 0);
		ok(seen <= top && seen + 131072 >= top, "between reads: %llu of %llu",
		    (unsigned long long)seen, (unsigned long long)top);
	}
	reset();
	is_uint(peak(), 0, "reset again");
	test_reads();
	return done_testing();
}
