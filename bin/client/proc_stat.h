/*
 * Reads /proc/PID/stat. The name in its second field may hold blanks, parentheses and line ends, so
 * fields are counted from the last parenthesis. No state, no locks. Used by process.c and way.c,
 * and in bin/agent by labels.c, dead_end.c, watch.c and names/names.c.
 */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	PROC_STAT_BYTES = 1536, /* more bytes than the longest text has: a name, 51 other fields */
	PROC_STAT_FIELDS = 52,
};

/* Some of the fields, with their numbers in proc(5); those that the text lacks are 0. */
typedef struct proc_stat_s {
	char state;
	unsigned flags;   /* 9: those of the kernel, PF_* */
	uint64_t threads; /* 20: how many the process has */
	uint64_t start;   /* 22: ticks from boot */
	uint64_t pages;   /* 24: resident; 0 if the thread has ended or is of the kernel */
	int status;       /* 52: of its exit, as wait() gives it; 0 also if it runs, or is hidden */
} proc_stat_t;

/* Parses the text; 0, or ESRCH if it lacks the state (*s stays unset) or the start (0 in *s). */
static inline int
proc_stat_parse(const char *text, proc_stat_t *s) {
	uint64_t fields[PROC_STAT_FIELDS + 1] = {0};
	const char *name_end = strrchr(text, ')');
	if (name_end == NULL || name_end[1] != ' ' || name_end[2] == '\0') {
		return ESRCH;
	}
	int n = 3;
	const char *at = strchr(name_end + 2, ' ');
	for (; at != NULL && n < PROC_STAT_FIELDS; at = strchr(at + 1, ' ')) {
		fields[++n] = strtoull(at + 1, NULL, 10);
	}
	*s = (proc_stat_t){name_end[2], (unsigned)fields[9], fields[20], fields[22], fields[24],
	    (int)fields[52]};
	return n >= 22 ? 0 : ESRCH;
}

/* Reads the file of a process, or of a thread by its id. 0 or an errno. */
static inline int
proc_stat_read(int id, proc_stat_t *s) {
	char path[64], text[PROC_STAT_BYTES];
	snprintf(path, sizeof(path), "/proc/%d/stat", id);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1; /* one record */
	int error = n < 0 ? errno : 0;
	if (fd >= 0) {
		close(fd);
	}
	text[n > 0 ? n : 0] = '\0';
	return error != 0 ? error : proc_stat_parse(text, s);
}
