/*
 * Reads the memory limits of the process and how much of each is used, and returns the smallest
 * room (room.h has the contract): of its control group and all above it, then of RLIMIT_DATA and
 * RLIMIT_AS. Invariant: a limit that cannot be read or parsed counts as none. All buffers are on
 * the stack; there is no state and no lock.
 */
#include "os/room.h"

#include <sys/resource.h>

#include "os/sys.h"
#include "util/bits.h"
#include "util/fmt.h"

#define ROOM_PATH_MAX 512
/* Fields of /proc/self/statm, in pages: all address space, and its writable private part. */
#define STATM_SIZE 0u
#define STATM_DATA 5u

/* Reads a file as a text with a NUL; false if it is empty or cannot be read. */
static bool
room_try_read_text(const char *path, char *text, size_t size) {
	ssize_t n = sys_read_file(path, text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Reads the number in a file of a control group; false if it has none ("max": no limit). */
static bool
room_try_read_number(const char *dir, const char *name, uint64_t *number) {
	char path[ROOM_PATH_MAX], text[32];
	int err;
	int len = fmt_snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", dir, name);
	if (len >= (int)sizeof(path) || !room_try_read_text(path, text, sizeof(text))) {
		return false;
	}
	*number = fmt_parse_uint(text, NULL, 10, &err);
	return err == 0;
}

/*
 * The room in a control group and all above it. dir begins with a slash and is shortened level by
 * level until it is empty.
 */
static size_t
room_in_groups(char *dir) {
	size_t room = SIZE_MAX;
	for (;;) {
		uint64_t limit, used;
		if (room_try_read_number(dir, "memory.max", &limit)
		    && room_try_read_number(dir, "memory.current", &used)) {
			room = min_zu(room, room_below(limit, used));
		}
		char *slash = strrchr(dir, '/');
		if (slash == NULL) {
			return room;
		}
		*slash = '\0';
	}
}

/* The line of /proc/self/cgroup that begins with "0::" names the group of the second version. */
static size_t
room_by_groups(void) {
	char text[ROOM_PATH_MAX];
	if (!room_try_read_text("/proc/self/cgroup", text, sizeof(text))) {
		return SIZE_MAX;
	}
	char *line = text;
	while (line != NULL && strncmp(line, "0::/", 4) != 0) {
		line = strchr(line, '\n');
		line = line == NULL ? NULL : line + 1;
	}
	if (line == NULL) {
		return SIZE_MAX;
	}
	line += 3;
	line[strcspn(line, "\n")] = '\0';
	/* The top group is "/"; its files lie in the directory itself. */
	line[line[1] == '\0' ? 0 : strlen(line)] = '\0';
	return room_in_groups(line);
}

/* A field of /proc/self/statm in bytes; 0 if it cannot be read. */
static uint64_t
room_statm(unsigned field) {
	char text[128];
	char *at = text;
	uint64_t pages = 0;
	int err = 0;
	if (!room_try_read_text("/proc/self/statm", text, sizeof(text))) {
		return 0;
	}
	for (unsigned i = 0; i <= field && err == 0; i++) {
		pages = fmt_parse_uint(at, &at, 10, &err);
	}
	return err == 0 ? pages * os_page_size : 0;
}

/* The room below a resource limit whose use is a field of statm; SIZE_MAX without a limit. */
static size_t
room_by_rlimit(int resource, unsigned field) {
	struct rlimit lim;
	if (getrlimit(resource, &lim) != 0 || lim.rlim_cur == RLIM_INFINITY) {
		return SIZE_MAX;
	}
	return room_below(lim.rlim_cur, room_statm(field));
}

size_t
room_now(void) {
	int saved = errno;
	size_t room = room_by_groups();
	room = min_zu(room, room_by_rlimit(RLIMIT_DATA, STATM_DATA));
	room = min_zu(room, room_by_rlimit(RLIMIT_AS, STATM_SIZE));
	errno = saved;
	return room;
}
