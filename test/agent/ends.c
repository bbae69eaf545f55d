/*
 * How a process ended (dead_end.c): the counters of a cgroup that is gone by then, and an exit
 * status that the kernel shows to nobody but those who may trace the process. Prints what is
 * wrong; 1 if anything is. Built by ends.t.
 */
#include <stdbool.h>
#include <stddef.h>

#include "dead_end.c"
#include "expect.h"

static const char *group_text, *machine_text; /* what the two files say; NULL: there is none */
ssize_t
read_file(const char *path, char *buf, size_t size) {
	const char *text = strncmp(path, "/sys/fs/cgroup/", 15) == 0 ? group_text
	    : strcmp(path, "/proc/vmstat") == 0 ? machine_text : "";
	int fd = text != NULL && *text == '\0' ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd >= 0) {
		ssize_t n = read(fd, buf, size - 1);

		close(fd);
		buf[n > 0 ? n : 0] = '\0';
		return n;
	}
	if (text == NULL)
		return -1;
	return snprintf(buf, size, "%s", text);
}

bool
client_is_cgroup_visible(const char *cgroup) {
	return cgroup[0] == '/';
}

static kills_t
kills_of(const char *group, const char *machine) {
	group_text = group;
	machine_text = machine;
	return end_kills("/a");
}

static void
counters(void) {
	kills_t before = kills_of("oom 3\noom_kill 0\n", "oom_kill 57\n");
	kills_t now = kills_of("oom 3\noom_kill 1\n", "oom_kill 58\n");

	expect("a kill in the cgroup", end_has_kill(&before, &now), true);
	now = kills_of("oom_kill 0\n", "oom_kill 58\n");
	expect("a kill elsewhere", end_has_kill(&before, &now), false);
	now = kills_of(NULL, "oom_kill 57\n");
	expect("a cgroup that is gone, and no kill", end_has_kill(&before, &now), false);
	now = kills_of(NULL, "oom_kill 58\n");
	expect("a cgroup that is gone, and a kill", end_has_kill(&before, &now), true);
	now = kills_of(NULL, NULL);
	expect("nothing can be read", end_has_kill(&before, &now), false);
	before = now;
	now = kills_of("oom_kill 9\n", "oom_kill 58\n");
	expect("nothing could be read before", end_has_kill(&before, &now), false);
}

/* The start of a process: field 22 of its stat. */
static uint64_t
start_of(int pid) {
	char path[64], text[1024] = "";
	unsigned long long start = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	read_file(path, text, sizeof(text));
	sscanf(strrchr(text, ')'), ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
	    "%*s %*s %*s %llu", &start);
	return start;
}

/* A child that has exited by 7, not waited for yet; told to one who may or may not trace it. */
static void
hidden(void) {
	siginfo_t info;
	int code, pid = fork();

	if (pid == 0)
		_exit(7);
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	uint64_t start = start_of(pid);

	expect("an exit", end_read(-1, pid, start, false, &code), end_exit);
	expect("its status", code, 7);
	expect("another process", end_read(-1, pid, start + 1, false, &code), end_unknown);
	if (geteuid() == 0 && seteuid(65534) == 0) {
		expect("a hidden exit", end_read(-1, pid, start, false, &code), end_unknown);
		expect("its status", code, -1);
		if (seteuid(0) != 0)
			bad = 1;
	}
	waitpid(pid, NULL, 0);
}

int
main(void) {
	counters();
	hidden();
	return bad;
}
