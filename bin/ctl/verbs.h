/*
 * The verbs of jeprofctl, called by main.c. Each acts on the process that main() has opened (list
 * and dump --core have none), prints its result, and returns the exit code of the program, or exits
 * with the reason why it failed.
 */
#pragma once
#include "ctl.h"

int verb_start(jeprof_target_t *p);
int verb_stop(jeprof_target_t *p);
int verb_dump(jeprof_target_t *p);
int verb_dump_core(void);
int verb_set(jeprof_target_t *p); /* also the verbs rearm and mark */
int verb_status(jeprof_target_t *p);
int verb_watch(jeprof_target_t *p);
int verb_list(void);

/*
 * Finds the process that the command line names by pid or by name; exits if there is none. If
 * several have the name, the only one that runs the library or cannot be read is used; if there is
 * not exactly one such, it exits.
 */
void find_process(jeprof_target_t *p);
