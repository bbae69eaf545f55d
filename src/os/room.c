/*
 * Reads the memory limits of the process and how much of each is used (room.h has the contract).
 * Invariant: a limit that cannot be read or parsed counts as none, and so does memory.max if the
 * container's use cannot be read; of a resource limit 0 bytes are used then. All buffers are on the
 * stack, and there is no lock: room_boot(), called at boot by jemalloc_init.c, writes room_at_start
 * and room_space.max; the counters are atomic.
 */
#include "os/room.h"

#include <sys/resource.h>

#include "os/sys.h"
#include "util/bits.h"
#include "util/fmt.h"

atomic_zu_t room_mapped;
static EARLY_DATA size_t room_at_start = SIZE_MAX; /* room in bytes at boot; SIZE_MAX: no limit */
EARLY_DATA room_space_t room_space = {.max = SIZE_MAX}; /* max is written once, at boot */

bool
room_try_read_number(const char *dir, const char *name, uint64_t *number) {
	char path[ROOM_PATH_MAX];
	int len = fmt_snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", dir, name);
	return len < (int)sizeof(path) && sys_try_read_number(path, number);
}

static size_t
room_in_container(void) {
	uint64_t limit, used;
	bool is_limited = room_try_read_number("", "memory.max", &limit)
	    && room_try_read_number("", "memory.current", &used);
	return is_limited ? room_below(limit, used) : SIZE_MAX;
}

/* A resource limit (the soft one, at present); UINT64_MAX: none. */
static uint64_t
room_limit_of_resource(int resource) {
	struct rlimit lim;
	return ERROR_OF(getrlimit(resource, &lim)) != 0 || lim.rlim_cur == RLIM_INFINITY ? UINT64_MAX
	    : lim.rlim_cur;
}

/* The room below a resource limit, of which the field of statm is used; SIZE_MAX: no limit. */
static size_t
room_by_rlimit(int resource, unsigned field) {
	uint64_t limit = room_limit_of_resource(resource), statm[STATM_FIELDS];
	if (limit == UINT64_MAX) {
		return SIZE_MAX;
	}
	sys_read_statm(statm);
	return room_below(limit, statm[field]);
}

uint64_t
room_limit_of_space(void) {
	uint64_t data = room_limit_of_resource(RLIMIT_DATA), all = room_limit_of_resource(RLIMIT_AS);
	return data < all ? data : all;
}

void
room_boot(void) {
	size_t room = room_in_container();
	room = min_zu(room, room_by_rlimit(RLIMIT_DATA, STATM_DATA));
	room = min_zu(room, room_by_rlimit(RLIMIT_AS, STATM_SPACE));
	uint64_t space = room_limit_of_space();
	room_at_start = room;
	room_space.max = space == UINT64_MAX ? SIZE_MAX : (size_t)(space / 2);
}

size_t
room_now(void) {
	size_t taken = atomic_load_zu(&room_mapped, MO_RELAXED);
	return room_at_start == SIZE_MAX ? SIZE_MAX : room_at_start - min_zu(room_at_start, taken);
}
