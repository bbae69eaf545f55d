/*
 * The control directory, for clients that cannot reach the mailbox. A client renames a file to
 * PID.cmd; the answer appears as PID.status, renamed too. prof_mailbox.h describes the texts.
 *
 * A process that can write there can control the profiler. So the directory must belong to the
 * effective user or root and must not be writable by its group or others, and it must not be a
 * symbolic link. A command is a regular file with one link, that belongs to one of these two and
 * that neither its group nor others can write, with one line of at most 4096 bytes. A directory
 * that fails the check is not used, but checked again, because it may be repaired; a command that
 * was taken from it just before is removed without an answer. Locks: none. Called by
 * prof_control.c, by one thread at a time; conf_table.c and prof.c use the option.
 */
#pragma once

#include "prof/control/prof_request.h"

#define PROF_CTL_DIR_MAX 4000
extern const char *opt_prof_ctl_dir; /* "": none; else absolute, at most PROF_CTL_DIR_MAX bytes */

/* Whether a directory is configured. */
bool prof_ctl_dir_is_on(void);
/*
 * Looks for a command and carries it out. Called by one thread at a time, outside the gate
 * (os/gate.h: fork waits until no thread is inside), with no lock held.
 */
void prof_ctl_dir_look(void);

/* ---------------------------------------------------------------- the rules, on plain values */

struct stat;
/*
 * NULL if the directory or the command can be trusted, else the reason why not. euid: the effective
 * user of this process.
 */
const char *prof_ctl_dir_fault(const struct stat *st, unsigned euid);
const char *prof_ctl_cmd_fault(const struct stat *st, unsigned euid);
/*
 * Splits a command of len bytes: reads "nonce=<hex> " and "until=<hex> " (ms of the monotonic
 * clock, prof_lease_t), in this order, each 0 if it is not given; replaces the newline by a NUL.
 * Returns the start of the request, or NULL if the text is not one line that ends in a newline, or
 * a number is bad.
 */
char *prof_ctl_cmd_parse(char *text, size_t len, uint64_t *nonce, uint64_t *until_ms);
