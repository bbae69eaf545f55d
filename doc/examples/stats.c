/* Reads a few statistics, then prints the general ones. */
#include <inttypes.h>
#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <stdlib.h>

static size_t
read_size(const char *name) {
	size_t value = 0, size = sizeof(value);
	if (mallctl(name, &value, &size, NULL, 0) != 0) {
		fprintf(stderr, "no %s here\n", name);
		exit(1);
	}
	return value;
}

int
main(void) {
	void *p = malloc((size_t)10 << 20);
	/* Statistics are those of a moment; writing to epoch makes it now. */
	uint64_t epoch = 1;
	size_t size = sizeof(epoch);
	mallctl("epoch", &epoch, &size, &epoch, sizeof(epoch));
	printf("allocated %zu, active %zu, resident %zu\n", read_size("stats.allocated"),
	    read_size("stats.active"), read_size("stats.resident"));
	/* Each letter leaves a part out; these leave the general part. */
	malloc_stats_print(NULL, NULL, "mdablxeh");
	free(p);
	return 0;
}
