/*
 * Finds and ends boxes of earlier programs of this process (prof_earlier.h).
 *
 * Invariant: nothing is changed but a box that says open, whose pid and start are ours, that was
 * opened after our start, and that nobody has mapped (the lock of its owner, prof_box.c, is gone).
 * No locks: called once, at boot, by prof.c.
 */
#include "prof/file/prof_earlier.h"

#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "meta/image.h"
#include "os/gate.h"
#include "os/nstime.h"
#include "os/pages.h"
#include "os/sys.h"
#include "prof/file/prof_box.h"
#include "prof/file/prof_sys.h"
#include "util/assert.h"
#include "util/fmt.h"

/* The root up to the texts. */
#define HEAD_BYTES offsetof(image_root_t, library_version)
#define SCAN_BUF 4096
/* The wall clock may have been set back by so much since. */
#define SLACK_NS NSTIME_PER_SEC

static LARGE_BSS struct {
	uint32_t pid;
	uint64_t start_ticks;
	uint64_t start_ns;    /* of this process, by the wall clock as it is now */
	char number[16];      /* ".PID." */
	size_t dir_len;       /* length of the directory in path, with the slash */
	image_root_t head;    /* of the file that is looked at; HEAD_BYTES of it */
	char prefix[PROF_PATH_SIZE];
	char path[PROF_PATH_SIZE + 256];
	char buf[SCAN_BUF] ALIGNED(8);
} look;

/* By the wall clock; an earlier boot may have had a process with this pid and these ticks. */
static uint64_t
start_of(uint64_t ticks) {
	struct timespec now;
	uint64_t hertz = sys_auxval(AT_CLKTCK);
	if (hertz == 0 || hertz > NSTIME_PER_SEC
	    || syscall(SYS_clock_gettime, CLOCK_BOOTTIME, &now) != 0) {
		return 0;
	}
	uint64_t age = (uint64_t)now.tv_sec * NSTIME_PER_SEC + (uint64_t)now.tv_nsec
	    - ticks * (NSTIME_PER_SEC / hertz);
	return nstime_ns_between(age, nstime_realtime_ns());
}

static bool
is_ours(const image_root_t *head) {
	return head->head.magic == IMAGE_MAGIC && head->version == IMAGE_VERSION
	    && head->byte_order == IMAGE_BYTE_ORDER && head->state == image_open
	    && head->pid == look.pid && head->start_ticks == look.start_ticks
	    && head->opened_ns + SLACK_NS >= look.start_ns;
}

static void
end_one(int fd) {
	size_t bytes = PAGE_CEILING(sizeof(image_root_t));
	image_root_t *root = pages_map_file(fd, bytes);
	if (root != NULL) {
		prof_box_end(root, image_replaced, look.path);
		pages_unmap(root, bytes);
	}
}

static int
look_at(void *base, const char *name) {
	image_root_t *head = &look.head;
	size_t len = strlen(name);
	if (prof_sys_name_kind(name, base) != prof_kind_box || strstr(name, look.number) == NULL
	    || look.dir_len + len >= sizeof(look.path)) {
		return 0;
	}
	memcpy(look.path + look.dir_len, name, len + 1);
	int fd = sys_open(look.path, O_RDWR | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd < 0) {
		return 0;
	}
	if (sys_read(fd, head, HEAD_BYTES) == (ssize_t)HEAD_BYTES && is_ours(head)
	    && syscall(SYS_flock, fd, LOCK_EX | LOCK_NB) == 0) {
		end_one(fd);
	}
	sys_close(fd);
	return 0;
}

void
prof_earlier_end(void) {
	struct tls_s *t = tls_get();
	int saved = errno;
	assert(!gate_is_entered(t));
	if (opt_prof_blackbox != prof_box_true) {
		return;
	}
	look.start_ticks = prof_sys_start_ticks();
	if (look.start_ticks == 0) {
		errno = saved;
		return;
	}
	gate_enter(t);
	prof_sys_prefix_get(look.prefix, sizeof(look.prefix));
	gate_exit(t);
	const char *slash = strrchr(look.prefix, '/');
	if (slash != NULL) {
		look.pid = (uint32_t)sys_pid();
		look.start_ns = start_of(look.start_ticks);
		fmt_snprintf(look.number, sizeof(look.number), ".%u.", look.pid);
		look.dir_len = (size_t)(slash - look.prefix) + 1;
		memcpy(look.path, look.prefix, look.dir_len);
		look.path[look.dir_len] = '\0';
		sys_dir_each(look.path, look.buf, sizeof(look.buf), look_at,
		    look.prefix + look.dir_len);
	}
	errno = saved;
}
