/*
 * How a process ended (dead.h). The kernel gives the exit status of a process to its parent. Others
 * can read it from /proc/PID/stat as long as the parent has not fetched it, if they have the right
 * to trace the process; else the kernel shows 0 there. Afterwards they can read it from a pidfd
 * (PIDFD_GET_INFO, Linux 6.15). An end counts as a kill for want of memory if it is a SIGKILL or
 * nothing can be read of it, and if in both cases the counter of such kills (end_kills) has risen
 * since it was last seen alive: that of its cgroup, or the machine's if the cgroup has none or is
 * gone. No locks, no state. Called by dead_watch.c; end_kills() and end_words also by metrics.c.
 */
#include "dead.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cgroup.h"
#include "client/proc_stat.h"
#include "labels.h"

const char *const end_words[end_count] = {"exit", "signal", "oom", "unknown"};

/* The argument of PIDFD_GET_INFO, which is newer than the headers that we compile with. */
typedef struct pidfd_info_s {
	uint64_t mask;
	uint64_t cgroup_id;
	uint32_t ids[11];
	int32_t exit_code; /* as wait() gives it */
} pidfd_info_t;
#define GET_INFO _IOWR(0xff, 11, pidfd_info_t) /* PIDFD_GET_INFO */
#define INFO_EXIT UINT64_C(8) /* in mask: exit_code is asked for, or was set */

/*
 * Sets *number to that of the first line "WORD NUMBER" in the first 64 KiB of a file; false if it
 * has no such line there or cannot be read.
 */
static bool
read_word(const char *path, const char *word, uint64_t *number) {
	char text[65536];
	size_t length = strlen(word);
	if (read_file(path, text, sizeof(text)) <= 0) {
		return false;
	}
	for (const char *at = text; at != NULL; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, word, length) == 0 && at[length] == ' ') {
			*number = strtoull(at + length + 1, NULL, 10);
			return true;
		}
	}
	return false;
}

kills_t
end_kills(const char *cgroup) {
	static const char *const files[] = {"/sys/fs/cgroup%s/memory.events",
	    "/sys/fs/cgroup/memory%s/memory.oom_control"};
	char path[640];
	kills_t kills = {0};
	for (size_t i = 0; i < 2 && client_is_cgroup_visible(cgroup) && !kills.has_group; i++) {
		snprintf(path, sizeof(path), files[i], cgroup);
		kills.has_group = read_word(path, "oom_kill", &kills.of_group);
	}
	kills.has_machine = read_word("/proc/vmstat", "oom_kill", &kills.of_machine);
	return kills;
}

bool
end_has_kill(const kills_t *before, const kills_t *now) {
	if (before->has_group && now->has_group) {
		return now->of_group > before->of_group;
	}
	return before->has_machine && now->has_machine && now->of_machine > before->of_machine;
}

/*
 * Whether we lack the right to trace this process, which the link needs. With that right the link
 * can be read, or gives ENOENT if the process has ended.
 */
static bool
is_hidden(int pid) {
	char path[64], target[1];
	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return readlink(path, target, sizeof(target)) < 0 && errno != ENOENT;
}

/*
 * The exit status, as wait() gives it, of a process whose parent has not fetched it, from
 * /proc/PID/stat. `start`: clock ticks from boot to the start of the process. -1: it is fetched,
 * or hidden from us, the process has not ended, its pid belongs to another one by now, or the file
 * cannot be read.
 */
static int
unfetched_status(int pid, uint64_t start) {
	proc_stat_t stat;
	/* First, so that what is read then tells whose right it was. */
	bool is_shown = !is_hidden(pid);
	return is_shown && proc_stat_read(pid, &stat) == 0 && stat.state == 'Z' && stat.start == start
	    ? stat.status : -1;
}

end_t
end_read(int process, int pid, uint64_t start, bool has_kill, int *code) {
	int status = -1;
	/* Both ways twice: its parent may fetch the status after the first and before the second. */
	for (int i = 0; i < 2 && status == -1; i++) {
		pidfd_info_t info = {.mask = INFO_EXIT};
		bool is_told = ioctl(process, GET_INFO, &info) == 0 && (info.mask & INFO_EXIT) != 0;
		status = is_told ? info.exit_code : unfetched_status(pid, start);
	}
	*code = -1;
	if (status != -1 && WIFEXITED(status)) {
		*code = WEXITSTATUS(status);
		return end_exit;
	}
	if (status != -1 && WIFSIGNALED(status)) {
		*code = WTERMSIG(status);
		return *code == SIGKILL && has_kill ? end_oom : end_signal;
	}
	return has_kill ? end_oom : end_unknown;
}
