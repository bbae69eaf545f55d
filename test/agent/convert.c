/*
 * A heap_v2 file as pprof, on stdout: what the agent does with a profile, for the tests and to measure.
 * usage: convert [--base FILE] [--cache DIR] [--pid N] [--type NAME] [--symbolizer PATH]
 *                [--bytes N] [--times N] FILE
 * --times: does all of it so often, and writes the last; microseconds of CPU of each on stderr.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pprof.h"

static char *
file_read(const char *path, size_t *len) {
	FILE *in = fopen(path, "rb");
	size_t room = 0;
	char *text = NULL;
	*len = 0;
	if (in == NULL) {
		perror(path);
		exit(2);
	}
	do {
		room = room * 2 + 65536;
		text = realloc(text, room);
		*len += fread(text + *len, 1, room - *len, in);
	} while (*len == room);
	fclose(in);
	return text;
}

static int
fail(const char *what, int err, const char *why) {
	fprintf(stderr, "convert: %s: %s: %s\n", what, strerror(err), why);
	return 1;
}

static int
profile_read(const char *path, struct pprof_profile **out) {
	const char *why = "";
	size_t len;
	char *text = file_read(path, &len);
	int err = pprof_parse(text, len, out, &why);
	free(text);
	return err == 0 ? 0 : fail(path, err, why);
}

static long
cpu_us(void) {
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static int
convert(const char *path, const char *base, const struct pprof_request *request, int is_last) {
	struct pprof_profile *p, *before = NULL;
	unsigned char *out = NULL;
	size_t len = 0;
	const char *why = "";
	if (profile_read(path, &p) != 0 || (base != NULL && profile_read(base, &before) != 0)) {
		return 1;
	}
	int err = before == NULL ? 0 : pprof_subtract(p, before);
	if (err == 0) {
		err = pprof_encode(p, request, &out, &len, &why);
	}
	if (err == 0 && is_last) {
		fwrite(out, 1, len, stdout);
	}
	free(out);
	pprof_free(before);
	pprof_free(p);
	return err == 0 ? 0 : fail(path, err, why);
}

int
main(int argc, char **argv) {
	struct pprof_request request = {0};
	const char *path = NULL, *base = NULL;
	int times = 1, code = 0;
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";
		if (strncmp(argv[i], "--", 2) != 0) {
			path = argv[i];
			continue;
		}
		switch (argv[i++][2]) {
		case 'b':
			base = strcmp(argv[i - 1], "--base") == 0 ? value : base;
			request.cache_bytes = base == value ? 0 : strtoull(value, NULL, 10);
			break;
		case 'c': request.cache_dir = value; break;
		case 'p': request.pid = atoi(value); break;
		case 's': request.symbolizer = value; break;
		case 't':
			times = strcmp(argv[i - 1], "--times") == 0 ? atoi(value) : times;
			request.default_type = argv[i - 1][3] == 'y' ? value : request.default_type;
			break;
		default: path = NULL; i = argc;
		}
	}
	if (path == NULL) {
		fputs("usage: see the head of convert.c\n", stderr);
		return 2;
	}
	for (int i = 1; i <= times && code == 0; i++) {
		long start = cpu_us();
		code = convert(path, base, &request, i == times);
		if (times > 1) {
			fprintf(stderr, "%ld\n", cpu_us() - start);
		}
	}
	return code;
}
