/*
 * Inside of dead_profile.c: the profile of a process that has ended, where each step fails alone:
 * what is answered and kept, and that all that was made is released and closed. Prints what is
 * wrong. Built by inside.t.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int nblocks, nopen, is_without; /* of memory; of descriptors, images, profiles */

static void *
counted_malloc(size_t n) {
	void *p = is_without ? NULL : malloc(n);
	nblocks += p != NULL;
	return p;
}

static void
counted_free(void *p) {
	nblocks -= p != NULL;
	free(p);
}

#define malloc counted_malloc
#define free counted_free
#define close counted_close
static int counted_close(int fd);
#include "dead_profile.c"
#undef close

#include "expect.h"

options_t options = {.profile_max = 1000};

/* What each step does. */
static const struct step {
	const char *name;
	bool is_without, is_lost, is_raw;
	const char *why;      /* no profile can be made, as was told before */
	int kept;             /* bytes of the kept profile; -1: there is none */
	bool has_no_box;
	int image, text, parse, encode; /* errors */
	int root;
	unsigned status;
	const char *body;     /* of the answer, or a part of it */
	bool is_kept;         /* a profile is kept now */
} steps[] = {
    {"made", .kept = -1, .status = 200, .body = "proto of /", .is_kept = true},
    {"its root", .kept = -1, .root = 57, .status = 200, .body = "proto of /proc/self/fd/57",
    .is_kept = true},
    {"raw", .kept = 7, .is_raw = true, .status = 200, .body = "heap_v2"},
    {"kept", .kept = 7, .status = 200, .body = "kept..."},
    {"kept, the largest", .kept = 1000, .status = 200, .body = "kept..."},
    {"kept, too large", .kept = 1001, .status = 200, .body = "proto of /", .is_kept = true},
    {"kept, empty", .kept = 0, .status = 200, .body = "proto of /", .is_kept = true},
    {"without memory", .kept = 7, .is_without = true, .status = 503, .body = "no memory"},
    {"not there", .kept = -1, .is_lost = true, .root = 57, .status = 404,
    .body = "nothing is kept"},
    {"told", .kept = 7, .why = "no tables", .status = 404, .body = "no profile of KEY: no tables"},
    {"no box", .kept = -1, .has_no_box = true, .status = 404, .body = "No such file"},
    {"no image", .kept = -1, .image = EBADMSG, .status = 404, .body = "no profile of KEY: forged"},
    {"no memory for it", .kept = -1, .image = ENOMEM, .status = 503, .body = "KEY: forged"},
    {"a text too large", .kept = -1, .text = EFBIG, .status = 503, .body = "--max-profile 1000"},
    {"no text", .kept = -1, .text = EIO, .status = 404, .body = "Input/output error"},
    {"not parsed", .kept = -1, .parse = EBADMSG, .status = 503, .body = "of KEY: not such"},
    {"not encoded", .kept = -1, .encode = ENOMEM, .status = 503, .body = "of KEY: not enough"},
};
static const struct step *step;
static bool is_kept;

static int
counted_close(int fd) {
	nopen--;
	return fd == 57 ? 0 : close(fd);
}

bool
dead_find(const char *key, dead_t *to) {
	*to = (dead_t){.pid = 5};
	snprintf(to->why, sizeof(to->why), "%s", step->why != NULL ? step->why : "");
	return strcmp(key, "KEY") == 0 && !step->is_lost;
}

int
dead_file(const char *key, dead_file_t which) {
	static const char text[1001] = "kept...";
	if (which == dead_pprof ? step->kept < 0 : step->has_no_box) {
		errno = ENOENT;
		return -1;
	}
	FILE *file = tmpfile();
	fwrite(text, 1, which == dead_pprof ? (size_t)step->kept : 1, file);
	fflush(file);
	int fd = dup(fileno(file));
	fclose(file);
	nopen++;
	return strcmp(key, "KEY") == 0 ? fd : -1;
}

void
dead_keep_pprof(const char *key, const char *bytes, size_t length) {
	is_kept = strcmp(key, "KEY") == 0 && length == strlen(step->body)
	    && memcmp(bytes, step->body, length) == 0;
}

static char *
copy_of(const char *text) {
	char *p = counted_malloc(strlen(text) + 1);
	return strcpy(p, text);
}

int
jeprof_image_of_file(jeprof_image_t **image, int fd, char why[JEPROF_WHY]) {
	*image = (jeprof_image_t *)&nopen;
	snprintf(why, JEPROF_WHY, "%s", step->image != 0 ? "forged" : "");
	nopen += step->image == 0 && fd >= 0;
	return step->image;
}

int
jeprof_image_text(jeprof_image_t *image, uint64_t bytes_max, char **text, size_t *bytes) {
	expect("the image", image == (jeprof_image_t *)&nopen && bytes_max == 1000, true);
	*text = step->text != 0 ? NULL : copy_of("heap_v2");
	*bytes = 7;
	return step->text;
}

void
jeprof_image_close(jeprof_image_t *image) {
	nopen -= image == (jeprof_image_t *)&nopen;
}

int
pprof_parse(const char *text, size_t len, struct pprof_profile **out, const char **why) {
	expect("the text", len == 7 && memcmp(text, "heap_v2", 7) == 0, true);
	*out = step->parse != 0 ? NULL : (struct pprof_profile *)&nblocks;
	*why = "not such a dump";
	nopen += step->parse == 0;
	return step->parse;
}

int
pprof_encode(const struct pprof_profile *p, const struct pprof_request *request,
    unsigned char **out, size_t *len, const char **why) {
	char text[64];
	expect("the profile", p == (struct pprof_profile *)&nblocks && request->has_ages, true);
	snprintf(text, sizeof(text), "proto of %s", request->root);
	*out = step->encode != 0 ? NULL : (unsigned char *)copy_of(text);
	*len = strlen(text);
	*why = "not enough memory";
	return step->encode;
}

void
pprof_free(struct pprof_profile *p) {
	nopen -= p == (struct pprof_profile *)&nblocks;
}

void
answer_line(answer_t *a, unsigned status, const char *format, ...) {
	char text[512];
	bool was_without = is_without;
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	is_without = false;
	*a = (answer_t){.status = status, .body = copy_of(text), .length = strlen(text)};
	is_without = was_without;
}

int
main(void) {
	for (step = steps; step < steps + sizeof(steps) / sizeof(steps[0]); step++) {
		order_t order = {.key = "KEY", .is_raw = step->is_raw, .root = step->root};
		answer_t a = {.status = 0};
		char body[1100] = "";
		is_without = step->is_without;
		is_kept = false;
		nopen = step->root > 0;
		dead_answer(&order, &a);
		is_without = false;
		expect(step->name, a.status, step->status);
		if (a.body != NULL && a.length < sizeof(body)) {
			memcpy(body, a.body, a.length);
		}
		expect(step->name, strstr(body, step->body) != NULL, true);
		expect("its length", (long long)a.length,
		    step->kept == 1000 ? 1000 : (long long)strlen(body));
		expect("whether one is kept", is_kept, step->is_kept);
		counted_free(a.body);
		expect("memory that is lost", nblocks, 0);
		expect("what is not closed", nopen, 0);
	}
	return bad;
}
