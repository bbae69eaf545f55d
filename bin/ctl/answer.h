/*
 * From the words to a request, and from an answer to words and an exit code. Called by the verbs.
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

/* Exit code of an error, after saying what it is. */
int fail(jeprof_target_t *p, const jeprof_reply_t *r);

/* The command that reads the profile at `path`, if there is anything to read. */
void hint_top(const char *path);

/* The answer is a path of the process: printed as this shell can open it. */
int print_path(jeprof_target_t *p, const char *answer, const char *key);

bool is_number(const char *text);

/* Of a state of the mailbox: "idle", "active" ...: for --json. */
const char *state_word(uint32_t state);

/* For a person: "sampling (MALLOC_CONF)", "session 3". */
const char *state_text(const char *word, uint64_t session, char buf[64]);
