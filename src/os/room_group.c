/*
 * Finds the control group whose limit is least, and reads its memory and all limits (room_group.h
 * has the callers). Invariant: one thread searches, once; a thread that looks meanwhile is told
 * that there is no group. A child that was forked meanwhile searches itself. room_own is written by
 * the searching thread and constant afterwards, so there is no lock. errno is left as it was.
 */
#include "os/room_group.h"

#include "os/room.h"
#include "os/sys.h"
#include "util/fmt.h"

/*
 * Version 1 first: where both are mounted, memory is counted there. The texts are arrays, because
 * pointers would be relocated at each start. controller: what room_group() searches; top: the
 * directory of the tree below /sys/fs/cgroup (a symbolic link where other controllers are mounted
 * with it); limit and current: files of a group.
 */
static const struct {
	char controller[8], top[8], limit[24], current[24];
} room_versions[] = {
	{"memory", "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"},
	{"", "", "memory.max", "memory.current"},
};

/* The group that counts; version and dir are valid while state is room_group_known. */
static LARGE_BSS struct {
	atomic_u32_t state;      /* room_group_unknown and so on */
	uint32_t version;        /* index in room_versions */
	char dir[2 * ROOM_PATH_MAX]; /* its directory, below /sys/fs/cgroup */
} room_own;
/* Not searched yet; a thread searches now; found; not found. */
enum { room_group_unknown, room_group_searched, room_group_known, room_group_none };

/* Whether a list of controllers, "cpu,memory:" or ":", has one of this name; "": it is empty. */
static bool
room_has_controller(const char *list, const char *name) {
	size_t length = strlen(name);
	for (;;) {
		size_t n = strcspn(list, ",:\n");
		if (n == length && memcmp(list, name, n) == 0) {
			return true;
		}
		if (list[n] != ',') {
			return false;
		}
		list += n + 1;
	}
}

char *
room_group(char *text, const char *controller) {
	for (char *line = text; *line != '\0';) {
		char *list = line + strcspn(line, ":\n");
		char *path = list + (*list == ':');
		path += strcspn(path, ":\n");
		if (path > list && path[0] == ':' && path[1] == '/'
		    && room_has_controller(list + 1, controller)) {
			path++;
			path[strcspn(path, "\n")] = '\0';
			path[path[1] == '\0' ? 0 : strlen(path)] = '\0';
			return path;
		}
		line = path + strcspn(path, "\n");
		line += *line == '\n';
	}
	return NULL;
}

/*
 * Looks at the directory and those above: dir becomes the one whose limit is least or, without any
 * limit, the first whose use can be read; false if there is none whose use can be read. *least is
 * lowered to the least limit of them all.
 */
static bool
room_try_rise(char *dir, unsigned version, uint64_t *least) {
	char at[2 * ROOM_PATH_MAX];
	uint64_t limit, used;
	bool is_found = false;
	fmt_snprintf(at, sizeof(at), "%s", dir);
	for (;;) {
		bool is_lower = room_try_read_number(at, room_versions[version].limit, &limit)
		    && limit < *least;
		*least = is_lower ? limit : *least;
		if ((is_lower || !is_found)
		    && room_try_read_number(at, room_versions[version].current, &used)) {
			fmt_snprintf(dir, sizeof(at), "%s", at);
			is_found = true;
		}
		char *slash = strrchr(at, '/');
		if (slash == NULL) {
			return is_found;
		}
		*slash = '\0';
	}
}

/* room_try_rise() from the process's group of this version. False also if there is none. */
static bool
room_try_find(unsigned version, char dir[2 * ROOM_PATH_MAX], uint64_t *least) {
	char text[ROOM_LINES_MAX];
	const char *group = sys_read_text("/proc/self/cgroup", text, sizeof(text)) > 0
	    ? room_group(text, room_versions[version].controller) : NULL;
	if (group == NULL || strlen(group) >= ROOM_PATH_MAX) {
		return false;
	}
	fmt_snprintf(dir, 2 * ROOM_PATH_MAX, "%s%s", room_versions[version].top, group);
	return room_try_rise(dir, version, least);
}

uint64_t
room_limit(void) {
	char dir[2 * ROOM_PATH_MAX];
	uint64_t least = room_limit_of_space();
	for (unsigned i = 0; i < ARRAY_LEN(room_versions); i++) {
		(void)room_try_find(i, dir, &least);
	}
	return least < ROOM_NONE ? least : 0;
}

bool
room_group_look(void) {
	uint32_t state = room_group_unknown;
	if (atomic_cas_strong_u32(&room_own.state, &state, room_group_searched, MO_ACQUIRE,
	    MO_ACQUIRE)) {
		uint64_t least = ROOM_NONE;
		room_own.version = 0;
		bool is_found = room_try_find(0, room_own.dir, &least)
		    || room_try_find(++room_own.version, room_own.dir, &least);
		state = is_found ? room_group_known : room_group_none;
		atomic_store_u32(&room_own.state, state, MO_RELEASE);
	}
	return state == room_group_known;
}

bool
room_group_is_known(void) {
	return atomic_load_u32(&room_own.state, MO_ACQUIRE) == room_group_known;
}

void
room_group_postfork_child(void) {
	if (atomic_load_u32(&room_own.state, MO_RELAXED) == room_group_searched) { /* else no write */
		atomic_store_u32(&room_own.state, room_group_unknown, MO_RELAXED);
	}
}

void
room_group_forget(void) {
	atomic_store_u32(&room_own.state, room_group_unknown, MO_RELEASE);
}

/* The number in a file of the group that counts; 0 if there is none. */
static uint64_t
room_group_number(bool is_limit) {
	uint64_t number = 0;
	if (!room_group_look()) {
		return 0;
	}
	bool is_read = room_try_read_number(room_own.dir, is_limit
	    ? room_versions[room_own.version].limit : room_versions[room_own.version].current, &number);
	return is_read && number < ROOM_NONE ? number : 0;
}

uint64_t
room_group_current(void) {
	return room_group_number(false);
}

uint64_t
room_group_limit(void) {
	return room_group_number(true);
}

uint64_t
room_machine(void) {
	char text[256];
	int err = 0;
	const char *key = "MemTotal:";
	sys_read_text("/proc/meminfo", text, sizeof(text));
	char *at = strstr(text, key);
	if (at == NULL) {
		return 0;
	}
	at += strlen(key);
	at += strspn(at, " ");
	uint64_t kib = fmt_parse_uint(at, &at, 10, &err);
	return err == 0 && kib < UINT64_MAX >> 10 ? kib << 10 : 0;
}
