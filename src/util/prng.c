/*
 * Random numbers of two distributions, uniform and exponential. The library does not use libm.
 * Exponential numbers are drawn by a ziggurat (Marsaglia and Tsang's name for it): the area below
 * e^-x is covered by PRNG_LAYERS pieces of the same area v. Piece i > 0 is a rectangle of the width
 * x[i] between the heights f(x[i]) and f(x[i + 1]), f(x) = e^-x; piece 0 is what lies below
 * f(x[1]), the tail beyond x[1] included, and counts as a rectangle of the width x[0] = v / f(x[1])
 * = x[1] + 1. First a piece is drawn, each with the same probability, then a point in it. If the
 * point lies below the curve, its x is the result, which is exponential to the precision of a
 * double. A point of piece i left of x[i + 1] is below the curve and needs no further test; 93 of
 * 100 points are such. Draws change only the caller's state; no lock. thread/thread_event.c calls
 * prng_exponential() for the distance to the next sample.
 */
#include "util/prng.h"

/*
 * x[0] = x[1] + 1 and x[i + 1] = -ln(v / x[i] + f(x[i])), where v = (x[1] + 1) f(x[1]); x[1] is
 * chosen so that x[PRNG_LAYERS] is 0.
 */
const double prng_layers[PRNG_LAYERS + 1] = {
	0x1.c50b68455eb3ep+2, 0x1.850b68455eb3ep+2, 0x1.539fd06cb047dp+2, 0x1.34e555008df59p+2,
	0x1.1e7d10e5bb225p+2, 0x1.0ccb073238385p+2, 0x1.fc430ac62e511p+1, 0x1.e32b9aa66cb43p+1,
	0x1.cd332dfad927ap+1, 0x1.b9a039bdbf36ep+1, 0x1.a7f303bbd385dp+1, 0x1.97cfd8f39d2bdp+1,
	0x1.88f2a5940c09cp+1, 0x1.7b2777e962352p+1, 0x1.6e45c346346ecp+1, 0x1.622d41d83ace5p+1,
	0x1.56c3d5f629917p+1, 0x1.4bf40ea3ff82p+1, 0x1.41ac17b5f4c2fp+1, 0x1.37dcf2e21fb34p+1,
	0x1.2e79e371b37ffp+1, 0x1.2577fdd5afc1cp+1, 0x1.1ccdd12818ebdp+1, 0x1.147323b803a0ep+1,
	0x1.0c60bdc88bfdp+1, 0x1.04903f0b0034dp+1, 0x1.f9f7f89d54eccp+0, 0x1.eb3dc713e5e67p+0,
	0x1.dce8c9b182caep+0, 0x1.cef0bec505c03p+0, 0x1.c14e22b278015p+0, 0x1.b3fa14e2ef42dp+0,
	0x1.a6ee40aabf0ecp+0, 0x1.9a24c95e39d3bp+0, 0x1.8d9838f40aecep+0, 0x1.814370b15bcbfp+0,
	0x1.75219b71b80ep+0, 0x1.692e212c8eb22p+0, 0x1.5d649b6550d06p+0, 0x1.51c0ca3a31a9fp+0,
	0x1.463e89c8c412p+0, 0x1.3ad9c79f1fc39p+0, 0x1.2f8e77eb8869p+0, 0x1.24588a12ffd63p+0,
	0x1.1933dc476f50ap+0, 0x1.0e1c2d9e0f073p+0, 0x1.030d0e031a281p+0, 0x1.f0039667072b2p-1,
	0x1.d9eab3301aa05p-1, 0x1.c3c46ed33ae92p-1, 0x1.ad848fae31935p-1, 0x1.971d45a8e5bbfp-1,
	0x1.807ea910fadap-1, 0x1.6996090d58f4dp-1, 0x1.524cf09068da7p-1, 0x1.3a87b7f9c1b53p-1,
	0x1.22235a9e8d0a5p-1, 0x1.08f20ab5f1cd8p-1, 0x1.dd6afd78dcdf3p-2, 0x1.a629a14d4a185p-2,
	0x1.6b11ca73c4a3bp-2, 0x1.2a63c970e80cp-2, 0x1.c1a92e2be33dfp-3, 0x1.0d6cd22b015p-3,
	0
};

double
prng_exponential_edge(uint64_t *state, unsigned i, double x) {
	assert(i < PRNG_LAYERS && x >= prng_layers[i + 1]);
	if (i == 0) { /* e^-x from x[1] on is the whole curve times a constant */
		return prng_layers[1] + prng_exponential(state);
	}
	/*
	 * u is the distance of the point from the top of the piece, as a part of the piece's height,
	 * which is f(x[i + 1]) (1 - e^-width). At x the curve is f(x[i + 1]) (1 - e^-left) below the
	 * top.
	 * First test: the curve is convex, so a point that is not below its chord is not below the
	 * curve. Second test: 1 - e^-z lies between z - z^2 / 2 and z, so a point that passes is below
	 * the curve. Only the other points need the exponentials of the third test.
	 */
	double width = prng_layers[i] - prng_layers[i + 1], left = x - prng_layers[i + 1];
	double u = prng_double(state);
	bool is_below = u * width > left && (u * (width - width * width / 2) > left
	    || u * expm1_neg(width) > expm1_neg(left));
	return is_below ? x : prng_exponential(state);
}
