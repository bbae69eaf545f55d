/*
 * Builds the request that the options describe, sends it, and prints the answer or the error. A
 * function that returns an int returns the exit code of the program (talk.h). Called by main.c and
 * the verbs (dump.c, search.c, session.c, status.c).
 */
#pragma once
#include <stdbool.h>

#include "ctl.h"

/*
 * A request with this text, which the caller keeps as long, the time of --wait (ms, at least 1),
 * and the signals of talk.h that end the wait. A process counts as idle when its heartbeats have
 * stood still for 1 s; if --wait is given, only when that time is over.
 */
jeprof_request_t request_of(const char *text, jeprof_manner_t manner);

/*
 * Sends a request and waits for the answer, or exits with the reason. True: *reply has it; it may
 * be a refusal (reply->error). False: the process is idle, and the manner is to return, or to stay:
 * then the request lies in its slot until jeprof_let_stay() or the exit.
 */
bool ask(jeprof_target_t *p, const char *text, jeprof_manner_t manner, jeprof_reply_t *reply);

/*
 * Writes "verb k:v,k:v" into buf: words.pairs (a relative --prefix made absolute), then words.raw;
 * with -d and without --max also a max_seconds, about 60 s above -d. Exits if it is too long, or as
 * path_there() and check_directory() do for --prefix.
 */
void build_request(const jeprof_target_t *p, const char *verb, char *buf, size_t size);

/*
 * Appends to a request what stands before its next pair: a blank behind the verb, else a comma.
 * Where the pair begins. Exits if there is no room.
 */
size_t begin_pair(char *request, size_t size);

/*
 * Prints the error of an answer on stderr and returns its exit code: EXIT_DONE for EALREADY with
 * --idempotent, else never.
 */
int fail(jeprof_target_t *p, const jeprof_reply_t *r);

/*
 * The exit code where the process is as wanted already: EXIT_ALREADY; with --idempotent EXIT_DONE,
 * and --json prints that nothing changed. session: the one that runs; 0: none, or it is not known.
 */
int leave_unchanged(const jeprof_target_t *p, uint64_t session);

/*
 * Prints, as a hint, the command that shows the profile at `path`, unless something other than a
 * regular file is there.
 */
void hint_top(const char *path);

/* Prints a path and a newline; with --json an object with the pid and the path as member `key`. */
void put_path(unsigned pid, const char *key, const char *path);

/*
 * Prints the path in an answer of the process as path_here() translates it for this shell, in the
 * form of put_path(), and the hint of hint_top(). Returns EXIT_DONE.
 */
int print_path(jeprof_target_t *p, const char *answer, const char *key);

/* Whether the text is a decimal number without a leading zero, so that JSON may have it bare. */
bool is_number(const char *text);

/* The word for a jeprof_state_t, which --json prints: "idle", "active", ...; else "unknown". */
const char *state_word(uint32_t state);

/*
 * The text for a person for a word of state_word(): "sampling (MALLOC_CONF)", "session 3". Returns
 * buf, a constant, or `word`.
 */
const char *state_text(const char *word, uint64_t session, char buf[64]);
