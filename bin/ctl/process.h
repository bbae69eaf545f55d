/*
 * A process as /proc tells of it, and its paths. Invariant: pid and start time are its identity; check_same leaves if the
 * process of that pid is another one by now.
 */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "prof/control/prof_mailbox.h"

typedef enum { way_mem, way_vm, way_fd, way_dir } way_t;

typedef struct process_s {
	int pid;             /* here */
	unsigned own_pid;    /* as the process sees itself */
	uint64_t start;      /* with the pid it is the process's identity */
	char state;          /* of /proc/PID/stat */
	unsigned uids[3];    /* real, effective, saved */
	uint64_t caps;       /* permitted */
	char name[64];
	way_t way;
	int fd;
	uint64_t block;      /* address (or offset in the memfd) of the mailbox */
	char dir[PATH_MAX];  /* the control directory */
	prof_mailbox_t head; /* the part before the slots, as last read */
} process_t;

/* Reads /proc/PID/NAME, ends it with NUL; -1 and errno. */
ssize_t read_proc(int pid, const char *name, char *buf, size_t size);

/* What follows `key` ("\nUid:") in the text of /proc/PID/status; "" if it is not there. */
const char *status_line(const char *text, const char *key);

/* Fills in who the process is; false if there is none (a zombie is none: state says so). */
bool read_process(process_t *p, int pid);

/* The process must still be the one that was looked at first. */
void check_same(process_t *p);

bool is_named(const process_t *p, const char *name);

/* Calls f for each process, this one excepted. */
void each_process(void (*f)(process_t *p, void *arg), void *arg);

/* A path of the process as this shell can open it. */
void path_here(const process_t *p, const char *path, char *buf, size_t size);

/* A path of this shell as the process understands it: relative ones are of our directory if it sees the same files. */
void path_there(const process_t *p, const char *path, char *buf, size_t size);

/* A session whose profile cannot be written at its end is better not begun. What we may not see is not judged. */
void check_directory(const process_t *p, const char *path);
