/*
 * Builds the request that the options describe, sends it, and prints the answer or the error. A
 * function that returns an int returns the exit code of the program (talk.h). Called by main.c and
 * the verbs (dump.c, search.c, session.c, status.c).
 */
#pragma once
#include <stdbool.h>

#include "ctl.h"

/*
 * A request with this text, which the caller keeps until the request is done. It has the time of
 * --wait (ms, at least 1) and ends at the signals of talk.h. A process counts as idle when its
 * heartbeats have stood still for 1 s, or, if --wait is given, for that whole time.
 */
jeprof_request_t request_of(const char *text, jeprof_manner_t manner);

/*
 * Sends a request and waits for the answer, or exits with the reason. True: *reply has it; it may
 * be a refusal (reply->error). False: the process is idle, and the manner is not
 * jeprof_manner_wait. With jeprof_manner_return the request was taken back. With jeprof_manner_stay
 * it lies in its slot, for 10 s or until this program exits, unless jeprof_let_stay() is called.
 */
bool ask(jeprof_target_t *p, const char *text, jeprof_manner_t manner, jeprof_reply_t *reply);

/*
 * Writes "verb k:v,k:v" into buf: words.pairs (a relative --prefix made absolute), then words.raw;
 * with -d and without --max also a max_seconds, about 60 s above -d. Exits if it is too long, if a
 * relative --prefix is another directory to the process, or if the process sees no such directory.
 * `words`: see words.h.
 */
void build_request(const jeprof_target_t *p, const char *verb, char *buf, size_t size);

/*
 * Appends to a request what stands before its next pair: a blank behind the verb, else a comma.
 * Returns the index in `request` where the pair begins. Exits if there is no room.
 */
size_t begin_pair(char *request, size_t size);

/*
 * Prints the error of an answer on stderr and returns its exit code (talk.h). For EALREADY that is
 * the one of leave_unchanged(); for any other error it is never EXIT_DONE.
 */
int fail(jeprof_target_t *p, const jeprof_reply_t *r);

/*
 * A text of the process for a person: of a profile that could not be written, "ERRNO PATH BYTES"
 * becomes "ERRNO PATH, after BYTES bytes" in buf; another one is returned as it is.
 */
const char *failure_text(const char *text, char *buf, size_t size);

/*
 * The exit code where the process is as wanted already: EXIT_ALREADY; with --idempotent EXIT_DONE,
 * and --json prints that nothing changed. session: the one that runs; 0: none, or it is not known.
 */
int leave_unchanged(const jeprof_target_t *p, uint64_t session);

/*
 * The process as the next command of jeprofctl has to name it: its pid, and --ctl-dir if that was
 * given. In a buffer that the next call overwrites.
 */
const char *process_words(const jeprof_target_t *p);

/*
 * Prints, as a hint, the command that shows the profile at `path`, unless something other than a
 * regular file is there. p: a process of which it is, whose files the command then looks for below
 * its root, if that is not ours; NULL: none, or the profile lies below that root.
 */
void hint_top(const char *path, const jeprof_target_t *p);

/* Prints a path and a newline; with --json an object with the pid and the path as member `key`. */
void put_path(unsigned pid, const char *key, const char *path);

/*
 * Prints the path in an answer of the process as path_here() translates it for this shell, in the
 * form of put_path(), and the hint of hint_top(). Returns EXIT_DONE.
 */
int print_path(jeprof_target_t *p, const char *answer, const char *key);

/* Whether the text is a decimal number that JSON may have bare: "0", or no zero in front. */
bool is_number(const char *text);

/* Whether a session runs in the state with this word, even if it just ends or is paused. */
bool is_session(const char *word);

/*
 * A word of jeprof_state_word() for a person: "sampling (MALLOC_CONF)" for "sampling", "session 3"
 * for "active", "session 3, paused" for "paused". Returns buf, a constant, or `word`.
 */
const char *state_text(const char *word, uint64_t session, char buf[64]);
