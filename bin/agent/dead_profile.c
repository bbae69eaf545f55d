/*
 * Profiles of the dead, processes that ended (dead.h). Each is made from the kept copy of its box,
 * the profiler's tables, gets names of functions from ELF files, and is then kept itself.
 * dead_watch.c starts a job for that when it has noticed the end, because these files may be gone
 * soon. If that job kept no profile, one is made when a client asks for it, and kept then.
 * --max-profile limits the heap_v2 text that a profile is made from, not the profile made; but a
 * kept one above that limit is not read: it is made anew for each request. No locks of its own, no
 * state: each job has its own image of the box. Called by scrape.c, in the thread of a job.
 */
#include "dead.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pprof.h"

/* The box as heap_v2 text, which the caller frees. 0; or an errno with a sentence in `why`. */
static int
write_text(int box, char **text, size_t *length, char why[JEPROF_WHY]) {
	jeprof_image_t *image;
	int error = jeprof_image_of_file(&image, box, why);
	if (error == 0) {
		error = jeprof_image_text(image, options.profile_max, text, length);
		jeprof_image_close(image);
	}
	return error;
}

/*
 * Answers with the kept profile. False: there is none, it has more than --max-profile bytes, or
 * there is no memory; then the caller makes it anew, which limits only the text.
 */
static bool
try_kept(const char *key, answer_t *a) {
	struct stat st;
	int fd = dead_file(key, dead_pprof);
	char *bytes = fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0
	    && st.st_size <= (off_t)options.profile_max ? malloc((size_t)st.st_size) : NULL;
	bool is_whole = bytes != NULL && pread(fd, bytes, (size_t)st.st_size, 0) == st.st_size;
	if (fd >= 0) {
		close(fd);
	}
	if (!is_whole) {
		free(bytes);
		return false;
	}
	*a = (answer_t){.status = 200, .type = "application/octet-stream", .body = bytes,
	    .length = (size_t)st.st_size};
	return true;
}

/*
 * Answers with the heap_v2 text as profile.proto, and keeps that; or with a failure. Always with
 * ages, whatever ?ages= says, since one profile is kept for all. Function names come from the files
 * below order->root; if it is 0, from those below our root. It is 0 in a client's order, and if the
 * process had our root or its root could not be opened. pprof_encode() takes names only from a file
 * with the build-id that the profile tells or, if it tells none, with the inode.
 */
static void
convert(const order_t *order, const char *text, size_t length, answer_t *a) {
	char root[32] = "/";
	struct pprof_profile *profile = NULL;
	struct pprof_request request = {.root = root, .cache_dir = options.cache_dir,
	    .cache_bytes = options.cache_max, .use_debuginfod = options.use_debuginfod,
	    .has_ages = true};
	const char *why = "";
	unsigned char *out = NULL;
	size_t bytes = 0;
	if (order->root > 0) {
		snprintf(root, sizeof(root), "/proc/self/fd/%d", order->root);
	}
	int error = pprof_parse(text, length, &profile, &why);
	if (error == 0) {
		error = pprof_encode(profile, &request, &out, &bytes, &why);
		pprof_free(profile);
	}
	if (error != 0) {
		answer_line(a, 503, "the profile of %s: %s", order->key, why);
		return;
	}
	dead_keep_pprof(order->key, (const char *)out, bytes);
	*a = (answer_t){.status = 200, .type = "application/octet-stream", .body = (char *)out,
	    .length = bytes};
}

/* Answers with the profile made from the box, heap_v2 if is_raw; or with a failure. */
static void
answer_from_box(const order_t *order, answer_t *a) {
	char why[JEPROF_WHY] = "", *text = NULL;
	size_t length = 0;
	int box = dead_file(order->key, dead_box);
	int error = box >= 0 ? write_text(box, &text, &length, why) : ENOENT;
	if (box >= 0) {
		close(box);
	}
	if (error == EFBIG) {
		answer_line(a, 503, "the profile has more than --max-profile %llu bytes",
		    (unsigned long long)options.profile_max);
	} else if (error != 0) {
		answer_line(a, error == ENOMEM ? 503 : 404, "no profile of %s: %s", order->key,
		    why[0] != '\0' ? why : strerror(error));
	} else if (order->is_raw) {
		*a = (answer_t){.status = 200, .type = "text/plain; charset=utf-8", .body = text,
		    .length = length};
		text = NULL;
	} else {
		convert(order, text, length, a);
	}
	free(text);
}

void
dead_answer(const order_t *order, answer_t *a) {
	dead_t *d = malloc(sizeof(*d));
	if (d == NULL) {
		answer_line(a, 503, "jeprofd has no memory");
	} else if (!dead_find(order->key, d)) {
		answer_line(a, 404, "nothing is kept of a process %s", order->key);
	} else if (d->why[0] != '\0') {
		answer_line(a, 404, "no profile of %s: %s", order->key, d->why);
	} else if (order->is_raw || !try_kept(order->key, a)) {
		answer_from_box(order, a);
	}
	free(d);
	if (order->root > 0) {
		close(order->root);
	}
}
