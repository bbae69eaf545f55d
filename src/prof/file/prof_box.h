/*
 * The black box: the profiler's tables in a file that outlives the process, or in a memory file
 * (memfd). A process that is killed, by the kernel for lack of memory or by SIGKILL, leaves a
 * profile and the last hour of its figures there. The tables themselves are moved into the file
 * (meta/region.h), so a sample costs the same with and without it.
 *
 * The whole size is reserved when the box opens, so a full disk is an error then, and not a SIGBUS
 * later. Samples that find no room in a full box are counted at one site, IMAGE_NO_ROOM. When the
 * process ends by exit(), not by a signal or _exit(), or the session that opened the box ends, the
 * file is removed unless prof_blackbox_keep is set; it stays, with a message, where the process may
 * no longer do that. The file is locked (flock) as long as a process has it mapped, if the file
 * system has such locks. By this lock a reader knows that the process lives, also in another pid
 * namespace, and prof_earlier.c that no process uses the box.
 *
 * The functions that open, close or move take the lock prof_dump and close the gate (os/gate.h:
 * threads wait until it opens, or work without locks); the questions take no lock. `inside`
 * (os/tls.h) is raised while a thread does work of the library. Called by prof_session.c,
 * prof_control.c, prof_request.c, prof_earlier.c and prof.c; the exit of the process ends the box.
 */
#pragma once

#include "meta/image.h"
#include "meta/region.h"
#include "util/compiler.h"

typedef enum {
	prof_box_false,
	prof_box_true,   /* a file, named as profiles are */
	prof_box_fd      /* a memory file, which is reached through /proc/PID/fd */
} prof_box_t;
extern const char *const prof_box_names[]; /* as the enum, then NULL */

/* Bytes of the largest box; REGION_BOX_MIN is the smallest. The parsers of options check both. */
#define PROF_BOX_MAX ((size_t)1 << 30)

/* Options: kind and bytes of the box at the start with prof:true; defaults of a session's box. */
extern prof_box_t opt_prof_blackbox;
extern size_t opt_prof_blackbox_size;
extern bool opt_prof_blackbox_keep; /* the file stays after a clean end */

/*
 * Opens a box of `size` bytes, rounded up to pages, and moves the tables into it. Returns 0;
 * EALREADY if one is open, or another thread opens or closes one for too long; ENOSPC if the disk
 * is full or the tables are larger than the box; EFBIG above RLIMIT_FSIZE; EAGAIN if a limit on
 * files forbids it (prof_keep.h); EINVAL for prof_box_false, or for a file without a prefix; EEXIST
 * if PROF_NAME_TRIES names in a row exist; ECANCELED for a file while another thread ends the
 * process; EBUSY in a dump hook, if a bounded wait (prof_dump_t) for a dump is over, if another
 * thread records loaded objects for too long, or if the gate cannot be closed; or another errno
 * value. On failure nothing is changed. The caller is outside the gate, with `inside` raised, and
 * has booted the tables.
 */
int prof_box_open(prof_box_t kind, size_t size, bool is_bounded);
/*
 * Whether this result of prof_box_open() needs a message: not success, ECANCELED, nor a lack of
 * room among the files that prof_keep.c has reported.
 */
bool prof_box_should_report(int err);
/*
 * Ends the box, if one is open: marks it as ended, removes the file unless it is to be kept, and
 * moves the tables back into memory; if that fails, see prof_box_is_over(). Waits two seconds at
 * most for a dump. Called as prof_box_open() is.
 */
void prof_box_close(void);
/*
 * Stores in a box how it has ended (image_ended, image_replaced) and when, and removes the file at
 * path unless it is to be kept; path NULL: there is no file. For the box of an earlier program
 * (prof_earlier.c) root is a mapping of its file. 0, or the errno with which it was not removed.
 */
int prof_box_end(image_root_t *root, uint32_t state, const char *path);
/* Whether a box is open: false while one is being opened or closed, true of one that is over. */
bool prof_box_is_open(void);
/*
 * Whether the open box has ended, but its tables could not be moved back yet; prof_box_tick() tries
 * again.
 */
bool prof_box_is_over(void);
/*
 * Whether a box is open, or the options ask for one from the start (even if it has ended or could
 * not be opened). Then the profiler's thread (prof_control.h) is wanted, since only it reads rss,
 * limit and faults for the figures in the box.
 */
bool prof_box_wants_thread(void);
/*
 * Called after prof_box_open(): if a box is open, records the loaded objects and the program, for
 * which its reader cannot ask the process; waits for another thread that records objects, at most
 * for HOLD_TRIES (prof_box.c). Takes the loader's lock: called outside the gate, without a lock.
 */
void prof_box_record_objects(void);
/* Copies the path of the file to buf; "memfd" for a memory file, "" if no box is open. */
void prof_box_path(char *buf, size_t size);
/*
 * In a forked child, which has no box yet. prof_box_tick() will open one if the parent's box was of
 * the kind that the option names, or the parent was due one, and the child samples (is_sampling).
 */
void prof_box_postfork_child(bool is_sampling);
/* Whether prof_box_tick() has something to do; asked at each heartbeat (thread/thread_event.h). */
bool prof_box_is_due(void);
/*
 * Opens the box that a forked child is due, and moves the tables back if prof_box_close() could
 * not. What is in the way, such as a dump that takes too long, puts either off to the next call;
 * after any other error the child gets no box, and a message says so. Called outside the gate, at
 * heartbeats, by the profiler's thread, or when a session starts while prof_box_is_over().
 */
void prof_box_tick(void);
