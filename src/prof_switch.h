/*
 * The switches: booted, ready, active, gdump, and the initial state of threads.
 *
 * Whether sampling runs and whether pac reports new maxima follows from all of them together; each
 * setter brings that about before it returns.  Setters run inside the gate.
 */
#ifndef PROF_SWITCH_H
#define PROF_SWITCH_H

#include "prof.h"

/* The books exist: the switches take their configured values, nothing runs yet. */
void prof_switch_boot(void);
/* Boot is complete: sampling may begin.  gdump_due: for pac, when a new maximum is to be dumped. */
void prof_switch_ready(void (*gdump_due)(void));
bool prof_switch_is_ready(void);
/* prof.active, without a look at whether anything is booted. */
bool prof_switch_is_active(void);

#endif /* PROF_SWITCH_H */
