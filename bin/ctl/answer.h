/*
 * Builds the request that the options describe, sends it, and prints the answer or the error. Each
 * function that returns an int returns the exit code of the program. Called by main.c and the
 * verbs.
 */
#pragma once
#include <stdbool.h>

#include "ctl.h"

/* A request with this text, and the times and interrupts that the options give. */
jeprof_request_t request_of(const char *text, jeprof_manner_t manner);

/*
 * Sends a request and waits for the answer, or exits with the reason. False: the process is idle,
 * and the manner is to return or to stay.
 */
bool ask(jeprof_target_t *p, const char *text, jeprof_manner_t manner, jeprof_reply_t *reply);

/* Writes "verb k:v,k:v" into buf, with all options that belong into the request. */
void build_request(const jeprof_target_t *p, const char *verb, char *buf, size_t size);

/* Prints the error of an answer and returns its exit code. */
int fail(jeprof_target_t *p, const jeprof_reply_t *r);

/* Prints the command that shows the profile at `path`, unless that is a device or a pipe. */
void hint_top(const char *path);

/*
 * Prints a path of the process in a form that this shell can open; with --json as the member `key`.
 * Returns EXIT_DONE.
 */
int print_path(jeprof_target_t *p, const char *answer, const char *key);

/* Whether the text is a decimal number without a leading zero, so that JSON may have it bare. */
bool is_number(const char *text);

/* The word for a jeprof_state_t, which --json prints: "idle", "active", ...; else "unknown". */
const char *state_word(uint32_t state);

/* The text for a person: "sampling (MALLOC_CONF)", "session 3". buf, a constant, or `word`. */
const char *state_text(const char *word, uint64_t session, char buf[64]);
