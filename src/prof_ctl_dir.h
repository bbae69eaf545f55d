/*
 * The control directory: for where the mailbox cannot be reached.  PID.cmd comes in by rename, PID.status
 * goes out the same way; texts as prof_mailbox.h says.
 *
 * Whoever can write there may steer the profiler, so the directory must belong to the effective user
 * or root and be writable by nobody else, and no name in it is followed anywhere: a command is a
 * regular file of one link, of the same owners, at most a page of text, ended by a newline.  A directory
 * that is not so is refused, and looked at again: it may be mended.
 */
#ifndef PROF_CTL_DIR_H
#define PROF_CTL_DIR_H

#include "prof_request.h"

#define PROF_CTL_DIR_MAX 4000
extern char opt_prof_ctl_dir[PROF_CTL_DIR_MAX + 1]; /* "": none */

/* A directory is configured. */
bool prof_ctl_dir_is_on(void);
/* Looks for a command and carries it out; one caller at a time, outside the gate, no lock. */
void prof_ctl_dir_look(void);

/* ---------------------------------------------------------------- the rules, on plain values */

struct stat;
/* NULL: may be trusted; else why not. */
const char *prof_ctl_dir_fault(const struct stat *st, unsigned euid);
const char *prof_ctl_cmd_fault(const struct stat *st, unsigned euid);
/* Cuts "nonce=<hex> " and the newline off: where the request begins; NULL: truncated, or no text. */
char *prof_ctl_cmd_parse(char *text, size_t len, uint64_t *nonce);

#endif /* PROF_CTL_DIR_H */
