/* From the words to a request, and from an answer to words and an exit code. Called by the verbs. */
#pragma once
#include "ask.h"

/* Asks by the way that is open to the process; false as ask_mailbox. */
bool ask(process_t *p, const char *text, manner_t manner, profile_t *profile, reply_t *reply);

/* "verb k:v,k:v" of all options that go into the request. */
void build_request(const process_t *p, const char *verb, char *buf, size_t size);

/* Exit code of an error, after saying what it is. */
int fail(process_t *p, const reply_t *r);

/* The command that reads the profile at `path`, if there is anything to read. */
void hint_top(const char *path);

/* The answer is a path of the process: printed as this shell can open it. */
int print_path(process_t *p, const char *answer, const char *key);

/* The value of a key in lines key=value, copied; NULL if it is not there. */
const char *answer_value(const char *text, const char *key, char *buf, size_t size);

bool is_number(const char *text);

/* Of a state of the mailbox: "idle", "active" ...: for --json. */
const char *state_word(uint32_t state);

/* For a person: "sampling (MALLOC_CONF)", "session 3". */
const char *state_text(const char *word, uint64_t session, char buf[64]);
