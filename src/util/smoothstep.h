/*
 * The curve by which unused pages decay: h(x) = 6x^5 - 15x^4 + 10x^3.
 * It is the polynomial of least degree with h(0) = 0, h(1) = 1 and first and second derivatives
 * that vanish at both ends (K. Perlin, "Improving Noise", SIGGRAPH 2002). smoothstep_tab[i] is h((i
 * + 1) / SMOOTHSTEP_NSTEPS) in fixed point with SMOOTHSTEP_BFP fractional bits, rounded to nearest;
 * the last entry is exactly one. It is the share of the pages that became unused in one step of the
 * decay time which may stay while i + 1 steps are left for them (extent/decay.c). An entry has 64
 * bits, so that its product with a number of pages needs no cast.
 */
#pragma once

#include "util/compiler.h"

/* Steps into which a decay time is divided: the entries of the table. */
#define SMOOTHSTEP_NSTEPS 200
/* Fractional bits of an entry of the table. */
#define SMOOTHSTEP_BFP 24

extern const uint64_t smoothstep_tab[SMOOTHSTEP_NSTEPS];
