/*
 * Opens and closes the black box (prof_box.h).
 *
 * Invariant: while the tables are moved no thread is inside the gate, no dump reads them, no record
 * of a loaded object is made, and the moving thread runs no signal handler; so no change of the
 * tables is lost. Locks: prof_dump is held during a move (and while prof_keep is asked for room),
 * and the gate (os/gate.h: fork waits until no thread is inside) is closed while the bytes are
 * copied. The thread that sets box.state to box_opening or box_closing, by compare-and-swap, owns
 * the other fields that are not atomic, and box_names.path, until it stores the next state. Called
 * by prof_session.c, prof_request.c and prof_control.c, by prof_earlier.c (for the box of a program
 * that ran in this process before exec), by prof.c at the start and in a forked child;
 * box_at_exit() by the C library at exit.
 */
#include "prof/file/prof_box.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "meta/region.h"
#include "os/gate.h"
#include "os/malloc_io.h"
#include "os/memfile.h"
#include "os/nstime.h"
#include "os/pages.h"
#include "os/sys.h"
#include "os/thread.h"
#include "prof/file/prof_course.h"
#include "prof/file/prof_dump.h"
#include "prof/file/prof_keep.h"
#include "prof/file/prof_sys.h"
#include "prof/sites/prof_opt.h"
#include "prof/sites/prof_root.h"
#include "prof/sites/prof_switch.h"
#include "thread/shelter.h"
#include "unwind/module_history.h"
#include "util/fmt.h"

prof_box_t opt_prof_blackbox;
size_t opt_prof_blackbox_size = (size_t)16 << 20;
bool opt_prof_blackbox_keep;
const char *const prof_box_names[] = {"false", "true", "fd", NULL};

/*
 * Rounds of os_pause(), 2 s at least: how long a move or prof_box_record_objects() waits for a
 * thread that records loaded objects, and an open for a thread that opens or closes the box.
 */
#define HOLD_TRIES 10000
/* Attempts to lock a box, with pauses, while a reader holds the lock to test it: 0.2 s at least. */
#define LOCK_TRIES 1000
/* Permission bits of a box: for the owner only, because it has addresses of the process. */
#define BOX_MODE 0600

/*
 * Values of box.state. box_is_over: prof_box_close() has ended the box but could not move the
 * tables back, so they stay in the file, also if that was removed, until prof_box_tick().
 */
enum { box_shut, box_opening, box_closing, box_is_open, box_is_over };

/*
 * Heartbeats and the exit of each process read this. The paths, which are large, are elsewhere, so
 * that a process without a box does not touch their pages.
 */
static struct {
	atomic_u32_t state;
	atomic_u32_t pid;     /* of the process that has opened it; only this one ends it at exit */
	memfile_t memfile;    /* the box if its kind is prof_box_fd; else not open */
	int fd_plus_1;        /* 1 + descriptor of the file while it is being opened; else 0 */
	atomic_b_t has_file;  /* the box is a file, at box_names.path; of no meaning in box_shut */
	atomic_b_t is_due;    /* a forked child is to open one */
	prof_box_t kind;
	/* the root directory when the file was opened; 0: not known */
	dev_t root_dev;
	ino_t root_ino;
	atomic_b_t has_warned; /* a message has said that a file was left */
} box;

static LARGE_BSS struct {
	char path[PROF_PATH_SIZE]; /* of the file; "memfd" for a memory file, "" without a box */
	char exe[PROF_PATH_SIZE];  /* buffer of prof_box_record_objects() */
} box_names;

/* ---------------------------------------------------------------- the file */

/*
 * Reserves size bytes (whole pages). If the file system cannot do that, or a filter of system calls
 * forbids it, writes zeros instead; a lack of room is an error at once. 0 or an errno.
 */
static int
file_reserve(int fd, size_t size) {
	static const char zeros[4096];
	int err = sys_reserve(fd, size);
	if (err == 0 || err == ENOSPC || err == EDQUOT || err == EFBIG) {
		return err;
	}
	err = 0;
	for (size_t at = 0; at < size && err == 0; at += sizeof(zeros)) {
		err = sys_write_all(fd, zeros, sizeof(zeros), 0, NULL);
	}
	return err;
}

/* Creates a file under a name that is free. Returns the descriptor, or -errno. */
static int
file_create(void) {
	prof_name_t name = {.kind = prof_kind_box, .begin_ns = nstime_realtime_ns()};
	int fd = -EEXIST;
	for (unsigned i = 0; i < PROF_NAME_TRIES && fd == -EEXIST; i++) {
		int err = prof_dump_filename(box_names.path, sizeof(box_names.path), &name);
		fd = err != 0 ? -err
		    : sys_open(box_names.path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, BOX_MODE);
		if (fd == -EEXIST) {
			prof_sys_seq_skip(i);
		}
	}
	return fd;
}

/* Notes the root directory, for has_other_root(). */
static void
note_root(void) {
	struct stat st;
	bool is_known = lstat("/", &st) == 0;
	box.root_dev = is_known ? st.st_dev : 0;
	box.root_ino = is_known ? st.st_ino : 0;
}

/*
 * Whether the root directory is another one than when the file was opened, as after chroot(): then
 * ENOENT does not mean that somebody has removed the file. False also if that is not known.
 */
static bool
has_other_root(void) {
	struct stat st;
	return box.root_ino != 0 && lstat("/", &st) == 0
	    && (st.st_dev != box.root_dev || st.st_ino != box.root_ino);
}

/*
 * Creates, locks (if that is possible) and reserves the file or memory file of the box; *fd is its
 * descriptor, or negative. Returns 0 or an errno value. In both cases file_close() must follow.
 */
static int
file_open(prof_box_t kind, size_t size, bool is_bounded, int *fd) {
	struct stat st;
	atomic_store_b(&box.has_file, false, MO_RELAXED);
	box_names.path[0] = '\0';
	if (prof_sys_file_is_forbidden(size)) {
		return EFBIG;
	}
	if (kind == prof_box_fd) {
		int err = memfile_open(&box.memfile, IMAGE_FD_NAME, size);
		memcpy(box_names.path, "memfd", sizeof("memfd"));
		*fd = memfile_fd(&box.memfile);
		if (err == 0) {
			prof_sys_lock(*fd, LOCK_TRIES);
		}
		return err != 0 ? err : file_reserve(*fd, size);
	}
	if (prof_sys_prefix_is_empty()) {
		return EINVAL;
	}
	if (!prof_dump_try_hold(is_bounded)) {
		return EBUSY;
	}
	bool has_room = prof_keep_try_room(prof_kind_box);
	prof_dump_release();
	if (!has_room) {
		return EAGAIN;
	}
	note_root();
	if (!prof_sys_create_begin()) {
		return ECANCELED;
	}
	*fd = file_create();
	box.fd_plus_1 = *fd < 0 ? 0 : *fd + 1;
	atomic_store_b(&box.has_file, *fd >= 0, MO_RELEASE);
	prof_sys_create_end();
	if (*fd < 0) {
		return -*fd;
	}
	/* Its owner must be able to open it, whatever the umask is; a filter need not permit fchmod. */
	if (sys_fstat(*fd, &st) == 0 && (st.st_mode & BOX_MODE) != BOX_MODE) {
		sys_fchmod(*fd, BOX_MODE);
	}
	prof_sys_lock(*fd, LOCK_TRIES);
	return file_reserve(*fd, size);
}

/*
 * Closes the descriptor of a file, which a mapped box does not need: the mapping keeps the lock of
 * prof_sys_lock() too. That of a memory file stays open, because readers come to it through
 * /proc/PID/fd. If err is not 0 nothing is left of either.
 */
static void
file_close(int fd, int err) {
	box.fd_plus_1 = 0; /* first, because another thread may fork */
	if (fd >= 0 && !memfile_is_open(&box.memfile)) {
		sys_close(fd);
	}
	if (err != 0 && atomic_load_b(&box.has_file, MO_RELAXED)) {
		sys_unlink(box_names.path);
	}
	if (err != 0) {
		memfile_close(&box.memfile);
		atomic_store_b(&box.has_file, false, MO_RELAXED);
		box_names.path[0] = '\0';
	}
}

/* ---------------------------------------------------------------- moving the tables */

/* module_history_try_hold(), for which it waits. False: another thread has it for too long. */
static bool
modules_try_hold(void) {
	unsigned tries = 0;
	while (!module_history_try_hold()) {
		if (++tries == HOLD_TRIES) {
			return false;
		}
		os_pause(tries);
	}
	return true;
}

/*
 * Moves the tables to the file, or if fd is negative to memory, while nobody else uses them, as the
 * invariant above says. 0 or the errno of that, or EBUSY if a dump hook calls, a bounded wait for a
 * dump is over, another thread records loaded objects for too long, or the gate cannot be closed.
 */
static int
move_alone(int fd, bool is_bounded) {
	sigset_t mask;
	int err = EBUSY;
	if (!prof_dump_try_hold(is_bounded)) {
		return EBUSY;
	}
	if (modules_try_hold()) {
		os_thread_block_all_signals(&mask);
		if (gate_try_stop()) {
			err = fd < 0 ? region_to_private() : region_to_box(fd);
			gate_let_go();
			shelter_trim();
		}
		os_thread_restore_signals(&mask);
		module_history_release();
	}
	prof_dump_release();
	return err;
}

/* ---------------------------------------------------------------- opening, closing */

/*
 * Stores in the root what readers of a box need: when the process and the box began, that the box
 * is open, and the first figures.
 */
static void
root_tell(image_root_t *root) {
	root->start_ticks = prof_sys_start_ticks();
	root->opened_ns = nstime_realtime_ns();
	root->ended_ns = 0;
	__atomic_store_n(&root->state, image_open, MO_RELEASE);
	prof_course_begin();
}

/* Records all loaded objects, and in the root which of them is the program (module_history.h). */
void
prof_box_record_objects(void) {
	if (!prof_box_is_open() || !modules_try_hold()) {
		return;
	}
	prof_sys_exe(box_names.exe, sizeof(box_names.exe));
	const module_record_t *program = module_history_look_program(box_names.exe);
	module_history_release();
	if (program != NULL) {
		__atomic_store_n(&prof_root()->program, (uintptr_t)program, MO_RELEASE);
	}
}

/* Sets the state from box_shut to box_opening; false if a box is open, or is moved for too long. */
static bool
box_try_begin_open(void) {
	uint32_t state = box_shut;
	unsigned tries = 0;
	while (!atomic_cas_strong_u32(&box.state, &state, box_opening, MO_ACQ_REL, MO_RELAXED)) {
		if (state >= box_is_open || ++tries == HOLD_TRIES) {
			return false;
		}
		os_pause(tries);
		state = box_shut;
	}
	return true;
}

int
prof_box_open(prof_box_t kind, size_t size, bool is_bounded) {
	int fd = -1, saved = errno;
	image_root_t *root = prof_root();
	assert(!gate_is_entered(tls_get()) && tls_get()->inside > 0);
	if (kind == prof_box_false || root == NULL) {
		return EINVAL;
	}
	if (!box_try_begin_open()) {
		return EALREADY;
	}
	atomic_store_u32(&box.pid, (uint32_t)sys_pid(), MO_RELAXED);
	size = PAGE_CEILING(size);
	int err = file_open(kind, size, is_bounded, &fd);
	err = err != 0 ? err : region_ahead_box(fd, size);
	err = err != 0 ? err : move_alone(fd, is_bounded);
	region_ahead_end();
	file_close(fd, err);
	if (err == 0) {
		box.kind = kind;
		root_tell(root);
	}
	atomic_store_u32(&box.state, err == 0 ? box_is_open : box_shut, MO_RELEASE);
	errno = saved;
	return err;
}

bool
prof_box_wants_thread(void) {
	return prof_box_is_open() || (opt_prof && opt_prof_blackbox != prof_box_false);
}

/* Only marks the box and removes its file; prof_box_close() also moves the tables back. */
int
prof_box_end(image_root_t *root, uint32_t state, const char *path) {
	__atomic_store_n(&root->ended_ns, nstime_realtime_ns(), MO_RELAXED);
	__atomic_store_n(&root->state, state, MO_RELEASE);
	return path != NULL && !opt_prof_blackbox_keep ? sys_unlink(path) : 0;
}

/*
 * Marks the own box as ended, and removes its file unless it is to be kept. A process that has
 * given up its rights since the start may be unable to; the first time, a message says so.
 */
static void
box_end(void) {
	char name[16];
	int err = prof_box_end(prof_root(), image_ended, atomic_load_b(&box.has_file, MO_ACQUIRE)
	    ? box_names.path : NULL);
	bool is_left = err != 0 && (err != ENOENT || has_other_root());
	if (is_left && !atomic_exchange_b(&box.has_warned, true, MO_RELAXED)) {
		malloc_printf("<jemalloc>: the black box of process %d has ended, but its file cannot be "
		    "removed (%s): %.*s\n", sys_pid(), prof_errno_name(err, name), 800, box_names.path);
	}
}

/* Moves the tables back into memory; called by the thread that set the state to box_closing. */
static void
box_leave(void) {
	region_ahead_private();
	int err = move_alone(-1, true);
	region_ahead_end();
	if (err == 0) {
		memfile_close(&box.memfile);
		box_names.path[0] = '\0';
	}
	atomic_store_u32(&box.state, err == 0 ? box_shut : box_is_over, MO_RELEASE);
}

/* Sets the state to box_closing; false if it was not `state`. */
static bool
box_try_begin_close(uint32_t state) {
	return atomic_cas_strong_u32(&box.state, &state, box_closing, MO_ACQ_REL, MO_RELAXED);
}

void
prof_box_close(void) {
	int saved = errno;
	assert(!gate_is_entered(tls_get()) && tls_get()->inside > 0);
	if (box_try_begin_close(box_is_open) || box_try_begin_close(box_is_over)) {
		box_end();
		box_leave();
	}
	errno = saved;
}

bool
prof_box_is_open(void) {
	return atomic_load_u32(&box.state, MO_ACQUIRE) >= box_is_open;
}

bool
prof_box_is_over(void) {
	return atomic_load_u32(&box.state, MO_RELAXED) == box_is_over;
}

/* Another thread may close the box meanwhile, or open one; the text may then be wrong or empty. */
void
prof_box_path(char *buf, size_t size) {
	fmt_snprintf(buf, size, "%s", prof_box_is_open() ? box_names.path : "");
}

/* ---------------------------------------------------------------- fork, exit */

/* The tables were made private by region_postfork_child(). A box that was over counts as open. */
void
prof_box_postfork_child(bool is_sampling) {
	image_root_t *root = prof_root();
	/* A parent that was due one itself has had no heartbeat: a daemon forks twice at once. */
	bool had = atomic_load_b(&box.is_due, MO_RELAXED)
	    || (prof_box_is_open() && box.kind == opt_prof_blackbox);
	atomic_store_b(&box.is_due, had && is_sampling, MO_RELAXED);
	memfile_close(&box.memfile); /* the parent's file */
	if (box.fd_plus_1 > 0) {
		/* The same; it would keep the file locked, as of a process that lives. */
		sys_close(box.fd_plus_1 - 1);
		box.fd_plus_1 = 0;
	}
	atomic_store_b(&box.has_file, false, MO_RELAXED);
	box_names.path[0] = '\0';
	atomic_store_u32(&box.state, box_shut, MO_RELAXED);
	if (root != NULL) {
		root->opened_ns = 0;
		root->start_ticks = 0;
	}
}

/* Whether a forked child is to open its box now; it waits while a session's box is open. */
static bool
is_open_due(void) {
	return unlikely(atomic_load_b(&box.is_due, MO_RELAXED))
	    && atomic_load_u32(&box.state, MO_RELAXED) == box_shut;
}

bool
prof_box_is_due(void) {
	return is_open_due() || unlikely(prof_box_is_over());
}

bool
prof_box_should_report(int err) {
	return err != 0 && err != ECANCELED && !(err == EAGAIN && prof_keep_has_told());
}

/*
 * Opens the box that a forked child is due. After EALREADY and EBUSY it stays due, because what was
 * in the way goes on to its end.
 */
static void
due_open(void) {
	char name[16];
	int err = prof_box_open(opt_prof_blackbox, opt_prof_blackbox_size, true);
	prof_box_record_objects();
	if (err == EALREADY || err == EBUSY) {
		return;
	}
	atomic_store_b(&box.is_due, false, MO_RELAXED);
	if (prof_box_should_report(err)) {
		malloc_printf("<jemalloc>: no black box for forked process %d: %s\n", sys_pid(),
		    prof_errno_name(err, name));
	}
}

void
prof_box_tick(void) {
	struct tls_s *t = tls_get();
	if (!prof_box_is_due()) {
		return;
	}
	t->inside++;
	if (box_try_begin_close(box_is_over)) {
		box_leave();
	}
	if (is_open_due()) {
		due_open();
	}
	t->inside--;
}

__attribute__((destructor)) static void
box_at_exit(void) {
	prof_sys_end();
	uint32_t state = atomic_load_u32(&box.state, MO_ACQUIRE);
	if (state == box_shut || gate_is_lost()
	    || atomic_load_u32(&box.pid, MO_RELAXED) != (uint32_t)sys_pid()) {
		return;
	}
	if (state != box_opening) {
		/* Also if it is over or being closed: this may repeat what prof_box_close() did. */
		box_end();
	} else if (atomic_load_b(&box.has_file, MO_ACQUIRE)) {
		sys_unlink(box_names.path); /* another thread is opening it: there is nothing in it yet */
	}
}
