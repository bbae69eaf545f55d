/*
 * Links of /proc, and the mark that the kernel puts behind the path of a removed file, in such a
 * link (/proc/PID/exe) and in /proc/PID/maps. No state and no locks. Used by bin/client (target.h,
 * process.c, image_maps.c), bin/ctl (answer.c, paths.c) and bin/agent (elsewhere.c, labels.c,
 * pprof_maps.c, pprof_frames.c). Not part of jeprof_client.h.
 */
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Copies the target of a link into buf, cut to size - 1, and returns buf; "": it is unreadable. */
static inline const char *
client_read_link(const char *path, char *buf, size_t size) {
	ssize_t n = readlink(path, buf, size - 1);
	buf[n > 0 ? n : 0] = '\0';
	return buf;
}

/*
 * The length of a path of `length` bytes without this mark. A path that is only the mark keeps it;
 * of a file that is not removed, a name that ends like the mark loses that end too.
 */
static inline size_t
length_unmarked(const char *path, size_t length) {
	static const char mark[] = " (deleted)";
	size_t n = sizeof(mark) - 1;
	return length > n && memcmp(path + length - n, mark, n) == 0 ? length - n : length;
}

/* Whether both paths lead to one file. */
static inline bool
is_one_file(const char *one, const char *other) {
	struct stat a, b;
	return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev
	    && a.st_ino == b.st_ino;
}

enum { EXE_BYTES = PATH_MAX + 1 };

/*
 * Sets path to that of the program of a process, from the link /proc/PID/exe, and returns its
 * length; "" and 0 if the link cannot be read. It has the mark only if it is part of the name: then
 * the program is found by that name, below the root of the process or below ours.
 */
static inline size_t
read_exe(int pid, char path[EXE_BYTES]) {
	char link[64], whole[64 + EXE_BYTES];
	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	size_t length = strlen(client_read_link(link, path, EXE_BYTES));
	size_t unmarked = length_unmarked(path, length);
	if (unmarked < length) {
		snprintf(whole, sizeof(whole), "/proc/%d/root%s", pid, path);
		length = is_one_file(link, whole) || is_one_file(link, path) ? length : unmarked;
		path[length] = '\0';
	}
	return length;
}
