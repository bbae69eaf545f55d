/*
 * The control directory, for clients that cannot reach the mailbox. A client renames a file to
 * PID.cmd; the answer appears as PID.status in the same way. prof_mailbox.h describes the texts.
 *
 * A process that can write there can control the profiler. So the directory must belong to the
 * effective user or root and must not be writable by others, and no symbolic link is followed: a
 * command is a regular file with one link, of the same owners, at most a page of text, ended by a
 * newline. Any other directory is refused, but checked again, because it may be repaired.
 */
#ifndef PROF_CTL_DIR_H
#define PROF_CTL_DIR_H

#include "prof/control/prof_request.h"

#define PROF_CTL_DIR_MAX 4000
extern const char *opt_prof_ctl_dir; /* "": none; at most PROF_CTL_DIR_MAX bytes */

/* Whether a directory is configured. */
bool prof_ctl_dir_is_on(void);
/*
 * Looks for a command and carries it out; for one caller at a time, outside the gate, without
 * locks.
 */
void prof_ctl_dir_look(void);

/* ---------------------------------------------------------------- the rules, on plain values */

struct stat;
/* NULL if the directory or the command can be trusted, else the reason why not. */
const char *prof_ctl_dir_fault(const struct stat *st, unsigned euid);
const char *prof_ctl_cmd_fault(const struct stat *st, unsigned euid);
/*
 * Removes "nonce=<hex> ", "until=<hex> " (0: not given) and the newline; returns the start of the
 * request, or NULL if the text is truncated or not text.
 */
char *prof_ctl_cmd_parse(char *text, size_t len, uint64_t *nonce, uint64_t *until_ms);

#endif /* PROF_CTL_DIR_H */
