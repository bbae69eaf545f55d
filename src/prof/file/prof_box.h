/*
 * The black box: the profiler's tables in a file, or in a memory file (memfd), that outlives the
 * process. Who is killed, by the kernel without memory or by SIGKILL, leaves a profile and the last
 * hour of its figures. The tables themselves are moved into the file (meta/region.h), so a sample
 * costs the same with and without it.
 *
 * The whole size is reserved when it opens, so a full disk is an error then and no signal later.
 * What finds no room in a full box is counted at one site, IMAGE_NO_ROOM. When the process ends
 * cleanly, or the session that opened the box, a file is removed unless prof_blackbox_keep is set.
 * The file is locked (flock) as long as a process has it mapped: so who reads it knows that one
 * lives that he cannot see, and prof_earlier.h that it has no user.
 */
#ifndef PROF_BOX_H
#define PROF_BOX_H

#include "meta/image.h"
#include "meta/region.h"
#include "util/compiler.h"

typedef enum {
	prof_box_false,
	prof_box_true,   /* a file, named as profiles are */
	prof_box_fd      /* a memory file, which is reached through /proc/PID/fd */
} prof_box_t;
extern const char *const prof_box_names[]; /* as the enum, then NULL */

/* Bytes of the largest box; REGION_BOX_MIN is the smallest. */
#define PROF_BOX_MAX ((size_t)1 << 30)

/* Options. */
extern prof_box_t opt_prof_blackbox;
extern size_t opt_prof_blackbox_size;
extern bool opt_prof_blackbox_keep;

/*
 * Opens a box and moves the tables into it. 0; EALREADY if one is open; ENOSPC if the disk is full
 * or the tables are larger than the box; or another errno value. Nothing is changed then. The
 * caller is outside the gate, with `inside` raised, and has booted the tables.
 */
int prof_box_open(prof_box_t kind, size_t size);
/* Moves the tables back into memory, and removes the file unless it is to be kept. */
void prof_box_close(void);
/*
 * Says in a box how it has ended (image_ended, image_replaced) and when, and removes its file
 * unless it is to be kept; path NULL: there is none.
 */
void prof_box_end(image_root_t *root, uint32_t state, const char *path);
bool prof_box_is_open(void);
/* Whether the open one was closed, but its tables could not be moved back yet: prof_box_tick(). */
bool prof_box_is_over(void);
/* Whether a box is open, or will be from the start: its ring is to have what needs a thread. */
bool prof_box_wants_thread(void);
/* Records the loaded objects in the box, as a reader of the file needs them; outside the gate. */
void prof_box_look(void);
/* The value of an option by its name in prof_box_names. 0 or EINVAL. */
int prof_box_by_name(const char *name, size_t len, prof_box_t *kind);
/* The path of the file, "memfd" or "". */
void prof_box_path(char *buf, size_t size);
/*
 * In a forked child, which has none: one of its own is due if the parent's was opened by the option
 * and the child samples. prof_box_tick() opens it, outside the gate; it also moves the tables back
 * after prof_box_close() could not.
 */
void prof_box_postfork_child(bool is_sampling);
bool prof_box_is_due(void);
void prof_box_tick(void);

#endif /* PROF_BOX_H */
