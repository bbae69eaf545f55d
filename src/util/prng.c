/*
 * Random numbers of two distributions, uniform and exponential. The library does not use libm.
 * Exponential numbers are drawn by a ziggurat (Marsaglia and Tsang's name for it): the area below
 * e^-x is covered by PRNG_LAYERS pieces of the same area v. Piece i > 0 is a rectangle of the width
 * x[i] between the heights f(x[i]) and f(x[i + 1]), f(x) = e^-x; piece 0 is what lies below
 * f(x[1]), the tail beyond x[1] included, and counts as a rectangle of the width x[0] = v / f(x[1])
 * = x[1] + 1. A point is drawn in a piece that is drawn first, all being equally likely; if it lies
 * below the curve, its x is the result, which is exponential to the precision of a double. Left of
 * x[i + 1] a point of piece i is below the curve without a look, which 96 of 100 are. Draws change
 * only the caller's state; no lock. thread/thread_event.c calls prng_exponential() for the distance
 * to the next sample.
 */
#include "util/prng.h"

#include "util/assert.h"

/*
 * x[0] = x[1] + 1 and x[i + 1] = -ln(v / x[i] + f(x[i])), where v = (x[1] + 1) f(x[1]), and x[1] is
 * the one for which the last is 0.
 */
const double prng_layers[PRNG_LAYERS + 1] = {
	0x1.c50b68455eb3ep+2, 0x1.850b68455eb3ep+2, 0x1.539fd06cb047ep+2, 0x1.34e555008df5ap+2,
	0x1.1e7d10e5bb225p+2, 0x1.0ccb073238386p+2, 0x1.fc430ac62e512p+1, 0x1.e32b9aa66cb44p+1,
	0x1.cd332dfad927cp+1, 0x1.b9a039bdbf37p+1, 0x1.a7f303bbd385fp+1, 0x1.97cfd8f39d2bfp+1,
	0x1.88f2a5940c09ep+1, 0x1.7b2777e962354p+1, 0x1.6e45c346346eep+1, 0x1.622d41d83ace7p+1,
	0x1.56c3d5f629919p+1, 0x1.4bf40ea3ff821p+1, 0x1.41ac17b5f4c3p+1, 0x1.37dcf2e21fb35p+1,
	0x1.2e79e371b38p+1, 0x1.2577fdd5afc1cp+1, 0x1.1ccdd12818ebep+1, 0x1.147323b803a0fp+1,
	0x1.0c60bdc88bfd2p+1, 0x1.04903f0b0034fp+1, 0x1.f9f7f89d54ecfp+0, 0x1.eb3dc713e5e6ap+0,
	0x1.dce8c9b182cb1p+0, 0x1.cef0bec505c06p+0, 0x1.c14e22b278019p+0, 0x1.b3fa14e2ef431p+0,
	0x1.a6ee40aabf0fp+0, 0x1.9a24c95e39d3fp+0, 0x1.8d9838f40aed2p+0, 0x1.814370b15bcc2p+0,
	0x1.75219b71b80e3p+0, 0x1.692e212c8eb25p+0, 0x1.5d649b6550d08p+0, 0x1.51c0ca3a31aa1p+0,
	0x1.463e89c8c4121p+0, 0x1.3ad9c79f1fc3bp+0, 0x1.2f8e77eb88692p+0, 0x1.24588a12ffd64p+0,
	0x1.1933dc476f50cp+0, 0x1.0e1c2d9e0f075p+0, 0x1.030d0e031a283p+0, 0x1.f0039667072b6p-1,
	0x1.d9eab3301aa09p-1, 0x1.c3c46ed33ae96p-1, 0x1.ad848fae31939p-1, 0x1.971d45a8e5bc2p-1,
	0x1.807ea910fada4p-1, 0x1.6996090d58f51p-1, 0x1.524cf09068dabp-1, 0x1.3a87b7f9c1b57p-1,
	0x1.22235a9e8d0a9p-1, 0x1.08f20ab5f1cdep-1, 0x1.dd6afd78dcdffp-2, 0x1.a629a14d4a192p-2,
	0x1.6b11ca73c4a4bp-2, 0x1.2a63c970e80d2p-2, 0x1.c1a92e2be340ap-3, 0x1.0d6cd22b01539p-3,
	0
};

uint64_t
prng_range(uint64_t *state, uint64_t n) {
	assert(n > 0);
	/*
	 * Accepts only values below the greatest multiple of n up to 2^64, so that all remainders are
	 * equally likely. excess: 2^64 mod n, how many values are not accepted.
	 */
	uint64_t excess = (UINT64_MAX % n + 1) % n;
	uint64_t r = prng_u64(state);
	while (r > UINT64_MAX - excess) {
		r = prng_u64(state);
	}
	return r % n;
}

double
prng_exponential_edge(uint64_t *state, unsigned i, double x) {
	assert(i < PRNG_LAYERS && x >= prng_layers[i + 1]);
	if (i == 0) { /* the tail has the shape of the whole */
		return prng_layers[1] + prng_exponential(state);
	}
	/*
	 * The piece is as high as f(x[i + 1]) (1 - e^-width) there, and the curve has fallen by
	 * f(x[i + 1]) (1 - e^-left). It falls below its chord, and 1 - e^-z lies between z - z^2 / 2
	 * and z; so most points need no exponential.
	 */
	double width = prng_layers[i] - prng_layers[i + 1], left = x - prng_layers[i + 1];
	double u = prng_double(state);
	bool is_below = u * width > left && (u * (width - width * width / 2) > left
	    || u * expm1_neg(width) > expm1_neg(left));
	return is_below ? x : prng_exponential(state);
}
