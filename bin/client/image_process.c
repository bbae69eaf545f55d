/*
 * Begins an image of the memory of a process, which may run, or be stopped, or hang: finds the root
 * of the profiler's tables (image_file.c then reads the tables) and the objects (image_read.h).
 * Invariant: nothing is written into the process, and it need not run. No locks. Called by
 * image_file.c.
 */
#include "client/image_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * Copies /proc/TASK/maps, which tells the objects: the files that the process has mapped as code.
 * If it cannot be opened, the image has no map and no objects; after a failed read, what came
 * before. 0 or ENOMEM.
 */
static int
maps_copy(jeprof_image_t *image) {
	char path[64], buf[16384];
	snprintf(path, sizeof(path), "/proc/%d/maps", image->target->task);
	int fd = open(path, O_RDONLY | O_CLOEXEC), error = 0;
	ssize_t n;
	while (fd >= 0 && error == 0 && (n = read(fd, buf, sizeof(buf))) > 0) {
		error = image_add_text(image, buf, (size_t)n);
	}
	if (fd >= 0) {
		close(fd);
	}
	return error == 0 ? 0 : image_fail(image, error, "%s: %s", path, strerror(error));
}

/*
 * Sets is_live (also if the process is stopped), kind, `at`, exe, the text of the map and the
 * objects. The caller has checked that t->way is memory or calls. 0; ENOENT if the profiler has no
 * root yet; ESRCH if the memory is gone, or the errno with which that cannot be checked; ENOMEM.
 * After a failure the sentence is in image->why.
 */
int
image_of_process(jeprof_image_t *image) {
	jeprof_target_t *t = image->target;
	char path[64];
	uint64_t block; /* not used: the target has it already */
	image->is_live = true;
	image->kind = "outside";
	if (!client_read_memory(t, t->block + offsetof(prof_mailbox_t, root), &image->at,
	    sizeof(image->at))) {
		return client_memory_gone(t);
	}
	if (image->at == 0) {
		return image_fail(image, ENOENT, "%d %s: nothing has started the profiler yet, or its "
		    "library is older than this program", t->pid, t->name);
	}
	snprintf(path, sizeof(path), "/proc/%d/exe", t->task);
	client_read_link(path, image->exe, sizeof(image->exe));
	int error = maps_copy(image);
	if (error == 0 && image_find_objects(image, &block) != 0) {
		error = image_fail(image, ENOMEM, "no memory");
	}
	return error;
}
