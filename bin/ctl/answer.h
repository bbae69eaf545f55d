/*
 * Builds the request that the options describe, sends it, and prints the answer or the error. Each
 * function that returns an int returns the exit code of the program. Called by main.c and the
 * verbs.
 */
#pragma once
#include <stdbool.h>

#include "ctl.h"

/* The request that the options describe. */
jeprof_request_t request_of(const char *text, jeprof_manner_t manner);

/*
 * Asks by the way that is open to the process, or leaves with the reason; false: it is idle, and
 * the manner says to return.
 */
bool ask(jeprof_target_t *p, const char *text, jeprof_manner_t manner, jeprof_reply_t *reply);

/* "verb k:v,k:v" of all options that go into the request. */
void build_request(const jeprof_target_t *p, const char *verb, char *buf, size_t size);

/* Prints the error of an answer and returns its exit code. */
int fail(jeprof_target_t *p, const jeprof_reply_t *r);

/* Prints the command that reads the profile at `path`, unless a device has taken it. */
void hint_top(const char *path);

/* Prints an answer that is a path of the process, as this shell can open it. */
int print_path(jeprof_target_t *p, const char *answer, const char *key);

bool is_number(const char *text);

/* The word for a state of the mailbox: "idle", "active" ...; --json prints it. */
const char *state_word(uint32_t state);

/* The same for a person: "sampling (MALLOC_CONF)", "session 3". */
const char *state_text(const char *word, uint64_t session, char buf[64]);
