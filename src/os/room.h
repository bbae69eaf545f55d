/*
 * How much memory the process may still take before it comes near a limit.
 * Limits are memory.max of a container (cgroup v2), RLIMIT_DATA and RLIMIT_AS; "near" means that
 * nine tenths of one are used. What is used is known from the start of the process and from what
 * the allocator has taken since: files are read at the start only, because a program may forbid
 * that afterwards. So a limit that changes later, and memory of other processes of the container,
 * are not seen; nor is the limit of a group that is not the root of what the process sees, because
 * asking the system which group that is would cost each start 30 us.
 *
 * Under RLIMIT_AS or RLIMIT_DATA address space without use is bounded too, to half of the limit,
 * because it keeps mappings of others, as stacks of threads, from being made. No lock; called by
 * pac and extent (what is taken), extent/ahead, arenas and tcache_budget.
 */
#ifndef OS_ROOM_H
#define OS_ROOM_H

#include "util/atomic.h"
#include "util/compiler.h"

/* Bytes that all arenas have from the system, without retained address space. */
extern HIDDEN atomic_zu_t room_mapped;

/*
 * Address space that arenas may have without use: half of the smaller of RLIMIT_AS and RLIMIT_DATA;
 * SIZE_MAX without a limit. `mapped` counts the bytes of extents that are mapped, `used` those in
 * use; both are counted in any case, or, `used`, only where there is a limit.
 */
typedef struct {
	size_t max;
	atomic_zu_t mapped;
	atomic_zu_t used;
} room_space_t;
extern HIDDEN room_space_t room_space;

static inline bool
room_space_is_limited(void) {
	return unlikely(room_space.max != SIZE_MAX);
}

/* Bytes of address space without use beyond the bound if `more` bytes are mapped; 0: none. */
static inline size_t
room_space_excess(size_t more) {
	size_t mapped = atomic_load_zu(&room_space.mapped, MO_RELAXED) + more;
	size_t used = atomic_load_zu(&room_space.used, MO_RELAXED);
	size_t unused = mapped > used ? mapped - used : 0;
	return unused > room_space.max ? unused - room_space.max : 0;
}

/* Bytes from `used` to nine tenths of a limit; 0 if they are used. */
static inline size_t
room_below(uint64_t limit, uint64_t used) {
	uint64_t top = limit - limit / 10;
	return used < top ? (size_t)(top - used) : 0;
}

/* Reads the limits and what is used of them. */
void room_boot(void);
/* Bytes until the nearest limit is near; SIZE_MAX if there is none, or before room_boot(). */
size_t room_now(void);
/*
 * The smallest limit of memory, read now from files: of its control group (of version 1 too) and
 * those above, or RLIMIT_DATA or RLIMIT_AS; 0 if there is none that can be read.
 */
uint64_t room_limit(void);

/* ---- for room_group.c */
#define ROOM_PATH_MAX 512
/* Bytes of /proc/self/cgroup that are read: it has a line for each controller. */
#define ROOM_LINES_MAX 2048
/* Version 1 says "no limit" by a number of about 2^63. */
#define ROOM_NONE (UINT64_C(1) << 62)
/* Reads a file as a text with a NUL; false if it is empty or cannot be read. */
bool room_try_read_text(const char *path, char *text, size_t size);
/* Reads the number in a file of a control group; false if it has none ("max": no limit). */
bool room_try_read_number(const char *dir, const char *name, uint64_t *number);
/*
 * The path of the process's control group in a line of /proc/self/cgroup, which `text` holds: the
 * one behind `key`; NULL if there is no such line. The line's end and a lone slash are cut off: the
 * files of the top group, "/", lie in the directory itself.
 */
char *room_group(char *text, const char *key);

#endif
