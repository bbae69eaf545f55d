/*
 * What the kernel says that this process has in memory; for bench_memory.c and bench_pages.c. One
 * thread at a time may ask.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line of /proc/self/smaps_rollup, in KiB; -1: it is not there. */
static long
rollup(const char *name) {
	static char text[4096];
	FILE *in = fopen("/proc/self/smaps_rollup", "r");
	size_t n = in == NULL ? 0 : fread(text, 1, sizeof(text) - 1, in);
	const char *at;

	if (in != NULL)
		fclose(in);
	text[n] = '\0';
	at = strstr(text, name);
	return at == NULL ? -1 : strtol(at + strlen(name), NULL, 10);
}
