/* What jeprofctl can do. Each returns the exit code. */
#pragma once
#include "process.h"

int verb_start(process_t *p);
int verb_stop(process_t *p);
int verb_dump(process_t *p);
int verb_set(process_t *p); /* and rearm */
int verb_status(process_t *p);
int verb_watch(process_t *p);
int verb_list(void);

/* The process that the words name, by number or name; leaves if there is none, or several. */
void find_process(process_t *p);
