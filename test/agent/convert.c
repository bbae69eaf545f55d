/*
 * heap_v2 files as pprof, on stdout: what the agent does with a profile, for the tests and to
 * measure. usage: convert [OPTION VALUE]... FILE [[OPTION VALUE]... FILE]...
 *        --base FILE, --cache DIR, --bytes N, --pid N, --symbolizer PATH, --servers 0|1, --type
 *        NAME
 *        --otlp 1     as OTLP, not compressed
 *        --ages 1     live bytes by age
 *        --times N does all of it so often, and writes the last; microseconds of CPU of each on
 *        stderr
 *        --threads N  so many threads do it at the same time
 *        --memory     what this process takes so far, on stderr
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pprof.h"

/* --otlp 1: the request of OTLP instead. */
static bool is_otlp;
static const struct otlp_attribute attributes[] = {{"service.name", "shop", 0},
    {"process.pid", NULL, 4711}};
static const struct otlp_resource resource = {attributes, 2, "1.2"};

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
		err = is_otlp ? otlp_encode(p, request, &resource, false, &out, &len, &why)
		    : pprof_encode(p, request, &out, &len, &why);
	}
	if (err == 0 && is_last) {
		fwrite(out, 1, len, stdout);
	}
	free(out);
	pprof_free(before);
	pprof_free(p);
	return err == 0 ? 0 : fail(path, err, why);
}

typedef struct work_s {
	const char *path, *base;
	const struct pprof_request *request;
	int code;
} work_t;

static void *
work_run(void *arg) {
	work_t *w = arg;
	w->code = convert(w->path, w->base, w->request, 0);
	return NULL;
}

/* The same in several threads at once; then here, to write it. */
static int
convert_together(const work_t *work, int count) {
	pthread_t threads[64];
	work_t works[64];
	int code = 0;
	count = count < 64 ? count : 64;
	for (int i = 0; i < count; i++) {
		works[i] = *work;
		if (pthread_create(&threads[i], NULL, work_run, &works[i]) != 0) {
			return 2;
		}
	}
	for (int i = 0; i < count; i++) {
		pthread_join(threads[i], NULL);
		code |= works[i].code;
	}
	return code;
}

/* Sets one option from the two words; 0 if they are none. */
static int
option_set(struct pprof_request *request, const char **base, int *times, int *threads,
    char **words) {
	const char *name = words[0], *value = words[1];
	if (strcmp(name, "--base") == 0) {
		*base = value;
	} else if (strcmp(name, "--bytes") == 0) {
		request->cache_bytes = strtoull(value, NULL, 10);
	} else if (strcmp(name, "--cache") == 0) {
		request->cache_dir = value;
	} else if (strcmp(name, "--pid") == 0) {
		request->pid = atoi(value);
	} else if (strcmp(name, "--symbolizer") == 0) {
		request->symbolizer = value;
	} else if (strcmp(name, "--otlp") == 0) {
		is_otlp = atoi(value) != 0;
	} else if (strcmp(name, "--ages") == 0) {
		request->has_ages = atoi(value) != 0;
	} else if (strcmp(name, "--type") == 0) {
		request->default_type = value;
	} else if (strcmp(name, "--servers") == 0) {
		request->use_debuginfod = atoi(value) != 0;
	} else if (strcmp(name, "--times") == 0) {
		*times = atoi(value);
	} else if (strcmp(name, "--threads") == 0) {
		*threads = atoi(value);
	} else {
		return 0;
	}
	return 1;
}

/* Kilobytes that this process has, and had at most. */
static void
memory_tell(void) {
	char line[256];
	FILE *in = fopen("/proc/self/status", "r");
	while (in != NULL && fgets(line, sizeof(line), in) != NULL) {
		if (strncmp(line, "VmHWM", 5) == 0 || strncmp(line, "VmRSS", 5) == 0) {
			fputs(line, stderr);
		}
	}
	if (in != NULL) {
		fclose(in);
	}
}

int
main(int argc, char **argv) {
	struct pprof_request request = {0};
	const char *base = NULL;
	int times = 1, threads = 0, code = 0;
	for (int i = 1; i < argc && code == 0; i++) {
		if (strcmp(argv[i], "--memory") == 0) {
			memory_tell();
			continue;
		}
		if (i + 1 < argc && option_set(&request, &base, &times, &threads, argv + i)) {
			i++;
			continue;
		}
		code = convert_together(&(work_t){argv[i], base, &request, 0}, threads);
		for (int k = 1; k <= times && code == 0; k++) {
			long start = cpu_us();
			code = convert(argv[i], base, &request, k == times);
			if (times > 1) {
				fprintf(stderr, "%ld\n", cpu_us() - start);
			}
		}
	}
	return code;
}
