/*
 * Memory cgroups (cgroup.h, which names the callers). Invariant: a cgroup that we do not see, and a
 * file that cannot be read, limit nothing. No locks, no state.
 */
#include "client/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/target.h"

/* Versions 2 and 1 of cgroups: where they are mounted; the files of a cgroup that are read. */
static const struct {
	const char *root, *current, *limit;
	/* key in memory.stat: inactive file cache, bytes, of the cgroup and of those below it */
	const char *cache;
} versions[] = {
	{"/sys/fs/cgroup", "memory.current", "memory.max", "\ninactive_file "},
	{"/sys/fs/cgroup/memory", "memory.usage_in_bytes", "memory.limit_in_bytes",
	    "\ntotal_inactive_file "},
};
enum { VERSIONS = sizeof(versions) / sizeof(versions[0]) };

const char *
client_cgroup_of(const char *text, const char *controller) {
	size_t length = strlen(controller);
	for (const char *at = text; *at != '\0'; at += *at == '\n') {
		const char *field = at + strcspn(at, ":\n");
		bool is_it = false;
		for (at = field; *at == (at == field ? ':' : ',');) {
			size_t n = strcspn(++at, ",:\n");
			is_it = is_it || (n == length && strncmp(at, controller, n) == 0);
			at += n;
		}
		if (is_it && *at == ':') {
			return at + 1;
		}
		at += strcspn(at, "\n");
	}
	return NULL;
}

void
client_take_cgroup(const char *text, char *cgroup, size_t size) {
	const char *at = client_cgroup_of(text, "memory");
	at = at != NULL ? at : client_cgroup_of(text, "");
	snprintf(cgroup, size, "%.*s", at != NULL ? (int)strcspn(at, "\n") : 0, at != NULL ? at : "");
}

bool
client_is_cgroup_visible(const char *cgroup) {
	return cgroup[0] == '/' && strstr(cgroup, "/..") == NULL;
}

/* Reads the beginning of a file of a cgroup; false: there is none, or it cannot be read. */
static bool
read_text(unsigned version, const char *cgroup, const char *file, char *text, size_t size) {
	char path[CLIENT_CGROUP + 128];
	snprintf(path, sizeof(path), "%s%s/%s", versions[version].root, cgroup, file);
	return client_read_file(path, text, size) > 0;
}

/*
 * Reads a number of bytes. "max" becomes UINT64_MAX; so does the largest number of version 1, which
 * means "no limit" there. False: the file cannot be read.
 */
static bool
read_bytes(unsigned version, const char *cgroup, const char *file, uint64_t *bytes) {
	char text[64];
	if (!read_text(version, cgroup, file, text, sizeof(text))) {
		return false;
	}
	uint64_t n = strncmp(text, "max", 3) == 0 ? UINT64_MAX : strtoull(text, NULL, 10);
	*bytes = n > INT64_MAX / 2 ? UINT64_MAX : n;
	return true;
}

static bool
read_version(unsigned version, const char *cgroup, uint64_t *current, uint64_t *limit) {
	return read_bytes(version, cgroup, versions[version].current, current)
	    && read_bytes(version, cgroup, versions[version].limit, limit);
}

bool
client_read_cgroup(const char *cgroup, uint64_t *current, uint64_t *limit) {
	return client_is_cgroup_visible(cgroup)
	    && (read_version(0, cgroup, current, limit) || read_version(1, cgroup, current, limit));
}

/*
 * Sets *room to the figures of this cgroup if these leave less room than *room has. Nothing changes
 * if the cgroup has no limit, or its files cannot be read.
 */
static void
take_least_room(unsigned version, const char *cgroup, client_room_t *room) {
	char text[16384] = "";
	uint64_t used, limit;
	if (!read_version(version, cgroup, &used, &limit) || limit == UINT64_MAX) {
		return;
	}
	read_text(version, cgroup, "memory.stat", text, sizeof(text));
	uint64_t cache = strtoull(client_status_line(text, versions[version].cache), NULL, 10);
	used -= cache < used ? cache : used;
	uint64_t bytes = limit > used ? limit - used : 0;
	if (bytes < room->bytes) {
		*room = (client_room_t){.bytes = bytes, .used = used, .limit = limit};
		snprintf(room->cgroup, sizeof(room->cgroup), "%s", cgroup);
	}
}

void
client_find_room(int task, client_room_t *room) {
	char text[8192], cgroup[CLIENT_CGROUP];
	*room = (client_room_t){.bytes = UINT64_MAX};
	if (client_read_proc(task, "cgroup", text, sizeof(text)) <= 0) {
		return;
	}
	client_take_cgroup(text, cgroup, sizeof(cgroup));
	for (unsigned i = 0; i < VERSIONS && client_is_cgroup_visible(cgroup); i++) {
		/*
		 * If the cgroup itself has no files here, the path is not meant from our mount: the paths
		 * above it then name other cgroups, such as that of the container that we are in.
		 */
		if (!read_text(i, cgroup, "cgroup.procs", text, sizeof(text))) {
			continue;
		}
		char at[CLIENT_CGROUP];
		memcpy(at, cgroup, sizeof(at));
		for (char *end = at + strlen(at); end != NULL; end = strrchr(at, '/')) {
			*end = '\0';
			take_least_room(i, at, room);
		}
	}
}
