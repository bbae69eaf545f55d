/*
 * Opens and closes images (jeprof_client.h has the contract). Invariant: of an image that is handed
 * out all tables have been read, but not the ring (image_course.c); one that could not be read is
 * freed. No locks, no state but the image's. Called by bin/ctl (dump.c, status.c) and bin/agent
 * (dead_facts.c, dead_profile.c, scrape.c).
 */
#include "client/image_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * A profile has about so many bytes, or more, for each object of the tables that it is made of: a
 * site with one count is two objects and takes 80 bytes or more with its stack; each further count,
 * of another thread, takes about 25.
 */
enum { TEXT_PER_OBJECT = 32 };

/* A new image whose sentences go to `why`. NULL, with a sentence there, without memory. */
static jeprof_image_t *
image_new(char *why) {
	jeprof_image_t *image = calloc(1, sizeof(*image));
	if (image != NULL) {
		image->why = why;
		image->fd = -1;
		image->objects_most = UINT64_MAX;
	} else {
		strcpy(why, "no memory");
	}
	return image;
}

/*
 * Reads the root and the tables after the source has found them; `error` is what the source
 * returned. A source is image_of_process(), image_of_box() or image_of_core(). After a failure,
 * also of the source, it frees the image.
 */
static int
image_finish(jeprof_image_t *image, int error, jeprof_image_t **to) {
	error = error != 0 ? error : image_read_root(image);
	error = error != 0 ? error : image_read_tables(image);
	if (error == 0) {
		*to = image;
	} else {
		jeprof_image_close(image);
	}
	return error;
}

/* jeprof_image_of_process() that reads no more than so many objects. */
static int
read_process(jeprof_image_t **to, jeprof_target_t *t, uint64_t objects_most) {
	jeprof_image_t *image = image_new(t->why);
	if (image == NULL) {
		return ENOMEM;
	}
	image->target = t;
	image->objects_most = objects_most;
	if (t->way != jeprof_way_memory && t->way != jeprof_way_calls) {
		return image_finish(image, image_fail(image, EACCES, "%d %s: its memory may not be read, "
		    "only its mailbox: use sudo", t->pid, t->name), to);
	}
	return image_finish(image, image_of_process(image), to);
}

int
jeprof_image_of_process(jeprof_image_t **to, jeprof_target_t *t) {
	return read_process(to, t, UINT64_MAX);
}

int
jeprof_image_unanswered(jeprof_image_t **to, jeprof_target_t *t, int error, uint64_t bytes_max) {
	char why[JEPROF_WHY];
	if (error != ETIMEDOUT && error != EBUSY) {
		return error;
	}
	memcpy(why, t->why, sizeof(why));
	int failed = read_process(to, t, bytes_max == 0 ? UINT64_MAX : bytes_max / TEXT_PER_OBJECT + 1);
	if (failed == 0 && bytes_max != 0 && (*to)->is_spent) {
		jeprof_image_close(*to); /* it is not whole */
		failed = EFBIG;
	}
	memcpy(t->why, why, sizeof(why));
	return failed == 0 ? 0 : error;
}

int
jeprof_image_of_file(jeprof_image_t **to, int fd, char why[JEPROF_WHY]) {
	jeprof_image_t *image = image_new(why);
	uint64_t magic = 0;
	if (image == NULL) {
		return ENOMEM;
	}
	image->fd = fd;
	image->is_stream = lseek(fd, 0, SEEK_CUR) < 0;
	bool is_box = !image->is_stream && image_read_file(image, 0, &magic, sizeof(magic))
	    && (magic == IMAGE_MAGIC || magic == __builtin_bswap64(IMAGE_MAGIC));
	return image_finish(image, is_box ? image_of_box(image) : image_of_core(image), to);
}

static void
table_free(image_table_t *t) {
	free(t->keys);
	free(t->values);
}

void
jeprof_image_close(jeprof_image_t *image) {
	if (image == NULL) {
		return;
	}
	for (size_t i = 0; i < image->ranges.n; i++) {
		free(((image_range_t *)image->ranges.items)[i].bytes);
	}
	for (size_t i = 0; i < image->objects.n; i++) {
		free(((image_object_t *)image->objects.items)[i].path);
	}
	for (size_t i = 0; i < image->modules.n; i++) {
		free(((image_module_t *)image->modules.items)[i].path);
	}
	image_array_t *arrays[] = {&image->ranges, &image->objects, &image->sites, &image->shares,
	    &image->frames, &image->threads, &image->modules, &image->columns, &image->labeled};
	for (size_t i = 0; i < sizeof(arrays) / sizeof(arrays[0]); i++) {
		free(arrays[i]->items);
	}
	table_free(&image->visited);
	table_free(&image->known);
	table_free(&image->counts);
	table_free(&image->labeled_at);
	for (size_t i = 0; image->labels != NULL && i < IMAGE_LABELS; i++) {
		free(image->labels[i].text);
	}
	free(image->labels);
	free(image->maps);
	free(image);
}

jeprof_image_facts_t
jeprof_image_facts(const jeprof_image_t *image) {
	const image_root_t *r = &image->root;
	const image_figures_t *f = &r->figures;
	return (jeprof_image_facts_t){.pid = r->pid, .session_id = r->session,
	    .session_start_ns = r->session_start_ns, .rate = r->rate, .time_ns = f->time_ns,
	    .allocated = f->allocated, .active = f->active, .resident = f->resident,
	    .retained = f->retained, .rss = f->rss, .limit = f->limit, .samples = image->cur.objs,
	    .sites = image->nsites, .torn = image->torn,
	    .is_broken = image->is_broken, .no_room = r->no_room,
	    .lacks_files = image->lacks_files, .lacking = image->lacking, .cut = image->cut,
	    .ended_ns = r->state != image_open ? r->ended_ns : 0};
}
