/*
 * The sampling rate, which is an interval: R, the mean bytes between samples; and what a sample
 * stands for.
 *
 * thread/thread_event decides which allocation becomes a sample, from the interval published here
 * (0: none). An object of z bytes is sampled with probability 1 - exp(-z/R), so one sample stands
 * for 1 / (1 - exp(-z/R)) objects. That weight is fixed when the sample is taken. With R = 1 every
 * object is sampled and every weight is exactly 1. Doubling the rate means fewer samples.
 *
 * Setters take the lock `prof_sampling`, and under it that of the gate's list of threads; reads and
 * weights take none. Set by prof_switch.c, prof_start.c, prof_session.c and prof_budget.c; prof.c
 * asks for weights, prof_dump.c, prof_recent.c, prof_request.c and others for the rate.
 */
#pragma once

#include "prof/sites/prof_types.h"

/* The weight 1. Weights are fixed-point numbers with 16 binary places, never below 1. */
#define PROF_WEIGHT_ONE UINT64_C(65536)

/* The rate that the options set, in bytes; at least 1. */
uint64_t prof_sample_configured(void);
/*
 * The rate for samples of prof.active, in bytes, with the doublings of prof_sample_scale(). While
 * prof.active is off it is the rate that will hold again, not the interval that is published. 0
 * until prof_start.c sets it, at the end of boot.
 */
uint64_t prof_sample_rate(void);
/*
 * The first stores the rate (bytes, > 0) and ends the doublings that prof_sample_scale() made; the
 * second stores whether prof.active has samples taken, and the rate while only a tracer wants them
 * (0: none does). Both publish the result to all threads. All three setters of this file enter the
 * gate (os/gate.h: fork waits until no thread is inside); the caller may be inside already.
 */
void prof_sample_rate_set(uint64_t rate);
void prof_sample_switch(bool on, uint64_t listener_interval);
/* The rate as it was set, in bytes, without what prof_sample_scale() has made of it. */
uint64_t prof_sample_base(void);
/*
 * Doubles the present rate, `doublings` times. It becomes at most 2^20 times the rate that was set
 * (doublings beyond that are not counted), and at most 2^40 bytes unless more was set (these are
 * counted). Negative: takes back so many of those counted, at most all; the rate stays as it is
 * while the limit of 2^40 bytes hides the rest. Samples keep the weight of their own rate. Does
 * nothing before a rate was set. For prof_budget.c.
 */
void prof_sample_scale(int doublings);
/*
 * Number of objects that a sample of usize bytes (> 0), drawn with this rate (> 0), stands for,
 * times PROF_WEIGHT_ONE; from 1 to 2^40 objects. Takes no lock.
 */
uint64_t prof_weight(size_t usize, uint64_t rate);
