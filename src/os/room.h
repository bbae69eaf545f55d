/*
 * How much memory the process may still take before it comes near a limit (room_now()).
 * Limits are memory.max of a container (cgroup v2), RLIMIT_DATA and RLIMIT_AS; "near" means that
 * nine tenths of one are used. What is used is computed: what room_boot() has read once from files
 * at the start, because a program may forbid that afterwards, plus what the arenas have mapped
 * since. So a limit that changes later, and what the program or other processes of the container
 * take later, are not seen; nor is the limit of a group below the root of the tree that the process
 * sees, because asking the system which group that is would cost each start 30 us. (room_limit() of
 * room_group.c reads anew, asks for the group, and knows version 1 too.)
 *
 * Under RLIMIT_AS or RLIMIT_DATA address space without use is bounded too, to half of the limit,
 * because it keeps other mappings, such as stacks of threads, from being made. No lock: all is
 * atomic or written at boot (jemalloc_init.c calls room_boot()). extent/ (pac, pac_step, extent)
 * counts what is taken and asks for the excess; extent/ahead and tcache_budget ask for the room;
 * room_group.c for limits; meta/emap whether address space is limited.
 */
#pragma once

#include "util/atomic.h"
#include "util/compiler.h"

/* Bytes that all arenas have mapped, without address space that is kept for later (retained). */
extern HIDDEN atomic_zu_t room_mapped;

/*
 * The address space of all arenas, in bytes. max: what may be without use, half of the smaller of
 * RLIMIT_AS and RLIMIT_DATA; SIZE_MAX without a limit. mapped: what is mapped, with retained
 * address space; always counted. used: what is in use; counted only where there is a limit.
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

/*
 * Bytes of unused address space beyond the bound, if `more` bytes were mapped too; 0: it is within
 * the bound, or there is no bound.
 */
static inline size_t
room_space_excess(size_t more) {
	size_t mapped = atomic_load_zu(&room_space.mapped, MO_RELAXED) + more;
	size_t used = atomic_load_zu(&room_space.used, MO_RELAXED);
	size_t unused = mapped > used ? mapped - used : 0;
	return unused > room_space.max ? unused - room_space.max : 0;
}

/* Bytes from `used` to nine tenths of a limit; 0 if as much is used already. */
static inline size_t
room_below(uint64_t limit, uint64_t used) {
	uint64_t top = limit - limit / 10;
	return used < top ? (size_t)(top - used) : 0;
}

/* Reads the limits and what is used of them. */
void room_boot(void);
/* Bytes until the nearest limit is near; SIZE_MAX if there is none, or before room_boot(). */
size_t room_now(void);
/* ---- for room_group.c */
/* The smaller of RLIMIT_DATA and RLIMIT_AS, read at the call, or UINT64_MAX. */
uint64_t room_limit_of_space(void);
/* Bytes of the path of a file of a control group, and of the path of a group, with the NUL. */
#define ROOM_PATH_MAX 512
/* Bytes of /proc/self/cgroup that are read, with a NUL: it has a line for each controller. */
#define ROOM_LINES_MAX 2048
/* A limit of this or more bytes is none: version 1 says "no limit" by a number of about 2^63. */
#define ROOM_NONE (UINT64_C(1) << 62)
/*
 * Reads the number in the file `name` of the control group whose directory is dir, below
 * /sys/fs/cgroup; false if there is none ("max": no limit) or the path is too long; *number then
 * means nothing.
 */
bool room_try_read_number(const char *dir, const char *name, uint64_t *number);
