/*
 * Finds and ends boxes of earlier programs of this process (prof_earlier.h).
 *
 * Invariant: nothing is changed but a box that says open, whose pid and start are ours, that was
 * opened after our start (as far as that is known), and that nobody has mapped: its flock() lock,
 * which its owner took (prof_box.c), is free, and is held here until the file is closed. No other
 * lock is taken while it is held. Called once, at boot, by prof.c.
 */
#include "prof/file/prof_earlier.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "meta/image.h"
#include "os/nstime.h"
#include "os/pages.h"
#include "os/sys.h"
#include "os/sys_call.h"
#include "prof/file/prof_box.h"
#include "prof/file/prof_dir.h"
#include "util/fmt.h"

/* Bytes that are read of a file: the root up to its texts, which has all that is_ours() asks. */
#define HEAD_BYTES offsetof(image_root_t, library_version)
/* ns by which the wall clock may have been set forward since the box was opened. */
#define SLACK_NS NSTIME_PER_SEC
/* Tries to lock a box: a reader holds the lock for a moment, a child of that program for good. */
#define LOCK_TRIES 20

static LARGE_BSS struct {
	uint32_t pid;
	uint64_t start_ticks; /* clock ticks from boot of the machine to the start of this process */
	uint64_t start_ns;    /* of this process, UTC, by the wall clock as it is now */
	char number[16];      /* ".PID." */
	image_root_t head;    /* of the file that is looked at; HEAD_BYTES of it */
	prof_dir_t dir;
} look;

/*
 * When this process started, UTC in ns; 0 if that is not known: then any time of a box is later.
 * It is needed besides pid and ticks: a process of an earlier boot of the machine may have had the
 * same pid and ticks.
 */
static uint64_t
start_of(uint64_t ticks) {
	struct timespec now;
	uint64_t hertz = sys_auxval(AT_CLKTCK);
	if (hertz == 0 || hertz > NSTIME_PER_SEC
	    || sys_call(SYS_clock_gettime, CLOCK_BOOTTIME, &now) != 0) {
		return 0;
	}
	uint64_t age = (uint64_t)now.tv_sec * NSTIME_PER_SEC + (uint64_t)now.tv_nsec
	    - ticks * (NSTIME_PER_SEC / hertz);
	return nstime_ns_between(age, nstime_realtime_ns());
}

/* Whether this is the root of an open box that an earlier program of this process has opened. */
static bool
is_ours(const image_root_t *head) {
	return head->head.magic == IMAGE_MAGIC && head->version == IMAGE_VERSION
	    && head->byte_order == IMAGE_BYTE_ORDER && head->state == image_open
	    && head->pid == look.pid && head->start_ticks == look.start_ticks
	    && head->opened_ns + SLACK_NS >= look.start_ns;
}

/* Marks the box in this file as replaced, and removes the file unless boxes are kept. */
static void
end_one(int fd) {
	size_t bytes = PAGE_CEILING(sizeof(image_root_t));
	image_root_t *root = pages_map_file(fd, bytes);
	if (root != NULL) {
		prof_box_end(root, image_replaced, look.dir.path);
		pages_unmap(root, bytes);
	}
}

/*
 * Called for each file of the prefix: ends the box in it, if is_ours() and no process has the box
 * mapped.
 */
static void
look_at(prof_dir_t *d, prof_kind_t kind, const char *name) {
	image_root_t *head = &look.head;
	if (kind != prof_kind_box || strstr(name, look.number) == NULL) {
		return;
	}
	int fd = sys_open(d->path, O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd < 0) {
		return;
	}
	if (sys_read(fd, head, HEAD_BYTES) == (ssize_t)HEAD_BYTES && is_ours(head)
	    && prof_sys_lock(fd, LOCK_TRIES) == 0) {
		end_one(fd);
	}
	sys_close(fd);
}

void
prof_earlier_end(void) {
	int saved = errno;
	if (opt_prof_blackbox != prof_box_true) {
		return;
	}
	look.start_ticks = prof_sys_start_ticks();
	if (look.start_ticks != 0) {
		look.pid = (uint32_t)sys_pid();
		look.start_ns = start_of(look.start_ticks);
		fmt_snprintf(look.number, sizeof(look.number), ".%u.", look.pid);
		prof_dir_try_update(&look.dir);
		prof_dir_each(&look.dir, look_at);
	}
	errno = saved;
}
