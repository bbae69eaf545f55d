/*
 * A reader of heap profiles for tests: the numbers of a heap_v2 file as any reader would
 * estimate them, every stack un-sampled by the rate of the first line.
 */
#pragma once

#include "test.h"
#include <math.h>

struct heap_profile {
	uint64_t rate;
	double live_objects, live_bytes;	/* estimates over all stacks */
	double all_objects, all_bytes;		/* the same of the cumulative counts */
	double sampled;				/* live objects as printed */
	int stacks;
	int threads;				/* thread lines of the head */
	bool has_maps;
	bool good;				/* every line is what it may be */
};

TEST_FN void
heap_unsample(double n, double s, double rate, double *objects, double *bytes) {
	double scale;

	if (n <= 0 || s <= 0)
		return;
	scale = 1 / (1 - exp(-(s / n) / rate));
	*objects += n * scale;
	*bytes += s * scale;
}

/* One line of counts; false if it is none. */
TEST_FN bool
heap_counts(const char *line, uint64_t v[4]) {
	char end = 0;
	unsigned long long n[4];

	if (sscanf(line, " t%*[0-9*]: %llu: %llu [%llu: %llu%c", &n[0], &n[1], &n[2], &n[3],
	    &end) != 5 || end != ']')
		return false;
	for (int i = 0; i < 4; i++)
		v[i] = n[i];
	return true;
}

/* The text is changed (cut into lines). */
TEST_FN struct heap_profile
heap_parse(char *text) {
	struct heap_profile h = {0, 0, 0, 0, 0, 0, 0, 0, false, true};
	unsigned long long rate = 0;
	bool in_stack = false;
	int number = 0;

	for (char *line = text, *end; line != NULL && *line != '\0'; line = end) {
		uint64_t v[4];

		end = strchr(line, '\n');
		if (end != NULL)
			*end++ = '\0';
		number++;
		if (number == 1) {
			h.good = sscanf(line, "heap_v2/%llu", &rate) == 1 && rate > 0;
			h.rate = rate;
		} else if (strcmp(line, "MAPPED_LIBRARIES:") == 0) {
			h.has_maps = true;
			break;
		} else if (line[0] == '@') {
			h.stacks++;
			in_stack = true;
		} else if (line[0] == ' ') {
			h.good = heap_counts(line, v) && h.good;
			if (!in_stack) {
				h.threads += line[3] != '*';
			} else if (line[3] == '*') {
				heap_unsample((double)v[0], (double)v[1], (double)h.rate,
				    &h.live_objects, &h.live_bytes);
				heap_unsample((double)v[2], (double)v[3], (double)h.rate,
				    &h.all_objects, &h.all_bytes);
				h.sampled += (double)v[0];
			}
		} else if (line[0] != '#' && line[0] != '\0') {
			h.good = false;
		}
	}
	return h;
}

/* Reads a file into a static buffer of 16 MB. */
TEST_FN struct heap_profile
heap_read(const char *path) {
	static char text[16 << 20];
	struct heap_profile none = {0, 0, 0, 0, 0, 0, 0, 0, false, false};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	if (fd < 0)
		return none;
	while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	close(fd);
	text[len] = '\0';
	return heap_parse(text);
}
