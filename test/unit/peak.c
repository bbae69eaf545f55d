/* thread/peak.h: the most bytes in use at once since the last reset. */
#include "core.h"

#include "thread/peak.h"
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

int
main(void) {
	static void *p[5000];
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
	reset();
	for (unsigned i = 0; i < 5000; i++) {
		p[i] = keep(malloc(1024));
	}
	for (unsigned i = 0; i < 5000; i++) {
		free(p[i]);
	}
	uint64_t seen = peak();
	uint64_t top = 5000 * canary_usize(1024, 0);
	ok(seen <= top && seen + 131072 >= top, "between reads: %llu of %llu",
	    (unsigned long long)seen, (unsigned long long)top);
	reset();
	is_uint(peak(), 0, "reset again");
	return done_testing();
}
