/* util/smoothstep.h: the table against its formula in long double, its ends, symmetry and order. */
#include "test.h"

#include "util/smoothstep.h"

int
main(void) {
	const uint64_t one = UINT64_C(1) << SMOOTHSTEP_BFP;
	unsigned wrong = 0;
	unsigned unordered = 0;
	unsigned lopsided = 0;
	for (int i = 0; i < SMOOTHSTEP_NSTEPS; i++) {
		long double x = (long double)(i + 1) / SMOOTHSTEP_NSTEPS;
		long double h = x * x * x * (x * (x * 6 - 15) + 10) * (long double)one;
		long double diff = (long double)smoothstep_tab[i] - h;
		wrong += wrong_if(diff > 0.5001L) || wrong_if(diff < -0.5001L);
		unordered += i > 0 && smoothstep_tab[i] <= smoothstep_tab[i - 1];
		if (i < SMOOTHSTEP_NSTEPS - 1) {
			int64_t sum = (int64_t)(smoothstep_tab[i] + smoothstep_tab[SMOOTHSTEP_NSTEPS - 2 - i]);
			lopsided += wrong_if(sum - (int64_t)one > 1) || wrong_if((int64_t)one - sum > 1);
		}
	}
	is_uint(wrong, 0, "every entry is the nearest to the formula");
	is_uint(unordered, 0, "strictly rising");
	is_uint(lopsided, 0, "h(x) + h(1 - x) = 1");
	is_uint(smoothstep_tab[SMOOTHSTEP_NSTEPS - 1], one, "the last entry is one");
	is_uint(smoothstep_tab[SMOOTHSTEP_NSTEPS / 2 - 1], one / 2, "half way is one half");
	return done_testing();
}
