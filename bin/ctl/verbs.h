/*
 * The verbs of jeprofctl. Each acts on the process that main() has opened, prints its result, and
 * returns the exit code of the program.
 */
#pragma once
#include "ctl.h"

int verb_start(jeprof_target_t *p);
int verb_stop(jeprof_target_t *p);
int verb_dump(jeprof_target_t *p);
int verb_set(jeprof_target_t *p); /* also the verb rearm */
int verb_status(jeprof_target_t *p);
int verb_watch(jeprof_target_t *p);
int verb_list(void);

/* The process that the words name, by number or name; leaves if there is none, or several. */
void find_process(jeprof_target_t *p);
