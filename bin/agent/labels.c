/*
 * Reads labels and memory use of a process (labels.h): the build-id from the notes of its program,
 * container and systemd unit from the path of its cgroup, the user's name from /etc/passwd.
 * Invariant: everything that is read, but /etc/passwd, has a bounded size and may have any content.
 * No locks, no state. read_labels() reads files that the process can stall; so only the watchers
 * (threads of watch.c that read processes) and jobs call it, in watch.c and dead_watch.c. The
 * kernel answers read_usage() and read_cgroup_memory() whatever the process does; they call these
 * too, and the thread of dead_watch.c that notices ends calls read_cgroup_memory().
 */
#include "labels.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/cgroup.h"
#include "client/elf.h"
#include "client/proc_stat.h"
#include "client/removed.h"

enum { CONTAINER_DIGITS = 64 }; /* of the id of a container, hexadecimal */

ssize_t
read_file(const char *path, char *buf, size_t size) {
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	size_t length = 0;
	ssize_t n = -1;
	while (fd >= 0 && length < size - 1 && (n = read(fd, buf + length, size - 1 - length)) > 0) {
		length += (size_t)n;
	}
	if (fd >= 0) {
		close(fd);
	}
	buf[length] = '\0';
	return n < 0 ? -1 : (ssize_t)length;
}

/* ---- the program ---- */

static bool
read_at(void *fd, uint64_t at, void *buf, size_t size) {
	return at <= INT64_MAX && pread(*(int *)fd, buf, size, (off_t)at) == (ssize_t)size;
}

/* Sets hex to the build-id of an ELF file, cut to fit `size` bytes; leaves it if there is none. */
static void
read_build_id(int fd, char *hex, size_t size) {
	client_elf_t elf = {.read = read_at, .arg = &fd, .is_file = true};
	client_object_t object;
	if (client_read_object(&elf, 0, &object)) {
		for (unsigned i = 0; i < object.build_id_len && 2 * i + 3 <= size; i++) {
			snprintf(hex + 2 * i, 3, "%02x", object.build_id[i]);
		}
	}
}

static void
read_program(const jeprof_target_t *t, labels_t *l) {
	char path[64], exe[EXE_BYTES];
	struct stat st;
	read_exe(t->task, exe);
	snprintf(l->exe, sizeof(l->exe), "%.*s", (int)sizeof(l->exe) - 1, exe);
	snprintf(path, sizeof(path), "/proc/%d/exe", t->task);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		read_build_id(fd, l->build_id, sizeof(l->build_id));
	}
	if (fd >= 0) {
		close(fd);
	}
}

/* ---- the group it runs in ---- */

/*
 * Sets id to the first run of exactly 64 lower-case hexadecimal digits, which is how container
 * engines put the id of a container into the name of its cgroup; else leaves it.
 */
static void
find_container(const char *cgroup, char *id, size_t size) {
	for (const char *at = cgroup; *at != '\0';) {
		size_t digits = strspn(at, "0123456789abcdef");
		if (digits == CONTAINER_DIGITS) {
			snprintf(id, size, "%.*s", CONTAINER_DIGITS, at);
			return;
		}
		at += digits > 0 ? digits : 1;
	}
}

/*
 * Sets unit to the last part of the path that ends in ".service", else to the last one that ends in
 * ".scope"; else leaves it.
 */
static void
find_unit(const char *cgroup, char *unit, size_t size) {
	static const char *const ends[] = {".service", ".scope"};
	for (int k = 0; k < 2 && unit[0] == '\0'; k++) {
		for (const char *at = cgroup; *at != '\0';) {
			at += *at == '/';
			size_t length = strcspn(at, "/"), end = strlen(ends[k]);
			if (length > end && strncmp(at + length - end, ends[k], end) == 0) {
				snprintf(unit, size, "%.*s", (int)length, at);
			}
			at += length;
		}
	}
}

/* Sets cgroup, container_id and unit from the text of /proc/PID/cgroup. */
static void
take_cgroup(const char *text, labels_t *l) {
	client_take_cgroup(text, l->cgroup, sizeof(l->cgroup));
	find_container(l->cgroup, l->container_id, sizeof(l->container_id));
	find_unit(l->cgroup, l->unit, sizeof(l->unit));
}

static void
read_cgroup(const jeprof_target_t *t, labels_t *l) {
	char path[64], text[8192];
	snprintf(path, sizeof(path), "/proc/%d/cgroup", t->task);
	if (read_file(path, text, sizeof(text)) > 0) {
		take_cgroup(text, l);
	}
}

void
read_cgroup_memory(const char *cgroup, figures_t *f) {
	f->has_cgroup = client_read_cgroup(cgroup, &f->cgroup_current, &f->cgroup_limit);
}

/* ---- the rest ---- */

/* Whether a line of /etc/passwd, "NAME:PASSWORD:UID:...", is that of the user. */
static bool
is_of_user(const char *line, unsigned uid) {
	const char *at = strchr(line, ':');
	at = at != NULL ? strchr(at + 1, ':') : NULL;
	if (at == NULL || !isdigit((unsigned char)at[1])) {
		return false;
	}
	char *end;
	return strtoul(at + 1, &end, 10) == uid && *end == ':';
}

/*
 * The user's name from a file like /etc/passwd, else the uid in digits. Name services (NSS) are not
 * asked, because they may be slow. Lines may be of any length.
 */
static void
read_user(const char *path, unsigned uid, char *name, size_t size) {
	char *line = NULL;
	size_t room = 0;
	bool is_found = false;
	snprintf(name, size, "%u", uid);
	FILE *file = fopen(path, "re");
	while (file != NULL && !is_found && getline(&line, &room, file) > 0) {
		is_found = is_of_user(line, uid);
	}
	if (is_found) {
		snprintf(name, size, "%.*s", (int)strcspn(line, ":"), line);
	}
	if (file != NULL) {
		fclose(file);
	}
	free(line);
}

/* Seconds since 1970 of a start time in clock ticks since boot. */
static uint64_t
started_at(uint64_t ticks) {
	struct timespec real, boot;
	clock_gettime(CLOCK_REALTIME, &real);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
	/* With their nanoseconds, because the difference of whole seconds changes with the moment. */
	int64_t ns = real.tv_nsec - boot.tv_nsec + (int64_t)(ticks % hz * (1000000000 / hz));
	int64_t seconds = real.tv_sec - boot.tv_sec + (int64_t)(ticks / hz);
	return (uint64_t)(seconds + ns / 1000000000 - (ns < 0));
}

void
read_labels(const jeprof_target_t *t, labels_t *l) {
	memset(l, 0, sizeof(*l));
	snprintf(l->comm, sizeof(l->comm), "%s", t->name);
	read_program(t, l);
	read_cgroup(t, l);
	read_user("/etc/passwd", t->uids[1], l->user, sizeof(l->user));
	l->started = started_at(t->start);
	size_t length = strlen(l->unit), end = strlen(".service");
	bool is_service = length > end && strcmp(l->unit + length - end, ".service") == 0
	    && strncmp(l->unit, "user@", 5) != 0;
	snprintf(l->service, sizeof(l->service), "%.*s", is_service ? (int)(length - end)
	    : (int)strlen(l->comm), is_service ? l->unit : l->comm);
}

bool
read_usage(int pid, uint64_t start, figures_t *f) {
	proc_stat_t u, other;
	if (proc_stat_read(pid, &u) != 0 || u.start != start) {
		return false;
	}
	if (u.state == 'Z' || u.state == 'X') { /* its first thread has ended */
		int task = jeprof_task(pid);
		if (task == pid || proc_stat_read(task, &other) != 0) {
			return false;
		}
		u.pages = other.pages;
	}
	f->threads = u.threads;
	f->rss = u.pages * (uint64_t)sysconf(_SC_PAGESIZE);
	return true;
}
