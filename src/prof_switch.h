/*
 * The switches: booted, ready, active, gdump, and the initial state of threads.
 *
 * Whether sampling runs and whether pac reports new maxima follows from all of them together; each
 * setter brings that about before it returns.  Setters run inside the gate.
 */
#ifndef PROF_SWITCH_H
#define PROF_SWITCH_H

#include "util/compiler.h"

bool prof_is_booted(void);

/* Reads give false and 0 until booted; writes give ENOENT (prof.active := false is allowed). */
bool prof_active_get(void);
int prof_active_set(bool active, bool *old);
bool prof_thread_active_init_get(void);
int prof_thread_active_init_set(bool active, bool *old);
bool prof_gdump_get(void);
int prof_gdump_set(bool active, bool *old);

uint64_t prof_interval_get(void);		/* bytes between interval dumps, 0 off */
size_t prof_lg_sample_get(void);		/* floor(lg) of the sample interval; 0 until booted */
size_t prof_sample_interval_get(void);		/* bytes; 0 until booted */
int prof_sample_interval_set(size_t bytes);	/* ENOENT, EINVAL for 0; keeps all history */
/* Forgets all samples; lg_sample SIZE_MAX keeps the rate, >= 64 becomes 63. */
int prof_reset(size_t lg_sample);

/* Copied, made absolute; "" disables automatic dumps.  EINVAL too long, EFAULT NULL. */
int prof_prefix_set(const char *prefix);

/* The books exist: the switches take their configured values, nothing runs yet. */
void prof_switch_boot(void);
/* Boot is complete: sampling may begin.  gdump_due: for pac, when a new maximum is to be dumped. */
void prof_switch_ready(void (*gdump_due)(void));
bool prof_switch_is_ready(void);
/* prof.active, without a look at whether anything is booted. */
bool prof_switch_is_active(void);

/* Tells who shows the state to the outside; filled by prof_control. */
extern void (*const prof_switch_changed)(void);

#endif /* PROF_SWITCH_H */
