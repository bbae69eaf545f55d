/*
 * Inside of dead_store.c: a copy of a box that grows meanwhile, and what is kept where a file
 * system tells no blocks of a file, or is full. Prints what is wrong. Built by inside.t with checks
 * of the sizes of buffers.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int write_error; /* of pwrite(); 0: it succeeds */
static int has_no_blocks;
static int has_data; /* whether a box that is kept is more than a hole */

static int
told_fstat(int fd, struct stat *st) {
	int result = fstat(fd, st);
	st->st_blocks = has_no_blocks ? 0 : st->st_blocks;
	return result;
}

static ssize_t
tried_pwrite(int fd, const void *from, size_t size, off_t at) {
	if (write_error == 0) {
		return pwrite(fd, from, size, at);
	}
	errno = write_error;
	return -1;
}

static int jump_s; /* seconds by which the wall clock was set forward */

static int
set_clock_gettime(clockid_t clock, struct timespec *to) {
	int result = clock_gettime(clock, to);
	to->tv_sec += clock == CLOCK_REALTIME ? jump_s : 0;
	return result;
}

static int
failing_unlinkat(int at, const char *name, int flags) {
	(void)at, (void)name, (void)flags;
	errno = EROFS;
	return -1;
}

#define clock_gettime set_clock_gettime
#define fstat told_fstat
#define pwrite tried_pwrite
#define unlinkat failing_unlinkat
#include "client/clock.c"
#include "dead_store.c"
#include "expect.h"

/* Copies the first `size` bytes of a box of `all` bytes with data in its last piece. */
static void
try_size(off_t size, off_t all) {
	char piece[PIECE];
	struct stat st;
	memset(piece, 1, sizeof(piece));
	int box = memfd_create("box", 0), to = memfd_create("to", 0);
	if (ftruncate(box, all) != 0 || ftruncate(to, size) != 0
	    || pwrite(box, piece, PIECE, all - PIECE) != PIECE) {
		printf("no memory\n");
		bad = 1;
	}
	bool is_copied = try_copy(to, box, size);
	if (!is_copied || fstat(to, &st) != 0 || st.st_size != size) {
		printf("%ld of %ld bytes: copied %d\n", (long)size, (long)all, is_copied);
		bad = 1;
	}
	close(box);
	close(to);
}

/* Keeps one of the dead; why: what it says if there is no box. */
static void
try_keep(const char *name, int error, const char *why) {
	static dead_t d;
	d = (dead_t){.pid = 7, .how = end_signal,
	    .ended_ms = client_clock_ns(CLOCK_REALTIME) / 1000000};
	int box = memfd_create("box", 0);
	expect("a box of one page", ftruncate(box, PIECE), 0);
	expect("its data", !has_data || pwrite(box, "data", 4, 0) == 4, true);
	write_error = error;
	expect(name, dead_keep(&d, box), true);
	if (strcmp(d.why, why) != 0) {
		printf("%s: %s\n", name, d.why);
		bad = 1;
	}
	int fd = dead_file(d.key, dead_box);
	expect(name, fd >= 0, error == 0);
	if (fd >= 0) {
		close(fd);
	}
	close(box);
	write_error = 0;
}

static void
try_disk(void) {
	char path[] = "dead.XXXXXX", name[64];
	expect("a directory", mkdtemp(path) != NULL, true);
	dir = open(path, O_RDONLY | O_DIRECTORY);
	try_keep("on disk", 0, "");
	snprintf(name, sizeof(name), "%s.box", all[kept - 1].d->key);
#undef unlinkat
	expect("its file", unlinkat(dir, name, 0), 0);
	try_keep("a full disk", ENOSPC, "its box could not be written: No space left on device");
	snprintf(name, sizeof(name), "%s.box.draft", all[kept - 1].d->key);
	expect("its draft", unlinkat(dir, name, 0), 0);
	has_data = 1;
	try_keep("full for the copy", ENOSPC, "its box could not be copied: No space left on device");
	snprintf(name, sizeof(name), "%s.box.draft", all[kept - 1].d->key);
	expect("that draft", unlinkat(dir, name, 0), 0);
	expect("nothing else", rmdir(path), 0);
	close(dir);
	dir = -1;
}

int
main(void) {
	try_size(8 * PIECE, 8 * PIECE);
	try_size(2 * PIECE, 8 * PIECE);
	try_size(2 * PIECE + 100, 3 * PIECE);
	try_size(2 * PIECE + 100, 4 * PIECE);
	try_size(3 * PIECE, 4 * PIECE);
	try_keep("in memory", 0, "");
	has_no_blocks = 1;
	try_keep("no blocks", 0, "");
	jump_s = 2 * 86400;
	dead_expire();
	expect("kept, though the clock was set forward by two days", kept, 2);
	jump_s = 0;
	all[0].until_ms = now_ms();
	dead_expire();
	expect("kept, when the day of one is over", kept, 1);
	try_disk();
	return bad;
}
